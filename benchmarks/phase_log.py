"""When veRL's trainer was in which phase of a step, for measurements that are taken beside it.

Loaded into veRL's processes by VERL_USE_EXTERNAL_MODULES=benchmarks.phase_log, after training.verl_patches. Each timer of the
trainer appends a line {"phase": name, "start": ..., "end": ...} (Unix seconds) to the file that PHASE_LOG names.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from training import verl_patches


def log_phases(module: ModuleType) -> None:
    """Let veRL's timers write down when they ran as well as how long."""
    original = module.marked_timer

    @contextlib.contextmanager
    def marked_timer(name: str, *arguments: Any, **keywords: Any) -> Iterator[None]:
        start = time.time()
        try:
            with original(name, *arguments, **keywords):
                yield
        finally:  # out of memory in this phase, say
            with open(os.environ["PHASE_LOG"], "a") as file:
                file.write(json.dumps({"phase": name, "start": start, "end": time.time()}) + "\n")

    module.marked_timer = marked_timer


for name in ("trainer_base", "trainer_sync"):
    verl_patches.PATCHES[f"verl.trainer.ppo.v1.{name}"] = log_phases
