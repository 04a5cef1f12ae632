"""The inputs and outputs of a call-based row -> arguments and expected values.

How they are written differs from set to set (ground_truth.py shows the layouts), and often only all tests of a row together
tell what one of them means.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator

from verifier import calls, literals
from verifier.comparison import Exactly
from verifier.literals import read_json

NAMED_ARGUMENT = re.compile(r"\s*[A-Za-z_]\w*\s*=(?!=)")
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,99}")
BRACKETS = re.compile(r"[()\[\]{}]+")
NOT_BLANK = re.compile(r"\S")
MAX_LITERAL = 10 << 20  # characters of one argument: prepare_data.py keeps no larger tests
REST_OF_LINE = re.compile(r"[^\S\n]*(?:\n|\Z)")


def read(pairs: list[tuple[object, object]]) -> Iterator[tuple[bytes, object]]:
    """Arguments as calls.encode_args has them, and the value for comparison.compare_value, of each pair of input and output."""
    pairs = [tuple(side.decode(errors="replace") if isinstance(side, bytes) else side for side in pair) for pair in pairs]
    inputs = [stdin for stdin, _ in pairs]
    records = _records(inputs)
    by_name = _by_name(records) if records else _named_arguments(inputs)
    names, rows = by_name or ((), [_arguments(stdin) for stdin in inputs])
    _keep_words(inputs, rows)
    quoted = all(map(_is_quoted, _strings(rows)))
    for position in range(max(map(len, rows))):
        of_tests = [row for row in rows if position < len(row)]
        column = _unquoted([row[position] for row in of_tests])
        if _lost_integer_keys(column) and all(map(_is_json, inputs)):
            column = [_with_integer_keys(argument) for argument in column]
        for row, argument in zip(of_tests, column, strict=True):
            row[position] = argument
    as_text = [isinstance(stdin, str) and isinstance(expected, str) for stdin, expected in pairs]
    results = [_value(expected) if text else expected for (_, expected), text in zip(pairs, as_text, strict=True)]
    read_texts = [(result, expected) for (_, expected), result, text in zip(pairs, results, as_text, strict=True) if text]
    words = [expected.strip() for result, expected in read_texts if _is_word(result, expected)]
    wrapped = all(isinstance(result, list) and len(result) == 1 for result in results)
    either = wrapped and isinstance(results[0][0], str)  # compare_value reads such strings in both ways
    if quoted and not either and not any(as_text) and all(isinstance(result, list) for result in results):
        results = _unquoted(results)  # and not where the function itself adds the quotes
    named = [dict(zip(names, row, strict=True)) for row in rows] if names else rows
    if records:
        keys = list(dict.fromkeys(key for record in records for key in record))
        likely = bool(names) and len(rows) > 1 and inputs is records
        values = named if names else records
        named = [calls.Record(*pair, likely, keys) for pair in zip(values, records, strict=True)]
    for (_, expected), arguments, result, text in zip(pairs, named, results, as_text, strict=True):
        args = calls.encode_args(arguments)
        if text and _may_be_word(result, expected, words):
            yield args, expected.strip()  # which compare_value reads in both ways
            continue
        clear = not wrapped if isinstance(result, list) else text and isinstance(result, str) and not _is_quoted(result)
        yield args, Exactly(result) if clear else result


def _records(inputs: list[object]) -> list[dict[str, object]] | None:
    """The records that all inputs are, or that their texts hold, with keys that may be names of parameters.

    In a text of one key, of a row's only test, nothing speaks for a name.
    """
    records = inputs
    if all(isinstance(stdin, str) and stdin.lstrip().startswith("{") for stdin in inputs):
        with contextlib.suppress(ValueError):
            records = [literals.read(stdin, ("{",), MAX_LITERAL) for stdin in inputs]
        if len(records) == len(records[0]) == 1:
            return None
    return records if all(isinstance(record, dict) and all(map(_may_be_name, record)) for record in records) else None


def _may_be_name(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier()


def _by_name(records: list[dict[str, object]]) -> tuple[list[str], list[list]] | None:
    """As _named_arguments, of records that have the same keys, in the order of the first one's."""
    names = list(records[0])
    same = names and all(record.keys() == records[0].keys() for record in records)
    return (names, [[record[name] for name in names] for record in records]) if same else None


def _named_arguments(texts: list[object]) -> tuple[list[str], list[list]] | None:
    """The names and the arguments of tests that are all written as "nums = [3, 3], target = 6", with the same names.

    None: they are not.
    """
    if not all(isinstance(text, str) and NAMED_ARGUMENT.match(text) for text in texts):
        return None
    rows, names = [], set()
    for text in texts:
        call = _call_with(re.sub(r",?[^\S\n]*\n(?=[A-Za-z_]\w*\s*=)", ", ", text.strip()))
        if call is None or call[0] or not call[1]:
            return None
        rows.append(list(call[1].values()))
        names.add(tuple(call[1]))
    return (list(names.pop()), rows) if len(names) == 1 else None


def _arguments(value: object) -> list:
    """Positional arguments: a list holds them, a string has the JSON of one on each line, anything else is the only one."""
    if isinstance(value, list):
        return list(value)
    if not isinstance(value, str):
        return [value]
    try:
        return _json_values(value)
    except ValueError:
        return [argument for line in value.split("\n") if line.strip() for argument in _of_line(line)]


def _keep_words(texts: list[object], rows: list[list]) -> None:
    """Give back its text to what was read as a value where other tests have a word without quotes."""
    lines = [[line.strip() for line in text.split("\n") if line.strip()] if isinstance(text, str) else [] for text in texts]
    for position in range(max(map(len, rows))):
        of_tests = [pair for pair in zip(rows, lines, strict=True) if position < len(pair[0]) == len(pair[1])]
        words = [of_test[position] for row, of_test in of_tests if _is_word(row[position], of_test[position])]
        for row, of_test in of_tests:
            if _may_be_word(row[position], of_test[position], words):
                row[position] = of_test[position]


def _is_word(value: object, text: str) -> bool:
    """Whether a text was read as a word without quotes; three dots alone may also stand for what was left out."""
    return text.strip() != "..." and isinstance(value, str) and value.strip() == text.strip()


def _may_be_word(value: object, text: str, words: list[str]) -> bool:
    """Whether a text is a word as `words` are, and only looks like a value: 12, true or null, or brackets beside brackets."""
    if isinstance(value, (list, tuple, dict, set)):
        return bool(BRACKETS.fullmatch(text.strip())) and any(map(BRACKETS.fullmatch, words))
    return bool(words) and not isinstance(value, str)


def _json_values(text: str) -> list:
    """JSON values, each of them on a line of its own, or on several. Raises ValueError for anything else."""
    values, at = [], 0
    while start := NOT_BLANK.search(text, at):
        value, end = literals.DECODER.raw_decode(text, start.start())
        rest = REST_OF_LINE.match(text, end)
        if not rest:
            raise ValueError("a value goes on after its end")
        values.append(value)
        at = rest.end()
    return values


def _of_line(line: str) -> list:
    """The arguments on a line that is not JSON: one, or several with commas between them."""
    call = _call_with(line.strip())
    return call[0] if call and len(call[0]) > 1 and not call[1] else [_value(line)]


def _call_with(text: str) -> tuple[list, dict[str, object]] | None:
    """The positional and the named arguments of a call that is written with `text` between its brackets; None: no values."""
    if len(text) > MAX_LITERAL:
        return None
    try:
        call = literals.with_names(ast.parse(f"f({text})", mode="eval").body)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        return list(map(ast.literal_eval, call.args)), {node.arg: ast.literal_eval(node.value) for node in call.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _lost_integer_keys(column: list) -> bool:
    """Whether the keys of an argument, in all tests, are integers that JSON had to make strings.

    The scorers of APPS, and veRL's own after it, give the program integers as well.
    """
    keys = [key for value in column if isinstance(value, dict) for key in value]
    return bool(keys) and all(isinstance(key, str) and INTEGER.fullmatch(key) for key in keys)


def _is_json(stdin: object) -> bool:
    """Whether arguments were read from JSON, and not from Python, which can write keys of any type."""
    if isinstance(stdin, str):
        try:
            _json_values(stdin)
        except ValueError:
            return False
    return True


def _with_integer_keys(value: object) -> object:
    return {int(key): element for key, element in value.items()} if isinstance(value, dict) else value


def _unquoted(column: list) -> list:
    """One side of all tests; its strings read, where all of them were written as JSON once more than the rest, as in APPS."""
    strings = _strings(column)
    first = next(strings, None)
    return _without_quotes(column) if _is_quoted(first) and all(map(_is_quoted, strings)) else column


def _strings(values: list) -> Iterator[str]:
    for value in values:
        if isinstance(value, list):
            yield from _strings(value)
        elif isinstance(value, str):
            yield value


def _without_quotes(value: object) -> object:
    if isinstance(value, list):
        return [_without_quotes(element) for element in value]
    return read_json(value) if isinstance(value, str) else value


def _value(text: str) -> object:
    """The value of a text: JSON, else a literal of Python, else the text itself."""
    try:
        return literals.read(text, ("",), MAX_LITERAL)
    except ValueError:
        return text.strip("\r\n")


def _is_quoted(value: object) -> bool:
    if not isinstance(value, str) or len(value) < 2 or not value[0] == value[-1] == '"':
        return False
    try:
        return isinstance(read_json(value), str)
    except ValueError:
        return False
