"""Sockets of this process alone: a child that is forked from it closes them before it does anything else.

Whoever else holds a copy of a slot, of a session or of the fork server's control socket keeps it alive when this
process is done with it, or dead. A fork waits for the moment between making a socket and noting it down.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

_Made = TypeVar("_Made")
_lock = threading.RLock()  # an iterator that is collected while the lock is held closes its session at that moment
_own: set[socket.socket] = set()


def own(make: Callable[[], _Made]) -> _Made:
    """Call `make`, which must not block, and note the sockets that it returns (one, or a tuple of them)."""
    with _lock:
        made = make()
        _own.update(made if isinstance(made, tuple) else [made])
        return made


def close(*sockets: socket.socket) -> None:
    """Close sockets that `own` has noted."""
    with _lock:
        for one in sockets:
            _own.discard(one)
            one.close()


def _in_child() -> None:
    for one in _own:
        one.close()
    _own.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child)
