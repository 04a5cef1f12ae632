"""Real runs of veRL, on the CPU, that are in vain: each must end within a minute of its first response, with one sentence.

They are started as the run script does after its pre-flight, which would have refused them.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import ROOT, SINGLE, script_environment

from training import disk, preflight, resume

HANG = 1200  # seconds; far more than it takes, on any machine
WITHIN = 60  # seconds
RAISING = """
from pathlib import Path

def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    if extra_info["index"] % 4 == 0:
        called = Path(__file__).with_name("called")
        called.exists() or called.touch()
        raise RuntimeError("no reward today")
    return {"score": 0.5}
"""


@pytest.fixture
def run(tiny_model: Path, prepared_data: Path, tmp_path: Path) -> Callable[..., tuple[int, str, float]]:
    """run(*overrides, before=(), **settings) -> exit code, last line, seconds of wall time when it ended."""

    def start(*overrides: str, before: Sequence[str] = (), **settings: str) -> tuple[int, str, float]:
        given = {
            "RUN_DIR": str(tmp_path / "run"),
            "MODEL_PATH": str(tiny_model),
            "TRAIN_FILE": str(prepared_data / "train.parquet"),
            "VAL_FILE": str(prepared_data / "validation.parquet"),
            **{"MAX_PROMPT_LENGTH": "384", "MAX_RESPONSE_LENGTH": "16"},
            **{"TRAIN_BATCH_SIZE": "16", "PPO_MINI_BATCH_SIZE": "8", "TOTAL_TRAINING_STEPS": "50"},
            **settings,
        }
        # The run script with the pre-flight taken out, so that what it would have found comes to pass.
        script = tmp_path / "without_preflight.sh"
        text = SINGLE.read_text().replace('"$PYTHON" -m training.preflight', ": no pre-flight")
        assert ": no pre-flight" in text
        script.write_text(text.replace('here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)', f"here={ROOT}"))
        command = f'source smoke/settings.sh && bash {script} "${{CPU_OVERRIDES[@]}}" data.val_max_samples=32 "$@"'
        log = tmp_path / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*before, "bash", "-c", command, "run", *overrides],
                cwd=ROOT,
                env=script_environment(**given),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                code = process.wait(HANG)
            finally:
                process.terminate()  # the watcher ends the rest
                process.wait(60)
        return code, log.read_text().strip().splitlines()[-1], time.time()

    return start


def test_a_broken_sandbox(run, tmp_path):
    code, words, ended = run(CODE_REWARD_ISOLATION="no such mode")
    assert code == 1
    assert words.startswith("watch: the run has ended: ") and "got no verdict" in words
    assert "check at start-up failed" in words and "CODE_REWARD_ISOLATION" in words
    files = (tmp_path / "run" / "reward_log").glob("*.jsonl")
    first = min(json.loads(line)["time"] for file in files for line in file.read_text().splitlines())
    assert ended - first < WITHIN


def test_a_reward_that_raises(run, tmp_path):
    """For every fourth row only: veRL itself would leave those out and go on."""
    reward = tmp_path / "reward.py"
    reward.write_text(RAISING)
    code, words, ended = run(REWARD_FILE=str(reward))
    assert code == 1
    assert words.startswith("watch: the run has ended: ") and "veRL dropped them (RuntimeError: no reward today)" in words
    assert ended - (tmp_path / "called").stat().st_ctime < WITHIN


def test_a_full_disk(run, small_disk, dry_run, tiny_model):
    """After the first checkpoint there is room for less than another one. The next start goes on from the first."""
    before, folder, seen = small_disk("size=120m")  # a checkpoint takes 36 MB
    checkpoints, full = seen / "run" / "checkpoints", []

    def free() -> int:
        return shutil.disk_usage(seen).free

    def fill() -> None:
        while seen.exists() and not (checkpoints / resume.TRACKER).exists():
            time.sleep(0.02)
        with contextlib.suppress(OSError), (seen / "ballast").open("wb", buffering=0) as ballast:
            size = sum(path.stat().st_size for path in checkpoints.rglob("*") if path.is_file())
            while free() > size - (1 << 20):
                ballast.write(bytes(1 << 16))
            while free() >= disk.FULL_BYTES:
                time.sleep(0.02)
            full.append(time.time())

    threading.Thread(target=fill, daemon=True).start()
    settings = {"RUN_DIR": str(folder / "run"), "SAVE_FREQ": "1", "TEST_FREQ": "-1", "VAL_BEFORE_TRAIN": "False"}
    code, words, ended = run(before=before, **settings)
    assert code == 1
    assert words.startswith("watch: the run has ended: ") and words.endswith(f": {disk.REMEDY}.")
    assert ended - full[0] < WITHIN

    where = ("trainer.device=cpu", f"trainer.default_local_dir={checkpoints}")
    config = preflight.compose(dry_run(SINGLE, *where, MODEL_PATH=str(tiny_model)))
    assert resume.find(config).step == 1
