"""What other verifiers are known to misjudge, judged here as veRL would have it: through compute_score."""

from __future__ import annotations

import json
import time

import pytest
from fault_kinds import CASES, Case, fenced

from benchmarks import verdict_agreement
from code_reward import compute_score
from verifier import scoring, self_check

LIMITS = {"timeout": 1.0, "wall_timeout": 4.0, "memory_mb": 256}


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_behind():
    """After all tests of this file there is no process and no zombie of theirs."""
    yield
    assert self_check.left_behind() == ""


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_judged_as_it_should_be(case: Case) -> None:
    truth = case.truth if isinstance(case.truth, str) else json.dumps(case.truth)
    numbers = compute_score("test", case.response, truth, {"index": 0, "checker": case.checker}, **LIMITS)
    assert numbers["pass_rate"] == pytest.approx(case.score), numbers
    assert numbers["format"] == case.format
    assert numbers["internal_error"] == 0.0
    if case.share:
        assert numbers[case.share] == pytest.approx(1.0 - case.score), numbers


def test_no_case_stands_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert len({(case.response, json.dumps(case.truth), case.checker) for case in CASES}) == len(CASES)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str | None]]:
    """The executor, and what it was asked for: the number of tests and the function's name of each call."""
    asked, working = [], scoring.run_tests

    def run_tests(program: str, inputs: list[bytes], *arguments: object, **keywords: object):
        asked.append((len(inputs), keywords["fn_name"]))
        return working(program, inputs, *arguments, **keywords)

    monkeypatch.setattr(scoring, "run_tests", run_tests)
    return asked


def test_a_response_is_run_once_on_each_test(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counted(monkeypatch)
    tests = {"inputs": ["1", "2", "3"], "outputs": ["1", "0", "3"]}
    assert compute_score("test", fenced("print(input())"), tests)["pass_rate"] == pytest.approx(2 / 3)
    assert asked == [(3, None)]


@pytest.mark.parametrize("program", ["while True: pass", "1 / 0", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"])
def test_a_program_that_fails_is_not_tried_again_like_a_machine_that_does(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counted(monkeypatch)
    numbers = compute_score("test", fenced(program), {"inputs": [""], "outputs": ["1"]}, **LIMITS)
    assert numbers["time_limit"] + numbers["runtime_error"] == 1.0
    assert asked == [(1, None)]


def test_fewer_tests_still_know_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counted(monkeypatch)
    tests = {"fn_name": "f", "inputs": [[n] for n in range(20)], "outputs": [[n + 1] for n in range(20)]}
    numbers = compute_score("test", fenced("def f(n):\n    return n + 1 if n < 19 else 0"), tests, max_tests=5)
    assert numbers["pass_rate"] == 0.8
    assert asked == [(5, "f")]


def test_a_judge_without_a_sandbox_costs_at_most_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_agreement, "CASE_SECONDS", 1.0)
    assert verdict_agreement.in_a_process(lambda: 0.5) == 0.5
    assert verdict_agreement.in_a_process(lambda: 1 / 0) is None
    assert verdict_agreement.in_a_process(lambda: time.sleep(600)) is None
    assert verdict_agreement.in_a_process(lambda: len(bytearray(2 * verdict_agreement.MEMORY))) is None


def test_the_table_counts_only_what_all_have_run() -> None:
    sizes = dict.fromkeys(verdict_agreement.KINDS, 9)
    lines = verdict_agreement.table({"one": {"ext": 3, "io": 1, "res": 2}, "two": {"ext": 4, "io": 5}}, sizes).splitlines()
    assert lines[0].endswith("| hack 9 | total 18 |")
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == ["one", "3", "1", "–", "–", "–", "–", "2", "–", "4"]
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == ["two", "4", "5", "–", "–", "–", "–", "–", "–", "9"]


def test_the_benchmark_takes_no_case_twice() -> None:
    cases = verdict_agreement.all_cases()
    assert len(cases) > len(CASES)
    assert {case.kind for case in cases} == set(verdict_agreement.KINDS)
    assert len({(case.response.strip(), json.dumps(case.truth), case.checker) for case in cases}) == len(cases)
