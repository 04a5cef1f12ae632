"""reward_model.ground_truth -> a list of tests.

The layouts that rows of Eurus-2 and its relatives have, as a JSON string, as bytes or already decoded (with numpy arrays):

    {"inputs": ["3 4\\n", ...], "outputs": ["7\\n", ...]}                        standard input; a test may be a list of lines
    {"fn_name": "f", "inputs": [[1, 2], ...], "outputs": [[3], ...]}            call-based, lists of arguments, wrapped values
    {"fn_name": "f", "inputs": ["1\\n2", ...], "outputs": ["3", ...]}            call-based, one JSON value per line
    {"entry_point": "Solution().f", "inputs": ["x = 1, y = 2", ...], ...}       call-based, as LeetCode shows its examples
    [{"input": "3 4\\n", "output": "7\\n"}, ...]                                 records, also under "tests", "test_cases", ...
    {"inputs": "[\\"3 4\\", ...]", "outputs": "[\\"7\\", ...]"}                     lists that are JSON in strings of their own
    base64 of zlib of JSON, or of a pickle that holds JSON                      as LiveCodeBench stores its private tests

Input is passed on as it is, but for CR LF, which becomes LF, and a byte order mark at its start, which no program expects.
A row without tests, with more inputs than outputs or without an expected output raises GroundTruthError: scored, it would
be a reward for nothing or a punishment for nothing. Whether a test makes sense (cut off, several right answers) is for the
data's preparation to say.
"""

from __future__ import annotations

import ast
import base64
import codecs
import contextlib
import decimal
import io
import itertools
import json
import pickle
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from verifier import calls
from verifier.comparison import Exactly

MAX_BYTES = 1 << 30  # of compressed tests, once unpacked
INPUT_KEYS = ("inputs", "input", "stdin")
OUTPUT_KEYS = ("outputs", "output", "expected_output", "stdout")
NAME_KEYS = ("fn_name", "func_name", "function_name", "entry_point")
NESTED_KEYS = (
    *("tests", "test_cases", "public_tests", "private_tests", "generated_tests"),
    *("public_test_cases", "private_test_cases", "official_tests", "input_output", "verification_info"),
)
NAMED_ARGUMENT = re.compile(r"\s*[A-Za-z_]\w*\s*=(?!=)")
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,99}")
JSON_NAMES = {"null": None, "true": True, "false": False}
NOT_BLANK = re.compile(r"\S")
REST_OF_LINE = re.compile(r"[^\S\n]*(?:\n|\Z)")


class GroundTruthError(ValueError):
    """The row's tests cannot be used; the message is one sentence that says why."""


@dataclass(frozen=True)
class Test:
    """One test.

    On standard input: `stdin` and `expected` are the bytes to be read and printed. Call-based: `stdin` is what
    calls.encode_args makes of the arguments and `expected` the value for comparison.compare_value.
    """

    __test__ = False  # not a test class, whatever pytest thinks of its name

    stdin: bytes
    expected: object


@dataclass(frozen=True)
class GroundTruth:
    """The tests of one row; `fn_name` is None where the program reads standard input."""

    fn_name: str | None
    tests: tuple[Test, ...]


def parse(ground_truth: object) -> GroundTruth:
    """Return the tests of one row, at least one. Raises GroundTruthError."""
    try:
        parts = list(_parts(_loaded(_plain(ground_truth))))
        fn_name, pairs = _name_in(parts), [pair for part in parts for pair in _pairs(part)]
        if not pairs:
            raise GroundTruthError("the ground truth holds no tests")
        tests = _call_tests(pairs) if fn_name else _stdin_tests(pairs)
        return GroundTruth(fn_name, tuple(tests))
    except RecursionError:
        raise GroundTruthError("the ground truth is nested too deeply to be read") from None


# From whatever the column holds to pairs of input and output.


def _plain(value: object) -> object:
    """The value in the types that JSON has, and bytes: numpy's and pyarrow's become lists and numbers."""
    if value is None or type(value) in (str, bytes, bool, int, float):
        return value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    for method in ("tolist", "as_py"):
        if hasattr(value, method):
            return _plain(getattr(value, method)())
    raise GroundTruthError(f"the ground truth holds a {type(value).__name__}, which is no test")


def _loaded(value: object) -> object:
    """Decode strings until there is a dictionary or a list."""
    for _ in range(3):  # JSON, at most within a pickle, within JSON
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                raise GroundTruthError("the ground truth is bytes that are not UTF-8") from None
        if not isinstance(value, str):
            break
        if not value.strip():
            raise GroundTruthError("the ground truth is empty")
        try:
            value = _json(value.removeprefix("\ufeff"))
        except ValueError:
            value = _unpacked(value)
    if isinstance(value, (dict, list)):
        return value
    raise GroundTruthError(f"the ground truth is {_kind(value)}, not the JSON of an object or a list of tests")


def _json(text: str) -> object:
    return DECODER.decode(text)


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # more digits than int() takes
        return int(decimal.Decimal(digits))


DECODER = json.JSONDecoder(parse_int=_integer, strict=False)  # not strict: strings may hold line ends as they are


class _DataOnly(pickle.Unpickler):
    """Reads strings, numbers and containers; refuses every name, so nothing of a pickle can run."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"refused {module}.{name}")


def _unpacked(text: str) -> object:
    problem = "the ground truth is neither JSON nor compressed tests"
    try:
        unpacker = zlib.decompressobj(wbits=47)  # with zlib's header or gzip's
        data = unpacker.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise GroundTruthError(f"the compressed tests are cut off, or larger than {MAX_BYTES >> 20} MiB")
        if not data.startswith(b"\x80"):
            return data.decode("utf-8")
        problem = "the compressed tests are a pickle that holds more than plain data"
        return _plain(_DataOnly(io.BytesIO(data)).load())
    except GroundTruthError:
        raise
    except Exception:  # pickle raises whatever the damaged data leads it to
        raise GroundTruthError(problem) from None


def _parts(row: object) -> Iterator[dict | list]:
    """The row, and what it holds under NESTED_KEYS."""
    yield row
    for key in NESTED_KEYS:
        if isinstance(row, dict) and row.get(key):
            yield from _parts(_loaded(row[key]))


def _pairs(part: dict | list) -> Iterator[tuple[object, object]]:
    """Input and output of each test of a part, its nested parts aside."""
    if isinstance(part, list):
        yield from map(_pair, part)
    elif not any(key in part for key in NESTED_KEYS):
        inputs, outputs = _pair(part)
        if {"inputs", "outputs"} <= part.keys():
            inputs, outputs = _lists_in(inputs, outputs) or (inputs, outputs)
        if isinstance(inputs, list) and isinstance(outputs, list):
            if len(inputs) != len(outputs):
                raise GroundTruthError(f"the ground truth has {len(inputs)} inputs but {len(outputs)} outputs")
            yield from zip(inputs, outputs, strict=True)
        elif isinstance(inputs, list) or isinstance(outputs, list):
            raise GroundTruthError(f"the inputs are {_kind(inputs)}, but the outputs {_kind(outputs)}")
        else:
            yield inputs, outputs


def _pair(record: object) -> tuple[object, object]:
    if not isinstance(record, dict):
        raise GroundTruthError(f"a test is {_kind(record)}, not a record of input and output")
    found = []
    for keys in (INPUT_KEYS, OUTPUT_KEYS):
        present = [key for key in keys if key in record]
        if not present:
            raise GroundTruthError(f"the ground truth has no {keys[0]}")
        found.append(record[present[0]])
    return found[0], found[1]


def _lists_in(inputs: object, outputs: object) -> tuple[list, list] | None:
    """The lists of tests that the two are the JSON of; None where they may be the text of a single test."""
    lists = []
    for side in (inputs, outputs):
        if isinstance(side, str) and side.lstrip()[:1] == "[":
            with contextlib.suppress(ValueError, RecursionError):
                side = _json(side)
        lists.append(side)
    inputs, outputs = lists
    if not (isinstance(inputs, list) and isinstance(outputs, list) and len(inputs) == len(outputs)):
        return None
    return (inputs, outputs) if all(isinstance(element, (str, list)) for element in inputs) else None


def _name_in(parts: list[dict | list]) -> str | None:
    """The name of the function to call: beside the tests, or in their records or in the metadata of either."""
    names, call_based = [], False
    for record in itertools.chain(*(part if isinstance(part, list) else [part] for part in parts)):
        if isinstance(record, dict):
            call_based |= record.get("testtype") == "functional"
            for source in (record, _metadata(record)):
                names += [source[key] for key in NAME_KEYS if source.get(key) not in (None, "")]
    names = [name.replace("().", ".") if isinstance(name, str) else name for name in names]
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise GroundTruthError(f"fn_name is {name!r}, which is no name of a function")
    if len(set(names)) > 1 or (call_based and not names):
        raise GroundTruthError(f"call-based tests need one function's name, and these have {len(set(names))}")
    return names[0] if names else None


def _metadata(record: dict) -> dict:
    metadata = record.get("metadata")
    if isinstance(metadata, str):
        with contextlib.suppress(ValueError):
            metadata = json.loads(metadata)
    return metadata if isinstance(metadata, dict) else {}


def _kind(value: object) -> str:
    names = {dict: "a record", list: "a list", str: "a string", type(None): "None"}
    return names.get(type(value), f"of type {type(value).__name__}")


# Tests on standard input.


def _stdin_tests(pairs: list[tuple[object, object]]) -> Iterator[Test]:
    for number, (stdin, expected) in enumerate(pairs, 1):
        if expected is None:
            raise GroundTruthError(f"test {number} has null for its expected output")
        yield Test(b"" if stdin is None else _text(stdin), _text(expected))


def _text(value: object) -> bytes:
    """What stands in a file: a string as it is, a list as its lines, anything else as Python prints it."""
    if isinstance(value, list):
        lines = [b" ".join(map(_text, line)) if isinstance(line, list) else _text(line) for line in value]
        return b"\n".join(line.removesuffix(b"\n") for line in lines)
    if isinstance(value, dict):
        raise GroundTruthError("a test on standard input is a record, not text; is the row's fn_name missing?")
    if isinstance(value, bytes):
        return value.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
    if isinstance(value, int) and not isinstance(value, bool):
        value = decimal.Decimal(value)  # str() of an int has a limit of digits
    return str(value).removeprefix("\ufeff").replace("\r\n", "\n").encode("utf-8", "surrogatepass")


# Call-based tests.


def _call_tests(pairs: list[tuple[object, object]]) -> Iterator[Test]:
    pairs = [tuple(side.decode(errors="replace") if isinstance(side, bytes) else side for side in pair) for pair in pairs]
    rows = _named_arguments([stdin for stdin, _ in pairs]) or [_arguments(stdin) for stdin, _ in pairs]
    quoted = all(map(_is_quoted, _strings(rows)))
    for position in range(max(map(len, rows))):
        of_tests = [row for row in rows if position < len(row)]
        column = _unquoted([row[position] for row in of_tests])
        if _lost_integer_keys(column) and all(_is_json(stdin) for stdin, _ in pairs):
            column = [_with_integer_keys(argument) for argument in column]
        for row, argument in zip(of_tests, column, strict=True):
            row[position] = argument
    as_text = [isinstance(stdin, str) and isinstance(expected, str) for stdin, expected in pairs]
    results = [_value(expected) if text else expected for (_, expected), text in zip(pairs, as_text, strict=True)]
    wrapped = all(isinstance(result, list) and len(result) == 1 for result in results)
    either = wrapped and isinstance(results[0][0], str)  # compare_value reads such strings in both ways
    if quoted and not either and not any(as_text) and all(isinstance(result, list) for result in results):
        results = _unquoted(results)  # and not where the function itself adds the quotes
    for row, result, text in zip(rows, results, as_text, strict=True):
        clear = not wrapped if isinstance(result, list) else text and isinstance(result, str) and not _is_quoted(result)
        yield Test(calls.encode_args(row), Exactly(result) if clear else result)


def _named_arguments(texts: list[object]) -> list[list] | None:
    """The arguments of tests that are all written as "nums = [3, 3], target = 6", with the same names; None: they are not."""
    if not all(isinstance(text, str) and NAMED_ARGUMENT.match(text) for text in texts):
        return None
    rows, names = [], set()
    for text in texts:
        call = _call_with(re.sub(r",?[^\S\n]*\n(?=[A-Za-z_]\w*\s*=)", ", ", text.strip()))
        if call is None or call[0] or not call[1]:
            return None
        rows.append(list(call[1].values()))
        names.add(tuple(call[1]))
    return rows if len(names) == 1 else None


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


def _json_values(text: str) -> list:
    """JSON values, each of them on a line of its own, or on several. Raises ValueError for anything else."""
    values, at = [], 0
    while start := NOT_BLANK.search(text, at):
        value, end = DECODER.raw_decode(text, start.start())
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


class _JsonNames(ast.NodeTransformer):
    """Puts the values of JSON's names in the place of the names."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(JSON_NAMES[node.id]) if node.id in JSON_NAMES else node


def _call_with(text: str) -> tuple[list, dict[str, object]] | None:
    """The positional and the named arguments of a call that is written with `text` between its brackets; None: no values."""
    try:
        call = _JsonNames().visit(ast.parse(f"f({text})", mode="eval")).body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        return list(map(ast.literal_eval, call.args)), {node.arg: ast.literal_eval(node.value) for node in call.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError):
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
    return _json(value) if isinstance(value, str) else value


def _value(text: str) -> object:
    """The value of a text: JSON, else a literal of Python, else the text itself."""
    try:
        return _json(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError):
        return text.strip("\r\n")


def _is_quoted(value: object) -> bool:
    if not isinstance(value, str) or len(value) < 2 or not value[0] == value[-1] == '"':
        return False
    try:
        return isinstance(_json(value), str)
    except ValueError:
        return False
