"""reward_model.ground_truth -> a list of tests (interface; the other layouts follow)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from verifier import calls


class GroundTruthError(ValueError):
    """The row has no usable tests; the message is one sentence that says why."""


@dataclass(frozen=True)
class Test:
    """One test. Standard input tests: `expected` is bytes. Call-based: `stdin` is calls.encode_args(arguments)."""

    __test__ = False

    stdin: bytes
    expected: object


@dataclass(frozen=True)
class GroundTruth:
    """`fn_name` is None for programs that read standard input."""

    fn_name: str | None
    tests: tuple[Test, ...]


def parse(ground_truth: object) -> GroundTruth:
    """Return the tests of one row. Raises GroundTruthError."""
    row = json.loads(ground_truth) if isinstance(ground_truth, (str, bytes)) else ground_truth
    if not isinstance(row, dict) or not row.get("inputs") or len(row["inputs"]) != len(row.get("outputs", [])):
        raise GroundTruthError("the ground truth holds no tests, or not as many inputs as outputs")
    pairs = zip(row["inputs"], row["outputs"], strict=True)
    fn_name = row.get("fn_name")
    if fn_name:
        tests = [Test(calls.encode_args([json.loads(x) for x in i.splitlines()]), json.loads(o)) for i, o in pairs]
    else:
        tests = [Test(i.encode(), o.encode()) for i, o in pairs]
    return GroundTruth(fn_name or None, tuple(tests))
