"""Call-based tests: the arguments' way into the process, the return value's way out.

The program defines a function, or a class `Solution` with a method, and the test calls it. `driver` makes the program
that the executor runs in its place. Arguments come in on standard input and the return value leaves on RESULT_FD, so what
the program prints is its own affair, and a program that ends before it returns leaves no value. The expected value never
enters the process: a program that forges a result has to know the answer.

The two ways differ because only one of them is trusted. In: marshal, which needs no import in a process that lives for
a few milliseconds, and which the parent never reads. Out: JSON with tagged objects, written without any import and read
by a parser that only ever makes plain data; what the program returns keeps no behaviour of its own, so an object that
claims to equal everything equals nothing.

The program runs as the module `solution`, not as `__main__`: a demonstration behind the usual guard does not run. Names of
the standard library that it uses without importing them are there (call_driver.NAMES), as on the sites where call-based
problems come from, and so are their linked lists and trees (node_driver.py); programs that read standard input get no such
help.
"""

from __future__ import annotations

import collections
import json
import marshal
import re
from pathlib import Path
from typing import NamedTuple

from verifier import call_driver, fit_driver, node_driver
from verifier.call_driver import RESULT_FD, encode_value

__all__ = ["RESULT_FD", "Opaque", "Record", "decode_args", "decode_value", "driver", "encode_args", "encode_value"]

MAX_CONTAINERS = 2_000_000  # in one value: an empty list takes two bytes on the wire and sixty in the parent
MAX_SAME_HASH = 100  # of a set's elements or a dictionary's keys: more are made to cost quadratic time
LONG_NUMBER = re.compile(r"[0-9]{1000}")
PARTS = (call_driver, fit_driver, node_driver)
DRIVER, FIT_DRIVER, NODE_DRIVER = (Path(part.__file__).read_text(encoding="utf-8") for part in PARTS)


class Opaque:
    """Stands for what the program returned and is no plain data, or for no value at all. Equals nothing."""

    def __init__(self, description: str) -> None:
        self.description = description

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<{self.description}>"


class Record(NamedTuple):
    """A record that holds the arguments by their names or is the only one: fit_driver.fitted finds which, by the parameters.

    arguments: by name, as they are for a function; whole: the record; likely: whether it holds the arguments where the
    parameters do not tell; keys: of the records of all tests.
    """

    arguments: dict[str, object]
    whole: dict[str, object]
    likely: bool
    keys: list[str]


def encode_args(args: list | dict[str, object] | Record) -> bytes:
    """Return the arguments as the driver's standard input (ASCII). Raises ValueError for what is not plain data.

    args: by position, or with their names, which give way to their order where the function's parameters have others.
    """
    if isinstance(args, Record):
        same = [*args.arguments.items()] == [*args.whole.items()]
        args = args.arguments, None if same else args.whole, args.likely, args.keys
    return marshal.dumps(args, 2).hex().encode()


def decode_args(data: bytes) -> list:
    """Return the arguments that encode_args made `data` of, as a function gets them whose parameters do not tell.

    Only for data of this process's own: marshal trusts its input.
    """
    args = marshal.loads(bytes.fromhex(data.decode()))
    if isinstance(args, list):
        return args
    arguments, whole, likely, _ = (args, None, True, []) if isinstance(args, dict) else args
    return [*arguments.values()] if likely else [whole or arguments]


def decode_value(data: bytes) -> object:
    """Return the value in `data`: plain data, or an Opaque where it holds none. Never raises, never executes anything."""
    if not data:
        return Opaque("no value was returned")
    try:
        text = data.decode("utf-8", "surrogatepass")
        if text.count("[") + text.count("{") > MAX_CONTAINERS:
            return Opaque("a value of too many parts")
        # int() takes quadratic time; where it has no limit of its own, a long number would hold up the trainer.
        value = json.loads(text, parse_int=_short_int if LONG_NUMBER.search(text) else None)
        return _untag(value) if "{" in text else value
    except Exception:  # whatever a program may have written there itself
        return Opaque("a damaged value")


def driver(program: str, fn_name: str) -> str:
    """Return the source of a program that calls `fn_name` of `program` with the arguments on its standard input.

    `fn_name` names a method of the class Solution or a function, or with a dot a method: "Class.method". The source needs
    nothing but the standard library. An exception of the program's leaves it as from any program.
    """
    if "ListNode" in program or "TreeNode" in program:
        return f"{DRIVER}\n\n{NODE_DRIVER}\n\ncall({program!r}, {fn_name!r}, {FIT_DRIVER!r}, NODES, with_nodes)\n"
    return f"{DRIVER}\n\ncall({program!r}, {fn_name!r}, {FIT_DRIVER!r})\n"


def _short_int(digits: str) -> int:
    if LONG_NUMBER.match(digits.removeprefix("-")):
        raise ValueError("the encoder writes no such number")
    return int(digits)


def _untag(value: object) -> object:
    if isinstance(value, list):
        return [_untag(element) for element in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag == "other":
        return Opaque(f"an object of type {content}")
    if tag == "int":
        return int(content, 16)
    if tag == "bytes":
        return bytes.fromhex(content)
    if tag == "complex":
        real, imaginary = content
        return complex(real, imaginary)
    parts = [_untag(element) for element in content]
    if tag == "tuple":
        return tuple(parts)
    if tag == "dict":
        _check_hashes([key for key, _ in parts])
        return dict(parts)
    _check_hashes(parts)
    return {"set": set, "frozenset": frozenset}[tag](parts)


def _check_hashes(keys: list) -> None:
    if len(keys) > MAX_SAME_HASH and max(collections.Counter(map(hash, keys)).values()) > MAX_SAME_HASH:
        raise ValueError("too many keys with the same hash")
