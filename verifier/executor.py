"""Runs a program on its tests, lazily, and hands out what became of them in order.

Owns what is above a single test: the host-wide slots that a response holds, and the one further try where the fork
server fails or something outside kills the test (where memory runs out, tests go first). The tests run one after the
other; where that takes long and nobody else wants the slots, side by side (schedule.py has the rule that keeps a program
that never ends from costing every test's full limit).
Every verdict is made here from what the fork server's side saw: wait status, CPU clock, memory, bytes written.
"""

from __future__ import annotations

import collections
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from verifier import calls, client, cores, wire
from verifier.client import ServerError
from verifier.schedule import Schedule
from verifier.slots import Slot, Slots
from verifier.verdict import Execution, Limits, Verdict

_COMPILE_WAIT_SECONDS = 300  # a hang ceiling: compiling is bounded by CPU time on the other side
SPREAD_SECONDS = 0.1  # a response that has taken so long asks for a second slot, and as often again while there is none
# Before each further try where the machine or this process has no processes, descriptors or memory left.
START_PAUSES = (0.1, 0.5, 2.0, 5.0, 10.0)

_slots = Slots(cores.concurrency())


def use_slots_of_its_own(count: int) -> None:
    """Run `count` tests at once whatever others do on this host; before the first test."""
    global _slots
    _slots = Slots(count, f"code-reward-{os.getuid()}-{os.getpid()}")


def _fresh_slots() -> None:
    """A forked child holds none of its parent's slots, and has none of the threads that wait for them."""
    global _slots
    _slots = Slots(_slots.count, _slots.name)


os.register_at_fork(after_in_child=_fresh_slots)


def run_tests(
    program: str,
    inputs: Sequence[bytes],
    limits: Limits = Limits(),  # noqa: B008 - frozen
    *,
    fn_name: str | None = None,
    stdout_limits: Sequence[int] | None = None,
) -> Iterator[Execution]:
    """Run `program` on each input; the results come in order, when the iterator is asked for them. Close it to stop.

    With `fn_name` the program defines that function, an input is its encoded arguments and `Execution.result` what
    came back. `stdout_limits` are bytes, one for each input (default: limits.stdout_bytes for all). Never raises for
    what a program does; a failure of the verifier gives the verdict IE. Raises isolation.IsolationError on a machine
    where programs cannot be confined.
    """
    if stdout_limits is None:
        stdout_limits = [limits.stdout_bytes] * len(inputs)
    if len(stdout_limits) != len(inputs):
        raise ValueError(f"{len(stdout_limits)} stdout limits for {len(inputs)} inputs")
    sources = [program.encode("utf-8", "surrogatepass")]
    if fn_name is not None:
        sources.append(calls.driver(program, fn_name).encode("utf-8", "surrogatepass"))
    return _in_order(_Response(sources, fn_name is not None, inputs, limits, stdout_limits))


def _in_order(response: _Response) -> Iterator[Execution]:
    schedule = response.schedule
    try:
        while schedule.next < schedule.count:
            while (execution := schedule.verdict()) is None:
                response.advance()
            if not execution.ran:  # nor will any later test
                response.close()
            yield execution
            while execution.verdict in (Verdict.CE, Verdict.IE) and schedule.next < schedule.count:
                schedule.next += 1
                yield execution
    finally:
        response.close()


class _CompileError(Exception):
    """The program is not valid Python; says why."""


@dataclass
class _Run:
    """A test that is running."""

    slot: Slot
    files: list[int]  # stdin, stdout, ring for stderr, result
    limits: Limits
    queued: float  # seconds for which it waited for the slot
    patience: float  # when to give up hope of ever hearing of it
    stopped: bool = False


class _Response:
    """A response that is being judged: its slots, its session and what runs on them, all taken when its first test starts."""

    def __init__(
        self, sources: list[bytes], has_result: bool, inputs: Sequence[bytes], limits: Limits, stdout_limits: Sequence[int]
    ) -> None:
        self.sources = sources
        self.has_result = has_result
        self.inputs = inputs
        self.stdout_limits = stdout_limits
        self.schedule = Schedule(len(inputs), limits)
        self.session: socket.socket | None = None
        self.serial = False  # one test at a time: the session cannot do more, or the machine is in trouble
        self.idle: list[Slot] = []
        self.running: dict[int, _Run] = {}
        self.ask_again = 0.0  # when to look for a free slot
        self.queued = 0.0  # seconds that the last slot took to get
        self.failures: collections.Counter[int] = collections.Counter()
        self.pauses = iter(START_PAUSES)

    def close(self) -> None:
        """Stop what runs and give the slots back."""
        self._end_session()
        while self.idle:
            _slots.release(self.idle.pop())

    def _end_session(self) -> None:
        if self.session is not None:
            client.close_session(self.session)
            self.session = None
        for test, run in self.running.items():
            _close(run.files)
            self.idle.append(run.slot)
            self.schedule.drop(test)
        self.running.clear()

    def advance(self) -> None:
        """Start the tests that may start and wait for word of one.

        Where the fork server fails a test is tried once more; where the machine is short of something, later.
        """
        try:
            self._start_tests()
            self._take_message(self._wait_for_message())
        except _CompileError as error:
            self.schedule.end(self.schedule.next, Execution(Verdict.CE, ran=False, message=str(error)))
        except ServerError as error:
            lost = [*self.running] or [self.schedule.next]
            self._retreat()
            self.failures.update(lost)
            for test in lost:
                if self.failures[test] == 2:
                    self.schedule.end(test, Execution(Verdict.IE, ran=False, message=str(error)))
        except (OSError, MemoryError) as error:
            self._retreat()
            pause = next(self.pauses, None)
            if pause is None:
                message = f"{type(error).__name__}: {error}"
                self.schedule.end(self.schedule.next, Execution(Verdict.IE, ran=False, message=message))
            else:
                time.sleep(pause)

    def _retreat(self) -> None:
        """After a failure: once more, with a new session, and one test at a time."""
        self._end_session()
        self.serial = True
        while len(self.idle) > 1:
            _slots.release(self.idle.pop())

    def _start_tests(self) -> None:
        while (test := self.schedule.to_start()) is not None and (slot := self._slot()) is not None:
            self.idle.append(slot)  # where it is given back from, whatever happens
            if self.session is None:
                self.session = client.open_session(self.sources)
                self._wait_for_compilation()
                self.ask_again = time.monotonic() + SPREAD_SECONDS
            self._start(test)
        while self.running and self.idle:
            _slots.release(self.idle.pop())

    def _slot(self) -> Slot | None:
        """A slot for one more test; None where the tests that run must do for now."""
        self.queued = 0.0
        if not self.running:
            asked = time.monotonic()
            slot = _slots.let_others_go_first(self.idle.pop()) if self.idle else _slots.acquire()
            self.queued = time.monotonic() - asked
            return slot
        if self.idle:
            return self.idle.pop()
        if self.serial or time.monotonic() < self.ask_again:
            return None
        slot = _slots.take_spare()
        if slot is None:
            self.ask_again = time.monotonic() + SPREAD_SECONDS
        return slot

    def _start(self, test: int) -> None:
        """Start a test on an idle slot."""
        files: list[int] = []
        try:
            files.append(client.memory_file("stdin", self.inputs[test]))
            client.seal(files[0])
            files += [client.memory_file(name) for name in ("stdout", "stderr")]
            if self.has_result:
                files.append(client.memory_file("result"))
            soft, limits = self.schedule.start(test)
            patience = time.monotonic() + limits.wall_seconds * wire.STARVED + 60
            self.running[test] = _Run(self.idle.pop(), files, limits, self.queued, patience)
        except BaseException:
            _close(files)
            raise
        request = wire.TEST.pack(
            test,
            soft.cpu_seconds,
            soft.wall_seconds,
            limits.cpu_seconds,
            limits.wall_seconds,
            limits.memory_bytes,
            self.stdout_limits[test],
            self.running[test].slot.index,
        )
        self._send(request, files)

    def _send(self, request: bytes, files: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self.session, [request], files)
        except ConnectionError as error:
            raise ServerError(f"the session was lost: {error}") from error

    def _receive(self, until: float) -> bytes:
        """One message of the session's; b"" when none came until then. Raises ServerError when none will ever come."""
        self.session.settimeout(max(0.001, until - time.monotonic()))
        try:
            message = self.session.recv(4096)
        except TimeoutError:
            return b""
        except ConnectionError as error:
            raise ServerError(f"the session was lost: {error}") from error
        if not message:
            raise ServerError("the fork server ended in the middle of a response")
        return message

    def _give_up(self, seconds: float) -> None:
        client.discard()  # nothing that works takes so long
        raise ServerError(f"the fork server said nothing for {seconds:.0f} s")

    def _wait_for_compilation(self) -> None:
        message = self._receive(time.monotonic() + _COMPILE_WAIT_SECONDS)
        if not message:
            self._give_up(_COMPILE_WAIT_SECONDS)
        kind, text = message[:1], message[1:].decode(errors="replace")
        if kind == wire.COMPILE_ERROR:
            raise _CompileError(text)
        # Killed from outside it says nothing about the program; killed by its own compilation it does.
        if kind == wire.DIED and int(text) < 0 and -int(text) != signal.SIGKILL:
            raise _CompileError(f"compiling it ended in {signal.Signals(-int(text)).name}")
        if kind == wire.SHORT:
            raise OSError(text)
        if kind != wire.COMPILED:
            raise ServerError(f"the session ended before the first test ({text})")
        self.serial |= message[1:] == wire.SERIAL

    def _wait_for_message(self) -> bytes:
        """A message of the session's, or b"" when it is time to look for a free slot."""
        patience = min(run.patience for run in self.running.values())
        spread = not self.serial and self.schedule.to_start() is not None
        message = self._receive(min(self.ask_again, patience) if spread else patience)
        if not message and time.monotonic() > patience:
            run = next(run for run in self.running.values() if run.patience == patience)
            self._give_up(run.limits.wall_seconds * wire.STARVED + 60)
        return message

    def _take_message(self, message: bytes) -> None:
        kind, content = message[:1], message[1:]
        if kind == wire.OVER:
            (test,) = wire.STOP.unpack(content)
            if not self.schedule.may_go_on(test):
                self.running[test].stopped = True
                self._send(content)
        elif kind == wire.ENDED:
            test, *result = wire.RESULT.unpack(content)
            run = self.running.pop(test)
            try:
                execution = _judge(result, run.files, run.limits, self.stdout_limits[test])
            finally:
                _close(run.files)
                self._leave(run.slot)
                self.schedule.drop(test)
            if execution.verdict is Verdict.RE and execution.exit_code == -signal.SIGKILL and not self.failures[test]:
                self.failures[test] += 1  # by the kernel, short of memory, or by itself: once more shows which
                self.serial = True
                return
            self.schedule.end(test, replace(execution, queue_seconds=run.queued), run.stopped)
            self.pauses = iter(START_PAUSES)
        elif kind == wire.SHORT:
            raise OSError(content.decode(errors="replace"))
        elif message:
            raise ServerError(f"the session ended during a test ({content.decode(errors='replace')})")

    def _leave(self, slot: Slot) -> None:
        """A slot is not used any more: keep it for the next test, unless others run and somebody waits for it."""
        self.idle.append(slot)
        if self.running and _slots.is_wanted(slot):
            _slots.release(self.idle.pop())


def _close(files: list[int]) -> None:
    for descriptor in files:
        os.close(descriptor)


def _judge(result: Sequence, files: list[int], limits: Limits, stdout_limit: int) -> Execution:
    """The verdict on one run, or None as verdict where the comparison decides. result: a wire.RESULT without its number."""
    status, killed, cpu, wall, written = result
    stdout = wire.read_all(files[1], stdout_limit + 1)
    value = wire.read_all(files[3], stdout_limit + 1) if len(files) > 3 else None
    stderr = wire.read_ring_end(files[2], written, limits.stderr_tail_bytes).decode(errors="replace")
    code = os.waitstatus_to_exitcode(status)
    verdict = None
    over_time = killed in (wire.KILLED_CPU, wire.KILLED_WALL, wire.KILLED_STOPPED)
    if over_time or cpu > limits.cpu_seconds or code == -signal.SIGXCPU:
        verdict = Verdict.TLE  # first: whatever else it did, it used the time up, and the schedule has to know
    elif killed == wire.KILLED_MEMORY or (code != 0 and _ran_out_of_memory(stderr)):
        verdict = Verdict.MLE
    elif killed == wire.KILLED_FILES or len(stdout) > stdout_limit or (value is not None and len(value) > stdout_limit):
        verdict = Verdict.OLE
    elif code != 0:
        verdict = Verdict.RE
    return Execution(
        verdict,
        stdout=stdout[:stdout_limit],
        stderr_tail=stderr,
        exit_code=code,
        cpu_seconds=cpu,
        wall_seconds=wall,
        result=value,
    )


def _ran_out_of_memory(stderr: str) -> bool:
    """Whether it failed with a MemoryError (numpy's has a name of its own). Only ever turns one failure into another."""
    last = stderr.rstrip().rpartition("\n")[2]
    return last.partition(":")[0].endswith("MemoryError")
