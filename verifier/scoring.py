"""One response -> the verdicts on its tests -> the numbers that veRL gets."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from verifier import calls, canary, checkers, comparison, extraction, ground_truth, notice, options, remote, reward_log
from verifier.checkers import Checker, CheckerError
from verifier.comparison import Comparison
from verifier.executor import run_tests
from verifier.extraction import Extraction
from verifier.ground_truth import GroundTruth, GroundTruthError
from verifier.python_text import looks_like_python
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
LARGEST_SHARE = 4  # with max_tests, one in so many of the tests that run is kept for the largest
SOURCE_BLOCK = re.compile(r"```python[^\S\n]*\n(.*?)```", re.DOTALL)  # how the source recipe finds the program

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

    @property
    def accepted(self) -> float:
        return float(self.pass_rate == 1.0)

    def share(self, verdict: Verdict) -> float:
        return sum(result.verdict is verdict for result in self.results) / len(self.results)


def score(
    data_source: object, response: object, truth: object, extra_info: object, arguments: Mapping[str, object]
) -> dict[str, float]:
    """Judge one response and log it; see code_reward.compute_score for the meaning of the result.

    Raises ValueError for a wrong option and nothing else.
    """
    chosen = options.read(arguments)
    if broken := canary.failure(judge_program, chosen):
        judgement = Judgement("", 0, "none", (TestResult(Verdict.IE, ran=False, detail=broken),), (0,))
    else:
        judgement = judge_response(response, truth, chosen, extra_info)
    if judgement.results[0].verdict in (Verdict.DE, Verdict.IE):
        _report(judgement.results[0], data_source, extra_info, truth)
    numbers = {
        "score": reward(judgement, chosen),
        "pass_rate": judgement.pass_rate,
        "format": float(judgement.format),
        "acc": judgement.accepted,
        **{name: judgement.share(verdict) for name, verdict in SHARES.items()},
    }
    reward_log.write(judgement, numbers, response, data_source, extra_info)
    return numbers


def reward(judgement: Judgement, chosen: options.Options) -> float:
    """PPO's reward, 0 to 1: format_weight * format + compile_weight * compiled + the rest * what the tests say.

    One more test passed never lowers it, no way to fail earns more than a wrong answer, and what says nothing about the
    program (a data error, an internal error) earns nothing.
    """
    if judgement.results[0].verdict in (Verdict.DE, Verdict.IE):
        return 0.0
    tests = judgement.accepted if chosen.reward == "binary" else judgement.pass_rate
    for_format = chosen.format_weight * (judgement.format - tests)
    for_compiling = chosen.compile_weight * (_compiled(judgement) - tests)
    return tests + for_format + for_compiling  # the same sum, written so that nothing is lost to rounding at 1


def _compiled(judgement: Judgement) -> bool:
    """Whether the program compiles, and is one: comments compile as well, and so does a single word of prose."""
    if judgement.share(Verdict.CE):
        return False
    if judgement.pass_rate:
        return True
    if not judgement.format:
        return looks_like_python(judgement.code)
    return any(line.strip() and not line.lstrip().startswith("#") for line in judgement.code.split("\n"))


def judge_response(response: object, truth: object, chosen: options.Options, extra_info: object = None) -> Judgement:
    """Extract the program and run it on the tests. Never raises for what is in `response`, `truth` or `extra_info`."""
    started = time.monotonic()
    extracted = Extraction("", 0, "none")
    for _ in range(ATTEMPTS):
        try:
            extracted = _extract(_text(response), chosen.block)
            checker = checkers.of_row(extra_info) if chosen.row_checkers else Checker()
            indices, results = judge_program(extracted.code, ground_truth.parse(truth), chosen, checker)
        except GroundTruthError as error:
            indices, results = _only(Verdict.DE, str(error))
        except CheckerError as error:
            indices, results = _only(Verdict.IE, str(error))
            break  # it would fail again
        except Exception as error:  # a bug of ours must cost one response, not the run, and must be seen
            indices, results = _only(Verdict.IE, f"{type(error).__name__}: {error}")
        if results[0].verdict is not Verdict.IE:
            break
    seconds = time.monotonic() - started
    return Judgement(extracted.code, extracted.format, extracted.block, results, indices, seconds)


def judge_program(
    code: str, truth: GroundTruth, chosen: options.Options, checker: Checker | None = None
) -> tuple[tuple[int, ...], tuple[TestResult, ...]]:
    """Return which tests of `truth` were chosen and the result of each; one IE stands for all of them.

    Raises GroundTruthError for a checker that does not suit the tests, CheckerError where its program fails.
    """
    checker, call_based = checker or Checker(), truth.fn_name is not None
    if checker.mode and call_based:
        raise GroundTruthError(f"the row's checker {checker.mode} is for printed text, but its tests call a function")
    indices = select_tests([len(test.stdin) + _size(test.expected) for test in truth.tests], chosen.max_tests)
    if not code.strip():  # run as an empty program, it would pass a test that expects no output
        return indices, (TestResult(Verdict.CE, ran=False, detail="the response holds no program"),) * len(indices)
    limits, tests = chosen.limits, [truth.tests[index] for index in indices]
    sizes = [_size(test.expected) for test in tests]
    stdout_limits = [max(limits.stdout_bytes, limits.expected_factor * size) for size in sizes]
    room = checkers.room_for_outputs(limits, sizes)
    ended: dict[int, Execution] = {}
    words: dict[int, Comparison] = {}
    cases: dict[int, checkers.Case | None] = {}  # for the row's checker program, which runs after the last test has ended
    run = remote.runner(chosen.service) if chosen.service else run_tests
    executions = run(code, [test.stdin for test in tests], limits, fn_name=truth.fn_name, stdout_limits=stdout_limits)
    with contextlib.closing(executions):
        for index, test, execution in zip(indices, tests, executions, strict=True):
            if execution.verdict is Verdict.IE:
                return (index,), (_result(execution, None),)
            if execution.verdict is None and checker.program is None:
                words[index] = _compare(execution, test.expected, call_based, checker.mode or chosen.comparison)
            elif execution.verdict is None:
                output = execution.result if call_based else execution.stdout
                room -= len(output)
                if room < 0:
                    execution = replace(execution, verdict=Verdict.OLE, message="more output than the checker can be given")
                else:
                    cases[index] = checkers.case(test.stdin, test.expected, output, call_based)
            ended[index] = replace(execution, stdout=b"", result=None)
    if checker.program is not None:
        words.update(checkers.run(checker.program, cases, limits, chosen.service))
    return indices, tuple(_result(ended[index], words.get(index)) for index in indices)


def select_tests(sizes: Sequence[int], max_tests: int | None) -> tuple[int, ...]:
    """Return the indices of the tests to run, in order: always the same for the same problem.

    The first, the last and the largest (a quarter of them), and from the rest, sorted by size, the middle of each of as
    many equal strata as there is room for: a cap on "the first ten" would never see the large tests that programs fail.
    """
    if max_tests is None or len(sizes) <= max_tests:
        return tuple(range(len(sizes)))
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    kept = {0, len(sizes) - 1, *by_size[-max(1, max_tests // LARGEST_SHARE) :]}
    rest = [index for index in by_size if index not in kept]
    room = max_tests - len(kept)
    kept.update(rest[(2 * stratum + 1) * len(rest) // (2 * room)] for stratum in range(room))
    return tuple(sorted(kept))


def _extract(text: str, rule: str) -> Extraction:
    if rule != "source":
        return extraction.extract(text, rule)
    block = SOURCE_BLOCK.search(text)
    return Extraction(block[1], 1, "first by pattern") if block else Extraction(text, 0, "whole text")


def _only(verdict: Verdict, detail: str) -> tuple[tuple[int, ...], tuple[TestResult, ...]]:
    return (0,), (TestResult(verdict, ran=False, detail=detail),)


def _compare(execution: Execution, expected: object, call_based: bool, mode: str) -> Comparison:
    if call_based:
        return comparison.compare_value(calls.decode_value(execution.result), expected)
    return comparison.compare_output(execution.stdout, expected, mode)


def _result(execution: Execution, word: Comparison | None) -> TestResult:
    """The verdict on one test; `word` says how the output compares, where the program ended as it should."""
    if execution.verdict is None:
        verdict, rule, detail = Verdict.AC if word.ok else Verdict.WA, word.rule, word.detail
    else:
        last_line = execution.stderr_tail.rstrip().rpartition("\n")[2]
        verdict, rule = execution.verdict, ""
        detail = execution.message or last_line or f"exit code {execution.exit_code}"
    return TestResult(
        verdict,
        execution.cpu_seconds,
        execution.wall_seconds,
        execution.ran,
        rule,
        detail,
        queue_seconds=execution.queue_seconds,
    )


def _size(expected: object) -> int:
    return len(expected) if isinstance(expected, bytes) else 0  # call-based: a value, and always small


def _text(response: object) -> str:
    if response is None:
        return ""
    return bytes(response).decode(errors="replace") if isinstance(response, bytes | bytearray | memoryview) else str(response)


def _shown(value: object, show: Callable[[object], str]) -> str:
    """Its text, or its type where it has none: an integer too long, lists nested too deeply."""
    try:
        return show(value)
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"


def _report(result: TestResult, data_source: object, extra_info: object, truth: object) -> None:
    """Say on stderr that a response got 0 for no fault of its own: of a row's tests once, of an internal error each time."""
    index = extra_info.get("index") if isinstance(extra_info, Mapping) else None
    digest = sha256(_shown(truth, repr).encode(errors="replace")).hexdigest()[:16]
    row = f"{_shown(data_source, str)}, index {_shown(index, str)}, ground truth {digest}"
    if result.verdict is Verdict.IE:
        what = "INTERNAL ERROR, so the score 0 of this response says nothing about its program"
    elif row not in _reported_rows:
        _reported_rows.add(row)
        what = "DATA ERROR, every response to this row gets 0"
    else:
        return
    notice.say(f"code_reward: {what}: {result.detail} ({row})")
