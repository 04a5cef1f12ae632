"""Prompts, responses, programs and verdicts of one step: veRL's dump of it, joined with the reward log."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitoring import reward_log
from monitoring.reward_log import NUMBERS, TRAIN, VALIDATION, number
from monitoring.run import SHARES, Run, RunError, dumps
from monitoring.tail import new_records
from verifier import calls, extraction, ground_truth
from verifier.comparison import Exactly
from verifier.ground_truth import GroundTruth, GroundTruthError

Log = dict[tuple[str, int], dict[str, list[dict[str, Any]]]]  # (split, step) -> what identifies a response -> its lines

FOLDERS = {TRAIN: "rollouts", VALIDATION: "validation"}


@dataclass(frozen=True)
class Failure:
    """The first test that did not pass. `actual` is None until rerun.py fills it in: no log keeps what a program printed."""

    index: int
    verdict: str
    detail: str
    stdin: str | None
    expected: str | None
    actual: str | None = None


@dataclass(frozen=True)
class Sample:
    """One response. Everything in it but the numbers is text that a model or a data set wrote."""

    split: str
    step: int
    prompt: str
    response: str
    program: str
    block: str
    truth: object  # the row's ground truth as veRL dumped it
    score: float
    numbers: dict[str, float]  # pass_rate, format, acc, where they are known
    verdicts: dict[str, float]  # how many tests ended so; shares where only those are known
    where: str  # data source and index of the row
    failure: Failure | None


def steps(run: Run) -> list[int]:
    """The steps whose samples veRL has dumped, of training or validation."""
    return sorted({step for folder in FOLDERS.values() for step in dumps(run.folder / folder)})


def milestones(run: Run, count: int) -> list[int]:
    """At most `count` steps from the first to the last: those with validation samples, where there are any, and the last."""
    known, validated = steps(run), sorted(dumps(run.folder / FOLDERS[VALIDATION]))
    if len(known) <= count:
        return known
    last = [known[-1]] if validated and validated[-1] != known[-1] else []
    pool = validated or known
    size = min(count - len(last), len(pool))
    return [*(pool[i * (len(pool) - 1) // max(1, size - 1)] for i in range(size)), *last]


def read_steps(run: Run, chosen: Sequence[int]) -> dict[int, list[Sample]]:
    """The samples of these steps: training's, then validation's, each as `ordered` has them.

    Raises RunError where the run has no samples of such a step.
    """
    known = steps(run)
    if not known:
        raise RunError(f"{run.path} has no samples: veRL writes them to rollouts/ and validation/ in the run directory.")
    for step in chosen:
        if step not in known:
            raise RunError(f"{run.path} has no samples of step {step}: there are {_listed(known)}.")
    log = _log_lines(run, set(chosen))
    return {step: [sample for split in FOLDERS for sample in ordered(_read(run, split, step, log))] for step in chosen}


def ordered(samples: list[Sample]) -> list[Sample]:
    """The worst, the best, the second worst, the second best and so on."""
    rising = sorted(samples, key=lambda sample: (sample.score, sample.numbers.get("format", 0.0)))
    return [rising[i // 2] if i % 2 == 0 else rising[-1 - i // 2] for i in range(len(rising))]


def some(samples: Sequence[Sample], count: int) -> list[Sample]:
    """The first `count` of each split."""
    return [each for split in FOLDERS for each in [sample for sample in samples if sample.split == split][:count]]


def _read(run: Run, split: str, step: int, log: Log) -> list[Sample]:
    path = dumps(run.folder / FOLDERS[split]).get(step)
    return [_sample(record, split, step, log) for record in new_records(path, {}, final=True)] if path else []


def _sample(record: Mapping[str, Any], split: str, step: int, log: Log) -> Sample:
    response = str(record.get("output", ""))
    programs = [extraction.extract(response, rule) for rule in extraction.RULES]
    digests = [_digest(response), *(_digest(found.code) for found in programs)]
    line = _line_of(record, digests, log.get((split, step), {}))
    extracted = programs[0]
    if line is None:
        source = record
        verdicts = {verdict: number(record.get(name), 0.0) for name, verdict in SHARES.items()}
        where, failure = "", None
    else:
        extracted = next((found for found in programs if _digest(found.code) == line.get("code_sha256")), extracted)
        source = line
        logged = line.get("verdicts")
        verdicts = {str(v): number(n, 0.0) for v, n in logged.items()} if isinstance(logged, Mapping) else {}
        where = f"{line.get('data_source')}, row {line.get('index')}"
        failure = _failure(line.get("first_failure"), record.get("gts"))
    known = {name: number(source.get(name)) for name in NUMBERS if name != "score"}
    return Sample(
        split=split,
        step=step,
        prompt=str(record.get("input", "")),
        response=response,
        program=extracted.code,
        block=extracted.block,
        truth=record.get("gts"),
        score=number(record.get("score"), 0.0),
        numbers={name: value for name, value in known.items() if not math.isnan(value)},
        verdicts={verdict: count for verdict, count in verdicts.items() if count > 0},
        where=where,
        failure=failure,
    )


def _log_lines(run: Run, chosen: set[int]) -> Log:
    """The reward log's lines of these steps, by what a dumped sample can be found with: uid, hash of response or program."""
    offset = reward_log.step_offset(run.log)
    found: Log = defaultdict(lambda: defaultdict(list))
    for path in reward_log.files(run.folder / "reward_log"):
        for line in new_records(path, {}, final=True):
            batch = reward_log.batch_of(line)
            step = batch.step + (offset if batch.split == TRAIN else 0) if batch else None
            if step in chosen:
                for key in ("uid", "response_sha256", "code_sha256"):
                    if line.get(key):
                        found[batch.split, step][str(line[key])].append(line)
    return found


def _line_of(
    record: Mapping[str, Any], digests: list[str], lines_by: Mapping[str, list[dict[str, Any]]]
) -> dict[str, Any] | None:
    """The log's line for a dumped sample. Of several with the same program the last with the same score and number of tests."""
    uid, score = str(record.get("uid", "")), number(record.get("score"), 0.0)
    for key in (uid, uid.rpartition("_")[0], *digests):
        lines = [line for line in lines_by.get(key, ()) if abs(number(line.get("score"), 0.0) - score) < 1e-6]
        if len(lines) > 1:
            tests = _test_count(record.get("gts"))
            lines = [line for line in lines if line.get("tests") == tests] or lines
        if lines:
            return max(lines, key=lambda line: number(line.get("time"), 0.0))
    return None


def _failure(first: object, truth: object) -> Failure | None:
    index = first.get("index") if isinstance(first, Mapping) else None
    if not isinstance(index, int) or index < 0:
        return None
    stdin, expected = _test(truth, index)
    return Failure(index, str(first.get("verdict", "")), str(first.get("detail", "")), stdin, expected)


def _test(truth: object, index: int) -> tuple[str | None, str | None]:
    """Input and expected output of a test, as text; a call's arguments and value as Python writes them."""
    try:
        parsed = ground_truth.parse(truth)
        test = parsed.tests[index]
    except (GroundTruthError, IndexError):
        return None, None
    return shown_input(parsed, index), shown(test.expected)


def shown_input(truth: GroundTruth, index: int) -> str:
    """What a test gives to the program: its standard input, or the call."""
    stdin = truth.tests[index].stdin
    if truth.fn_name is None:
        return stdin.decode(errors="replace")
    arguments = calls.decode_args(stdin)
    return f"{truth.fn_name}({', '.join(map(repr, arguments))})"


def shown(value: object) -> str:
    """An expected or returned value as text."""
    if isinstance(value, Exactly):
        value = value.value
    return value.decode(errors="replace") if isinstance(value, bytes) else repr(value)


def _test_count(truth: object) -> int | None:
    try:
        return len(ground_truth.parse(truth).tests)
    except GroundTruthError:
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _listed(found: list[int]) -> str:
    return ", ".join(map(str, found)) if len(found) <= 10 else f"{len(found)} others, from {found[0]} to {found[-1]}"
