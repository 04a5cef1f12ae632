"""Values in texts: JSON first, then Python's literals, and ValueError for all else."""

from __future__ import annotations

import pytest

from verifier.literals import read

READ = [
    ("[1, null, true]", [1, None, True]),
    ("[1, None, True]", [1, None, True]),
    (" {'a': (1, 2)}\n", {"a": (1, 2)}),
    ('"a\nb"', "a\nb"),
    ("1" + "0" * 5000, 10**5000),
    ("{1, 2}", {1, 2}),
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


def test_any_start():
    assert read("'a'", ("",), 10) == "a"
