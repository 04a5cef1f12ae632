"""The page: curves, warnings and samples in one file that needs nothing else, no network and no script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from monitoring import draw
from monitoring.curves import Curves, Name
from monitoring.health import Finding
from monitoring.panels import VERDICTS, Panel
from monitoring.phases import Phase
from monitoring.reward_log import TRAIN, VALIDATION
from monitoring.samples import Sample
from monitoring.text import cut, one_line, visible

TEMPLATE = Path(__file__).with_name("page.html.jinja")
LONGEST, LONGEST_NAME = 4000, 80  # characters of one text of a sample, and of a name
SUMMARY = (
    ("reward", "score", TRAIN),
    ("pass rate", "pass_rate", TRAIN),
    ("format", "format", TRAIN),
    ("validation pass rate", "pass_rate", VALIDATION),
    ("validation, all tests passed", "acc", VALIDATION),
    ("KL", "kl", TRAIN),
    ("response length", "length", TRAIN),
    ("seconds a step", "step_seconds", TRAIN),
)


def html(
    runs: Sequence[tuple[str, Curves]],
    panels: Sequence[Panel],
    phases: Sequence[Phase],
    warnings: Sequence[tuple[str, Finding]],
    samples: Sequence[tuple[int, Sequence[Sample], int]],
) -> str:
    """The whole page. `warnings` name their run; `samples` are steps, what is shown of each, and how many there are.

    Jinja escapes everything but the charts, and matplotlib escapes the labels in those.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(shown=_shown, name=_name, figure=_figure)
    template = environment.from_string(TEMPLATE.read_text())
    steps = draw.span(panels)
    page = template.render(
        title=" and ".join(name for name, _ in runs),
        summary=[(name, _summary(curves)) for name, curves in runs],
        panels=[(panel, Markup(draw.svg(panel, phases, steps))) for panel in panels],
        phases=phases,
        warnings=warnings,
        samples=samples,
        verdicts=VERDICTS,
        colours=draw.COLOURS,
    )
    return visible(page)


def _summary(curves: Curves) -> list[tuple[str, str, str, int]]:
    """(what, first value, last value, step of the last) of the figures that are known."""
    rows = []
    for label, figure, split in SUMMARY:
        curve = curves.get(Name(figure, split))
        points = [(s, v) for s, v in zip(curve.steps, curve.values, strict=True) if math.isfinite(v)] if curve else []
        if points:
            rows.append((label, _figure(points[0][1]), _figure(points[-1][1]), points[-1][0]))
    return rows


def _shown(text: Any) -> str:
    return cut(visible(text), LONGEST)


def _name(text: Any) -> str:
    return one_line(text, LONGEST_NAME)


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
