"""The table as a picture: base and trained beside each other, the interval of the difference below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evaluation.table import Row

BASE, TRAINED, REFERENCE = "#9aa5b1", "#1f6fb4", "#b4531f"
BAR = 0.38  # of the distance between two benchmarks


def draw(rows: Sequence[Row], published: Mapping[str, tuple[float, float]], path: Path) -> None:
    """Write a PNG, complete or not at all. `published`: {benchmark: (before, after)}, drawn as marks, not as bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.4, 1.5 * len(rows) + 2), 6.4), layout="constrained")
    scores, differences = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    places = range(len(rows))
    for shift, color, label, values in (
        (-BAR / 2, BASE, "base", [x.base for x in rows]),
        (BAR / 2, TRAINED, "trained", [x.trained for x in rows]),
    ):
        bars = scores.bar([place + shift for place in places], values, BAR, color=color, label=label)
        scores.bar_label(bars, fmt="%.3f", fontsize=8, padding=2)
    label: str | None = "published for a 7B model,\nnot measured here"
    for place, x in enumerate(rows):
        for shift, value in zip((-BAR / 2, BAR / 2), published.get(x.name, ()), strict=False):
            if x.metric in ("pass@1", "accuracy"):
                ends = (place + shift - BAR / 2, place + shift + BAR / 2)
                scores.hlines(value, *ends, colors=REFERENCE, linestyles="dashed", label=label)
                label = None
    scores.set_ylim(0, 1.05)
    scores.set_ylabel("score")
    figure.legend(loc="outside upper right", ncols=3, fontsize=8)  # inside it could hide a line

    errors = [[x.difference - x.low for x in rows], [x.high - x.difference for x in rows]]
    errors = [[max(0.0, value) for value in side] for side in errors]
    differences.errorbar(list(places), [x.difference for x in rows], errors, fmt="o", color=TRAINED, capsize=4)
    differences.axhline(0, color="black", linewidth=0.8)
    differences.set_ylabel("trained - base, 95%")
    differences.set_xticks(list(places), [f"{x.name}\n{x.metric}, problems: {x.problems}" for x in rows], fontsize=8)
    differences.tick_params(axis="x", rotation=30 if len(rows) > 4 else 0)
    differences.set_xlim(-0.6, len(rows) - 0.4)
    new = path.with_name(f".{path.name}.new")
    figure.savefig(new, format="png", dpi=120)
    new.rename(path)
