"""Removes what a test leaves behind: processes that slipped out of its process group, and its folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 5.0


def kill(pid: int, mark: str) -> None:
    """Kill the descendants of `pid` that have left its process group, until none is found (or for PATIENCE seconds).

    They are known by `mark`, a NAME=value that stands in their environment. `pid` must not have been waited for yet, so
    that its number cannot have been given to another process.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = False
        for other in _born_after(pid):
            with contextlib.suppress(OSError):
                if mark.encode() in Path(f"/proc/{other}/environ").read_bytes().split(b"\0"):
                    os.kill(other, signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.001)
    print("code_reward: a program's processes multiply faster than they can be killed", file=sys.stderr)


def _born_after(pid: int) -> Iterator[int]:
    """The processes that may be younger than `pid`. Mostly none, and then this costs one read."""
    with open("/proc/loadavg", "rb") as loadavg:
        newest = int(loadavg.read().split()[-1])  # the number given out last; they are given out in turn
    if pid <= newest <= pid + 200:
        yield from range(pid + 1, newest + 1)
    else:
        yield from (int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != pid)


def remove(folder: str) -> None:
    """Remove the folder, whatever a program has made of it: closed, full, or deeper than Python can follow."""
    with contextlib.suppress(OSError):
        os.unlink(f"{folder}/main.py")
        os.rmdir(folder)
        return
    for command in (("rm", "-rf"), ("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        with contextlib.suppress(OSError):
            subprocess.run([*command, folder], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if not os.path.lexists(folder):
            return
    print(f"code_reward: cannot remove {folder}, which a program left behind", file=sys.stderr)
