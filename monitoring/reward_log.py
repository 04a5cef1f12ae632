"""The reward log -> sums for each split, step and data source: what veRL does not show of the training samples.

veRL's trainers count differently: the V1 trainer of 0.9 hands the reward the step before (the first batch is step 0),
older ones hand it none. A step here is the one of veRL's metrics.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from monitoring.tail import Offsets, new_records

RESTART_SECONDS = 15.0  # two starts of a run are further apart; processes of the same start are not, or their lines overlap
TRAIN, VALIDATION = "train", "validation"
NUMBERS = ("score", "pass_rate", "format", "acc")


class Batch(NamedTuple):
    split: str
    step: int
    data_source: str


@dataclass
class Judged:
    """Sums over the judged responses of a batch, and for how many responses each is known."""

    responses: int = 0
    numbers: Counter[str] = field(default_factory=Counter)  # score, pass_rate, format, acc
    known: Counter[str] = field(default_factory=Counter)
    shares: Counter[str] = field(default_factory=Counter)  # verdict -> the responses' shares of tests that ended so
    with_verdicts: int = 0
    tests_run: int = 0
    queue_seconds: float = 0.0
    queued: int = 0  # how many responses say for how long they waited
    began: float = math.inf  # seconds since the epoch: when the first response came,
    came: float = -math.inf  # the last one came,
    ended: float = -math.inf  # and the last verdict was there
    groups: dict[object, tuple[int, float, float]] = field(default_factory=dict)  # problem -> responses, lowest, highest score

    def add(self, record: Mapping[str, Any]) -> None:
        self.responses += 1
        for name in NUMBERS:
            value = number(record.get(name))
            if not math.isnan(value):
                self.numbers[name] += value
                self.known[name] += 1
        verdicts = record.get("verdicts")
        counts = {str(v): number(n, 0.0) for v, n in verdicts.items()} if isinstance(verdicts, Mapping) else {}
        total = sum(counts.values())
        if total > 0:
            self.with_verdicts += 1
            for verdict, count in counts.items():
                self.shares[verdict] += count / total
        self.tests_run += int(number(record.get("tests"), 0.0) - number(record.get("tests_not_run"), 0.0))
        queue = number(record.get("queue_seconds"))
        if not math.isnan(queue):
            self.queue_seconds += queue
            self.queued += 1
        ended = number(record.get("time"))
        if not math.isnan(ended):
            came = ended - number(record.get("wall_seconds"), 0.0)
            self.began, self.came, self.ended = min(self.began, came), max(self.came, came), max(self.ended, ended)
        if record.get("index") is not None:
            score = number(record.get("score"), 0.0)
            self._add_group((str(record.get("data_source")), str(record["index"])), (1, score, score))

    def merge(self, other: Judged) -> None:
        self.responses += other.responses
        self.numbers.update(other.numbers)
        self.known.update(other.known)
        self.shares.update(other.shares)
        self.with_verdicts += other.with_verdicts
        self.tests_run += other.tests_run
        self.queue_seconds += other.queue_seconds
        self.queued += other.queued
        self.began, self.came = min(self.began, other.began), max(self.came, other.came)
        self.ended = max(self.ended, other.ended)
        for index, group in other.groups.items():
            self._add_group(index, group)

    def _add_group(self, index: object, group: tuple[int, float, float]) -> None:
        responses, low, high = self.groups.get(index, (0, math.inf, -math.inf))
        self.groups[index] = (responses + group[0], min(low, group[1]), max(high, group[2]))


@dataclass
class Process:
    """One worker's part of the log: its sums, and the time from its first to its last line."""

    first: float = math.inf
    last: float = -math.inf
    batches: dict[Batch, Judged] = field(default_factory=dict)


@dataclass
class RewardLog:
    offsets: Offsets = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)


def files(folder: Path) -> list[Path]:
    """The log's files, the rotated ones too."""
    return sorted(path for path in folder.glob("*.jsonl*") if path.is_file()) if folder.is_dir() else []


def read_new(log: RewardLog, folder: Path, final: bool = False) -> None:
    """Take in what was written since the last call."""
    quiet = None if final else True  # None: only where there is a terminal
    for path in tqdm(files(folder), desc="reading the reward log", unit="file", leave=False, delay=2, disable=quiet):
        process = log.processes.setdefault(path.name.partition(".jsonl")[0], Process())
        for record in new_records(path, log.offsets, final):
            batch = batch_of(record)
            if batch is None:
                continue
            process.batches.setdefault(batch, Judged()).add(record)
            time = number(record.get("time"))
            process.first, process.last = min(process.first, time), max(process.last, time)


def batch_of(record: Mapping[str, Any]) -> Batch | None:
    """Where a line belongs, its step as the log has it; None without a step."""
    step = record.get("step")
    if isinstance(step, bool) or not isinstance(step, int):
        return None
    split = str(record.get("split") or "").lower()
    return Batch(VALIDATION if split.startswith(("val", "test")) else TRAIN, step, str(record.get("data_source")))


def step_offset(log: RewardLog) -> int:
    """What to add to a training line's step: 1 where the trainer counts from 0, as training's first step is 1."""
    return int(any(batch.split == TRAIN and batch.step == 0 for process in log.processes.values() for batch in process.batches))


def judged(log: RewardLog) -> dict[Batch, Judged]:
    """The sums of all processes, in veRL's steps. Of a step that a resumed run judged again, the last time counts."""
    offset = step_offset(log)
    result: dict[Batch, Judged] = {}
    for start in _starts(log):
        mine = {(batch.split, batch.step) for process in start for batch in process.batches}
        first = min(step for _, step in mine)
        result = {batch: sums for batch, sums in result.items() if batch.step <= first and batch[:2] not in mine}
        for process in start:
            for batch, sums in process.batches.items():
                result.setdefault(batch, Judged()).merge(sums)
    return {batch._replace(step=batch.step + offset) if batch.split == TRAIN else batch: sums for batch, sums in result.items()}


def _starts(log: RewardLog) -> Iterator[list[Process]]:
    """The processes of each start of the run, one start after the other: those of one overlap in time."""
    start: list[Process] = []
    for process in sorted((p for p in log.processes.values() if p.batches), key=lambda p: p.first):
        if start and process.first > max(p.last for p in start) + RESTART_SECONDS:
            yield start
            start = []
        start.append(process)
    if start:
        yield start


def number(value: object, otherwise: float = math.nan) -> float:
    """A finite number as it is, anything else as `otherwise`."""
    if isinstance(value, int | float) and abs(value) <= sys.float_info.max:  # JSON's integers may be larger
        return float(value)
    return otherwise
