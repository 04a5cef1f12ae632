"""One JSON line for each judged response, in CODE_REWARD_LOG_DIR (not set, or REWARD_LOG=0: no log).

veRL shows nothing of a reward function's counters during training; these lines do. Every line has the same fields:

    time              seconds since 1970, when the verdict was there
    step              the training step that the response belongs to, as in metrics.jsonl and rollouts/; see below
    split             "train" or "validation": what veRL generated the response for; else what the row says of itself
    data_source, index   of the row
    uid               veRL's name for the response: in rollouts/STEP.jsonl it is followed by _0
    response_sha256   of the response's text (16 digits); the same for "output" in rollouts/ and validation/
    code_sha256       of the program found in it (16 digits)
    block             how the program was found
    score, pass_rate, format, acc   as veRL got them
    verdicts          {"AC": 3, "WA": 1}; a data error or an internal error stands alone: {"DE": 1}, {"IE": 1}
    rules             which comparison rule accepted: {"exact": 3}
    tests, tests_not_run   how many were chosen; how many of them were not run (a syntax error, too many over time)
    first_failure     null, or the first test that did not pass: its index in the row, its verdict, and a detail (the first
                      difference, the error's last line, or what went wrong in the verifier)
    cpu_seconds, wall_seconds, queue_seconds   of the programs; of the whole judgement; the part of it spent waiting for a core

`step`, `split` and `uid` are exact where training/verl_patches.py is loaded, as the run scripts do. Without it `step` is
extra_info's global_steps, which is veRL's count of the weights that generated (one less than the training step).

Each process appends to files of its own, `host-pid.jsonl`, then `host-pid.1.jsonl` and so on: each file is begun by one process
and ends at REWARD_LOG_MB (default 64). Each line is one write, so threads cannot tear each other's lines, and a killed
process leaves at most a broken last one. What veRL leaves out of training because its reward or its generation raised has no
verdict; it is in the folder `dropped`, in lines of time, step, split, data_source, index, uid and error.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from verifier import notice
from verifier.verdict import Verdict

if TYPE_CHECKING:
    from verifier.scoring import Judgement

DETAIL_CHARACTERS = 200
DEFAULT_FILE_MB = 64
CANNOT_WRITE = "code_reward: cannot write the reward log"  # training/watch.py looks for it in what the workers print
DROPPED = "dropped"
PLACE = "verl_sample"  # in extra_info: what training/verl_patches.py knows of a response


class _File:
    """Where this process appends to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        names = (f".{number}.jsonl" if number else ".jsonl" for number in itertools.count())
        for name in names:
            path = folder / f"{socket.gethostname()}-{os.getpid()}{name}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self.descriptor = os.open(path, flags, 0o644)
                break
            except FileExistsError:  # full, or of an earlier process with the same number
                continue
        self.bytes = 0
        self.torn = False  # a full disk took only a part of the last line

    def append(self, line: bytes) -> None:
        if self.torn:
            line = b"\n" + line
        written = os.write(self.descriptor, line)
        self.bytes += written
        self.torn = written < len(line)
        if self.torn:
            raise OSError(f"no space left, only {written} of {len(line)} bytes were written")


_lock = threading.Lock()
_files: dict[tuple[int, str], _File] = {}  # by process, so that a forked child opens files of its own
_complained: set[str] = set()


def _fresh_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_fresh_lock)


def write(
    judgement: Judgement, numbers: Mapping[str, float], response: object, data_source: object, extra_info: object
) -> None:
    """Append the line of one judged response, where a log is asked for. What goes wrong is said once and changes nothing."""
    if folder := _folder():
        _append(folder, lambda: record(judgement, numbers, response, data_source, extra_info))


def write_dropped(error: BaseException, data_source: object, extra_info: object) -> None:
    """Append the line of a response that veRL leaves out of training because of `error`."""
    if folder := _folder():
        # Ray raises a class of its own, whose text is a whole traceback, around what a worker raised.
        cause = getattr(error, "cause", None) or error
        text = (str(cause).strip() or "no message").splitlines()[0]
        where = {**_place(data_source, extra_info), "error": f"{type(cause).__name__}: {text}"}
        _append(os.path.join(folder, DROPPED), lambda: where)


def record(
    judgement: Judgement, numbers: Mapping[str, float], response: object, data_source: object, extra_info: object
) -> dict[str, object]:
    """The fields of one line; plain Python values only."""
    results = judgement.results
    tests = () if results[0].verdict in (Verdict.DE, Verdict.IE) else results  # those two stand for no test
    failed = next((place for place, result in enumerate(results) if result.verdict is not Verdict.AC), None)
    first_failure = None
    if failed is not None:
        first_failure = {
            "index": judgement.indices[failed],
            "verdict": results[failed].verdict.value,
            "detail": results[failed].detail[:DETAIL_CHARACTERS],
        }
    return {
        **_place(data_source, extra_info),
        "response_sha256": _digest(response if isinstance(response, str) else str(response)),
        "code_sha256": _digest(judgement.code),
        "block": judgement.block,
        **{name: numbers[name] for name in ("score", "pass_rate", "format", "acc")},
        "verdicts": dict(Counter(result.verdict.value for result in results)),
        "rules": dict(Counter(result.rule for result in results if result.rule)),
        "tests": len(tests),
        "tests_not_run": sum(not result.ran for result in tests),
        "first_failure": first_failure,
        "cpu_seconds": round(sum(result.cpu_seconds for result in results), 4),
        "wall_seconds": round(judgement.wall_seconds, 4),
        "queue_seconds": round(sum(result.queue_seconds for result in results), 4),
    }


def _place(data_source: object, extra_info: object) -> dict[str, object]:
    """Which response it is: by the row, and by what veRL says of it."""
    info = extra_info if isinstance(extra_info, Mapping) else {}
    sample = info.get(PLACE) if isinstance(info.get(PLACE), Mapping) else {}
    return {
        "time": round(time.time(), 3),
        "step": _plain(sample.get("step", info.get("global_steps"))),
        "split": _plain(sample.get("split", info.get("split"))),
        "data_source": _plain(data_source),
        "index": _plain(info.get("index")),
        "uid": _plain(sample.get("uid")),
    }


def _folder() -> str:
    return "" if os.environ.get("REWARD_LOG", "") == "0" else os.environ.get("CODE_REWARD_LOG_DIR", "")


def _append(folder: str, fields: Callable[[], Mapping[str, object]]) -> None:
    """Write what `fields()` returns as one line."""
    try:
        line = json.dumps(fields(), ensure_ascii=False).encode(errors="replace") + b"\n"
        key = (os.getpid(), folder)
        with _lock:
            file = _files.get(key)
            if file is None:
                file = _files[key] = _File(Path(folder))
            elif file.bytes and file.bytes + len(line) > _file_bytes():
                os.close(file.descriptor)
                del _files[key]  # first: if the next one cannot be made, it is tried again
                file = _files[key] = _File(Path(folder))
            file.append(line)
    except Exception as error:  # a full disk, a folder that is gone: never at the cost of a score
        if folder not in _complained:
            _complained.add(folder)
            notice.say(f"{CANNOT_WRITE} in {folder}: {type(error).__name__}: {error}")


def _file_bytes() -> float:
    try:
        return float(os.environ.get("REWARD_LOG_MB") or DEFAULT_FILE_MB) * (1 << 20)
    except ValueError:
        raise ValueError(f"REWARD_LOG_MB must be a number of megabytes, not {os.environ['REWARD_LOG_MB']!r}") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plain(value: object) -> object:
    """numpy's scalars, and whatever else extra_info may hold, as what JSON knows."""
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
