"""What is drawn: the phases where the curves show them, and the panels that have data."""

from __future__ import annotations

from pathlib import Path

import made_runs
import pytest

from monitoring.curves import curves
from monitoring.panels import panels
from monitoring.phases import phases
from monitoring.run import open_run, read

RUNS = Path(__file__).parent / "cases" / "runs"


def marked(tmp_path: Path, steps: int, pass_rate, form) -> list[tuple[int, int, int]]:
    log = {"pass_rate": pass_rate, "format": form}
    run = made_runs.make(tmp_path / "phases", steps, {"critic/score/mean": pass_rate}, log)
    return [(phase.number, phase.first, phase.last) for phase in phases(curves(read(open_run(run))))]


def test_three_phases(tmp_path: Path) -> None:
    found = marked(tmp_path, 60, lambda s: 0.02 * max(0, min(s, 40) - 10), lambda s: min(1.0, 0.3 + 0.05 * s))
    assert [number for number, _, _ in found] == [1, 2, 3]
    assert found[0][1:] == (1, 12) and found[1][1] == 12 and found[1][2] == found[2][1] and found[2][2] == 60
    assert 35 <= found[2][1] <= 39


@pytest.mark.parametrize(
    ("pass_rate", "form", "numbers"),
    [
        (lambda s: 0.0, lambda s: 0.0, []),
        (lambda s: 0.5, lambda s: 1.0, []),
        (lambda s: 0.0, lambda s: min(1.0, 0.05 * s), [1]),
        (lambda s: 0.015 * s, lambda s: 1.0, [2]),
        (lambda s: min(0.6, 0.06 * s), lambda s: 0.85, [2, 3]),
        (lambda s: 0.9 if s == 20 else 0.1, lambda s: 1.0 if s == 20 else 0.5, []),  # one good batch
    ],
)
def test_a_phase_that_the_curves_do_not_show_is_not_marked(pass_rate, form, numbers: list[int], tmp_path: Path) -> None:
    assert [number for number, _, _ in marked(tmp_path, 40, pass_rate, form)] == numbers


def test_the_real_run_that_learns_is_still_rising() -> None:
    found = phases(curves(read(open_run(RUNS / "metrics_learning.jsonl"))))
    assert [(phase.number, phase.first, phase.last) for phase in found] == [(2, 1, 17)]


def test_panels_without_data_are_left_out_and_runs_are_laid_over_each_other(tmp_path: Path) -> None:
    one = curves(read(open_run(made_runs.make(tmp_path / "one"))))
    bare = curves(read(open_run(RUNS / "metrics_learning.jsonl")))
    titles = [panel.title for panel in panels([("one", one)])]
    assert {"Reward", "Pass rate", "Format", "How tests ended, train", "Seconds a step", "Queue time"} <= set(titles)
    assert "Pass rate by source, train" in titles and "Groups with one score" not in titles
    assert "Queue time" not in [panel.title for panel in panels([("bare", bare)])]
    both = {panel.title: panel for panel in panels([("one", one), ("bare", bare)])}
    assert [line.label for line in both["Reward"].lines] == ["one, train", "bare, train", "bare, validation"]
    assert {"Seconds a step (one)", "Seconds a step (bare)"} <= set(both)
