"""The tests of one response side by side, with the verdicts of one after the other.

The rule against programs that never end follows the order of the tests: after `full_limit_timeouts` tests over time the
rest get the short limit, after `max_timeouts` the rest are not run. A test that waits for the verdicts before it would
make nothing faster, so a test starts early, and what the rule can still turn out to say decides how far it may go. Call a
test unsettled until its end cannot be a timeout any more. With `t` timeouts among the tests that have their verdict:

- a test starts only if it is among the first `max_timeouts - t` unsettled ones: the rule would have run it too;
- it goes past the short limit only if it is among the first `full_limit_timeouts - t`: the rule would have let it too.

One that reaches the short limit out of turn is stopped. Where the tests before it turn out to end in time it is run once
more, under the full limit; else it was over the limit that the rule gave it. So nothing depends on which test ends
first, and what is spent beyond the rule's own cost is one short limit a test at most.

Nothing here runs anything; the executor asks what to start, and says what ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from verifier.verdict import Execution, Limits, Verdict

KEPT_BYTES = 64 << 20  # of output that waits for its turn; with more, no test starts out of turn


def short_limits(limits: Limits) -> Limits:
    """The limits of a test after `full_limit_timeouts` others; a program that sleeps is cut short in the same ratio."""
    wall = limits.wall_seconds * limits.short_cpu_seconds / limits.cpu_seconds
    return replace(
        limits,
        cpu_seconds=min(limits.cpu_seconds, limits.short_cpu_seconds),
        wall_seconds=min(limits.wall_seconds, wall),
    )


@dataclass(frozen=True)
class _Ended:
    execution: Execution
    settled: bool  # whatever the verdicts before it, this is what it counts as
    stopped: bool  # at the short limit, out of turn


class Schedule:
    """What is known of the tests of one response. A test is a number from 0; `next` is the first without a verdict."""

    def __init__(self, count: int, limits: Limits) -> None:
        self.count = count
        self.limits = limits
        self.short = short_limits(limits)
        self.next = 0
        self.timeouts = 0
        self._running: set[int] = set()
        self._in_turn: set[int] = set()  # those that the rule gives the full limit, whatever becomes of the tests before
        self._ended: dict[int, _Ended] = {}
        self._kept = 0

    def to_start(self) -> int | None:
        """The next test to start now, if there is one."""
        if self._kept > KEPT_BYTES and self._running:
            return None
        before = self.timeouts  # and the unsettled tests before this one: how many may have been over time by its turn
        for test in range(self.next, self.count):
            if before >= self.limits.max_timeouts:
                return None
            ended = self._ended.get(test)
            if ended is None and test not in self._running:
                return test
            if ended is not None and ended.stopped and before < self.limits.full_limit_timeouts:
                return test
            before += ended is None or not ended.settled
        return None

    def start(self, test: int) -> tuple[Limits, Limits]:
        """Note that a test starts. Returns the limits at which it must be asked for with `may_go_on`, and its last ones."""
        self._forget(test)
        self._running.add(test)
        if self.timeouts >= self.limits.full_limit_timeouts:
            return self.short, self.short
        return (self.limits if self.may_go_on(test) else self.short), self.limits

    def may_go_on(self, test: int) -> bool:
        """Whether a running test may go past the short limit."""
        before = self.timeouts + sum(map(self._unsettled, range(self.next, test)))
        if before < self.limits.full_limit_timeouts:
            self._in_turn.add(test)
        return test in self._in_turn

    def drop(self, test: int) -> None:
        """A running test was lost; it starts again."""
        self._running.discard(test)

    def end(self, test: int, execution: Execution, stopped: bool = False) -> None:
        """A test ended, or was `stopped` at the short limit since it may not go on."""
        self._running.discard(test)
        timeout = execution.verdict is Verdict.TLE
        short = execution.cpu_seconds <= self.short.cpu_seconds
        settled = not stopped and not timeout and (short or test in self._in_turn)
        self._ended[test] = _Ended(execution, settled, stopped)
        self._kept += _size(execution)

    def verdict(self) -> Execution | None:
        """The execution of the next test in order, where it is known by now what it counts as."""
        if self.timeouts >= self.limits.max_timeouts:
            self.next += 1
            return Execution(Verdict.TLE, ran=False, message=f"not run: {self.timeouts} tests before it ran out of time")
        ended, late = self._ended.get(self.next), self.timeouts >= self.limits.full_limit_timeouts
        if ended is None or (ended.stopped and not late):
            return None
        execution = ended.execution
        if late and not ended.settled:
            execution = replace(execution, verdict=Verdict.TLE)
        self._forget(self.next)
        self.next += 1
        self.timeouts += execution.verdict is Verdict.TLE
        return execution

    def _unsettled(self, test: int) -> bool:
        ended = self._ended.get(test)
        return ended is None or not ended.settled

    def _forget(self, test: int) -> None:
        ended = self._ended.pop(test, None)
        if ended is not None:
            self._kept -= _size(ended.execution)


def _size(execution: Execution) -> int:
    return len(execution.stdout) + len(execution.result or b"")
