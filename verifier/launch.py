"""How the trainer's process starts the interpreter of the fork server: by exec, with nothing of its own in it.

Never by a plain fork (the trainer may hold gigabytes, threads and a GPU), and without touching the trainer's
environment, signal handlers, limits or working directory.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forkserver.py")


def numpy_parent() -> str | None:
    """The folder that numpy would be imported from, or None where it is not installed."""
    try:
        found = importlib.util.find_spec("numpy")
    except (ImportError, ValueError):
        return None
    return os.path.dirname(os.path.dirname(found.origin)) if found and found.origin else None


def command(task: str, *details: object) -> list[str]:
    """-S: no site, whose .pth files cost time and run foreign code. Not -I, which would ignore PYTHONHASHSEED.

    The last word is for those who look at a list of processes.
    """
    return [sys.executable, "-S", "-s", "-B", SERVER, task, json.dumps(details), f"for-process-{os.getpid()}"]


def environment() -> dict[str, str]:
    """All that a program finds in os.environ, and what some interpreters need to start (removed once they have)."""
    fixed = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "OMP_NUM_THREADS": "1",  # a fork copies one thread only
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    return fixed | {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONHOME") if name in os.environ}


def start(task: str, *details: object, **streams: object) -> subprocess.Popen[bytes]:
    """Start the interpreter. No preexec_fn, so that subprocess uses vfork; a session of its own, so that Ctrl-C
    and signals to the trainer's process group pass it by. Raises OSError."""
    return subprocess.Popen(
        command(task, *details), env=environment(), cwd="/", stdin=subprocess.DEVNULL, start_new_session=True, **streams
    )


def ask(task: str, *details: object) -> dict[str, str]:
    """Run a task that prints a JSON object and ends. Raises OSError."""
    process = start(task, numpy_parent(), *details, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = process.communicate(timeout=60)
    if process.returncode:
        raise OSError(f"{sys.executable} could not try the isolation: {errors.decode(errors='replace')[-500:]}")
    return json.loads(output)
