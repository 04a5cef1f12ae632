"""PRIME-RL/Eurus-2-RL-Data, or rows in its layout, as the chat-format parquet that veRL trains on.

    python prepare_data.py                                               # from the Hugging Face hub (1.8 GB)
    python prepare_data.py --source DIR --out ~/data/small               # a folder, e.g. of data/generate.py --out DIR
    python prepare_data.py --source train.parquet --validation-source validation.parquet
    python prepare_data.py --tokenizer Qwen/Qwen2.5-Coder-3B-Instruct    # real prompt lengths, not estimates
    python prepare_data.py --inspect ~/data/eurus2/train.parquet --index 49 --program mine.py

Kept: rows of ability "code" whose tests can be read, whose task can be solved from its text in Python, and whose prompt is
short enough. Each prompt is rebuilt from the problem's statement; the dataset's own system message and closing instruction
go. Tests that no program can pass (cut off, or written as a page displays them) are removed; other tests on standard
input are stored as they were, calls of a function in one layout.

Written to --out, all or nothing: train.parquet (every train row kept), train{N}.parquet (N of them, drawn by --seed),
validation.parquet, duplicates.jsonl (what train repeats, with its partners) and a card of it all (card.md, card.json).
A source without a validation split gives up a tenth of its train rows (1,024 at most) for one. The same source, options
and library versions give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

import pyarrow as pa

from preparation import card, duplicates, lengths, row_view
from preparation.arguments import path
from preparation.cleaning import Rules
from preparation.difficulty import Sampling
from preparation.pipeline import HELD_OUT, Settings, prepare
from preparation.reading import HUB_NAME, DataError, open_source
from verifier.isolation import IsolationError


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def share(text: str) -> float:
    if not 0 < (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return number


def not_negative(text: str) -> float:
    if not 0 <= (number := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not 0 or more")
    return number


def band(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        limits = float(low), float(high)
    except ValueError:
        limits = (1.0, 0.0)
    if not colon or not 0 <= limits[0] <= limits[1] <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not two pass rates like 0.05:0.95")
    return limits


def parser() -> argparse.ArgumentParser:
    described = argparse.ArgumentParser(
        description="Eurus-2-RL-Data (or data in its layout) -> veRL's chat-format parquet, with a card. All or nothing."
    )
    add = described.add_argument
    add("--source", nargs="+", default=[HUB_NAME], metavar="S", help="hub name, folder, or parquet/jsonl files")
    add("--validation-source", nargs="+", default=[], metavar="S", help="folder or files of the validation split")
    add("--revision", help="commit, branch or tag of the hub's data set (default: its main branch)")
    add("--out", type=path, default="~/data/eurus2", help="folder to write to (default: %(default)s)")
    add("--num-train", type=positive, default=1000, metavar="N", help="rows in train{N}.parquet (default: %(default)s)")
    add("--seed", type=int, default=42, help="which rows are drawn (default: %(default)s)")
    add("--max-prompt-tokens", type=positive, default=512, metavar="N", help="longer ones go (default: %(default)s)")
    add("--tokenizer", help="folder or hub name; without it a token is 4 characters of the messages")

    add = described.add_argument_group("cleaning").add_argument
    add("--keep-unusable", action="store_true", help="keep rows without tests that can be read; the reward scores them 0")
    add("--keep-truncated", action="store_true", help="keep tests that end in '...'")
    add("--keep-display-tests", action="store_true", help="keep tests written as a page shows them: N = 9, K = 4")
    add("--max-test-mb", type=not_negative, default=10, metavar="M", help="larger tests are removed (default: %(default)s MiB)")
    add("--keep-images", action="store_true", help="keep statements that need a picture")
    add("--keep-other-languages", action="store_true", help="keep statements that demand a language other than Python")
    add("--drop-multi-answer", action="store_true", help="drop statements that allow several answers, unless a checker judges")
    add("--drop-call-based", action="store_true", help="drop problems whose tests call a function")
    add("--keep-call-layout", action="store_true", help="keep calls as each row writes them, not in one layout")

    add = described.add_argument_group("duplicates").add_argument
    add(
        "--drop-duplicates",
        nargs="?",
        choices=("none", "exact", "near"),
        default="exact",
        const="near",
        help="drop train rows that repeat another's statement, or nearly so; unless none, those like a validation row go "
        "too (default: exact; without a word: near)",
    )
    add("--similarity", type=share, default=0.8, metavar="S", help="near from which Jaccard similarity (default: %(default)s)")
    add(
        "--benchmarks",
        nargs="+",
        default=[],
        type=path,
        metavar="FILE",
        help="HumanEval, MBPP, LiveCodeBench: not to be in train",
    )

    add = described.add_argument_group("difficulty, sampled from a server of OpenAI's API such as vllm serve").add_argument
    add("--pass-rate", type=band, metavar="LOW:HIGH", help="keep train problems with a mean score in this band")
    add("--server", default="http://127.0.0.1:8000/v1", metavar="URL", help="(default: %(default)s)")
    add("--model", help="the name under which the server has the model")
    add("--samples", type=positive, default=8, metavar="K", help="responses a problem (default: %(default)s)")
    add("--temperature", type=not_negative, default=1.0, metavar="T", help="(default: %(default)s)")
    add("--max-response-tokens", type=positive, default=1024, metavar="N", help="(default: %(default)s)")
    add("--concurrency", type=positive, default=16, metavar="N", help="problems at once (default: %(default)s)")

    add = described.add_argument_group("look at a row instead").add_argument
    add("--inspect", type=path, metavar="FILE", help="show a row of a parquet file, prepared or raw")
    add("--index", type=int, metavar="N", help="extra_info.index of the row (default: the first row)")
    add("--program", type=path, metavar="FILE", help="judge this Python program on the row")
    return described


def settings_of(args: argparse.Namespace) -> Settings:
    """Raises DataError for a benchmark that cannot be read."""
    sampling = None
    if args.pass_rate:
        sampling = Sampling(
            url=args.server,
            model=args.model,
            low=args.pass_rate[0],
            high=args.pass_rate[1],
            samples=args.samples,
            temperature=args.temperature,
            max_tokens=args.max_response_tokens,
            concurrency=args.concurrency,
        )
    return Settings(
        out=args.out,
        num_train=args.num_train,
        seed=args.seed,
        rules=Rules(
            keep_unusable=args.keep_unusable,
            keep_truncated=args.keep_truncated,
            keep_display_tests=args.keep_display_tests,
            keep_images=args.keep_images,
            keep_other_languages=args.keep_other_languages,
            drop_multi_answer=args.drop_multi_answer,
            drop_call_based=args.drop_call_based,
            keep_call_layout=args.keep_call_layout,
            max_test_bytes=int(args.max_test_mb * (1 << 20)),
        ),
        max_prompt_tokens=args.max_prompt_tokens,
        tokenizer=args.tokenizer,
        drop_duplicates=args.drop_duplicates,
        similarity=args.similarity,
        tasks=tuple(task for file in args.benchmarks for task in duplicates.read_benchmark(file)),
        sampling=sampling,
    )


def report(described: dict, settings: Settings) -> None:
    """What was dropped and why, what of the kept rows is worth knowing, how long the prompts are."""
    splits = described["splits"]
    for split, files in described["source"].items():
        print(f"{split} from {', '.join(x['file'] + (' of ' + x['hub'] if 'hub' in x else '') for x in files)}")
    lines = [[name.replace("- ", "  "), *numbers] for name, *numbers in card.row_lines(splits)]
    width = max(len(name) for name, *_ in lines)
    for name, *numbers in [["", *splits], *lines]:
        print(f"{name:{width}}" + "".join(f"{number:>12}" for number in numbers))
    tokens = splits["train"]["prompt tokens"]
    shares = ", ".join(f"over {limit}: {part:.1%}" for limit, part in tokens["share over"].items())
    print(f"prompt tokens of usable train rows ({described['prompt lengths']}): {card.spread(tokens['quantiles'])}; {shares}")
    print(*lengths.bars(tokens["histogram"]), sep="\n")
    files = described["files"]
    if HELD_OUT in splits["train"]["dropped"]:
        held_out = files["validation.parquet"]["rows"]
        print(f"the source has no validation split: {held_out:,} train rows were held out for it")
    if files["train.parquet"]["rows"] < settings.num_train:
        print(f"only {files['train.parquet']['rows']:,} train rows are left of the {settings.num_train:,} asked for")
    for name, file in files.items():
        print(f"wrote {settings.out / name}: {file['rows']:,} rows")
    print(f"what it is made of: {settings.out / 'card.md'}; what train repeats: {settings.out / 'duplicates.jsonl'}")


def main(arguments: list[str] | None = None) -> int:
    command = parser()
    args = command.parse_args(arguments)
    if args.pass_rate and not args.model:
        command.error("--pass-rate needs --model, the name under which the server has the model")
    if args.model and not args.pass_rate:
        command.error("--model is asked for the sake of --pass-rate LOW:HIGH; give both, or neither")
    if not args.inspect and (args.index is not None or args.program):
        command.error("--index and --program go with --inspect FILE")
    sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character is no reason to fail
    unchanged = f"; nothing {'else ' if args.pass_rate else ''}in {args.out} was changed"
    try:
        if args.inspect:
            for line in row_view.view(args.inspect, args.index, args.tokenizer, args.program):
                print(line)
        else:
            settings = settings_of(args)
            report(prepare(open_source(args.source, args.validation_source, args.revision), settings), settings)
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return 0
    except (DataError, IsolationError, OSError, pa.ArrowException) as error:
        print(f"prepare_data.py: {error}{'' if args.inspect else unchanged}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"prepare_data.py: interrupted{unchanged}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    for request in (signal.SIGTERM, signal.SIGHUP):  # so that temporary files are removed
        if signal.getsignal(request) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(request, lambda number, _: sys.exit(128 + number))
    raise SystemExit(main())
