"""A run that is started from a folder with modules of the user's own: named as ours, as Python's, a veRL checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import MULTI, ROOT, SINGLE, script_environment

from training import start_folder

SCRIPTS = {
    SINGLE: [],
    MULTI: [],
    ROOT / "eval.sh": ["run"],
    ROOT / "smoke/learn.sh": ["w"],
    ROOT / "smoke/run.sh": ["w", "t", "v"],
}


def start(folder: Path, script: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(script), *SCRIPTS[script]]
    settings = script_environment(DRY_RUN="1")
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
@pytest.mark.parametrize("name", ["training", "json.py"])
def test_what_would_be_taken_in_place_of_ours_or_pythons(tmp_path, script, name):
    path = tmp_path / name
    if path.suffix:
        path.touch()
    else:
        path.mkdir()
        (path / "__init__.py").touch()
    done = start(tmp_path, script)
    said = f"{path}{'' if path.suffix else '/'} would be imported in place of the module {path.stem} that a run needs: "
    assert (done.returncode, done.stderr) == (2, f"{said}rename it, or start from another folder.\n")
    assert [x.name for x in tmp_path.iterdir()] == [name]


def test_a_folder_that_is_in_nobodys_way(tmp_path):
    for name in ("data", "runs", "verl", "test"):
        (tmp_path / name).mkdir()
    for package in ("verl", "test"):
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "mine.py").touch()
    done = start(tmp_path, SINGLE)
    assert (done.returncode, done.stderr) == (0, "") and "-m verl.trainer.main_ppo" in done.stdout


def test_a_folder_that_is_gone(tmp_path):
    command = f"mkdir gone && cd gone && rmdir ../gone && bash {SINGLE}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=script_environment(), capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.endswith(
        "cannot be read (No such file or directory): start from another folder.\n"
    )


def test_names_and_paths(tmp_path):
    assert start_folder.problem(str(ROOT), str(ROOT)) is None
    for name in ("verl", "torch", "code_reward"):
        path = tmp_path / f"{name}.py"
        path.touch()
        assert f"{path} would be imported in place of the module {name} " in start_folder.problem(str(tmp_path), str(ROOT))
        path.unlink()
    assert start_folder.problem(str(tmp_path), "/a:b").startswith("/a:b holds a :, which ends a path")
