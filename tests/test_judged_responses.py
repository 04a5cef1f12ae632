"""Whole responses with the verdict that is right: extraction, ground truth and comparison together, around a plain Python.

The executor has tests of its own; here a program runs as `python -I file`, and a call-based one through the driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from verifier import calls, comparison, extraction, ground_truth

CASES = json.loads((Path(__file__).parent / "cases" / "judged_responses.json").read_text())
# As the executor does it: the result pipe becomes the driver's descriptor, the driver the main program.
RUN_DRIVER = "import os, sys\nos.dup2(int(sys.argv[1]), 3)\nexec(compile(sys.argv[2], 'main.py', 'exec'))"


def run_stdin(program: str, stdin: bytes, folder: Path) -> tuple[int, bytes]:
    file = folder / "main.py"
    file.write_text(program)
    done = subprocess.run([sys.executable, "-I", file], input=stdin, capture_output=True, cwd=folder, timeout=60)
    return done.returncode, done.stdout


def run_call(program: str, fn_name: str, stdin: bytes) -> tuple[int, bytes]:
    read_fd, write_fd = os.pipe()
    command = [sys.executable, "-I", "-c", RUN_DRIVER, str(write_fd), calls.driver(program, fn_name)]
    done = subprocess.run(command, input=stdin, capture_output=True, pass_fds=[write_fd], timeout=60)
    os.close(write_fd)
    with open(read_fd, "rb") as result:
        return done.returncode, result.read()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_judged_as_it_should_be(case: dict, tmp_path: Path):
    extracted = extraction.extract(case["response"])
    assert extracted.format == case["format"], extracted
    try:
        truth = ground_truth.parse(json.dumps(case["ground_truth"]))
    except ground_truth.GroundTruthError:
        assert case["score"] is None
        return
    passed = 0
    for test in truth.tests:
        if not extracted.code.strip():
            continue
        if truth.fn_name:
            exit_code, result = run_call(extracted.code, truth.fn_name, test.stdin)
            compared = comparison.compare_value(calls.decode_value(result), test.expected)
        else:
            exit_code, stdout = run_stdin(extracted.code, test.stdin, tmp_path)
            compared = comparison.compare_output(stdout, test.expected)
        passed += compared.ok and exit_code == 0
    assert passed / len(truth.tests) == case["score"], (case["why"], extracted)
