"""What veRL logs -> {step: {metric: value}}: the `file` logger's JSON lines or, where only those exist, TensorBoard's files.

A resumed run repeats steps. The later line wins: what an earlier start had logged beyond a repeated step is dropped.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

History = dict[int, dict[str, float]]


def add(history: History, step: object, data: object) -> None:
    """Add one line of the metrics file. null is NaN (veRL writes it so); what is no number is passed over."""
    if isinstance(step, bool) or not isinstance(step, int) or not isinstance(data, Mapping):
        return
    if history and step < next(reversed(history)):
        for later in [known for known in history if known > step]:
            del history[later]
    row = history.setdefault(step, {})
    for name, value in data.items():
        if value is None:
            row[name] = math.nan
        elif isinstance(value, float) or (isinstance(value, int) and abs(value) <= sys.float_info.max):
            row[name] = float(value)


def read_event_files(folder: Path) -> History:
    """The scalars of the TensorBoard event files in `folder`, in the order in which they were written.

    Raises ImportError where tensorboard is not installed.
    """
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}, purge_orphaned_data=False)
    events.Reload()
    scalars = [
        (event.wall_time, event.step, tag, event.value) for tag in events.Tags()["scalars"] for event in events.Scalars(tag)
    ]
    history: History = {}
    for step, group in groupby(sorted(scalars), key=lambda scalar: scalar[1]):
        add(history, step, {tag: value for _, _, tag, value in group})
    return history
