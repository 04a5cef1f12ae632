"""How a file or a folder is named on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path


def path(text: str) -> Path:
    """As a type of argparse. An empty text, as of a variable that is not set, would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path; name a file or a folder")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"{text}: no home folder is known here; give a path without ~") from None
