"""What eval.sh makes of its settings and of a run's config.yaml. The whole of it on a real run is in test_smoke_run.py."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, script_environment

from evaluation import run_config

CONFIG = """\
data:
  train_files: [/data/a.parquet, /data/b.parquet]
  val_files: /data/validation.parquet
  max_prompt_length: 384
  max_response_length: 48
  apply_chat_template_kwargs: {enable_thinking: false}
actor_rollout_ref:
  model: {path: "some/model", lora_alpha: 16}
  rollout: {temperature: 0.7}
custom_reward_function: {path: x.py, reward_kwargs: {timeout: 5}}
reward: {custom_reward_function: {path: x.py}}
broken: ${nowhere.to.be.found}
"""


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    actor = tmp_path / "run" / "checkpoints" / "global_step_7" / "actor"
    actor.mkdir(parents=True)
    (actor / "model_world_size_1_rank_0.pt").touch()
    (actor.parent.parent / "latest_checkpointed_iteration.txt").write_text("7")
    (tmp_path / "run" / "config.yaml").write_text(CONFIG)
    return tmp_path / "run"


def eval_sh(*words: object, code: int = 0, **settings: str) -> str:
    done = subprocess.run(
        ["bash", ROOT / "eval.sh", *words], env=script_environment(**settings), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("part", ("", "checkpoints", "checkpoints/global_step_7", "checkpoints/global_step_7/actor"))
def test_what_a_run_says(run_folder, part):
    found = run_config.read(run_folder / part)
    assert found == run_config.RunConfig(
        folder=run_folder,
        model="some/model",
        train_files=(Path("/data/a.parquet"), Path("/data/b.parquet")),
        val_file=Path("/data/validation.parquet"),
        max_prompt_length=384,
        max_response_length=48,
        temperature=0.7,
        lora_alpha=16,
        template_options='{"enable_thinking": false}',
        reward_options='{"timeout": 5}',
    )


def test_no_run(tmp_path):
    assert run_config.read(tmp_path) == run_config.RunConfig()


def test_the_same_settings_for_both_models(run_folder):
    said = eval_sh(run_folder, DRY_RUN="1", LIMIT="7", REPEATS="4", DATASETS="held_out human_eval livecodebench")
    commands = [shlex.split(line)[2:] for line in said.splitlines()]
    assert [x[:2] for x in commands if x[0] == "evaluation.benchmarks"] == [
        ["evaluation.benchmarks", stage] for stage in ("generate", "generate", "review", "review")
    ]
    assert commands[0][0] == "evaluation.merge" and commands[-1][0] == "evaluation.table"
    for module, stage in (
        ("benchmarks", "generate"),
        ("benchmarks", "review"),
        ("held_out", "generate"),
        ("held_out", "judge"),
    ):
        base, trained = (x for x in commands if x[:2] == [f"evaluation.{module}", stage])
        different = [(a, b) for a, b in zip(base, trained, strict=True) if a != b]
        merged = str(run_folder / "merged" / "global_step_7")
        assert sorted(different) == sorted([("some/model", merged), ("base", "global_step_7")])
    own = next(x for x in commands if x[0] == "evaluation.held_out")
    assert own[own.index("--train") + 1 : own.index("--train") + 3] == ["/data/a.parquet", "/data/b.parquet"]
    values = {"--max-prompt-tokens": "384", "--max-tokens": "48", "--temperature": "0.7", "--repeats": "4", "--limit": "7"}
    assert {name: own[own.index(name) + 1] for name in values} == values
    assert json.loads(own[own.index("--reward-options") + 1]) == {"timeout": 5}
    public = next(x for x in commands if x[0] == "evaluation.benchmarks")
    assert public[public.index("--datasets") + 1 : public.index("--datasets") + 3] == ["humaneval", "live_code_bench"]


def test_what_is_said_wins_over_the_run(run_folder):
    settings = {"MODEL_PATH": "other/model", "VAL_FILE": "/v.parquet", "TRAIN_FILE": "/t.parquet", "EVAL_DIR": "/tmp/elsewhere"}
    said = eval_sh(run_folder, DRY_RUN="1", DATASETS="held_out", **settings)
    assert "--model other/model" in said and "--file /v.parquet --train /t.parquet" in said and "--out /tmp/elsewhere" in said
    assert "some/model" not in said


@pytest.mark.parametrize(
    ("settings", "sentence"),
    (
        (
            {"DATASETS": "held_out mmlu"},
            "evaluation: Unknown benchmark 'mmlu': DATASETS takes humaneval, live_code_bench, gsm8k",
        ),
        ({}, "evaluation: /data/validation.parquet does not exist: name the run's files with VAL_FILE and TRAIN_FILE."),
        ({"LIMIT": "many"}, "argument --limit: invalid number value: 'many'"),
        ({"LIMIT": "-1"}, "argument --limit: invalid, -1 is less than 0"),
        ({"LCB_START_DATE": "August"}, "argument --start-date: invalid date value: 'August'"),
        ({"DATASET_HUB": "github"}, "invalid choice: 'github'"),
    ),
)
def test_wrong_settings(run_folder, settings, sentence):
    said = eval_sh(run_folder, code=2 if "invalid" in sentence else 1, **settings)
    assert sentence in said
    assert not (run_folder / "eval").exists() and not (run_folder / "merged").exists()


def test_what_is_said_before_anything_is_merged(run_folder):
    settings = {"DATASETS": "humaneval", "EVAL_DIR": str(run_folder / "config.yaml" / "eval")}
    assert "eval cannot be written (Not a directory): set EVAL_DIR" in eval_sh(run_folder, code=1, **settings)
    said = eval_sh(run_folder, code=1, DATASETS="humaneval", MODEL_PATH="/moved/away")
    assert "evaluation: /moved/away, from which the run started, is not there: name the model with MODEL_PATH." in said
    assert not (run_folder / "merged").exists()


def test_no_checkpoint(tmp_path):
    assert "usage" in eval_sh(code=2)
    assert "is not a folder" in eval_sh(tmp_path / "nothing", code=1)
    (tmp_path / "config.yaml").touch()
    assert "holds no finished checkpoint" in eval_sh(tmp_path, code=1)


def test_a_checkpoint_without_its_run(run_folder):
    (run_folder / "config.yaml").unlink()
    assert "Name MODEL_PATH" in eval_sh(run_folder, code=1)
    said = eval_sh(run_folder, code=1, MODEL_PATH="some/model")
    assert "Name VAL_FILE, or leave held_out out" in said


def test_a_config_that_cannot_be_read(run_folder):
    (run_folder / "config.yaml").write_text("a: [")
    assert "config.yaml cannot be read" in eval_sh(run_folder, code=1)
