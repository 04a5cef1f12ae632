"""Call-based tests: the arguments' way in, the result's way out (interface; the encoding follows)."""

from __future__ import annotations

import json

RESULT_FD = 3  # the driver writes the encoded return value here; standard output is the program's own


def encode_args(args: list) -> bytes:
    """Return the arguments as the driver's standard input."""
    return encode_value(list(args))


def encode_value(value: object) -> bytes:
    """Return a value as bytes."""
    return json.dumps(value).encode()


def decode_value(data: bytes) -> object:
    """Return the value that was encoded; never raises, never executes anything."""
    try:
        return json.loads(data)
    except ValueError:
        return object()


def driver(program: str, fn_name: str) -> str:
    """Return a stand-alone program that calls `fn_name` of `program` and writes the result to RESULT_FD."""
    return f"""import json, os, sys
space = {{"__name__": "solution"}}
exec(compile({program!r}, "solution.py", "exec"), space)
function = getattr(space["Solution"](), {fn_name!r}) if "Solution" in space else space[{fn_name!r}]
os.write({RESULT_FD}, json.dumps(function(*json.load(sys.stdin))).encode())
"""
