"""What a killed run goes on from. The checkpoints here have veRL's layout; test_smoke_run.py kills a real run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import SINGLE

from training import preflight, resume

CPU = ("trainer.device=cpu", "actor_rollout_ref.rollout.name=hf")


@pytest.fixture(scope="session")
def compose(dry_run, tiny_model: Path) -> Callable[..., Any]:
    def run(run_dir: Path, *overrides: str, **settings: str) -> Any:
        settings = {"MODEL_PATH": str(tiny_model), "RUN_DIR": str(run_dir), **settings}
        return preflight.compose(dry_run(SINGLE, *CPU, *overrides, **settings))

    return run


def save(run_dir: Path, step: int, critic: bool = True, world: int = 1) -> Path:
    """A checkpoint of that step, as veRL writes it: shards, then data.pt, then the tracker."""
    folder = run_dir / "checkpoints" / f"global_step_{step}"
    for part in ("actor", "critic") if critic else ("actor",):
        (folder / part).mkdir(parents=True)
        for kind in ("model", "optim", "extra_state"):
            for rank in range(world):
                torch.save({"weight": torch.ones(5000)}, folder / part / f"{kind}_world_size_{world}_rank_{rank}.pt")
    torch.save({"order": 3}, folder / "data.pt")
    (run_dir / "checkpoints" / resume.TRACKER).write_text(str(step))
    return folder


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def find(compose, run_dir: Path, *overrides: str, **settings: str) -> resume.Resume:
    return resume.find(compose(run_dir, *overrides, **settings))


def test_nothing_yet(compose, tmp_path):
    assert find(compose, tmp_path) == resume.Resume(0)


def test_the_last_one(compose, tmp_path):
    for step in (2, 4, 10):
        save(tmp_path, step)
    assert find(compose, tmp_path) == resume.Resume(10)
    assert find(compose, tmp_path, RESUME_MODE="disable") == resume.Resume(0)


@pytest.mark.parametrize("part", ("actor/model", "actor/optim", "critic/model", "critic/extra_state"))
@pytest.mark.parametrize("how", (cut, Path.unlink), ids=("cut", "missing"))
def test_killed_while_a_shard_was_written(compose, tmp_path, part, how):
    """The tracker still names the step before, and nothing needs to be said."""
    save(tmp_path, 2)
    folder = save(tmp_path, 4)
    (tmp_path / "checkpoints" / resume.TRACKER).write_text("2")
    (folder / "data.pt").unlink()
    how(folder / f"{part}_world_size_1_rank_0.pt")
    assert find(compose, tmp_path) == resume.Resume(2)


@pytest.mark.parametrize("part", ("actor/model_world_size_1_rank_0.pt", "critic/optim_world_size_1_rank_0.pt", "data.pt"))
def test_a_file_that_the_disk_lost(compose, tmp_path, part):
    """After a loss of power: the tracker names a step that is not whole."""
    save(tmp_path, 2)
    folder = save(tmp_path, 4)
    cut(folder / part)
    found = find(compose, tmp_path)
    assert (found.step, found.fatal) == (2, False)
    assert f"global_step_4/{part} is cut short: the run goes on from step 2." in found.words
    resume.prepare(tmp_path, found)
    assert (tmp_path / "checkpoints" / resume.TRACKER).read_text() == "2"
    assert find(compose, tmp_path) == resume.Resume(2)


def test_killed_while_the_tracker_was_written(compose, tmp_path):
    """Opened for writing and not written: the newest whole step is the one that it was to name."""
    save(tmp_path, 2)
    save(tmp_path, 4)
    (tmp_path / "checkpoints" / resume.TRACKER).write_text("")
    found = find(compose, tmp_path)
    assert (found.step, found.fatal) == (4, False) and f"{resume.TRACKER} is cut short" in found.words
    resume.prepare(tmp_path, found)
    assert (tmp_path / "checkpoints" / resume.TRACKER).read_text() == "4"


def test_killed_before_the_first_tracker(compose, tmp_path):
    save(tmp_path, 2)
    (tmp_path / "checkpoints" / resume.TRACKER).unlink()
    found = find(compose, tmp_path)
    assert (found.step, found.fatal) == (
        2,
        False,
    ) and f"{resume.TRACKER} is missing: the run goes on from step 2." in found.words
    resume.prepare(tmp_path, found)
    assert (tmp_path / "checkpoints" / resume.TRACKER).read_text() == "2"


def test_killed_in_the_first_checkpoint(compose, tmp_path):
    """veRL starts at step 0 then; that is said."""
    folder = save(tmp_path, 2)
    (tmp_path / "checkpoints" / resume.TRACKER).unlink()
    (folder / "data.pt").unlink()
    found = find(compose, tmp_path)
    assert (found.step, found.fatal, found.mend) == (0, False, None) and "starts at step 0" in found.words


def test_no_whole_one_left(compose, tmp_path):
    cut(save(tmp_path, 4) / "data.pt")
    found = find(compose, tmp_path)
    assert found.fatal and f"delete {tmp_path / 'checkpoints'} to start at step 0" in found.words


def test_a_step_that_was_deleted(compose, tmp_path):
    """veRL itself would start at step 0 without a word."""
    save(tmp_path, 2)
    (tmp_path / "checkpoints" / resume.TRACKER).write_text("4")
    found = find(compose, tmp_path)
    assert found.step == 2 and "global_step_4 is missing" in found.words


def test_another_number_of_gpus(compose, tmp_path):
    save(tmp_path, 2, world=2)
    found = find(compose, tmp_path)
    assert found.fatal and "of a run on 2 GPUs and this one has 1" in found.words
    settings = {"NDEVICES_PER_NODE": "2"}
    assert find(compose, tmp_path, **settings) == resume.Resume(2)


def test_grpo_has_no_critic(compose, tmp_path):
    save(tmp_path, 2, critic=False)
    assert find(compose, tmp_path, ADV_ESTIMATOR="grpo", ROLLOUT_N="5") == resume.Resume(2)
    assert find(compose, tmp_path).fatal


def test_a_path_that_is_given(compose, tmp_path):
    good, bad = save(tmp_path, 2), save(tmp_path, 4)
    cut(bad / "data.pt")
    by_path = {"RESUME_MODE": "resume_path"}
    assert find(compose, tmp_path, f"trainer.resume_from_path={good}", **by_path) == resume.Resume(2)
    for path, words in (
        (bad, "data.pt is cut short"),
        ("null", "needs trainer.resume_from_path"),
        ("/nowhere/global_step_3", "is missing"),
    ):
        found = find(compose, tmp_path, f"trainer.resume_from_path={path}", **by_path)
        assert found.fatal and words in found.words


# The logs.


def write_lines(path: Path, *steps: Any, end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps({"step": step, "data": {"x": 1}}) for step in steps) + end)


def steps(path: Path) -> list[Any]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_later_steps_are_moved(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", 0, 1, 2, 3)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "da')  # the last line of a killed run
    write_lines(tmp_path / "reward_log" / "a.jsonl", 0, 1, None, 3, 3)
    write_lines(tmp_path / "reward_log" / "dropped" / "a.jsonl", 3)
    write_lines(tmp_path / "reward_log" / "b.jsonl", 1, 2)
    for step in (1, 2, 3):
        write_lines(tmp_path / "rollouts" / f"{step}.jsonl", step)
    assert resume.prepare(tmp_path, resume.Resume(2)) == 2 + 2 + 1
    assert steps(tmp_path / "metrics.jsonl") == [0, 1, 2]
    assert (tmp_path / "replaced" / "metrics.jsonl").read_text().splitlines()[1] == '{"step": 2, "da'
    assert steps(tmp_path / "reward_log" / "a.jsonl") == [0, 1, None]
    assert steps(tmp_path / "replaced" / "reward_log" / "a.jsonl") == [3, 3]
    assert steps(tmp_path / "replaced" / "reward_log" / "dropped" / "a.jsonl") == [3]
    assert sorted(path.name for path in (tmp_path / "rollouts").iterdir()) == ["1.jsonl", "2.jsonl"]
    assert steps(tmp_path / "replaced" / "rollouts" / "3.jsonl") == [3]
    assert resume.prepare(tmp_path, resume.Resume(2)) == 0


def test_a_start_that_reached_no_checkpoint_leaves_nothing(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", 0, 1)
    write_lines(tmp_path / "validation" / "0.jsonl", 0)
    assert resume.prepare(tmp_path, resume.Resume(0)) == 2
    assert steps(tmp_path / "metrics.jsonl") == []
    assert steps(tmp_path / "replaced" / "metrics.jsonl") == [0, 1]
    assert not (tmp_path / "validation" / "0.jsonl").exists()


def test_a_start_anew_leaves_no_checkpoint_to_go_on_from(compose, tmp_path):
    for number in range(2):
        folder = save(tmp_path, 4)
        for name in ("merged/global_step_4", "eval/base"):
            (tmp_path / name).mkdir(parents=True)
        resume.prepare(tmp_path, find(compose, tmp_path))
        assert folder.exists() and (tmp_path / "merged" / "global_step_4").exists()
        resume.prepare(tmp_path, find(compose, tmp_path, RESUME_MODE="disable"))
        assert find(compose, tmp_path) == resume.Resume(0)
        end = ".1" if number else ""
        for name in ("checkpoints", "merged", "eval"):
            assert not (tmp_path / name).exists()
            assert list((tmp_path / resume.REPLACED / f"{name}{end}").iterdir())


def test_replaced_twice(tmp_path):
    for _ in range(2):
        write_lines(tmp_path / "metrics.jsonl", 0, 1, 2, 3)
        resume.prepare(tmp_path, resume.Resume(2))
    assert steps(tmp_path / "replaced" / "metrics.jsonl") == [3, 3]


def test_a_new_run_folder(tmp_path):
    assert resume.prepare(tmp_path / "none", resume.Resume(0)) == 0
    assert not (tmp_path / "none").exists()
