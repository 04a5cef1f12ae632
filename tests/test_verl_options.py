"""The run scripts' commands: names of each veRL release, settings, the user's own overrides."""

from __future__ import annotations

import stat
import subprocess
import sys

import pytest
from conftest import MULTI, ROOT, SINGLE, script_environment
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from training import verl_options

RELEASES = ("0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.1")
SETTINGS = {
    "defaults": {},
    "lora": {"LORA_RANK": "32"},
    "grpo": {"ADV_ESTIMATOR": "grpo", "ROLLOUT_N": "5"},
    "eight GPUs": {"NDEVICES_PER_NODE": "8", "TRAIN_BATCH_SIZE": "1024", "PPO_MINI_BATCH_SIZE": "256", "ROLLOUT_TP": "2"},
    "no KL": {"KL_COEF": "0"},
    "cluster": {"NNODES": "2", "RAY_ADDRESS": "head:6379"},
    "odd paths": {"RUN_DIR": "/tmp/a b,c=d (x)'y", "TRAIN_FILE": "/data/[1]/t r.parquet"},
}


def composed(folder, overrides) -> DictConfig:
    with initialize_config_dir(config_dir=str(folder / "verl" / "trainer" / "config"), version_base=None):
        return compose("ppo_trainer", overrides=overrides)


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("script", (SINGLE, MULTI), ids=("single", "multi"))
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_every_command_composes(version, script, settings, dry_run, verl_release):
    config = composed(verl_release(version), dry_run(script, VERL_VERSION=version, **settings))
    assert config.custom_reward_function.path == str(ROOT / "code_reward.py")
    assert config.custom_reward_function.name == "compute_score"
    if verl_options.parse_version(version) >= (0, 7):
        assert config.reward.custom_reward_function.path == str(ROOT / "code_reward.py")
        assert config.reward.custom_reward_function.name == "compute_score"
    offload = config.critic.fsdp if verl_options.parse_version(version) >= (0, 8) else config.critic.model.fsdp_config
    assert offload.param_offload is True
    assert ("file" in config.trainer.logger) == (version != "0.5.0")
    if "RUN_DIR" in settings:
        assert config.trainer.default_local_dir == settings["RUN_DIR"] + "/checkpoints"


@pytest.mark.parametrize("version", ("0.7.1", "0.8.0", "0.9.1"))
def test_the_releases_own_loader_returns_our_function(version, dry_run, verl_release, tmp_path):
    """In a process of its own, with that release's packages before the installed ones."""
    release = verl_release(version)
    override = "++reward.custom_reward_function.reward_kwargs.timeout=3"
    lines = tmp_path / "overrides"
    lines.write_text("\n".join(dry_run(SINGLE, override, VERL_VERSION=version)))
    program = """
import sys
from hydra import compose, initialize_config_module
with initialize_config_module("verl.trainer.config", version_base=None):
    config = compose("ppo_trainer", overrides=open(sys.argv[1]).read().splitlines())
import verl.trainer.main_ppo as main_ppo
if hasattr(main_ppo, "migrate_legacy_reward_impl"):
    config = main_ppo.migrate_legacy_reward_impl(config)
from verl.trainer.ppo.reward import get_custom_reward_fn
function = get_custom_reward_fn(config)
print(main_ppo.__file__, function.args[0].__code__.co_filename, dict(function.args[1]), sep="\\n")
print(function(data_source="x", solution_str="```python\\nprint(7)\\n```", ground_truth='{"inputs": [""], "outputs": ["7"]}'))
"""
    environment = script_environment(PYTHONPATH=f"{release}:{ROOT}")
    command = [sys.executable, "-c", program, str(lines)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    main_ppo, function, kwargs, result = done.stdout.splitlines()[-4:]
    assert main_ppo.startswith(str(release))
    assert function == str(ROOT / "code_reward.py")
    assert kwargs == "{'timeout': 3}"
    assert "'score': 1.0" in result


def test_the_default_settings_are_the_recipes(dry_run, verl_release):
    config = composed(verl_release("0.9.1"), dry_run(SINGLE, VERL_VERSION="0.9.1", HOME="/home/me"))
    assert config.actor_rollout_ref.model.path == config.critic.model.path == "Qwen/Qwen2.5-Coder-0.5B-Instruct"
    assert (config.trainer.nnodes, config.trainer.n_gpus_per_node) == (1, 1)
    assert (config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size) == (128, 64)
    assert (config.data.max_prompt_length, config.data.max_response_length) == (512, 512)
    assert (config.actor_rollout_ref.actor.optim.lr, config.critic.optim.lr) == (1e-6, 1e-5)
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.name, rollout.tensor_model_parallel_size, rollout.gpu_memory_utilization, rollout.n) == ("vllm", 1, 0.4, 1)
    assert (config.trainer.total_epochs, config.trainer.save_freq, config.trainer.test_freq) == (20, 20, 5)
    assert config.data.train_files == "/home/me/data/eurus2/train1000.parquet"
    assert config.data.filter_overlong_prompts and config.actor_rollout_ref.ref.fsdp_config.param_offload
    assert config.algorithm.adv_estimator == "gae" and config.actor_rollout_ref.actor.clip_ratio == 0.2
    assert config.algorithm.use_kl_in_reward and config.algorithm.kl_ctrl.kl_coef == 0.001
    assert config.actor_rollout_ref.actor.use_dynamic_bsz and config.trainer.resume_mode == "auto"


def test_the_multi_gpu_defaults(dry_run, verl_release):
    config = composed(verl_release("0.9.1"), dry_run(MULTI, VERL_VERSION="0.9.1"))
    assert config.actor_rollout_ref.model.path == "Qwen/Qwen2.5-Coder-7B-Instruct"
    assert config.trainer.n_gpus_per_node == 8
    assert (config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size) == (1024, 256)
    assert config.actor_rollout_ref.rollout.tensor_model_parallel_size == 2
    assert config.actor_rollout_ref.rollout.gpu_memory_utilization == 0.6
    assert config.data.train_files.endswith("/train.parquet")


def test_settings_reach_the_command(dry_run):
    overrides = dry_run(
        SINGLE,
        MODEL_PATH="Qwen/Qwen2.5-Coder-1.5B-Instruct",
        TRAIN_BATCH_SIZE="64",
        PPO_MINI_BATCH_SIZE="16",
        LOGGER="console,wandb",
    )
    assert "actor_rollout_ref.model.path=Qwen/Qwen2.5-Coder-1.5B-Instruct" in overrides
    assert "critic.model.path=Qwen/Qwen2.5-Coder-1.5B-Instruct" in overrides
    assert "data.train_batch_size=64" in overrides and "actor_rollout_ref.actor.ppo_mini_batch_size=16" in overrides
    assert "trainer.logger=[console,wandb]" in overrides


def test_a_lora_actor_gets_a_small_critic_unless_told_otherwise(dry_run):
    model = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
    assert "critic.model.path=Qwen/Qwen2.5-Coder-0.5B-Instruct" in dry_run(SINGLE, MODEL_PATH=model, LORA_RANK="32")
    told = dry_run(SINGLE, MODEL_PATH=model, LORA_RANK="32", CRITIC_MODEL_PATH=model)
    assert f"critic.model.path={model}" in told and "actor_rollout_ref.model.lora_alpha=64" in told


def test_no_micro_batch_is_larger_than_the_setting(dry_run, verl_release):
    """veRL 0.9.1's trainer takes the critic's from an option that its configuration does not even list, 32,768 by default."""
    config = composed(verl_release("0.9.1"), dry_run(SINGLE, VERL_VERSION="0.9.1", MAX_TOKENS_PER_GPU="2048"))
    model, critic = config.actor_rollout_ref, config.critic
    assert model.actor.ppo_max_token_len_per_gpu == 2048
    assert model.rollout.log_prob_max_token_len_per_gpu == model.ref.log_prob_max_token_len_per_gpu == 2048
    assert critic.ppo_max_token_len_per_gpu == critic.ppo_infer_max_token_len_per_gpu == 2048
    trainer = (verl_release("0.9.1") / "verl/trainer/ppo/v1/trainer_base.py").read_text()
    assert "engine.max_token_len_per_gpu = critic_cfg.ppo_infer_max_token_len_per_gpu" in trainer


@pytest.mark.parametrize(
    "version,package,expected", [("0.8.0", "x", False), ("0.8.0", "flash_attn", True), ("0.9.1", "x", True)]
)
def test_padding_is_removed_where_the_release_can(version, package, expected, dry_run, tmp_path):
    (tmp_path / f"{package}.py").touch()
    overrides = dry_run(SINGLE, VERL_VERSION=version, PYTHONPATH=str(tmp_path))
    assert [x for x in overrides if "remove_padding" in x] == [
        f"actor_rollout_ref.model.use_remove_padding={expected}",
        f"critic.model.use_remove_padding={expected}",
    ]


@pytest.mark.parametrize("coefficient,expected", (("0", "False"), ("0.0", "False"), ("0.001", "True"), ("1e-3", "True")))
def test_the_kl_term_is_on_or_off(dry_run, coefficient, expected):
    assert f"algorithm.use_kl_in_reward={expected}" in dry_run(SINGLE, KL_COEF=coefficient)


def test_a_cluster_gets_the_workers_environment_and_no_cpu_count(dry_run):
    overrides = dry_run(SINGLE, NNODES="2", CODE_REWARD_TIMEOUT="5")
    prefix = "++ray_kwargs.ray_init.runtime_env.env_vars."
    assert f'{prefix}CODE_REWARD_TIMEOUT="5"' in overrides
    assert f'{prefix}PYTHONPATH="{ROOT}:{ROOT}"' in overrides
    assert "++ray_kwargs.ray_init.address=auto" in overrides
    assert not any("num_cpus" in x for x in overrides)


def test_dry_run_needs_neither_verl_nor_any_package(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # -S: no site-packages
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "PYTHON": str(bare), "DRY_RUN": "1"}
    done = subprocess.run(["bash", SINGLE], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "transfer_queue.backend.SimpleStorage.num_data_storage_units=1" in done.stdout  # 0.9.1 where nothing is installed


def test_further_overrides_come_last_and_replace_ours(dry_run):
    overrides = dry_run(SINGLE, "trainer.val_only=True", "+actor_rollout_ref.model.override_config.attn_implementation=eager")
    assert overrides[-2:] == ["trainer.val_only=True", "+actor_rollout_ref.model.override_config.attn_implementation=eager"]
    assert sum("actor_rollout_ref.model.override_config.attn" in x for x in overrides) == 1


def test_something_that_is_no_override_is_refused(tmp_path):
    done = subprocess.run(["bash", SINGLE, "--help"], env=script_environment(DRY_RUN="1"), capture_output=True, text=True)
    assert done.returncode != 0 and "option=value" in done.stderr and "Traceback" not in done.stderr


def test_a_version_that_is_no_version_is_refused():
    environment = script_environment(DRY_RUN="1", VERL_VERSION="latest")
    done = subprocess.run(["bash", SINGLE], env=environment, capture_output=True, text=True)
    assert done.returncode != 0 and "VERL_VERSION='latest'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "value",
    (
        "plain",
        "a b",
        "it's",
        "a,b",
        "x=y",
        "(1)",
        "back\\slash",
        "\\",
        "\\'",
        "ü ö",
        "${x} $y",
        "\\${x}",
        "[a] b",
        "{a}_b",
        "'a",
        '"',
    ),
)
def test_quoted_values_survive_hydra(value, verl_release):
    config = composed(verl_release("0.9.1"), [f"trainer.experiment_name={verl_options.quote(value)}"])
    assert config.trainer.experiment_name == value


def test_lists_stay_lists():
    assert verl_options.quote("[console,file]") == "[console,file]"


def test_every_change_names_an_option_of_the_release_that_has_it(verl_release, dry_run):
    """A row of CHANGES whose option no longer occurs in the scripts, or that a newer release lost, is dead."""
    written = {verl_options.split_override(x)[1] for x in dry_run(SINGLE, LORA_RANK="8", VERL_VERSION="0.9.1")}
    config = composed(verl_release("0.9.1"), dry_run(SINGLE, LORA_RANK="8", VERL_VERSION="0.9.1"))
    for _, name, _ in verl_options.CHANGES:
        assert name in written
        assert OmegaConf.select(config, name, default="missing") != "missing"
