"""What stops a run before it takes GPU time. Configurations come from the run script itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import MULTI, ROOT, SINGLE, script_environment

from training import preflight, processes, run_record

GROUND_TRUTH = json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]})
# What a run on a machine without a GPU says to veRL; the rest are the script's own settings.
ON_CPU = ("trainer.device=cpu", "actor_rollout_ref.rollout.name=hf")


def write_rows(path: Path, number: int, **columns: Any) -> Path:
    """A parquet file of `number` good rows; `columns` replaces some (None: leaves them out)."""
    good = {
        "data_source": "recipe_stdio",
        "prompt": [{"role": "system", "content": "You help."}, {"role": "user", "content": "Print the sum of two numbers."}],
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": GROUND_TRUTH},
        "extra_info": {"index": 0, "split": "train"},
    }
    row = {key: value for key, value in {**good, **columns}.items() if value is not None}
    pq.write_table(pa.Table.from_pylist([row] * number), path)
    return path


@pytest.fixture
def files(tmp_path: Path) -> SimpleNamespace:
    """Good ones, and a reward that costs nothing: most tests are about something else."""
    reward = tmp_path / "quick_reward.py"
    reward.write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n"
        "    return {'score': float('sum' in solution_str)}\n"
    )
    train, val = write_rows(tmp_path / "train.parquet", 8), write_rows(tmp_path / "val.parquet", 2)
    return SimpleNamespace(train=train, val=val, reward=reward)


@pytest.fixture
def check(dry_run, tiny_model: Path, files: SimpleNamespace, tmp_path: Path) -> Callable[..., list[str]]:
    """check(*overrides, **settings) -> the sentences of the pre-flight for a run of four prompts a step."""

    def run(*overrides: str, **settings: str) -> list[str]:
        given = {
            "MODEL_PATH": str(tiny_model),
            "TRAIN_FILE": str(files.train),
            "VAL_FILE": str(files.val),
            "REWARD_FILE": str(files.reward),
            "TRAIN_BATCH_SIZE": "4",
            "PPO_MINI_BATCH_SIZE": "2",
            "RUN_DIR": str(tmp_path / "run"),
            **settings,
        }
        config = preflight.compose(dry_run(SINGLE, *ON_CPU, *overrides, **given))
        return [x.text for x in preflight.findings(config, Path(given["RUN_DIR"]))]

    return run


def the_only(findings: list[str], *words: str) -> None:
    assert len(findings) == 1, findings
    for word in words:
        assert word in findings[0]


def test_a_good_run_passes(check):
    assert check(REWARD_FILE=str(ROOT / "code_reward.py")) == []


@pytest.mark.parametrize("which,kind", (("TRAIN_FILE", "training"), ("VAL_FILE", "validation")))
def test_a_missing_file(check, tmp_path, which, kind):
    the_only(check(**{which: str(tmp_path / "none.parquet")}), f"{kind} file", "does not exist", "prepare_data.py")


def test_string_prompts(check, files):
    write_rows(files.train, 8, prompt="Print the sum of two numbers.")
    the_only(check(), "plain strings", "prepare_data.py")


def test_missing_columns(check, files):
    write_rows(files.val, 2, data_source=None)
    the_only(check(), "no column data_source")


def test_no_ground_truth(check, files):
    write_rows(files.train, 8, reward_model={"style": "rule"})
    the_only(check(), "no ground_truth")


def test_a_file_that_is_not_parquet(check, files):
    files.train.write_text("not parquet")
    the_only(check(), "not readable as parquet")


def test_files_that_the_datasets_library_cannot_read(check, files, tmp_path):
    write_rows(tmp_path / "[1] a.parquet", 8)
    the_only(check(TRAIN_FILE=str(tmp_path / "[1] a.parquet")), "holds [", "pattern", "rename it")
    the_only(check(TRAIN_FILE=str(tmp_path)), f"{tmp_path} is a folder", "TRAIN_FILE='[")
    (tmp_path / "A.PARQUET").write_bytes(files.train.read_bytes())
    the_only(check(VAL_FILE=str(tmp_path / "A.PARQUET")), "validation file", "does not end in .parquet")
    pq.write_table(pq.read_table(files.train).slice(0, 0), files.val)
    the_only(check(), f"{files.val} has no rows")
    write_rows(files.val, 2, extra_info="a text")
    the_only(check(TRAIN_FILE=f"[{files.train},{files.val}]", VAL_FILE=str(files.train)), "veRL cannot read the training data")


def test_an_option_that_refers_to_nothing(tmp_path, capsys):
    assert preflight.main([str(tmp_path / "run"), "trainer.total_epochs=${nothing}"]) == 1
    assert "cannot take an option: Interpolation key 'nothing' not found" in capsys.readouterr().err


def test_a_file_shorter_than_a_batch(check):
    the_only(check(TRAIN_BATCH_SIZE="16", PPO_MINI_BATCH_SIZE="8"), "8 training rows", "one batch takes 16")


def test_rows_that_the_length_filter_leaves_out_do_not_count(check, files):
    long = [{"role": "user", "content": "Print the sum of two numbers. " * 200}]
    write_rows(files.train, 8, prompt=long)
    the_only(check(), "0 training rows", "MAX_PROMPT_LENGTH")


@pytest.mark.parametrize("path", ("null", "/nowhere/reward.py"))
def test_a_reward_that_is_not_wired(check, path):
    override = f"reward.custom_reward_function.path={path}"
    the_only(check(override), "not wired" if path == "null" else "cannot load the reward")


@pytest.mark.parametrize(
    "body,words",
    (
        ("raise RuntimeError('no sandbox')", ("raises RuntimeError: no sandbox", "drop")),
        ("return {'score': 0.5}", ("a right program 0.5 and a wrong one 0.5",)),
        ("return float('nan')", ("a right program nan",)),
    ),
)
def test_a_reward_that_does_not_work(check, tmp_path, body, words):
    reward = tmp_path / "reward.py"
    reward.write_text(f"def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n    {body}\n")
    the_only(check(REWARD_FILE=str(reward)), *words)


def test_a_reward_whose_self_test_fails(check, tmp_path):
    reward = tmp_path / "reward.py"
    reward.write_text(
        "import sys\n"
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n"
        "    return float('sum' in solution_str)\n"
        "if __name__ == '__main__':\n"
        "    sys.exit('memory limit -> FAILED')\n"
    )
    the_only(check(REWARD_FILE=str(reward)), "self-test fails (memory limit -> FAILED)")


@pytest.mark.parametrize(
    "settings,words",
    (
        ({"PPO_MINI_BATCH_SIZE": "3"}, ("TRAIN_BATCH_SIZE=4 is not a multiple of PPO_MINI_BATCH_SIZE=3",)),
        ({"MAX_TOKENS_PER_GPU": "512"}, ("holds no full sample of 1024 tokens",)),
        ({"ADV_ESTIMATOR": "grpo"}, ("ROLLOUT_N",)),
        ({"TOTAL_TRAINING_STEPS": "41"}, ("the epochs end after 40 steps", "TOTAL_EPOCHS=21")),
        ({"RAY_NUM_CPUS": "4"}, ("wait for ever", "RAY_NUM_CPUS=13")),
        ({"CRITIC_MODEL_PATH": "/nowhere/critic"}, ("CRITIC_MODEL_PATH=/nowhere/critic does not exist",)),
        ({"CRITIC_MODEL_PATH": "nobody/critic"}, ("CRITIC_MODEL_PATH=nobody/critic cannot be loaded",)),
        ({"NDEVICES_PER_NODE": "2", "ROLLOUT_TP": "3"}, ("ROLLOUT_TP=3 does not divide 2 GPUs",)),
    ),
)
def test_settings_that_do_not_fit(check, settings, words):
    the_only(check(**settings), *words)


def test_batches_that_gpus_cannot_share(check):
    found = check(NDEVICES_PER_NODE="3")
    assert len(found) == 2 and all("shared evenly by 3 GPUs" in x for x in found)


def test_a_manager_that_cannot_take_a_dict(check):
    the_only(check("reward.reward_manager.name=remote"), "manager remote does not suit this reward", "naive or dapo")


def test_more_gpus_than_there_are(check):
    the_only(check("trainer.device=cuda"), "0 GPUs are visible")


def test_packages_that_are_not_installed(check):
    the_only(check("actor_rollout_ref.rollout.name=vllm"), "Missing packages: vllm")
    the_only(check(ATTN_IMPLEMENTATION="flash_attention_2"), "flash-attn")


@pytest.mark.parametrize("release", ("0.7.1", "0.8.0"))
def test_the_names_of_another_release(release, tmp_path):
    environment = script_environment(VERL_VERSION=release, RUN_DIR=str(tmp_path / "run"))
    done = subprocess.run(["bash", SINGLE, *ON_CPU], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stderr.startswith("pre-flight: ") and done.stderr.count("\n") == 1
    assert f"VERL_VERSION={release}, but veRL 0.9.1 is installed" in done.stderr


def test_a_model_without_weights_or_tokenizer(check, tiny_model, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    for path in model.glob("tokenizer*"):
        path.unlink()
    the_only(check(MODEL_PATH=str(model), CRITIC_MODEL_PATH=str(tiny_model)), f"{model} holds no tokenizer", "MODEL_PATH")
    (model / "model.safetensors").unlink()
    the_only(check(CRITIC_MODEL_PATH=str(model)), f"CRITIC_MODEL_PATH={model} holds no weights")


def test_a_critic_of_another_family(check, tiny_model, tmp_path):
    critic = tmp_path / "critic"
    shutil.copytree(tiny_model, critic)
    config = json.loads((critic / "config.json").read_text())
    (critic / "config.json").write_text(json.dumps({**config, "vocab_size": 100}))
    the_only(check(CRITIC_MODEL_PATH=str(critic)), "knows 100 words", "CRITIC_MODEL_PATH", "of the model's own family")


@pytest.mark.parametrize("below", ("", "/run"))
def test_a_run_folder_that_is_a_file(check, tmp_path, below):
    (tmp_path / "file").touch()
    the_only(check(RUN_DIR=f"{tmp_path}/file{below}"), f"{tmp_path}/file{below} cannot be written", "RUN_DIR")


def test_a_full_disk(check, monkeypatch):
    """The free space is the one thing pretended here."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    the_only(check(), "0.0 GB free", "MAX_CKPT_TO_KEEP")


def test_a_disk_that_takes_few_more_files(check, small_disk):
    folder = small_disk("size=8g,nr_inodes=50")[2]
    the_only(check(RUN_DIR=str(folder / "run")), "takes 49 more files (inodes)", "RUN_DIR")


def test_another_run_in_the_folder(check, tmp_path):
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / "train.log").open("ab") as log:
        assert processes.take(log)
        the_only(check(), "Another run writes to", "RUN_DIR")
    assert check() == []


@pytest.mark.parametrize("script", (SINGLE, MULTI), ids=("single", "multi"))
@pytest.mark.parametrize(
    "settings",
    (
        {},
        {"LORA_RANK": "32"},
        {"ADV_ESTIMATOR": "grpo", "ROLLOUT_N": "5"},
        {"NDEVICES_PER_NODE": "8", "TRAIN_BATCH_SIZE": "1024", "PPO_MINI_BATCH_SIZE": "256", "ROLLOUT_TP": "2"},
        {"KL_COEF": "0"},
    ),
    ids=("defaults", "lora", "grpo", "eight GPUs", "no KL"),
)
def test_verl_accepts_what_the_scripts_ask_for(dry_run, tiny_model, script, settings):
    """veRL's own validation, and its own answer to who takes part: a critic for GAE only, a reference for the KL term only."""
    from verl.trainer.ppo.utils import need_critic, need_reference_policy

    # With LoRA and vLLM the validation would import vLLM, so the rollout is the CPU's there.
    models = {"MODEL_PATH": str(tiny_model), "CRITIC_MODEL_PATH": str(tiny_model)}
    config = preflight.compose(dry_run(script, "actor_rollout_ref.rollout.name=hf", **models, **settings))
    assert list(preflight.check_arithmetic(config)) == list(preflight.check_verl(config)) == []
    assert need_critic(config) == ("ADV_ESTIMATOR" not in settings)
    assert need_reference_policy(config) == ("KL_COEF" not in settings)


def test_a_template_that_loses_the_question(check, tiny_model, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m['text'] }}{% endfor %}")
    found = check(MODEL_PATH=str(model))
    assert any("loses the training message" in x for x in found), found


def test_tensor_parallelism_that_the_models_heads_do_not_allow(check):
    found = check(ROLLOUT_TP="2", NDEVICES_PER_NODE="2")
    assert any("ROLLOUT_TP=2 does not divide the 3 attention heads" in x for x in found), found


def test_the_script_stops_there(tiny_model, files, tmp_path):
    """Exit code 1, the sentence, no traceback, and nothing written."""
    settings = {"MODEL_PATH": str(tiny_model), "TRAIN_FILE": str(files.train), "VAL_FILE": str(tmp_path / "none.parquet")}
    environment = script_environment(**settings, RUN_DIR=str(tmp_path / "run"))
    done = subprocess.run(["bash", SINGLE, *ON_CPU], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "pre-flight: The validation file" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_broken_sandbox_stops_the_script(tiny_model, files, tmp_path):
    settings = {"MODEL_PATH": str(tiny_model), "TRAIN_FILE": str(files.train), "VAL_FILE": str(files.val)}
    settings |= {"TRAIN_BATCH_SIZE": "4", "PPO_MINI_BATCH_SIZE": "2", "CODE_REWARD_ISOLATION": "no such mode"}
    environment = script_environment(**settings, RUN_DIR=str(tmp_path / "run"))
    done = subprocess.run(["bash", SINGLE, *ON_CPU], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "pre-flight: The verifier cannot run programs here" in done.stderr and "CODE_REWARD_ISOLATION" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_record_that_cannot_be_written(tiny_model, files, tmp_path):
    settings = {"MODEL_PATH": str(tiny_model), "TRAIN_FILE": str(files.train), "VAL_FILE": str(files.val)}
    settings |= {"TRAIN_BATCH_SIZE": "4", "PPO_MINI_BATCH_SIZE": "2", "REWARD_FILE": str(files.reward)}
    (tmp_path / "run" / ".command.sh.new").mkdir(parents=True)
    environment = script_environment(**settings, RUN_DIR=str(tmp_path / "run"))
    done = subprocess.run(["bash", SINGLE, *ON_CPU], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"pre-flight: {tmp_path}/run cannot be written (Is a directory)" in done.stderr


def test_an_unknown_option_is_named(tiny_model, files, tmp_path):
    command = [sys.executable, "-m", "training.preflight", str(tmp_path / "run"), "trainer.no_such_option=1"]
    done = subprocess.run(command, cwd=ROOT, env=script_environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "no_such_option" in done.stderr and done.stderr.count("\n") == 1


def test_the_record_reproduces_the_command(dry_run, tmp_path, monkeypatch):
    monkeypatch.setenv("CODE_REWARD_TIMEOUT", "5")
    monkeypatch.setenv("HF_TOKEN", "secret")
    overrides = dry_run(SINGLE, RUN_DIR=str(tmp_path / "a b"))
    config = preflight.compose(overrides)
    run_record.write(tmp_path / "a b", overrides, config)
    written = (tmp_path / "a b" / "command.sh").read_text()
    assert "export CODE_REWARD_TIMEOUT=5" in written and "secret" not in written
    # The recorded command, run with a stand-in for Python that prints its arguments, gives the same overrides.
    stand_in = tmp_path / "python3"
    stand_in.write_text('#!/bin/sh\nshift 2\nfor x in "$@"; do echo "$x"; done\n')
    stand_in.chmod(0o755)
    environment = script_environment(PATH=f"{tmp_path}:/usr/bin:/bin")
    done = subprocess.run(
        ["bash", tmp_path / "a b" / "command.sh"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == overrides
    assert "verl 0.9.1" in (tmp_path / "a b" / "versions.txt").read_text()
    assert "adv_estimator: gae" in (tmp_path / "a b" / "config.yaml").read_text()


def test_a_second_start_keeps_the_first_record(dry_run, tmp_path):
    for seed in ("1", "2"):
        overrides = dry_run(SINGLE, RUN_DIR=str(tmp_path), SEED=seed)
        run_record.write(tmp_path, overrides, preflight.compose(overrides))
    assert "data.seed=1" in (tmp_path / "command.sh.1").read_text()
    assert "data.seed=2" in (tmp_path / "command.sh").read_text()
