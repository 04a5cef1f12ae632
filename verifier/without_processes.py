"""What the standard library makes for several processes to share, for programs that are only one.

A lock of multiprocessing is a file with several names in /dev/shm, which no program can make; ThreadPool and
multiprocessing.dummy use them among threads. mmap asks for shared memory where it has no file, which the filter refuses.
"""

from __future__ import annotations

import sys
from _thread import get_ident

_RECURSIVE = 0  # the other kind, 1, is a semaphore


class SemLock:
    """Behaves as _multiprocessing.SemLock does in one process."""

    SEM_VALUE_MAX = (1 << 31) - 1

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        from threading import Condition  # late: the fork server does not load it for every program

        self.kind, self.maxvalue, self.handle, self.name = kind, maxvalue, 0, None
        self.value, self.count, self.owner = value, 0, 0
        self.changed = Condition()

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        with self.changed:
            if self.kind != _RECURSIVE or not self._is_mine():
                if not self.changed.wait_for(lambda: self.value > 0, timeout if block else 0):
                    return False
                self.value -= 1
            self.count += 1
            self.owner = get_ident()
            return True

    def release(self) -> None:
        with self.changed:
            if self.kind == _RECURSIVE and not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self.kind != _RECURSIVE and self.value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            self.count -= 1
            if self.kind != _RECURSIVE or self.count == 0:
                self.value += 1
                self.changed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _is_mine(self) -> bool:
        return self.count > 0 and self.owner == get_ident()

    def _count(self) -> int:
        return self.count

    def _get_value(self) -> int:
        return self.value

    def _is_zero(self) -> bool:
        return self.value == 0

    def _after_fork(self) -> None:
        self.count = 0


def _unshared(original: type) -> type:
    """mmap.mmap, of which anonymous memory is the process's own."""
    shared, private, read = 1, 2, 1  # MAP_SHARED, MAP_PRIVATE, and both ACCESS_READ and PROT_READ

    class mmap(original):
        def __new__(cls, fileno, length, flags=shared, *arguments, **options):
            if fileno == -1 and flags & 3 == shared:
                flags ^= shared | private
                if options.pop("access", None) == read:  # which cannot be given beside flags
                    options["prot"] = read
            return super().__new__(cls, fileno, length, flags, *arguments, **options)

    mmap.__module__, mmap.__qualname__ = "mmap", "mmap"
    return mmap


def take_the_place_of_shared_things() -> None:
    """For the programs that this process will fork, where they have loaded multiprocessing or mmap."""
    if "_multiprocessing" in sys.modules:
        sys.modules["_multiprocessing"].SemLock = SemLock
    if "mmap" in sys.modules:
        sys.modules["mmap"].mmap = _unshared(sys.modules["mmap"].mmap)
