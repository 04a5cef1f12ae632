"""Samples in the terminal, through the pager where there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Console, Group
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from monitoring.panels import VERDICTS
from monitoring.samples import Sample
from monitoring.text import cut, one_line, visible

LONGEST = 3000  # characters of one text


def show_samples(samples: Sequence[Sample], console: Console) -> None:
    """Print each sample: prompt, response, program, verdicts and the first failing test."""
    os.environ.setdefault("LESS", "-R")  # colours; everything else in the samples is made visible before it gets there
    if console.is_terminal:
        with console.pager(styles=True):
            _print(samples, console)
    else:
        _print(samples, console)


def _print(samples: Sequence[Sample], console: Console) -> None:
    for number, sample in enumerate(samples, 1):
        console.print(_sample(sample, f"{number} of {len(samples)}"))


def _sample(sample: Sample, place: str) -> Group:
    colour = "green" if sample.score >= 1 else "red" if sample.score <= 0 else "yellow"
    counts = [f"{count:g} {VERDICTS.get(verdict, verdict)}" for verdict, count in sample.verdicts.items()]
    numbers = [f"{name} {value:.2f}" for name, value in sample.numbers.items()]
    parts = [
        Rule(Text(f"step {sample.step} {sample.split}, {place}: score {sample.score:.2f}", style=f"bold {colour}")),
        Text(one_line(", ".join(filter(None, [sample.where, *numbers, *counts])), LONGEST)),
        _box("prompt", sample.prompt, "dim"),
        _box("response", sample.response),
    ]
    if sample.program.strip():
        program = Syntax(_fit(sample.program), "python", theme="ansi_dark", word_wrap=True, background_color="default")
        parts.append(Panel(program, title=_title(f"program ({sample.block})"), title_align="left"))
    failure = sample.failure
    if failure:
        verdict = VERDICTS.get(failure.verdict, failure.verdict)
        parts.append(Text(one_line(f"test {failure.index}: {verdict}: {failure.detail}"), style=colour))
        for name, text in (("input", failure.stdin), ("expected", failure.expected), ("actual", failure.actual)):
            if text is not None:
                parts.append(_box(name, text))
    return Group(*parts, Text())


def _box(title: str, text: str, style: str = "") -> Panel:
    return Panel(Text(_fit(text), style=style), title=_title(title), title_align="left")


def _title(text: str) -> Text:
    return Text(one_line(text))


def _fit(text: str) -> str:
    return cut(visible(text), LONGEST)
