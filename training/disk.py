"""A full disk: how it is seen, and what to do about it."""

from __future__ import annotations

import os
import re
from pathlib import Path

FULL_BYTES = 32 << 20  # less is a full disk: a checkpoint takes more
# What a training prints that meets it: the words for ENOSPC and EDQUOT, and those of torch's writer of checkpoints, which names
# no reason. Neither a quota nor another disk (Ray's, under /tmp) shows in the free space of RUN_DIR.
MET = re.compile(r"no space left|disk quota exceeded|unexpected pos \d|PytorchStreamWriter failed writing", re.IGNORECASE)
REMEDY = (
    "free space there, lower MAX_CKPT_TO_KEEP, or copy the folder to a larger disk and set RUN_DIR to it; "
    "started again, the run goes on from its last whole checkpoint"
)
AROUND = re.compile(r"\x1b\[[\d;]*m|\(\w+ pid=[^)]*\)| ?\[repeated \d+x .*")  # what Ray puts around a worker's line
LONGEST = 300  # characters


def full(folder: Path) -> str:
    """Which disk has no space left for the run in `folder`, "" while there is some.

    Raises:
        OSError: the folder is gone, or its disk does not answer.
    """
    stats = os.statvfs(folder)
    free = stats.f_bavail * stats.f_frsize
    if free < FULL_BYTES:
        return f"no space left on the disk of {folder} ({free >> 20} MiB are free)"
    if stats.f_files and not stats.f_favail:  # no number at all where files have no limit of their own
        return f"no space left on the disk of {folder} (all its {stats.f_files} inodes are in use, so it takes no more files)"
    return ""


def last_met(output: bytes) -> str:
    """The last line of a training's output that tells of a full disk, without what Ray puts around it; "" if none does."""
    lines = [line for line in output.decode(errors="replace").splitlines() if MET.search(line)]
    return AROUND.sub("", lines[-1]).strip()[:LONGEST] if lines else ""


def with_remedy(words: str) -> str:
    """A sentence without its full stop, and what to do where it tells of a full disk."""
    return f"{words}: {REMEDY}" if MET.search(words) else words
