"""A run that is started from a folder with modules of the user's own: named as ours, as Python's, a veRL checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import MULTI, ROOT, SINGLE, script_environment

from training import preflight

OURS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
STRANGER = "raise ImportError('a module of the user was taken')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in OURS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(STRANGER)
    for name in ("json", "statistics", "queue", "random", "verl", "torch", "code_reward"):
        (tmp_path / f"{name}.py").write_text(STRANGER)
    (tmp_path / "mine.py").write_text("print('mine')")
    return tmp_path


def run(folder: Path, *command: object, **settings: str) -> str:
    environment = script_environment(**settings)
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", [SINGLE, MULTI], ids=lambda path: path.name)
def test_a_dry_run(folder, script):
    assert "verl.trainer.main_ppo" in run(folder, "bash", script, DRY_RUN="1")


def test_modules_of_ours_come_first_and_the_users_own_last(folder):
    words = [sys.executable, ROOT / "coder_rl_start.py", "-m"]
    assert "usage" in run(folder, *words, "evaluation.compare", "--help")
    assert run(folder, *words, "mine") == "mine\n"


def test_ctrl_c_leaves_no_traceback(tmp_path):
    (tmp_path / "mine.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    words = [sys.executable, ROOT / "coder_rl_start.py", "-m", "mine"]
    done = subprocess.run(words, cwd=tmp_path, env=script_environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize("named", [False, True], ids=["in the start folder", "on PYTHONPATH"])
def test_a_checkout_of_verl(tmp_path, named):
    checkout, start = tmp_path / "checkout", tmp_path / "start"
    start.mkdir()
    (checkout / "verl" / "trainer").mkdir(parents=True)
    (checkout / "verl" / "__init__.py").touch()
    (checkout / "verl" / "trainer" / "main_ppo.py").write_text("import sys; print('checkout', *sys.argv[1:])")
    words = [sys.executable, ROOT / "coder_rl_start.py", "-m", "verl.trainer.main_ppo", "a=1", "-m"]
    assert run(start if named else checkout, *words, PYTHONPATH=str(checkout) if named else "") == "checkout a=1 -m\n"


def test_what_pythonpath_names_keeps_its_place(folder):
    (folder / "show.py").write_text("import sys; print(*sys.path[:3], sep='\\n')")
    (folder / "json.py").unlink()
    path = os.pathsep.join([str(ROOT), "/elsewhere", str(folder)])
    words = [sys.executable, ROOT / "coder_rl_start.py", "-m", "show"]
    assert run(folder, *words, PYTHONPATH=path).split() == path.split(os.pathsep)


def test_a_worker_gets_the_patches(folder):
    """Ray puts the start folder first in each worker, once it has itself imported what it needs."""
    for name in ("verl", "torch", "statistics", "queue", "random"):
        (folder / f"{name}.py").unlink()
    show = (
        f"import sys, ray; sys.path.insert(0, {str(folder)!r}); "
        "import verl, training.verl_patches, verifier.linux; print(training.verl_patches.__file__)"
    )
    settings = {"VERL_USE_EXTERNAL_MODULES": "coder_rl_start,training.verl_patches", "PYTHONPATH": str(ROOT)}
    (folder / "worker.py").write_text(show)
    words = [sys.executable, ROOT / "coder_rl_start.py", "-m", "worker"]
    assert run(folder, *words, **settings).splitlines()[-1] == str(ROOT / "training/verl_patches.py")


def test_what_a_worker_would_take_in_place_of_verl(folder, monkeypatch):
    import verl.protocol  # noqa: F401

    monkeypatch.chdir(folder)
    found = [x.text.split(" would be taken for the module ") for x in preflight.check_start_folder()]
    hidden = {Path(path).name: words.split()[0] for path, words in found}
    assert {"verl.py": "verl", "torch.py": "torch", "statistics.py": "statistics"}.items() <= hidden.items()
    assert not {"json.py", "mine.py"} & hidden.keys()
    assert all(path.startswith(str(folder)) for path, _ in found)
    monkeypatch.chdir(ROOT)
    assert not list(preflight.check_start_folder())
    monkeypatch.setattr(preflight.coder_rl_start, "ROOT", "/a:b")
    assert [x.text.split(",")[0] for x in preflight.check_start_folder()] == ["/a:b holds a colon"]
