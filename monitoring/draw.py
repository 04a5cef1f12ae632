"""Panels -> one PNG, or one SVG each for the page."""

from __future__ import annotations

import html
import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator

from monitoring.panels import Line, Panel
from monitoring.phases import Phase, smoothed
from monitoring.text import one_line

# Of middle lightness, so that they can be told from white and from black: the page has both grounds.
COLOURS = ("#3b82f6", "#e8710a", "#2f9e44", "#e03131", "#9c5fe0", "#0c9aa8", "#d6409f", "#a0703c", "#868e96")
LAYER_COLOURS = {
    "passed": "#2f9e44",
    "wrong answer": "#e8a20a",
    "runtime error": "#e8710a",
    "compile error": "#e03131",
    "time limit": "#9c5fe0",
    "memory limit": "#3b82f6",
    "output limit": "#0c9aa8",
    "data error": "#868e96",
    "internal error": "#d6409f",
    "gen": "#3b82f6",
    "reward": "#e03131",
    "old log prob": "#e8a20a",
    "ref": "#a0703c",
    "values": "#9c5fe0",
    "adv": "#2f9e44",
    "update critic": "#0c9aa8",
    "update actor": "#d6409f",
    "update weights": "#e8710a",
    "save checkpoint": "#5c6bc0",
    "testing": "#868e96",
    "other": "#b8bec5",
}
INK, GRID = "#010203", "#040506"  # in an SVG these two stand for the page's own colours
PANEL_INCHES = (4.4, 3.0)
COLUMNS = 4
LONGEST_LABEL, LONGEST_TITLE = 40, 56  # characters
MOST_LAYER_POINTS = 300  # of a stack; more are drawn as means of as many steps as it takes
MANY = 60  # points, above which a curve is drawn thin with its moving mean on top, and bars become areas

STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.facecolor": "none",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": GRID,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # a dollar sign in a name begins no formula
    "svg.fonttype": "none",
    "svg.hashsalt": "curves",
    "figure.constrained_layout.h_pad": 0.06,
}


def png(panels: Sequence[Panel], phases: Sequence[Phase], heading: str, notes: Sequence[str], path: Path) -> None:
    """Write all panels as one picture; `notes` are lines below the heading."""
    colours = {INK: "#1f2328", GRID: "#d0d7de"}
    style = {key: colours.get(value, value) if isinstance(value, str) else value for key, value in STYLE.items()}
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    lines = [line for note in notes for line in textwrap.wrap(one_line(note), LONGEST_LABEL * columns)]
    steps = span(panels)
    top = 0.55 + 0.2 * len(lines)  # inches
    with _drawing(style):
        height = rows * PANEL_INCHES[1] + top
        figure = Figure(figsize=(columns * PANEL_INCHES[0], height), layout="constrained", facecolor="white")
        head, body = figure.subfigures(2, 1, height_ratios=(top, height - top))
        head.text(0.01, 0.95, one_line(heading, LONGEST_LABEL * columns), fontsize=14, fontweight="bold", va="top")
        head.text(0.01, 1 - 0.42 / top, "\n".join(lines), fontsize=9, va="top")
        cells = body.subfigures(rows, columns, squeeze=False).flat
        for panel, cell in zip(panels, cells, strict=False):
            _draw(cell, panel, phases, steps)
        figure.savefig(path, format="png", dpi=110)


def span(panels: Sequence[Panel]) -> tuple[int, int]:
    """The first and the last step of all panels: their common axis."""
    steps = [step for panel in panels for line in panel.lines for step in (line.curve.steps[0], line.curve.steps[-1])]
    return min(steps), max(steps)


def svg(panel: Panel, phases: Sequence[Phase], steps: tuple[int, int]) -> str:
    """The panel over these steps as an <svg> element, in the page's colours (currentColor and --grid) and font."""
    with _drawing(STYLE):
        figure = Figure(figsize=PANEL_INCHES, layout="constrained")
        figure.patch.set_alpha(0.0)
        _draw(figure, panel, phases, steps)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    element = text[text.index("<svg") :]
    for size in ("width", "height"):  # the page gives the width, the viewBox the proportions
        element = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", element, count=1)
    element = element.replace("<svg", f'<svg role="img" aria-label="{html.escape(one_line(panel.title))}"', 1)
    element = re.sub(r"font: (?:bold )?([\d.]+px)[^;\"]*", r"font-size: \1; font-family: inherit", element)
    return element.replace(INK, "currentColor").replace(GRID, "var(--grid)")


@contextmanager
def _drawing(style: Mapping[str, Any]) -> Iterator[None]:
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in a script that the font lacks: boxes
        yield


def _draw(figure: FigureBase, panel: Panel, phases: Sequence[Phase], steps: tuple[int, int]) -> None:
    axes = figure.subplots()
    axes.set_title(one_line(panel.title, LONGEST_TITLE))
    axes.set_ylabel(panel.unit)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    if panel.stacked:
        _stack(axes, panel.lines)
    else:
        for line in panel.lines:
            _line(axes, line)
    if panel.phases:
        _mark(axes, phases)
    _bound(axes, panel)
    room = max(0.5, 0.02 * (steps[1] - steps[0]))
    axes.set_xlim(steps[0] - room, steps[1] + room)
    handles = axes.get_legend_handles_labels()[0]
    if len(handles) > 1 or any(line.dashed for line in panel.lines):
        labels = [one_line(line.label, LONGEST_LABEL) for line in panel.lines]
        columns = 4 if panel.stacked else 2
        figure.legend(handles, labels, loc="outside lower left", ncols=columns, columnspacing=1.0, handlelength=1.4)


def _line(axes: Axes, line: Line) -> None:
    colour = COLOURS[line.colour % len(COLOURS)]
    style = {"color": colour, "linestyle": "--" if line.dashed else "-", "label": "line"}
    curve = line.curve
    if len(curve.steps) > MANY:
        axes.plot(curve.steps, curve.values, color=colour, alpha=0.3, linewidth=0.7)
        curve = smoothed(curve, max(5, len(curve.steps) // 30), fmean)
        axes.plot(curve.steps, curve.values, linewidth=1.6, **style)
    else:
        axes.plot(curve.steps, curve.values, linewidth=1.4, marker="s" if line.dashed else "o", markersize=2.6, **style)


def _stack(axes: Axes, layers: Sequence[Line]) -> None:
    steps = sorted({step for layer in layers for step in layer.curve.steps})
    rows = []
    for layer in layers:
        values = {s: v for s, v in zip(layer.curve.steps, layer.curve.values, strict=True) if math.isfinite(v)}
        rows.append([values.get(step, 0.0) for step in steps])
    size = math.ceil(len(steps) / MOST_LAYER_POINTS)
    rows = [[fmean(row[i : i + size]) for i in range(0, len(row), size)] for row in rows]
    steps = steps[::size]
    colours = [LAYER_COLOURS[layer.label] for layer in layers]
    if len(steps) > MANY:
        axes.stackplot(steps, rows, colors=colours, labels=["layer"] * len(rows), step="mid", linewidth=0)
        return
    width = 0.85 * min((b - a for a, b in pairwise(steps)), default=1)
    below = [0.0] * len(steps)
    for row, colour in zip(rows, colours, strict=True):
        axes.bar(steps, row, width, below, color=colour, linewidth=0, label="layer")
        below = [a + b for a, b in zip(below, row, strict=True)]


def _mark(axes: Axes, phases: Sequence[Phase]) -> None:
    """A band for each phase, every other one shaded, with its number at the top."""
    ink = matplotlib.rcParams["text.color"]
    for phase in phases:
        axes.axvspan(phase.first, phase.last, color=ink, alpha=0.04 + 0.06 * (phase.number % 2), linewidth=0)
        place = (phase.first, 0.99)
        axes.text(*place, f" {phase.number}", transform=axes.get_xaxis_transform(), va="top", fontsize=9, fontweight="bold")


def _bound(axes: Axes, panel: Panel) -> None:
    """The axis from `low` to `high`, with a little room; what lies outside is cut off, and that is said."""
    if panel.low is None:
        return
    values = [v for line in panel.lines for v in line.curve.values if math.isfinite(v)]
    room = 0.03 * ((panel.high if panel.high is not None else max(values, default=1.0)) - panel.low)
    axes.set_ylim(bottom=panel.low - (0 if panel.stacked else room))
    if panel.high is not None:
        axes.set_ylim(top=panel.high + room)
    below = sum(value < panel.low for value in values)
    if below:
        axes.set_xlabel(f"{below} of {len(values)} values below {panel.low:g} (lowest {min(values):.3g})", loc="left")
