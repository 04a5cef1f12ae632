"""Each setting of the run script on its own: text where a number belongs, a number out of its range, a word that veRL lacks.

veRL takes all of them without a word and fails minutes later, in a traceback; so would the checks that calculate with them.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from training.finding import Finding


@dataclass(frozen=True)
class Rule:
    words: str  # what the value must be
    holds: Callable[[Any], bool]


def whole(least: int, words: str = "", null: bool = False) -> Rule:
    words = words or f"a whole number, {least} or more"
    return Rule(
        words + null * ", or null",
        lambda x: (null and x is None) or (isinstance(x, int) and not isinstance(x, bool) and x >= least),
    )


def number(words: str, holds: Callable[[float], bool]) -> Rule:
    return Rule(words, lambda x: isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) and holds(x))


COUNT, FREQUENCY = whole(1), whole(-1, "a number of steps, or -1 for never")
TRUE_OR_FALSE = Rule("True or False", lambda x: isinstance(x, bool))
POSITIVE = number("a number above 0", lambda x: x > 0)
NOT_NEGATIVE = number("a number, 0 or more", lambda x: x >= 0)
SHARE = number("a number above 0, at most 1", lambda x: 0 < x <= 1)

# The variable, veRL's option that it sets, what the value must be.
SETTINGS: tuple[tuple[str, str, Rule], ...] = (
    ("LORA_RANK", "actor_rollout_ref.model.lora_rank", whole(0)),
    ("LORA_ALPHA", "actor_rollout_ref.model.lora_alpha", COUNT),
    ("USE_REMOVE_PADDING", "actor_rollout_ref.model.use_remove_padding", TRUE_OR_FALSE),
    ("NNODES", "trainer.nnodes", COUNT),
    ("NDEVICES_PER_NODE", "trainer.n_gpus_per_node", COUNT),
    ("OFFLOAD", "actor_rollout_ref.actor.fsdp_config.param_offload", TRUE_OR_FALSE),
    ("MAX_TOKENS_PER_GPU", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu", COUNT),
    ("RAY_NUM_CPUS", "ray_kwargs.ray_init.num_cpus", whole(1, null=True)),
    ("MAX_PROMPT_LENGTH", "data.max_prompt_length", COUNT),
    ("MAX_RESPONSE_LENGTH", "data.max_response_length", COUNT),
    ("SEED", "data.seed", whole(0, null=True)),
    ("TRAIN_BATCH_SIZE", "data.train_batch_size", COUNT),
    ("PPO_MINI_BATCH_SIZE", "actor_rollout_ref.actor.ppo_mini_batch_size", COUNT),
    ("ACTOR_LR", "actor_rollout_ref.actor.optim.lr", NOT_NEGATIVE),
    ("CRITIC_LR", "critic.optim.lr", NOT_NEGATIVE),
    ("CLIP_RATIO", "actor_rollout_ref.actor.clip_ratio", POSITIVE),
    ("KL_COEF", "algorithm.kl_ctrl.kl_coef", NOT_NEGATIVE),
    ("ROLLOUT_TP", "actor_rollout_ref.rollout.tensor_model_parallel_size", COUNT),
    ("ROLLOUT_GPU_MEM_UTIL", "actor_rollout_ref.rollout.gpu_memory_utilization", SHARE),
    ("ROLLOUT_N", "actor_rollout_ref.rollout.n", COUNT),
    ("TEMPERATURE", "actor_rollout_ref.rollout.temperature", POSITIVE),
    ("ENFORCE_EAGER", "actor_rollout_ref.rollout.enforce_eager", TRUE_OR_FALSE),
    ("AGENT_WORKERS", "actor_rollout_ref.rollout.agent.num_workers", COUNT),
    ("REWARD_WORKERS", "reward.num_workers", COUNT),
    ("TOTAL_EPOCHS", "trainer.total_epochs", COUNT),
    ("TOTAL_TRAINING_STEPS", "trainer.total_training_steps", whole(1, null=True)),
    ("SAVE_FREQ", "trainer.save_freq", FREQUENCY),
    ("TEST_FREQ", "trainer.test_freq", FREQUENCY),
    ("VAL_BEFORE_TRAIN", "trainer.val_before_train", TRUE_OR_FALSE),
    ("MAX_CKPT_TO_KEEP", "trainer.max_actor_ckpt_to_keep", whole(1, null=True)),
)


def check_settings(config: Any) -> Iterator[Finding]:
    """Every value that the run script sets is one that veRL can work with; first the numbers, then the words."""
    from omegaconf import OmegaConf

    for variable, option, rule in SETTINGS:
        value = OmegaConf.select(config, option, default=...)
        if value is not ... and not rule.holds(value):
            yield Finding(f"{variable}={_shown(value)} must be {rule.words}.")
    share = os.environ.get("MAX_INTERNAL_ERRORS", "0.05")
    if not _is_share(share):
        yield Finding(f"MAX_INTERNAL_ERRORS={share} must be a share from 0 to 1.")
    yield from _check_words(config)


def _check_words(config: Any) -> Iterator[Finding]:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, AdvantageEstimator
    from verl.utils.tracking import Tracking

    attention = config.actor_rollout_ref.model.get("override_config", {}).get("attn_implementation", "eager")
    loggers = [config.trainer.logger] if isinstance(config.trainer.logger, str) else list(config.trainer.logger or ["null"])
    actor = config.actor_rollout_ref.actor
    strategies = [actor.strategy] if "fsdp_config" in actor else []  # another engine has another strategy
    estimators = {*(x.value for x in AdvantageEstimator), *map(str, ADV_ESTIMATOR_REGISTRY)}
    for variable, values, known in (
        ("ATTN_IMPLEMENTATION", [attention], {"eager", *(x for x in ALL_ATTENTION_FUNCTIONS.valid_keys() if "|" not in x)}),
        ("ACTOR_STRATEGY", strategies, {"fsdp", "fsdp2", "fsdp_turbo"}),
        ("ADV_ESTIMATOR", [config.algorithm.adv_estimator], estimators),
        ("RESUME_MODE", [config.trainer.resume_mode], {"auto", "disable", "resume_path"}),
        ("LOGGER", loggers, set(Tracking.supported_backend)),
    ):
        for value in values:
            if value not in known:
                yield Finding(f"{variable}={_shown(value)} is unknown: take one of {', '.join(sorted(known))}.")
    for name in ("wandb", "swanlab", "mlflow", "clearml", "trackio", "tensorboard"):
        if name in loggers and importlib.util.find_spec(name) is None:
            yield Finding(f"LOGGER names {name}, which is not installed: run pip install {name} or leave it out.")


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
