"""Before a process judges its first response: does the verifier tell right from wrong here?

veRL's workers are processes of their own, on any node of a cluster; each asks once, for a few tenths of a second. Where the
answer is no, every response of that worker is an internal error with the sentence that stands here, and the launch script,
which watches the reward log, stops the run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace

from verifier import ground_truth
from verifier.options import Options
from verifier.verdict import Limits, TestResult, Verdict

# scoring.judge_program: program, tests, options -> which tests, their results
Judge = Callable[[str, ground_truth.GroundTruth, Options], tuple[tuple[int, ...], tuple[TestResult, ...]]]

ATTEMPTS = 2  # each has the executor's own further tries
TESTS = ground_truth.parse({"inputs": ["3 4\n"], "outputs": ["7\n"]})
PROGRAMS = (  # what it is, the program, its limits, the verdict that it must get
    ("a right program", "a, b = map(int, input().split())\nprint(a + b)\n", Limits(), Verdict.AC),
    ("an empty program", "", Limits(), Verdict.CE),
    ("an endless loop", "while True: pass\n", Limits(cpu_seconds=0.2), Verdict.TLE),
)

_lock = threading.Lock()
_answers: dict[int, str] = {}  # by process: a forked child asks for itself


def _fresh_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_fresh_lock)


def failure(judge: Judge, chosen: Options) -> str:
    """Return "" where all is well, else one sentence. Asked at a process's first response; its other threads wait for it."""
    if os.getpid() not in _answers:
        with _lock:
            if os.getpid() not in _answers:
                _answers[os.getpid()] = _failure(judge, chosen)
    return _answers[os.getpid()]


def _failure(judge: Judge, chosen: Options) -> str:
    for name, program, limits, expected in PROGRAMS:
        for _ in range(ATTEMPTS):
            try:
                _, (result,) = judge(program, TESTS, replace(chosen, limits=limits))
                verdict, detail = result.verdict, result.detail
            except Exception as error:  # nothing that goes wrong here may reach veRL, which would drop the response
                verdict, detail = Verdict.IE, f"{type(error).__name__}: {error}"
            if verdict is expected:
                break
        else:
            why = f" ({detail})" if detail else ""
            return f"the verifier's check at start-up failed, {name} got {verdict.value} instead of {expected.value}{why}"
    return ""
