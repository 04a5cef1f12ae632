"""The fork server: a small clean interpreter, started by exec, from which every test's process is copied.

    trainer's process --exec, once--> fork server --fork--> session, one a response --fork--> test

It holds no data, no secrets and one thread. It chooses the isolation by trying it, starts a session process for
each request on its control socket, reaps what ends, and ends itself when the trainer's process is gone.
Run as a script: `python -S -s -B forkserver.py serve|probe DETAILS`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import json
import os
import resource
import select
import signal
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
from _socket import AF_UNIX, SOCK_SEQPACKET, socket  # noqa: E402

from verifier import linux, runner, session, walls, wire  # noqa: E402

# What most programs of programming contests import; the rest is imported once for each response that wants it.
import bisect  # noqa: E402, F401  isort: skip
import collections  # noqa: E402, F401  isort: skip
import functools  # noqa: E402, F401  isort: skip
import heapq  # noqa: E402, F401  isort: skip
import itertools  # noqa: E402, F401  isort: skip
import math  # noqa: E402, F401  isort: skip
import string  # noqa: E402, F401  isort: skip
import typing  # noqa: E402, F401  isort: skip

# Processes, memory or descriptors may all be taken, by a program that starts threads as fast as it can for one.
_SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_REAP_SECONDS = 5  # orphans of a session that was killed are collected at least this often


def lift_stack_limit() -> None:
    """Start again with the highest stack limit there is: how far the main stack can grow is laid out at exec.

    Threads keep the usual 8 MB, which they would otherwise take from that limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
        os.execv(sys.executable, sys.orig_argv)
    attributes = (ctypes.c_uint64 * 8)()
    linux.libc.pthread_attr_init(attributes)
    linux.libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(8 << 20))
    linux.libc.pthread_setattr_default_np(attributes)


def share_one_heap() -> None:
    """One for all threads of a program: each more, up to eight a core, reserves 64 MB of the address space for their stacks."""
    most_heaps = -8  # M_ARENA_MAX
    if hasattr(linux.libc, "mallopt"):  # of glibc
        linux.libc.mallopt(most_heaps, 1)


def forget_the_trainers_signals() -> None:
    """Back to how an interpreter starts: an ignored or blocked signal is inherited through exec."""
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):  # SIGKILL, SIGSTOP, and those of the C library
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def hide_ourselves() -> None:
    """Leave a program nothing of the verifier's to import."""
    sys.path.pop(0)
    for name in [name for name in sys.modules if name.partition(".")[0] == "verifier"]:
        del sys.modules[name]


class NumpyFinder:
    """Finds numpy by its place alone: its parent folder, with everything else installed, stays out of sight."""

    def __init__(self, parent: str) -> None:
        self.folder = os.path.join(parent, "numpy")

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != "numpy":
            return None
        from importlib.util import spec_from_file_location

        start = os.path.join(self.folder, "__init__.py")
        return spec_from_file_location(name, start, submodule_search_locations=[self.folder])


def _bury_orphans(sessions: dict[int, tuple[int, socket]]) -> None:
    """End the tests of a session that was killed, which are ours now, so that nobody else meets them in their folder."""
    while True:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                orphans = {int(pid) for pid in file.read().split()} - sessions.keys()
        except OSError:  # a kernel without that list: they die by themselves, a moment later
            return
        if not orphans:
            return
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _reap(sessions: dict[int, tuple[int, socket]]) -> None:
    """Collect every process that has ended; tell the trainer's side of a session that did not end by itself."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in sessions:
            process, connection = sessions.pop(pid)
            os.close(process)
            if status:
                _bury_orphans(sessions)
                with contextlib.suppress(OSError):
                    connection.send(wire.DIED + str(os.waitstatus_to_exitcode(status)).encode())
            connection.close()


def _trouble(error: BaseException) -> bytes:
    short = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES)
    return (wire.SHORT if short else wire.FAILED) + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:2000]


def _start_session(sources: list[int], connection: socket, sessions: dict[int, tuple[int, socket]], chosen) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        connection.send(_trouble(error))
        connection.close()
        return
    if pid == 0:
        status = 1
        try:
            for process, other in sessions.values():
                os.close(process)
                other.close()
            session.serve(connection, sources, chosen)
            status = 0
        except BaseException as error:
            connection.send(_trouble(error))
        finally:
            os._exit(status)
    sessions[pid] = os.pidfd_open(pid), connection


def serve(control: socket, chosen: walls.Walls) -> None:
    """Answer requests (descriptors: the session's socket, then the texts to compile) until the trainer is gone."""
    sessions: dict[int, tuple[int, socket]] = {}
    while True:
        poll = select.poll()
        poll.register(control, select.POLLIN)
        for process, _ in sessions.values():
            poll.register(process, select.POLLIN)
        events = dict(poll.poll(_REAP_SECONDS * 1000))
        _reap(sessions)
        if control.fileno() in events:
            message, descriptors = session.receive(control, 16)
            if not message:
                break
            if len(descriptors) > 1:
                connection = socket(AF_UNIX, SOCK_SEQPACKET, 0, descriptors.pop(0))
                _start_session(descriptors, connection, sessions, chosen)
            for descriptor in descriptors:  # or what came, where this process had no room for all of them
                os.close(descriptor)
    for pid in sessions:
        os.kill(pid, signal.SIGKILL)
    while True:  # their tests die with them and become ours to collect
        try:
            os.wait()
        except ChildProcessError:
            break
    if chosen.scratch:
        chosen.scratch.remove()


def main() -> None:
    lift_stack_limit()
    share_one_heap()
    forget_the_trainers_signals()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    task, (numpy_parent, modes, allow_processes, *rest) = sys.argv[1], json.loads(sys.argv[2])
    for name in ("LD_LIBRARY_PATH", "PYTHONHOME"):  # passed by launch.py for the interpreter's own start
        os.environ.pop(name, None)
    hide_ourselves()
    if task == "probe":
        print(json.dumps({mode: walls.attempt(mode, numpy_parent, allow_processes) for mode in modes}))
        return
    descriptor, slots = rest
    control = socket(AF_UNIX, SOCK_SEQPACKET, 0, descriptor)
    os.set_inheritable(descriptor, False)
    reasons = {}
    for mode in modes:
        reasons[mode] = walls.attempt(mode, numpy_parent, allow_processes) if mode != "off" else ""
        if not reasons[mode]:
            break
    else:
        control.send(json.dumps({"mode": "", "reasons": reasons}).encode())
        return
    chosen = walls.prepare(mode, numpy_parent, allow_processes, slots)
    if numpy_parent is not None:
        sys.meta_path.append(NumpyFinder(numpy_parent))
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, tests go first and the trainer last
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # nobody of the same user reads or traces it
    runner.prepare_interpreter()
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"mode": mode, "reasons": reasons}).encode())
    serve(control, chosen)


if __name__ == "__main__":
    main()
