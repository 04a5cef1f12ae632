"""Prepared rows to parquet, and back for a last look.

All files of a run appear in the output folder together, or none does: they are written to a folder of their own beside
the old ones and renamed when the last check has passed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import shutil
import signal
import tempfile
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha1
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from preparation.cleaning import Problem
from preparation.reading import DataError, ahead, open_parquet

SCHEMA = pa.schema(  # what veRL reads of a prepared row
    {
        "data_source": pa.string(),
        "prompt": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
        "ability": pa.string(),
        "reward_model": pa.struct({"style": pa.string(), "ground_truth": pa.string()}),
        "extra_info": pa.struct(
            {
                "index": pa.int64(),
                "split": pa.string(),
                "fn_name": pa.string(),
                "num_tests": pa.int64(),
                "checker": pa.string(),
            }
        ),
    }
)
GROUP_ROWS, GROUP_BYTES = 1000, 32 << 20  # a row group ends at whichever comes first
UNFINISHED = ".prepare-"  # what the folders are called that are written to
BATCH_ROWS = 32  # a row's tests can be megabytes


@contextlib.contextmanager
def output_folder(out: Path) -> Iterator[Path]:
    """A folder to write to; when the block ends without an exception, its files take their places in `out`.

    Files whose names start with a dot are left behind. What a run that was killed left of its own is removed. Raises
    DataError where `out` cannot be written; whatever is raised, `out` is then as it was before.
    """
    created = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for left in out.glob(f"{UNFINISHED}*"):
            with contextlib.suppress(OSError), in_use(left) as marked:
                if marked:
                    shutil.rmtree(left)
        temporary = tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=out)  # renaming needs the same file system
    except OSError as error:
        raise DataError(f"cannot write to {out} ({error.strerror}); give --out a folder that can be written") from error
    try:
        with temporary as work, in_use(Path(work)):
            yield Path(work)
            with uninterrupted():
                for path in sorted(Path(work).glob("[!.]*")):
                    path.replace(out / path.name)
    except BaseException as error:
        if created:
            with contextlib.suppress(OSError):
                out.rmdir()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(f"the disk of {out} is full; free some space, or give --out a folder elsewhere") from error
        raise


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[bool]:
    """Marks a folder as in use, until the block or the process ends.

    False where another process has marked it, or the file system has no locks.
    """
    with (folder / ".in-use").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            marked = True
        except OSError:
            marked = False
        yield marked


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds back Ctrl-C and the requests to terminate for a moment: some new files beside some old ones help nobody."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def write_rows(path: Path, rows: Iterable[dict]) -> int:
    """Writes rows in row groups of bounded size, lightly compressed; returns their number."""
    batches = (pa.RecordBatch.from_pylist([row], schema=SCHEMA) for row in rows)
    return write_batches(path, batches, "lz4")


def write_batches(path: Path, batches: Iterable[pa.RecordBatch], compression: str) -> int:
    count, rows, size, group = 0, 0, 0, []
    with pq.ParquetWriter(path, SCHEMA, compression=compression) as writer:
        for batch in batches:
            group.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(group))
                count, rows, size, group = count + rows, 0, 0, []
        if group:
            writer.write_table(pa.Table.from_batches(group))
    return count + rows


def copy_rows(source: Path, target: Path, positions: Collection[int], split: str) -> int:
    """Writes the rows of a file at these positions to another, in the file's order, as rows of `split`.

    Returns their number. Tests are copied as they lie in memory and never become Python objects.
    """
    chosen = read_at(source, positions, f"writing {target.name}")
    return write_batches(target, (with_split(batch, split) for _, batch in chosen), "zstd")


def with_split(batch: pa.RecordBatch, split: str) -> pa.RecordBatch:
    position = SCHEMA.get_field_index("extra_info")
    info = SCHEMA.field(position).type
    parts = batch.column(position).flatten()
    parts[info.get_field_index("split")] = pa.array([split] * batch.num_rows, pa.string())
    return batch.set_column(position, "extra_info", pa.StructArray.from_arrays(parts, fields=list(info)))


def read_at(path: Path, positions: Collection[int], why: str = "") -> Iterator[tuple[list[int], pa.RecordBatch]]:
    """The rows of a file at these positions, in the file's order, a few at a time: (their positions, the rows).

    Row groups without any of them are not read. `why` stands at the progress bar; without it there is none.
    """
    chosen, start = sorted(positions), 0
    with open_parquet(path) as file, tqdm(total=len(chosen), desc=why, unit=" rows", disable=None if why else True) as bar:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if bisect_left(chosen, start) == bisect_left(chosen, start + rows):
                start += rows
                continue
            for batch in ahead(file.iter_batches(BATCH_ROWS, row_groups=[group])):
                here = chosen[bisect_left(chosen, start) : bisect_left(chosen, start + batch.num_rows)]
                if here:
                    yield here, batch.take(pa.array([position - start for position in here]))
                start += batch.num_rows
                bar.update(len(here))


def check_written(path: Path, split: str, problems: Sequence[Problem]) -> None:
    """Reads a written file again. Raises DataError unless it holds these problems, with the tests that were parsed."""

    def insist(condition: bool, what: str) -> None:
        if not condition:
            raise DataError(f"{path.name} failed the check after writing: {what} (disk fault, or a bug in this program)")

    insist(pq.read_schema(path).equals(SCHEMA), "wrong columns")
    count = 0
    for _, batch in read_at(path, range(pq.read_metadata(path).num_rows), f"checking {path.name}"):
        truths = batch.column("reward_model").flatten()[1]
        for found, truth in zip(batch.drop_columns(["reward_model"]).to_pylist(), truths, strict=True):
            insist(count < len(problems), f"more rows than the {len(problems)} that were written")
            expected = problems[count].row(split, "")
            count += 1
            for column, value in found.items():
                insist(value == expected[column], f"row {count} has another {column}")
            same = truth.is_valid and sha1(truth.as_buffer()).digest() == problems[count - 1].truth_digest
            insist(same, f"row {count} has other tests")
    insist(count == len(problems), f"{count} rows instead of {len(problems)}")
