"""One response -> the verdicts on its tests -> the numbers that veRL gets."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from verifier import calls, comparison, extraction, ground_truth, options, reward_log
from verifier.executor import run_tests
from verifier.verdict import Execution, TestResult, Verdict

ATTEMPTS = 2  # at judging a response when the verifier itself fails; each has the executor's own further tries
SHARES = {  # veRL takes the key set from the first sample of a batch, so every one is always there
    "compile_error": Verdict.CE,
    "runtime_error": Verdict.RE,
    "wrong_answer": Verdict.WA,
    "time_limit": Verdict.TLE,
    "memory_limit": Verdict.MLE,
    "output_limit": Verdict.OLE,
    "data_error": Verdict.DE,
    "internal_error": Verdict.IE,
}

_reported_rows: set[str] = set()


@dataclass(frozen=True)
class Judgement:
    """What became of one response. A data error or an internal error stands as the only result."""

    code: str
    format: int
    block: str
    results: tuple[TestResult, ...]
    indices: tuple[int, ...]  # which test of the ground truth each result belongs to
    wall_seconds: float = 0.0

    @property
    def pass_rate(self) -> float:
        return self.share(Verdict.AC)

    def share(self, verdict: Verdict) -> float:
        return sum(result.verdict is verdict for result in self.results) / len(self.results)


def score(
    data_source: object, response: object, truth: object, extra_info: object, arguments: Mapping[str, object]
) -> dict[str, float]:
    """Judge one response and log it; see code_reward.compute_score for the meaning of the result.

    Raises ValueError for a wrong option and nothing else.
    """
    chosen = options.read(arguments)
    judgement = judge_response(response, truth, chosen)
    if judgement.results[0].verdict is Verdict.DE:
        _report_row(data_source, extra_info, truth, judgement.results[0].detail)
    if judgement.results[0].verdict is Verdict.IE:
        print(
            "code_reward: INTERNAL ERROR, so the score 0 of this response says nothing about its program: "
            f"{judgement.results[0].detail}",
            file=sys.stderr,
            flush=True,
        )
    accepted = float(all(result.verdict is Verdict.AC for result in judgement.results))
    numbers = {
        "score": accepted if chosen.reward == "binary" else judgement.pass_rate,
        "pass_rate": judgement.pass_rate,
        "format": float(judgement.format),
        "acc": accepted,
        **{name: judgement.share(verdict) for name, verdict in SHARES.items()},
    }
    reward_log.write(judgement, numbers, data_source, extra_info)
    return numbers


def judge_response(response: object, truth: object, chosen: options.Options) -> Judgement:
    """Extract the program and run it on the tests. Never raises for what is in `response` or `truth`."""
    started = time.monotonic()
    extracted = extraction.Extraction("", 0, "none")
    for _ in range(ATTEMPTS):
        try:
            extracted = extraction.extract(_text(response), chosen.block)
            indices, results = judge_program(extracted.code, ground_truth.parse(truth), chosen)
        except ground_truth.GroundTruthError as error:
            indices, results = (0,), (TestResult(Verdict.DE, ran=False, detail=str(error)),)
        except Exception as error:  # a bug of ours must cost one response, not the run, and must be seen
            message = f"{type(error).__name__}: {error}"
            indices, results = (0,), (TestResult(Verdict.IE, ran=False, detail=message),)
        if results[0].verdict is not Verdict.IE:
            break
    seconds = time.monotonic() - started
    return Judgement(extracted.code, extracted.format, extracted.block, results, indices, seconds)


def judge_program(
    code: str, truth: ground_truth.GroundTruth, chosen: options.Options
) -> tuple[tuple[int, ...], tuple[TestResult, ...]]:
    """Return which tests of `truth` were chosen and the result of each; one IE stands for all of them."""
    sizes = [len(test.stdin) + _size(test.expected) for test in truth.tests]
    indices = select_tests(sizes, chosen.max_tests)
    tests = [truth.tests[index] for index in indices]
    if not code.strip():  # run as an empty program, it would pass a test that expects no output
        return indices, (TestResult(Verdict.CE, ran=False, detail="the response holds no program"),) * len(indices)
    limits = chosen.limits
    stdout_limits = [max(limits.stdout_bytes, limits.expected_factor * _size(test.expected)) for test in tests]
    results = []
    executions = run_tests(code, [test.stdin for test in tests], limits, fn_name=truth.fn_name, stdout_limits=stdout_limits)
    with contextlib.closing(executions):
        for index, test, execution in zip(indices, tests, executions, strict=True):
            result = _result(execution, test.expected, truth.fn_name is not None, chosen.comparison)
            if result.verdict is Verdict.IE:
                return (index,), (result,)
            results.append(result)
    return indices, tuple(results)


def select_tests(sizes: Sequence[int], max_tests: int | None) -> tuple[int, ...]:
    """Return the indices of the tests to run, in order: always the same for the same problem.

    The first, the last and the largest, and from the rest, sorted by size, the middle of each of as many equal strata
    as there is room for: a cap on "the first ten" would never see the large tests that programs fail.
    """
    if max_tests is None or len(sizes) <= max_tests:
        return tuple(range(len(sizes)))
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    kept = {0, len(sizes) - 1, by_size[-1]}
    rest = [index for index in by_size if index not in kept]
    room = max_tests - len(kept)
    kept.update(rest[(2 * stratum + 1) * len(rest) // (2 * room)] for stratum in range(room))
    return tuple(sorted(kept))


def _result(execution: Execution, expected: object, call_based: bool, mode: str) -> TestResult:
    verdict, rule = execution.verdict, ""
    if verdict is None:
        if call_based:
            compared = comparison.compare_value(calls.decode_value(execution.result), expected)
        else:
            compared = comparison.compare_output(execution.stdout, expected, mode)
        verdict = Verdict.AC if compared.ok else Verdict.WA
        rule, detail = compared.rule, compared.detail
    else:
        last_line = execution.stderr_tail.rstrip().rpartition("\n")[2]
        detail = execution.message or last_line or f"exit code {execution.exit_code}"
    return TestResult(verdict, execution.cpu_seconds, execution.wall_seconds, execution.ran, rule, detail)


def _size(expected: object) -> int:
    return len(expected) if isinstance(expected, bytes) else 0  # call-based: a value, and always small


def _text(response: object) -> str:
    if response is None:
        return ""
    return response.decode(errors="replace") if isinstance(response, bytes | bytearray) else str(response)


def _report_row(data_source: object, extra_info: object, truth: object, message: str) -> None:
    """Say once for each row that its ground truth cannot be used."""
    index = extra_info.get("index") if isinstance(extra_info, Mapping) else None
    row = f"{data_source}, index {index}, ground truth {sha256(repr(truth).encode(errors='replace')).hexdigest()[:16]}"
    if row not in _reported_rows:
        _reported_rows.add(row)
        print(f"code_reward: DATA ERROR, every response to this row gets 0: {message} ({row})", file=sys.stderr)
