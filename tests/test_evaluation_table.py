"""The table and chart of two evaluations, and the statistics in it. Real EvalScope's results are in the other test files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, script_environment
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation import results, statistics, table
from evaluation.results import EvaluationError, Result


def result(name: str, model: str, problems: dict[str, list[float]], **details: object) -> Result:
    answers = len(next(iter(problems.values())))
    settings = {"benchmark": name, "model": model, "weights": model, "dataset": {}, "repeats": answers, "temperature": 0.8}
    return Result(name, {**settings, "max_tokens": 64, "limit": 0}, problems, details)


def scores(text: str) -> dict[str, list[float]]:
    """ "110" -> three problems with one answer each"""
    return {f"p{number}": [float(x)] for number, x in enumerate(text)}


def test_pass_at_k_counts_the_draws():
    """Against all ways to draw k of n answers."""
    from itertools import combinations

    for answers in range(1, 6):
        for right in range(answers + 1):
            for k in range(1, answers + 1):
                draws = list(combinations([1] * right + [0] * (answers - right), k))
                expected = sum(any(draw) for draw in draws) / len(draws)
                assert statistics.pass_at_k(answers, right, k) == pytest.approx(expected)
    with pytest.raises(ValueError):
        statistics.pass_at_k(2, 1, 3)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=200))
def test_the_interval_holds_the_mean_and_is_always_the_same(differences):
    low, high = statistics.interval(differences)
    assert low - 1e-9 <= np.mean(differences) <= high + 1e-9
    assert statistics.interval(differences) == (low, high)


def test_the_interval_is_as_wide_as_it_should_be():
    """Of many independent draws it is the mean and 1.96 standard errors."""
    differences = np.random.default_rng(1).normal(0.1, 1.0, 2000)
    low, high = statistics.interval(differences.tolist())
    error = differences.std() / 2000**0.5
    assert low == pytest.approx(differences.mean() - 1.96 * error, abs=0.003)
    assert high == pytest.approx(differences.mean() + 1.96 * error, abs=0.003)


def test_a_row_counts_what_both_have():
    base, trained = scores("1100"), {**scores("0111"), "only trained": [1.0]}
    line = table.row("humaneval", "pass@1", base, trained)
    assert (line.base, line.trained, line.problems) == (0.5, 0.75, 4)
    assert (line.gained, line.lost) == (("p2", "p3"), ("p0",))
    with pytest.raises(EvaluationError, match="no problem in common"):
        table.row("humaneval", "pass@1", {"a": [1.0]}, {"b": [1.0]})


def test_the_files(tmp_path):
    base = [result("humaneval", "b", scores("1" * 10 + "0" * 20)), result("gsm8k", "b", scores("10"))]
    trained = [result("humaneval", "t", scores("0" + "1" * 29))]
    text = table.compare(base, trained, ["humaneval", "gsm8k", "held_out"], tmp_path / "step")
    assert "| humaneval | pass@1 | 0.333 | 0.967 | +0.633 * |" in text and "| 30 | 20 / 1 |" in text
    assert "humaneval, pass@1, lost: p0" in text
    assert "Not in the table, as a model has no result: gsm8k, held_out." in text
    assert "not measured here" in text and "| humaneval | 0.59 | 0.59 |" in text and "| gsm8k | 0.82" not in text
    assert (tmp_path / "step.md").read_text() == text
    whole = json.loads((tmp_path / "step.json").read_text())
    assert whole["rows"][0]["difference"] == pytest.approx(19 / 30) and len(whole["rows"][0]["gained"]) == 20
    assert (tmp_path / "step.png").read_bytes().startswith(b"\x89PNG")
    assert list(whole["published_not_measured_here"]["before_after"]) == ["humaneval"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(("gained", "sure"), ((table.FEW, False), (table.FEW + 1, True)))
def test_a_handful_of_problems_is_no_proof(gained, sure):
    """The bootstrap's interval leaves zero out for five gained and none lost, which happen by chance in 6% of all cases."""
    line = table.row("humaneval", "pass@1", scores("0" * 200), scores("1" * gained + "0" * (200 - gained)))
    assert line.low > 0 and line.sure is sure


def test_repeated_answers_give_pass_at_k(tmp_path):
    base = {"x/1": [1.0, 0.0, 0.0, 0.0], "y/2": [0.0] * 4}
    trained = {"x/1": [1.0] * 4, "y/2": [1.0, 1.0, 0.0, 0.0]}
    more = {"pass_rates": {"x/1": [0.5] * 4, "y/2": [0.25] * 4}, "greedy": {"x/1": 1.0, "y/2": 0.0}}
    shares = {"shares": {"x": {"format": 1.0, "cut": 0.0}, "y": {"format": 0.5, "cut": 0.25}}}
    sides = [result("held_out", model, side, **more, **shares) for model, side in (("b", base), ("t", trained))]
    text = table.compare(sides[:1], sides[1:], [], tmp_path / "t")
    lines = {tuple(cell.strip() for cell in x.split("|")[1:5]) for x in text.splitlines() if x.startswith("| held_out")}
    assert ("held_out", "pass@1", "0.125", "0.750") in lines
    assert ("held_out", "pass@4", "0.500", "1.000") in lines
    assert ("held_out", "pass@1, greedy", "0.500", "0.500") in lines
    assert ("held_out", "pass rate", "0.375", "0.375") in lines
    assert ("held_out: y", "pass@1", "0.000", "0.500") in lines
    assert "| y, trained | 50 | 25 |" in text


def test_results_that_cannot_be_compared(tmp_path):
    base = result("humaneval", "b", scores("10"))
    with pytest.raises(EvaluationError, match="No benchmark has results of both"):
        table.compare([base], [result("gsm8k", "t", scores("10"))], [], tmp_path / "t")
    other = result("humaneval", "t", scores("10"))
    other.settings["max_tokens"] = 9
    with pytest.raises(EvaluationError, match="another max_tokens"):
        table.rows_of(base, other)
    with pytest.raises(EvaluationError, match="of the same weights"):
        table.rows_of(base, base)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ("", "{}", '{"benchmark": "x", "settings": {}, "problems": {}}', '{"problems": {"a": []}}'))
def test_a_result_that_cannot_be_read(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    command = [sys.executable, "-m", "evaluation.table", "--base", tmp_path / "result.json", "--out", tmp_path / "t"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=script_environment())
    assert done.returncode == 1 and done.stderr.startswith("table: ") and "evaluate again" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_result_comes_back(tmp_path):
    one = result("humaneval", "b", scores("10"))
    results.write(tmp_path / "folder" / "result.json", one)
    assert results.read(tmp_path / "folder" / "result.json") == one


def test_a_torn_line(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    for whole in (b"", b'{"a": 1}\n'):
        path.write_bytes(whole + b'{"b": ')
        results.drop_torn_line(path)
        assert path.read_bytes() == whole
