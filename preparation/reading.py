"""Raw rows from the hub or from disk, a few at a time.

Rows other than code never become Python objects, and a parquet file is read by column and row group, so memory stays at
a few rows' tests however large the file and its row groups are. What is wrong with a file is a DataError: one sentence.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HUB_NAME = "PRIME-RL/Eurus-2-RL-Data"
FILE_TYPES = (".parquet", ".jsonl", ".json")
# What is read of a raw row, and what each column may hold.
COLUMNS = {
    "data_source": ("text",),
    "prompt": ("text", "a list"),
    "ability": ("text",),
    "reward_model": ("a record",),
}
OPTIONAL = ("extra_info",)  # only for a checker in it
LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    *(pa.types.is_list_view, pa.types.is_large_list_view),
)
READ_ROWS = 128  # a row's tests can be megabytes, so few rows at a time
BUFFER_BYTES = 1 << 20


class DataError(Exception):
    """One sentence: what is wrong with the data and what to do about it."""


@dataclass(frozen=True)
class Source:
    """Where the rows come from: `splits` is {"train": files} and, where there is one, "validation"."""

    splits: dict[str, list[Path]]
    hub: str = ""  # the data set's name, where the files are the hub client's cache
    revision: str = ""  # the hub's commit
    rows: dict[Path, int | None] = field(default_factory=dict)  # of each file; None where only reading tells


def open_source(source: list[str], validation_source: list[str], revision: str | None = None) -> Source:
    """Finds the files of each split and looks at their columns.

    Raises DataError where something is missing, has other columns or types, or would be both trained and validated on.
    """
    hub = commit = ""
    if len(source) == 1 and is_hub_name(source[0]):
        folder = download(source[0], revision)
        hub, commit, source = source[0], folder.name, [str(folder)]
    elif revision:
        raise DataError("--revision names a commit of a data set on the hub, and --source is a local path; leave it out")
    files = [path for name in source for path in files_of(name)]
    train = [path for path in files if not is_validation(path)]
    splits = {"train": train or files}  # validation.parquet alone, named as the source, is meant to be used
    if train and len(train) < len(files):
        splits["validation"] = [path for path in files if is_validation(path)]
    if validation_source:
        files = [path for name in validation_source for path in files_of(name)]
        splits["validation"] = [path for path in files if is_validation(path)] or files
    rows = {path: check_columns(paths, path) for paths in splits.values() for path in paths}
    train_files = {path.resolve() for path in splits["train"]}
    if both := [path for path in splits.get("validation", []) if path.resolve() in train_files]:
        raise DataError(f"{both[0]} is given for training and for validation; give --validation-source another file")
    return Source(splits, hub, commit, rows)


def is_hub_name(name: str) -> bool:
    return (
        re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) is not None and not Path(name).exists() and ending(name) not in FILE_TYPES
    )


def ending(path: Path | str) -> str:
    """What a file's name ends with, in small letters: ".parquet" of TRAIN.PARQUET."""
    return Path(path).suffix.lower()


def is_validation(path: Path) -> bool:
    words = re.split(r"[^a-z]+", path.name.lower())
    return "train" not in words and any(word in words for word in ("validation", "valid", "val", "dev", "test"))


def files_of(name: str) -> list[Path]:
    """The parquet files of a folder in the hub's layout (else its JSON lines), or the one file named."""
    if not name:
        raise DataError("a source without a name is given; a source is a folder, parquet or jsonl files, or a hub name")
    path = Path(os.path.expanduser(name))
    if path.is_dir():
        if not os.access(path, os.R_OK | os.X_OK):
            raise DataError(f"the folder {path} cannot be read (permission denied); run as a user who may")
        # Hidden files are no data: macOS puts a ._train.parquet beside each file that it copies.
        for kind, pattern in itertools.product((".parquet", ".jsonl"), ("[!.]*", "data/[!.]*")):
            if found := sorted(file for file in path.glob(pattern) if ending(file) == kind):
                return found
        raise DataError(f"{path} holds no .parquet or .jsonl file; give the folder of train.parquet, or the files")
    if not path.exists():
        raise DataError(f"{path} does not exist; a source is a folder, parquet or jsonl files, or a hub name")
    if ending(path) not in FILE_TYPES:
        raise DataError(f"{path} is not a .parquet or .jsonl file")
    return [path]


def download(name: str, revision: str | None = None) -> Path:
    """The folder of a hub data set's parquet files, in the hub client's cache; its name is the commit.

    No finished file is fetched twice, an unfinished one from where it broke off, whatever ended it. Without a network the
    cache answers.
    """
    from huggingface_hub import HfApi, snapshot_download  # slow to import, and only needed here
    from huggingface_hub.utils import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        info = None
        with contextlib.suppress(Exception):  # the client, asking next, answers from its cache or says what is wrong
            info = HfApi().dataset_info(name, revision=revision, files_metadata=True)
        for file in info.siblings or () if info else ():
            if file.lfs and file.rfilename.endswith(".parquet"):
                fetch(name, info.sha, file.rfilename, file.lfs.sha256, file.lfs.size)
        folder = Path(snapshot_download(name, repo_type="dataset", revision=revision, allow_patterns="*.parquet"))
    except Exception as error:  # the hub client raises a dozen unrelated types
        raise DataError(
            f"{name} is no local path and cannot be loaded from the hub ({type(error).__name__}: {first_line(error)}); "
            "try again, or download its train.parquet and validation.parquet and give "
            "their folder as --source"
        ) from error
    if not folder.exists():
        raise DataError(f"{name} on the hub holds no parquet file; give --source a data set in the layout of {HUB_NAME}")
    return folder


def fetch(name: str, commit: str, file: str, digest: str, size: int) -> None:
    """Brings one file into the hub client's cache, from where an earlier run left off.

    The client itself keeps nothing of a download that was stopped. What has arrived waits under the name that its older
    releases used for this.

    Args:
        digest: SHA-256 of the file, under which the cache keeps it.
        size: bytes.
    """
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.file_download import http_get, repo_folder_name
    from huggingface_hub.utils import build_hf_headers

    blob = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type="dataset"), "blobs", digest)
    if blob.exists():
        return
    blob.parent.mkdir(parents=True, exist_ok=True)
    unfinished = blob.with_name(f"{digest}.incomplete")
    with unfinished.open("ab") as arrived:
        with contextlib.suppress(OSError):  # where files cannot be locked, the digest tells whether two runs wrote to it
            fcntl.flock(arrived, fcntl.LOCK_EX)
        if blob.exists():
            return
        if (start := arrived.seek(0, os.SEEK_END)) > size:
            start = arrived.truncate(0)
        address = hf_hub_url(name, file, repo_type="dataset", revision=commit)
        headers = build_hf_headers()
        http_get(address, arrived, resume_size=start, expected_size=size, headers=headers, displayed_filename=file)
        arrived.flush()
        if file_digest(unfinished) != digest:
            unfinished.unlink()
            raise OSError(f"{file} did not arrive as it was sent, and is fetched from its beginning next time")
        unfinished.replace(blob)


# ---- what is in a file


def describe(path: Path) -> tuple[int | None, dict[str, str]]:
    """(rows, or None where only reading would tell; {column: what it holds})"""
    if ending(path) == ".parquet":
        with open_parquet(path) as file:
            columns = file.schema_arrow
            if len(set(columns.names)) < len(columns):
                raise DataError(f"{path} has two columns of one name ({', '.join(columns.names)}); write it again without")
            return file.metadata.num_rows, {column.name: kind(column.type) for column in columns}
    return None, dict.fromkeys(next(json_lines(path), {}), "")  # rows of JSON differ, and each is looked at by itself


def kind(column: pa.DataType) -> str:
    """What a column holds, in words that tell apart what rows are read by."""
    if pa.types.is_dictionary(column):
        column = column.value_type
    if pa.types.is_string(column) or pa.types.is_large_string(column) or pa.types.is_string_view(column):
        return "text"
    if any(is_one(column) for is_one in LISTS):
        return "a list"
    return "a record" if pa.types.is_struct(column) else str(column)


def check_columns(paths: list[Path], path: Path) -> int | None:
    """The rows of one of the files of a split. Raises DataError unless it has the columns, and as the first one has them."""
    rows, kinds = describe(path)
    if missing := [column for column in COLUMNS if column not in kinds]:
        raise DataError(
            f"{path} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)} (it has: "
            f"{', '.join(kinds) or 'none'}); the columns of {HUB_NAME} are needed"
        )
    for column, allowed in COLUMNS.items():
        if kinds[column] not in allowed and ending(path) == ".parquet":
            raise DataError(
                f"the column {column} of {path} holds {kinds[column]}, and {' or '.join(allowed)} is needed, as in {HUB_NAME}"
            )
        if (first := describe(paths[0])[1][column]) != kinds[column] and ending(path) == ending(paths[0]) == ".parquet":
            raise DataError(
                f"the column {column} holds {kinds[column]} in {path} but {first} in {paths[0]}; "
                "give one --source files of one layout"
            )
    return rows


def open_parquet(path: Path) -> pq.ParquetFile:
    try:
        # Without pre-buffering: the hub's file may be one row group, which would be read into memory whole.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as parquet ({first_line(error)}); download or write it again") from error


def json_lines(path: Path) -> Iterator[dict]:
    # Bytes that are not UTF-8 become lone surrogates: the row that holds them is dropped later, not the file.
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
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


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(BUFFER_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


# ---- rows


def is_code(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.fill_null(pc.equal(pc.cast(column, pa.string()), "code"), False)


def row_at(batch: pa.RecordBatch, position: int) -> dict | None:
    """One row as Python objects; None where a text in it is not UTF-8, which parquet files can hold."""
    try:
        return batch.slice(position, 1).to_pylist()[0]
    except UnicodeDecodeError:
        return None


def ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, each decoded by another thread while the one before it is used."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = pool.submit(next, batches, None)
            yield batch


def read_code_rows(path: Path) -> Iterator[tuple[int, list[int], Iterator[dict | None]]]:
    """Chunk by chunk: (rows in the chunk, positions in it of its rows of ability "code", those rows).

    A chunk's rows are to be used before the next chunk is asked for. Raises DataError where the file is damaged.
    """
    if ending(path) != ".parquet":
        for row in json_lines(path):
            code = row.get("ability") == "code"
            yield 1, [0] * code, iter([row] * code)
        return
    with open_parquet(path) as file:
        columns = [name for name in (*COLUMNS, *OPTIONAL) if name in file.schema_arrow.names]
        try:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if not pc.any(is_code(file.read_row_group(group, columns=["ability"])["ability"])).as_py():
                    yield rows, [], iter(())
                    continue
                for batch in ahead(file.iter_batches(READ_ROWS, row_groups=[group], columns=columns)):
                    positions = pc.indices_nonzero(is_code(batch.column("ability"))).to_pylist()
                    # One at a time: as Python objects, the tests of a whole batch would take several times its bytes.
                    yield batch.num_rows, positions, (row_at(batch, k) for k in positions)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path} is damaged ({first_line(error)}); download or write it again") from error


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
