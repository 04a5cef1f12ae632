"""What would ruin a run, said before it takes any GPU time.

    python3 -m training.preflight RUN_DIR OVERRIDE...

Composes the configuration as veRL's main_ppo will, checks it against the files, the installed packages and this machine,
and proves that veRL's own loader returns a reward that tells right from wrong. Each finding is one sentence with its remedy.
Exit code 1 if one of them would stop or spoil the run; otherwise RUN_DIR gets the record that reproduces it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from training import cluster_check, machine_check, resume, run_record, settings_check
from training.finding import Finding
from training.verl_options import installed_version, parse_version

# main_ppo of 0.9 imports these, and pip's plain `verl` does not bring them.
MAIN_PPO_IMPORTS = ("transfer_queue", "cachetools", "uvicorn", "fastapi")
MANAGERS = ("naive", "dapo")
WHY_NOT = {
    "prime": "calls float() on its dict",
    "batch": "hands it a whole batch where it takes one response",
    "rate_limited": "gives 0 to whatever takes longer than a limit of its own, and to what raises",
    "remote": "asks Ray for REWARD_WORKERS squared CPUs and waits for them for ever",
}
RIGHT = "```python\nprint(sum(map(int, input().split())))\n```"
WRONG = "```python\nprint('no answer')\n```"
SUM_TESTS = '{"inputs": ["1 2\\n", "3 4\\n"], "outputs": ["3\\n", "7\\n"]}'


def compose(overrides: Sequence[str]) -> Any:
    """veRL's configuration (an OmegaConf DictConfig) under these overrides, moved to the new reward names where needed.

    Raises:
        hydra.errors.HydraException: an option that this release does not know.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra_compose("ppo_trainer", overrides=list(overrides))
    if (0, 7) <= parse_version(installed_version() or "0") < (0, 9):  # as these releases' main_ppo does
        from verl.experimental.reward_loop import migrate_legacy_reward_impl

        config = migrate_legacy_reward_impl(config)
    return config


def data_files(config: Any) -> dict[str, list[str]]:
    """{"training": [...], "validation": [...]}: the paths, with ~ expanded as veRL does it."""
    named = {"training": config.data.train_files, "validation": config.data.val_files}
    return {
        kind: [os.path.expanduser(x) for x in ([files] if isinstance(files, str) else files)] for kind, files in named.items()
    }


def check_files(config: Any) -> Iterator[Finding]:
    """The parquet files are there, with veRL's columns, and their prompts are messages."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    prompt_key = config.data.prompt_key
    for kind, paths in data_files(config).items():
        for path in paths:
            if os.path.isdir(path):
                variable = "TRAIN_FILE" if kind == "training" else "VAL_FILE"
                yield Finding(
                    f"{path} is a folder: name the {kind} files in it, {variable}='[{path}/a.parquet,{path}/b.parquet]'."
                )
                continue
            if patterns := sorted(set("*?[") & set(path)):
                yield Finding(
                    f"{path} holds {' and '.join(patterns)}, which the datasets library reads as a pattern: rename it."
                )
                continue
            if not os.path.isfile(path):
                yield Finding(f"The {kind} file {path} does not exist: make it with prepare_data.py or set the path.")
                continue
            if not path.endswith(".parquet"):
                yield Finding(f"The name of the {kind} file {path} does not end in .parquet: make one with prepare_data.py.")
                continue
            try:
                metadata = pq.read_metadata(path)
                schema = metadata.schema.to_arrow_schema()
            except (pa.ArrowException, OSError):
                yield Finding(f"The {kind} file {path} is not readable as parquet: make it anew with prepare_data.py.")
                continue
            if not metadata.num_rows:
                yield Finding(f"The {kind} file {path} has no rows: make it anew with prepare_data.py.")
                continue
            missing = [x for x in (prompt_key, "data_source", "reward_model") if x not in schema.names]
            if missing:
                yield Finding(f"{path} has no column {', '.join(missing)}: make the file with prepare_data.py.")
                continue
            if pa.types.is_string(schema.field(prompt_key).type) or pa.types.is_large_string(schema.field(prompt_key).type):
                yield Finding(
                    f"The prompts in {path} are plain strings, which the chat template silently drops: "
                    "make the file with prepare_data.py, which writes lists of messages."
                )
            reward_model = schema.field("reward_model").type
            if not (pa.types.is_struct(reward_model) and reward_model.get_field_index("ground_truth") >= 0):
                yield Finding(f"reward_model in {path} has no ground_truth: make the file with prepare_data.py.")


def check_arithmetic(config: Any) -> Iterator[Finding]:
    """Batches, mini batches, GPUs and lengths fit together."""
    actor, rollout, data = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout, config.data
    gpus = config.trainer.n_gpus_per_node * config.trainer.nnodes
    batch, mini = data.train_batch_size, actor.ppo_mini_batch_size
    if batch % mini:
        yield Finding(f"TRAIN_BATCH_SIZE={batch} is not a multiple of PPO_MINI_BATCH_SIZE={mini}: make it one.")
    if batch * rollout.n % gpus:
        yield Finding(
            f"TRAIN_BATCH_SIZE x ROLLOUT_N = {batch * rollout.n} responses cannot be shared evenly by {gpus} GPUs: "
            "make it a multiple."
        )
    if mini * rollout.n % gpus:
        yield Finding(f"PPO_MINI_BATCH_SIZE={mini} cannot be shared evenly by {gpus} GPUs: make it a multiple.")
    if gpus % rollout.tensor_model_parallel_size:
        yield Finding(f"ROLLOUT_TP={rollout.tensor_model_parallel_size} does not divide {gpus} GPUs: lower it.")
    longest = data.max_prompt_length + data.max_response_length
    if actor.use_dynamic_bsz and actor.ppo_max_token_len_per_gpu < longest:
        yield Finding(
            f"MAX_TOKENS_PER_GPU={actor.ppo_max_token_len_per_gpu} holds no full sample of {longest} tokens: raise it."
        )
    if config.algorithm.adv_estimator == "grpo" and rollout.n < 2:
        yield Finding("GRPO compares the responses to one prompt, and ROLLOUT_N=1 gives it one: set ROLLOUT_N=5 or so.")
    manager = config.get("reward", config.reward_model)
    name = manager.reward_manager if isinstance(manager.reward_manager, str) else manager.reward_manager.name
    if name not in MANAGERS:
        why = WHY_NOT.get(name, "was not tried with it")
        yield Finding(f"The reward manager {name} does not suit this reward, it {why}: use naive or dapo.")


def check_packages(config: Any) -> Iterator[Finding]:
    """What main_ppo will import is installed."""
    needed = list(MAIN_PPO_IMPORTS) if parse_version(installed_version() or "0") >= (0, 9) else []
    if config.actor_rollout_ref.rollout.name == "vllm":
        needed.append("vllm")
    missing = [x for x in needed if importlib.util.find_spec(x) is None]
    if missing:
        yield Finding(f"Missing packages: {', '.join(missing)}. Install them with pip install -r requirements.txt.")
    attention = config.actor_rollout_ref.model.get("override_config", {}).get("attn_implementation")
    if attention == "flash_attention_2" and importlib.util.find_spec("flash_attn") is None:
        yield Finding("flash-attn is asked for but not installed: run make flash-attn or set ATTN_IMPLEMENTATION=sdpa.")


def check_reward(config: Any) -> Iterator[Finding]:
    """veRL's own loader returns a reward function, and it tells a right program from a wrong one."""
    from verl.trainer.ppo.reward import get_custom_reward_fn

    path = config.get("reward", config).custom_reward_function.path
    if not path:
        yield Finding(
            "The reward is not wired: veRL would score with its built-in default. Set "
            "reward.custom_reward_function.path and .name, as the run scripts do."
        )
        return
    try:
        compute_score = get_custom_reward_fn(config)
    except Exception as error:
        yield Finding(f"veRL cannot load the reward from {path} ({first_cause(error)}): set REWARD_FILE to a file that it can.")
        return
    scores = []
    for response in (RIGHT, WRONG):
        try:
            with without_reward_log():
                result = compute_score(
                    data_source="preflight", solution_str=response, ground_truth=SUM_TESTS, extra_info={"index": 0}
                )
        except Exception as error:
            yield Finding(f"The reward in {path} raises {type(error).__name__}: {error}. veRL would drop such samples.")
            return
        if isinstance(result, dict) and result.get("internal_error"):
            yield Finding(f"The verifier cannot run programs here, for the reason above: see python3 {path} --isolation.")
            return
        scores.append(float(result["score"] if isinstance(result, dict) else result))
    if not scores[0] > scores[1]:
        yield Finding(f"The reward gives a right program {scores[0]:g} and a wrong one {scores[1]:g}: run python3 {path}.")
        return
    test = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300, check=False)
    if test.returncode:
        tail = (test.stdout + test.stderr).strip().splitlines()[-1:] or ["no output"]
        yield Finding(f"The reward's self-test fails ({tail[0]}): run python3 {path} and mend what it names.")


@contextlib.contextmanager
def without_reward_log() -> Iterator[None]:
    """The log holds what a run judged, and these are no responses of its model."""
    folder = os.environ.pop("CODE_REWARD_LOG_DIR", None)
    try:
        yield
    finally:
        if folder is not None:
            os.environ["CODE_REWARD_LOG_DIR"] = folder


def check_prompts(config: Any) -> Iterator[Finding]:
    """The prompts survive the model's chat template, and enough rows are left for a batch."""
    from verl.utils import hf_tokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    model = config.actor_rollout_ref.model.path
    try:
        tokenizer = hf_tokenizer(model)
    except Exception as error:
        yield Finding(
            f"The tokenizer of {model} cannot be loaded ({first_cause(error)}): set MODEL_PATH to a model or its folder."
        )
        return
    if not tokenizer.encode("print(1)", add_special_tokens=False):  # what transformers 5 makes where there is none
        yield Finding(f"{model} holds no tokenizer: set MODEL_PATH to a whole model.")
        return
    if not tokenizer.chat_template:
        yield Finding(f"{model} has no chat template: take an instruct model.")
        return
    yield from check_vocabulary(config, len(tokenizer))
    rows = {}
    for kind, paths in data_files(config).items():
        try:
            data = RLHFDataset(data_files=paths, tokenizer=tokenizer, config=config.data)
        except Exception as error:  # whatever the datasets library raises for files that it cannot read, or put together
            yield Finding(f"veRL cannot read the {kind} data ({first_cause(error)}): make the files with prepare_data.py.")
            return
        rows[kind] = len(data)
        for row in data.dataframe.select(range(min(8, len(data)))):
            messages = row[config.data.prompt_key]
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            lost = [m["content"][:60] for m in messages if not m["content"].strip() or m["content"].strip() not in text]
            if lost:
                yield Finding(f"The chat template of {model} loses the {kind} message {lost[0]!r}: check the prompts.")
                break
    batch, trainer = config.data.train_batch_size, config.trainer
    limit = config.data.max_prompt_length
    if rows["training"] < batch:
        yield Finding(
            f"{rows['training']} training rows have prompts of at most {limit} tokens and one batch takes {batch}: "
            "lower TRAIN_BATCH_SIZE, raise MAX_PROMPT_LENGTH or take a larger TRAIN_FILE."
        )
        return
    if rows["validation"] == 0:
        yield Finding(f"No validation row has a prompt of at most {limit} tokens: raise MAX_PROMPT_LENGTH.")
    steps = rows["training"] // batch * trainer.total_epochs
    if trainer.total_training_steps and trainer.total_training_steps > steps:
        epochs = -(-trainer.total_training_steps // (rows["training"] // batch))
        yield Finding(
            f"TOTAL_TRAINING_STEPS={trainer.total_training_steps}, but the epochs end after {steps} steps, without a last "
            f"checkpoint and validation: set TOTAL_EPOCHS={epochs}."
        )


def check_vocabulary(config: Any, words: int) -> Iterator[Finding]:
    """The critic reads what the model writes; a word that it has no place for ends a GPU run without saying why."""
    from transformers import AutoConfig
    from verl.trainer.ppo.utils import need_critic

    if not need_critic(config):
        return
    critic = config.critic.model.path
    with contextlib.suppress(OSError, ValueError):  # check_models says that it cannot be loaded
        known = AutoConfig.from_pretrained(critic).get_text_config().vocab_size
        if known < words:
            yield Finding(
                f"CRITIC_MODEL_PATH={critic} knows {known:,} words and the tokenizer of MODEL_PATH has {words:,}: "
                "take a critic of the model's own family."
            )


def check_models(config: Any) -> Iterator[Finding]:
    """Actor and critic can be loaded, and vLLM can share the actor's attention heads among the GPUs of one engine."""
    from transformers import AutoConfig
    from verl.trainer.ppo.utils import need_critic

    rollout, actor = config.actor_rollout_ref.rollout, str(config.actor_rollout_ref.model.path)
    models = {"MODEL_PATH": actor}
    if need_critic(config) and config.critic.model.path != actor:
        models["CRITIC_MODEL_PATH"] = str(config.critic.model.path)
    for variable, path in models.items():
        if os.path.isabs(path) and not os.path.isdir(path):
            yield Finding(f"{variable}={path} does not exist: set it to a model's folder or hub name.")
            continue
        try:
            heads = getattr(AutoConfig.from_pretrained(path), "num_attention_heads", 0)
        except (OSError, ValueError) as error:
            yield Finding(f"{variable}={path} cannot be loaded ({first_cause(error)}): set it to a model's folder or hub name.")
            continue
        if os.path.isdir(path) and not any(x.endswith((".safetensors", ".bin")) for x in os.listdir(path)):
            yield Finding(
                f"{variable}={path} holds no weights (*.safetensors or *.bin): set it to a model's folder or hub name."
            )
        elif path == actor and heads % rollout.tensor_model_parallel_size:
            yield Finding(
                f"ROLLOUT_TP={rollout.tensor_model_parallel_size} does not divide the {heads} attention heads of {path}: "
                "set it to a number that does."
            )


def check_verl(config: Any) -> Iterator[Finding]:
    """veRL's own validation of the configuration."""
    if parse_version(installed_version() or "0") < (0, 7):
        return
    from hydra.errors import HydraException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    try:
        validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    except (AssertionError, ValueError, HydraException) as error:
        yield Finding(f"veRL refuses the configuration: {first_cause(error)}")


def first_cause(error: BaseException) -> str:
    """The first line of what an exception was raised for; libraries wrap it in their own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def findings(config: Any, run_dir: Path) -> Iterator[Finding]:
    """All findings, cheap checks first; later checks are left out where earlier ones make them meaningless."""
    stages: tuple[tuple[Callable[[], Iterator[Finding]], ...], ...] = (
        (lambda: settings_check.check_settings(config),),
        (
            lambda: check_files(config),
            lambda: check_arithmetic(config),
            lambda: check_packages(config),
            lambda: check_models(config),
        ),
        (
            lambda: check_reward(config),
            lambda: machine_check.check_machine(config, run_dir),
            lambda: check_prompts(config),
        ),
        (lambda: check_verl(config), lambda: machine_check.check_resume(config, run_dir)),
        (lambda: cluster_check.check_cluster(config),),
    )
    for stage in stages:
        fatal = False
        for check in stage:
            for finding in check():
                fatal |= finding.fatal
                yield finding
        if fatal:
            return


def main(arguments: Sequence[str]) -> int:
    run_dir, overrides = Path(arguments[0]), list(arguments[1:])
    version, wanted = installed_version(), os.environ.get("VERL_VERSION")
    if version is None:
        print("pre-flight: veRL is not installed: run pip install -r requirements.txt.", file=sys.stderr)
        return 1
    if wanted and wanted != version:
        text = f"VERL_VERSION={wanted}, but veRL {version} is installed: unset it or install that release."
        print(f"pre-flight: {text}", file=sys.stderr)
        return 1
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        config = compose(overrides)
        OmegaConf.to_container(config, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        print(f"pre-flight: veRL {version} cannot take an option: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    fatal = False
    for finding in findings(config, run_dir):
        fatal |= finding.fatal
        print(f"pre-flight: {'' if finding.fatal else 'warning: '}{finding.text}", file=sys.stderr, flush=True)
    if fatal:
        return 1
    found = resume.find(config)
    try:
        moved = resume.prepare(run_dir, found)
        run_record.write(run_dir, overrides, config)
    except OSError as error:  # a quota, say, which no check has seen
        print(f"pre-flight: {run_dir} cannot be written ({error.strerror}): free space or set RUN_DIR.", file=sys.stderr)
        return 1
    if found.step:
        print(f"pre-flight: the run goes on after step {found.step}", flush=True)
    if moved:
        print(f"pre-flight: what an earlier start left of later steps is in {run_dir / resume.REPLACED}", flush=True)
    print(f"pre-flight: all checks passed; the run writes to {run_dir}", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # Ctrl-C, which needs no traceback
        sys.exit(130)
