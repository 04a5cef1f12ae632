"""The names that every other module of the verifier speaks in.

Nothing here runs anything. Units stand in the field names; sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """How one test ended, in the words of programming contests."""

    AC = "AC"  # accepted: ended by itself with exit code 0 and printed what was expected
    WA = "WA"  # wrong answer
    TLE = "TLE"  # over the CPU limit, or asleep until the wall limit
    MLE = "MLE"  # over the memory limit
    OLE = "OLE"  # printed more than the output limit
    RE = "RE"  # runtime error: uncaught exception, exit code other than 0, killed by a signal of its own
    CE = "CE"  # the program is not valid Python
    DE = "DE"  # data error: the row has no tests, or tests that cannot be read
    IE = "IE"  # internal error: the verifier itself failed; says nothing about the program


@dataclass(frozen=True)
class Limits:
    """What one test may use. The defaults are the README's table."""

    cpu_seconds: float = 10.0
    wall_seconds: float = 30.0
    memory_bytes: int = 1 << 30  # for the program; the interpreter's own share is not counted
    stdout_bytes: int = 16 << 20  # or expected_factor times the expected output, where that is more
    expected_factor: int = 4
    stderr_tail_bytes: int = 4096  # stderr is drained; only its end is kept
    # A program that loops for ever must not cost the full limit on each of a hundred tests.
    full_limit_timeouts: int = 3  # after this many tests over time, the rest get short_cpu_seconds
    short_cpu_seconds: float = 1.0
    max_timeouts: int = 10  # after this many, the rest are not run and count as not passed


@dataclass(frozen=True)
class Execution:
    """What the parent saw of one run of a program on one input. Nothing in it was said by the program."""

    verdict: Verdict | None  # None: ended by itself with exit code 0, so the comparison decides
    stdout: bytes = b""
    stderr_tail: str = ""
    exit_code: int | None = None  # negative: killed by that signal
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    ran: bool = True  # False: not run because earlier tests had used up the time
    result: bytes | None = None  # call-based tests: the encoded return value, from its own channel
    message: str = ""  # for CE and IE: what went wrong, one line
    queue_seconds: float = 0.0  # waited for a slot of the host before it could run


@dataclass(frozen=True)
class TestResult:
    """The verdict on one test, with what a log needs to explain it."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    verdict: Verdict
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    ran: bool = True
    rule: str = ""  # which comparison rule accepted it ("exact", "tokens", "float", ...)
    detail: str = ""  # first difference, or the end of stderr
    queue_seconds: float = 0.0  # waited for a slot of the host before it could run
