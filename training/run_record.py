"""What a run needs to be repeated: the exact command, the composed configuration, the versions.

    python3 -m training.run_record OVERRIDE...      prints the environment and the command of such a run, as DRY_RUN=1 does

That much needs the standard library only.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.verl_options import command

# Variables that steer the run without being an override; all others are the run script's settings, already in the command.
ENVIRONMENT = ("CODE_REWARD_", "REWARD_LOG", "VERL_", "VLLM_", "HF_", "CUDA_VISIBLE_DEVICES", "TENSORBOARD_", "PYTHONPATH")
SECRETS = ("TOKEN", "KEY", "SECRET", "PASSWORD")
PACKAGES = (
    *("verl", "torch", "vllm", "flash-attn", "transformers", "ray", "tensordict", "TransferQueue", "peft"),
    *("datasets", "numpy", "pandas", "pyarrow", "evalscope"),
)


def versions() -> str:
    """One "name version" a line: Python, the system, this repository's commit, the GPU driver, the packages."""
    lines = [f"python {platform.python_version()}", f"system {platform.platform()}"]
    root = Path(__file__).resolve().parent.parent
    for name, arguments in (
        ("commit", ["git", "-C", str(root), "describe", "--always", "--dirty"]),
        ("gpu", ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]),
    ):
        try:
            output = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=30).stdout
            lines += [f"{name} {line}" for line in output.strip().splitlines()]
        except (OSError, subprocess.SubprocessError):
            lines.append(f"{name} unknown")
    for name in PACKAGES:
        try:
            lines.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name} not installed")
    return "\n".join(lines) + "\n"


def commands(overrides: Sequence[str]) -> str:
    """The environment that steers the run and the command that starts it, ready to be pasted into a shell."""
    kept = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(ENVIRONMENT) and not any(word in name for word in SECRETS)
    }
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in kept.items())
    return f"{exports}{command(overrides)}\n"


def write(run_dir: Path, overrides: Sequence[str], config: Any) -> None:
    """Write command.sh, config.yaml and versions.txt into run_dir; those of an earlier start get the next free number."""
    from omegaconf import OmegaConf

    run_dir.mkdir(parents=True, exist_ok=True)
    record = {
        "command.sh": f"#!/usr/bin/env bash\nset -euo pipefail\ncd {shlex.quote(os.getcwd())}\n{commands(overrides)}",
        "config.yaml": OmegaConf.to_yaml(config, resolve=False),
        "versions.txt": versions(),
    }
    number = 1
    while any((run_dir / f"{name}.{number}").exists() for name in record):
        number += 1
    for name, text in record.items():
        path = run_dir / name
        if path.exists() and path.read_text() != text:
            path.rename(f"{path}.{number}")
        new = path.with_name(f".{name}.new")
        new.write_text(text)
        new.rename(path)


if __name__ == "__main__":
    print(commands(sys.argv[1:]), end="")
