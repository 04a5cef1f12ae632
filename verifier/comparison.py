"""What the program printed or returned against what was expected (interface; the rules follow)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """`rule` names the rule that accepted; `detail` describes the first difference in at most 200 characters."""

    ok: bool
    rule: str
    detail: str


def compare_output(actual: bytes, expected: bytes | str, mode: str = "tokens") -> Comparison:
    """Compare standard output with the expected output."""
    expected = expected.encode() if isinstance(expected, str) else expected
    if actual == expected:
        return Comparison(True, "exact", "")
    if actual.split() == expected.split():
        return Comparison(True, "tokens", "")
    return Comparison(False, mode, "different")


def compare_value(actual: object, expected: object) -> Comparison:
    """Compare a returned value with the expected value."""
    return Comparison(actual == expected, "exact", "" if actual == expected else "different")
