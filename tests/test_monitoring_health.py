"""Each thing that can go wrong with a run triggers its own warning and no other; a healthy run triggers none."""

from __future__ import annotations

import math
from pathlib import Path

import made_runs
import pytest

from monitoring.curves import curves
from monitoring.health import RULES, Finding, findings
from monitoring.run import open_run, read

RUNS = Path(__file__).parent / "cases" / "runs"


def found(path: Path) -> list[Finding]:
    return findings(curves(read(open_run(path))))


SICK = {
    "pass rate 0": ({"critic/score/mean": lambda step: 0.0}, {"pass_rate": lambda step: 0.004}),
    "pass rate jumps": ({}, {"pass_rate": lambda step: 0.2 + 0.4 * (step % 2)}),
    "format low": ({}, {"format": lambda step: 0.3}),
    "KL shoots up": ({"actor/reward_kl_penalty": lambda step: 0.01 if step < 30 else 0.05 * (step - 28)}, {}),
    "actor loss": ({"actor/pg_loss": lambda step: 0.01 if step < 38 else 25.0}, {}),
    "length follows the reward": (
        {"critic/score/mean": lambda step: 0.02 * step, "response_length/mean": lambda step: 100.0 + 8.0 * step},
        {"pass_rate": lambda step: 0.02 * step},
    ),
    "answers cut": ({"response_length/clip_ratio": lambda step: 0.3 if step < 20 else 0.97}, {}),
    "entropy collapse": ({"actor/entropy": lambda step: 0.5 * 0.85**step}, {}),
    "internal errors": ({}, {"IE": lambda step: 0.0 if step < 35 else 0.05}),
    "timeouts rise": ({}, {"TLE": lambda step: 0.02 if step < 20 else 0.15}),
}


@pytest.mark.parametrize("rule", SICK)
def test_what_goes_wrong_is_the_only_warning(rule: str, tmp_path: Path) -> None:
    metrics, log = SICK[rule]
    only = found(made_runs.make(tmp_path, 40, metrics, log))
    assert [warning.rule for warning in only] == [rule]
    assert not only[0].over
    assert only[0].last == 40
    assert str(only[0].last) in only[0].line() and only[0].advice in only[0].line()


def test_all_of_a_group_alike(tmp_path: Path) -> None:
    def lines(step: int, alike: bool) -> list[str]:
        scores = [0.5] * 5 if alike else [0.0, 0.5, 0.5, 0.5, 1.0]
        return [
            line
            for problem in range(10)
            for score in scores
            for line in made_runs.log_lines(step, index=problem, score=score)[:1]
        ]

    made_runs.write(tmp_path / "metrics.jsonl", made_runs.metrics_lines(range(1, 31)))
    log = tmp_path / "reward_log" / "host-1.jsonl"
    made_runs.write(log, [line for step in range(1, 31) for line in lines(step, alike=False)])
    assert found(tmp_path) == []
    made_runs.write(log, [line for step in range(1, 31) for line in lines(step, alike=step > 20)])
    (alike,) = found(tmp_path)
    assert (alike.rule, alike.step, alike.last) == ("groups alike", 25, 30)


def test_rows_without_tests(tmp_path: Path) -> None:
    run = made_runs.make(tmp_path)
    with (run / "reward_log" / "host-1.jsonl").open("a") as log:
        for step in range(36, 41):
            for line in made_runs.log_lines(step, verdicts={"DE": 1})[:3]:
                log.write(line + "\n")
    assert [warning.rule for warning in found(run)] == ["data errors"]


def test_every_rule_was_triggered() -> None:
    assert {rule.name for rule in RULES} == {*SICK, "groups alike", "data errors"}


def test_a_healthy_run_triggers_none(tmp_path: Path) -> None:
    assert found(made_runs.make(tmp_path)) == []
    assert found(made_runs.make(tmp_path / "long", 300)) == []


def test_a_real_run_that_learns_triggers_none() -> None:
    assert found(RUNS / "metrics_learning.jsonl") == []


def test_a_real_run_that_does_not_learn(tmp_path: Path) -> None:
    """Its fourteen steps are too few to say so; after twenty-eight of the kind it is said."""
    lines = (RUNS / "metrics_not_learning.jsonl").read_text().splitlines()
    assert found(made_runs.write(tmp_path / "once.jsonl", lines)) == []
    again = [line.replace(f'"step":{step},', f'"step":{step + 14},', 1) for step, line in enumerate(lines) if step > 0]
    (warning,) = found(made_runs.write(tmp_path / "twice.jsonl", lines + again))
    assert (warning.rule, warning.step, warning.last, warning.over) == ("pass rate 0", 20, 28, False)


BOUNDED = ("critic/score/mean", "actor/entropy", "response_length/mean", "response_length/clip_ratio")
FREAKS = [
    (name, value)
    for name in made_runs.HEALTHY
    for value in (None, math.nan, math.inf, 1e9, -1e9)
    if not name.startswith("timing") and not (name in BOUNDED and abs(value or 0.0) == 1e9)
]


@pytest.mark.parametrize(("name", "value"), FREAKS)
def test_one_freak_value_is_no_warning(name: str, value: float | None, tmp_path: Path) -> None:
    """The first step, one in the middle and the last, as a run that is followed has it."""
    for strange in (1, 20, 40):
        curve = made_runs.HEALTHY[name]
        changed = {name: lambda step, strange=strange, curve=curve: value if step == strange else curve(step)}
        run = made_runs.make(tmp_path / str(strange), 40, changed)
        assert [warning.line() for warning in found(run)] == []


@pytest.mark.parametrize("name", ["pass_rate", "format", "TLE", "IE"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_freak_step_in_the_reward_log_is_no_warning(name: str, value: float, tmp_path: Path) -> None:
    for strange in (1, 20, 40):
        curve = made_runs.HEALTHY_LOG[name]
        changed = {name: lambda step, strange=strange, curve=curve: value if step == strange else curve(step)}
        assert [each.line() for each in found(made_runs.make(tmp_path / str(strange), 40, {}, changed))] == []


def test_a_loss_that_is_not_a_number_twice_is_a_warning(tmp_path: Path) -> None:
    run = made_runs.make(tmp_path, 40, {"actor/pg_loss": lambda step: None if step >= 39 else 0.01})
    (warning,) = found(run)
    assert (warning.rule, warning.step, warning.figure) == ("actor loss", 40, "actor loss nan")


def test_what_is_over_is_said_to_be_over(tmp_path: Path) -> None:
    run = made_runs.make(tmp_path, 40, {"response_length/clip_ratio": lambda step: 0.95 if 10 <= step < 20 else 0.1})
    (warning,) = found(run)
    assert (warning.rule, warning.step, warning.last, warning.over) == ("answers cut", 14, 19, True)
    assert "over" in warning.line()


def test_a_policy_that_solves_the_problems_may_be_sure_of_itself(tmp_path: Path) -> None:
    metrics = {"critic/score/mean": lambda step: 0.97, "actor/entropy": lambda step: 0.5 * 0.85**step}
    run = made_runs.make(tmp_path, 40, metrics, {"pass_rate": lambda step: 0.97})
    assert found(run) == []


def test_a_format_that_is_low_but_rising_is_the_first_phase(tmp_path: Path) -> None:
    assert found(made_runs.make(tmp_path, 24, {}, {"format": lambda step: 0.02 * step})) == []
