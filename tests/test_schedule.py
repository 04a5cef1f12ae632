"""Tests side by side: the verdicts are those of one after the other, whatever ends first, and little is run in vain."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier import executor, schedule, slots
from verifier.executor import run_tests
from verifier.schedule import Schedule
from verifier.verdict import Execution, Limits, Verdict

LIMITS = Limits(cpu_seconds=10, short_cpu_seconds=1, full_limit_timeouts=3, max_timeouts=10)
ENDLESS = 1e9


def execute(seconds: float, limits: Limits) -> Execution:
    """What running a program that takes so long under these limits gives."""
    used = min(seconds, limits.cpu_seconds)
    return Execution(None if seconds <= limits.cpu_seconds else Verdict.TLE, stdout=b"x", cpu_seconds=used)


def one_after_the_other(costs: list[float], limits: Limits) -> tuple[list[tuple[Verdict | None, bool]], float]:
    """The rule itself: verdict and whether it was run for each test, and the CPU time of all."""
    timeouts, results, spent = 0, [], 0.0
    for cost in costs:
        if timeouts >= limits.max_timeouts:
            results.append((Verdict.TLE, False))
            continue
        late = timeouts >= limits.full_limit_timeouts
        execution = execute(cost, schedule.short_limits(limits) if late else limits)
        timeouts += execution.verdict is Verdict.TLE
        spent += execution.cpu_seconds
        results.append((execution.verdict, True))
    return results, spent


class Machine:
    """Runs tests of known cost on some cores, in simulated time; which event comes first is up to the dice."""

    def __init__(self, costs: list[float], limits: Limits, cores: int, seed: int) -> None:
        self.costs = costs
        self.plan = Schedule(len(costs), limits)
        self.cores = cores
        self.dice = random.Random(seed)
        self.running: dict[int, tuple[Limits, Limits]] = {}
        self.asked: set[int] = set()
        self.spent = 0.0

    def run(self) -> list[tuple[Verdict | None, bool]]:
        results = []
        while len(results) < len(self.costs):
            while (execution := self.plan.verdict()) is None:
                self._advance()
            results.append((execution.verdict, execution.ran))
        assert not self.running or self.plan.timeouts < self.plan.limits.max_timeouts, "a test was run in vain"
        return results

    def _advance(self) -> None:
        while len(self.running) < self.cores and (test := self.plan.to_start()) is not None:
            self.running[test] = self.plan.start(test)
            self.asked.discard(test)
        test = self.dice.choice(sorted(self.running))
        soft, hard = self.running[test]
        if self.costs[test] > soft.cpu_seconds < hard.cpu_seconds and test not in self.asked:
            self.asked.add(test)
            if not self.plan.may_go_on(test):
                self._end(test, execute(ENDLESS, soft), stopped=True)
                return
            if self.dice.random() < 0.5:
                return  # it runs on while others end
        if self.dice.random() < 0.05:
            del self.running[test]
            self.plan.drop(test)  # lost with its session
        else:
            self._end(test, execute(self.costs[test], hard), stopped=False)

    def _end(self, test: int, execution: Execution, stopped: bool) -> None:
        del self.running[test]
        self.spent += execution.cpu_seconds
        self.plan.end(test, execution, stopped)


COSTS = st.lists(st.sampled_from([0.01, 0.5, 1.0, 1.5, 5.0, 10.0, ENDLESS]), max_size=40)
RULES = st.builds(
    lambda full, most: replace(LIMITS, full_limit_timeouts=full, max_timeouts=most), st.integers(0, 5), st.integers(0, 12)
)


@given(COSTS, RULES, st.integers(1, 20), st.integers(0, 10**6))
def test_verdicts_do_not_depend_on_what_ends_first(costs: list[float], limits: Limits, cores: int, seed: int) -> None:
    machine = Machine(costs, limits, cores, seed)
    expected, spent = one_after_the_other(costs, limits)
    assert machine.run() == expected
    assert machine.spent <= spent + len(costs) * limits.short_cpu_seconds


@given(COSTS, RULES, st.integers(0, 10**6))
def test_one_at_a_time_runs_nothing_twice(costs: list[float], limits: Limits, seed: int) -> None:
    machine = Machine(costs, limits, 1, seed)
    expected, spent = one_after_the_other(costs, limits)
    assert machine.run() == expected
    assert machine.spent == pytest.approx(spent)


def test_a_program_that_never_ends_costs_three_full_limits_and_seven_short_ones() -> None:
    machine = Machine([ENDLESS] * 100, LIMITS, 16, 0)
    assert machine.run() == [(Verdict.TLE, True)] * 10 + [(Verdict.TLE, False)] * 90
    assert machine.spent == 3 * 10 + 7 * 1


def test_output_that_waits_for_its_turn_is_bounded() -> None:
    plan = Schedule(100, LIMITS)
    plan.start(0)
    started = 0
    while (test := plan.to_start()) is not None:
        plan.start(test)
        plan.end(test, Execution(None, stdout=bytes(16 << 20)))
        started += 1
    assert started == 5
    plan.end(0, Execution(None))
    assert plan.verdict() is not None and plan.verdict() is not None
    assert plan.to_start() == 6


# --- the same with real programs ---

LOOPS_ON_ONE = "n = int(input())\nwhile n == 1: pass\nprint(n)"


@pytest.fixture
def own_slots(monkeypatch: pytest.MonkeyPatch):
    """Four slots of this test's own, and a list of how many tests ran at once at each start."""
    monkeypatch.setattr(executor, "_slots", slots.Slots(4, f"test-{threading.get_native_id()}"))
    at_once: list[int] = []
    start = executor._Response._start

    def counting(response: executor._Response, test: int) -> None:
        start(response, test)
        at_once.append(len(response.running))

    monkeypatch.setattr(executor._Response, "_start", counting)
    yield at_once
    assert not executor._slots.held


def test_endless_tests_run_side_by_side(own_slots: list[int]) -> None:
    limits = Limits(cpu_seconds=2, wall_seconds=120, short_cpu_seconds=0.4, max_timeouts=6)
    inputs = [b"0", b"1", b"1", b"0", b"1", b"1", b"1", b"1", b"0", b"1"]
    executions = list(run_tests(LOOPS_ON_ONE, inputs, limits))
    assert max(own_slots) == 4
    assert [e.verdict for e in executions] == [None, *[Verdict.TLE] * 2, None, *[Verdict.TLE] * 6]
    assert [e.ran for e in executions] == [True] * 8 + [False] * 2
    assert [e.cpu_seconds >= 2 for e in executions[:8]] == [False, True, True, False, True, False, False, False]
    assert executions[3].stdout == b"0\n"


def test_slow_tests_within_the_limit_are_never_touched(own_slots: list[int]) -> None:
    """Each takes longer than the short limit; those that were stopped there are run again in full."""
    program = "import time\nwhile time.process_time() < 0.6: pass\nprint(input())"
    limits = Limits(cpu_seconds=10, wall_seconds=120, short_cpu_seconds=0.2)
    executions = list(run_tests(program, [b"%d" % number for number in range(6)], limits))
    assert [e.stdout for e in executions] == [b"%d\n" % number for number in range(6)]
    assert all(e.verdict is None and e.cpu_seconds > 0.6 for e in executions)
    assert max(own_slots) > 1


def test_sleeping_tests_run_side_by_side(own_slots: list[int]) -> None:
    limits = Limits(cpu_seconds=5, wall_seconds=2, short_cpu_seconds=1, max_timeouts=5)
    executions = list(run_tests("import time\ntime.sleep(600)", [b""] * 8, limits))
    assert [(e.verdict, e.ran) for e in executions] == [(Verdict.TLE, True)] * 5 + [(Verdict.TLE, False)] * 3
    assert max(own_slots) > 1


def test_quick_tests_run_one_after_the_other(own_slots: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SPREAD_SECONDS", 60)  # a busy machine is not quick
    assert [e.stdout for e in run_tests("print(input())", [b"x"] * 10, Limits())] == [b"x\n"] * 10
    assert own_slots == [1] * 10


def test_closing_stops_what_runs_side_by_side(own_slots: list[int]) -> None:
    executions = run_tests("import time\nprint(input(), flush=True)\ntime.sleep(0.4)", [b"x"] * 20, Limits())
    next(executions)
    assert len(executor._slots.held) > 1
    executions.close()
    assert not executor._slots.held


def test_a_response_with_several_slots_gives_way(own_slots: list[int]) -> None:
    """While one response spreads over all slots, another gets one as soon as a test ends."""
    program = "import time\ntime.sleep(0.3)\nprint(input())"
    long = run_tests(program, [b"x"] * 60, Limits())
    next(long)
    assert len(executor._slots.held) == 4
    done = threading.Event()
    waited: list[Execution] = []

    def other() -> None:
        waited.extend(run_tests("print(input())", [b"y"], Limits()))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    time.sleep(0.1)
    asked = 0
    while not done.is_set() and asked < 59:
        assert next(long).stdout == b"x\n"
        asked += 1
    thread.join()
    long.close()
    assert waited[0].stdout == b"y\n"
    assert asked <= 16  # four rounds at most, of fifteen
