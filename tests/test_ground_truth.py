"""Ground truths: every layout gives the same tests, and a row that cannot be used says why."""

from __future__ import annotations

import base64
import collections
import gzip
import json
import math
import pickle
import zlib

import numpy
import pandas
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifier.calls import Record, decode_args, encode_args
from verifier.comparison import Exactly, compare_value
from verifier.ground_truth import GroundTruthError, parse


class Text(str):
    """As libraries have that mark some of their texts."""


def pairs(ground_truth: object) -> list[tuple[bytes, object]]:
    return [(test.stdin, test.expected) for test in parse(ground_truth).tests]


def calls(ground_truth: object) -> list[tuple[list, object]]:
    """Arguments and expected value of each test of a call-based row."""
    return [(decode_args(test.stdin), test.expected) for test in parse(ground_truth).tests]


ADD = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}
ADD_TESTS = [(b"1 2\n", b"3\n"), (b"3 4\n", b"7\n")]


@pytest.mark.parametrize(
    "ground_truth",
    [
        json.dumps(ADD),
        json.dumps(ADD, indent=1) + "\n",
        json.dumps(ADD).encode(),
        json.dumps(json.dumps(ADD)),
        ADD,
        {"inputs": tuple(ADD["inputs"]), "outputs": tuple(ADD["outputs"])},
        {key: numpy.array(value) for key, value in ADD.items()},
        {key: numpy.array(value, dtype=object) for key, value in ADD.items()},
        {key: [item.encode() for item in value] for key, value in ADD.items()},
        {**ADD, "fn_name": None},
        {**ADD, "fn_name": ""},
        {"input": ADD["inputs"], "output": ADD["outputs"]},
        [{"input": "1 2\n", "output": "3\n"}, {"input": "3 4\n", "output": "7\n"}],
        [{"input": i, "output": o, "testtype": "stdin"} for i, o in zip(ADD["inputs"], ADD["outputs"], strict=True)],
        numpy.array([{"stdin": "1 2\n", "expected_output": "3\n"}, {"stdin": "3 4\n", "expected_output": "7\n"}]),
        {"test_cases": [{"input": "1 2\n", "output": "3\n"}, {"input": "3 4\n", "output": "7\n"}]},
        {"tests": json.dumps([{"input": "1 2\n", "output": "3\n"}, {"input": "3 4\n", "output": "7\n"}])},
        {"public_tests": {"input": ["1 2\n"], "output": ["3\n"]}, "private_tests": {"input": ["3 4\n"], "output": ["7\n"]}},
        base64.b64encode(zlib.compress(json.dumps(ADD).encode())).decode(),
        base64.b64encode(gzip.compress(json.dumps(ADD).encode())),
        base64.b64encode(zlib.compress(pickle.dumps(json.dumps(ADD)))).decode(),
        base64.b64encode(zlib.compress(pickle.dumps(ADD, protocol=2))).decode(),
        bytearray(json.dumps(ADD).encode()),
        memoryview(json.dumps(ADD).encode()),
        Text(json.dumps(ADD)),
        {key: [memoryview(item.encode()) for item in value] for key, value in ADD.items()},
        {key: list(map(Text, value)) for key, value in ADD.items()},
        {key: collections.deque(value) for key, value in ADD.items()},
        {key: pandas.Series(value, dtype="string") for key, value in ADD.items()},
        {key: pyarrow.array(value) for key, value in ADD.items()},
        {key: pyarrow.chunked_array([value]) for key, value in ADD.items()},
        pyarrow.scalar(ADD),
        pyarrow.scalar(json.dumps(ADD)),
        pyarrow.py_buffer(json.dumps(ADD).encode()),
        {**ADD, "fn_name": float("nan")},
        json.dumps({**ADD, "fn_name": float("nan")}),
        {**ADD, "fn_name": pandas.NA},
        "\ufeff" + json.dumps(ADD),
        {"input_output": json.dumps(ADD)},
        {key: json.dumps(value) for key, value in ADD.items()},
        {"inputs": json.dumps(ADD["inputs"]), "outputs": ADD["outputs"]},
        {"verification_info": {"test_cases": [{"input": "1 2\n", "output": "3\n"}, {"input": "3 4\n", "output": "7\n"}]}},
        json.dumps(ADD).replace("\\n", "\n"),
        repr(ADD),
        json.dumps(repr(ADD)),
        {key: repr(value) for key, value in ADD.items()},
        {"input_output": repr({**ADD, "fn_name": None})},
    ],
    ids=range(47),
)
def test_layouts_on_standard_input(ground_truth: object):
    assert parse(ground_truth).fn_name is None
    assert pairs(ground_truth) == ADD_TESTS


def test_private_tests_as_livecodebench_stores_them():
    private = json.dumps([{"input": "3 4\n", "output": "7\n", "testtype": "stdin"}])
    row = {
        "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
        "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(private))).decode(),
        "metadata": "{}",
    }
    assert pairs(row) == ADD_TESTS
    functional = [{"input": "1\n2", "output": "3", "testtype": "functional", "metadata": {"func_name": "add"}}]
    assert parse(functional).fn_name == "add"
    assert calls(functional) == [([1, 2], 3)]
    assert parse({"public_test_cases": functional, "metadata": json.dumps({"func_name": "add"})}).fn_name == "add"


@pytest.mark.parametrize(
    ("stdin", "expected"),
    [
        ("1\n2", b"1\n2"),
        (["1", "2"], b"1\n2"),
        (["1\n", "2\n"], b"1\n2"),
        ([1, 2], b"1\n2"),
        ([[1, 2], [3]], b"1 2\n3"),
        (7, b"7"),
        (-7, b"-7"),
        (10**5000, b"1" + b"0" * 5000),
        (7.5, b"7.5"),
        (True, b"True"),
        ("", b""),
        ([], b""),
        ("1\r\n2\r\n", b"1\n2\n"),
        (b"1\r\n\xff", b"1\n\xff"),
        ("→\ud800", "→".encode() + b"\xed\xa0\x80"),
        (numpy.int64(7), b"7"),
        (numpy.array(["1", "2"]), b"1\n2"),
        ("\ufeff7", b"7"),
        ("\ufeff7".encode(), b"7"),
    ],
    ids=range(19),
)
def test_one_side_of_a_test_as_bytes(stdin: object, expected: bytes):
    assert pairs({"inputs": [stdin], "outputs": [stdin]}) == [(expected, expected)]


def test_input_stays_as_it_is_and_may_be_missing():
    assert pairs({"inputs": ["3 4", "3 4 \n\n", None], "outputs": ["7", "7\n", ""]}) == [
        (b"3 4", b"7"),
        (b"3 4 \n\n", b"7\n"),
        (b"", b""),
    ]


def test_lists_that_are_the_text_of_a_single_test_stay_so():
    """A list of numbers is what a program reads; two lists of different lengths are no tests."""
    for stdin, expected in (("[1, 2]", "[2, 1]"), ('["a", "b"]', '["a"]'), ('["a"]', "1"), ("[" * 100_000, "[]")):
        assert pairs({"inputs": stdin, "outputs": expected}) == [(stdin.encode(), expected.encode())]
    assert pairs({"input": '["a"]', "output": '["b"]'}) == [(b'["a"]', b'["b"]')]
    assert calls({"fn_name": "f", "inputs": "[[1, 2], [3, 4]]", "outputs": "[3, 7]"}) == [([1, 2], 3), ([3, 4], 7)]
    with pytest.raises(GroundTruthError, match="no tests"):
        parse({"inputs": "[]", "outputs": "[]"})


def test_lists_of_arguments_and_wrapped_values():
    row = {"fn_name": "isMagic", "inputs": [[1237], [12]], "outputs": [[0], [1]]}
    assert parse(json.dumps(row)).fn_name == "isMagic"
    assert calls(json.dumps(row)) == [([1237], [0]), ([12], [1])]
    expected = parse(row).tests[0].expected
    assert compare_value(0, expected).ok
    assert compare_value([0], expected).ok
    assert not compare_value(1, expected).ok
    assert calls({key: numpy.array(value) for key, value in row.items()}) == [([1237], [0]), ([12], [1])]


def test_a_string_in_a_list_of_its_own_is_no_number():
    row = {"fn_name": "f", "inputs": [[67], [5]], "outputs": [["67"], ["5"]]}
    for number, test in zip((67, 5), parse(row).tests, strict=True):
        assert compare_value(str(number), test.expected).ok
        assert not compare_value(number, test.expected).ok
    (test,) = parse({"fn_name": "f", "inputs": [[0]], "outputs": [["[1, 2]"]]}).tests
    assert compare_value("[1, 2]", test.expected).ok
    assert not compare_value([1, 2], test.expected).ok


def test_values_that_are_not_wrapped():
    assert calls({"fn_name": "f", "inputs": [[1, "a"], [2, "b"]], "outputs": [3, None]}) == [([1, "a"], 3), ([2, "b"], None)]
    lists = parse({"fn_name": "f", "inputs": [[1], [2]], "outputs": [[5], [5, 6]]}).tests
    assert compare_value([5], lists[0].expected).ok
    assert not compare_value(5, lists[0].expected).ok  # the other test shows that values are not wrapped
    assert not compare_value(5, lists[1].expected).ok


def test_a_value_on_each_line():
    row = {"fn_name": "f", "inputs": ['1\n"a"\n[1, {"b": null}]', ""], "outputs": ["[1, 2]", "null"]}
    tests = [([1, "a", [1, {"b": None}]], Exactly([1, 2])), ([], None)]
    assert calls(json.dumps(row)) == tests
    assert calls({key: [item.encode() for item in row[key]] if key != "fn_name" else "f" for key in row}) == tests


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("5", [5]),
        ("5\n", [5]),
        ("[\n 1,\n 2\n]", [[1, 2]]),
        ("(1, 2)\nTrue\nNone", [(1, 2), True, None]),
        ("'a'", ["a"]),
        ("hello world", ["hello world"]),
        ("hello\r\nworld\r\n", ["hello", "world"]),
        ("NaN\nInfinity", [float("nan"), float("inf")]),
        ("1" + "0" * 5000, [10**5000]),
        ('""', [""]),
        ('"a\nb"\n3', ["a\nb", 3]),
        ("[\n 1\n]\n{\n}\r\n\n5", [[1], {}, 5]),
        ('"a" and\n"b" 1', ['"a" and', '"b" 1']),
        ("[1, null], 'a', True", [[1, None], "a", True]),
        ("(1, 2), 3", [(1, 2), 3]),
        ("a, b", ["a, b"]),
        ("1)(2, 3", ["1)(2, 3"]),
        ("x = 5 apples", ["x = 5 apples"]),
        ("{'1': 2}", [{"1": 2}]),
        ("['a', null]", [["a", None]]),
        ("inf\nnan", ["inf", "nan"]),
        ("x = [1, inf], y = 'a'", [[1, math.inf], "a"]),
    ],
    ids=range(22),
)
def test_texts_of_arguments(text: str, arguments: list):
    (found, _), *_ = calls({"fn_name": "f", "inputs": [text], "outputs": ["0"]})
    assert [type(value) for value in found] == [type(value) for value in arguments]
    assert found == arguments or found[0] != found[0]


def test_texts_of_values():
    def expected(text: str) -> object:
        (test,) = parse({"fn_name": "f", "inputs": ["1"], "outputs": [text]}).tests
        return test.expected

    assert expected("3") == 3
    assert expected("true") is True
    assert expected("True") is True
    assert expected("hello world") == expected("hello world\r\n") == Exactly("hello world")
    assert expected('"5"') == Exactly("5")  # the string, not the number
    assert expected("0.5") == 0.5
    assert compare_value({1: 2}, expected('{"1": 2}')).ok
    assert compare_value((1, 2), expected("(1, 2)")).ok
    # A string beside lists of arguments may be the value or its JSON.
    (test,) = parse({"fn_name": "f", "inputs": [[1]], "outputs": ["5"]}).tests
    assert compare_value(5, test.expected).ok
    assert compare_value("5", test.expected).ok


def test_words_that_look_like_numbers():
    """Beside a word without quotes they are words as well; a returned value may be either."""
    row = {"fn_name": "f", "inputs": ["hello\n1", "12\n2", "null\n3", '"4"\n4'], "outputs": ["hello", "12", "2.50", "[1]"]}
    assert [arguments for arguments, _ in calls(row)] == [["hello", 1], ["12", 2], ["null", 3], ["4", 4]]
    expected = [test.expected for test in parse(row).tests]
    for value, met in (("hello", [0]), ("12", [1]), (12, [1]), ("2.50", [2]), (2.5, [2]), ([1], [3]), (1, [])):
        assert [number for number, value_of in enumerate(expected) if compare_value(value, value_of).ok] == met


def test_words_of_brackets():
    """Beside others, () is no tuple and [] no list; beside other words they are."""
    row = {"fn_name": "f", "inputs": ["()\n[]", "()[]{}\n[1]", "([)]\n[]"], "outputs": ["()\n", "[]\n", "{}[]\n"]}
    assert [arguments for arguments, _ in calls(row)] == [["()", []], ["()[]{}", [1]], ["([)]", []]]
    for value, met in (("()", [0]), ((), [0, 1]), ("[]", [1]), ("{}[]", [2])):
        assert [number for number, test in enumerate(parse(row).tests) if compare_value(value, test.expected).ok] == met
    row = {"fn_name": "f", "inputs": ["()", "[1, 2]", "[1, 2, ...", "cut off"], "outputs": ["0"] * 4}
    assert [arguments for arguments, _ in calls(row)] == [[()], [[1, 2]], ["[1, 2, ..."], ["cut off"]]
    row = {"fn_name": "f", "inputs": ["...", "1+1j", "a+b "], "outputs": ["None\n", "x\n", "1\n"]}
    assert [arguments for arguments, _ in calls(row)] == [["..."], ["1+1j"], ["a+b "]]
    assert [expected for _, expected in calls(row)] == ["None", Exactly("x"), "1"]
    row = {"fn_name": "f", "inputs": ["1", "..."], "outputs": ["...", "2"]}
    assert calls(row) == [([1], Exactly("...")), (["..."], 2)]


def test_strings_written_as_json_once_more_than_the_rest():
    row = {"fn_name": "f", "inputs": [['"ab"', 1], ['""', 2]], "outputs": ['"ba"', '""']}
    assert [arguments for arguments, _ in calls(row)] == [["ab", 1], ["", 2]]
    assert compare_value("ba", parse(row).tests[0].expected).ok
    mixed = {"fn_name": "f", "inputs": [['"ab"'], ["ab"]], "outputs": ["1", "2"]}
    assert [arguments for arguments, _ in calls(mixed)] == [['"ab"'], ["ab"]]
    nested = {"fn_name": "f", "inputs": [[['"ab"', '"c"'], 1], [[], 2]], "outputs": [['"a"', '"b"'], []]}
    assert calls(nested) == [([["ab", "c"], 1], Exactly(["a", "b"])), ([[], 2], Exactly([]))]
    adds_quotes = {"fn_name": "f", "inputs": [["a b"]], "outputs": [['"a"', '"b"']]}
    assert calls(adds_quotes) == [(["a b"], Exactly(['"a"', '"b"']))]


def test_arguments_as_leetcode_shows_them():
    texts = ["nums = [3, 3], target = 6", 'nums = [1,null],\ntarget = "a = b"', "nums=[\n1\n]\ntarget=(2)"]
    row = {"entry_point": "Solution().twoSum", "inputs": texts, "outputs": ["[0, 1]", "[]", "[1, 0]"]}
    assert parse(row).fn_name == "Solution.twoSum"
    assert [arguments for arguments, _ in calls(row)] == [[[3, 3], 6], [[1, None], "a = b"], [[1], 2]]
    for other in ("nums = [3]", "target = 6, nums = [3]", "[3], target = 6", "nums == [3]", "a = b c"):
        row["inputs"][1] = other  # not the same names in all tests: they are texts
        assert calls(row)[0][0] == [texts[0]]


def test_records_of_arguments():
    """As they are for a function whose parameters do not tell; test_calls.py has those that do."""
    records = [{"nums": [3, 3], "target": 6}, {"target": 1, "nums": [1]}]
    row = {"fn_name": "f", "inputs": records, "outputs": [1, 2]}
    assert [arguments for arguments, _ in calls(row)] == [[[3, 3], 6], [[1], 1]]
    for inputs in ([{"a": 1}, {"b": 1}], [{"a b": 1}, {"a b": 2}], [{"a": 1}], [[{"a": 1}], [{"a": 2}]], [{}, {}]):
        first, *_ = calls({**row, "inputs": inputs, "outputs": [1] * len(inputs)})
        assert first[0] == (inputs[0] if isinstance(inputs[0], list) else inputs[:1])


def test_a_record_has_its_values_as_arguments_have_them_and_itself_as_it_is():
    records = [{"words": ['"a"', '"b"'], "counts": {"1": 2}}, {"counts": {"2": 3}, "words": []}]
    values = {"words": ["a", "b"], "counts": {1: 2}}
    for inputs, likely in ((records, True), (records[:1], False), (list(map(json.dumps, records)), False)):
        first, *_ = parse({"fn_name": "f", "inputs": inputs, "outputs": [1] * len(inputs)}).tests
        assert first.stdin == encode_args(Record(values, records[0], likely, ["words", "counts"]))
        assert first.stdin != encode_args(Record(values, values, likely, ["words", "counts"]))


@pytest.mark.parametrize(
    ("inputs", "first"),
    [
        (["b = 1\na = 2"], {"b": 1, "a": 2}),
        (['{"b": 1, "a": 2}'], Record({"b": 1, "a": 2}, {"b": 1, "a": 2}, False, ["b", "a"])),
        (["{'b': 1, 'a': None}\n"], Record({"b": 1, "a": None}, {"b": 1, "a": None}, False, ["b", "a"])),
        (['{"a": 1}', '{"a": 2}'], Record({"a": 1}, {"a": 1}, False, ["a"])),
        (['{"a": 1}', '{"b": 2}'], Record({"a": 1}, {"a": 1}, False, ["a", "b"])),
        ([{"a": 1}, {"b": 2}], Record({"a": 1}, {"a": 1}, False, ["a", "b"])),
        ([{"a": 1}, {"a": 2}], Record({"a": 1}, {"a": 1}, True, ["a"])),
        ([{}], Record({}, {}, False, [])),
        (['{"a": 1}'], [{"a": 1}]),
        (['{"a": 1}', '{"a": 1}\n2'], [{"a": 1}]),
        (['{"a b": 1, "c": 2}'], [{"a b": 1, "c": 2}]),
        (["{1: 2, 'a': 3}"], [{1: 2, "a": 3}]),
        (["{1, 2}"], [{1, 2}]),
        (["{"], ["{"]),
        ([{"a": 1}, 5], [{"a": 1}]),
        ([[{"a": 1, "b": 2}]], [{"a": 1, "b": 2}]),
    ],
    ids=range(16),
)
def test_what_may_be_arguments_by_name(inputs: list, first: object):
    test, *_ = parse({"fn_name": "f", "inputs": inputs, "outputs": ["0"] * len(inputs)}).tests
    assert test.stdin == encode_args(first)


def test_keys_that_json_made_strings_are_integers_again():
    row = {"fn_name": "f", "inputs": [[{"1": 2, "-30": 4}, "x"], [{}, "y"]], "outputs": [1, 2]}
    assert [arguments for arguments, _ in calls(row)] == [[{1: 2, -30: 4}, "x"], [{}, "y"]]
    assert calls({"fn_name": "f", "inputs": ['{"0": 1}\n{"a": 1}'], "outputs": ["1"]})[0][0] == [{0: 1}, {"a": 1}]
    assert calls(repr({"fn_name": "f", "inputs": [[{1: 2}]], "outputs": [True]})) == [([{1: 2}], True)]
    for key in ("a", "01", "1.5", "-0", "", "1" * 5000):
        row["inputs"][1] = [{key: 1}, "y"]
        assert calls(row)[0][0][0] == {"1": 2, "-30": 4}


def test_a_single_argument_need_not_stand_in_a_list():
    assert calls({"fn_name": "f", "inputs": [5, {"a": 1}], "outputs": [6, 7]}) == [([5], 6), ([{"a": 1}], 7)]


def test_the_name_may_stand_elsewhere():
    tests = {"inputs": [[1]], "outputs": [2]}
    assert parse({**tests, "func_name": "f"}).fn_name == "f"
    assert parse({**tests, "fn_name": "Solution.f"}).fn_name == "Solution.f"
    records = [{"input": [1], "output": 2, "fn_name": "f"}, {"input": [2], "output": 3, "fn_name": "f"}]
    assert parse(records).fn_name == parse({"test_cases": json.dumps(records)}).fn_name == "f"
    assert parse({**ADD, "metadata": "from a contest"}).fn_name is None


class Runs:
    """Pickled, it would run something where it is loaded."""

    def __reduce__(self) -> tuple:
        return (print, ("a pickle of a ground truth has run",))


BROKEN = {
    "nothing": (None, "None"),
    "empty text": (" ", "is empty"),
    "text": ("hello", "neither JSON nor compressed"),
    "a number": ("5", "of type int"),
    "null": ("null", "None"),
    "cut off": (json.dumps(ADD)[:-5], "neither JSON nor compressed"),
    "not UTF-8": (b"\xff\xfe", "UTF-8"),
    "no tests": ({"inputs": [], "outputs": []}, "no tests"),
    "no records": ([], "no tests"),
    "no nested tests": ({"tests": []}, "no tests"),
    "no outputs": ({"inputs": ["1"]}, "no outputs"),
    "no inputs": ({"outputs": ["1"]}, "no inputs"),
    "neither": ({"a": 1}, "no inputs"),
    "more inputs": ({"inputs": ["1", "2"], "outputs": ["3"]}, "2 inputs but 1 outputs"),
    "more outputs": ({"inputs": ["1"], "outputs": ["3", "4"]}, "1 inputs but 2 outputs"),
    "a list and a string": ({"inputs": ["1"], "outputs": "3"}, "a list, but the outputs a string"),
    "inputs are null": ({"inputs": None, "outputs": ["3"]}, "None, but the outputs a list"),
    "no expected output": ({"inputs": ["1"], "outputs": [None]}, "test 1 has null"),
    "a record for text": ({"inputs": [{"a": 1}], "outputs": ["3"]}, "fn_name missing"),
    "a record without output": ([{"input": "1"}], "no outputs"),
    "records that are none": (["1"], "a test is a string"),
    "a name that is none": ({"fn_name": "f(x)", "inputs": [[1]], "outputs": [1]}, "no name of a function"),
    "a name of another type": ({"fn_name": 5, "inputs": [[1]], "outputs": [1]}, "no name of a function"),
    "two names": ([{"input": [1], "output": 2, "fn_name": "f"}, {"input": [1], "output": 2, "fn_name": "g"}], "have 2"),
    "functional without a name": ([{"input": "1", "output": "2", "testtype": "functional"}], "have 0"),
    "a name that is a record": ({"fn_name": {}, "inputs": [[1]], "outputs": [1]}, "no name of a function"),
    "a type that is none": ({"inputs": [object()], "outputs": ["1"]}, "which is no test"),
    "a set": ({"inputs": {"1"}, "outputs": ["1"]}, "which is no test"),
    "too deep": ("[" * 100_000, "too deeply"),
    "base64 of something else": (base64.b64encode(b"hello").decode(), "neither JSON nor compressed"),
    "compressed, cut off": (base64.b64encode(zlib.compress(json.dumps(ADD).encode())[:-6]).decode(), "cut off"),
    "compressed text": (base64.b64encode(zlib.compress(b"hello")).decode(), "neither JSON nor compressed"),
    "a pickle that runs": (base64.b64encode(zlib.compress(pickle.dumps(Runs()))).decode(), "more than plain data"),
    "a broken pickle": (base64.b64encode(zlib.compress(b"\x80\x04hello")).decode(), "more than plain data"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_row_that_cannot_be_used_says_why(name: str, capsys: pytest.CaptureFixture):
    ground_truth, message = BROKEN[name]
    with pytest.raises(GroundTruthError) as raised:
        parse(ground_truth)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert capsys.readouterr().out == ""


def test_what_unpacks_to_more_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verifier.ground_truth.MAX_BYTES", 1000)
    text = base64.b64encode(zlib.compress(b" " * 10_000_000)).decode()
    with pytest.raises(GroundTruthError, match="larger than"):
        parse(text)


sides = st.one_of(st.text(max_size=10), st.lists(st.text(max_size=5), max_size=3), st.integers(), st.floats(), st.booleans())
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=5))
def test_all_layouts_give_the_same_tests(tests: list[tuple[object, object]]):
    columns = {"inputs": [stdin for stdin, _ in tests], "outputs": [expected for _, expected in tests]}
    records = [{"input": stdin, "output": expected} for stdin, expected in tests]
    assert pairs(columns) == pairs(json.dumps(columns)) == pairs(records) == pairs({"tests": json.dumps(records)})


@given(st.lists(st.tuples(st.lists(values, max_size=3), values), min_size=1, max_size=4))
def test_an_expected_value_is_met_by_itself(tests: list[tuple[list, object]]):
    columns = {"fn_name": "f", "inputs": [stdin for stdin, _ in tests], "outputs": [expected for _, expected in tests]}
    for (_, value), test in zip(tests, parse(json.dumps(columns)).tests, strict=True):
        assert compare_value(value, test.expected).ok
    lines = {
        "fn_name": "f",
        "inputs": ["\n".join(map(json.dumps, stdin)) for stdin, _ in tests],
        "outputs": [json.dumps(expected) for _, expected in tests],
    }
    for (_, value), test in zip(tests, parse(lines).tests, strict=True):
        assert compare_value(value, test.expected).ok


keys = st.sampled_from(["inputs", "outputs", "input", "output", "fn_name", "tests", "metadata", "testtype", "func_name"])
rows = st.recursive(
    values | sides | st.binary(max_size=5), lambda inner: st.dictionaries(keys, inner, max_size=4), max_leaves=8
)


@settings(max_examples=500)
@given(rows, st.booleans())
def test_anything_is_parsed_or_refused(row: object, as_text: bool):
    """No other exception, and never a row without tests."""
    if as_text:
        row = json.dumps(row, default=repr)
    try:
        assert parse(row).tests
    except GroundTruthError as error:
        assert str(error)
