"""A row's own checker: what it may say, what its program is given, and whose fault it is when that fails."""

from __future__ import annotations

import json

import pytest

from code_reward import compute_score
from verifier import checkers, scoring
from verifier.checkers import Checker
from verifier.ground_truth import GroundTruthError
from verifier.verdict import Execution, Limits, Verdict

ANY_SUM = """
def check(input, expected, output):
    words = output.split()
    return len(words) == 2 and all(map(str.isdigit, words)) and sum(map(int, words)) == int(input)
"""
SUMS = {"inputs": ["7\n", "12\n"], "outputs": ["3 4\n", "6 6\n"]}


def fenced(program: str) -> str:
    return f"```python\n{program}\n```"


def judge(program: str, tests: dict, checker: object, **options: object) -> dict[str, float]:
    numbers = compute_score("test", fenced(program), json.dumps(tests), {"index": 0, "checker": checker}, **options)
    assert sum(numbers[name] for name in [*scoring.SHARES, "pass_rate"]) == pytest.approx(1.0)
    return numbers


# --- what a row may name ---


@pytest.mark.parametrize(
    "extra_info", [None, {}, {"index": 3}, {"checker": None}, {"checker": ""}, {"checker": float("nan")}, {"checker": {}},
                   {"checker": {"program": None}}, {"checker": " \n"}, "tokens", 7]
)  # fmt: skip
def test_rows_without_a_checker(extra_info: object) -> None:
    assert checkers.of_row(extra_info) == Checker()
    assert compute_score("test", fenced("print(7)"), {"inputs": [""], "outputs": ["7"]}, extra_info)["score"] == 1.0


@pytest.mark.parametrize("name, mode", [
    ("exact", "exact"), ("tokens", "tokens"), ("float", "float"), ("lines-unordered", "lines-unordered"),
    ("unordered_lines", "lines-unordered"), ("Unordered lines", "lines-unordered"), (" FLOAT\n", "float"),
])  # fmt: skip
def test_names(name: str, mode: str) -> None:
    assert checkers.of_row({"checker": name}) == Checker(mode=mode)


def test_numpy_and_arrow_types() -> None:
    np, pa, pd = map(pytest.importorskip, ("numpy", "pyarrow", "pandas"))
    for value in (np.str_("float"), np.array("float"), np.array(["float"], dtype=object), pa.scalar("float"), b"float"):
        assert checkers.of_row({"checker": value}) == Checker(mode="float")
    for value in (pd.NA, pd.NaT, pa.scalar(None, pa.string()), np.float64("nan")):
        assert checkers.of_row({"checker": value}) == Checker()
    assert checkers.of_row(pa.scalar({"index": 3, "checker": "float"})) == Checker(mode="float")
    for value in (np.array([]), np.array(["float", "float"])):
        with pytest.raises(GroundTruthError, match="of type list, not a name or a program"):
            checkers.of_row({"checker": value})
    rows = pa.table({"extra_info": [{"checker": {"program": ANY_SUM}}, {"checker": None}, None]}).to_pandas()["extra_info"]
    assert [checkers.of_row(row).program for row in rows] == [ANY_SUM, None, None]


@pytest.mark.parametrize("checker, sentence", [
    ("tokenz", "the row's checker 'tokenz' is unknown: use one of tokens, exact, float, lines-unordered"),
    (3, "the row's checker is of type int, not a name or a program"),
    (["float"], "the row's checker is of type list"),
    ({"programme": "x"}, 'the row\'s checker has the keys programme: it must be {"program": source}'),
    ({"program": 3}, 'it must be {"program": source}'),
    ({"program": "x", "language": "cpp"}, "has the keys program, language"),
])  # fmt: skip
def test_an_unusable_checker_is_a_data_error(checker: object, sentence: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(GroundTruthError) as refused:
        checkers.of_row({"checker": checker})
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    scoring._reported_rows.clear()
    for _ in range(2):
        numbers = compute_score("test", fenced("print(7)"), {"inputs": [""], "outputs": ["7"]}, {"checker": checker})
        assert (numbers["score"], numbers["data_error"]) == (0.0, 1.0)
    assert capsys.readouterr().err.count(sentence) == 1


# --- modes by name ---


@pytest.mark.parametrize("checker, printed, expected, passes", [
    ("exact", "1  2", "1 2", False),
    ("exact", "1 2", "1 2", True),
    ("tokens", "1  2", "1 2", True),
    ("tokens", "7.0", "7", False),
    ("float", "7.0", "7", True),
    ("float", "7.1", "7", False),
    ("lines-unordered", "b\na", "a\nb", True),
    ("lines-unordered", "b\nb", "a\nb", False),
])  # fmt: skip
def test_modes(checker: str, printed: str, expected: str, passes: bool) -> None:
    tests = {"inputs": [""], "outputs": [expected]}
    for option in ("tokens", "exact"):  # the row knows better than the run
        assert judge(f"print({printed!r})", tests, checker, comparison=option)["score"] == float(passes)


def test_a_mode_for_call_based_tests_is_a_data_error(capsys: pytest.CaptureFixture) -> None:
    tests = {"fn_name": "f", "inputs": ["1"], "outputs": ["1"]}
    assert judge("def f(x): return x", tests, "float")["data_error"] == 1.0
    assert "checker float is for printed text, but its tests call a function" in capsys.readouterr().err


# --- programs ---


@pytest.mark.parametrize("checker", [ANY_SUM, {"program": ANY_SUM}, ANY_SUM.replace("\n", "\r\n"), ANY_SUM.encode().decode()])
def test_a_program_judges(checker: object) -> None:
    assert judge("n = int(input())\nprint(0, n)", SUMS, checker)["score"] == 1.0
    assert judge("n = int(input())\nprint(5, n - 5)", SUMS, checker)["score"] == 1.0
    numbers = judge("print(3, 4)", SUMS, checker)
    assert (numbers["score"], numbers["wrong_answer"]) == (0.5, 0.5)
    numbers = judge("print('three four')", SUMS, checker)
    assert (numbers["wrong_answer"], numbers["internal_error"]) == (1.0, 0.0)


def test_a_program_on_one_line() -> None:
    assert judge("print(8)", SUMS, "def check(i, e, o): return o == '8\\n'")["score"] == 1.0


def test_what_the_program_is_given() -> None:
    checker = (
        "def check(input, expected, output):\n    return (input, expected, output) == ('ä 1\\n', 'x\\n y', 'a\\r\\nb\\ufffd')"
    )
    program = "import sys\nsys.stdout.buffer.write(b'a\\r\\nb\\xff')"
    assert judge(program, {"inputs": ["ä 1\n"], "outputs": ["x\n y"]}, checker)["score"] == 1.0


def test_the_program_may_print_and_import() -> None:
    checker = """
import json, sys
def check(i, e, o):
    print('False', file=sys.stderr)
    print(False)
    return json.loads(o) == [1]
"""
    assert judge("print([1])", {"inputs": [""], "outputs": [""]}, checker)["score"] == 1.0


def test_only_tests_that_ended_well_reach_it() -> None:
    tests = {"inputs": ["1", "2", "3"], "outputs": ["", "", ""]}
    checker = "def check(i, e, o):\n    if i == '2':\n        raise ValueError\n    return i == '1'"
    numbers = judge("print(5)\nif input() == '2':\n    1 / 0", tests, checker)
    assert (numbers["pass_rate"], numbers["runtime_error"], numbers["wrong_answer"]) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert judge("print(", tests, checker)["compile_error"] == 1.0


def test_it_tells_which_rule_accepted() -> None:
    judgement = scoring.judge_response(fenced("print(1, 6)"), SUMS, scoring.options.read({}, {}), {"checker": ANY_SUM})
    assert [(result.verdict, result.rule) for result in judgement.results] == [(Verdict.AC, "checker"), (Verdict.WA, "")]
    assert judgement.results[1].detail == "the checker rejects it"


def test_call_based() -> None:
    checker = """
def check(arguments, expected, returned):
    n, = arguments
    return isinstance(returned, tuple) and sum(returned) == n and expected == [1, 2]
"""
    for inputs, outputs in (([[3]], [[1, 2]]), (["3"], ["[1, 2]"])):
        tests = {"fn_name": "split", "inputs": inputs, "outputs": outputs}
        assert judge("def split(n): return (0, n)", tests, checker)["score"] == 1.0
        assert judge("def split(n): return (1, n)", tests, checker)["wrong_answer"] == 1.0
        assert judge("def split(n): return (object(), n)", tests, checker)["wrong_answer"] == 1.0
        assert judge("def split(n): raise ValueError", tests, checker)["runtime_error"] == 1.0


def test_expected_output_and_judged_program_never_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judged program is given its input only, and has ended on every test when the checker starts."""
    order: list[str] = []
    working = {module: module.run_tests for module in (scoring, checkers)}

    def watched(module: object):
        def run_tests(program: str, inputs: list[bytes], *arguments: object, **keywords: object):
            name = "checker" if module is checkers else "program"
            assert name == "checker" or not any(b"SECRET" in text for text in (program.encode(), *inputs))
            try:
                for execution in working[module](program, inputs, *arguments, **keywords):
                    order.append(name)
                    yield execution
            finally:
                order.append(f"{name} closed")

        return run_tests

    for module in working:
        monkeypatch.setattr(module, "run_tests", watched(module))
    tests = {"inputs": ["1", "2"], "outputs": ["SECRET", "SECRET"]}
    assert judge("print(input())", tests, "def check(i, e, o): return e == 'SECRET'")["score"] == 1.0
    assert order == ["program", "program", "program closed", "checker", "checker", "checker closed"]


def test_the_outputs_kept_for_it_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkers, "room_for_outputs", lambda limits, sizes: 25)
    tests = {"inputs": [""] * 4, "outputs": [""] * 4}
    numbers = judge("print('x' * 9)", tests, "def check(i, e, o): return True")
    assert (numbers["pass_rate"], numbers["output_limit"]) == (0.5, 0.5)


def test_the_room_grows_with_what_is_expected() -> None:
    limits = Limits(stdout_bytes=100, expected_factor=4)
    assert checkers.room_for_outputs(limits, [0] * 50) == 100 * checkers.KEPT_FACTOR
    assert checkers.room_for_outputs(limits, [90] * 50) == 4 * 90 * 50


# --- when the checker fails ---

FAILURES = {
    "raises": ("def check(i, e, o):\n    raise KeyError('x')", "failed on test 1: RE KeyError: 'x'"),
    "raises on the second": ("def check(i, e, o):\n    return i == '7\\n' or 1 / 0", "failed on test 2: RE ZeroDivisionError"),
    "does not compile": ("def check(i, e, o) return True", "failed on test 1: CE SyntaxError"),
    "has no check": ("def chekc(i, e, o):\n    return True", "failed on test 1: RE NameError: the program defines no check"),
    "takes two arguments": ("def check(i, o):\n    return True", "failed on test 1: RE TypeError"),
    "returns 1": ("def check(i, e, o):\n    return 1", "must return True or False; on test 1: a value of type int"),
    "returns nothing": ("def check(i, e, o):\n    pass", "must return True or False; on test 1: a value of type NoneType"),
    "exits": ("def check(i, e, o):\n    raise SystemExit(0)", "must return True or False; on test 1: <no value was returned>"),
    "never ends": ("def check(i, e, o):\n    while True: pass", "failed on test 1: TLE"),
    "eats memory": ("def check(i, e, o):\n    return bool(bytearray(1 << 30))", "failed on test 1: MLE"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_its_failure_is_an_internal_error_and_loud(
    name: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, working = [], checkers.run_tests
    monkeypatch.setattr(checkers, "run_tests", lambda *a, **k: runs.append(1) or working(*a, **k))
    checker, sentence = FAILURES[name]
    numbers = judge("print(3, 4)", SUMS, checker, timeout=0.5, memory_mb=256)
    assert (numbers["internal_error"], numbers["score"], numbers["wrong_answer"]) == (1.0, 0.0, 0.0)
    said = capsys.readouterr().err
    assert "INTERNAL ERROR" in said and f"the row's checker {sentence}" in said
    assert "test, index 0" in said  # which row
    assert len(runs) == 1  # it would fail again


def test_a_machine_that_cannot_run_it_is_tried_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    working, failures = checkers.run_tests, [1]

    def fails_at_first(*arguments: object, **keywords: object):
        if failures:
            failures.pop()
            yield Execution(Verdict.IE, message="no more processes")
        yield from working(*arguments, **keywords)

    monkeypatch.setattr(checkers, "run_tests", fails_at_first)
    assert judge("n = int(input())\nprint(0, n)", SUMS, ANY_SUM)["score"] == 1.0
    assert capsys.readouterr().err == ""
    failures += [1] * scoring.ATTEMPTS
    assert judge("print(0, 7)", SUMS, ANY_SUM)["internal_error"] == 1.0
    assert "the row's checker could not be run: no more processes" in capsys.readouterr().err
