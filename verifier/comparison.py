"""What the program printed or returned against what was expected. Runs in the parent only.

Standard output, mode "tokens" (the default): both sides are split at white space and compared token by token, so runs of
blanks, blank lines, line ends and the choice between a blank and a line end do not matter, as with the usual token
checkers of contests. Which tokens may differ, and how, follows from how the *expected* token is written:

    integer   -?(0|[1-9][0-9]*)         exactly, whatever its length; only -0 is 0. Not 5.0, 1e5, 1_000, +5, 007.
    decimal   with a point or exponent  a number within 1e-6, absolute or relative. Not nan, inf, 1_0.5.
    answer    yes no true false possible impossible   in small letters, capitals, or with a capital first letter
    word      everything else           exactly: letters of any case, foreign digits, nan, inf, digits that start with 0

Other modes: "exact", the same bytes but for one line end at the end; "float", as "tokens", but an expected integer is also met
by a decimal within 1e-6; "lines-unordered", the same lines in any order, blanks and blank lines aside; "source",
the plain recipe's: equal text once both ends are stripped.

Returned values: equal as in Python (so 1, 1.0 and True are one value), and besides: a tuple is a list, a float is met
within 1e-6, a set meets a list that has its elements once each in any order, a dictionary's keys may have become strings in
JSON, a value may be wrapped in a list of its own (as rows have it), and a string may hold the value as JSON or Python write
it, or, where it is wrapped, a string. The last two are meant for values as rows have them; `Exactly` turns them off where the
row leaves no doubt.

Not covered: problems with several right answers, and output whose shape counts (a drawing): they need a checker.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import math
import re
import reprlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from verifier import literals

TOLERANCE = 1e-6 * (1 + 1e-9)  # a difference of exactly 1e-6 must not fail for its last bit
INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
DECIMAL = re.compile(rb"[+-]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)")
ZEROS = (b"0", b"-0")
ANSWERS = frozenset((b"yes", b"no", b"true", b"false", b"possible", b"impossible"))
RULES = ("exact", "tokens", "value", "float", "case")  # from the strictest to the kindest
SPACE = re.compile(rb"\s")
CHUNK = 1 << 20  # bytes split into tokens at a time: 50 MB at once would be a gigabyte of them
DETAIL = 200  # characters
LITERALS = ("True", "False", "None", "[", "(", "{")  # not a quote: a word in quotes is the word with them
MAX_LITERAL = 100_000  # characters, as every program's every test reads them again
SHOWN = 40  # characters of a token


@dataclass(frozen=True)
class Comparison:
    """What came of a comparison.

    rule: which rule accepted it, the kindest one that was needed ("exact" < "tokens" < "float" < "case" for output,
        "exact" < "value" < "float" for values), or the mode, where that is another; empty if not ok.
    detail: the first difference, in at most 200 characters; empty if ok.
    """

    ok: bool
    rule: str
    detail: str


@dataclass(frozen=True)
class Exactly:
    """An expected value that is neither wrapped in a list nor JSON in a string."""

    value: object


def compare_output(actual: bytes, expected: bytes | str, mode: str = "tokens") -> Comparison:
    """Compare standard output with the expected output. Raises ValueError for an unknown mode, and nothing else."""
    if mode not in MODES:
        raise ValueError(f"unknown comparison mode {mode!r}: use one of {', '.join(MODES)}")
    expected = expected.encode("utf-8", "surrogatepass") if isinstance(expected, str) else expected
    if actual == expected:
        return Comparison(True, "exact", "")
    rule, difference = MODES[mode](actual, expected)
    return Comparison(not difference, "" if difference else rule, difference[:DETAIL])


def compare_value(actual: object, expected: object) -> Comparison:
    """Compare a returned value, as calls.decode_value gives it, with the expected value. Never raises."""
    readings = [expected.value] if isinstance(expected, Exactly) else _readings(expected)
    differences = []
    for number, reading in enumerate(readings):
        kindnesses = {"exact", "value"} if number else {"exact"}
        try:
            difference = _difference(actual, reading, kindnesses)
        except (RecursionError, ValueError):  # ValueError: an integer too long to be the text of a key
            difference = ": cannot be compared, it is nested too deeply or holds too long an integer"
        if not difference:
            return Comparison(True, max(kindnesses, key=RULES.index), "")
        differences.append(difference)
    return Comparison(False, "", f"result{differences[0]}"[:DETAIL])


# Output. Each mode is a function of two bytes objects that returns the rule and the first difference ("": none).


def _compare_exact(actual: bytes, expected: bytes) -> tuple[str, str]:
    return "exact", _first_byte(actual.removesuffix(b"\n"), expected.removesuffix(b"\n"))


def _compare_source(actual: bytes, expected: bytes) -> tuple[str, str]:
    ours, theirs = (
        text.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").strip().encode()  # as read in text mode
        for text in (actual, expected)
    )
    return "source", _first_byte(ours, theirs)


def _compare_lines(actual: bytes, expected: bytes) -> tuple[str, str]:
    ours, theirs = (
        sorted(filter(None, (b" ".join(line.split()) for line in text.splitlines()))) for text in (actual, expected)
    )
    for our, their in zip_longest(ours, theirs):
        if our != their:
            extra = their is None or (our is not None and our < their)
            return "", f"line {_show(our)} is not expected" if extra else f"the expected line {_show(their)} is missing"
    return "lines-unordered", ""


def _compare_tokens(actual: bytes, expected: bytes) -> tuple[str, str]:
    return _by_token(actual, expected, _token_rule)


def _compare_float(actual: bytes, expected: bytes) -> tuple[str, str]:
    return _by_token(actual, expected, _float_rule)


MODES: dict[str, Callable[[bytes, bytes], tuple[str, str]]] = {
    "tokens": _compare_tokens,
    "exact": _compare_exact,
    "float": _compare_float,
    "lines-unordered": _compare_lines,
    "source": _compare_source,
}


def _by_token(actual: bytes, expected: bytes, rule_of: Callable[[bytes, bytes], str | None]) -> tuple[str, str]:
    if actual.rstrip() == expected.rstrip():
        return "tokens", ""
    chunks, expected_chunks = _chunks(actual), _chunks(expected)
    ours, theirs = next(chunks, []), next(expected_chunks, [])
    rules, before = {"tokens"}, 0
    while ours and theirs:
        length = min(len(ours), len(theirs))
        if ours[:length] != theirs[:length]:  # in C; most often the whole chunk is equal
            for index in range(length):
                if ours[index] != theirs[index]:
                    rule = rule_of(ours[index], theirs[index])
                    if rule is None:
                        return "", f"token {before + index + 1} is {_show(ours[index])}, expected {_show(theirs[index])}"
                    rules.add(rule)
        before += length
        ours, theirs = ours[length:] or next(chunks, []), theirs[length:] or next(expected_chunks, [])
    if theirs:
        return "", f"the output ends after {before} tokens, expected {_show(theirs[0])} next"
    if ours:
        return "", f"after the {before} expected tokens comes {_show(ours[0])}"
    return max(rules, key=RULES.index), ""


def _chunks(data: bytes) -> Iterator[list[bytes]]:
    """The tokens of `data` in lists of about CHUNK bytes each, none of them empty."""
    start = 0
    while start < len(data):
        space = SPACE.search(data, start + CHUNK)
        end = space.end() if space else len(data)
        if tokens := data[start:end].split():
            yield tokens
        start = end


def _token_rule(actual: bytes, expected: bytes) -> str | None:
    """The rule under which one token stands for another, different one."""
    if INTEGER.fullmatch(expected):
        return "tokens" if actual in ZEROS and expected in ZEROS else None
    if DECIMAL.fullmatch(expected):
        return "float" if NUMBER.fullmatch(actual) and _close(float(actual), float(expected)) else None
    answer = expected.lower()
    if answer in ANSWERS and actual in (answer, answer.upper(), answer.capitalize()):
        return "case"
    return None


def _float_rule(actual: bytes, expected: bytes) -> str | None:
    if INTEGER.fullmatch(expected) and DECIMAL.fullmatch(actual):
        return "float" if _close(float(actual), float(expected)) else None
    return _token_rule(actual, expected)


def _close(actual: float, expected: float) -> bool:
    """Within 1e-6, absolute or relative to what was expected. What is too large for a float is close to nothing."""
    return abs(actual - expected) <= TOLERANCE * max(1.0, abs(expected)) < math.inf


def _first_byte(actual: bytes, expected: bytes) -> str:
    if actual == expected:
        return ""
    # Half by half: the comparison of slices is one instruction's work where a loop would take seconds.
    at = bisect.bisect(range(min(len(actual), len(expected))), 0, key=lambda n: actual[: n + 1] != expected[: n + 1])
    line = actual.count(b"\n", 0, at) + 1
    return f"line {line} goes on with {_show(actual[at:])}, expected {_show(expected[at:])}"


def _show(text: bytes) -> str:
    shown = repr(text[:SHOWN].decode(errors="replace"))
    return f"{shown}..." if len(text) > SHOWN else shown


# Values. Each function returns where and how the values differ, as "[2]: 3, expected 4" ("": not at all), and notes what
# it had to allow for.


def _readings(expected: object) -> Iterator[object]:
    """What an expected value may stand for: itself, the only element of a list, the value whose JSON a string is."""
    readings = [expected, *expected] if isinstance(expected, list) and len(expected) == 1 else [expected]
    yield from readings
    for reading in readings:
        if isinstance(reading, str):
            with contextlib.suppress(ValueError, RecursionError):
                value = literals.read(reading, LITERALS, MAX_LITERAL)
                if reading is expected or isinstance(value, str):  # in a list of its own, "5" is the string and not 5
                    yield value


def _difference(actual: object, expected: object, kindnesses: set[str]) -> str:
    if actual == expected:
        return ""
    if isinstance(actual, (int, float)) and isinstance(expected, float):
        if _close_values(actual, expected):
            kindnesses.add("float")
            return ""
    elif isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        kindnesses.add("value")
        return _difference_of_lists(actual, expected, kindnesses)
    elif isinstance(actual, dict) and isinstance(expected, dict):
        kindnesses.add("value")
        return _difference_of_dicts(actual, expected, kindnesses)
    elif isinstance(actual, (set, frozenset)) and isinstance(expected, (set, frozenset, list, tuple)):
        kindnesses.add("value")
        if _same_elements(actual, expected, kindnesses):
            return ""
    return f": {_show_value(actual)}, expected {_show_value(expected)}"


def _close_values(actual: int | float, expected: float) -> bool:
    if math.isnan(expected):
        return actual != actual
    try:
        return _close(float(actual), expected)
    except OverflowError:  # an integer beyond every float
        return False


def _difference_of_lists(actual: Sequence, expected: Sequence, kindnesses: set[str]) -> str:
    if len(actual) != len(expected):
        return f" has {len(actual)} elements, expected {len(expected)}"
    for index, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        if difference := _difference(ours, theirs, kindnesses):
            return f"[{index}]{difference}"
    return ""


def _difference_of_dicts(actual: dict, expected: dict, kindnesses: set[str]) -> str:
    """Keys are equal, or what JSON or str() made of them is."""
    for name in (lambda key: key, _json_key, str):
        named = {name(key): value for key, value in actual.items()}
        if named.keys() == expected.keys() and len(named) == len(actual):
            break
    else:
        return f" has the keys {_show_value(list(actual))}, expected {_show_value(list(expected))}"
    for key, theirs in expected.items():
        if difference := _difference(named[key], theirs, kindnesses):
            return f"[{_show_value(key)}]{difference}"
    return ""


def _json_key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key) if isinstance(key, (int, float, type(None))) else str(key)


def _same_elements(actual: set | frozenset, expected: Collection, kindnesses: set[str]) -> bool:
    if len(actual) != len(expected):
        return False
    if set(map(_frozen, actual)) == set(map(_frozen, expected)):
        return True
    if all(isinstance(element, (int, float)) for element in (*actual, *expected)):
        return not _difference_of_lists(sorted(actual), sorted(expected), kindnesses)
    return False


def _frozen(value: object) -> object:
    """The value with lists and tuples, which JSON does not tell apart, as tuples, and all of it hashable."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, (set, frozenset)):
        return frozenset(map(_frozen, value))
    if isinstance(value, dict):
        return frozenset((key, _frozen(element)) for key, element in value.items())
    return value


def _show_value(value: object) -> str:
    try:
        return _REPR.repr(value)
    except ValueError:  # an integer of more digits than Python converts
        return f"a very long {type(value).__name__}"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = SHOWN
