"""A running test as the session sees it: its clocks and memory against its limits, its stderr, its end by force."""

from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple

from verifier import wire
from verifier.scratch import Scratch

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MAX_THREADS = 1024  # stacks of the usual size allow fewer; the host has pids for 1024 threads a core, or more


class Limits(NamedTuple):
    """A wire.TEST without its number."""

    soft_cpu: float
    soft_wall: float
    cpu: float
    wall: float
    memory: int
    output: int
    slot: int


def memory_of(pid: int | str) -> tuple[int, int]:
    """(address space, resident) in bytes."""
    with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
        pages = file.read().split()
    return int(pages[0]) * _PAGE, int(pages[1]) * _PAGE


def _resident_of_threads(pid: int) -> int:
    """Resident bytes where the main thread has ended and others go on: it shows none then."""
    return max((memory_of(f"{pid}/task/{thread}")[1] for thread in os.listdir(f"/proc/{pid}/task")), default=0)


def _seconds_queued(pid: int) -> float:
    """How long the main thread was ready to run but had no core."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Test:
    """A running child and what has been seen of it."""

    def __init__(self, number: int, pid: int, stderr: int, files: list[int], limits: Limits) -> None:
        self.number = number
        self.pid = pid
        self.process = os.pidfd_open(pid)
        self.stderr = stderr  # read end of the child's stderr
        self.files = files
        self.limits = limits
        self.said_over = limits.soft_cpu >= limits.cpu and limits.soft_wall >= limits.wall
        self.killed = wire.NOT_KILLED
        self.written = 0
        self.started = time.monotonic()
        self.due = 0.0  # seconds from the last look until it can be over its next limit, on one core

    def drain(self) -> int | None:
        """Move what waits on stderr into the ring, inside the kernel. 0: every writer is gone; None: nothing waits."""
        place, ring = self.written % wire.STDERR_RING, self.files[2]
        try:
            moved = os.splice(self.stderr, ring, wire.STDERR_RING - place, offset_dst=place, flags=os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            return None
        self.written += moved
        return moved

    def look(self, own: int, scratch: Scratch | None) -> bool:
        """Kill the child if it is over a limit; True, once, where it is over the first ones. own: the interpreter's memory."""
        limits = self.limits
        try:
            cpu = time.clock_gettime(~self.pid << 3 | 2)  # the clock of all its threads' CPU time
            resident = memory_of(self.pid)[1] or _resident_of_threads(self.pid)
            threads = os.stat(f"/proc/{self.pid}/task").st_nlink - 2
        except (OSError, IndexError):
            return False  # it has just ended
        elapsed = time.monotonic() - self.started
        if cpu > limits.cpu:
            self.kill(wire.KILLED_CPU)
        elif resident > own + limits.memory or threads > _MAX_THREADS:
            self.kill(wire.KILLED_MEMORY)
        elif self._overslept(elapsed, limits.wall):
            self.kill(wire.KILLED_WALL)
        elif scratch and scratch.is_full(limits.slot):
            self.kill(wire.KILLED_FILES)
        elif not self.said_over and (cpu > limits.soft_cpu or self._overslept(elapsed, limits.soft_wall)):
            self.said_over = True
            return True
        next_cpu, next_wall = (limits.cpu, limits.wall) if self.said_over else (limits.soft_cpu, limits.soft_wall)
        self.due = min(next_cpu - cpu, next_wall - elapsed)
        return False

    def _overslept(self, elapsed: float, wall: float) -> bool:
        return elapsed > wall and (elapsed > wire.STARVED * wall or elapsed - _seconds_queued(self.pid) > wall)

    def kill(self, why: int) -> None:
        if not self.killed:
            self.killed = why
            os.kill(self.pid, signal.SIGKILL)
