"""reward_model.ground_truth -> a list of tests.

The layouts that rows of Eurus-2 and its relatives have, as a JSON string, as bytes or already decoded (with numpy arrays):

    {"inputs": ["3 4\\n", ...], "outputs": ["7\\n", ...]}                        standard input; a test may be a list of lines
    {"fn_name": "f", "inputs": [[1, 2], ...], "outputs": [[3], ...]}            call-based, lists of arguments, wrapped values
    {"fn_name": "f", "inputs": ["1\\n2", ...], "outputs": ["3", ...]}            call-based, one JSON value per line
    {"entry_point": "Solution().f", "inputs": ["x = 1, y = 2", ...], ...}       call-based, as LeetCode shows its examples
    {"fn_name": "f", "inputs": [{"x": 1, "y": 2}, ...], ...}                    call-based, arguments by name, or one record
    [{"input": "3 4\\n", "output": "7\\n"}, ...]                                 records, also under "tests", "test_cases", ...
    {"inputs": "[\\"3 4\\", ...]", "outputs": "[\\"7\\", ...]"}                     lists that are JSON in strings of their own
    {'inputs': ['3 4\\n', ...], 'outputs': ['7\\n', ...]}                        any of them as Python writes it, up to 1 MiB
    base64 of zlib of JSON, or of a pickle that holds JSON                      as LiveCodeBench stores its private tests

Input is passed on as it is, but for CR LF, which becomes LF, and a byte order mark at its start, which no program expects.
A row without tests, with more inputs than outputs or without an expected output raises GroundTruthError: scored, it would
be a reward for nothing or a punishment for nothing. Whether a test makes sense (cut off, several right answers) is for the
data's preparation to say.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import decimal
import io
import itertools
import json
import pickle
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from verifier import call_layouts, literals

MAX_BYTES = 1 << 30  # of compressed tests, once unpacked
MAX_LITERAL = 1 << 20  # characters of a row that is not JSON: training reads it once for every response
INPUT_KEYS = ("inputs", "input", "stdin")
OUTPUT_KEYS = ("outputs", "output", "expected_output", "stdout")
NAME_KEYS = ("fn_name", "func_name", "function_name", "entry_point")
NESTED_KEYS = (
    *("tests", "test_cases", "public_tests", "private_tests", "generated_tests"),
    *("public_test_cases", "private_test_cases", "official_tests", "input_output", "verification_info"),
)


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
        parts = list(_parts(_loaded(plain(ground_truth))))
        fn_name, pairs = _name_in(parts), [pair for part in parts for pair in _pairs(part)]
        if not pairs:
            raise GroundTruthError("the ground truth holds no tests")
        tests = itertools.starmap(Test, call_layouts.read(pairs)) if fn_name else _stdin_tests(pairs)
        return GroundTruth(fn_name, tuple(tests))
    except RecursionError:
        raise GroundTruthError("the ground truth is nested too deeply to be read") from None


# From whatever the column holds to pairs of input and output.


def plain(value: object) -> object:
    """The value in the types that JSON has, and bytes: numpy's, pandas' and pyarrow's become lists and numbers.

    Raises GroundTruthError for a type that holds no data.
    """
    if value is None or type(value) in (str, bytes, bool, int, float):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):  # what pandas has for null
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(element) for key, element in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    for method in ("tolist", "as_py", "to_pylist", "to_pybytes"):
        if hasattr(value, method):
            return plain(getattr(value, method)())
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence):
        return [plain(element) for element in value]
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
            value = _written(value.removeprefix("\ufeff"))
        except ValueError:
            value = _unpacked(value)
    if isinstance(value, (dict, list)):
        return value
    raise GroundTruthError(f"the ground truth is {_kind(value)}, not the JSON of an object or a list of tests")


def _written(text: str) -> object:
    """What a text is the JSON of, or else, for objects and lists, Python's literal. Raises ValueError."""
    try:
        return literals.read_json(text)
    except ValueError:
        return plain(literals.read_python(text, ("{", "["), MAX_LITERAL))


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
        return plain(_DataOnly(io.BytesIO(data)).load())
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
                side = _written(side)
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
                names += [source[key] for key in NAME_KEYS if not _is_nothing(source.get(key))]
    names = [name.replace("().", ".") if isinstance(name, str) else name for name in names]
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise GroundTruthError(f"fn_name is {name!r}, which is no name of a function")
    if len(set(names)) > 1 or (call_based and not names):
        raise GroundTruthError(f"call-based tests need one function's name, and these have {len(set(names))}")
    return names[0] if names else None


def _is_nothing(value: object) -> bool:
    return value is None or value == "" or value != value  # NaN: what pandas makes of a record that lacks what others have


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
