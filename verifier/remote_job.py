"""What remote.py has SandboxFusion run: the local executor, on some tests of one response, in the service's own folder.

The service gets this package as a file beside the job, so a program is judged there by the same code as here: forked,
confined, watched and given its verdict by the executor. Of the service it takes a Python of 3.10 or later and a folder.

A job and its report are one format (`pack`, `unpack`): a JSON line, then pieces of bytes, all of it compressed.
    job      JOB: limits, stdout_limits, program, fn_name, environment, seconds, room; pieces: each test's input
    report   REPORT: key, walls, tests; pieces: for each test its stdout and, in a call-based one, its encoded result
No expected output is in a job. The report is written when the last program has ended.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Iterable, Sequence

from verifier import linux
from verifier.isolation import ISOLATION, IsolationError
from verifier.verdict import Execution, Limits

JOB, REPORT = "job", "report"  # names of files in the service's folder
SAID = ("exit_code", "cpu_seconds", "wall_seconds", "ran", "stderr_tail", "message")  # of an Execution, as they are


def pack(header: dict[str, object], pieces: Sequence[bytes]) -> bytes:
    """Return the header (plain JSON values) and the pieces as one compressed text."""
    line = json.dumps({**header, "sizes": [len(piece) for piece in pieces]}).encode() + b"\n"
    return zlib.compress(b"".join([line, *pieces]), 1)


def unpack(data: bytes, most: int) -> tuple[dict, list[bytes]]:
    """Return what was packed. Raises ValueError for anything cut, damaged, or of more than `most` bytes."""
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(data, most)
    except zlib.error as error:
        raise ValueError(f"damaged: {error}") from error
    if not inflate.eof:
        raise ValueError("cut, or larger than it may be")
    line, newline, rest = text.partition(b"\n")
    header = json.loads(line)
    sizes = header["sizes"] if isinstance(header, dict) and newline else None
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != len(rest):
        raise ValueError("its sizes are not those of its pieces")
    pieces, start = [], 0
    for size in sizes:
        pieces.append(rest[start : start + size])
        start += size
    return header, pieces


def main() -> None:
    """Do the job in the current folder. The key comes on standard input, so no program can find it in a file."""
    key = sys.stdin.readline().strip()
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # nor in this process's memory
    with open(JOB, "rb") as file:
        job, inputs = unpack(file.read(), sys.maxsize)
    os.remove(JOB)
    os.environ.update(job["environment"])
    try:
        done = _run(job, inputs)
    except IsolationError:
        if job["environment"][ISOLATION] != "auto":
            raise
        os.environ[ISOLATION] = "off"  # where no walls can be put up, those of the service have to do
        done = _run(job, inputs)
    from verifier import client

    pieces = [piece for execution in done for piece in (execution.stdout, execution.result) if piece is not None]
    report = pack({"key": key, "walls": client.mode(), "tests": [_said(execution) for execution in done]}, pieces)
    client.discard()
    with open(f"{REPORT}-{key}", "xb") as file:
        file.write(report)
    os.replace(f"{REPORT}-{key}", REPORT)


def _run(job: dict, inputs: list[bytes]) -> list[Execution]:
    """Run the tests in order, until the time or the room for outputs is used up."""
    from verifier import cores, executor  # takes its number of slots from the environment when it is imported

    executor.use_slots_of_its_own(cores.concurrency())  # other jobs on the service's machine do not hold this one up
    until, room, done = time.monotonic() + job["seconds"], job["room"], []
    arguments = {"fn_name": job["fn_name"], "stdout_limits": job["stdout_limits"]}
    executions: Iterable[Execution] = executor.run_tests(job["program"], inputs, Limits(**job["limits"]), **arguments)
    for execution in executions:
        done.append(execution)
        room -= len(execution.stdout) + len(execution.result or b"")
        if room < 0 or time.monotonic() > until:
            break
    executions.close()
    return done


def _said(execution: Execution) -> dict[str, object]:
    verdict = execution.verdict and execution.verdict.value
    said = {name: getattr(execution, name) for name in SAID}
    return {"verdict": verdict, "has_result": execution.result is not None, **said}
