"""Run hostile programs through the executor as it is configured by the environment; print one JSON object.

    python3 tests/attack_round.py            every attack of tests/cases/*attacks.json
    python3 tests/attack_round.py ID ...     some of them

Kept apart from pytest so that a round can run as another user, under another isolation, or inside an emulated
container. The object maps the ids of attacks that were not contained to the reasons; "mode" and "ran" stand beside.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from leftovers import parents, servers_and_below  # noqa: E402

from verifier import client, isolation  # noqa: E402
from verifier.executor import run_tests  # noqa: E402
from verifier.verdict import Execution, Limits, Verdict  # noqa: E402

LIMITS = Limits(cpu_seconds=1, wall_seconds=2, memory_bytes=256 << 20, stdout_bytes=1 << 20)
HANG_SECONDS = 30  # over the limits, on a busy machine
PORT = "38917"  # as the attacks have it; here the kernel chooses, so that rounds can run side by side
PLACES = ("/tmp", "/dev/shm", "/var/tmp", "/")


def processes() -> set[int]:
    """Living processes of our fork server, less the server itself."""
    return {pid for pid in servers_and_below({os.getpid()}) if parents().get(pid, (os.getpid(), ""))[0] != os.getpid()}


def left_files() -> set[Path]:
    return {path for place in PLACES for pattern in (".sbx*", "core*") for path in Path(place).glob(pattern)}


def verdict_of(execution: Execution, expected: str) -> str:
    if execution.verdict is not None:
        return execution.verdict.value
    same = execution.stdout.split() == expected.encode().split()
    return (Verdict.AC if same else Verdict.WA).value


def attack(case: dict, canary: str, port: int) -> list[str]:
    """Run one attack; returns what was wrong."""
    program = case["code"].replace("/tmp/canary", canary).replace(PORT, str(port))
    started = time.monotonic()
    executions = list(run_tests(program, [case["stdin"].encode()] * case["repeat"], LIMITS))
    took = time.monotonic() - started
    wrong = []
    verdict = verdict_of(executions[-1], case["expected"])
    if verdict not in case["verdict_any_of"]:
        wrong.append(f"verdict {verdict}: {executions[-1].stderr_tail[-200:]}{executions[-1].message}")
    for execution in executions:
        if case["forbid_substring"].encode() in execution.stdout:
            lines = execution.stdout.decode(errors="replace").splitlines()
            wrong.append("; ".join(line for line in lines if case["forbid_substring"] in line)[:300])
    if took > LIMITS.wall_seconds * case["repeat"] + HANG_SECONDS:
        wrong.append(f"took {took:.0f} s")
    return wrong


def aftermath() -> list[str]:
    """What an attack left behind, and whether the verifier still works."""
    wrong = []
    deadline = time.monotonic() + 5
    while (left := processes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    if left:
        wrong.append(f"processes left: {sorted(left)}")
    if files := left_files() - FILES_BEFORE:
        wrong.append(f"files left: {sorted(map(str, files))[:3]}")
    (after,) = run_tests("print(int(input()) + 1)", [b"41\n"], LIMITS)
    if verdict_of(after, "42") != "AC":
        wrong.append(f"the next test was judged {after}")
    return wrong


def main() -> None:
    folder = ROOT / "tests" / "cases"
    names = ["attacks", "folder_attacks", "further_attacks"]
    if isolation.processes_allowed():
        names.pop()  # about processes and what they share
    cases = [case for name in names for case in json.loads((folder / f"{name}.json").read_text())]
    if os.environ.get(isolation.ISOLATION) in ("userns", "seccomp"):  # no folder to attack; what it says is refused already
        for case in cases:
            if case["id"].startswith("folder_"):
                case["verdict_any_of"] = [*case["verdict_any_of"], "RE", "TLE"]
    cases = [case for case in cases if len(sys.argv) < 2 or case["id"] in sys.argv[1:]]
    os.environ["CANARY_API_KEY"] = os.environ["WANDB_API_KEY"] = "canary"
    # What own_memory_scan looks for: known to the judge only.
    secrets = ["CANARY_EXPECTED_" + f"OUTPUT{number}" for number in range(1000)]
    escaped: dict[str, list[str]] = {}
    canary = tempfile.mkdtemp(dir="/tmp")
    with socket.socket() as listener, socket.socket(socket.AF_UNIX) as abstract:
        try:
            os.chmod(canary, 0o755)
            for name in ("expected_outputs.json", "train.parquet"):
                Path(canary, name).write_text("CANARY " * 20)
            listener.bind(("127.0.0.1", 0))
            listener.listen(50)
            port = listener.getsockname()[1]
            abstract.bind(f"\0sbx_lab_abstract{os.getpid()}")
            # Those that only wait for a limit wait together.
            slow = [case for case in cases if case["verdict_any_of"] == ["TLE"]]
            with ThreadPoolExecutor(8) as pool:
                outcomes = list(pool.map(lambda case: attack(case, canary, port), slow))
            for case, wrong in zip(slow, outcomes, strict=True):
                if wrong:
                    escaped[case["id"]] = wrong
            if wrong := aftermath():
                escaped["time limits"] = wrong
            for case in cases:
                if case not in slow and (wrong := attack(case, canary, port) + aftermath()):
                    escaped[case["id"]] = wrong
            mode = client.mode()
        finally:
            shutil.rmtree(canary)
    client.discard()
    print(json.dumps({"mode": mode, "ran": len(cases), "secrets": len(secrets), "escaped": escaped}))


FILES_BEFORE = left_files()
if __name__ == "__main__":
    main()
