"""A run as it goes on, a line a step.

    [Step 6]  train | reward/score=0.12 | reward/pass_rate=0.12 | reward/format=0.45 | kl=0.002 | step=8.5s
    [Step 10] val   | reward/score=0.14 | reward/pass_rate=0.14 | reward/acc=0.03 | reward/format=0.52 | data_source=taco

A warning has a line of its own, when it begins to hold.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator

from monitoring.curves import Curve, Curves, Name, curves
from monitoring.health import findings
from monitoring.reward_log import TRAIN, VALIDATION
from monitoring.run import Run, logged_bytes, read
from monitoring.text import one_line

POLL_SECONDS = 2.0
NO_CURVE = Curve((), ())
SHOWN = ("score", "pass_rate", "acc", "format")


def step_lines(found: Curves, step: int) -> list[str]:
    """The lines of one step: training's, and one for each data source that was validated, of the figures that are known."""
    lines = []
    train = _reward(found, step, TRAIN, "") + [
        f"{figure}={value:.3f}" for figure in ("kl", "entropy") if (value := _at(found, Name(figure), step)) is not None
    ]
    if train:
        train += [
            f"{label}={seconds:.1f}s"
            for label, figure in (("step", "step_seconds"), ("reward_wait", "reward_wait"))
            if (seconds := _at(found, Name(figure), step)) is not None
        ]
        lines.append(_line(step, "train", train))
    sources = sorted({name.source for name in found if name.split == VALIDATION and name.source})
    for source in sources:
        validation = _reward(found, step, VALIDATION, source)
        if validation:
            lines.append(_line(step, "val", [*validation, *([f"data_source={one_line(source)}"] if len(sources) > 1 else [])]))
    return lines


def summary(found: Curves) -> str:
    """Where the time of the steps went, in the median, without the first, which warms caches up; "" where none is known."""
    step, gen, wait, tests = (
        _after_first(found, name) for name in ("step_seconds", "seconds/gen", "reward_wait", "tests_per_second")
    )
    if not step:
        return ""
    parts = [f"[Steps {min(step)}-{max(step)}]", f"{statistics.median(step.values()):.1f}s a step"]
    if gen:
        parts.append(f"gen={statistics.median(gen.values()):.1f}s")
    if timed := wait.keys() & step.keys():
        share = sum(wait[each] for each in timed) / sum(step[each] for each in timed)
        parts.append(f"reward_wait={statistics.median(wait.values()):.1f}s, {share:.1%} of the time")
    if tests:
        parts.append(f"{statistics.median(tests.values()):,.0f} tests judged a second")
    return " | ".join(parts)


def follow(run: Run, wait: Callable[[float], None] = time.sleep, once: bool = False) -> Iterator[str]:
    """Yield the lines of the steps so far and then of each new one, and each warning when it begins to hold.

    Ends with the steps so far and their summary if `once`, else never.
    """
    seen = -1
    printed: dict[int, str] = {}  # step -> what was known of it; a resumed run repeats steps
    warned: set[str] = set()
    while True:
        if (size := logged_bytes(run)) != seen:
            seen = size
            read(run, final=False)
            found = curves(run)
            rows = {step: repr(row) for step, row in run.metrics.items()}
            for step, row in sorted(rows.items()):
                if printed.get(step) != row:
                    yield from step_lines(found, step)
            printed = rows
            if once and (line := summary(found)):
                yield line
            now = [finding for finding in findings(found) if not finding.over]
            yield from (f"[warning] {finding.line()}" for finding in now if finding.rule not in warned)
            warned = {finding.rule for finding in now}
        if once:
            return
        wait(POLL_SECONDS)


def _reward(found: Curves, step: int, split: str, source: str) -> list[str]:
    values = [(figure, _at(found, Name(figure, split, source), step)) for figure in SHOWN]
    return [f"reward/{figure}={value:.2f}" for figure, value in values if value is not None]


def _after_first(found: Curves, figure: str) -> dict[int, float]:
    """A figure's training values by step, finite, without the run's first step where there are others."""
    curve = found.get(Name(figure), NO_CURVE)
    values = {step: value for step, value in zip(curve.steps, curve.values, strict=True) if math.isfinite(value)}
    return {step: value for step, value in values.items() if step > 1} or values


def _at(found: Curves, name: Name, step: int) -> float | None:
    curve = found.get(name)
    return dict(zip(curve.steps, curve.values, strict=True)).get(step) if curve else None


def _line(step: int, kind: str, parts: list[str]) -> str:
    return " | ".join([f"{f'[Step {step}]':<9} {kind:<5}", *parts])
