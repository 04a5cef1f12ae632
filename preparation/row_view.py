"""One row of a parquet file as a person would read it, and a program judged on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from preparation import card, lengths
from preparation.difficulty import reward_options
from preparation.reading import COLUMNS, OPTIONAL, DataError, describe, ending, open_parquet, row_at
from verifier import calls, checkers, scoring
from verifier import ground_truth as gt
from verifier.comparison import Exactly
from verifier.verdict import Verdict

TESTS_SHOWN, CHARACTERS_SHOWN = 3, 2000
# What a terminal would obey instead of showing: control characters, and those that turn the direction of writing.
CONTROLS = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {ord("\n"), ord("\t")}
VISIBLE = {code: repr(chr(code))[1:-1] for code in CONTROLS}


def view(path: Path, index: int | None = None, tokenizer: str | None = None, program: Path | None = None) -> Iterator[str]:
    """The row as lines of text: where it is from, its messages, the rendered chat template, its tests, verdicts.

    Args:
        index: extra_info.index of the row, as reward logs and duplicates.jsonl name it; by default the first row.
        tokenizer: folder or hub name of the model whose chat template is shown.
        program: a Python file to judge on the row's tests.

    Raises DataError where the file, the row, the tokenizer, the program or the verifier cannot be used.
    """
    position, total, row = find_row(path, index)
    info, reward_model = (row.get(name) if isinstance(row.get(name), dict) else {} for name in ("extra_info", "reward_model"))
    yield f"{path}, row {position + 1:,} of {total:,}"
    labels = {"data source": row["data_source"], "ability": row["ability"], **info}
    yield "   ".join(f"{name} {value}" for name, value in labels.items() if name != "checker")
    prompt = row["prompt"]
    is_chat = isinstance(prompt, list) and all(isinstance(message, dict) for message in prompt)
    for message in prompt if is_chat else [{"role": "prompt", "content": prompt}]:
        yield from section(str(message.get("role")), str(message.get("content")))
    if tokenizer and is_chat:
        text = lengths.render(tokenizer)(prompt)
        (tokens,) = lengths.token_counter(tokenizer)([prompt])
        yield from section(f"what the chat template of {tokenizer} makes of it: {tokens:,} tokens", text)
    elif not tokenizer:
        yield "\n(--tokenizer MODEL shows what its chat template makes of this)"
    try:
        truth, checker = gt.parse(reward_model.get("ground_truth")), checkers.of_row(info)
    except gt.GroundTruthError as error:
        yield f"\nIts tests cannot be used: {error}."
        return
    yield from show_tests(truth, checker)
    if program:
        yield from judge(program, truth, checker)


def find_row(path: Path, index: int | None) -> tuple[int, int, dict]:
    """(position, rows of the file, row)"""
    if not path.is_file():
        raise DataError(f"{path} is not a file; --inspect takes a parquet file")
    kinds = describe(path)[1] if ending(path) == ".parquet" else {}
    if not set(COLUMNS) <= set(kinds):
        raise DataError(f"{path} is not a parquet file with the columns {', '.join(COLUMNS)}; --inspect shows rows of those")
    with open_parquet(path) as file:
        total = file.metadata.num_rows
        if not total:
            raise DataError(f"{path} has no rows")
        position = 0 if index is None else position_of(file, path, index)
        row = nth_row(file, position, [name for name in (*COLUMNS, *OPTIONAL) if name in kinds])
    if row is None:
        raise DataError(f"the row of {path} holds text that is not UTF-8")
    return position, total, row


def position_of(file: pq.ParquetFile, path: Path, index: int) -> int:
    column = file.schema_arrow.field("extra_info").type if "extra_info" in file.schema_arrow.names else None
    if not isinstance(column, pa.StructType) or column.get_field_index("index") < 0:
        raise DataError(f"{path} has no column extra_info.index; leave out --index")
    indices = pc.struct_field(file.read(columns=["extra_info.index"])["extra_info"], "index")
    try:
        return indices.to_pylist().index(index)
    except ValueError:
        span = pc.min_max(indices).as_py()
        raise DataError(
            f"{path} has no row of index {index}; the indices in it are from {span['min']} to {span['max']}, not all of them"
        ) from None


def nth_row(file: pq.ParquetFile, position: int, columns: list[str]) -> dict | None:
    group = 0
    while position >= (rows := file.metadata.row_group(group).num_rows):
        group, position = group + 1, position - rows
    batches = file.iter_batches(1, row_groups=[group], columns=columns)
    return row_at(next(itertools.islice(batches, position, None)), 0)


def section(title: str, text: str) -> Iterator[str]:
    yield f"\n---- {title}"
    yield text.translate(VISIBLE)


def show_tests(truth: gt.GroundTruth, checker: checkers.Checker) -> Iterator[str]:
    number = len(truth.tests)
    how = f"calls of {truth.fn_name}" if truth.fn_name else "runs with an input on stdin"
    by = checker.mode or ("a program of the row's own" if checker.program else "the default comparison")
    yield f"\nJudged by {number:,} {how}, compared by {by}."
    if checker.program:
        yield from section("checker", checker.program)
    for position, test in enumerate(truth.tests[:TESTS_SHOWN], 1):
        stdin, expected = readable(test)
        yield from section(f"test {position} of {number:,}, input", card.clip(stdin, CHARACTERS_SHOWN))
        yield from section(f"test {position} of {number:,}, expected", card.clip(expected, CHARACTERS_SHOWN))


def readable(test: gt.Test) -> tuple[str, str]:
    """Input and expected output of a test as text; a call's arguments as Python writes them, with commas between."""
    if isinstance(test.expected, bytes):
        return test.stdin.decode(errors="replace"), test.expected.decode(errors="replace")
    expected = test.expected.value if isinstance(test.expected, Exactly) else test.expected
    return ", ".join(map(repr, calls.decode_args(test.stdin))), repr(expected)


def judge(program: Path, truth: gt.GroundTruth, checker: checkers.Checker) -> Iterator[str]:
    """One line a test, and the score."""
    try:
        code = program.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the program {program} cannot be read ({error}); give a Python file") from error
    try:
        indices, results = scoring.judge_program(code, truth, reward_options(), checker)
    except (gt.GroundTruthError, checkers.CheckerError) as error:
        raise DataError(f"the row cannot judge a program: {error}") from error
    if results[0].verdict is Verdict.IE:
        raise DataError(f"the verifier cannot run programs here ({results[0].detail}); see python3 code_reward.py")
    yield f"\n---- {program} judged"
    for index, result in zip(indices, results, strict=True):
        yield f"{index + 1:>5}  {result.verdict.value:<3} {result.cpu_seconds:7.2f} s CPU  {result.detail}".rstrip()
    passed = sum(result.verdict is Verdict.AC for result in results)
    yield f"passed {passed} of {len(results)}: pass rate {passed / len(results):.3f}"
