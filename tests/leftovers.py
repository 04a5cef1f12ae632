"""What runs of the verifier leave on a machine: processes, zombies, slots, files, shared memory."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from verifier import cores, launch, slots

PLACES = ("/tmp", "/dev/shm", "/var/tmp", "/run", "/")
PREFIXES = ("code-reward", ".code-reward", "tmp", "pymp-", "psm_", "sem.")  # the verifier's, tempfile's and multiprocessing's


def wait_until(condition: Callable[[], object], seconds: float = 30) -> bool:
    """Whether the condition came true in time (a hang ceiling)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def parents() -> dict[int, tuple[int, str]]:
    """pid -> (parent's pid, state) of every process on this machine."""
    table = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        table[int(folder.name)] = (int(parent), state)
    return table


def descendants(pid: int) -> set[int]:
    """Processes below `pid`, zombies among them."""
    table = parents()
    found: set[int] = set()
    grown = True
    while grown:
        new = {child for child, (parent, _) in table.items() if parent in found | {pid}} - found
        found |= new
        grown = bool(new)
    return found


def servers_and_below(callers: set[int]) -> set[int]:
    """Living processes of the fork servers that `callers` started: the servers and what was forked from them."""
    marks = {f"for-process-{pid}".encode() for pid in callers}
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if launch.SERVER.encode() in arguments and marks & set(arguments):
            found.add(int(folder.name))
    return found


def slots_taken(pool: slots.Slots | None = None) -> int:
    """How many of this host's slots somebody holds."""
    pool = pool or slots.Slots(cores.concurrency())
    taken = 0
    for index in range(pool.count):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(f"\0{pool.name}-{index}")
            except OSError:
                taken += 1
    return taken


def files() -> set[str]:
    """Such names in the places where temporary files go, but for folders of fork servers that live, and System V's things."""
    found = {os.path.join(place, name) for place in PLACES for name in os.listdir(place) if name.startswith(PREFIXES)}
    servers = {f"-{pid}-" for pid in parents()}
    found = {path for path in found if "/code-reward-" not in path or not any(mark in path for mark in servers)}
    for table in ("shm", "sem", "msg"):
        found |= {f"{table}: {line}" for line in Path(f"/proc/sysvipc/{table}").read_text().splitlines()[1:]}
    return found
