"""The learning run, cut down to one step: from nothing to a curve, through the scripts that users call."""

from __future__ import annotations

import subprocess
from pathlib import Path

from conftest import ROOT, script_environment

SMALL = {
    "ROWS": "32",
    "VALIDATION_ROWS": "6",
    "WARM_UP_STEPS": "2",
    "TOTAL_TRAINING_STEPS": "1",
    "TRAIN_BATCH_SIZE": "8",
    "PPO_MINI_BATCH_SIZE": "4",
    "VAL_BEFORE_TRAIN": "False",
    "LOGGER": "console,file",
}


def learn(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(ROOT / "smoke" / "learn.sh"), *arguments]
    return subprocess.run(command, env=script_environment(**settings), capture_output=True, text=True, timeout=1200)


def test_from_nothing_to_a_curve(tmp_path: Path):
    done = learn(str(tmp_path / "learn"), "data.val_max_samples=4", **SMALL)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "15 families of problems, 40% right, 50% fenced" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("[Step 1]")]
    assert "train | reward/score=" in lines[0] and "val   | reward/score=" in lines[-1]
    run = tmp_path / "learn" / "run"
    assert (run / "curves.png").stat().st_size and (run / "checkpoints" / "global_step_1").is_dir()


def test_it_says_how_it_is_called():
    done = learn()
    assert done.returncode == 2 and done.stderr.startswith("usage: bash smoke/learn.sh WORK")
