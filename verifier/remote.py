"""The executor's interface over a SandboxFusion service: programs run on its machines, verdicts and names stay the same.

    CODE_REWARD_BACKEND=sandbox_fusion SANDBOX_FUSION_URL=http://host:8080

A request (`POST /run_code`) carries this package, the program and as many of a response's tests as fit; what the service
runs is remote_job.py, which judges them there as executor.py would here and leaves its report in a file that comes back
beside the reply. So what the service does badly by itself does not matter: it measures wall time only, cuts output at a
megabyte (older ones block before that), replaces output that is not UTF-8, loses a program that does not read its input,
sets no hard limits. The expected outputs stay here, and so does the comparison.

A program cannot forge a verdict: it runs behind the same walls as here, in a call-based test with the same channel of its
own for the result. Where the service's machine offers no walls, its own sandbox is the only one, said once on stderr; a
program that gets at other processes there still lacks the key, without which a report is refused.

Whatever is not a whole, sound report is the service's failure: asked for again with growing pauses (running a test twice
changes nothing), and in the end IE. Needs httpx.
"""

from __future__ import annotations

import base64
import io
import json
import os
import random
import secrets
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from verifier import cores, isolation, notice, remote_job, slots, wire
from verifier.verdict import Execution, Limits, Verdict

if TYPE_CHECKING:
    import httpx

BOOTSTRAP = """import os, sys, zipfile
zipfile.ZipFile("engine.zip").extractall("engine")
sys.path[0] = os.path.abspath("engine")
from verifier import remote_job
remote_job.main()
"""
REQUESTS = 32  # at once from this machine, unless CODE_REWARD_CONCURRENCY says otherwise
# What one request carries at most, and one test at least.
JOB_TESTS, JOB_BYTES, JOB_SECONDS, JOB_OUTPUT = 100, 16 << 20, 20.0, 32 << 20
JOB_AT_ONCE = 4  # of its tests, where they take long
CONNECT_SECONDS = 10.0
START_SECONDS = 60.0  # for the service's start of a job and its end, on a machine with too much to do
QUEUE_SECONDS = 120.0  # that a request may wait for its turn in the service
ATTEMPTS = 8
PATIENCE_SECONDS = 180.0  # after which no third attempt is made
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
RETRIED = (408, 425, 429)  # beside all of 5xx

_rest = time.sleep
_chance = random.SystemRandom()  # the trainer's random numbers are its own
_lock = threading.Lock()
_clients: list[httpx.Client] = []
_slots: list[slots.Slots] = []
_warned: set[str] = set()


def _fresh() -> None:
    """A forked child shares no connection and no slot with its parent."""
    global _lock, _clients, _slots
    _lock, _clients, _slots = threading.Lock(), [], []


os.register_at_fork(after_in_child=_fresh)


class ServiceError(Exception):
    """The service gave no report. `again`: worth a further attempt; `pause`: seconds that it asks for."""

    def __init__(self, message: str, again: bool = True, pause: float = 0.0) -> None:
        super().__init__(message)
        self.again, self.pause = again, pause


def runner(url: str) -> Callable[..., Iterator[Execution]]:
    """Return executor.run_tests for programs that the service at `url` runs."""
    return partial(run_tests, url)


def run_tests(
    url: str,
    program: str,
    inputs: Sequence[bytes],
    limits: Limits = Limits(),  # noqa: B008 - frozen
    *,
    fn_name: str | None = None,
    stdout_limits: Sequence[int] | None = None,
) -> Iterator[Execution]:
    """Run `program` on each input, in order, as executor.run_tests does; tests are run a request at a time.

    Never raises for what a program or the service does; where no report can be had the verdict is IE, on all the rest.
    Raises isolation.IsolationError for an unknown CODE_REWARD_ISOLATION.
    """
    if stdout_limits is None:
        stdout_limits = [limits.stdout_bytes] * len(inputs)
    job = {"program": program, "fn_name": fn_name, "seconds": JOB_SECONDS, "room": JOB_OUTPUT, "environment": _environment()}
    done = timeouts = 0
    while done < len(inputs):
        batch = _batch(inputs, done)
        if timeouts >= limits.max_timeouts:
            executions = [Execution(Verdict.TLE, ran=False, message=f"not run: {timeouts} tests before it ran out of time")]
        else:
            left = replace(
                limits,
                full_limit_timeouts=max(0, limits.full_limit_timeouts - timeouts),
                max_timeouts=limits.max_timeouts - timeouts,
            )
            some = {"limits": asdict(left), "stdout_limits": list(stdout_limits[done : done + len(batch)])}
            judged = _judged(url, {**job, **some}, batch, limits)
            executions = [x for x in judged if x.ran or x.verdict is not Verdict.TLE]  # the rest is counted here
        yield from executions
        done += len(executions)
        timeouts += sum(execution.verdict is Verdict.TLE for execution in executions)
        if not executions[-1].ran:  # nor will any that follow: it does not compile, is out of time, or cannot be run
            for _ in range(done, len(inputs)):
                yield executions[-1]
            return


def _environment() -> dict[str, str]:
    """What the executor over there reads from its environment; how many jobs run at once is the service's affair."""
    processes = "1" if isolation.processes_allowed() else "0"
    tests_at_once = str(JOB_AT_ONCE)
    return {
        isolation.ISOLATION: isolation.requested(),
        isolation.PROCESSES: processes,
        "CODE_REWARD_CONCURRENCY": tests_at_once,
    }


def _batch(inputs: Sequence[bytes], start: int) -> list[bytes]:
    """The inputs from `start` on that go into one request."""
    batch, size = [inputs[start]], len(inputs[start])
    for index in range(start + 1, min(start + JOB_TESTS, len(inputs))):
        size += len(inputs[index])
        if size > JOB_BYTES:
            break
        batch.append(inputs[index])
    return batch


def _judged(url: str, job: dict[str, object], batch: list[bytes], limits: Limits) -> list[Execution]:
    """The executions of the first tests of `batch`, of at least one; or one IE."""
    key = secrets.token_hex(16)
    run_seconds = JOB_SECONDS + wire.STARVED * limits.wall_seconds + START_SECONDS
    files = {"engine.zip": _engine(), remote_job.JOB: base64.b64encode(remote_job.pack(job, batch)).decode()}
    request = {
        "code": BOOTSTRAP,
        "language": "python",
        "stdin": f"{key}\n",
        "run_timeout": run_seconds,
        "files": files,
        "fetch_files": [remote_job.REPORT],
    }
    body = json.dumps(request).encode()
    started = time.monotonic()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            reply = _post(url, body, run_seconds + QUEUE_SECONDS)
            return _read_report(_report_in(reply), key, job, len(batch))
        except ServiceError as error:
            failure = error
        if not failure.again or (attempt > 1 and time.monotonic() - started > PATIENCE_SECONDS):
            break
        if attempt < ATTEMPTS:
            longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
            _rest(max(failure.pause, longest * _chance.uniform(0.5, 1)))
    message = f"SandboxFusion at {url}, attempt {attempt}: {failure}"
    return [Execution(Verdict.IE, ran=False, message=message)]


@cache
def _engine() -> str:
    """This package as a zip file, in base64: what a job runs on."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(Path(__file__).parent.glob("*.py")):
            archive.write(path, f"verifier/{path.name}")
    return base64.b64encode(data.getvalue()).decode()


def _client() -> httpx.Client:
    import httpx

    with _lock:
        if not _clients:
            pool = httpx.Limits(max_connections=None, max_keepalive_connections=REQUESTS)
            _clients.append(httpx.Client(limits=pool))
        return _clients[0]


def _turn() -> slots.Slots:
    """The requests that may be under way from this machine, counted over all its processes."""
    with _lock:
        if not _slots:
            count = cores.concurrency() if os.environ.get("CODE_REWARD_CONCURRENCY") else REQUESTS
            _slots.append(slots.Slots(count, f"code-reward-requests-{os.getuid()}"))
        return _slots[0]


def _post(url: str, body: bytes, seconds: float) -> object:
    """One request; returns the JSON of the reply. Raises ServiceError."""
    import httpx

    turns = _turn()
    slot = turns.acquire()
    try:
        timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        headers = {"Content-Type": "application/json"}
        reply = _client().post(f"{url}/run_code", content=body, headers=headers, timeout=timeout)
    except httpx.HTTPError as error:
        raise ServiceError(f"{type(error).__name__}: {error}") from error
    except (httpx.InvalidURL, ValueError) as error:
        raise ServiceError(f"{type(error).__name__}: {error}", again=False) from error
    finally:
        turns.release(slot)
    if reply.status_code != httpx.codes.OK:
        again = reply.status_code in RETRIED or reply.status_code >= 500
        message = f"HTTP {reply.status_code} {reply.reason_phrase} {reply.text[:200]}".strip()
        raise ServiceError(message, again, _seconds(reply.headers.get("Retry-After", "")))
    try:
        return reply.json()
    except ValueError as error:
        raise ServiceError(f"the reply is no JSON ({error})") from error


def _seconds(text: str) -> float:
    return min(float(text), LONGEST_PAUSE_SECONDS) if text.isdecimal() else 0.0


def _report_in(reply: object) -> bytes:
    """The report's bytes, out of a reply of /run_code. Raises ServiceError where it has none."""
    if not isinstance(reply, dict):
        raise ServiceError(f"the reply is a JSON {type(reply).__name__}, not an object")
    run, files = reply.get("run_result"), reply.get("files")
    run = run if isinstance(run, dict) else {}
    if reply.get("status") == "Success" and isinstance(files, dict) and isinstance(files.get(remote_job.REPORT), str):
        try:
            return base64.b64decode(files[remote_job.REPORT], validate=True)
        except ValueError as error:
            raise ServiceError(f"the report is no base64 ({error})") from error
    said = str(run.get("stderr") or reply.get("message") or "").strip().rpartition("\n")[2]
    how = f"{reply.get('status')}, {run.get('status')}, exit code {run.get('return_code')}"
    raise ServiceError(f"no report came back ({how}): {said[-300:]}")


def _read_report(data: bytes, key: str, job: dict[str, object], asked: int) -> list[Execution]:
    """The executions in a report on `asked` tests. Raises ServiceError for anything but a sound one."""
    stdout_limits = job["stdout_limits"]
    try:
        most = JOB_OUTPUT + 2 * max(stdout_limits) + (asked << 16)  # stderr and message take a few thousand bytes each
        report, pieces = remote_job.unpack(data, most)
        if not secrets.compare_digest(str(report["key"]), key):
            raise ValueError("it is not by the verifier")
        parts = iter(pieces)
        executions = [_execution(test, parts) for test in report["tests"]]
        if not 1 <= len(executions) <= asked or next(parts, None) is not None:
            raise ValueError(f"it speaks of {len(executions)} tests, and {asked} were asked for")
        if any(len(execution.stdout) > limit for execution, limit in zip(executions, stdout_limits, strict=False)):
            raise ValueError("an output is longer than it may be")
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ServiceError(f"the report is damaged ({type(error).__name__}: {error})") from error
    if executions[-1].verdict is Verdict.IE:
        raise ServiceError(f"the verifier failed there: {executions[-1].message}")
    _say_once_without_walls(str(report["walls"]))
    return executions


def _execution(test: dict, parts: Iterator[bytes]) -> Execution:
    verdict = None if test["verdict"] is None else Verdict(test["verdict"])
    said = {name: test[name] for name in remote_job.SAID}
    exit_code, cpu, wall, ran, stderr, message = said.values()
    numbers = type(cpu) in (int, float) and type(wall) in (int, float) and type(exit_code) in (int, type(None))
    if not (numbers and type(ran) is bool and isinstance(stderr, str) and isinstance(message, str)):
        raise ValueError("a test's fields have other types")
    if verdict is None and exit_code != 0:
        raise ValueError(f"a test ended with exit code {exit_code} and without a verdict")
    return Execution(verdict, stdout=next(parts), result=next(parts) if test["has_result"] else None, **said)


def _say_once_without_walls(walls: str) -> None:
    if walls == "off" and "off" not in _warned and isolation.requested() != "off":
        _warned.add("off")
        notice.say(
            "code_reward: SandboxFusion's machine offers no isolation of its own, so its sandbox is all that confines "
            f"the programs; {isolation.ISOLATION}=landlock (or another mode) would refuse to run them there."
        )
