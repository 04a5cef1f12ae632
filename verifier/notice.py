"""What is said to whoever watches the run, on stderr."""

from __future__ import annotations

import contextlib
import sys


def say(sentence: str) -> None:
    """Print a line. Where stderr is closed, full or without a reader nobody sees it, which is no reason to lose a score."""
    if sys.stderr is not None:  # print would take stdout instead
        with contextlib.suppress(OSError, ValueError):
            print(sentence, file=sys.stderr, flush=True)
