"""Files in and out of prepare_data.py: raw rows from the hub or from disk, prepared rows to parquet and back.

Raw files are streamed, and rows other than code never become Python objects: memory stays at a few rows' tests however
large a file and its row groups are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from verifier import ground_truth as gt

HUB_NAME = "PRIME-RL/Eurus-2-RL-Data"
FILE_TYPES = (".parquet", ".jsonl", ".json")
COLUMNS = ["data_source", "prompt", "ability", "reward_model"]  # what is read of a raw row
SCHEMA = pa.schema(  # what veRL reads of a prepared row
    {
        "data_source": pa.string(),
        "prompt": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
        "ability": pa.string(),
        "reward_model": pa.struct({"style": pa.string(), "ground_truth": pa.string()}),
        "extra_info": pa.struct({"index": pa.int64(), "split": pa.string(), "fn_name": pa.string(), "num_tests": pa.int64()}),
    }
)
READ_ROWS = 32  # a row's tests can be megabytes, so few rows at a time
GROUP_ROWS, GROUP_CHARS = 1000, 32 << 20  # a row group of the output ends at whichever comes first

# Part: one file (Path) or one split of a hub data set (datasets.Dataset).
Part = Any


class DataError(Exception):
    """One sentence: what is wrong with the data and what to do about it."""


def find_parts(source: list[str], validation_source: list[str]) -> dict[str, list[Part]]:
    """The parts each split is read from: {"train": [...]} and, where the source has one, "validation".

    Raises DataError where something is missing, lacks a column or would be both trained and validated on.
    """
    if len(source) == 1 and is_hub_name(source[0]):
        parts = load_hub(source[0])
    else:
        files = [path for name in source for path in files_of(name)]
        train = [path for path in files if not is_validation(path)]
        parts = {"train": train or files}  # validation.parquet alone, named as the source, is meant to be used
        if train and len(train) < len(files):
            parts["validation"] = [path for path in files if is_validation(path)]
    if validation_source:
        files = [path for name in validation_source for path in files_of(name)]
        parts["validation"] = [path for path in files if is_validation(path)] or files
    for part in [part for split in parts.values() for part in split]:
        check_columns(part)
    train_files = {path.resolve() for path in parts["train"] if isinstance(path, Path)}
    if both := [path for path in parts.get("validation", []) if isinstance(path, Path) and path.resolve() in train_files]:
        raise DataError(f"{both[0]} is given for training and for validation; give --validation-source another file")
    return parts


def is_hub_name(name: str) -> bool:
    return (
        re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) is not None
        and not Path(name).exists()
        and Path(name).suffix not in FILE_TYPES
    )


def is_validation(path: Path) -> bool:
    words = re.split(r"[^a-z]+", path.name.lower())
    return "train" not in words and any(word in words for word in ("validation", "valid", "val", "dev", "test"))


def files_of(name: str) -> list[Path]:
    """The parquet files of a folder in the hub's layout (else its JSON lines), or the one file named."""
    path = Path(name).expanduser()
    if path.is_dir():
        for pattern in ("*.parquet", "data/*.parquet", "*.jsonl", "data/*.jsonl"):
            if found := sorted(path.glob(pattern)):
                return found
        raise DataError(f"{path} holds no .parquet or .jsonl file; give the folder of train.parquet, or the files")
    if not path.exists():
        raise DataError(f"{path} does not exist; a source is a folder, parquet or jsonl files, or a hub name")
    if path.suffix not in FILE_TYPES:
        raise DataError(f"{path} is not a .parquet or .jsonl file")
    return [path]


def load_hub(name: str) -> dict[str, list[Part]]:
    """The train and validation splits of a hub data set: downloaded once, then mapped from the cache on disk."""
    import datasets  # slow to import, and only needed here

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # the hub client raises a dozen unrelated types
        raise DataError(
            f"{name} is no local path and cannot be loaded from the hub ({type(error).__name__}: {first_line(error)}); "
            "download its train.parquet and validation.parquet and give their folder as --source"
        ) from error
    if "train" not in found:
        raise DataError(f"{name} has no train split (it has {', '.join(found)})")
    return {split: [found[split]] for split in ("train", "validation") if split in found}


def describe(part: Part) -> tuple[str, int | None, list[str]]:
    """(name, rows or None if only reading would tell, columns)"""
    if not isinstance(part, Path):
        return f"{part.info.dataset_name} {part.split}", part.num_rows, part.column_names
    if part.suffix == ".parquet":
        with open_parquet(part) as file:
            return str(part), file.metadata.num_rows, file.schema_arrow.names
    return str(part), None, list(next(json_lines(part), {}))


def check_columns(part: Part) -> None:
    name, _, columns = describe(part)
    if missing := [column for column in COLUMNS if column not in columns]:
        raise DataError(
            f"{name} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)} (it has: "
            f"{', '.join(columns) or 'none'}); the columns of {HUB_NAME} are needed"
        )


def open_parquet(path: Path) -> pq.ParquetFile:
    try:
        # Without pre-buffering: the hub's file may be one row group, which would be read into memory whole.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as parquet ({first_line(error)}); download or write it again") from error


def json_lines(path: Path) -> Iterator[dict]:
    # Bytes that are not UTF-8 become lone surrogates: the row that holds them is dropped later, not the file.
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path} line {number} is not JSON ({error}); one row a line is expected") from error
            if not isinstance(row, dict):
                raise DataError(f"{path} line {number} is not a JSON object; one row a line is expected")
            yield row


def code_rows(table: pa.Table | pa.RecordBatch) -> list[tuple[int, dict]]:
    """(position, row) of the table's rows of ability "code"."""
    positions = pc.indices_nonzero(pc.equal(pc.cast(table.column("ability"), pa.string()), "code"))
    return list(zip(positions.to_pylist(), table.take(positions).to_pylist(), strict=True))


def read_code_rows(part: Part) -> Iterator[tuple[int, list[tuple[int, dict]]]]:
    """Chunk by chunk: (rows in the chunk, [(position in the chunk, row), ...] of its code rows)."""
    if not isinstance(part, Path):
        for table in part.select_columns(COLUMNS).with_format("arrow").iter(batch_size=READ_ROWS):
            yield table.num_rows, code_rows(table)
    elif part.suffix == ".parquet":
        with open_parquet(part) as file:
            for group in range(file.num_row_groups):
                ability = file.read_row_group(group, columns=["ability"])
                if not code_rows(ability):  # mathematics only: spare decoding the rest
                    yield ability.num_rows, []
                    continue
                for batch in file.iter_batches(READ_ROWS, row_groups=[group], columns=COLUMNS):
                    yield batch.num_rows, code_rows(batch)
    else:
        for row in json_lines(part):
            yield 1, [(0, row)] if row.get("ability") == "code" else []


def write_rows(path: Path, rows: Iterable[dict]) -> int:
    """Writes parquet in row groups of bounded size; returns the number of rows."""
    count, chars, group = 0, 0, []
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for row in rows:
            group.append(row)
            chars += len(row["reward_model"]["ground_truth"])
            if len(group) == GROUP_ROWS or chars >= GROUP_CHARS:
                writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
                count, chars, group = count + len(group), 0, []
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
    return count + len(group)


def read_rows(path: Path, why: str) -> Iterator[dict]:
    with open_parquet(path) as file, tqdm(total=file.metadata.num_rows, desc=why, unit=" rows", disable=None) as bar:
        for batch in file.iter_batches(READ_ROWS):
            yield from batch.to_pylist()
            bar.update(batch.num_rows)


def choose_rows(path: Path, positions: set[int], split: str) -> Iterator[dict]:
    """The rows of a written file at these positions, in the file's order, marked as belonging to `split`."""
    for position, row in enumerate(read_rows(path, f"choosing {split}")):
        if position in positions:
            row["extra_info"]["split"] = split
            yield row


def check_written(path: Path, split: str, rows: int) -> None:
    """Reads a written file again. Raises DataError unless it holds `rows` rows that veRL and the verifier can use."""

    def insist(condition: bool, what: str) -> None:
        if not condition:
            raise DataError(f"{path.name} failed the check after writing: {what} (disk fault, or a bug in this program)")

    insist(pq.read_schema(path).equals(SCHEMA), "wrong columns")
    count = 0
    for count, row in enumerate(read_rows(path, f"checking {path.name}"), 1):
        where = f"row {count}"
        insist([message["role"] for message in row["prompt"]] == ["system", "user"], f"{where} is not a chat prompt")
        insist(all(message["content"].strip() for message in row["prompt"]), f"{where} has an empty message")
        insist(row["extra_info"]["split"] == split, f"{where} is of another split")
        try:
            num_tests = len(gt.parse(row["reward_model"]["ground_truth"]).tests)
        except gt.GroundTruthError:
            num_tests = 0
        insist(num_tests == row["extra_info"]["num_tests"], f"{where} has other tests than were written")
    insist(count == rows, f"{count} rows instead of {rows}")


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
