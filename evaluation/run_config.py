"""What an evaluation takes from the run that made a checkpoint: its base model, its files and its limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunConfig:
    """Of a run's config.yaml; None or empty where there is none, or it does not say."""

    folder: Path | None = None
    model: str | None = None
    train_files: tuple[Path, ...] = ()
    val_file: Path | None = None
    max_prompt_length: int | None = None
    max_response_length: int | None = None
    temperature: float | None = None
    lora_alpha: int | None = None
    template_options: str = "{}"
    reward_options: str = "{}"


def find(checkpoint: Path) -> Path | None:
    """The config.yaml of the run folder that `checkpoint` is or lies in, at most three levels up (run/checkpoints/N/actor)."""
    checkpoint = checkpoint.expanduser().resolve()
    for folder in (checkpoint, *list(checkpoint.parents)[:3]):
        if (folder / "config.yaml").is_file() and (folder / "checkpoints").is_dir():
            return folder / "config.yaml"
    return None


def read(checkpoint: Path) -> RunConfig:
    """The settings of the run, as veRL composed them. Raises ValueError for a file that is no such configuration."""
    path = find(checkpoint)
    if path is None:
        return RunConfig()
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    def get(config: Any, *names: str) -> Any:
        found = [x for name in names if (x := OmegaConf.select(config, name)) is not None]
        return (
            OmegaConf.to_container(found[0], resolve=True) if found and OmegaConf.is_config(found[0]) else (found or [None])[0]
        )

    try:
        config = OmegaConf.load(path)
        # Both places of the reward: 0.9 moved it.
        reward = get(config, "reward.custom_reward_function.reward_kwargs", "custom_reward_function.reward_kwargs")
        val_files = files(get(config, "data.val_files"))
        return RunConfig(
            folder=path.parent,
            model=get(config, "actor_rollout_ref.model.path"),
            train_files=files(get(config, "data.train_files")),
            val_file=val_files[0] if len(val_files) == 1 else None,
            max_prompt_length=get(config, "data.max_prompt_length"),
            max_response_length=get(config, "data.max_response_length"),
            temperature=get(config, "actor_rollout_ref.rollout.temperature"),
            lora_alpha=get(config, "actor_rollout_ref.model.lora_alpha"),
            template_options=json.dumps(get(config, "data.apply_chat_template_kwargs") or {}),
            reward_options=json.dumps(reward or {}),
        )
    except (OSError, OmegaConfBaseException, YAMLError, ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read ({str(error).splitlines()[0]}): name MODEL_PATH and VAL_FILE.") from error


def files(value: Any) -> tuple[Path, ...]:
    names = [value] if isinstance(value, str) else value or []
    return tuple(Path(name).expanduser() for name in names)
