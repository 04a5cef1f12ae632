"""One response: a process that compiles its program once and forks a child for each of its tests.

It never runs the program itself. It alone watches the child's clocks and memory, kills it, and takes its wait
status; the child has no descriptor on which it could say anything about itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import signal
import time
from _socket import MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET, socket
from math import ceil
from types import CodeType

from verifier import linux, namespaces, runner, wire
from verifier.walls import Walls, confine, confine_session, out_of_the_way

_COMPILE_CPU_SECONDS = 20
_COMPILE_MEMORY_BYTES = 4 << 30
_LOOK_SECONDS = 0.05  # between two looks at a running test
# A thread's stack is reserved as address space long before it is memory: programs ask for 512 MB and touch little.
_ADDRESS_SPACE_SLACK = 768 << 20
_FILES_OPEN = 128
_PAGE = os.sysconf("SC_PAGE_SIZE")


def receive(connection: socket, size: int) -> tuple[bytes, list[int]]:
    """One message and the descriptors beside it; b"" when the other side is gone."""
    message, ancillary, _, _ = connection.recvmsg(size, 128, MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, data in ancillary:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            descriptors += memoryview(data[: len(data) // 4 * 4]).cast("i")
    return message, descriptors


def _read_text(descriptor: int) -> str:
    return wire.read_all(descriptor, 1 << 30).decode("utf-8", "surrogatepass")


def _compile(sources: list[str]) -> CodeType:
    """Compile all, load what they import, return the last. The kernel ends the process if it takes too long."""
    signal.setitimer(signal.ITIMER_PROF, _COMPILE_CPU_SECONDS)
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_COMPILE_MEMORY_BYTES, unlimited[1]))
    code = [runner.compile_program(source) for source in sources][-1]
    for source in sources:
        runner.preload(source)
    runner.show_source(sources[-1])
    resource.setrlimit(resource.RLIMIT_AS, unlimited)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return code


def _memory(pid: int | str) -> tuple[int, int]:
    """(address space, resident) in bytes."""
    with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
        pages = file.read().split()
    return int(pages[0]) * _PAGE, int(pages[1]) * _PAGE


def _seconds_queued(pid: int) -> float:
    """How long the main thread was ready to run but had no core."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class _Test:
    """A running child and what has been seen of it."""

    def __init__(self, pid: int, stderr: int, ring: int) -> None:
        self.pid = pid
        self.stderr = stderr  # read end of the child's stderr
        self.ring = ring
        self.written = 0
        self.started = time.monotonic()

    def drain(self) -> int | None:
        """Move what waits on stderr into the ring, inside the kernel. 0: every writer is gone; None: nothing waits."""
        place = self.written % wire.STDERR_RING
        try:
            moved = os.splice(self.stderr, self.ring, wire.STDERR_RING - place, offset_dst=place, flags=os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            return None
        self.written += moved
        return moved

    def over(self, cpu: float, wall: float, resident: int) -> int:
        """Which limit the child has gone over, if any."""
        try:
            if time.clock_gettime(~self.pid << 3 | 2) > cpu:  # the clock of all its threads' CPU time
                return wire.KILLED_CPU
            if _memory(self.pid)[1] > resident:
                return wire.KILLED_MEMORY
        except (OSError, IndexError):
            return wire.NOT_KILLED  # it has just ended
        elapsed = time.monotonic() - self.started
        if elapsed > wall and (elapsed > wire.STARVED * wall or elapsed - _seconds_queued(self.pid) > wall):
            return wire.KILLED_WALL
        return wire.NOT_KILLED


def _capped(kind: int, value: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _set_common_limits() -> None:
    """Those that are the same for every test, set once: children inherit them."""
    files = _capped(resource.RLIMIT_NOFILE, _FILES_OPEN)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Session:
    """The process of one response."""

    def __init__(self, connection: socket, walls: Walls, code: CodeType) -> None:
        self.connection = connection
        self.walls = walls
        self.code = code
        self.address_space, self.resident = _memory("self")  # the interpreter's own share
        self.pid = os.getpid()
        # On this pipe a child says why it could not be confined. It is closed before the program's first instruction.
        self.trouble, trouble_end = os.pipe()
        self.trouble_end = out_of_the_way(trouble_end)
        os.set_blocking(self.trouble, False)
        _set_common_limits()
        confine_session(walls)

    def _child(self, files: list[int], stderr: int, limits: tuple[float, float, int, int, int]) -> None:
        """In the forked child: put up the walls and become the program. Never returns."""
        trouble = -1
        try:
            cpu, _, memory, output, slot = limits
            os.dup2(files[0], 0)
            os.dup2(files[1], 1)
            os.dup2(stderr, 2)
            keep = len(files)  # the result's file is the program's descriptor 3
            if keep > 3:
                os.dup2(files[3], 3)
            trouble = os.dup2(self.trouble_end, keep)
            os.setsid()
            for kind, value in (
                (resource.RLIMIT_CPU, ceil(cpu) + 1),  # for the case that nobody watches any more
                (resource.RLIMIT_FSIZE, output + 1),  # one more byte tells too much from just enough
                (resource.RLIMIT_AS, self.address_space + memory + _ADDRESS_SPACE_SLACK),
            ):
                value = _capped(kind, value)
                resource.setrlimit(kind, (value, value))
            stack = resource.getrlimit(resource.RLIMIT_STACK)[1]
            resource.setrlimit(resource.RLIMIT_STACK, (_capped(resource.RLIMIT_STACK, memory), stack))
            confine(self.walls, slot, self.pid, keep + 1)
            os.close(keep)
        except BaseException as error:
            os.write(self.trouble_end if trouble < 0 else trouble, f"{type(error).__name__}: {error}".encode())
            os._exit(1)
        runner.run_program(self.code)

    def run(self, files: list[int], limits: tuple[float, float, int, int, int]) -> bytes | None:
        """Run one test. files: stdin, stdout, ring for stderr, and the result's where there is one.

        Returns the message to send, or None when the trainer's side has gone. Raises OSError where it could not be
        run as it should.
        """
        cpu, wall, memory, _, _ = limits
        stderr, stderr_end = os.pipe()
        init = namespaces.start_pid_namespace() if self.walls.allow_processes else 0
        pid = os.fork()
        if pid == 0:
            self._child(files, stderr_end, limits)
        test = _Test(pid, stderr, files[2])
        os.close(stderr_end)
        process = os.pidfd_open(pid)
        try:
            killed = self._watch(test, process, cpu, wall, self.resident + memory)
            if self.walls.mode == "off":
                _kill_group(pid)
            _, status, usage = os.wait4(pid, 0)
            if init:
                namespaces.end_pid_namespace(init)
            if self.walls.mode == "off":
                _kill_orphans()
            ended = time.monotonic()
            while test.drain():
                pass
        finally:
            os.close(process)
            os.close(stderr)
        if killed is None:
            return None
        with contextlib.suppress(BlockingIOError):
            raise OSError(f"a test could not be confined: {os.read(self.trouble, 1000).decode()}")
        if not killed and usage.ru_maxrss * 1024 - self.resident > memory:
            killed = wire.KILLED_MEMORY
        used = usage.ru_utime + usage.ru_stime
        return wire.ENDED + wire.RESULT.pack(status, killed, used, ended - test.started, test.written)

    def run_apart(self, files: list[int], limits: tuple[float, float, int, int, int]) -> bytes | None:
        """Run one test in a copy of this process: who has made a pid namespace for its children cannot go back."""
        answer, answer_end = os.pipe()
        copy = os.fork()
        if copy == 0:
            try:
                linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
                self.pid = os.getpid()
                os.write(answer_end, self.run(files, limits) or b"")
                os._exit(0)
            finally:
                os._exit(1)
        os.close(answer_end)
        with open(answer, "rb") as pipe:
            result = pipe.read()
        _, status = os.waitpid(copy, 0)
        if status:
            raise RuntimeError(f"the process that watched the test ended with status {status}")
        return result or None

    def _watch(self, test: _Test, process: int, cpu: float, wall: float, resident: int) -> int | None:
        """Wait for the child's end, killing it when it goes over a limit. None: the trainer's side has gone."""
        poll = select.poll()
        poll.register(process, select.POLLIN)
        poll.register(test.stderr, select.POLLIN)
        poll.register(self.connection, select.POLLRDHUP)
        next_look = test.started + _LOOK_SECONDS
        while True:
            events = dict(poll.poll(max(0.0, next_look - time.monotonic()) * 1000))
            if process in events:
                return wire.NOT_KILLED
            if self.connection.fileno() in events:
                os.kill(test.pid, signal.SIGKILL)
                return None
            if test.stderr in events and test.drain() == 0:
                poll.unregister(test.stderr)
            if time.monotonic() >= next_look:
                killed = test.over(cpu, wall, resident)
                if killed:
                    os.kill(test.pid, signal.SIGKILL)
                    return killed
                next_look = time.monotonic() + _LOOK_SECONDS


def _kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _kill_orphans() -> None:
    """Without the system-call filter a program may have left processes; they are ours since their parent died."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            children = [int(pid) for pid in file.read().split()]
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def serve(connection: socket, sources: list[int], walls: Walls) -> None:
    """The whole life of a session process. sources: descriptors of the texts to compile; the last one is run."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if walls.mode == "off":
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    texts = [_read_text(source) for source in sources]
    try:
        code = _compile(texts)
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        connection.send(wire.COMPILE_ERROR + message.encode("utf-8", "replace")[:2000])
        return
    for source in sources:
        os.close(source)
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("an imported module started a thread; a fork would copy its locks but not the thread")
    gc.freeze()  # so that collections in the children touch, and copy, only the program's own objects
    session = Session(connection, walls, code)
    connection.send(wire.COMPILED)
    while True:
        message, files = receive(connection, wire.TEST.size)
        if not message:
            return
        run = session.run_apart if walls.allow_processes else session.run
        result = run(files, wire.TEST.unpack(message))
        for descriptor in files:
            os.close(descriptor)
        if result is None:
            return
        connection.send(result)
