"""Host-wide slots: how many tests run at once, whatever the number of processes that ask.

A slot is a listening socket with a name in Linux's abstract namespace: the kernel takes it back when its holder
dies, however it dies, and nothing lies on disk. Who finds all slots taken connects to them and waits; a slot
that is given back is passed over its oldest waiting connection, so processes are served in turn.
Each user has slots of their own; containers share them only where they share a network namespace.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time

from verifier import sockets

_RETRY_SECONDS = 10.0  # only in case a slot came back unseen
_TURN_SECONDS = 1.0  # a response that has held its slot for so long lets a waiting one go first


class Slot:
    """One held slot."""

    def __init__(self, index: int, listener: socket.socket) -> None:
        self.index = index
        self.listener = listener
        self.since = time.monotonic()


def _unix_socket() -> socket.socket:
    return sockets.own(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))


class Slots:
    """The slots of this host as one process sees them. Threads of it wait for each other, then for the host."""

    def __init__(self, count: int, name: str = "") -> None:
        self.count = count
        self.name = name or f"code-reward-{os.getuid()}"
        self.held: set[Slot] = set()
        self._turn = threading.Lock()

    def _address(self, index: int) -> str:
        return f"\0{self.name}-{index}"

    def acquire(self) -> Slot:
        """Wait for a slot."""
        with self._turn:
            slot = None
            while slot is None:
                slot = self._take_free() or self._wait()
            self.held.add(slot)
            return slot

    def _take_free(self) -> Slot | None:
        first = threading.get_native_id() % self.count  # not by chance: the trainer's random numbers are its own
        for step in range(self.count):
            index = (first + step) % self.count
            listener = _unix_socket()
            try:
                listener.bind(self._address(index))
                listener.listen(1024)
                return Slot(index, listener)
            except OSError as error:
                sockets.close(listener)
                if error.errno != errno.EADDRINUSE:
                    raise
            except BaseException:
                sockets.close(listener)
                raise
        return None

    def _wait(self) -> Slot | None:
        """Queue at every slot; None when one may have become free without being passed on."""
        waiting: dict[int, tuple[int, socket.socket]] = {}
        poll = select.poll()
        try:
            for index in range(self.count):
                connection = _unix_socket()
                waiting[connection.fileno()] = index, connection
                try:
                    connection.connect(self._address(index))
                except ConnectionRefusedError:  # given back, or not listening yet
                    time.sleep(0.001)
                    return None
                poll.register(connection, select.POLLIN)
            for descriptor, _ in poll.poll(_RETRY_SECONDS * 1000):
                index, connection = waiting[descriptor]
                listener = sockets.own(lambda c=connection: _receive_listener(c))
                if listener:
                    return Slot(index, listener[0])
            return None
        finally:
            sockets.close(*(connection for _, connection in waiting.values()))

    def release(self, slot: Slot) -> None:
        """Pass a slot to whoever waits longest, or give it back."""
        try:
            slot.listener.setblocking(False)
            while True:
                try:
                    connection = sockets.own(lambda: slot.listener.accept()[0])
                except OSError:
                    return
                try:
                    socket.send_fds(connection, [b"s"], [slot.listener.fileno()])
                    return
                except OSError:  # it has another slot by now, or is dead
                    continue
                finally:
                    sockets.close(connection)
        except OSError:  # a forked child lets go of its parent's slot, which is closed here already
            return
        finally:
            self.held.discard(slot)
            sockets.close(slot.listener)

    def take_spare(self) -> Slot | None:
        """A slot for somebody who has one already: only if one is free and nobody of this process is about to take it."""
        if not self._turn.acquire(blocking=False):
            return None
        try:
            slot = self._take_free()
            if slot is not None:
                self.held.add(slot)
            return slot
        finally:
            self._turn.release()

    def is_wanted(self, slot: Slot) -> bool:
        """Whether somebody waits for a slot."""
        waiting = select.poll()  # not select, which ends at descriptor 1023
        waiting.register(slot.listener, select.POLLIN)
        return bool(waiting.poll(0))

    def let_others_go_first(self, slot: Slot) -> Slot:
        """Between two tests of a long response: give way if someone waits and this slot has been held for long."""
        if time.monotonic() - slot.since < _TURN_SECONDS or not self.is_wanted(slot):
            return slot
        self.release(slot)
        return self.acquire()


def _receive_listener(connection: socket.socket) -> tuple[socket.socket, ...]:
    """The slot that was passed on over a connection that has something to read, or nothing if its holder died."""
    try:
        _, passed, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_DONTWAIT)
    except OSError:
        return ()
    return tuple(socket.socket(fileno=descriptor) for descriptor in passed)
