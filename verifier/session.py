"""One response: a process that compiles its program once and forks a child for each of its tests.

It never runs the program itself. It alone watches the children's clocks and memory, kills them, and takes their wait
status; a child has no descriptor on which it could say anything about itself. How many run at once is the executor's
affair: it asks for one test after the other, or for several.
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

from verifier import call_driver, linux, namespaces, runner, wire, without_processes
from verifier.running import Limits, Test, memory_of
from verifier.walls import Walls, confine, confine_session

_COMPILE_CPU_SECONDS = 20
# Compiling takes up to 700 bytes for a character of most texts, but twice as many for each `finally` within another.
_COMPILE_BYTES, _COMPILE_BYTES_EACH, _MAX_COMPILE_BYTES = 1 << 30, 1 << 10, 4 << 30
_LOOK_SECONDS = 0.05  # between two looks at the running tests,
_CLOSE_LOOK_SECONDS = 0.005  # or as little as this where one is about to reach a limit
# A thread's stack is reserved as address space long before it is memory: programs ask for 512 MB and touch little.
_ADDRESS_SPACE_SLACK = 768 << 20
_FILES_OPEN = 128
_SIGNALS_PENDING = 256  # the kernel counts them for all processes of a user together


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
    """Compile all and return the last. Load what the first imports, the program; what follows it, its driver, imports nothing.

    The kernel ends the process if it takes too long.
    """
    signal.setitimer(signal.ITIMER_PROF, _COMPILE_CPU_SECONDS)
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    memory = min(_COMPILE_BYTES + _COMPILE_BYTES_EACH * sum(map(len, sources)), _MAX_COMPILE_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (_capped(resource.RLIMIT_AS, memory_of("self")[0] + memory), unlimited[1]))
    codes = [runner.compile_program(source) for source in sources]
    has_driver = len(sources) > 1  # which gives the program names that it does not import
    runner.preload(sources[0], call_driver.modules_of(call_driver.names_in(codes[0])).values() if has_driver else ())
    runner.show_source(sources[-1])
    resource.setrlimit(resource.RLIMIT_AS, unlimited)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return codes[-1]


class _TrainerGone(Exception):
    """The other end of the connection is closed; nobody wants to know any more."""


def _capped(kind: int, value: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _set_common_limits() -> None:
    """Those that are the same for every test, set once: children inherit them."""
    signals = _capped(resource.RLIMIT_SIGPENDING, _SIGNALS_PENDING)
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (signals, signals))
    # Not 0: where the kernel hands cores to a program of the host's (apport, systemd-coredump), it starts that at any
    # limit but 1, and too little for any core is 1 as well.
    core = _capped(resource.RLIMIT_CORE, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (core, core))


def _processes() -> int:
    """How many processes and threads the user may have for a test to start one more: the verifier and the trainer need some."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return most if most == resource.RLIM_INFINITY else most - min(512, most // 8)


class Session:
    """The process of one response."""

    def __init__(self, connection: socket, walls: Walls, code: CodeType) -> None:
        self.connection = connection
        self.walls = walls
        self.code = code
        self.address_space, self.resident = memory_of("self")  # the interpreter's own share
        self.pid = os.getpid()
        self.init = 0  # first process of the pid namespace that the tests are in, if they are
        # On this pipe a child says why it could not be confined. It is closed before the program's first instruction.
        self.trouble, trouble_end = os.pipe()
        self.trouble_end = linux.out_of_the_way(trouble_end)
        os.set_blocking(self.trouble, False)
        self.tests: dict[int, Test] = {}  # by each of their two descriptors
        self.next_look = 0.0
        self.poll = select.poll()
        self.poll.register(connection, select.POLLIN | select.POLLRDHUP)
        self.processes = _processes()
        _set_common_limits()
        confine_session(walls)

    def _child(self, files: list[int], stderr: int, limits: Limits) -> None:
        """In the forked child: put up the walls and become the program. Never returns."""
        trouble = -1
        try:
            os.dup2(files[0], 0)
            os.dup2(files[1], 1)
            os.dup2(stderr, 2)
            keep = len(files)  # the result's file is the program's descriptor 3
            if keep > 3:
                os.dup2(files[3], 3)
            trouble = os.dup2(self.trouble_end, keep)
            os.setsid()
            for kind, value in (
                (resource.RLIMIT_NOFILE, _FILES_OPEN),  # this process needs more: six for each test that runs
                (resource.RLIMIT_NPROC, self.processes),
                (resource.RLIMIT_CPU, ceil(limits.cpu) + 1),  # for the case that nobody watches any more
                (resource.RLIMIT_FSIZE, limits.output + 1),  # one more byte tells too much from just enough
                (resource.RLIMIT_AS, self.address_space + limits.memory + _ADDRESS_SPACE_SLACK),
            ):
                value = _capped(kind, value)
                resource.setrlimit(kind, (value, value))
            stack = resource.getrlimit(resource.RLIMIT_STACK)[1]
            resource.setrlimit(resource.RLIMIT_STACK, (_capped(resource.RLIMIT_STACK, limits.memory), stack))
            confine(self.walls, limits.slot, self.pid, keep + 1)
            os.close(keep)
        except BaseException as error:
            os.write(self.trouble_end if trouble < 0 else trouble, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        runner.run_program(self.code)

    def _start(self, number: int, files: list[int], limits: Limits) -> None:
        """Fork a test. files: stdin, stdout, ring for stderr, and the result's where there is one."""
        scratch = self.walls.scratch
        if scratch:
            scratch.empty(limits.slot)  # of what was left when the session before was killed
        stderr, stderr_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._child(files, stderr_end, limits)
        os.close(stderr_end)
        test = Test(number, pid, stderr, files, limits)
        if not self.tests:
            self.next_look = test.started + _LOOK_SECONDS
        for descriptor in (test.process, test.stderr):
            self.tests[descriptor] = test
            self.poll.register(descriptor, select.POLLIN)

    def _end(self, test: Test) -> bytes:
        """Collect a child that has ended. Returns the message to send. Raises OSError where it never was confined."""
        if self.walls.mode == "off":
            _kill_group(test.pid)
        _, status, usage = os.wait4(test.pid, 0)
        if self.init:
            namespaces.end_pid_namespace(self.init)
        if self.walls.mode == "off":
            _kill_orphans()
        ended = time.monotonic()
        while test.drain():
            pass
        for descriptor in (test.process, test.stderr):
            if self.tests.pop(descriptor, None):
                self.poll.unregister(descriptor)
        for descriptor in (test.process, test.stderr, *test.files):
            os.close(descriptor)
        with contextlib.suppress(BlockingIOError):
            raise OSError(f"a test could not be confined: {os.read(self.trouble, 1000).decode()}")
        if not test.killed and usage.ru_maxrss * 1024 - self.resident > test.limits.memory:
            test.killed = wire.KILLED_MEMORY
        scratch = self.walls.scratch
        if scratch and scratch.empty(test.limits.slot) and not test.killed:
            test.killed = wire.KILLED_FILES
        used = usage.ru_utime + usage.ru_stime
        return wire.ENDED + wire.RESULT.pack(test.number, status, test.killed, used, ended - test.started, test.written)

    def round(self) -> list[bytes]:
        """Wait for something to happen and deal with it. Returns the messages to send. Raises _TrainerGone."""
        messages: list[bytes] = []
        request = False
        timeout = max(0.0, self.next_look - time.monotonic()) * 1000 if self.tests else None
        for descriptor, _ in self.poll.poll(timeout):
            test = self.tests.get(descriptor)
            if test is None:  # or the other descriptor of one that has ended in this round
                request |= descriptor == self.connection.fileno()
            elif descriptor == test.process:
                messages.append(self._end(test))
            elif test.drain() == 0:
                self.poll.unregister(descriptor)
                del self.tests[descriptor]
        if request:  # last, since it may open descriptors with the numbers of those just closed
            messages += self._take_request()
        if self.tests and time.monotonic() >= self.next_look:
            over = [test.number for test in set(self.tests.values()) if test.look(self.resident, self.walls.scratch)]
            messages += [wire.OVER + wire.STOP.pack(number) for number in over]
            due = min(test.due for test in self.tests.values()) if self.tests else _LOOK_SECONDS
            self.next_look = time.monotonic() + min(_LOOK_SECONDS, max(_CLOSE_LOOK_SECONDS, due))
        return messages

    def _take_request(self) -> list[bytes]:
        message, files = receive(self.connection, wire.TEST.size)
        if not message:
            raise _TrainerGone
        if len(message) == wire.STOP.size:
            for test in set(self.tests.values()):
                if (test.number,) == wire.STOP.unpack(message):
                    test.kill(wire.KILLED_STOPPED)
            return []
        number, *limits = wire.TEST.unpack(message)
        if self.walls.allow_processes:
            return [self._run_apart(number, files, Limits(*limits))]
        self._start(number, files, Limits(*limits))
        return []

    def _run_apart(self, number: int, files: list[int], limits: Limits) -> bytes:
        """Run one test in a copy of this process: who has made a pid namespace for its children cannot go back."""
        answer, answer_end = os.pipe()
        copy = os.fork()
        if copy == 0:
            try:
                linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
                self.pid = os.getpid()
                self.init = namespaces.start_pid_namespace()
                self._start(number, files, limits)
                messages: list[bytes] = []
                while not messages:
                    messages = self.round()
                os.write(answer_end, messages[0])
                os._exit(0)
            finally:
                os._exit(1)
        os.close(answer_end)
        for descriptor in files:
            os.close(descriptor)
        with open(answer, "rb") as pipe:
            result = pipe.read()
        _, status = os.waitpid(copy, 0)
        if status:
            raise RuntimeError(f"the process that watched the test ended with status {status}")
        return result

    def end_all(self) -> None:
        """Kill what runs, and wait for its end."""
        for test in set(self.tests.values()):
            test.kill(wire.KILLED_STOPPED)
            self._end(test)


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
    # Without the filter a program may leave processes, and whose they are can be told only where one test runs at a time.
    serial = walls.mode == "off" or walls.allow_processes
    if not serial:
        without_processes.take_the_place_of_shared_things()
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("an imported module started a thread; a fork would copy its locks but not the thread")
    gc.freeze()  # so that collections in the children touch, and copy, only the program's own objects
    session = Session(connection, walls, code)
    connection.send(wire.COMPILED + (wire.SERIAL if serial else b""))
    with contextlib.suppress(_TrainerGone):
        while True:
            for message in session.round():
                connection.send(message)
    session.end_all()
