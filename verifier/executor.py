"""Runs a program on its tests in order, lazily, within the time that one response may cost.

Owns what is above a single test: the host-wide slot that a response holds, the one further try where the fork
server fails, and the rules that keep a program that never ends from costing every test's full limit.
Every verdict is made here from what the fork server's side saw: wait status, CPU clock, memory, bytes written.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from verifier import calls, client, cores, slots, wire
from verifier.client import ServerError
from verifier.slots import Slots
from verifier.verdict import Execution, Limits, Verdict

_COMPILE_WAIT_SECONDS = 300  # a hang ceiling: compiling is bounded by CPU time on the other side
START_PAUSES = (0.1, 0.5, 2.0)  # before each further try where this process has no descriptors or memory left

_slots = Slots(cores.concurrency())


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
    """Run `program` on each input, in order, when the iterator is asked for it; close the iterator to stop.

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
    return _run_in_order(_Response(sources, fn_name is not None), inputs, limits, stdout_limits)


def _run_in_order(
    response: _Response, inputs: Sequence[bytes], limits: Limits, stdout_limits: Sequence[int]
) -> Iterator[Execution]:
    # The ratio is kept, so that a program that sleeps is cut short as well.
    short_wall = limits.wall_seconds * limits.short_cpu_seconds / limits.cpu_seconds
    short = replace(
        limits,
        cpu_seconds=min(limits.cpu_seconds, limits.short_cpu_seconds),
        wall_seconds=min(limits.wall_seconds, short_wall),
    )
    timeouts = 0
    refused: Execution | None = None
    try:
        for stdin, stdout_limit in zip(inputs, stdout_limits, strict=True):
            if refused is not None:
                response.close()
                yield refused
            elif timeouts >= limits.max_timeouts:
                response.close()
                yield Execution(Verdict.TLE, ran=False, message=f"not run: {timeouts} tests before it ran out of time")
            else:
                budget = limits if timeouts < limits.full_limit_timeouts else short
                execution = response.run_patiently(stdin, budget, stdout_limit)
                timeouts += execution.verdict is Verdict.TLE
                if execution.verdict in (Verdict.CE, Verdict.IE):
                    refused = replace(execution, ran=False)
                yield execution
    finally:
        response.close()


class _CompileError(Exception):
    """The program is not valid Python; says why."""


class _Response:
    """A response that is being judged: its slot and its session, both taken at its first test."""

    def __init__(self, sources: list[bytes], has_result: bool) -> None:
        self.sources = sources
        self.has_result = has_result
        self.slot: slots.Slot | None = None
        self.session: socket.socket | None = None

    def close(self) -> None:
        """Stop what runs and give the slot back."""
        self._end_session()
        if self.slot is not None:
            _slots.release(self.slot)
            self.slot = None

    def _end_session(self) -> None:
        if self.session is not None:
            client.close_session(self.session)
            self.session = None

    def run_patiently(self, stdin: bytes, limits: Limits, stdout_limit: int) -> Execution:
        """One test. Where the fork server fails it is tried once more; where the machine is short of something, later."""
        failures = 0
        pauses = iter(START_PAUSES)
        while True:
            try:
                return self._run(stdin, limits, stdout_limit)
            except _CompileError as error:
                return Execution(Verdict.CE, ran=False, message=str(error))
            except ServerError as error:
                self._end_session()
                failures += 1
                if failures == 2:
                    return Execution(Verdict.IE, ran=False, message=str(error))
            except (OSError, MemoryError) as error:
                self._end_session()
                pause = next(pauses, None)
                if pause is None:
                    return Execution(Verdict.IE, ran=False, message=f"{type(error).__name__}: {error}")
                time.sleep(pause)

    def _run(self, stdin: bytes, limits: Limits, stdout_limit: int) -> Execution:
        slot, self.slot = self.slot, None
        asked = time.monotonic()
        self.slot = _slots.acquire() if slot is None else _slots.let_others_go_first(slot)
        queued = time.monotonic() - asked
        if self.session is None:
            self.session = client.open_session(self.sources)
            self._wait_for_compilation()
        files: list[int] = []
        try:
            files.append(client.memory_file("stdin", stdin))
            client.seal(files[0])
            files += [client.memory_file(name) for name in ("stdout", "stderr")]
            if self.has_result:
                files.append(client.memory_file("result"))
            result = self._exchange(files, limits, stdout_limit)
            return replace(_judge(result, files, limits, stdout_limit), queue_seconds=queued)
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _receive(self, seconds: float) -> bytes:
        """One message of the session's. Raises ServerError when none comes."""
        self.session.settimeout(seconds)
        try:
            message = self.session.recv(4096)
        except TimeoutError as error:
            client.discard()  # nothing that works takes so long
            raise ServerError(f"the fork server said nothing for {seconds:.0f} s") from error
        except ConnectionError as error:
            raise ServerError(f"the session was lost: {error}") from error
        if not message:
            raise ServerError("the fork server ended in the middle of a response")
        return message

    def _wait_for_compilation(self) -> None:
        message = self._receive(_COMPILE_WAIT_SECONDS)
        kind, text = message[:1], message[1:].decode(errors="replace")
        if kind == wire.COMPILE_ERROR:
            raise _CompileError(text)
        # Killed from outside it says nothing about the program; killed by its own compilation it does.
        if kind == wire.DIED and int(text) < 0 and -int(text) != signal.SIGKILL:
            raise _CompileError(f"compiling it ended in {signal.Signals(-int(text)).name}")
        if kind != wire.COMPILED:
            raise ServerError(f"the session ended before the first test ({text})")

    def _exchange(self, files: list[int], limits: Limits, stdout_limit: int) -> bytes:
        request = wire.TEST.pack(limits.cpu_seconds, limits.wall_seconds, limits.memory_bytes, stdout_limit, self.slot.index)
        try:
            socket.send_fds(self.session, [request], files)
        except ConnectionError as error:
            raise ServerError(f"the session was lost: {error}") from error
        message = self._receive(limits.wall_seconds * wire.STARVED + 60)
        if message[:1] != wire.ENDED:
            raise ServerError(f"the session ended during a test ({message[1:].decode(errors='replace')})")
        return message[1:]


def _judge(result: bytes, files: list[int], limits: Limits, stdout_limit: int) -> Execution:
    """The verdict on one run, or None as verdict where the comparison decides."""
    status, killed, cpu, wall, written = wire.RESULT.unpack(result)
    stdout = wire.read_all(files[1], stdout_limit + 1)
    value = wire.read_all(files[3], stdout_limit + 1) if len(files) > 3 else None
    stderr = wire.read_ring_end(files[2], written, limits.stderr_tail_bytes).decode(errors="replace")
    code = os.waitstatus_to_exitcode(status)
    verdict = None
    if killed == wire.KILLED_MEMORY or (code != 0 and _ran_out_of_memory(stderr)):
        verdict = Verdict.MLE
    elif len(stdout) > stdout_limit or (value is not None and len(value) > stdout_limit):
        verdict = Verdict.OLE
    elif killed or cpu > limits.cpu_seconds or code == -signal.SIGXCPU:
        verdict = Verdict.TLE
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
