"""PRIME-RL/Eurus-2-RL-Data, or rows in its layout, as the chat-format parquet that veRL trains on.

    python prepare_data.py                                               # from the Hugging Face hub (1.8 GB)
    python prepare_data.py --source DIR --out ~/data/small               # a folder, e.g. of data/generate.py --out DIR
    python prepare_data.py --source train.parquet --validation-source validation.parquet
    python prepare_data.py --tokenizer Qwen/Qwen2.5-Coder-3B-Instruct    # real prompt lengths, not estimates

Kept: rows of ability "code" whose tests can be read and whose prompt is short enough. Each prompt is rebuilt from the
problem's statement; the dataset's own system message and closing instruction go. Tests of which the dataset holds only
the beginning ("1 2 3 ...") are removed, as no program can pass them; other ground truth is stored as it was.

Written to --out, all or nothing: train.parquet (every train row kept), train{N}.parquet (N of them, drawn by --seed)
and validation.parquet. A source without a validation split gives up a tenth of its train rows (1,024 at most) for one.
The same source, options and library versions give the same bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from training.data_files import (
    HUB_NAME,
    DataError,
    Part,
    check_written,
    choose_rows,
    describe,
    find_parts,
    first_line,
    read_code_rows,
    write_rows,
)
from verifier import ground_truth as gt

CODE_GEN_SYSTEM = "You are a competitive programming assistant."
CODE_GEN_USER_TEMPLATE = (
    "Read the problem below and write a Python solution that reads from stdin and writes to stdout. "
    "Return only one Python code block, with no explanations.\n\n{problem}"
)
CODE_GEN_CALL_TEMPLATE = (
    "Read the problem below and write a Python solution that defines the function `{fn_name}`. "
    "It is called with the arguments and must return the answer; it must not read stdin. "
    "Return only one Python code block, with no explanations.\n\n{problem}"
)
CLOSING_INSTRUCTION = re.compile(
    r"Write\s+Python\s+code\s+to\s+solve\s+the\s+problem\.\s*Present\s+the\s+code\s+in\s*"
    r"```\s*python\s+Your\s+code\s*```\s*at\s+the\s+end\.?\s*\Z",
    re.IGNORECASE,
)
SEVERAL_ANSWERS = re.compile(
    r"\bany of (?:them|these|those)\b|\bin any order\b"
    r"|\bany (?:\w+ )?(?:valid|possible|correct|suitable|optimal) (?:\w+ )?(?:answer|solution|output|way|order)"
    r"|\b(?:several|many|multiple) (?:\w+ )?(?:answers|solutions|outputs)\b",
    re.IGNORECASE,
)
MAX_HELD_OUT = 1024  # as many code rows as the hub's validation split


@dataclass(frozen=True)
class Options:
    max_prompt_tokens: int
    count_tokens: Callable[[list[dict[str, str]]], int]
    keep_truncated: bool = False
    drop_multi_answer: bool = False
    drop_duplicates: bool = False


@dataclass
class Report:
    """What became of one split's rows."""

    counts: Counter[str] = field(default_factory=Counter)  # by outcome; they add up to the rows read
    notes: Counter[str] = field(default_factory=Counter)
    prompt_tokens: list[int] = field(default_factory=list)  # of every usable row, before the length limit
    statements: set[bytes] = field(default_factory=set)  # digests of those kept


# ---- one row


def strip_closing_instruction(text: str) -> str:
    """The statement without the dataset's "Write Python code to solve the problem. ..." at its very end."""
    return CLOSING_INSTRUCTION.sub("", text).strip()


def build_prompt(statement: str, fn_name: str | None) -> list[dict[str, str]]:
    """The chat messages for one problem; a call-based one (fn_name given) asks for that function."""
    if fn_name:
        user = CODE_GEN_CALL_TEMPLATE.format(fn_name=fn_name, problem=statement)
    else:
        user = CODE_GEN_USER_TEMPLATE.format(problem=statement)
    return [{"role": "system", "content": CODE_GEN_SYSTEM}, {"role": "user", "content": user}]


def user_message(prompt: Any) -> str | None:
    """The one user message of a raw prompt: a list of messages, the same as a JSON string, or plain text.

    None if there is no user message, more than one, or a turn of another role (system messages are passed over).
    """
    if isinstance(prompt, str):
        try:
            decoded = json.loads(prompt)
        except (ValueError, RecursionError):
            return prompt
        prompt = decoded if isinstance(decoded, list) else [{"role": "user", "content": prompt}]
    messages = list(prompt) if isinstance(prompt, Iterable) else []  # a list, or pandas' numpy array
    if not all(isinstance(message, dict) for message in messages):
        return None
    turns = [message for message in messages if message.get("role") != "system"]
    if len(turns) != 1 or turns[0].get("role") != "user" or not isinstance(turns[0].get("content"), str):
        return None
    if any(message.get("content") == CODE_GEN_SYSTEM for message in messages):
        raise DataError("the source holds rows that this program has prepared already; give --source the raw data")
    return turns[0]["content"]


def is_cut_off(text: str) -> bool:
    """Whether a test's input or output is only the beginning of the real one.

    Codeforces shows some 500 characters of a test, then "...", and that display is what was scraped. Contests also
    draw maps with dots: a last line as wide as the one before it, or a short word ending in dots ("RL..."), is whole.
    """
    lines = text.rstrip().splitlines()
    if not lines or not lines[-1].endswith("...") or (len(lines) > 1 and len(lines[-1]) == len(lines[-2])):
        return False
    before = lines[-1].rstrip(".")
    three_dots = len(lines[-1]) - len(before) == 3
    return len(text) >= 250 or (three_dots and (not before or before[-1].isspace() or before[-1].isdigit()))


def ground_truth_fault(ground_truth: Any) -> str:
    """The reason to report for a ground truth that the verifier refuses."""
    try:
        tests = json.loads(ground_truth or "null") if isinstance(ground_truth, str) else ground_truth
    except (ValueError, RecursionError):
        return "ground truth is not JSON"
    if tests is None or tests == {}:
        return "no tests"
    if not isinstance(tests, dict) or not all(isinstance(tests.get(side), list) for side in ("inputs", "outputs")):
        return "ground truth is not inputs and outputs"
    if len(tests["inputs"]) != len(tests["outputs"]):
        return "inputs and outputs differ in number"
    return "tests cannot be read" if tests["inputs"] else "no tests"


def usable_tests(ground_truth: Any, keep_truncated: bool) -> tuple[str, str | None, int, int] | str:
    """(ground truth to store, fn_name, its tests, tests removed from it), or why there are none."""
    if isinstance(ground_truth, dict | list):
        ground_truth = json.dumps(ground_truth)
    elif isinstance(ground_truth, bytes):
        ground_truth = ground_truth.decode(errors="surrogateescape")
    try:
        parsed = gt.parse(ground_truth)
    except gt.GroundTruthError:
        return ground_truth_fault(ground_truth)
    if parsed.fn_name is not None:
        return ground_truth, parsed.fn_name, len(parsed.tests), 0
    pairs = [(test.stdin.decode(errors="replace"), test.expected.decode(errors="replace")) for test in parsed.tests]
    if not any(expected.strip() for _, expected in pairs):
        return "every expected output is empty"  # a program that prints nothing would earn the full reward
    whole = [pair for pair in pairs if keep_truncated or not any(map(is_cut_off, pair))]
    if not whole:
        return "every test is cut off ('...')"
    if len(whole) < len(pairs):
        inputs, outputs = zip(*whole, strict=True)
        ground_truth = json.dumps({"inputs": inputs, "outputs": outputs})
    return ground_truth, None, len(whole), len(pairs) - len(whole)


def convert(row: dict, index: int, split: str, options: Options, report: Report, validation: set[bytes]) -> dict | str:
    """The output row, or why the raw row is dropped. `validation`: digests of the validation split's statements."""
    text = user_message(row.get("prompt"))
    if text is None:
        return "prompt is not one user message"
    statement = strip_closing_instruction(text)
    if not statement:
        return "no problem statement"
    reward_model = row["reward_model"] if isinstance(row.get("reward_model"), dict) else {}
    usable = usable_tests(reward_model.get("ground_truth"), options.keep_truncated)
    if isinstance(usable, str):
        return usable
    ground_truth, fn_name, num_tests, removed = usable
    try:
        digest = hashlib.sha1(" ".join(statement.lower().split()).encode()).digest()
        ground_truth.encode()
    except UnicodeEncodeError:
        return "text is not valid Unicode"
    several = SEVERAL_ANSWERS.search(" ".join(statement.split())) is not None
    if several and options.drop_multi_answer:
        return "statement allows several answers"
    if options.drop_duplicates and (digest in report.statements or digest in validation):
        return "statement occurred before"
    prompt = build_prompt(statement, fn_name)
    tokens = options.count_tokens(prompt)
    report.prompt_tokens.append(tokens)
    if tokens > options.max_prompt_tokens:
        return f"prompt over {options.max_prompt_tokens} tokens"
    report.statements.add(digest)
    report.notes["tests removed: cut off ('...')"] += removed
    report.notes["statement allows several answers (--drop-multi-answer)"] += several
    report.notes["statement is in validation too (--drop-duplicates)"] += digest in validation
    report.notes["no closing instruction found to remove"] += CLOSING_INSTRUCTION.search(text) is None
    return {
        "data_source": str(row.get("data_source") or "unknown"),
        "prompt": prompt,
        "ability": "code",
        "reward_model": {"style": str(reward_model.get("style") or "rule"), "ground_truth": ground_truth},
        "extra_info": {"index": index, "split": split, "fn_name": fn_name or "", "num_tests": num_tests},
    }


def token_counter(tokenizer: str | None) -> Callable[[list[dict[str, str]]], int]:
    """A function from chat messages to the tokens of the prompt veRL makes of them; without a tokenizer, an estimate."""
    if tokenizer is None:
        return lambda messages: -(-sum(len(message["content"]) for message in messages) // 4)
    from transformers import AutoTokenizer  # slow to import

    def count(messages: list[dict[str, str]]) -> int:
        text = loaded.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return len(loaded(text, add_special_tokens=False, verbose=False)["input_ids"])

    try:
        loaded = AutoTokenizer.from_pretrained(os.path.expanduser(tokenizer))
        count(build_prompt("probe", None))
    except Exception as error:  # the hub client, the loader and the template each have exceptions of their own
        raise DataError(
            f"--tokenizer {tokenizer} cannot be used ({type(error).__name__}: {first_line(error)}); give the folder or "
            "hub name of an instruct model, whose tokenizer has a chat template"
        ) from error
    return count


# ---- files


def convert_split(parts: list[Part], split: str, options: Options, report: Report, validation: set[bytes]) -> Iterator[dict]:
    """The output rows of one split, in the source's order; `index` counts its raw rows from 0."""
    start = 0
    total = sum(describe(part)[1] or 0 for part in parts)
    with tqdm(total=total or None, desc=f"reading {split}", unit=" rows", disable=None) as progress:
        for part in parts:
            for number, rows in read_code_rows(part):
                report.counts["not code"] += number - len(rows)
                for position, row in rows:
                    output = convert(row, start + position, split, options, report, validation)
                    if isinstance(output, dict):
                        yield output
                    report.counts["kept" if isinstance(output, dict) else output] += 1
                start += number
                progress.update(number)


def hold_out(work: Path, rows: int, seed: int) -> tuple[int, int]:
    """Moves a tenth of work/train.parquet's rows to work/validation.parquet. Returns (train, validation) rows."""
    if rows < 2:
        raise DataError("the source has no validation split and only one usable row; give --validation-source a file")
    held = set(random.Random(seed).sample(range(rows), max(1, min(MAX_HELD_OUT, rows // 10))))
    everything = (work / "train.parquet").rename(work / "everything.parquet")
    validation = write_rows(work / "validation.parquet", choose_rows(everything, held, "validation"))
    train = write_rows(work / "train.parquet", choose_rows(everything, set(range(rows)) - held, "train"))
    return train, validation


def write_all(
    work: Path, parts: dict[str, list[Part]], num_train: int, seed: int, options: Options
) -> tuple[dict[str, Report], dict[str, int]]:
    """Writes the three files to `work` and checks them. Returns ({split: Report}, {file name: rows})."""
    reports = {split: Report() for split in ("train", "validation") if split in parts}
    rows: dict[str, int] = {}
    for split in reversed(reports):  # validation first, as train is compared with its statements
        validation = reports["validation"].statements if split == "train" and "validation" in reports else set()
        converted = convert_split(parts[split], split, options, reports[split], validation)
        rows[split] = write_rows(work / f"{split}.parquet", converted)
        if not rows[split]:
            why = ", ".join(f"{count:,} {reason}" for reason, count in reports[split].counts.items() if count)
            raise DataError(f"no {split} row is left ({why or 'the source has no rows'})")
    if "validation" not in parts:
        rows["train"], rows["validation"] = hold_out(work, rows["train"], seed)
    subset = f"train{num_train}.parquet"
    drawn = set(random.Random(seed).sample(range(rows["train"]), min(num_train, rows["train"])))
    write_rows(work / subset, choose_rows(work / "train.parquet", drawn, "train"))
    written = {subset: len(drawn), "train.parquet": rows["train"], "validation.parquet": rows["validation"]}
    for name, count in written.items():
        check_written(work / name, "validation" if name == "validation.parquet" else "train", count)
    return reports, written


def prepare(
    parts: dict[str, list[Part]], out: Path, num_train: int, seed: int, options: Options
) -> tuple[dict[str, Report], dict[str, int]]:
    """Writes the three files to `out`. Returns ({split: Report}, {file name: rows}).

    Raises DataError, OSError or pa.ArrowException; `out` is then as it was before.
    """
    targets = [(out / name).resolve() for name in ("train.parquet", f"train{num_train}.parquet", "validation.parquet")]
    for part in (part for split in parts.values() for part in split):
        if isinstance(part, Path) and part.resolve() in targets:
            raise DataError(f"{part} is a source and would be overwritten; give --out another folder")
    created = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=".prepare-", dir=out)  # renaming needs the same file system
    except OSError as error:
        raise DataError(f"cannot write to {out} ({error.strerror}); give --out a folder that can be written") from error
    try:
        with temporary as work:
            reports, written = write_all(Path(work), parts, num_train, seed, options)
            for name in written:
                Path(work, name).replace(out / name)
    except BaseException:
        if created:
            with contextlib.suppress(OSError):
                out.rmdir()
        raise
    return reports, written


def print_report(reports: dict[str, Report], max_prompt_tokens: int, estimated: bool) -> None:
    """What was dropped and why, what of the kept rows is worth knowing, and how long the prompts are."""
    outcomes = list(dict.fromkeys(name for report in reports.values() for name, n in report.counts.items() if n))
    lines = [("rows read", lambda report: sum(report.counts.values()))]
    lines += [(f"  {name}", lambda report, name=name: report.counts[name]) for name in outcomes if name != "kept"]
    lines += [("kept", lambda report: report.counts["kept"])]
    notes = list(dict.fromkeys(name for report in reports.values() for name, n in report.notes.items() if n))
    lines += [(f"  {name}", lambda report, name=name: report.notes[name]) for name in notes]
    width = max(len(name) for name, _ in lines)
    print(f"{'':{width}}" + "".join(f"{split:>12}" for split in reports))
    for name, value in lines:
        print(f"{name:{width}}" + "".join(f"{value(report):>12,}" for report in reports.values()))
    lengths = sorted(reports["train"].prompt_tokens)
    quantiles = ", ".join(f"{q}% {lengths[(len(lengths) - 1) * q // 100]:,}" for q in (0, 50, 90, 99, 100))
    shares = ", ".join(
        f"<= {limit:,}: {100 * sum(n <= limit for n in lengths) / len(lengths):.1f}%"
        for limit in sorted({512, 1024, 2048, max_prompt_tokens})
    )
    how = "estimated, 4 characters each" if estimated else "with the chat template"
    print(f"prompt tokens of usable train rows ({how}), quantiles: {quantiles}; shares {shares}")


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Eurus-2-RL-Data (or data in its layout) -> veRL's chat-format parquet. Writes train.parquet, "
        "train{N}.parquet and validation.parquet, all or nothing."
    )
    add = parser.add_argument
    add("--source", nargs="+", default=[HUB_NAME], metavar="S", help="hub name, folder, or parquet/jsonl files")
    add("--validation-source", nargs="+", default=[], metavar="S", help="folder or files of the validation split")
    add("--out", default="~/data/eurus2", help="folder to write to (default: %(default)s)")
    add("--num-train", type=positive, default=1000, metavar="N", help="rows in train{N}.parquet (default: %(default)s)")
    add("--seed", type=int, default=42, help="which rows are drawn (default: %(default)s)")
    add("--max-prompt-tokens", type=positive, default=512, metavar="N", help="longer ones go (default: %(default)s)")
    add("--tokenizer", help="folder or hub name; without it a token is 4 characters of the messages")
    add("--keep-truncated", action="store_true", help="keep tests that end in '...'")
    add("--drop-multi-answer", action="store_true", help="drop statements that allow several answers")
    add("--drop-duplicates", action="store_true", help="drop statements seen before, or in validation")
    args = parser.parse_args(arguments)
    out = Path(args.out).expanduser()
    try:
        parts = find_parts(args.source, args.validation_source)
        options = Options(
            max_prompt_tokens=args.max_prompt_tokens,
            count_tokens=token_counter(args.tokenizer),
            keep_truncated=args.keep_truncated,
            drop_multi_answer=args.drop_multi_answer,
            drop_duplicates=args.drop_duplicates,
        )
        reports, written = prepare(parts, out, args.num_train, args.seed, options)
    except (DataError, OSError, pa.ArrowException) as error:
        print(f"prepare_data.py: {error}; nothing in {out} was changed", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"prepare_data.py: interrupted; nothing in {out} was changed", file=sys.stderr)
        return 130
    for split, split_parts in parts.items():
        print(f"{split} from {', '.join(describe(part)[0] for part in split_parts)}")
    print_report(reports, args.max_prompt_tokens, estimated=args.tokenizer is None)
    if "validation" not in parts:
        print(f"the source has no validation split: {written['validation.parquet']:,} train rows were held out for it")
    if written["train.parquet"] < args.num_train:
        print(f"only {written['train.parquet']:,} train rows are left of the {args.num_train:,} asked for")
    for name, rows in written.items():
        print(f"wrote {out / name}: {rows:,} rows")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary files are removed
    raise SystemExit(main())
