"""One JSON line for each judged response, in CODE_REWARD_LOG_DIR (not set, or REWARD_LOG=0: no log).

veRL shows nothing of a reward function's counters during training; these lines do. Each process appends to a file of
its own, `host-pid.jsonl`, and each line is one write: threads and processes cannot tear each other's lines.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from verifier.verdict import Verdict

if TYPE_CHECKING:
    from verifier.scoring import Judgement

DETAIL_CHARACTERS = 200

_descriptors: dict[tuple[int, str], int] = {}  # by process, so that a forked child opens a file of its own
_torn: set[tuple[int, str]] = set()  # where a full disk took only a part of the last line
_complained: set[str] = set()


def write(judgement: Judgement, numbers: Mapping[str, float], data_source: object, extra_info: object) -> None:
    """Append the line, where a log is asked for. What goes wrong is said once and changes nothing else."""
    folder = os.environ.get("CODE_REWARD_LOG_DIR", "")
    if not folder or os.environ.get("REWARD_LOG", "") == "0":
        return
    try:
        line = json.dumps(record(judgement, numbers, data_source, extra_info), ensure_ascii=False)
        _append(folder, line.encode(errors="replace") + b"\n")
    except Exception as error:  # a full disk, a folder that is gone: never at the cost of a score
        if folder not in _complained:
            _complained.add(folder)
            print(
                f"code_reward: cannot write the reward log in {folder}, training goes on without it: "
                f"{type(error).__name__}: {error}",
                file=sys.stderr,
            )


def record(judgement: Judgement, numbers: Mapping[str, float], data_source: object, extra_info: object) -> dict[str, object]:
    """The fields of one line; plain Python values only."""
    info = extra_info if isinstance(extra_info, Mapping) else {}
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
        "time": round(time.time(), 3),
        "step": _plain(info.get("global_steps")),
        "split": _plain(info.get("split")),
        "data_source": _plain(data_source),
        "index": _plain(info.get("index")),
        **{name: numbers[name] for name in ("score", "pass_rate", "format", "acc")},
        "verdicts": dict(Counter(result.verdict.value for result in results)),
        "rules": dict(Counter(result.rule for result in results if result.rule)),  # which comparison rule accepted
        "tests": len(tests),
        "tests_not_run": sum(not result.ran for result in tests),
        "block": judgement.block,
        "first_failure": first_failure,
        "cpu_seconds": round(sum(result.cpu_seconds for result in results), 4),
        "wall_seconds": round(judgement.wall_seconds, 4),
        "code_sha256": hashlib.sha256(judgement.code.encode("utf-8", "surrogatepass")).hexdigest()[:16],
    }


def _append(folder: str, line: bytes) -> None:
    key = (os.getpid(), folder)
    if key not in _descriptors:
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{socket.gethostname()}-{key[0]}.jsonl"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if _descriptors.setdefault(key, descriptor) != descriptor:
            os.close(descriptor)  # another thread was first
    if key in _torn:
        line = b"\n" + line
    written = os.write(_descriptors[key], line)
    _torn.discard(key)
    if written < len(line):
        _torn.add(key)
        raise OSError(f"only {written} of {len(line)} bytes were written")


def _plain(value: object) -> object:
    """numpy's scalars, and whatever else extra_info may hold, as what JSON knows."""
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
