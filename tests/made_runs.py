"""Run directories made for the tests of monitoring/: veRL's files in their own format, with curves of our choosing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESPONSES = 20  # a batch; shares of it are exact in steps of 0.05
START = 1_800_000_000.0
TESTS = 10

# What a healthy run of forty steps logs: figure -> value at a step. Training learns the format first, then to write code.
HEALTHY: dict[str, Callable[[int], float | None]] = {
    "critic/score/mean": lambda step: min(0.8, 0.05 + 0.03 * step),
    "actor/reward_kl_penalty": lambda step: 0.002 * step,
    "actor/entropy": lambda step: 0.5 * 0.995**step,
    "actor/pg_loss": lambda step: 0.02 * (-1) ** step,
    "critic/vf_loss": lambda step: 0.3 / step,
    "critic/vf_explained_var": lambda step: min(0.6, step / 40),
    "response_length/mean": lambda step: 200.0 + step % 3,
    "response_length/clip_ratio": lambda step: 0.1,
    "timing_s/gen": lambda step: 5.0,
    "timing_s/update_actor": lambda step: 2.0,
    "timing_s/step": lambda step: 8.0,
}
# And its reward log: shares of the responses of a step.
HEALTHY_LOG: dict[str, Callable[[int], float]] = {
    "pass_rate": HEALTHY["critic/score/mean"],
    "format": lambda step: min(1.0, 0.4 + 0.05 * step),
    "TLE": lambda step: 0.02,
    "IE": lambda step: 0.0,
}


def metrics_lines(steps: range, changed: Mapping[str, Callable[[int], float | None]] | None = None) -> list[str]:
    """Lines of veRL's file logger; a validation every fifth step."""
    lines = []
    for step in steps:
        data = {name: curve(step) for name, curve in {**HEALTHY, **(changed or {})}.items()}
        if step % 5 == 0:
            for source, less in (("taco", 0.0), ("codeforces", 0.1)):
                rate = max(0.0, HEALTHY_LOG["pass_rate"](step) - less)
                data[f"val-core/{source}/acc/mean@1"] = rate / 2
                data[f"val-aux/{source}/pass_rate/mean@1"] = rate
        lines.append(json.dumps({"step": step, "data": data}))
    return lines


def log_lines(step: int, changed: Mapping[str, Callable[[int], float]] | None = None, **fields: Any) -> list[str]:
    """The reward log's lines of one training step, `RESPONSES` of them."""
    shares = {name: curve(step) for name, curve in {**HEALTHY_LOG, **(changed or {})}.items()}
    lines = []
    for i in range(RESPONSES):
        passed, slow = shares["pass_rate"] * TESTS, shares["TLE"] * TESTS
        verdicts = {"AC": passed, "TLE": slow, "WA": TESTS - passed - slow}
        if i < round(shares["IE"] * RESPONSES):
            verdicts = {"IE": 1}
        record = {
            "time": START + 30.0 * step + 0.1 * i,
            "step": step,
            "split": "train",
            "data_source": ("taco", "codeforces")[i % 2],
            "index": i,
            "score": shares["pass_rate"],
            "pass_rate": shares["pass_rate"],
            "format": float(i < round(shares["format"] * RESPONSES)),
            "acc": 0.0,
            "verdicts": verdicts,
            "tests": TESTS,
            "tests_not_run": 0,
            "wall_seconds": 0.05,
            "queue_seconds": 0.01,
            "code_sha256": hashlib.sha256(f"{step}-{i}".encode()).hexdigest()[:16],
        }
        lines.append(json.dumps({**record, **fields}))
    return lines


def write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def make(
    folder: Path,
    steps: int = 40,
    metrics: Mapping[str, Callable[[int], float | None]] | None = None,
    log: Mapping[str, Callable[[int], float]] | None = None,
) -> Path:
    """A run directory: a healthy run but for the curves in `metrics` and `log`."""
    write(folder / "metrics.jsonl", metrics_lines(range(1, steps + 1), metrics))
    write(folder / "reward_log" / "host-1.jsonl", [line for step in range(1, steps + 1) for line in log_lines(step, log)])
    return folder
