"""What a program prints on the first test that it did not pass. No log keeps that, so it is run once more, confined as ever."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from monitoring.samples import Sample, shown
from verifier import calls, ground_truth
from verifier.executor import run_tests
from verifier.verdict import Limits, Verdict

WITH_OUTPUT = (Verdict.WA.value, Verdict.RE.value, Verdict.OLE.value)  # of the others nothing would be seen, after a long wait
LIMITS = Limits(stdout_bytes=1 << 20)


def with_actual(samples: Iterable[Sample]) -> list[Sample]:
    """The samples, with the actual output or returned value in each failure that has one.

    Raises isolation.IsolationError on a machine where programs cannot be confined.
    """
    return [_with_actual(sample) for sample in samples]


def _with_actual(sample: Sample) -> Sample:
    failure = sample.failure
    if failure is None or failure.stdin is None or failure.verdict not in WITH_OUTPUT:
        return sample
    truth = ground_truth.parse(sample.truth)
    tests = run_tests(sample.program, [truth.tests[failure.index].stdin], LIMITS, fn_name=truth.fn_name)
    execution = next(tests)
    tests.close()
    if truth.fn_name is None or execution.result is None:
        actual = execution.stdout.decode(errors="replace")
        said = "" if execution.verdict is None else f"[{execution.message or execution.stderr_tail or execution.verdict.value}]"
        actual = "\n".join(filter(None, [actual.removesuffix("\n"), said.strip()]))
    else:
        actual = shown(calls.decode_value(execution.result))
    return replace(sample, failure=replace(failure, actual=actual))
