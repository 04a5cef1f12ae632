"""A value that stands in a text: as JSON, or as Python writes it. Rows hold both."""

from __future__ import annotations

import ast
import json
import math

NAMES = {"null": None, "true": True, "false": False, "inf": math.inf, "nan": math.nan}  # JSON's, and as Python prints floats
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
    """The value that a text is Python's literal of; within brackets, NAMES are values as well. Raises ValueError.

    starts: what it has to start with, blanks aside ("": anything). limit: characters that Python's parser gets, which takes
    three hundred times the memory, and a second for a million.
    """
    if len(text) > limit or not text.lstrip().startswith(starts):
        raise ValueError("no literal that would be read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        try:
            value = ast.literal_eval(tree)
        except ValueError:
            if not isinstance(tree, (ast.List, ast.Tuple, ast.Dict, ast.Set)) or not any(map(text.__contains__, NAMES)):
                raise
            value = ast.literal_eval(with_names(tree))
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("no literal") from error
    if value is ...:
        raise ValueError("three dots are no value")
    return value


def with_names(tree: ast.expr) -> ast.expr:
    """The expression with the values of NAMES in their place."""
    return _Names().visit(tree)


class _Names(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(NAMES[node.id]) if node.id in NAMES else node


def read(text: str, starts: tuple[str, ...], limit: int) -> object:
    """As read_json, or else as read_python."""
    try:
        return read_json(text)
    except ValueError:
        return read_python(text, starts, limit)
