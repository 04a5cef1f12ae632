"""Runs a program on its tests in order, lazily, within the time that one response may cost.

Owns what is above a single process (process.py): the slots that bound how many tests run at once, further tries where
the machine refuses a process, and the rules that keep a program that never ends from costing every test's full limit.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from verifier import cores
from verifier.process import CannotRun, run_once
from verifier.verdict import Execution, Limits, Verdict

START_PAUSES = (0.1, 0.5, 2.0)  # seconds before each further try to start a process

_slots = threading.BoundedSemaphore(cores.concurrency())


def _fresh_slots() -> None:
    """A forked child has none of the threads that hold slots, so they would never be given back there."""
    global _slots
    _slots = threading.BoundedSemaphore(cores.concurrency())


os.register_at_fork(after_in_child=_fresh_slots)


def run_tests(
    program: str,
    inputs: Sequence[bytes],
    limits: Limits = Limits(),  # noqa: B008 - frozen
    *,
    fn_name: str | None = None,
    stdout_limits: Sequence[int] | None = None,
) -> Iterator[Execution]:
    """Run `program` on each input, in order, when the iterator is asked for it; close the iterator to stop.

    With `fn_name` the program defines that function, an input is its encoded arguments and `Execution.result` what came
    back. `stdout_limits` are bytes, one for each input (default: limits.stdout_bytes for all). Never raises for what a
    program does; a machine on which no process can be started gives the verdict IE.
    """
    if stdout_limits is None:
        stdout_limits = [limits.stdout_bytes] * len(inputs)
    if len(stdout_limits) != len(inputs):
        raise ValueError(f"{len(stdout_limits)} stdout limits for {len(inputs)} inputs")
    return _run_in_order(program, inputs, limits, fn_name, stdout_limits)


def _run_in_order(
    program: str, inputs: Sequence[bytes], limits: Limits, fn_name: str | None, stdout_limits: Sequence[int]
) -> Iterator[Execution]:
    # The ratio is kept, so that a program that sleeps is cut short as well.
    short_wall = limits.wall_seconds * limits.short_cpu_seconds / limits.cpu_seconds
    short = replace(
        limits,
        cpu_seconds=min(limits.cpu_seconds, limits.short_cpu_seconds),
        wall_seconds=min(limits.wall_seconds, short_wall),
    )
    timeouts = 0
    refused: Execution | None = None
    for stdin, stdout_limit in zip(inputs, stdout_limits, strict=True):
        if refused is not None:
            yield refused
        elif timeouts >= limits.max_timeouts:
            yield Execution(Verdict.TLE, ran=False, message=f"not run: {timeouts} tests before it ran out of time")
        else:
            budget = limits if timeouts < limits.full_limit_timeouts else short
            execution = _run_patiently(program, stdin, budget, fn_name, stdout_limit)
            timeouts += execution.verdict is Verdict.TLE
            if execution.verdict in (Verdict.CE, Verdict.IE):
                refused = replace(execution, ran=False)
            yield execution


def _run_patiently(program: str, stdin: bytes, limits: Limits, fn_name: str | None, stdout_limit: int) -> Execution:
    """One test; what keeps a process from starting (no memory, no descriptors, a full disk) often passes by itself."""
    for pause in (*START_PAUSES, None):
        try:
            with _slots:
                return run_once(program, stdin, limits, fn_name, stdout_limit)
        except CannotRun as error:
            message = str(error)
        except (OSError, MemoryError) as error:
            message = f"{type(error).__name__}: {error}"
        if pause is not None:
            time.sleep(pause)
    return Execution(Verdict.IE, ran=False, message=message)
