"""Responses after public bug reports of other verifiers, each with the right verdict, judged by compute_score.

`tests/cases/verifier_cases.json`: the response, the ground truth, the expected pass rate and format (null where that is a
matter of policy; then the response is judged all the same, and must neither raise nor count as the verifier's failure).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from code_reward import compute_score

CASES = json.loads((Path(__file__).parent / "cases" / "verifier_cases.json").read_text())
OPTIONS = {"timeout": 2, "wall_timeout": 6}  # the endless ones need not cost ten seconds a test


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case):
    result = compute_score("cases", case["response"], json.dumps(case["ground_truth"]), {"index": 0}, **OPTIONS)
    expected = case["expect"]
    if expected.get("score") is not None:
        assert result["score"] == pytest.approx(expected["score"]), case["symptom"]
    if expected.get("format") is not None:
        assert result["format"] == expected["format"], case["symptom"]
    assert result["internal_error"] == 0
    assert 0 <= result["score"] <= 1
