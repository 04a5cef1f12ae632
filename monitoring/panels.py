"""What is drawn, panel by panel: the one list that the PNG and the page share."""

from __future__ import annotations

from dataclasses import dataclass

from monitoring.curves import PARTS, Curve, Curves, Name
from monitoring.reward_log import TRAIN, VALIDATION

MOST_SOURCES = 8  # lines in one panel that can still be told apart


@dataclass(frozen=True)
class Line:
    label: str
    curve: Curve
    colour: int = 0  # its place in the palette
    dashed: bool = False  # validation


@dataclass(frozen=True)
class Panel:
    """Lines over the steps, or with `stacked` layers that add up. `low` and `high` bound the axis where they are given."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    stacked: bool = False
    phases: bool = False  # whether they are marked
    low: float | None = None
    high: float | None = None


VERDICTS = {
    "AC": "passed",
    "WA": "wrong answer",
    "RE": "runtime error",
    "CE": "compile error",
    "TLE": "time limit",
    "MLE": "memory limit",
    "OLE": "output limit",
    "DE": "data error",
    "IE": "internal error",
}


@dataclass(frozen=True)
class Overlaid:
    """A panel in which several runs are laid over each other."""

    title: str
    unit: str
    figure: str
    validation: bool = False  # its curve too
    low: float | None = None
    high: float | None = None


REWARD = (
    Overlaid("Reward", "mean of the batch", "score", validation=True),
    Overlaid("Pass rate", "share of the tests", "pass_rate", validation=True, low=0.0, high=1.0),
    Overlaid("All tests passed", "share of the responses", "acc", validation=True, low=0.0, high=1.0),
    Overlaid("Format", "share in a Python block", "format", validation=True, low=0.0, high=1.0),
)
TRAINING = (
    Overlaid("KL to the reference", "nats a token", "kl"),
    Overlaid("Entropy", "nats a token", "entropy"),
    Overlaid("Actor loss", "", "actor_loss"),
    Overlaid("Critic loss", "", "critic_loss"),
    Overlaid("Explained variance of the critic", "1 is perfect", "explained_variance", low=-1.0, high=1.0),
    Overlaid("Response length", "tokens", "length"),
    Overlaid("Clip ratio", "share cut by the length limit", "clip_ratio", low=0.0, high=1.0),
    Overlaid("Groups with one score", "share of the groups", "groups_alike", low=0.0, high=1.0),
)
SPEED = (
    Overlaid("Tests judged", "a second", "tests_per_second", low=0.0),
    Overlaid("Queue time", "seconds a response", "queue_seconds", low=0.0),
    Overlaid("Waiting for the reward", "seconds a step, after its last response came", "reward_wait", low=0.0),
)


def panels(runs: list[tuple[str, Curves]]) -> list[Panel]:
    """The panels that have data. What can be laid over each other is, one colour a run; the rest is drawn run by run."""
    each = [(curves, f" ({name})" if len(runs) > 1 else "") for name, curves in runs]
    return [
        *_overlaid(runs, REWARD),
        *(panel for curves, suffix in each for panel in (*_verdicts(curves, suffix), *_by_source(curves, suffix))),
        *_overlaid(runs, TRAINING),
        *(panel for curves, suffix in each for panel in _seconds(curves, suffix)),
        *_overlaid(runs, SPEED),
    ]


def _overlaid(runs: list[tuple[str, Curves]], table: tuple[Overlaid, ...]) -> list[Panel]:
    found = []
    for each in table:
        lines = tuple(line for run in range(len(runs)) for line in _lines(runs, run, each))
        if lines:
            marked = each.validation and len(runs) == 1  # the phases are those of reward, pass rate and format
            found.append(Panel(each.title, each.unit, lines, phases=marked, low=each.low, high=each.high))
    return found


def _lines(runs: list[tuple[str, Curves]], run: int, panel: Overlaid) -> list[Line]:
    name, curves = runs[run]
    lines = []
    for split in (TRAIN, VALIDATION) if panel.validation else (TRAIN,):
        curve = curves.get(Name(panel.figure, split))
        if curve:
            dashed = split == VALIDATION
            if len(runs) == 1:
                lines.append(Line(split, curve, int(dashed), dashed))
            else:
                lines.append(Line(f"{name}, {split}" if panel.validation else name, curve, run, dashed))
    return lines


def _by_source(curves: Curves, suffix: str) -> list[Panel]:
    found = []
    for figure, title in (("pass_rate", "Pass rate"), ("acc", "All tests passed"), ("score", "Reward")):
        for split in (TRAIN, VALIDATION):
            sources = sorted(name.source for name in curves if name[:2] == (figure, split) and name.source)
            if len(sources) < 2 or (figure == "score" and Name("pass_rate", split) in curves):
                continue
            shown = sorted(sources, key=lambda source: -len(curves[Name(figure, split, source)].steps))[:MOST_SOURCES]
            dashed = split == VALIDATION
            lines = tuple(Line(each, curves[Name(figure, split, each)], i, dashed) for i, each in enumerate(sorted(shown)))
            rest = f", {len(shown)} of {len(sources)} sources" if len(shown) < len(sources) else ""
            found.append(Panel(f"{title} by source, {split}{suffix}", f"share{rest}", lines, low=0.0, high=1.0))
    return found


def _verdicts(curves: Curves, suffix: str) -> list[Panel]:
    found = []
    for split in (TRAIN, VALIDATION):
        layers = _layers(curves, split, {f"share/{verdict}": label for verdict, label in VERDICTS.items()})
        if any(layer.label != VERDICTS["AC"] for layer in layers):
            title = f"How tests ended, {split}{suffix}"
            found.append(Panel(title, "share of the tests", layers, stacked=True, low=0.0, high=1.0))
    return found


def _seconds(curves: Curves, suffix: str) -> list[Panel]:
    parts = _layers(curves, TRAIN, {f"seconds/{part}": part.replace("_", " ") for part in (*PARTS, "other")})
    return [Panel(f"Seconds a step{suffix}", "seconds", parts, stacked=True, low=0.0)] if parts else []


def _layers(curves: Curves, split: str, labels: dict[str, str]) -> tuple[Line, ...]:
    """The layers that are not 0 all the time."""
    found = {figure: curves.get(Name(figure, split)) for figure in labels}
    return tuple(Line(labels[figure], curve) for figure, curve in found.items() if curve and any(curve.values))
