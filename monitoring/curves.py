"""A run -> its curves under names of our own, whatever the release of veRL calls the metric.

A curve is known by figure, split and data source; the source "" stands for all of them together.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from monitoring.reward_log import NUMBERS, TRAIN, VALIDATION, Batch, Judged
from monitoring.run import SHARES, Run

# figure -> veRL's names for it in releases 0.5 to 0.9; the first that a line has counts. pg_loss is the loss without its
# entropy and KL terms.
METRICS = {
    "score": ("critic/score/mean",),
    "kl": ("actor/reward_kl_penalty", "actor/kl_loss"),
    "entropy": ("actor/entropy", "actor/entropy_loss"),
    "actor_loss": ("actor/pg_loss", "actor/loss"),
    "critic_loss": ("critic/vf_loss", "critic/loss"),
    "explained_variance": ("critic/vf_explained_var",),
    "length": ("response_length/mean",),
    "clip_ratio": ("response_length/clip_ratio",),
    "step_seconds": ("timing_s/step", "perf/time_per_step"),
}
# The parts of a step in their order; other timers lie within one of these.
PARTS = (
    *("gen", "reward", "old_log_prob", "ref", "values", "adv", "update_critic", "update_actor", "update_weights"),
    *("save_checkpoint", "testing"),
)
VALIDATION_METRIC = re.compile(r"val-(?:core|aux)/(.+)/([^/]+)/mean@(\d+)")


class Name(NamedTuple):
    figure: str
    split: str = TRAIN
    source: str = ""


@dataclass(frozen=True)
class Curve:
    """Values by step, steps rising. A value may be NaN where veRL logged that."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


Curves = dict[Name, Curve]


def curves(run: Run) -> Curves:
    """Everything that is known of the run. What veRL logged goes before what the reward log gives for the same name."""
    points: dict[Name, dict[int, float]] = defaultdict(dict)
    for batch, judged in _finished(run).items():
        for figure, value in figures(judged).items():
            points[Name(figure, batch.split, batch.data_source)][batch.step] = value
    for (split, step), judged in _all_sources(run).items():
        for figure, value in figures(judged).items():
            points[Name(figure, split)][step] = value
    for step, row in run.metrics.items():
        for name, value in logged(row).items():
            points[name][step] = value
    result = {name: _curve(steps) for name, steps in sorted(points.items())}
    return {**result, **_mean_of_sources(result)}


def pick(curves: Curves, *figures: str) -> Curve:
    """The training curve of the first of these figures that has one, else the validation curve; empty without either."""
    for name in (*(Name(figure) for figure in figures), *(Name(figure, VALIDATION) for figure in figures)):
        if name in curves:
            return curves[name]
    return Curve((), ())


def logged(row: dict[str, float]) -> dict[Name, float]:
    """What one line of the metrics file says."""
    found = {}
    for figure, names in METRICS.items():
        metric = next((metric for metric in names if metric in row), None)
        if metric is not None:
            found[Name(figure)] = row[metric]
    for part, seconds in parts_of_step(row).items():
        found[Name(f"seconds/{part}")] = seconds
    for metric, value in row.items():
        match = VALIDATION_METRIC.fullmatch(metric)
        if not match:
            continue
        source, name, _ = match.groups()
        if name in NUMBERS:
            found[Name(name, VALIDATION, source)] = value
        elif name == "reward":  # the score's name where the reward function returns no dictionary
            found.setdefault(Name("score", VALIDATION, source), value)
        if name in SHARES:
            found[Name(f"share/{SHARES[name]}", VALIDATION, source)] = value
    return found


def parts_of_step(row: dict[str, float]) -> dict[str, float]:
    """Seconds of each part of a step; "other" is what veRL's timer of the whole step has beyond them."""
    parts = {part: row[f"timing_s/{part}"] for part in PARTS if math.isfinite(row.get(f"timing_s/{part}", math.nan))}
    whole = next((row[name] for name in METRICS["step_seconds"] if name in row), None)
    if not parts or whole is None:
        return parts
    inside = sum(parts.values())
    if inside > whole:  # validation comes after the step's timer has stopped (0.9), or before (0.8)
        inside -= parts.get("testing", 0.0)
    return {**parts, "other": max(0.0, whole - inside)}


def figures(judged: Judged) -> dict[str, float]:
    """The means of a batch of judged responses."""
    found = {name: judged.numbers[name] / judged.known[name] for name in NUMBERS if judged.known[name]}
    if judged.with_verdicts:
        found |= {f"share/{v}": judged.shares[v] / judged.with_verdicts for v in SHARES.values()}
    if judged.ended > judged.began:
        found["tests_per_second"] = judged.tests_run / (judged.ended - judged.began)
        found["reward_wait"] = judged.ended - judged.came
    if judged.queued:
        found["queue_seconds"] = judged.queue_seconds / judged.queued
    groups = [(low, high) for responses, low, high in judged.groups.values() if responses > 1]
    if len(groups) > len(judged.groups) / 2:  # several responses a prompt, and not two rows that share an index by chance
        found["groups_alike"] = sum(low == high for low, high in groups) / len(groups)
    return found


def _finished(run: Run) -> dict[Batch, Judged]:
    """Without the step that is under way, whose batch is judged in part."""
    return {batch: judged for batch, judged in run.judged.items() if not run.metrics or batch.step <= run.last_step}


def _all_sources(run: Run) -> dict[tuple[str, int], Judged]:
    sums: dict[tuple[str, int], Judged] = defaultdict(Judged)
    for batch, judged in _finished(run).items():
        sums[batch.split, batch.step].merge(judged)
    return sums


def _mean_of_sources(found: Curves) -> Curves:
    """Validation over all sources where only each one's is known, as in runs without a reward log."""
    by_figure: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, curve in found.items():
        if name.split == VALIDATION and name.source and Name(name.figure, VALIDATION) not in found:
            for step, value in zip(curve.steps, curve.values, strict=True):
                by_figure[name.figure][step].append(value)
    return {
        Name(figure, VALIDATION): _curve({step: sum(values) / len(values) for step, values in by_step.items()})
        for figure, by_step in by_figure.items()
    }


def _curve(points: dict[int, float]) -> Curve:
    steps = tuple(sorted(points))
    return Curve(steps, tuple(points[step] for step in steps))
