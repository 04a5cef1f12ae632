"""EvalScope's benchmarks of code, with the model's programs run under this project's isolation.

By default EvalScope executes them in plain processes of the machine. `install` puts the verifier's executor in the place of
the two functions that do so, humaneval's `check_correctness` and live_code_bench's `codegen_check_correctness`; what is
asked, how the program is taken from the answer, what counts as right and what is reported stay EvalScope's. The functions
that would execute a program directly are replaced too, by one that refuses, so a way around them fails instead of running.

Covered: files, network, processes, memory, time, as verifier/isolation.py lists; the expected outputs of live_code_bench
never enter the program's process. Not covered: a humaneval program runs in one process with its tests, as that benchmark
is made, so it could look for them. gsm8k executes nothing (Math-Verify parses numbers, in a child process with a limit).

Where it differs from EvalScope's own runner, on purpose: the time limit is CPU time, a live_code_bench program runs as a
script and not as the body of a function (a `global` statement works), and a program that exits early has not passed.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import inspect
import json
import re
import secrets
import textwrap
from types import ModuleType
from typing import Any

from verifier import calls
from verifier.executor import run_tests
from verifier.isolation import IsolationError
from verifier.verdict import Execution, Limits, Verdict

WALL_FACTOR = 3  # a busy machine must not turn right into wrong; CPU time decides
MEMORY_BYTES = 4 << 30  # live_code_bench's own limit
FUTURE_IMPORT = re.compile(r"^from __future__ import .*$", re.MULTILINE)
CODES = {Verdict.TLE: -3, None: -2}  # live_code_bench's names for what went wrong; -4: a runtime error
MESSAGES = {-2: "Wrong Answer", -3: "Time Limit Exceeded", -4: "Runtime Error"}

# Failures of the verifier itself. EvalScope turns exceptions of a review into wrong answers, so they are kept here and
# the caller looks: a score with one of them in it must not be reported.
failures: list[str] = []


class ContainmentError(Exception):
    """One sentence: why model-written programs will not be run."""


def install() -> None:
    """Put the executor in EvalScope's place, for this process.

    Raises:
        ContainmentError: programs cannot be confined on this machine, or this EvalScope runs them in another way.
    """
    from evalscope.benchmarks.humaneval import utils as humaneval
    from evalscope.benchmarks.live_code_bench import evaluate_utils, testing_util

    replace(humaneval, "check_correctness", check_humaneval)
    replace(humaneval, "unsafe_execute", refuse_humaneval)
    replace(evaluate_utils, "codegen_check_correctness", check_live_code_bench)
    replace(testing_util, "run_test", refuse_live_code_bench)
    try:
        [probe] = run_tests("print(1)", [b""])
    except IsolationError as error:
        raise ContainmentError(str(error)) from error
    if probe.verdict is not None or probe.stdout != b"1\n":
        raise ContainmentError(f"The verifier cannot run a program here ({probe.message}): run python3 code_reward.py.")


def replace(module: ModuleType, name: str, ours: Any) -> None:
    theirs = getattr(module, name, None)
    if theirs is not ours:
        if theirs is None or list(inspect.signature(theirs).parameters) != list(inspect.signature(ours).parameters):
            version = importlib.metadata.version("evalscope")
            raise ContainmentError(
                f"EvalScope {version} runs programs in another way than this project knows ({module.__name__}.{name}): "
                "install the version in requirements-evalscope.txt."
            )
        setattr(module, name, ours)


def refuse_humaneval(problem: Any, completion: Any, timeout: Any, result: Any, started: Any = None) -> None:
    raise ContainmentError("EvalScope tried to run a humaneval program outside the isolation.")


def refuse_live_code_bench(sample: Any, test: Any = None, debug: Any = False, timeout: Any = 6) -> None:
    raise ContainmentError("EvalScope tried to run a live_code_bench program outside the isolation.")


def limits(timeout: float) -> Limits:
    """timeout: CPU seconds a test."""
    return Limits(cpu_seconds=timeout, wall_seconds=WALL_FACTOR * timeout, memory_bytes=MEMORY_BYTES)


def run(program: str, inputs: list[bytes], timeout: float, fn_name: str | None = None) -> Any:
    """The executor's iterator, with failures of the verifier kept in `failures`."""
    try:
        with contextlib.closing(run_tests(program, inputs, limits(timeout), fn_name=fn_name)) as executions:
            for execution in executions:
                if execution.verdict is Verdict.IE:
                    failures.append(execution.message)
                yield execution
    except IsolationError as error:
        failures.append(str(error))
        raise


def reason(execution: Execution) -> str:
    last_line = execution.stderr_tail.rstrip().rpartition("\n")[2]
    return execution.message or last_line or f"exit code {execution.exit_code}"


def check_humaneval(problem: dict, completion: str, timeout: float, completion_id: int | None = None) -> dict[str, Any]:
    """EvalScope's check_correctness: run prompt, completion and tests as one module; timeout in seconds."""
    text = f"{problem['prompt']}{completion}\n{problem['test']}\ncheck({problem['entry_point']})"
    token = secrets.token_hex(16)  # comes back only when the last line was reached: exit(0) does not pass
    [execution] = run(guarded(text), [calls.encode_args([token])], timeout, fn_name="judged")
    if execution.verdict is None:
        passed = calls.decode_value(execution.result) == token
        result = "passed" if passed else "failed: ended before its tests did"
    else:
        passed = False
        result = "timed out" if execution.verdict is Verdict.TLE else f"failed: {reason(execution)}"
    return {"task_id": problem["task_id"], "passed": passed, "result": result, "completion_id": completion_id}


def guarded(text: str) -> str:
    """A program whose function `judged(token)` executes `text` in a namespace of its own and returns the token."""
    head = "\n".join(imports(text))  # seen by the verifier, which loads them beforehand where no file can be opened
    preload = f"if False:\n{textwrap.indent(head, '    ')}\n" if head else ""
    return f"{preload}def judged(token):\n    exec(compile({text!r}, 'check.py', 'exec'), {{}})\n    return token\n"


def imports(text: str) -> list[str]:
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # running it will say what is wrong
    absolute = [x for x in nodes if isinstance(x, ast.ImportFrom) and x.module != "__future__" and not x.level]
    return [ast.unparse(x) for x in [*absolute, *(x for x in nodes if isinstance(x, ast.Import))]]


def check_live_code_bench(
    sample: dict[str, str], generation: str, timeout: float, debug: bool = True
) -> tuple[list[bool | int], dict[str, Any]]:
    """EvalScope's codegen_check_correctness: results up to the first test that failed, and what is known of that one.

    sample["input_output"] is JSON with inputs, outputs and fn_name (null: standard input). timeout: seconds a test.
    """
    tests = json.loads(sample["input_output"])
    fn_name = tests.get("fn_name")
    if not generation.strip():
        return [-4], {"error_code": -4, "error_message": MESSAGES[-4], "error": "the answer holds no program"}
    if fn_name is None:
        inputs = [text.encode() for text in tests["inputs"]]
    else:
        inputs = [calls.encode_args([json.loads(line) for line in text.split("\n")]) for text in tests["inputs"]]
    results: list[bool | int] = []
    seconds = 0.0
    executions = run(with_prelude(generation), inputs, timeout, fn_name)
    with contextlib.closing(executions):
        for execution, expected in zip(executions, tests["outputs"], strict=True):
            seconds += execution.cpu_seconds
            if execution.verdict is None and right(execution, expected, fn_name):
                results.append(True)
                continue
            code = CODES.get(execution.verdict, -4)
            detail = {"error_code": code, "error_message": MESSAGES[code]}
            return [*results, code], detail | ({"error": reason(execution)} if code != -2 else {})
    return results, {"execution time": seconds}


def right(execution: Execution, expected: str, fn_name: str | None) -> bool:
    from evalscope.benchmarks.live_code_bench.sandbox_evaluate_utils import _stdio_outputs_match

    if fn_name is None:
        return _stdio_outputs_match(execution.stdout.decode(errors="replace"), expected)
    value = calls.decode_value(execution.result)
    return (list(value) if isinstance(value, tuple) else value) == json.loads(expected)


def with_prelude(program: str) -> str:
    """The program after the imports that live_code_bench gives to all; __future__ imports stay first."""
    from evalscope.benchmarks.live_code_bench.testing_util import import_string

    future = "\n".join(FUTURE_IMPORT.findall(program))
    return f"{future}\n{import_string}\n{FUTURE_IMPORT.sub('', program)}"
