"""A run directory, or a metrics file alone -> what there is to see of the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from monitoring import metrics, reward_log
from monitoring.metrics import History
from monitoring.reward_log import TRAIN, Batch, Judged, RewardLog
from monitoring.tail import Offsets, new_records
from monitoring.text import one_line

# The reward's own numbers in veRL's validation metrics and dumps, and the verdict that each is the share of.
SHARES = {
    "pass_rate": "AC",
    "wrong_answer": "WA",
    "runtime_error": "RE",
    "compile_error": "CE",
    "time_limit": "TLE",
    "memory_limit": "MLE",
    "output_limit": "OLE",
    "data_error": "DE",
    "internal_error": "IE",
}


class RunError(ValueError):
    """The run cannot be read; the message is one sentence that says why and what to do."""


@dataclass
class Run:
    """What was read of a run so far. `read` brings it up to date."""

    path: Path
    metrics: History = field(default_factory=dict)
    judged: dict[Batch, Judged] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=dict)
    log: RewardLog = field(default_factory=RewardLog)
    rollouts: dict[Batch, Judged] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl" if self.path.is_dir() else self.path

    @property
    def last_step(self) -> int:
        return max(self.metrics, default=0)


def open_run(path: Path) -> Run:
    """The run at `path`: a folder with metrics.jsonl, tensorboard/ or reward_log/, or a metrics file alone. Reads nothing yet.

    Raises RunError where there is no such path.
    """
    if not path.exists():
        raise RunError(f"{path} does not exist: name a run directory (runs/EXPERIMENT_NAME) or its metrics.jsonl.")
    if path.name == "metrics.jsonl" and path.is_file():
        path = path.parent
    return Run(path)


def names(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: the end of its path, as long as it must be to tell the runs apart."""
    paths = [run.path.resolve().with_suffix("") if run.path.is_file() else run.path.resolve() for run in runs]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        short = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(short)) == len(set(paths)):
            break
    return [one_line(name) for name in short]


def read(run: Run, final: bool = True) -> Run:
    """Read what is new. `final`: a last line without a newline counts too, if it is whole, and there must be something.

    Raises RunError where nothing was logged, or for a metrics file in which no line is one of veRL's.
    """
    if _size(run.metrics_file):
        for record in new_records(run.metrics_file, run.offsets, final):
            metrics.add(run.metrics, record.get("step"), record.get("data"))
        if final and not run.metrics:
            raise RunError(
                f'{run.metrics_file} holds no line of veRL\'s file logger ({{"step": ..., "data": {{...}}}}): '
                "name the metrics.jsonl of a run."
            )
    elif folder := event_folder(run.folder):
        run.metrics = metrics.read_event_files(folder)
    if run.path.is_dir():
        reward_log.read_new(run.log, run.folder / "reward_log", final)
        run.judged = reward_log.judged(run.log)
        if not any(batch.split == TRAIN for batch in run.judged):
            _read_rollouts(run)
            run.judged.update(run.rollouts)
    if final and not run.metrics and not run.judged:
        raise RunError(_nothing(run.path))
    return run


def _nothing(path: Path) -> str:
    if path.is_file():
        return f"{path} is empty: nothing is logged yet."
    if inside := sorted(x.parent.name for x in path.glob("*/metrics.jsonl")):
        return f"{path} is no run but has some in it: name one or several of {', '.join(inside)}, with the path."
    return f"{path} has no metrics.jsonl, TensorBoard files or reward_log/ with a step: nothing is logged yet."


def logged_bytes(run: Run) -> int:
    """How much veRL has logged of the run: more of it means further steps."""
    folder = event_folder(run.folder)
    return _size(run.metrics_file) or sum(_size(path) for path in (folder.iterdir() if folder else ()))


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def event_folder(folder: Path) -> Path | None:
    """Where the run's TensorBoard event files are, if it has any."""
    candidates = (folder / "tensorboard", folder) if folder.is_dir() else ()
    return next((each for each in candidates if any(each.glob("events.out.tfevents.*"))), None)


def dumps(folder: Path) -> dict[int, Path]:
    """{step: file} of a folder of veRL's dumped generations."""
    paths = folder.glob("*.jsonl") if folder.is_dir() else ()
    return {int(path.stem): path for path in sorted(paths) if re.fullmatch(r"\d+", path.stem)}


def _read_rollouts(run: Run) -> None:
    """The training samples as veRL dumped them, for runs whose reward log has no steps (veRL before 0.9) or is off."""
    for step, path in dumps(run.folder / "rollouts").items():
        batch = Batch(TRAIN, step, "")
        if batch in run.rollouts or step > run.last_step:
            continue
        judged = run.rollouts[batch] = Judged()
        for record in new_records(path, {}, final=True):
            verdicts = {verdict: record[name] for name, verdict in SHARES.items() if name in record}
            judged.add({**record, "index": hash(str(record.get("input"))), "verdicts": verdicts})
