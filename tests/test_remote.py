"""The sandbox_fusion backend against a stand-in of SandboxFusion's format: its verdicts, its faults, what it sends.

Every program runs in a real process behind the project's own walls, which the backend brings along.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandbox_fusion_stand_in import FAULTS, StandIn

from code_reward import compute_score
from verifier import calls, canary, client, executor, isolation, options, remote, remote_job, wire
from verifier.verdict import Execution, Limits, Verdict

ROOT = Path(__file__).resolve().parent.parent
ADD = "a, b = map(int, input().split())\nprint(a + b)"
SUMS = {"inputs": ["3 4\n", "-5 5\n"], "outputs": ["7\n", "0\n"]}
LIMITS = Limits(cpu_seconds=0.5, wall_seconds=2, memory_bytes=128 << 20, stdout_bytes=4 << 20, short_cpu_seconds=0.1)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv(isolation.ISOLATION, client.mode())  # a service without walls must not run these programs
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(canary, "_answers", {os.getpid(): ""})  # its three programs are no requests of these tests
    with StandIn() as server:
        yield server


def fenced(program: str) -> str:
    return f"```python\n{program}\n```"


def score(service: StandIn, program: str, truth: object = SUMS, **more: object) -> dict[str, float]:
    there = {"backend": "sandbox_fusion", "sandbox_fusion_url": service.url}
    return compute_score("test", fenced(program), truth, more.pop("extra_info", {"index": 0}), **there, **more)


def jobs(service: StandIn) -> list[tuple[dict, list[bytes]]]:
    """What was sent: each request's job."""
    return [remote_job.unpack(base64.b64decode(request["files"]["job"]), 1 << 30) for request in service.requests]


# --- the same as here ---

PROGRAMS = {
    "right": ADD,
    "exit code": f"{ADD}\nraise SystemExit(3)",
    "exception": "1 / 0",
    "killed by itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "syntax error": "print(",
    "loop": "while True: pass",
    "asleep": "import time\ntime.sleep(600)",
    "memory": "data = bytearray(400 << 20)",
    "flood": "while True: print('x' * 4096)",
    "stderr flood": f"import sys\nsys.stderr.write('x' * 5_000_000)\n{ADD}",
    "input not read": "print(7)",
    "not UTF-8": r"import sys; sys.stdout.buffer.write(b'\xff\xfe\r\n\x00')",
    "three megabytes": "print('x' * 3_000_000)",
    "surrogate": "print('\\udc80')",
    "reads everything": "import sys\nprint(len(sys.stdin.buffer.read()))",
}


def essence(execution: Execution) -> Execution:
    """What does not depend on the clock or on an address."""
    return dataclasses.replace(execution, cpu_seconds=0.0, wall_seconds=0.0, queue_seconds=0.0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_here(service: StandIn, name: str) -> None:
    inputs = [b"3 4\n", b"\xff\x00not text\r\n", b"", b"9" * 300_000]
    local = list(executor.run_tests(PROGRAMS[name], inputs, LIMITS, stdout_limits=[1 << 22] * 3 + [100]))
    there = list(remote.run_tests(service.url, PROGRAMS[name], inputs, LIMITS, stdout_limits=[1 << 22] * 3 + [100]))
    if local[0].verdict is Verdict.OLE:  # how far it gets beside the limit is chance
        local, there = ([dataclasses.replace(x, stderr_tail="") for x in run] for run in (local, there))
    assert list(map(essence, there)) == list(map(essence, local))
    assert all(execution.cpu_seconds > 0 for execution in there if execution.ran)


@pytest.mark.parametrize("program", [
    "def f(a, b):\n    print('not the result')\n    return a + b",
    "class Solution:\n    def f(self, a, b):\n        return {'sum': (a + b, [a, b])}",
    "def f(a, b):\n    raise SystemExit(0)",
    "import os\nos.write(3, b'7')\nos._exit(0)",
    "def g(): pass",
    "def f(a, b):\n    return object()",
])  # fmt: skip
def test_call_based_as_here(service: StandIn, program: str) -> None:
    inputs = [calls.encode_args([3, 4]), calls.encode_args([10**30, 1])]
    local = list(executor.run_tests(program, inputs, LIMITS, fn_name="f"))
    there = list(remote.run_tests(service.url, program, inputs, LIMITS, fn_name="f"))
    assert list(map(essence, there)) == list(map(essence, local))


def test_checkers(service: StandIn) -> None:
    checker = "def check(input, expected, output):\n    return sum(map(int, output.split())) == int(input)"
    truth = {"inputs": ["7\n", "12\n"], "outputs": ["3 4\n", "6 6\n"]}
    program = "n = int(input())\nprint(1, n - 1 if n < 10 else n)"
    assert score(service, program, truth, extra_info={"checker": checker})["pass_rate"] == 0.5
    assert score(service, program, truth, extra_info={"checker": "def check(a, b, c): 1 / 0"})["internal_error"] == 1.0
    programs = [job["program"] for job, _ in jobs(service)]
    assert programs == [program, checker, program, "def check(a, b, c): 1 / 0"]  # each request has one of the two


def test_the_expected_output_is_not_sent(service: StandIn) -> None:
    secret = "8f3a-expected-17c9"
    assert score(service, ADD, {"inputs": ["3 4\n"], "outputs": [f"{secret}\n"]})["wrong_answer"] == 1.0
    assert score(service, "def f(a): return a", {"fn_name": "f", "inputs": ["1"], "outputs": [f'"{secret}"']})["score"] == 0.0
    for request, (job, inputs) in zip(service.requests, jobs(service), strict=True):
        archive = base64.b64decode(request["files"]["engine.zip"])
        assert secret not in json.dumps([request, job]) and secret.encode() not in b"".join([archive, *inputs])


# --- the time that one response may cost ---


def test_a_loop_costs_what_it_costs_here(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full limits, short limits, not run: also where the tests are spread over many requests."""
    monkeypatch.setattr(remote, "JOB_TESTS", 4)
    executions = list(remote.run_tests(service.url, "while True: pass", [b""] * 14, LIMITS))
    assert [execution.verdict for execution in executions] == [Verdict.TLE] * 14
    assert [execution.ran for execution in executions] == [True] * 10 + [False] * 4
    assert [execution.cpu_seconds > 0.45 for execution in executions[:10]] == [True] * 3 + [False] * 7
    assert executions[-1].message == "not run: 10 tests before it ran out of time"
    assert len(service.requests) == 3


def test_after_the_last_timeout_nothing_more_is_asked(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "JOB_TESTS", 2)
    limits = dataclasses.replace(LIMITS, max_timeouts=2)
    executions = list(remote.run_tests(service.url, "while True: pass", [b""] * 6, limits))
    assert [execution.ran for execution in executions] == [True] * 2 + [False] * 4
    assert executions[-1].message == "not run: 2 tests before it ran out of time"
    assert len(service.requests) == 1


@pytest.mark.parametrize("setting, value", [("JOB_SECONDS", 0.0), ("JOB_OUTPUT", 0), ("JOB_BYTES", 0), ("JOB_TESTS", 1)])
def test_a_request_ends_early_and_the_next_goes_on(service, monkeypatch, setting: str, value: float) -> None:
    monkeypatch.setattr(remote, setting, value)
    executions = list(remote.run_tests(service.url, "print(int(input()) + 1)", [b"%d\n" % n for n in range(5)], LIMITS))
    assert [execution.stdout for execution in executions] == [b"%d\n" % (n + 1) for n in range(5)]
    assert len(service.requests) == 5


def test_a_compile_error_is_asked_for_once(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "JOB_TESTS", 1)
    executions = list(remote.run_tests(service.url, "print(", [b""] * 3, LIMITS))
    assert [execution.verdict for execution in executions] == [Verdict.CE] * 3
    assert len(service.requests) == 1


def test_no_tests_no_request(service: StandIn) -> None:
    assert list(remote.run_tests(service.url, ADD, [], LIMITS)) == []
    assert service.requests == []


# --- a service that fails ---


QUICK = {"timeout": 0.1, "wall_timeout": 0.5}
RUN_SECONDS = remote.JOB_SECONDS + wire.STARVED * QUICK["wall_timeout"] + remote.START_SECONDS


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_tried_again(service: StandIn, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault == "hang":
        monkeypatch.setattr(remote, "QUEUE_SECONDS", 10 - RUN_SECONDS)
    service.faults += [fault]
    numbers = score(service, ADD, **QUICK)
    assert (numbers["score"], numbers["internal_error"]) == (1.0, 0.0)
    assert len(service.requests) == 2
    assert service.requests[0] == service.requests[1]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stays_is_an_internal_error(service, monkeypatch, capsys, fault: str) -> None:
    """Never a wrong answer, for a right program or a wrong one; said on stderr with the reason."""
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    if fault == "hang":
        monkeypatch.setattr(remote, "QUEUE_SECONDS", 1 - RUN_SECONDS)
    for program in (ADD, "print('no')"):
        service.faults[:] = [fault] * 4
        numbers = score(service, program, **QUICK)
        assert {name for name, value in numbers.items() if value} == {"format", "internal_error"}
        assert service.faults == []
        said = capsys.readouterr().err
        assert "INTERNAL ERROR" in said and f"SandboxFusion at {service.url}, attempt 2: " in said


def test_a_service_that_is_not_there(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.001)
    with StandIn() as gone:
        pass
    assert score(gone, ADD)["internal_error"] == 1.0
    assert "attempt 8: ConnectError" in capsys.readouterr().err


def test_what_would_fail_again_is_not_tried_again(service: StandIn, capsys: pytest.CaptureFixture) -> None:
    numbers = compute_score(
        "test", fenced(ADD), SUMS, {}, backend="sandbox_fusion", sandbox_fusion_url=f"{service.url}/wrong/place"
    )
    assert numbers["internal_error"] == 1.0
    assert "attempt 1: HTTP 404 Not Found" in capsys.readouterr().err
    assert len(service.requests) == 2  # scoring.ATTEMPTS, one each


def test_pauses_grow(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = []
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_SECONDS", 30.0)
    monkeypatch.setattr(remote, "_rest", pauses.append)
    service.faults += ["server error"] * 6 + ["too many requests"]
    (execution,) = remote.run_tests(service.url, ADD, [b"1 2\n"], LIMITS)
    assert execution.stdout == b"3\n"
    assert len(pauses) == 7
    for pause, longest in zip(pauses[:6], (0.5, 1, 2, 4, 8, 16), strict=True):
        assert longest / 2 <= pause <= longest
    assert 15 <= pauses[6] <= 30  # more than the 7 s of Retry-After


def test_a_wish_for_a_longer_pause_is_heard(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = []
    monkeypatch.setattr(remote, "LONGEST_PAUSE_SECONDS", 30.0)
    monkeypatch.setattr(remote, "_rest", pauses.append)
    service.faults += ["too many requests"]
    assert score(service, ADD)["score"] == 1.0
    assert pauses == [7.0]


GOOD = {"verdict": None, "exit_code": 0, "cpu_seconds": 0.1, "wall_seconds": 0.1, "ran": True, "stderr_tail": "", "message": "",
        "has_result": False}  # fmt: skip


def test_a_report_by_another_is_refused(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that got out and wrote the report itself would lack the key."""
    monkeypatch.setattr(remote, "ATTEMPTS", 1)
    forged = remote_job.pack({"key": "0" * 32, "walls": "landlock", "tests": [GOOD]}, [b"3\n"])
    monkeypatch.setattr(remote, "_report_in", lambda _: forged)
    (execution,) = remote.run_tests(service.url, ADD, [b"1 2\n"], LIMITS)
    assert execution.verdict is Verdict.IE
    assert "it is not by the verifier" in execution.message


@pytest.mark.parametrize("tests, pieces", [
    ([], []),
    ([GOOD], []),
    ([GOOD], [b"3\n", b"more"]),
    ([GOOD, GOOD], [b"3\n", b"3\n"]),
    ([GOOD | {"verdict": "AC?"}], [b"3\n"]),
    ([GOOD | {"exit_code": 1}], [b"3\n"]),
    ([GOOD | {"exit_code": None}], [b"3\n"]),
    ([GOOD | {"exit_code": "0"}], [b"3\n"]),
    ([GOOD | {"cpu_seconds": "little"}], [b"3\n"]),
    ([GOOD | {"ran": 1}], [b"3\n"]),
    ([GOOD | {"stderr_tail": None}], [b"3\n"]),
    ([{}], [b"3\n"]),
    (["AC"], [b"3\n"]),
    (7, [b"3\n"]),
    ([GOOD], [b"x" * (LIMITS.stdout_bytes + 1)]),
    ([GOOD], [b"x" * (64 << 20)]),
])  # fmt: skip
def test_a_report_must_be_sound(service, monkeypatch, tests: object, pieces: list[bytes]) -> None:
    monkeypatch.setattr(remote, "ATTEMPTS", 1)
    monkeypatch.setattr(remote.secrets, "token_hex", lambda _: "key")
    report = remote_job.pack({"key": "key", "walls": "landlock", "tests": tests}, pieces)
    monkeypatch.setattr(remote, "_report_in", lambda _: report)
    (execution,) = remote.run_tests(service.url, ADD, [b"1 2\n"], LIMITS)
    assert execution.verdict is Verdict.IE
    assert "the report is damaged" in execution.message


def test_the_verifiers_own_failure_there_is_tried_again(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ATTEMPTS", 3)
    monkeypatch.setattr(remote.secrets, "token_hex", lambda _: "key")
    failed = GOOD | {"verdict": "IE", "exit_code": None, "ran": False, "message": "the fork server cannot fork"}
    report = remote_job.pack({"key": "key", "walls": "landlock", "tests": [GOOD, failed]}, [b"3\n", b""])
    monkeypatch.setattr(remote, "_report_in", lambda _: report)
    executions = list(remote.run_tests(service.url, ADD, [b"1 2\n"] * 2, LIMITS))
    assert [execution.verdict for execution in executions] == [Verdict.IE] * 2
    assert "the fork server cannot fork" in executions[0].message
    assert len(service.requests) == 3


# --- isolation there ---


def test_without_walls_there_it_says_so_once(service: StandIn, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv(isolation.ISOLATION, "auto")
    monkeypatch.setattr(remote, "_warned", set())
    monkeypatch.setattr(remote, "_engine", without_walls)
    for _ in range(2):
        (execution,) = remote.run_tests(service.url, ADD, [b"1 2\n"], LIMITS)
        assert (execution.verdict, execution.stdout) == (None, b"3\n")
    assert capsys.readouterr().err.count("offers no isolation of its own") == 1


def test_walls_asked_for_by_name_are_insisted_on(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ATTEMPTS", 1)
    monkeypatch.setattr(remote, "_engine", without_walls)
    (execution,) = remote.run_tests(service.url, ADD, [b"1 2\n"], LIMITS)
    assert execution.verdict is Verdict.IE
    assert "Refusing to run model-written programs" in execution.message


def without_walls() -> str:
    """The package as it is on a machine where no wall can be put up."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in (ROOT / "verifier").glob("*.py"):
            text = path.read_text()
            if path.name == "walls.py":
                assert "def attempt(" in text
                text += "\n\ndef attempt(*_):\n    return 'not on this machine'\n"
            archive.writestr(f"verifier/{path.name}", text)
    return base64.b64encode(data.getvalue()).decode()


# --- many at once ---


def test_no_more_requests_than_allowed(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted over threads and processes of this machine."""
    monkeypatch.setenv("CODE_REWARD_CONCURRENCY", "2")
    monkeypatch.setattr(remote, "_slots", [])
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from verifier import remote\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        f"run = lambda n: list(remote.run_tests({service.url!r}, 'print(1)', [b'']))[0].stdout\n"
        "with ThreadPoolExecutor(4) as pool: assert list(pool.map(run, range(4))) == [b'1\\n'] * 4\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code])
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: score(service, ADD)["score"], range(4)))
    assert other.wait(300) == 0
    assert results == [1.0] * 4
    assert len(service.requests) == 8
    assert service.most_under_way <= 2


def test_a_forked_child_has_connections_of_its_own(service: StandIn) -> None:
    assert score(service, ADD)["score"] == 1.0
    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            ok = not remote._clients and score(service, ADD)["score"] == 1.0
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert score(service, ADD)["score"] == 1.0


def test_connections_are_used_again(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    made, lock, make = [], threading.Lock(), service.get_request

    def counted() -> tuple:
        with lock:
            made.append(1)
        return make()

    monkeypatch.setattr(service, "get_request", counted)
    for _ in range(3):
        assert score(service, ADD)["score"] == 1.0
    assert len(made) == 1


# --- options ---


@pytest.mark.parametrize(
    "url", ["http://host:8080", "http://host:8080/", "http://host:8080/run_code", " http://host:8080/run_code/"]
)
def test_addresses(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("CODE_REWARD_BACKEND", "sandbox_fusion")
    monkeypatch.setenv("SANDBOX_FUSION_URL", url)
    assert options.read({}).service == "http://host:8080"


def test_the_address_alone_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_FUSION_URL", "http://host:8080")
    assert options.read({}).service is None


@pytest.mark.parametrize("arguments, sentence", [
    ({"backend": "sandbox_fusion"}, "needs the service's address: set SANDBOX_FUSION_URL"),
    ({"backend": "sandboxfusion"}, "option backend must be one of local, sandbox_fusion, not 'sandboxfusion'"),
    ({"backend": "sandbox_fusion", "sandbox_fusion_url": "host:8080"}, "must be an address like http://host:8080"),
    ({"backend": "sandbox_fusion", "sandbox_fusion_url": ""}, "must be an address like http://host:8080"),
    ({"sandbox_fusion_url": "http://host:8080"}, "does nothing without backend=sandbox_fusion"),
])  # fmt: skip
def test_options_that_cannot_be_meant(arguments: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        options.read(arguments, {})
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_local_backend_needs_no_package(tmp_path: Path) -> None:
    """With site-packages out of sight the local one works, and the other says what is missing."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from code_reward import compute_score\n"
        f"print(compute_score('t', {fenced('print(7)')!r}, {{'inputs': [''], 'outputs': ['7']}})['score'])\n"
        "try: compute_score('t', '', '', backend='sandbox_fusion', sandbox_fusion_url='http://host')\n"
        "except ValueError as error: print(error)\n"
        "print('httpx' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-S", "-s", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    missing = "code_reward's backend sandbox_fusion needs httpx: run pip install httpx"
    assert done.stdout.splitlines() == ["1.0", missing, "False"]


def test_the_self_test_checks_the_service(service: StandIn) -> None:
    """`python3 code_reward.py` runs its programs where a run would."""
    settings = {"CODE_REWARD_BACKEND": "sandbox_fusion", "SANDBOX_FUSION_URL": service.url}
    command = [sys.executable, str(ROOT / "code_reward.py")]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(service.requests) > 15
