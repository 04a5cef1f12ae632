"""What a run that was killed goes on from, and what it takes back.

veRL writes a checkpoint's shards, then data.pt (the order of the data), then latest_checkpointed_iteration.txt, each in place.
At a start it trusts the number in that file and loads what it finds, or ends in a traceback minutes later. So this looks
first: the last whole checkpoint is what the run goes on from. What the killed run had logged of later steps is moved to
RUN_DIR/replaced, since those steps are done again; where a run starts anew, so are the old one's checkpoints and what was made
of them, or the next start would go on from them.

veRL validates and logs a step only after its checkpoint. A run killed in between goes on from it, and metrics.jsonl then has
no more of that step than what the next start's validation says; the reward log has its responses.

A file counts as whole when its end is there: torch writes zip archives, whose directory comes last. Shards on other nodes
are not looked at.
"""

from __future__ import annotations

import itertools
import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRACKER = "latest_checkpointed_iteration.txt"
FILES = {"model": "model", "optimizer": "optim", "extra": "extra_state"}  # veRL's contents -> how their files begin
REPLACED = "replaced"
MADE = ("checkpoints", "merged", "eval")  # folders of RUN_DIR that hold an old run's model, or what was made of it


@dataclass(frozen=True)
class Resume:
    """The step that a run goes on from, 0 for the start; `words`: one sentence where that is not the last one written."""

    step: int
    words: str = ""
    fatal: bool = False
    mend: Path | None = None  # the tracker file that must be written anew before veRL reads it


def find(config: Any) -> Resume:
    """What `config`, a composed configuration of veRL's, goes on from. Changes nothing."""
    trainer = config.trainer
    if trainer.resume_mode == "disable":
        return Resume(0)
    if trainer.resume_mode == "resume_path":
        return _given(Path(trainer.resume_from_path or "").absolute(), config)
    folder = Path(trainer.default_local_dir).absolute()
    tracker = folder / TRACKER
    named = _number(tracker)
    wrong = {step: problem(folder / f"global_step_{step}", config) for step in _steps(folder)}
    if named in wrong and not wrong[named]:
        return Resume(named)
    if not wrong and not tracker.exists():
        return Resume(0)
    if named is None:
        first = f"{tracker} is {'cut short' if tracker.exists() else 'missing'}"
    else:
        first = wrong.get(named, f"{folder}/global_step_{named} is missing")
    whole = [step for step, what in wrong.items() if not what]
    if whole:
        return Resume(max(whole), f"{first}: the run goes on from step {max(whole)}.", mend=tracker)
    if not tracker.exists():
        return Resume(0, f"{first}: no checkpoint is whole, so the run starts at step 0.")
    return Resume(0, f"{first}, and no other checkpoint there is whole: delete {folder} to start at step 0.", fatal=True)


def _given(folder: Path, config: Any) -> Resume:
    step = folder.name.removeprefix("global_step_")
    if not step.isdigit():
        return Resume(0, "RESUME_MODE=resume_path needs trainer.resume_from_path=.../global_step_N.", fatal=True)
    if wrong := problem(folder, config):
        return Resume(int(step), f"{wrong}: set trainer.resume_from_path to another checkpoint.", fatal=True)
    return Resume(int(step))


def problem(folder: Path, config: Any) -> str:
    """What is wrong with the checkpoint in `folder` for this run, "" if nothing is."""
    from verl.trainer.ppo.utils import need_critic

    trainer = config.trainer
    world = trainer.n_gpus_per_node * trainer.nnodes
    here = world if trainer.nnodes == 1 else trainer.n_gpus_per_node
    parts = {"actor": config.actor_rollout_ref.actor}
    if need_critic(config):
        parts["critic"] = config.critic
    for name, part in parts.items():
        if part.strategy not in ("fsdp", "fsdp2"):  # other engines have files of their own
            continue
        for content in part.checkpoint.load_contents:
            for rank in range(here) if content in FILES else ():
                path = folder / name / f"{FILES[content]}_world_size_{world}_rank_{rank}.pt"
                others = sorted((folder / name).glob(f"{FILES[content]}_world_size_*_rank_*.pt"))
                if not path.exists() and others:
                    was = others[0].name.split("_world_size_")[1].split("_")[0]
                    return f"{folder}/{name} is of a run on {was} GPUs and this one has {world}"
                if wrong := _broken(path):
                    return wrong
    return _broken(folder / "data.pt")


def prepare(run_dir: Path, resume: Resume) -> int:
    """Make RUN_DIR what it was at that step: the tracker, and no log of later steps. Returns how much was moved away."""
    if resume.mend is not None:
        _write_whole(resume.mend, str(resume.step).encode())
    moved = _move_lines(run_dir, run_dir / "metrics.jsonl", resume.step)
    for path in sorted((run_dir / "reward_log").rglob("*.jsonl")):
        moved += _move_lines(run_dir, path, resume.step)
    for path in sorted([*(run_dir / "rollouts").glob("*.jsonl"), *(run_dir / "validation").glob("*.jsonl")]):
        if path.stem.isdigit() and (int(path.stem) > resume.step or resume.step == 0):
            target = run_dir / REPLACED / path.relative_to(run_dir)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
    return moved + sum(_set_aside(run_dir, name) for name in MADE if resume.step == 0)


def _set_aside(run_dir: Path, name: str) -> bool:
    """Move a folder, if it is there, to RUN_DIR/replaced, beside what was moved there before."""
    if not (run_dir / name).exists():
        return False
    targets = (run_dir / REPLACED / (f"{name}.{number}" if number else name) for number in itertools.count())
    target = next(target for target in targets if not target.exists())
    target.parent.mkdir(parents=True, exist_ok=True)
    (run_dir / name).replace(target)
    return True


def _move_lines(run_dir: Path, path: Path, step: int) -> int:
    """Keep the lines of steps up to `step`. All go where no checkpoint was reached, and so do broken ones."""
    if not path.exists():
        return 0
    kept, moved = [], []
    for line in path.read_bytes().splitlines(keepends=True):
        (kept if step > 0 and _step_of(line) <= step else moved).append(line)
    if moved:
        target = run_dir / REPLACED / path.relative_to(run_dir)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as file:
            file.writelines(line if line.endswith(b"\n") else line + b"\n" for line in moved)
        _write_whole(path, b"".join(kept))
    return len(moved)


def _step_of(line: bytes) -> float:
    try:
        step = json.loads(line)["step"]
        return float(step or 0) if line.endswith(b"\n") else float("inf")
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _number(tracker: Path) -> int | None:
    try:
        return int(tracker.read_text())
    except (OSError, ValueError):
        return None


def _steps(folder: Path) -> Iterator[int]:
    for path in folder.glob("global_step_*"):
        if path.name.removeprefix("global_step_").isdigit():
            yield int(path.name.removeprefix("global_step_"))


def _broken(path: Path) -> str:
    if not path.exists():
        return f"{path} is missing"
    try:
        with zipfile.ZipFile(path):
            return ""
    except (zipfile.BadZipFile, OSError):
        return f"{path} is cut short"


def _write_whole(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
