"""A command with everything that it starts, however deep, and the end of all of it.

Ray, vLLM and the reward's fork servers start processes that outlive their parents, some in sessions of their own. This
process takes them in when they are orphaned, so whatever is still there is below it and can be found.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from verifier import linux


def take(log: BinaryIO) -> bool:
    """Whether this process may write to the run of this log; it holds it until it ends. False: another one does."""
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, out of the terminal's reach for Ctrl-C; its stdout and stderr come through one pipe.

    If this process is killed, the command gets SIGTERM.
    """
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_before_the_command,
    )


def _before_the_command() -> None:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and so would all that it starts


def below() -> list[int]:
    """All processes below this one, but for zombies."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(path.parent.name))
    found = [os.getpid()]
    for pid in found:  # grows as it goes
        found += children.get(pid, [])
    return found[1:]


def kill_all(patience: float = 10.0) -> None:
    """Kill what is left below this process, for so many seconds at most. Its command must have been waited for."""
    until = time.monotonic() + patience
    while (left := below()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
