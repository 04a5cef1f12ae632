"""The Dockerfile, as far as it can be checked without a Docker engine: by reading it, and by running what it copies.

`image` is the image's /recipe: the files that COPY takes, less .dockerignore's, in a folder that only root can write. There
the reward's self-test runs under an emulation of Docker's default capabilities and system-call profile
(docker_emulation.py), as root and as another user; every attack under the same emulation is in test_attacks.py.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_attacks import command_for

ROOT = Path(__file__).resolve().parent.parent
INSTRUCTIONS = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", (ROOT / "Dockerfile").read_text())).splitlines()
IGNORED = (ROOT / ".dockerignore").read_text().split()


def instructions(name: str) -> list[str]:
    return [line.partition(" ")[2].strip() for line in INSTRUCTIONS if line.split(" ")[0] == name]


def ignored(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    names = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return any(
        fnmatch.fnmatch(name, pattern) or (pattern.startswith("**/") and fnmatch.fnmatch(Path(name).name, pattern[3:]))
        for name in names
        for pattern in IGNORED
    )


@functools.cache
def copied() -> list[Path]:
    """What `COPY . .` takes of the files that git knows and those beside them."""
    return [path for path in ROOT.rglob("*") if path.is_file() and not ignored(path)]


def test_hadolint_has_nothing_to_say() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_base_is_pinned_to_the_cuda_of_torch() -> None:
    (base,) = instructions("FROM")
    release, system = re.fullmatch(r"nvidia/cuda:(\d+\.\d+)\.\d+-devel-(ubuntu24\.04)", base).groups()
    requirements = (ROOT / "requirements.txt").read_text()
    assert f"built for CUDA {release}:" in requirements
    assert "Python 3.10 to 3.12" in requirements and system == "ubuntu24.04"  # whose Python is 3.12


def test_what_is_copied_is_there() -> None:
    sources = [word for line in instructions("COPY") for word in shlex.split(line)[:-1]]
    assert sources[-1] == "." and "requirements.txt" in sources
    for source in sources:
        assert (ROOT / source).exists()
        assert source == "." or not ignored(ROOT / source)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    missing = {name for name in tracked if name and (ROOT / name).exists()} - {str(path.relative_to(ROOT)) for path in copied()}
    assert {name.split("/")[0] for name in missing} <= {".ci"}
    assert not any(
        part in (".git", "runs", ".venv", ".cache") for path in copied() for part in path.relative_to(ROOT).parts[:1]
    )


def test_flash_attn_is_built_as_the_makefile_says(tmp_path: Path) -> None:
    """Against the image's own environment, which make must not want to set up anew."""
    (run,) = (line for line in instructions("RUN") if "FLASH_ATTN" in line)
    assert 'make flash-attn DEMO_VENV="$VIRTUAL_ENV"' in run and "FLASH_ATTN=0" in instructions("ARG")
    (tmp_path / ".installed").touch()
    command = ["make", "--no-print-directory", "-n", "flash-attn", f"DEMO_VENV={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    commands = done.stdout.splitlines()
    assert all(line.startswith(f"{tmp_path}/bin/pip install") for line in commands)
    assert "flash-attn==" in commands[-1]


def test_nothing_in_it_weakens_the_isolation() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert "CODE_REWARD" not in text and "ISOLATION" not in text
    assert instructions("USER") == ["1000:1000"]


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # not pytest's own folder, which it keeps closed to other users
        folder = Path(name) / "recipe"
        for path in copied():
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        for part in (folder.parent, folder, *folder.rglob("*")):
            part.chmod(0o755)
        yield folder


@pytest.mark.parametrize("user", ["self", "nobody"])
def test_the_reward_checks_itself_in_it(image: Path, user: str) -> None:
    """The image's default command: what confines programs, then the self-test."""
    command, identity = command_for(user, "docker")
    environment = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [*command, "code_reward.py", *arguments]
        return subprocess.run(words, cwd=image, env=environment, capture_output=True, text=True, timeout=600, **identity)

    assert [line for line in instructions("CMD") if "python3 code_reward.py --isolation && python3 code_reward.py" in line]
    report = run("--isolation")
    assert report.returncode == 0, report.stderr
    assert "covered: files, network, process tree, parent" in report.stdout
    checks = run()
    assert checks.returncode == 0, checks.stdout + checks.stderr
    assert "FAILED" not in checks.stdout and checks.stdout.count("-> ok") > 10
