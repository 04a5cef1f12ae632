"""Option names of the veRL release that will run.

The run scripts are written in veRL 0.9.1's names. Older releases lack some options and call others differently, and Hydra
refuses a name it does not know; so each difference is one row of CHANGES, and `translate` applies those that the release
needs. 0.7.1, 0.8.0 and 0.9.1 are supported; 0.5.0 and 0.6.1 compose.

    python3 -m training.verl_options OVERRIDE... -- USER_OVERRIDE...     prints the merged overrides, one a line
    python3 -m training.verl_options --attention                        prints the attention that the run should use

Standard library only: DRY_RUN works where neither veRL nor Hydra is installed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence

DEFAULT_VERSION = "0.9.1"

Version = tuple[int, ...]
Rewrite = Callable[[str], str | None]  # an override's value -> the new override, or None to leave it out


def _rename(name: str) -> Rewrite:
    return lambda value: f"{name}={value}"


def _drop(value: str) -> None:
    return None


def _with_flash_attn(name: str) -> Rewrite:
    """Their code that removes padding imports flash-attn, with whatever attention."""
    return lambda value: f"{name}={value if attention() == 'flash_attention_2' else False}"


def _without_file_logger(value: str) -> str:
    loggers = [x for x in value.strip("[]").split(",") if x != "file"]
    return f"trainer.logger=[{','.join(loggers)}]"


# (first release that knows the option as written, option without + or ~, what older releases get instead).
# Read from each release's own configuration; tests/test_verl_options.py composes the result under every one of them.
CHANGES: tuple[tuple[Version, str, Rewrite], ...] = (
    ((0, 9), "transfer_queue.backend.SimpleStorage.num_data_storage_units", _drop),
    ((0, 9), "actor_rollout_ref.model.use_remove_padding", _with_flash_attn("actor_rollout_ref.model.use_remove_padding")),
    ((0, 9), "critic.model.use_remove_padding", _with_flash_attn("critic.model.use_remove_padding")),
    ((0, 8), "critic.fsdp.param_offload", _rename("critic.model.fsdp_config.param_offload")),
    ((0, 8), "critic.fsdp.optimizer_offload", _rename("critic.model.fsdp_config.optimizer_offload")),
    # Before merged weights could be sent, vLLM loaded the base model itself and took the adapter beside it.
    ((0, 8), "actor_rollout_ref.model.lora.merge", lambda _: "actor_rollout_ref.rollout.load_format=safetensors"),
    ((0, 7), "actor_rollout_ref.rollout.mode", _drop),  # sync was the default, and the path that the reward took
    ((0, 7), "critic.ppo_infer_max_token_len_per_gpu", _drop),
    ((0, 7), "data.return_raw_chat", _drop),
    ((0, 7), "reward.custom_reward_function.path", _drop),
    ((0, 7), "reward.custom_reward_function.name", _drop),
    ((0, 7), "reward.num_workers", _drop),
    ((0, 7), "reward.reward_manager.name", _rename("reward_model.reward_manager")),
    ((0, 6), "data.seed", _drop),
    ((0, 6), "trainer.logger", _without_file_logger),
    ((0, 6), "ray_kwargs.ray_init.num_cpus", _rename("ray_init.num_cpus")),
    ((0, 6), "ray_kwargs.ray_init.include_dashboard", _drop),
    ((0, 6), "ray_kwargs.ray_init.address", _drop),
)


def installed_version() -> str | None:
    """The installed veRL release, e.g. "0.9.1", or None."""
    try:
        return importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        return None


def target_version() -> str:
    """The release whose names are used: VERL_VERSION, else the installed one, else 0.9.1."""
    return os.environ.get("VERL_VERSION") or installed_version() or DEFAULT_VERSION


def parse_version(text: str) -> Version:
    """ "0.9.1" -> (0, 9, 1); suffixes such as ".post1" or "rc2" do not count.

    Raises:
        ValueError: the text does not start with a release number.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", text.strip())
    if not match:
        raise ValueError(f"VERL_VERSION={text!r} is not a release number; write it like {DEFAULT_VERSION}.")
    return tuple(int(part) for part in match[1].split("."))


def attention() -> str:
    """flash_attention_2 where flash-attn is installed, else PyTorch's own attention."""
    return "flash_attention_2" if importlib.util.find_spec("flash_attn") else "sdpa"


def split_override(override: str) -> tuple[str, str, str]:
    """ "++a.b=1" -> ("++", "a.b", "1").

    Raises:
        ValueError: not an override at all (no "=" and no leading "~").
    """
    match = re.match(r"(\+\+|\+|~|)([^=]*)(?:=(.*))?\Z", override, re.DOTALL)
    assert match is not None  # every string matches
    prefix, name, value = match.groups()
    if not name or (value is None and prefix != "~"):
        raise ValueError(f"{override!r} is not a veRL override; write it as option=value.")
    return prefix, name, value or ""


def quote(value: str) -> str:
    """A value as Hydra's grammar wants it: paths with blanks, commas or "=" go into quotes, lists stay lists."""
    if re.fullmatch(r"\[.*\]|\{.*\}|\".*\"|'.*'|[\w./:@%+*?|-]*", value, re.DOTALL):
        return value
    value = re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + "\\${", value)  # no reference to another option
    # Between quotes Hydra reads a backslash as itself, but for those that stand before a quote.
    escaped = re.sub(r"(\\*)('|\Z)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value)
    return f"'{escaped}'"


def translate(overrides: Sequence[str], version: str) -> list[str]:
    """The same settings in the names of that release.

    Args:
        overrides: "option=value" in 0.9.1's names, with or without Hydra's + and ++.
        version: e.g. "0.8.0".
    """
    target = parse_version(version)
    changes = {name: rewrite for since, name, rewrite in CHANGES if target < since}
    result = []
    for override in overrides:
        prefix, name, value = split_override(override)
        value = quote(value)
        if name in changes:
            rewritten = changes[name](value)
            if rewritten is not None:
                result.append(rewritten)
        else:
            result.append(f"{prefix}{name}={value}")
    return result


def both_reward_names(overrides: Sequence[str]) -> list[str]:
    """Give each override of the custom reward under its old and its new name.

    0.9.1 reads only the new name. 0.7.1 and 0.8.0 read the old one where both are there, so an option under the new name
    alone (reward_kwargs, say) would be lost. Releases before 0.7 read the old one and let the new one pass.
    """
    old, new = "custom_reward_function.", "reward.custom_reward_function."
    result = []
    for override in overrides:
        _, name, value = split_override(override)
        key = name.removeprefix(new) if name.startswith(new) else name.removeprefix(old) if name.startswith(old) else None
        result += [override] if key is None else [f"++{old}{key}={value}", f"++{new}{key}={value}"]
    return result


def merge(ours: Sequence[str], users: Sequence[str]) -> list[str]:
    """Ours, then the user's, which win.

    A user's "+option" or "~option" would clash with ours of the same name, so ours gives way to it; a plain "option=value"
    simply comes later, and the last one counts.
    """
    users = both_reward_names(users)
    replaced = {name for prefix, name, _ in map(split_override, users) if prefix in ("+", "~")}
    return [x for x in ours if split_override(x)[1] not in replaced] + list(users)


def command(overrides: Sequence[str]) -> str:
    """The command that starts the training, one override a line, quoted for the shell."""
    start = f"{shlex.quote(os.environ.get('PYTHON', 'python3'))} -m verl.trainer.main_ppo"
    return " \\\n    ".join([start, *map(shlex.quote, overrides)])


def main(arguments: Sequence[str]) -> None:
    if arguments == ["--attention"]:
        print(attention())
        return
    ours, users = list(arguments), []
    if "--" in ours:
        cut = ours.index("--")
        ours, users = ours[:cut], ours[cut + 1 :]
    try:
        print("\n".join(merge(translate(ours, target_version()), users)))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
