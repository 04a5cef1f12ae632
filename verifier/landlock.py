"""Landlock: a file-system view that any process may take on, with no privilege (Linux 5.13 and later).

The ruleset is built once; a test takes it on with one call. Nothing may be executed; reading, writing and making files
are for the paths given. Sockets and signals to the outside are refused too where the kernel can (they are
covered by the system-call filter in any case).
"""

from __future__ import annotations

import ctypes
import os
import struct

from verifier import linux

WRITE_FILE, READ_FILE, READ_DIRECTORY, MAKE_FILE, TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 8, 1 << 14
_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_TCP_BIND_AND_CONNECT = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3


def abi() -> int:
    """The kernel's Landlock version. Raises OSError where there is none."""
    return linux.syscall("landlock_create_ruleset", 0, 0, 1)


def _allow(descriptor: int, path: str, rights: int) -> None:
    try:
        below = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        path_beneath = 1
        linux.syscall("landlock_add_rule", descriptor, path_beneath, struct.pack("=Qi", rights, below), 0)
    finally:
        os.close(below)


def ruleset(readable: list[str], listable: list[str], writable: list[str], own: list[str]) -> int:
    """A descriptor of the rules. readable: folders with all below them, or files; listable: folders, by name
    only; writable: files that can be read and written but not made; own: folders to make and write files in."""
    version = abi()
    handled = _HANDLED[min(version, 5)]
    attributes = struct.pack(
        "QQQ",
        handled,
        _TCP_BIND_AND_CONNECT if version >= 4 else 0,
        _ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24  # older kernels refuse bytes they do not know
    descriptor = linux.syscall("landlock_create_ruleset", ctypes.create_string_buffer(attributes, 24), size, 0)
    for path in readable:
        _allow(descriptor, path, READ_FILE | READ_DIRECTORY if os.path.isdir(path) else READ_FILE)
    for path in listable:
        _allow(descriptor, path, READ_DIRECTORY)
    for path in writable:
        _allow(descriptor, path, (READ_FILE | WRITE_FILE | TRUNCATE) & handled)
    for path in own:
        _allow(descriptor, path, (READ_FILE | READ_DIRECTORY | WRITE_FILE | TRUNCATE | MAKE_FILE) & handled)
    return descriptor


def restrict(descriptor: int) -> None:
    """Confine the calling process for good. no_new_privs must be set. Raises OSError."""
    linux.syscall("landlock_restrict_self", descriptor, 0)
