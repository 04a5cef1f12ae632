"""The Linux system calls that the standard library does not offer, by number through ctypes.

The processes of the fork server import this module, and the one that watches a training; never the trainer's.
Every function raises OSError with the kernel's errno.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
import sys

MACHINE = platform.machine() if sys.platform == "linux" else ""

# (x86_64, aarch64)
_NUMBERS = {
    "capset": (126, 91),
    "close_range": (436, 436),
    "pivot_root": (155, 41),
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
_COLUMN = {"x86_64": 0, "aarch64": 1}.get(MACHINE)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

# PyDLL keeps the interpreter lock: these calls are short, and dropping the lock costs more than they do.
libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def syscall(name: str, *arguments: object) -> int:
    """Call by name. Integers are passed as C longs, anything else as ctypes converts it."""
    if _COLUMN is None:
        raise OSError(f"unsupported machine {MACHINE or sys.platform!r}: x86_64 or aarch64 Linux is needed")
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(libc.syscall(ctypes.c_long(_NUMBERS[name][_COLUMN]), *converted), name)


def prctl(option: int, value: int = 0) -> None:
    _check(libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)), "prctl")


def unshare(flags: int) -> None:
    _check(libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, kind: int) -> None:
    _check(libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _check(libc.mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def unmount(target: str, flags: int) -> None:
    _check(libc.umount2(os.fsencode(target), ctypes.c_int(flags)), f"umount {target}")


# Made beforehand: a test pays for every page of memory that it is the first to write to.
_CAPABILITY_HEADER = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0), 8)  # version 3, this process
_NO_CAPABILITIES = ctypes.create_string_buffer(24)


def drop_capabilities() -> None:
    """Give up every capability of this process for good (with no_new_privs). Root keeps only its files."""
    syscall("capset", _CAPABILITY_HEADER, _NO_CAPABILITIES)


def close_from(lowest: int) -> None:
    """Close every descriptor from `lowest` up."""
    try:
        syscall("close_range", lowest, 0x7FFFFFFF, 0)
    except OSError:  # before Linux 5.9, or refused by a container's older filter
        os.closerange(lowest, 1 << 16)  # not up to the present limit, which is lower than those opened before it


def out_of_the_way(descriptor: int) -> int:
    """Move a descriptor above those that a test is given (up to 4)."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 150)
    os.close(descriptor)
    return moved
