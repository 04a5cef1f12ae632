"""Values in texts: JSON first, then Python's literals, and ValueError for all else."""

from __future__ import annotations

import math
import sys
import time

import pytest

from verifier.literals import read, read_json

READ = [
    ("[1, null, true]", [1, None, True]),
    ("[1, None, True]", [1, None, True]),
    (" {'a': (1, 2)}\n", {"a": (1, 2)}),
    ('"a\nb"', "a\nb"),
    ("1" + "0" * 5000, 10**5000),
    ("{1, 2}", {1, 2}),
    ("['a', null, true]", ["a", None, True]),
    ("{'a': [-inf]}", {"a": [-math.inf]}),
]
REFUSED = [
    "",
    " ",
    "a",
    "'a'",
    "[1, 2",
    "[a]",
    "(" * 150,
    "[1, {}: 2]",
    "[{[]: 1}]",
    "(1, 2, 3, 4, 5, 6)",
    "(" + "-" * 5000 + "1)",
]


@pytest.mark.parametrize(("text", "value"), READ, ids=range(len(READ)))
def test_json_and_literals(text: str, value: object):
    assert read(text, ("[", "(", "{"), 17) == value


@pytest.mark.parametrize("text", REFUSED)
def test_other_texts_are_refused(text: str):
    with pytest.raises(ValueError):
        read(text, ("[", "(", "{"), 17 if text.startswith("(1") else 10_000)
    with pytest.raises(RecursionError):
        read("[" * 100_000, ("[",), 10)


def test_long_integers_take_little_time():
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        for text in ("123" * 5000, "-" + "9" * 4001, "1" + "0" * 9999):
            assert read_json(text) == int(text)
    finally:
        sys.set_int_max_str_digits(limit)
    before = time.process_time()
    read_json("[" + ",".join(["1" * 400_000] * 2) + "]")
    assert time.process_time() - before < 3  # int() and decimal take more than ten seconds


def test_any_start():
    assert read("'a'", ("",), 10) == "a"
