"""What prepare_data.py drops and keeps: statements, tests, checkers, the layout of calls."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from raw_rows import DOUBLE, good_rows, raw_row, run, source_folder, table, written

from preparation import statements
from preparation.cleaning import Rules, canonical_calls, clean, row_checker, usable_tests
from verifier import comparison
from verifier import ground_truth as gt
from verifier.comparison import Exactly

ROOT = Path(__file__).resolve().parent.parent


# ---- statements


@pytest.mark.parametrize(
    "statement",
    [
        "Write a C++ program that prints n.",
        "Write a program in Java that prints n.",
        "Your task is to write a function in JavaScript. It halves a number.",
        "Complete the following Java code.",
        "Please implement the stack using only Haskell.",
        "You have to write the answer as a SQL query in MySQL.",
        "Your program must be written in Pascal.",
        "Solutions are accepted only in Rust.",
        "You must use C# here.",
        "Given two numbers.\n\nImplement the method below in Kotlin.",
        "Write a C language program to add numbers.",
        "You should write a Bash script which adds numbers.",
    ],
)
def test_another_language_is_demanded(statement: str) -> None:
    assert statements.demands_other_language(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "Write a program in C++ or Python that prints n.",
        "Write a Java or Python program.",
        "You may write your program in any language, for example in C++.",
        "Write a program in your favourite language, e.g. Java.",
        "If you write in C++, use 64-bit integers; do not use %lld.",
        "Write an interpreter for programs in Brainfuck.",
        "You should not use Java here.",
        "Vasya wrote a program in C++ that sorts numbers. What does it print?",
        "In Java, int has 32 bits. Print the sum.",
        "Note for C++ programmers: use scanf.",
        "The island of Java has n towns.",
        "He wears a ruby ring; she is swift and likes rust.",
        "Print the number of ways to go from A to C.",
        "There are n lines of code written in the language C++. Count the comments.",
        "Please use fast input in C++ (cin is slow), e.g. scanf.",
        "Solve the puzzle in C steps.",
    ],
)
def test_no_other_language_is_demanded(statement: str) -> None:
    assert not statements.demands_other_language(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "Compute <image> for given n.\n\nInput\nn",
        "The field looks like this: [Image]\n\nFind the area.",
        "See ![the field](field.png).",
        'The shape: <img src="a.png"> Find its area.',
        "The picture at https://site.org/p/1.png shows the field.",
        "Find the area of the shape shown in the figure.",
        "The numbers stand as in the diagram below.",
        "The towns are as depicted in the following\npicture.",
    ],
)
def test_a_picture_is_needed(statement: str) -> None:
    assert statements.needs_picture(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "Given an image as a grid of pixels, count the black ones.",
        "How many pictures can be hung?",
        "Add two numbers.\n\n-----Examples-----\nInput\n1 2\n\nOutput\n3\n\n-----Note-----\nThe first example: [Image]",
        "Add two numbers.\n\nNote\n\n<image>",
        "Add two numbers.\n\nDemo Input:\n['1']\n\nNote:\n<image>",
        "Add two numbers: [i] and [mage].",
    ],
)
def test_no_picture_is_needed(statement: str) -> None:
    assert not statements.needs_picture(statement)


@pytest.mark.parametrize(
    ("statement", "reason", "switch"),
    [
        ("Write a program in Java that doubles n.", "statement demands another language", "--keep-other-languages"),
        ("Double the number in the picture below.", "statement needs a picture", "--keep-images"),
    ],
)
def test_statements_are_dropped_unless_the_switch_says_otherwise(
    statement: str, reason: str, switch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source_folder(tmp_path / "raw", [*good_rows(2), raw_row(statement)])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert table(capsys.readouterr().out)[reason] == [1, 0] and len(written(tmp_path / "out")) == 2
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", switch) == 0
    assert reason not in table(capsys.readouterr().out) and len(written(tmp_path / "out")) == 3


def test_a_function_asked_for_but_judged_on_stdin_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "You don't need to read input or print anything. Your task is to complete the function f()."
    call = {"fn_name": "f", "inputs": [[1]], "outputs": [[2]]}
    source_folder(tmp_path / "raw", [raw_row(words), raw_row(words + " Really.", call)])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert table(capsys.readouterr().out)["statement says not to read input, tests are on stdin"] == [1, 0]


# ---- tests on standard input


DISPLAYED = ["N = 9, K = 4\n", "arr[] = {1, 2, 3}\nx = 2", "S = abc", "mat[][] = {{1},{2}}", "N=5\nA [ ] = {1}"]


def test_tests_that_are_display_text_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = {"inputs": ["1 2", "N = 9, K = 4", "3 4"], "outputs": ["3", "13", "7"]}
    all_of_them = {"inputs": DISPLAYED, "outputs": ["1"] * len(DISPLAYED)}
    rows = [*good_rows(1), raw_row("Add them.", some), raw_row("Search it.", all_of_them)]
    source_folder(tmp_path / "raw", rows)
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    counts = table(capsys.readouterr().out)
    assert counts["every test is display text (N = 9)"] == [1, 0]
    assert counts["tests removed: display text (N = 9)"] == [1, 0]
    truth = json.loads(written(tmp_path / "out")[1]["reward_model"]["ground_truth"])
    assert truth == {"inputs": ["1 2", "3 4"], "outputs": ["3", "7"]}
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--keep-display-tests") == 0
    assert [row["extra_info"]["num_tests"] for row in written(tmp_path / "out")] == [2, 3, len(DISPLAYED)]


@pytest.mark.parametrize(
    "stdin", ["", "\n", "5", "2x + 3 = 7", "x + 1 = 2", "3\nx = 5\nprint x", "== a", "a == b", "if x = 3", "1 = 2"]
)
def test_real_input_is_not_display_text(stdin: str) -> None:
    tests = json.dumps({"inputs": [stdin], "outputs": ["1"]})
    assert usable_tests(tests, Rules(), Counter())[0] == tests


def test_tests_over_the_size_limit_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = {"inputs": ["1", "2 " * 2000], "outputs": ["1", "2"]}
    big = {"inputs": ["1 "], "outputs": ["3 " * 2000]}
    source_folder(tmp_path / "raw", [*good_rows(1), raw_row("Find it.", some), raw_row("List them.", big)])
    options = ("--source", tmp_path / "raw", "--out", tmp_path / "out", "--max-test-mb")
    assert run(*options, "0.001") == 0
    counts = table(capsys.readouterr().out)
    assert counts["every test is over 0.000999451 MiB"] == [1, 0]
    assert [row["extra_info"]["num_tests"] for row in written(tmp_path / "out")] == [2, 1]
    assert run(*options, "10") == 0
    assert [row["extra_info"]["num_tests"] for row in written(tmp_path / "out")] == [2, 2, 1]


def test_the_size_limit_is_for_calls_too() -> None:
    notes: Counter[str] = Counter()
    tests = {"fn_name": "f", "inputs": [[1], [[7] * 1000], [2]], "outputs": [[2], [3], [4]]}
    for rules, left in ((Rules(), [2, 3, 4]), (Rules(max_test_bytes=500), [2, 4])):
        stored, fn_name, sizes = usable_tests(json.dumps(tests), rules, notes)
        assert fn_name == "f" and len(sizes) == len(left)
        assert json.loads(stored)["outputs"] == [f"[{value}]" for value in left]
    assert notes["tests removed: over 0.000476837 MiB"] == 1
    assert usable_tests(json.dumps(tests), Rules(max_test_bytes=1), notes) == "every test is over 9.53674e-07 MiB"


UNUSABLE = {
    "no tests": ({"inputs": [], "outputs": []}, ""),
    "inputs and outputs differ in number": ({"fn_name": "twice", "inputs": [[1], [2]], "outputs": [[2]]}, "twice"),
    "ground truth is not JSON": ('{"inputs": ["1', ""),
    "tests cannot be read": ({"inputs": ["1"], "outputs": [None]}, ""),
    "ground truth is not inputs and outputs": ({"fn_name": "f; g", "inputs": 1}, ""),
}


def test_rows_without_usable_tests_can_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are for those who want the prompts; the reward says what it makes of them."""
    from code_reward import compute_score

    rows = [*good_rows(1), *(raw_row(reason, tests) for reason, (tests, _) in UNUSABLE.items())]
    source_folder(tmp_path / "raw", rows)
    options = ("--source", tmp_path / "raw", "--out", tmp_path / "out", "--keep-unusable")
    assert run(*options) == 0
    counts = table(capsys.readouterr().out)
    assert all(counts[f"scored as data_error: {reason}"] == [1, 0] for reason in UNUSABLE)
    kept = written(tmp_path / "out")[1:]
    for row, raw, (_, fn_name) in zip(kept, rows[1:], UNUSABLE.values(), strict=True):
        assert row["reward_model"]["ground_truth"] == raw["reward_model"]["ground_truth"]
        assert row["extra_info"]["fn_name"] == fn_name and row["extra_info"]["num_tests"] == 0
        assert (f"the function `{fn_name}`" if fn_name else "reads from stdin") in row["prompt"][1]["content"]
        score = compute_score("taco", "```python\nprint(1)\n```", row["reward_model"]["ground_truth"], row["extra_info"])
        assert score["data_error"] == 1 and score["score"] == 0
    assert run(*options, "--drop-call-based") == 0
    assert len(written(tmp_path / "out")) == len(rows) - 1


def test_outputs_that_are_all_empty_once_others_are_removed_count_as_empty() -> None:
    tests = json.dumps({"inputs": ["1", "2"], "outputs": ["", "1 2 3 ..."]})
    assert usable_tests(tests, Rules(), Counter()) == "every expected output is empty"


# ---- calls


CALLS = {
    "list layout": ({"inputs": [[1, "a"], [2, "b\nc"]], "outputs": [[3], [4]]}, ['1\n"a"', '2\n"b\\nc"'], ["[3]", "[4]"]),
    "text layout": ({"inputs": ['1\n"a"'], "outputs": ["[1, 2]"]}, ['1\n"a"'], ["[1, 2]"]),
    "values not wrapped": ({"inputs": [[1], [2]], "outputs": [[1, 2], [3]]}, ["1", "2"], ["[1, 2]", "[3]"]),
    "no arguments": ({"inputs": [[]], "outputs": [["x"]]}, [""], ['["x"]']),
    "a number as text": ({"inputs": ["1"], "outputs": ['"5"']}, ["1"], ['"5"']),
    "pretty-printed": ({"inputs": ["[1,\n2]"], "outputs": ["true"]}, ["[1, 2]"], ["true"]),
    "records as text": ({"inputs": ["{'a': 1, 'b': 2}"], "outputs": ["3"]}, ['{"a": 1, "b": 2}'], ["3"]),
    "one bare argument": ({"inputs": [5, 6], "outputs": [[7], [8]]}, ["5", "6"], ["[7]", "[8]"]),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls_are_stored_in_one_layout(case: str) -> None:
    tests, inputs, outputs = CALLS[case]
    stored, fn_name, sizes = usable_tests(json.dumps({"fn_name": "f", **tests}), Rules(), Counter())
    assert json.loads(stored) == {"fn_name": "f", "inputs": inputs, "outputs": outputs}
    assert fn_name == "f" and len(sizes) == len(inputs)
    assert gt.parse(stored) == gt.parse({"fn_name": "f", **tests})


@pytest.mark.parametrize(
    "tests",
    [
        '"inputs": ["(1, 2)"], "outputs": ["3"]',  # a tuple, by Python's rules
        '"inputs": ["{1.5: 2}"], "outputs": ["3"]',  # keys that are no strings
        '"inputs": [[1]], "outputs": ["5"]',  # 5 or "5": as text it would be one of them only
        f'"inputs": [[1{"0" * 5000}]], "outputs": [[1]]',  # more digits than json writes
        '"inputs": ["a = 1, b = 2"], "outputs": ["3"]',  # names, which the program's parameters may have in another order
        '"inputs": [{"a": 1, "b": 2}, {"a": 1, "b": 3}], "outputs": [3, 4]',  # and records may be the only argument
        '"inputs": [[{"a": 1, "b": 2}]], "outputs": [3]',  # and this one is, as its text need not be
    ],
)
def test_calls_that_the_layout_would_change_stay_as_they_are(tests: str) -> None:
    text = f'{{"fn_name": "f", {tests}}}'
    notes: Counter[str] = Counter()
    assert canonical_calls(gt.parse(text)) is None
    assert usable_tests(text, Rules(), notes)[:2] == (text, "f")
    assert notes["call-based tests kept in their own layout"] == 1


def test_a_right_value_stays_right_and_a_wrong_one_wrong() -> None:
    for tests, value, wrong in (
        ({"inputs": [[1]], "outputs": [[3]]}, 3, 4),
        ({"inputs": ["1"], "outputs": ['"5"']}, "5", 5),
        ({"inputs": ["1"], "outputs": ["[[1], [2]]"]}, [[1], [2]], [[[1], [2]]]),
    ):
        stored, _, _ = usable_tests(json.dumps({"fn_name": "f", **tests}), Rules(), Counter())
        (test,) = gt.parse(stored).tests
        assert comparison.compare_value(value, test.expected).ok
        assert not comparison.compare_value(wrong, test.expected).ok
    assert isinstance(test.expected, Exactly)


def test_calls_can_stay_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = {"fn_name": "f", "inputs": [[1]], "outputs": [[2]]}
    options = ("--source", source_folder(tmp_path / "raw", [raw_row("Return 2n.", call)]), "--out", tmp_path / "out")
    for switch, note in (((), "brought into one layout"), (("--keep-call-layout",), "kept in their own layout")):
        assert run(*options, *switch) == 0
        assert table(capsys.readouterr().out)[f"call-based tests {note}"] == [1, 0]
        stored = written(tmp_path / "out")[0]["reward_model"]["ground_truth"]
        assert (stored == json.dumps(call)) == bool(switch) and gt.parse(stored) == gt.parse(call)


def test_call_based_rows_can_be_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = {"fn_name": "f", "inputs": [[1]], "outputs": [[2]]}
    source_folder(tmp_path / "raw", [*good_rows(2), raw_row("Return 2n.", call)])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--drop-call-based") == 0
    assert table(capsys.readouterr().out)["tests call a function"] == [1, 0]
    assert len(written(tmp_path / "out")) == 2


# ---- checkers


PROGRAM = "def check(input, expected, output):\n    return sorted(output.split()) == sorted(expected.split())\n"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({}, ""),
        ({"checker": None}, ""),
        ({"checker": ""}, ""),
        ({"checker": "float"}, "float"),
        ({"checker": "Lines Unordered"}, "lines-unordered"),
        ({"checker": PROGRAM}, PROGRAM),
        ({"checker": {"program": PROGRAM}}, PROGRAM),
    ],
)
def test_a_checker_is_carried(given: dict, stored: str) -> None:
    problem, truth = clean(raw_row("Print them.", extra_info={"index": 1, "split": "train", **given}), 5, Rules())
    row = problem.row("train", truth)
    assert row["extra_info"] == {"index": 5, "split": "train", "fn_name": "", "num_tests": 2, "checker": stored}
    assert row_checker(row["extra_info"], call_based=False) == stored  # the verifier reads the same of it


@pytest.mark.parametrize("checker", ["special", 3, {"source": "x"}, "def check(", "def judge(a, b, c):\n    return True\n"])
def test_a_checker_that_cannot_be_used_drops_the_row(checker: object) -> None:
    assert clean(raw_row("Print them.", extra_info={"checker": checker}), 0, Rules()) == "checker cannot be used"


def test_a_mode_is_no_checker_for_calls() -> None:
    row = raw_row("Return 2n.", {"fn_name": "f", "inputs": [[1]], "outputs": [[2]]}, extra_info={"checker": "float"})
    assert clean(row, 0, Rules()) == "checker cannot be used"


def test_a_checker_goes_through_the_files_to_the_verifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It also keeps a row that allows several answers: the checker knows which are right."""
    from code_reward import compute_score

    tests = {"inputs": ["2"], "outputs": ["1 2"]}
    rows = [
        raw_row("Print the numbers in any order.", tests, extra_info={"index": 0, "split": "train", "checker": PROGRAM}),
        raw_row("Print any valid answer.", tests, extra_info={"index": 1, "split": "train", "checker": None}),
        raw_row("Print 1 2.", tests, extra_info={"index": 2, "split": "train", "checker": None}),
    ]
    source_folder(tmp_path / "raw", rows)
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--drop-multi-answer") == 0
    assert table(capsys.readouterr().out)["statement allows several answers"] == [1, 0]
    first, second = written(tmp_path / "out")
    assert (first["extra_info"]["checker"], second["extra_info"]["checker"]) == (PROGRAM, "")
    scores = [
        compute_score(row["data_source"], "```python\nprint(2, 1)\n```", row["reward_model"]["ground_truth"], row["extra_info"])
        for row in (first, second)
    ]
    assert [score["acc"] for score in scores] == [1, 0] and not any(score["internal_error"] for score in scores)


def test_the_default_rules_keep_a_plain_row_whole() -> None:
    problem, truth = clean(raw_row("Double the number."), 3, Rules())
    assert truth == json.dumps(DOUBLE) and problem.test_sizes == (4, 6) and problem.notes == Counter()
