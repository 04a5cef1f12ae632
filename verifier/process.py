"""One run of a program in a process of its own: start it, feed it, watch it, end it, and say what the kernel saw.

Covered: limits on CPU, wall time, memory, stdout and file size; a clean environment; an empty folder that is removed; the
death of everything the program started. Not covered: it runs as the same user, may read what that user may read, use
the network and signal other processes; a child that leaves the session *and* starts another program with an emptied
environment is not found again; and if this process is itself killed by SIGKILL, a test that sleeps outlives it.

Verdicts. TLE: more CPU (the kernel's count, all threads and waited-for children) than the limit, or the wall limit, from
which time spent waiting for a core is taken off. MLE: peak resident memory above the limit, or an exit code other than
0 whose last line on stderr names a MemoryError (what Python says at the address-space limit). OLE: more bytes than the
cap on stdout or on the result channel. CE: the compiler refused it before its first line ran. RE: any other end with an
exit code other than 0.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import math
import os
import resource
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from verifier import calls, leftovers
from verifier.verdict import Execution, Limits, Verdict

LAUNCHER = Path(__file__).with_name("launcher.py")
INTERPRETER_BYTES = 16 << 20  # what Python itself has resident; measured 8 to 10 MiB for 3.10 to 3.13
ADDRESS_SPACE_SLACK = 768 << 20  # threads reserve stacks that they never touch; resident memory is what is judged
FILE_BYTES = 16 << 20
OPEN_FILES = 256
POLL_SECONDS = 0.05  # how often the clocks and the memory of a running program are read
STARVED_FACTOR = 10  # even a program that waits for a core all the time is given up after so many wall limits
TOKEN = "CODE_REWARD_RUN"  # marks every descendant of a test in its environment


class CannotRun(Exception):
    """The verifier, not the program, failed; the text says how."""


def run_once(program: str, stdin: bytes, limits: Limits, fn_name: str | None, stdout_limit: int) -> Execution:
    """One try at one test (`stdout_limit` in bytes). Raises CannotRun and OSError for failures not the program's."""
    token = secrets.token_hex(8)
    with contextlib.ExitStack() as cleanup:
        folder = tempfile.mkdtemp(prefix="code-reward-")
        cleanup.callback(leftovers.remove, folder)
        _write_program(Path(folder), program, fn_name)
        stdin_fd = cleanup.enter_context(_input_file(stdin)).fileno()
        stdout = cleanup.enter_context(_Pipe(limit=stdout_limit))
        stderr = cleanup.enter_context(_Pipe(tail=limits.stderr_tail_bytes))
        status = cleanup.enter_context(_Pipe())
        result = cleanup.enter_context(_Pipe(limit=stdout_limit))
        started = time.monotonic()
        process = subprocess.Popen(
            _command(limits, status.write_fd, result.write_fd if fn_name else -1),
            stdin=stdin_fd,
            stdout=stdout.write_fd,
            stderr=stderr.write_fd,
            pass_fds=(status.write_fd, result.write_fd) if fn_name else (status.write_fd,),
            cwd=folder,
            env=_environment(folder, token),
            start_new_session=True,
        )
        try:
            for pipe in (stdout, stderr, status, result):
                pipe.close_write_end()
            killed = _watch(process.pid, (stdout, stderr, result), limits, started)
        finally:
            exit_code, usage = _end(process, token)
        wall_seconds = time.monotonic() - started
        for pipe in (stdout, stderr, status, result):
            pipe.read()  # once: all that a pipe holds, and not until its end, which a process that got away could put off
        stderr_tail = stderr.data.decode(errors="replace")
        verdict, message = _judge(killed, exit_code, usage, limits, bytes(status.data), stderr_tail)
        if verdict is None and (stdout.full or result.full):
            verdict = Verdict.OLE
        return Execution(
            verdict=verdict,
            stdout=bytes(stdout.data),
            stderr_tail=stderr_tail,
            exit_code=exit_code,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            wall_seconds=wall_seconds,
            ran=verdict is not Verdict.CE,
            result=bytes(result.data) if fn_name else None,
            message=message,
        )


def _judge(
    killed: Verdict | None, exit_code: int, usage: resource.struct_rusage, limits: Limits, status: bytes, stderr_tail: str
) -> tuple[Verdict | None, str]:
    """The verdict on a process that has ended, and one line for CE. The rules are in the module's docstring."""
    last_line = stderr_tail.rstrip().rpartition("\n")[2]
    if not status.startswith(b"L"):
        how = "was over its limits before it started" if killed else f"ended with exit code {exit_code}"
        raise CannotRun(f"{sys.executable} {how}: {last_line}")
    if status[1:2] != b"R":
        return Verdict.CE, status[2:].decode(errors="replace") or "the compiler died, or ran into the limits"
    if killed:
        return killed, ""
    if usage.ru_utime + usage.ru_stime > limits.cpu_seconds:
        return Verdict.TLE, ""
    if _peak_after_the_end(usage) > limits.memory_bytes + INTERPRETER_BYTES:
        return Verdict.MLE, ""
    if exit_code == 0:
        return None, ""
    out_of_memory = last_line.partition(":")[0].endswith("MemoryError")  # numpy has a class of its own
    return Verdict.MLE if out_of_memory else Verdict.RE, ""


def _watch(pid: int, pipes: Sequence[_Pipe], limits: Limits, started: float) -> Verdict | None:
    """Drain the pipes until the process ends by itself (None) or has to be killed (the verdict)."""
    with contextlib.ExitStack() as cleanup:
        poller = select.poll()
        by_fd = {pipe.read_fd: pipe for pipe in pipes}
        for fd in by_fd:
            poller.register(fd, select.POLLIN)
        pause = POLL_SECONDS
        try:
            pidfd = os.pidfd_open(pid)
            cleanup.callback(os.close, pidfd)
            poller.register(pidfd, select.POLLIN)
        except (AttributeError, OSError):  # before Linux 5.3
            pidfd, pause = -1, POLL_SECONDS / 10
        next_look = started + pause
        while True:
            for fd, _ in poller.poll(max(0.0, next_look - time.monotonic()) * 1000):
                if fd == pidfd:
                    return None
                if by_fd[fd].read() == b"":
                    poller.unregister(fd)
                if by_fd[fd].full:
                    return Verdict.OLE
            now = time.monotonic()
            if now >= next_look:
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return None
                if verdict := _over_limits(pid, limits, now - started):
                    return verdict
                next_look = now + pause


def _over_limits(pid: int, limits: Limits, wall_seconds: float) -> Verdict | None:
    try:
        if time.clock_gettime((~pid << 3) | 2) > limits.cpu_seconds:  # Linux's number for the CPU clock of a process
            return Verdict.TLE
        if _resident_peak(pid) > limits.memory_bytes + INTERPRETER_BYTES:
            return Verdict.MLE
        if wall_seconds > limits.wall_seconds and (
            wall_seconds - _starved_seconds(pid) > limits.wall_seconds or wall_seconds > limits.wall_seconds * STARVED_FACTOR
        ):
            return Verdict.TLE
    except OSError:
        pass  # it has ended in the meantime
    return None


def _resident_peak(pid: int) -> int:
    with open(f"/proc/{pid}/status", "rb") as status:
        for line in status:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0  # a zombie has none


def _starved_seconds(pid: int) -> float:
    """How long the main thread was ready to run and had no core: a busy machine must not turn right into wrong."""
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/schedstat", "rb") as schedstat:
        return int(schedstat.read().split()[1]) / 1e9
    return 0.0  # a kernel without this count


def _peak_after_the_end(usage: resource.struct_rusage) -> int:
    """Peak resident bytes, or 0 where they cannot be told from this process's own.

    Between vfork and exec the child lives in its parent's memory, and the kernel counts that as its first peak.
    """
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage.ru_maxrss * 1024 if usage.ru_maxrss > own else 0


def _end(process: subprocess.Popen, token: str) -> tuple[int, resource.struct_rusage]:
    """Kill everything the test has started and collect its exit code (negative: the signal) and what it used."""
    pid = process.pid
    try:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        leftovers.kill(pid, f"{TOKEN}={token}")  # while the zombie keeps its number from being given to somebody else
        _, wait_status, usage = os.wait4(pid, 0)
    except ChildProcessError:
        process.returncode = -1
        raise CannotRun("the exit status was lost: something else in this process collects its children") from None
    process.returncode = os.waitstatus_to_exitcode(wait_status)
    return process.returncode, usage


class _Pipe:
    """What the child writes and the parent keeps: the first `limit` bytes or the last `tail`."""

    def __init__(self, limit: int | None = None, tail: int | None = None) -> None:
        self.data = bytearray()
        self.full = False  # more than `limit` bytes came
        self.limit, self.tail = limit, tail
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_write_end()
        os.close(self.read_fd)

    def close_write_end(self) -> None:
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def read(self) -> bytes | None:
        """Take what is there; None: nothing for now, empty: nothing for ever."""
        try:
            chunk = os.read(self.read_fd, 1 << 20)
        except BlockingIOError:
            return None
        self.data += chunk
        if self.tail is not None:
            del self.data[: max(0, len(self.data) - self.tail)]
        if self.limit is not None and len(self.data) > self.limit:
            del self.data[self.limit :]
            self.full = True
        return chunk


def _command(limits: Limits, status_fd: int, result_fd: int) -> list[str]:
    numbers = (
        math.ceil(limits.cpu_seconds) + 1,  # the parent's look at the clock comes first
        limits.memory_bytes + ADDRESS_SPACE_SLACK,
        limits.memory_bytes,
        FILE_BYTES,
        OPEN_FILES,
    )
    flags = ["-S", "-s", "-B"]  # no site module, and thus nothing of the trainer's environment; no .pyc files
    return [sys.executable, *flags, str(LAUNCHER), str(status_fd), str(result_fd), _numpy_folder(), *map(str, numbers)]


def _environment(folder: str, token: str) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        "PYTHONHASHSEED": "0",  # the same program gets the same reward
        TOKEN: token,
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }


@functools.cache
def _numpy_folder() -> str:
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("numpy")
        if spec and spec.origin:
            return str(Path(spec.origin).parent.parent)
    return ""


def _write_program(folder: Path, program: str, fn_name: str | None) -> None:
    # A lone surrogate is not text: written as it is, it makes the launcher refuse the program.
    if fn_name:
        (folder / "program.py").write_bytes(program.encode("utf-8", "surrogatepass"))
        program = calls.driver(program, fn_name)
    (folder / "main.py").write_bytes(program.encode("utf-8", "surrogatepass"))


def _input_file(stdin: bytes) -> BinaryIO:
    """stdin as after `<`: it can be sought and its size is known. In memory, and sealed against the program."""
    file = os.fdopen(os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+b", buffering=0)
    try:
        rest = memoryview(stdin)
        while rest:
            rest = rest[file.write(rest) :]
        file.seek(0)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    except OSError:
        file.close()
        raise
    return file
