"""What several tests share: the scripts' commands, veRL's releases, a tiny model, prepared data."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SINGLE, MULTI = ROOT / "run_qwen_coder_ppo_single_gpu.sh", ROOT / "run_qwen_coder_ppo_multi_gpu.sh"

# The tests import verifier, training, ... from the repository, and so must every process that they start. veRL's wheels
# install a package called "tests", so the repository comes first.
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = str(ROOT)
os.environ["HF_HUB_OFFLINE"] = "1"

# A shell that starts the tests in the background has them ignore Ctrl-C, nohup a hang-up, and so would every process of theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def canary_asked() -> None:
    """A process checks its verifier at the first response: here before any test, as some of them break it on purpose."""
    from verifier import canary, options, scoring

    canary.failure(scoring.judge_program, options.Options())


def script_environment(**settings: str) -> dict[str, str]:
    """This environment without what a caller's shell may have set for the run scripts, and with these settings."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "PYTHONPATH", "LANG", "TMPDIR", "HF_HUB_OFFLINE")}
    return {**kept, "PYTHON": sys.executable, **settings}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], tuple[list[str], Path, Path]]]:
    """small_disk(options) -> what to put before a command, where it then finds a tmpfs of these options, where a test does.

    The disk is in a mount namespace that a sleeping process holds.
    """
    holders = []

    def make(options: str) -> tuple[list[str], Path, Path]:
        disk = tmp_path / "disk"
        disk.mkdir()
        script = f'mount -t tmpfs -o {options} none "$1" && echo mounted && exec sleep infinity'
        holder = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(disk)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        holders.append(holder)
        if (said := holder.stdout.readline()) != "mounted\n":
            pytest.skip(f"this user cannot mount a disk here: {said.strip()}")
        enter = ["nsenter", f"--target={holder.pid}", "--user", "--preserve-credentials", "--mount", f"--wd={ROOT}", "--"]
        return enter, disk, Path(f"/proc/{holder.pid}/root{disk}")

    yield make
    for holder in holders:
        holder.kill()
        holder.wait()


@pytest.fixture(scope="session")
def dry_run() -> Callable[..., list[str]]:
    """dry_run(script, *user_overrides, **settings) -> the overrides that the script would give to main_ppo."""

    def run(script: Path, *user_overrides: str, **settings: str) -> list[str]:
        environment = script_environment(DRY_RUN="1", **settings)
        done = subprocess.run(["bash", script, *user_overrides], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        words = shlex.split(done.stdout.replace("\\\n", " "))
        return words[words.index("verl.trainer.main_ppo") + 1 :]

    return run


@pytest.fixture(scope="session")
def verl_release() -> Callable[[str], Path]:
    """verl_release("0.8.0") -> a folder with that release's packages, unpacked from its wheel. Kept in .cache."""

    def get(version: str) -> Path:
        cache = ROOT / ".cache" / "verl"
        folder = cache / version
        if not folder.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(cache), f"verl=={version}"]
            subprocess.run(command, check=True, timeout=300)
            unfinished = cache / f".{version}.unfinished"
            with zipfile.ZipFile(next(cache.glob(f"verl-{version}-*.whl"))) as wheel:
                wheel.extractall(unfinished)
            unfinished.rename(folder)
        return folder

    return get


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2 model with a ChatML tokenizer, as the smoke run uses it."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([sys.executable, "-m", "smoke.tiny_model", str(folder)], check=True, cwd=ROOT, timeout=300)
    return folder


@pytest.fixture(scope="session")
def prepared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded problem set, generated and prepared: train.parquet and validation.parquet."""
    raw, out = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("prepared")
    subprocess.run([sys.executable, "data/generate.py", "--out", str(raw)], check=True, cwd=ROOT, timeout=600)
    command = [sys.executable, "prepare_data.py", "--source", str(raw), "--out", str(out), "--max-prompt-tokens", "512"]
    subprocess.run(command, check=True, cwd=ROOT, timeout=600)
    return out
