"""JSON lines of files that are still being written: each call returns what is new since the last one."""

from __future__ import annotations

import contextlib
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

Offsets = dict[Path, int]  # bytes of each file already read


def new_records(path: Path, offsets: Offsets, final: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of the complete lines of `path` beyond offsets[path], and move that offset.

    A file that has become shorter is read again from its start. A line that is no JSON object is passed over: a killed run
    leaves half a line behind, and what a later start appends to it is still found. A last line without its newline is
    still being written: it is left for the next call or, with `final`, read if it is whole. `path` may be gzipped; of an
    archive that is cut off or damaged, what comes before that is read.
    """
    offset = offsets.get(path, 0)
    compressed = path.suffix == ".gz"
    if not compressed and path.stat().st_size < offset:
        offset = 0
    with gzip.open(path, "rb") if compressed else path.open("rb") as file:
        file.seek(offset)
        for line in _lines(file):
            complete = line.endswith(b"\n")
            if complete:
                offset += len(line)
                offsets[path] = offset
            if complete or final:
                record = _record(line)
                if record is not None:
                    yield record


def _lines(file: BinaryIO) -> Iterator[bytes]:
    with contextlib.suppress(EOFError, gzip.BadGzipFile, zlib.error):
        yield from file


def _record(line: bytes) -> dict[str, Any] | None:
    for start in (0, line.rfind(b'{"step":'), line.rfind(b'{"time":')):  # the latter two after the torn line of a killed run
        if start < 0:
            continue
        try:
            record = json.loads(line[start:].decode(errors="replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            return record
    return None
