"""The trainer's side of the fork server: starting it, starting it again, and opening sessions on it.

Safe to use from many threads, and from children that multiprocessing or Ray made by fork or spawn: each process
has a server of its own, which ends when the process does.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import logging
import os
import socket
import subprocess
import threading
from dataclasses import dataclass

from verifier import cores, isolation, launch, sockets

_START_SECONDS = 120  # a machine at full load starts an interpreter slowly
log = logging.getLogger("verifier")


class ServerError(OSError):
    """The fork server is not there, or what it should have done failed. Worth one more try."""


@dataclass(eq=False)
class Server:
    """A running fork server."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    mode: str

    def stop(self) -> None:
        """End it and everything below it, and leave no zombie."""
        sockets.close(self.control)  # it ends by itself when it sees this
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_lock = threading.Lock()
_server: Server | None = None


def memory_file(name: str, content: bytes = b"") -> int:
    """A descriptor of a new memory file, at its start. Raises OSError."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if content:
            os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def seal(descriptor: int) -> None:
    """Make a memory file unchangeable, through whatever descriptor."""
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, 0xF)  # seal, shrink, grow, write


def _beside_the_streams(made: socket.socket) -> socket.socket:
    """Move a socket away from where the fork server's stdin, stdout and stderr go: a daemon may have closed its own."""
    if made.fileno() > 2:
        return made
    with made:
        return socket.socket(fileno=fcntl.fcntl(made.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))


def _pair() -> tuple[socket.socket, socket.socket]:
    return sockets.own(lambda: tuple(map(_beside_the_streams, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))))


def _start() -> Server:
    mode = isolation.requested()
    modes = list(isolation.MODES) if mode == "auto" else [mode]
    if mode == "off":
        log.warning(
            "%s=off: model-written programs run with limits only; they can read and write what you can.",
            isolation.ISOLATION,
        )
    ours, theirs = _pair()
    try:
        details = (launch.numpy_parent(), modes, isolation.processes_allowed(), theirs.fileno(), cores.concurrency())
        process = launch.start(
            "serve", *details, pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except BaseException:
        sockets.close(ours)
        raise
    finally:
        sockets.close(theirs)
    server = Server(process, ours, "")
    try:
        ours.settimeout(_START_SECONDS)
        answer = json.loads(ours.recv(1 << 16) or b"{}")
        ours.settimeout(None)
    except (OSError, ValueError) as error:
        server.stop()
        raise ServerError(f"the fork server did not start: {error}") from error
    except BaseException:
        server.stop()
        raise
    if not answer:
        server.stop()
        raise ServerError(f"the fork server ended at its start; run `{' '.join(launch.command('probe'))}` to see why")
    if not answer["mode"]:
        server.stop()
        raise isolation.IsolationError(isolation.refusal(mode, answer["reasons"]))
    server.mode = answer["mode"]
    log.info("isolation: %s", server.mode)
    return server


def _running() -> Server:
    global _server
    with _lock:
        if _server is not None and _server.process.poll() is None:
            return _server
        if _server is not None:
            _server.stop()
            _server = None
        _server = _start()
        return _server


def open_session(sources: list[bytes]) -> socket.socket:
    """Have a new session process compile `sources`, of which it will run the last.

    Returns the connection to it; its first message says how the compilation went. Raises ServerError,
    OSError where this process has no descriptors or memory left, IsolationError.
    """
    server = _running()
    ours, theirs = _pair()
    files: list[int] = []
    try:
        for source in sources:
            files.append(memory_file("program", source))
        socket.send_fds(server.control, [b"session"], [theirs.fileno(), *files])
    except BaseException as error:
        sockets.close(ours)
        if isinstance(error, ConnectionError):
            discard(server)
            raise ServerError(f"the fork server is gone: {error}") from error
        raise
    finally:
        sockets.close(theirs)
        for descriptor in files:
            os.close(descriptor)
    return ours


def close_session(connection: socket.socket) -> None:
    """End a session; a test that is still running is killed."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    sockets.close(connection)


def discard(server: Server | None = None) -> None:
    """Stop the fork server (or only if it is still `server`); the next session starts a new one."""
    global _server
    with _lock:
        if _server is not None and server in (None, _server):
            _server.stop()
            _server = None


def mode() -> str:
    """The isolation in force. Starts the fork server if need be; raises IsolationError where nothing holds."""
    return _running().mode


def _after_fork() -> None:
    global _lock, _server
    _lock = threading.Lock()
    _server = None


os.register_at_fork(after_in_child=_after_fork)
atexit.register(discard)
