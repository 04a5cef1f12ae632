"""Wrong values of the run script's settings: each is named in one sentence, before anything calculates with it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, SINGLE, script_environment

from training import preflight, settings_check

IN_THE_SHELL = ("LORA_RANK", "NNODES", "NDEVICES_PER_NODE", "MAX_PROMPT_LENGTH", "MAX_RESPONSE_LENGTH")
VARIABLES = [variable for variable, _, _ in settings_check.SETTINGS]


@pytest.fixture
def check(dry_run, tiny_model: Path, monkeypatch) -> Callable[..., list[str]]:
    def run(*overrides: str, **settings: str) -> list[str]:
        monkeypatch.setenv("MAX_INTERNAL_ERRORS", settings.get("MAX_INTERNAL_ERRORS", "0.05"))  # as the script exports it
        config = preflight.compose(dry_run(SINGLE, *overrides, MODEL_PATH=str(tiny_model), **settings))
        return [finding.text for finding in settings_check.check_settings(config)]

    return run


def test_every_variable_of_the_table_is_looked_at(check):
    """All at once: the rule of each stands at the option that the script sets with it."""
    wrong = {variable: "maybe" for variable in VARIABLES if variable not in IN_THE_SHELL} | {"MAX_INTERNAL_ERRORS": "maybe"}
    found = check(**wrong, LORA_RANK="8")
    assert [text.split("=")[0] for text in found] == list(wrong)
    assert all(re.fullmatch(r"[A-Z_]+=maybe must be [^.]+\.", text) for text in found)


def test_numbers_out_of_range(check):
    assert check() == []
    may_be_zero = {"LORA_RANK", "SEED", "ACTOR_LR", "CRITIC_LR", "KL_COEF", "SAVE_FREQ", "TEST_FREQ"}
    low = check(**{**dict.fromkeys(VARIABLES, "0"), "LORA_RANK": "1"}, MAX_INTERNAL_ERRORS="1.1")
    assert {text.split("=")[0] for text in low} == {*VARIABLES, "MAX_INTERNAL_ERRORS"} - may_be_zero
    assert check(SEED="-1", ACTOR_LR="-1e-6", KL_COEF="nan", ROLLOUT_GPU_MEM_UTIL="40", TRAIN_BATCH_SIZE="16.5") == [
        "SEED=-1 must be a whole number, 0 or more, or null.",
        "TRAIN_BATCH_SIZE=16.5 must be a whole number, 1 or more.",
        "ACTOR_LR=-1e-06 must be a number, 0 or more.",
        "KL_COEF=nan must be a number, 0 or more.",
        "ROLLOUT_GPU_MEM_UTIL=40 must be a number above 0, at most 1.",
    ]


def test_words_that_nobody_knows(check):
    found = check(ATTN_IMPLEMENTATION="a", ACTOR_STRATEGY="e", ADV_ESTIMATOR="b", RESUME_MODE="c", LOGGER="console,d,trackio")
    known = {
        "ATTN_IMPLEMENTATION=a": "sdpa",
        "ACTOR_STRATEGY=e": "fsdp2",
        "ADV_ESTIMATOR=b": "grpo",
        "RESUME_MODE=c": "resume_path",
        "LOGGER=d": "file",
    }
    for text, (start, word) in zip(found[:5], known.items(), strict=True):
        assert text.startswith(f"{start} is unknown: take one of ") and word in text
    assert found[5:] == ["LOGGER names trackio, which is not installed: run pip install trackio or leave it out."]


@pytest.mark.parametrize("variable", IN_THE_SHELL)
@pytest.mark.parametrize("value", ("abc", "-1", "1.5", "08", "a[0]"))
def test_what_the_script_itself_calculates_with(variable, value):
    done = subprocess.run(["bash", SINGLE], env=script_environment(**{variable: value}), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{variable}={value} must be a whole number, 0 or more.\n"


@pytest.mark.parametrize("variable", ("MODEL_PATH", "RUN_DIR"))
def test_a_name_that_begins_with_a_dash(dry_run, variable):
    assert any(x.endswith("-1_gae/checkpoints") or x.endswith("/-1/checkpoints") for x in dry_run(SINGLE, **{variable: "-1"}))


def test_without_a_home(dry_run):
    environment = {name: value for name, value in script_environment(DRY_RUN="1").items() if name != "HOME"}
    done = subprocess.run(["bash", SINGLE], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"data.train_files={Path('~').expanduser()}/data/" in done.stdout, done.stderr


def test_dry_run_prints_what_runs(tmp_path):
    """The command that the watcher is given, and all of its environment that a plain shell lacks; odd paths and all."""
    python = tmp_path / "a b" / "python"
    python.parent.mkdir()
    python.write_text(
        f"""#!/bin/sh
case $2 in
    training.preflight) exit 0 ;;
    training.watch) env -0 >"{tmp_path}/environment"; while [ "$1" != -- ]; do shift; done; shift; printf '%s\\0' "$@" ;;
    *) exec {shlex.quote(sys.executable)} "$@" ;;
esac
"""
    )
    python.chmod(0o755)
    settings = {
        "PYTHON": str(python),
        "RUN_DIR": f'{tmp_path}/it\'s a "run", x=1 ${{y}}',
        "MODEL_PATH": "/models/my model",
        "CODE_REWARD_TIMEOUT": "5",
    }

    def run(**more: str) -> str:
        command = ["bash", SINGLE, "+trainer.note='a b'"]
        done = subprocess.run(
            command, env=script_environment(**settings, **more), cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    words = shlex.split(run(DRY_RUN="1").replace("\\\n", " "))
    start = words.index(str(python))
    assert words[start:] == run().split("\0")[:-1]
    environment = dict(x.split("=", 1) for x in (tmp_path / "environment").read_text().split("\0") if x)
    exported = dict(x.split("=", 1) for x in words[:start] if x != "export")
    assert exported.items() <= environment.items()
    assert exported["CODE_REWARD_TIMEOUT"] == "5" and exported["CODE_REWARD_LOG_DIR"] == f"{settings['RUN_DIR']}/reward_log"
    assert exported.keys() >= {"VERL_USE_EXTERNAL_MODULES", "VERL_FILE_LOGGER_PATH", "TENSORBOARD_DIR", "PYTHONPATH"}
