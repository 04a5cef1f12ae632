"""The three phases of such a run, where its curves show them.

1. learning the format: the format curve starts below 0.8, and reaches 0.9; the phase ends where it does.
2. learning to write code: the pass rate rises by 0.1 or more over the run; until it has 90% of that rise.
3. diminishing returns: from there on, if at least five steps and a fifth of the run are left, so that a run that is still
   rising when it ends has no third phase.

Both curves are medians of five steps, so that one good batch starts nothing. A phase that the rule does not find is not marked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from monitoring.curves import Curve, Curves, pick

FORMAT_LEARNED, FORMAT_LOW = 0.9, 0.8
RISE, MOST_OF_IT = 0.1, 0.9
PLATEAU_STEPS, PLATEAU_SHARE = 5, 0.2
WINDOW = 5


class Phase(NamedTuple):
    number: int
    label: str
    first: int  # steps, both included
    last: int


def phases(curves: Curves) -> list[Phase]:
    """The phases that the run shows, in order."""
    rate = smoothed(pick(curves, "pass_rate", "score"))
    found = []
    start = rate.steps[0] if rate.steps else 0
    learned = _format_learned(smoothed(pick(curves, "format")))
    if learned is not None:
        found.append(Phase(1, "learning the format", learned[0], learned[1]))
        start = learned[1]
    if len(rate.steps) < WINDOW or max(rate.values) - rate.values[0] < RISE:
        return found
    end = rate.steps[-1]
    goal = rate.values[0] + MOST_OF_IT * (max(rate.values) - rate.values[0])
    reached = next(step for step, value in zip(rate.steps, rate.values, strict=True) if value >= goal)
    left = sum(step > reached for step in rate.steps)
    plateau = left >= max(PLATEAU_STEPS, PLATEAU_SHARE * len(rate.steps))
    if reached > start or not plateau:
        found.append(Phase(2, "learning to write code", start, reached if plateau else end))
    if plateau:
        found.append(Phase(3, "diminishing returns", max(reached, start), end))
    return found


def smoothed(curve: Curve, window: int = WINDOW, middle: Callable[[Sequence[float]], float] = median) -> Curve:
    """The middle of `window` points around each, fewer at the ends; points that are not finite are left out."""
    points = [(s, v) for s, v in zip(curve.steps, curve.values, strict=True) if math.isfinite(v)]
    values, half = [value for _, value in points], window // 2
    middles = [middle(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]
    return Curve(tuple(step for step, _ in points), tuple(middles))


def _format_learned(form: Curve) -> tuple[int, int] | None:
    if not form.values or form.values[0] >= FORMAT_LOW:
        return None
    reached = next((step for step, value in zip(form.steps, form.values, strict=True) if value >= FORMAT_LEARNED), None)
    return None if reached is None else (form.steps[0], reached)
