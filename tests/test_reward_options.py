"""What PPO is paid for: the tiers of the score, the choice of tests, and the source recipe's rules."""

from __future__ import annotations

import itertools
import random

import pytest
from fault_kinds import CASES
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import verdict_agreement
from code_reward import compute_score
from verifier import options, scoring
from verifier.scoring import Judgement, reward, select_tests
from verifier.verdict import TestResult, Verdict

WEIGHTS = {"format_weight": 0.2, "compile_weight": 0.3}
ADD = "a, b = map(int, input().split())\nprint(a + b)"
TESTS = {"inputs": ["3 4\n", "-5 5\n"], "outputs": ["7\n", "0\n"]}


def fenced(program: str) -> str:
    return f"```python\n{program}\n```"


def score(response: str, tests: object = TESTS, **arguments: object) -> float:
    numbers = compute_score("test", response, tests, {"index": 0}, **arguments)
    assert 0.0 <= numbers["score"] <= 1.0
    return numbers["score"]


# --- the tiers ---

EARNED = {  # response, tests, score under both weights
    "right": (fenced(ADD), TESTS, 1.0),
    "right, without a block": (ADD, TESTS, 0.8),
    "half right": (fenced("print(7)"), TESTS, 0.2 + 0.3 + 0.25),
    "half right, without a block": ("print(7)", TESTS, 0.3 + 0.25),
    "wrong": (fenced("print('no')"), TESTS, 0.5),
    "wrong, without a block": ("print('no')", TESTS, 0.3),
    "crashes at once": (fenced("1 / 0"), TESTS, 0.5),
    "crashes after the answer": (fenced(f"{ADD}\n1 / 0"), TESTS, 0.5),
    "does not compile": (fenced("print 'no'"), TESTS, 0.2),
    "prose in a block": (fenced("I would add the numbers."), TESTS, 0.2),
    "comments only": (fenced("# first read the numbers\n\n    # then add them"), TESTS, 0.2),
    "comments only, which is right": (fenced("# nothing to print"), {"inputs": [""], "outputs": [""]}, 1.0),
    "empty block": (fenced(""), TESTS, 0.2),
    "empty block, nothing expected": (fenced(""), {"inputs": [""], "outputs": [""]}, 0.2),
    "nothing": ("", TESTS, 0.0),
    "prose": ("I would add the numbers.", TESTS, 0.0),
    "prose that compiles": ("Sorry", TESTS, 0.0),
    "a number": ("42", TESTS, 0.0),
    "a comment": ("# Solution", TESTS, 0.0),
    "no tests": (fenced(ADD), {"inputs": [], "outputs": []}, 0.0),
}


@pytest.mark.parametrize("name", EARNED)
def test_tiers(name: str) -> None:
    response, tests, expected = EARNED[name]
    assert score(response, tests, **WEIGHTS) == pytest.approx(expected, abs=1e-12)
    assert score(response, tests, **dict.fromkeys(WEIGHTS, 0)) == compute_score("test", response, tests)["pass_rate"]


def test_tiers_apart_and_with_binary() -> None:
    half = fenced("print(7)")
    assert score(half, format_weight=0.1) == pytest.approx(0.1 + 0.9 * 0.5)
    assert score(half, compile_weight=0.1) == pytest.approx(0.1 + 0.9 * 0.5)
    assert score(half, reward="binary", **WEIGHTS) == pytest.approx(0.5)
    assert score(fenced(ADD), reward="binary", **WEIGHTS) == 1.0


def test_an_internal_error_earns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "run_tests", lambda *_, **__: 1 // 0)
    assert score(fenced(ADD), **WEIGHTS) == 0.0


@pytest.mark.parametrize("arguments, sentence", [
    ({"format_weight": 0.21}, "code_reward's option format_weight must be a number from 0 to 0.2, not 0.21"),
    ({"format_weight": -0.1}, "format_weight must be a number from 0 to 0.2, not -0.1"),
    ({"compile_weight": "0.4"}, "compile_weight must be a number from 0 to 0.3, not '0.4'"),
    ({"compile_weight": "lots"}, "compile_weight must be a number from 0 to 0.3, not 'lots'"),
    ({"compile_weight": float("inf")}, "compile_weight must be a number from 0 to 0.3, not inf"),
    ({"compile_weight": float("nan")}, "compile_weight must be a number from 0 to 0.3, not nan"),
    ({"compile_weight": True}, "compile_weight must be a number from 0 to 0.3, not True"),
])  # fmt: skip
def test_weights_that_outweigh_the_tests_are_refused(arguments: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        compute_score("test", fenced(ADD), TESTS, None, **arguments)
    assert sentence in str(refused.value)


def test_the_tests_always_weigh_at_least_as_much_as_the_rest() -> None:
    assert options.MAX_FORMAT_WEIGHT + options.MAX_COMPILE_WEIGHT <= 0.5


def test_weights_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE_REWARD_FORMAT_WEIGHT", "0.1")
    monkeypatch.setenv("CODE_REWARD_COMPILE_WEIGHT", "0.2")
    assert score(fenced("print('no')")) == pytest.approx(0.3)


FAILED = [verdict for verdict in Verdict if verdict not in (Verdict.AC, Verdict.DE, Verdict.IE)]
CODES = ["", "print(1)", "# only this", "Sorry"]
settings_of = st.builds(
    options.Options,
    reward=st.sampled_from(["pass_rate", "binary"]),
    format_weight=st.floats(0, options.MAX_FORMAT_WEIGHT),
    compile_weight=st.floats(0, options.MAX_COMPILE_WEIGHT),
)


def judgement(code: str, format: int, verdicts: list[Verdict]) -> Judgement:
    return Judgement(code, format, "", tuple(map(TestResult, verdicts)), tuple(range(len(verdicts))))


@given(st.sampled_from(CODES), st.integers(0, 1), st.lists(st.sampled_from([Verdict.AC, *FAILED]), min_size=1), settings_of)
def test_passing_more_tests_never_lowers_the_score(
    code: str, format: int, verdicts: list[Verdict], chosen: options.Options
) -> None:
    scores = [reward(judgement(code, format, verdicts), chosen)]
    for place, verdict in enumerate(verdicts):
        if verdict is not Verdict.AC:
            verdicts[place] = Verdict.AC
            scores.append(reward(judgement(code, format, verdicts), chosen))
    assert all(0.0 <= each <= 1.0 for each in scores)
    assert all(after >= before - 1e-12 for before, after in itertools.pairwise(scores))
    assert scores[-1] == pytest.approx(1.0 - (0.0 if format else chosen.format_weight))


@given(
    st.sampled_from(CODES),
    st.integers(0, 1),
    st.lists(st.sampled_from([Verdict.AC, Verdict.WA]), min_size=1),
    st.sampled_from([*FAILED, Verdict.DE, Verdict.IE]),
    settings_of,
)
def test_no_way_to_fail_earns_more_than_a_wrong_answer(
    code: str, format: int, verdicts: list[Verdict], other: Verdict, chosen: options.Options
) -> None:
    failing = [other if verdict is Verdict.WA else verdict for verdict in verdicts]
    if other in (Verdict.DE, Verdict.IE):
        failing = [other]  # these stand alone
    assert reward(judgement(code, format, failing), chosen) <= reward(judgement(code, format, verdicts), chosen)


# --- max_tests ---


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=150), st.integers(3, 120))
def test_the_first_the_last_and_the_largest_are_kept(sizes: list[int], max_tests: int) -> None:
    chosen = select_tests(sizes, max_tests)
    assert len(chosen) == min(max_tests, len(sizes))
    assert list(chosen) == sorted(set(chosen))
    assert {0, len(sizes) - 1} <= set(chosen) <= set(range(len(sizes)))
    if len(sizes) > max_tests:
        largest = sorted(sizes)[-max(1, max_tests // scoring.LARGEST_SHARE) :]
        assert sorted(sizes[index] for index in chosen)[-len(largest) :] == largest
    assert chosen == select_tests(list(sizes), max_tests)


def test_the_rest_is_spread_over_the_sizes() -> None:
    order = random.Random(0).sample(range(100), 100)
    chosen = sorted(order[index] for index in select_tests(order, 20))  # the sizes that were chosen
    gaps = [after - before for before, after in itertools.pairwise([-1, *chosen, 100])]
    assert max(gaps) <= 8
    assert chosen[-5:] == [95, 96, 97, 98, 99]


def test_all_tests_are_kept_where_there_are_no_more() -> None:
    assert select_tests([3] * 5, 5) == select_tests([3] * 5, None) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("failing", [0, 99, 41], ids=["first", "last", "largest"])
def test_a_failure_there_cannot_hide(failing: int) -> None:
    inputs = [f"{n}" + " 0" * (1000 if n == 41 else n % 7) for n in range(100)]
    tests = {"inputs": inputs, "outputs": [str(n) for n in range(100)]}
    program = f"n = int(input().split()[0])\nprint(n if n != {failing} else 'no')"
    for _ in range(2):
        assert compute_score("test", fenced(program), tests, max_tests=5)["pass_rate"] == 0.8
    right = compute_score("test", fenced("print(input().split()[0])"), tests, max_tests=5)
    assert (right["pass_rate"], right["acc"]) == (1.0, 1.0)


# --- the source recipe's rules ---

DRAFT = f"Draft:\n{fenced(ADD.replace('+', '-'))}\nBetter:\n{fenced(ADD)}"
SOURCE_DIFFERS = {  # response, tests, score by our rules, score by the source recipe's
    "the last block": (DRAFT, TESTS, 1.0, 0.0),
    "the first block": (f"{fenced(ADD)}\nor\n{fenced('print(0)')}", TESTS, 0.5, 1.0),
    "a draft in the reasoning": (f"<think>{fenced('print(0)')}</think>{fenced(ADD)}", TESTS, 1.0, 0.5),
    "another tag": (f"```py\n{ADD}\n```", TESTS, 1.0, 0.0),
    "tag with a version": (f"```python3\n{ADD}\n```", TESTS, 1.0, 0.0),
    "capital tag": (f"```Python\n{ADD}\n```", TESTS, 1.0, 0.0),
    "no tag": (f"```\n{ADD}\n```", TESTS, 1.0, 0.0),
    "attributes": (f"```python title=a.py\n{ADD}\n```", TESTS, 1.0, 0.0),
    "tildes": (f"~~~python\n{ADD}\n~~~", TESTS, 1.0, 0.0),
    "indented block": ("- so:\n\n  ```python\n  print(7)\n  ```", TESTS, 0.5, 0.0),
    "unclosed block": (f"```python\n{ADD}", TESTS, 1.0, 0.0),
    "fence in a string": ("```python\nprint('```')\n```", {"inputs": [""], "outputs": ["```"]}, 1.0, 0.0),
    "lone fence": (f"{ADD}\n```", TESTS, 1.0, 0.0),
    "end-of-turn token": (f"{ADD}<|im_end|>", TESTS, 1.0, 0.0),
    "blanks within a line": (fenced("print('1  2')"), {"inputs": [""], "outputs": ["1 2"]}, 1.0, 0.0),
    "blanks at the end of a line": (fenced("print('1 ')\nprint(2)"), {"inputs": [""], "outputs": ["1\n2"]}, 1.0, 0.0),
    "blank line": (fenced("print('1\\n\\n2')"), {"inputs": [""], "outputs": ["1\n2"]}, 1.0, 0.0),
    "a blank for a line end": (fenced("print(1, 2)"), {"inputs": [""], "outputs": ["1\n2"]}, 1.0, 0.0),
    "decimals": (fenced("print('0.50')"), {"inputs": [""], "outputs": ["0.5"]}, 1.0, 0.0),
    "case of an answer": (fenced("print('yes')"), {"inputs": [""], "outputs": ["YES"]}, 1.0, 0.0),
}  # fmt: skip
SOURCE_AGREES = {
    "one block": (fenced(ADD), TESTS, 1.0),
    "no block": (ADD, TESTS, 1.0),
    "both ends are stripped": (fenced("print('\\n  1 2 \\n')"), {"inputs": [""], "outputs": ["1 2\n"]}, 1.0),
    "line ends": (fenced("print('1\\r\\n2')"), {"inputs": [""], "outputs": ["1\n2"]}, 1.0),
    "blanks after the tag": (f"```python  \n{ADD}\n```", TESTS, 1.0),
    "wrong": (fenced("print(7)"), TESTS, 0.5),
    "exit code": (fenced(f"{ADD}\nexit(1)"), TESTS, 0.0),
}


@pytest.mark.parametrize("name", SOURCE_DIFFERS)
def test_where_the_source_recipe_differs(name: str) -> None:
    response, tests, ours, sources = SOURCE_DIFFERS[name]
    assert score(response, tests) == ours
    assert score(response, tests, rules="source") == sources


@pytest.mark.parametrize("name", SOURCE_AGREES)
def test_where_it_does_not(name: str) -> None:
    response, tests, expected = SOURCE_AGREES[name]
    assert score(response, tests) == score(response, tests, rules="source") == expected


def test_agreement_with_the_recipe_itself() -> None:
    """On every response and every output of the known fault kinds, but where the recipe rewards a response for nothing."""
    differing = set()
    for case in CASES:
        if case.kind in ("ext", "cmp"):
            arguments = ("test", case.response, case.truth, {"checker": case.checker})
            if compute_score(*arguments, rules="source")["pass_rate"] != verdict_agreement.source_recipe(case, timeout=10):
                differing.add(case.name)
    assert differing == {
        "ext: rewards an empty block",
        "ext: rewards an empty response",
        "cmp: counts a carriage return that was expected",  # rows are read the same way under all rules
    }


def test_the_source_recipe_knows_no_checkers() -> None:
    tests, extra_info = {"inputs": [""], "outputs": ["a\nb"]}, {"index": 0, "checker": "lines-unordered"}
    assert compute_score("test", fenced("print('b\\na')"), tests, extra_info)["score"] == 1.0
    assert compute_score("test", fenced("print('b\\na')"), tests, extra_info, rules="source")["score"] == 0.0


def test_format_under_the_source_recipes_rules() -> None:
    for response, expected in ((fenced(ADD), 1.0), (f"```py\n{ADD}\n```", 0.0), (ADD, 0.0)):
        assert compute_score("test", response, TESTS, rules="source")["format"] == expected


def test_a_long_response_is_searched_in_linear_time() -> None:
    for text in ("```python" + " \n" * 200_000, "```python " * 100_000, "```python" + "\n" * 500_000 + "x"):
        assert score(text, rules="source") == 0.0
