"""A value that stands in a text: as JSON, or as Python writes it. Rows hold both."""

from __future__ import annotations

import ast
import json

INT_DIGITS = 4000  # which Python's int() takes under its own limit


def read_json(text: str) -> object:
    """json.loads that takes integers of any length and strings with line ends as they are."""
    return DECODER.decode(text)


def _integer(digits: str) -> int:
    """int() of any length. It has a limit of digits, as it takes quadratic time; halves multiplied take far less."""
    if len(digits) <= INT_DIGITS:
        return int(digits)
    if digits[0] == "-":
        return -_integer(digits[1:])
    half = len(digits) // 2
    return _integer(digits[:-half]) * 10**half + _integer(digits[-half:])


DECODER = json.JSONDecoder(parse_int=_integer, strict=False)  # not strict: strings may hold line ends as they are


def read_python(text: str, starts: tuple[str, ...], limit: int) -> object:
    """The value that a text is Python's literal of. Raises ValueError.

    starts: what it has to start with, blanks aside ("": anything). limit: characters that Python's parser gets, which takes
    three hundred times the memory, and a second for a million.
    """
    if len(text) > limit or not text.lstrip().startswith(starts):
        raise ValueError("no literal that would be read")
    try:
        value = ast.literal_eval(text.strip())
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("no literal") from error
    if value is ...:
        raise ValueError("three dots are no value")
    return value


def read(text: str, starts: tuple[str, ...], limit: int) -> object:
    """As read_json, or else as read_python."""
    try:
        return read_json(text)
    except ValueError:
        return read_python(text, starts, limit)
