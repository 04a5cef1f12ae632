"""Comparison: what may differ between the output and the expected output, and what may not."""

from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifier import calls
from verifier.comparison import Exactly, compare_output, compare_value

# Output, expected, and the rule that accepts it under "tokens".
ACCEPTED = [
    ("7\n", "7\n", "exact"),
    ("", "", "exact"),
    ("7", "7\n", "tokens"),
    ("7\n\n", "7", "tokens"),
    ("7  \n", "7\n", "tokens"),
    ("  7", "7", "tokens"),
    ("1 2 \n3 \n", "1 2\n3\n", "tokens"),
    ("1   2", "1 2", "tokens"),
    ("1\t2", "1 2", "tokens"),
    ("a\n\nb", "a\nb", "tokens"),
    ("\n\na", "a", "tokens"),
    ("1\n2", "1 2", "tokens"),
    ("7\r\n", "7\n", "tokens"),
    ("7", "7\r\n8\r\n"[:3], "tokens"),
    ("1 2\x0c", "1 2", "tokens"),
    ("\n", "", "tokens"),
    ("-0", "0", "tokens"),
    ("0", "-0", "tokens"),
    ("0.50", "0.5", "float"),
    ("0.3333333333333", "0.333333333", "float"),
    ("5", "5.0", "float"),
    ("5.000001", "5.0", "float"),
    ("0", "-0.0", "float"),
    ("-0.0000001", "0.0", "float"),
    ("1000000.5", "1000001.0", "float"),
    ("1e3", "1000.0", "float"),
    ("1E+03", "1e3", "float"),
    (".5", "0.5", "float"),
    ("5.", "5.0", "float"),
    ("2.5 7", "2.500000001 7", "float"),
    ("yes", "YES", "case"),
    ("No", "NO", "case"),
    ("TRUE", "True", "case"),
    ("impossible", "IMPOSSIBLE", "case"),
    ("yes 0.50", "YES 0.5", "case"),
    ("naïve→", "naïve→", "exact"),
    ("nan", "nan", "exact"),
    ("inf ", "inf", "tokens"),
]
REJECTED = [
    ("8", "7"),
    ("", "7"),
    ("noise", ""),
    ("1", "1\n2\n3"),
    ("1\n2\n3", "1"),
    ("1 2 3", "1 2"),
    ("YES\nNO", "YES"),
    ("YES", "NO"),
    ("ab", "a b"),
    ("a b", "ab"),
    ("3 2 1", "1 2 3"),
    ("2\n1", "1\n2"),
    ("1 1 2", "1 2 2"),
    ("[1, 2, 3]", "1 2 3"),
    ("1000000006", "1000000007"),
    ("-1000000006", "-1000000007"),
    ("200001", "200000"),
    ("1" + "0" * 5000, "1" + "0" * 4999 + "1"),
    ("100000000000000001", "100000000000000000"),
    ("5.0", "5"),
    ("5.0000000001", "5"),
    ("1e5", "100000"),
    ("1_000", "1000"),
    ("+5", "5"),
    ("007", "7"),
    ("10", "0010"),
    ("٣", "3"),
    ("3", "٣"),
    ("１", "1"),
    ("0x10", "16"),
    ("0.34", "0.333333333"),
    ("0.0005", "0.0001"),
    ("5.00001", "5.0"),
    ("1000003.0", "1000001.0"),
    ("1_0.5", "10.5"),
    ("٠.٥", "0.5"),
    ("nan", "1.0"),
    ("nan", "NaN"),
    ("1.0", "nan"),
    ("inf", "1e308"),
    ("inf", "1e400"),
    ("1e999", "1e400"),
    ("1e400", "1.5"),
    ("infinity", "inf"),
    ("0.5.", "0.5"),
    ("1.5e", "1.5"),
    (".", "0.0"),
    ("aB", "Ab"),
    ("abc", "ABC"),
    ("yEs", "YES"),
    ("Yes.", "YES"),
    ("y", "yes"),
    ("7\n@@end\ngarbage", "7"),
    ("7\0", "7"),
]


@pytest.mark.parametrize(("actual", "expected", "rule"), ACCEPTED)
def test_accepts_and_says_by_which_rule(actual: str, expected: str, rule: str):
    compared = compare_output(actual.encode(), expected.encode())
    assert (compared.ok, compared.rule, compared.detail) == (True, rule, "")


@pytest.mark.parametrize(("actual", "expected"), REJECTED)
def test_rejects_and_says_where(actual: str, expected: str):
    compared = compare_output(actual.encode(), expected.encode())
    assert not compared.ok
    assert compared.rule == ""
    assert 0 < len(compared.detail) <= 200


def test_the_detail_names_the_first_difference():
    assert compare_output(b"1 2 4", b"1 2 3").detail == "token 3 is '4', expected '3'"
    assert compare_output(b"1 2", b"1 2 3").detail == "the output ends after 2 tokens, expected '3' next"
    assert compare_output(b"1 2 3", b"1 2").detail == "after the 2 expected tokens comes '3'"
    assert compare_output(b"a\nbx", b"a\nby", "exact").detail == "line 2 goes on with 'x', expected 'y'"
    assert compare_output(b"a\nc", b"b\na", "lines-unordered").detail == "the expected line 'b' is missing"
    assert compare_output(b"a\nb\nc", b"c\nb", "lines-unordered").detail == "line 'a' is not expected"
    long = compare_output(b"x" * 10**6, b"y" * 10**6).detail
    assert len(long) <= 200
    assert "'xxxx" in long


def test_expected_may_be_text():
    assert compare_output("→".encode(), "→\n").ok
    assert not compare_output(b"a", "b").ok


def test_output_that_is_not_utf8():
    assert compare_output(b"\xff\xfe", b"\xff\xfe\n").rule == "tokens"
    for mode in ("exact", "tokens", "float", "lines-unordered", "source"):
        assert not compare_output(b"\xff", b"\xfe\xfe", mode).ok


def test_mode_exact():
    assert compare_output(b"a b\n", b"a b", "exact").rule == "exact"
    for actual in (b"a  b", b"a b ", b"a b\n\n", b"a b\r\n", b" a b"):
        assert not compare_output(actual, b"a b\n", "exact").ok


def test_mode_source_is_equality_of_stripped_text():
    assert compare_output(b" a b \n\n", b"a b", "source").rule == "source"
    assert compare_output(b"a\r\nb\r\n", b"a\nb\n", "source").ok  # the recipe reads in text mode
    assert compare_output(b"a\rb\n", b"a\rb", "source").ok
    for actual in (b"a  b", b"a\nb", b"A b", b"a b c"):
        assert not compare_output(actual, b"a b", "source").ok
    assert not compare_output(b"0.50", b"0.5", "source").ok
    assert not compare_output(b"yes", b"YES", "source").ok


def test_mode_float():
    for actual, expected in ((b"5.0", b"5"), (b"4.9999999", b"5"), (b"0.50", b"0.5"), (b"1e5", b"100000")):
        assert compare_output(actual, expected, "float").rule == "float"
    for actual, expected in ((b"6", b"5"), (b"100000000000000001", b"100000000000000000"), (b"5.1", b"5"), (b"nan", b"5")):
        assert not compare_output(actual, expected, "float").ok


def test_mode_lines_unordered():
    assert compare_output(b"b  2\n\na 1 \n", b"a 1\nb 2\n", "lines-unordered").rule == "lines-unordered"
    for actual in (b"a 1", b"a 1\nb 2\nb 2", b"1 a\nb 2", b"a 1 b 2"):
        assert not compare_output(actual, b"a 1\nb 2\n", "lines-unordered").ok


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="comparison mode 'fuzzy'"):
        compare_output(b"", b"", "fuzzy")


# More than one chunk of tokens on each side, with different lengths of blanks, so that the chunks' ends do not meet.
NUMBERS = [str(number).encode() for number in range(400_000)]


def test_long_outputs_are_compared_to_the_end():
    expected = b"\n".join(NUMBERS)
    assert compare_output(b"   ".join(NUMBERS), expected).rule == "tokens"
    assert compare_output(b"   ".join([*NUMBERS[:-1], b"x"]), expected).detail.startswith("token 400000 is 'x'")
    assert compare_output(b"   ".join(NUMBERS[:-1]), expected).detail.startswith("the output ends after 399999 tokens")
    assert compare_output(b"   ".join([*NUMBERS, b"x"]), expected).detail == "after the 400000 expected tokens comes 'x'"
    assert compare_output(expected + b" " * 3_000_000 + b"x", expected).detail == "after the 400000 expected tokens comes 'x'"
    assert compare_output(expected + b" " * 3_000_000, expected).ok
    decimals = b" ".join(number + b".50" for number in NUMBERS)
    assert compare_output(decimals, decimals.replace(b".50", b".5")).rule == "float"


def test_fifty_megabytes():
    """The ceilings are for a slow and busy machine; a loop over the tokens of each would not stay below them."""
    million = b" ".join(NUMBERS)
    expected = b"\n".join([million] * 19)
    assert len(expected) > 50_000_000
    cases = {
        expected + b"\n": True,
        expected.replace(b"\n", b" \n"): True,
        expected[:-1] + b"x": False,
        b"x" + expected: False,
    }
    for actual, ok in cases.items():
        for mode in ("tokens", "exact", "source"):
            started = time.process_time()
            compared = compare_output(actual, expected, mode)
            assert compared.ok == ok or mode != "tokens"
            assert time.process_time() - started < 60


def test_long_tokens_take_linear_time():
    for digits in (b"1" * 3_000_000, b"1" * 3_000_000 + b".5", b"." + b"1" * 3_000_000, b"1e" + b"9" * 3_000_000):
        for actual in (digits + b"x", digits + b"1", digits + b".", digits):
            started = time.process_time()
            compare_output(b"a " + actual, b"a  " + digits)
            assert time.process_time() - started < 30


tokens = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text(alphabet="abYESyes01.-+e_", min_size=1, max_size=6),
    st.sampled_from(["yes", "NO", "True", "nan", "inf", "-0", "0", "007", "1e5", "1_0"]),
)
outputs = st.lists(tokens, max_size=8)
blanks = st.text(alphabet=" \t\n\r\x0b\x0c", min_size=1, max_size=3)
modes = st.sampled_from(["tokens", "exact", "float", "lines-unordered", "source"])


@given(st.binary(max_size=60), modes)
def test_every_output_equals_itself(output: bytes, mode: str):
    assert compare_output(output, output, mode).ok
    if not output.endswith(b"\n"):
        assert compare_output(output + b"\n", output, mode).ok


@given(outputs, st.data())
def test_blanks_do_not_matter(words: list[str], data: st.DataObject):
    expected = " ".join(words).encode()
    spaced = "".join(word + data.draw(blanks) for word in words).encode()
    assert compare_output(data.draw(blanks).encode() + spaced, expected).ok
    assert compare_output(spaced, expected, "float").ok


words_and_integers = st.lists(st.integers(-20, 20).map(str) | st.text(alphabet="ab01_+", min_size=1, max_size=3), max_size=4)


@given(words_and_integers, words_and_integers)
def test_integers_and_words_are_symmetrical(ours: list[str], theirs: list[str]):
    """The rules for decimals and answer words look at the expected side; without these both ways give the same."""
    ours, theirs = " ".join(ours).encode(), " ".join(theirs).encode()
    assert compare_output(ours, theirs).ok == compare_output(theirs, ours).ok


@given(outputs, outputs)
def test_a_longer_or_shorter_output_is_never_accepted(words: list[str], more: list[str]):
    ok = compare_output(" ".join([*words, *more]).encode(), " ".join(words).encode()).ok
    assert ok == (not more)
    assert compare_output(" ".join(words).encode(), " ".join([*words, *more]).encode()).ok == (not more)


@given(st.integers(), st.integers())
def test_integers_are_equal_or_not(ours: int, theirs: int):
    assert compare_output(str(ours).encode(), str(theirs).encode()).ok == (ours == theirs)


@given(st.floats(min_value=-1e12, max_value=1e12), st.floats(min_value=-1e12, max_value=1e12))
def test_decimals_are_close_or_not(ours: float, theirs: float):
    ok = compare_output(f"{ours:.9f}".encode(), f"{theirs:.9f}".encode()).ok
    ours, theirs = float(f"{ours:.9f}"), float(f"{theirs:.9f}")
    if abs(ours - theirs) <= 0.99e-6 * max(1, abs(theirs)):
        assert ok
    if abs(ours - theirs) > 1.01e-6 * max(1, abs(theirs)):
        assert not ok


# --- returned values ---

VALUES_ACCEPTED = [
    (5, 5, "exact"),
    ("ab\n", "ab\n", "exact"),
    (None, None, "exact"),
    ([1, [2, "x"]], [1, [2, "x"]], "exact"),
    (True, True, "exact"),
    (True, 1, "exact"),
    (0, False, "exact"),
    (3.0, 3, "exact"),
    (3, 3.0, "exact"),
    ((4, 5), [4, 5], "value"),
    ([(1, 2), (3,)], [[1, 2], [3]], "value"),
    ((1, (2, (3,))), [1, [2, [3]]], "value"),
    (0.1 * 3, 0.3, "float"),
    ([0.1 * 3, 3], [0.3, 3], "float"),
    ({"a": 0.1 * 3}, {"a": 0.3}, "float"),
    (1e6 + 0.5, 1e6 + 1, "float"),
    (10**20, 1e20 + 1e5, "float"),
    (math.inf, math.inf, "exact"),
    (0, [0], "value"),
    ([0], [0], "exact"),
    ([1, 2], [[1, 2]], "value"),
    (True, [True], "value"),
    (None, [None], "value"),
    (0.1 * 3, [0.3], "float"),
    ((1, 2), [[1, 2]], "value"),
    (5, "5", "value"),
    ([1, 2], "[1, 2]", "value"),
    (True, "true", "value"),
    (True, "True", "value"),
    ("True", "True", "exact"),
    (None, "None", "value"),
    (["a", (1, 2)], "['a', (1, 2)]", "value"),
    ({1: 2}, "{1: 2}", "value"),
    (["a", 1], " ['a', 1]\n", "value"),
    ("a\nb", '"a\nb"', "value"),
    (10**5000, "1" + "0" * 5000, "value"),
    ("bab", '"bab"', "value"),
    ("bab", ['"bab"'], "value"),
    ("5", "5", "exact"),
    ({1: 2}, {"1": 2}, "value"),
    ({(1, 2): 3}, {"(1, 2)": 3}, "value"),
    ({True: 1, None: 2}, {"true": 1, "null": 2}, "value"),
    ({True: 1, None: 2}, {"True": 1, "None": 2}, "value"),
    ({1.5: (1,)}, {"1.5": [1]}, "value"),
    ({"b": 1, "a": 2}, {"a": 2, "b": 1}, "exact"),
    ({3, 1, 2}, [1, 2, 3], "value"),
    (frozenset([(1, 2), (3, 4)]), [[3, 4], [1, 2]], "value"),
    ({1, 2}, {2, 1}, "exact"),
    ({0.1 * 3, 1}, [1, 0.3], "float"),
    (10**5000, 10**5000, "exact"),
]
VALUES_REJECTED = [
    (5, [5, 6]),
    (5, 6),
    ([5], 5),
    ([[5]], [5]),
    (5, [[5]]),
    (None, []),
    (None, 0),
    (None, ""),
    ("", None),
    ("5", 5),
    ("5", [5]),
    (True, ["True"]),
    ("True", True),
    (1000, "1_000"),
    (["a"], "['a'"),
    (True, "True " + "x" * 1000),
    ("[1, 2]", [1, 2]),
    ("ab", "AB"),
    ("ab ", "ab"),
    (b"ab", "ab"),
    (5e16, 5 * 10**16 + 1),
    (50000000000000001, 50000000000000000),
    ([50000000000000001], [50000000000000000]),
    (2.9999999999, 3),
    (0.31, 0.3),
    (math.nan, 0.3),
    (math.inf, 1e308),
    (10**400, 1e308),
    (10**5000 + 1, 10**5000),
    ([1, 2], [2, 1]),
    ([1, 2, 3], [1, 2]),
    ([1, 2], [1, 2, 3]),
    ([], [[[]]]),
    ({1, 2}, [1, 2, 2]),
    ({1, 2}, [1]),
    ([1, 2], {"1": 2}),
    ({1: 2, "1": 2}, {"1": 2}),
    ({1: 2}, {"2": 2}),
    ({1: 2}, {"1": 3}),
    ({}, []),
    (10**5000, "1"),
    ({10**5000: 1}, {"1": 1}),
]


@pytest.mark.parametrize(("actual", "expected", "rule"), VALUES_ACCEPTED, ids=range(len(VALUES_ACCEPTED)))
def test_values_that_mean_the_same(actual: object, expected: object, rule: str):
    compared = compare_value(actual, expected)
    assert (compared.ok, compared.rule, compared.detail) == (True, rule, "")
    # The same after the way through the result pipe.
    assert compare_value(calls.decode_value(calls.encode_value(actual)), expected).ok


@pytest.mark.parametrize(("actual", "expected"), VALUES_REJECTED, ids=range(len(VALUES_REJECTED)))
def test_values_that_do_not(actual: object, expected: object):
    compared = compare_value(actual, expected)
    assert not compared.ok
    assert compared.rule == ""
    assert 0 < len(compared.detail) <= 200
    assert not compare_value(calls.decode_value(calls.encode_value(actual)), expected).ok


def test_exactly_takes_the_expected_value_as_it_is():
    assert compare_value([5], Exactly([5])).ok
    assert compare_value((5,), Exactly([5])).ok
    assert not compare_value(5, Exactly([5])).ok
    assert compare_value("5", Exactly("5")).ok
    assert not compare_value(5, Exactly("5")).ok


def test_a_nan_meets_only_a_nan():
    assert compare_value(math.nan, math.nan).ok
    assert compare_value([math.nan], [math.nan]).ok
    assert not compare_value(1.0, math.nan).ok
    assert not compare_value("nan", math.nan).ok


def test_nothing_equals_an_opaque_value():
    opaque = calls.Opaque("an object of type Liar")
    for expected in (0, None, "", [], [None], {}, "null", math.nan, calls.Opaque("an object of type Liar")):
        assert not compare_value(opaque, expected).ok
        assert not compare_value([opaque], [expected]).ok
        assert not compare_value({1: opaque}, {"1": expected}).ok


def test_the_detail_says_where_values_differ():
    assert compare_value([1, [2, 3]], [1, [2, 4]]).detail == "result[1][1]: 3, expected 4"
    assert compare_value({"a": [1]}, {"a": [2]}).detail == "result['a'][0]: 1, expected 2"
    assert compare_value([1], [1, 2]).detail == "result has 1 elements, expected 2"
    assert compare_value(10**5000, 1).detail == "result: a very long int, expected 1"
    assert "expected" in compare_value("x" * 10**6, "y" * 10**6).detail


def test_deep_values_do_not_raise():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    other = [[]]
    for _ in range(100_000):
        other = [other]
    assert not compare_value(deep, other).ok
    assert not compare_value(deep, 1).ok
    assert not compare_value(1, "[" * 100_000).ok


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_every_value_equals_itself_and_its_json(value: object):
    assert compare_value(value, value).ok
    assert compare_value(value, [value]).ok
    assert compare_value(value, Exactly(value)).ok
    assert compare_value(value, json.dumps(value)).ok
    assert compare_value(calls.decode_value(calls.encode_value(value)), value).ok


def tupled(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(tupled, value))
    return {key: tupled(element) for key, element in value.items()} if isinstance(value, dict) else value


@given(json_values)
def test_tuples_for_lists_anywhere(value: object):
    assert compare_value(tupled(value), value).ok


@settings(max_examples=300)
@given(json_values, json_values)
def test_different_values_differ(ours: object, theirs: object):
    """Whatever is accepted beyond Python's equality can be named."""
    if compare_value(ours, Exactly(theirs)).rule in ("exact", "value"):
        assert tupled(ours) == tupled(theirs)
