"""Many processes and threads judge at once while servers, sessions and callers are killed: no wrong verdict, nothing left.

STRESS_RESPONSES sets how many responses each of the 8 x 8 threads judges (default 25; 200 takes minutes).
"""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from leftovers import descendants, files, parents, servers_and_below, slots_taken, wait_until

from verifier import client

ROOT = Path(__file__).resolve().parent.parent
PROCESSES, THREADS = 8, 8
RESPONSES = int(os.environ.get("STRESS_RESPONSES", "25"))
HANG_SECONDS = 3600
KILLED_CALLERS = 2

# program, input, verdict (None: ended by itself), output
KINDS = (
    ("a, b = map(int, input().split())\nprint(a + b)", b"3 4\n", None, "7\n"),
    ("import sys\nprint(sum(map(int, sys.stdin.read().split())))", b"1 2 3\n" * 1000, None, "6000\n"),
    ("import random\nprint(random.random() == random.Random(0).random())", b"", None, "True\n"),
    ("print('x' * 100_000)", b"", None, "x" * 100_000 + "\n"),
    ("raise SystemExit(3)", b"", "RE", ""),
    ("import ctypes\nctypes.string_at(0)", b"", "RE", ""),
    ("print(", b"", "CE", ""),
    ("while True: print('x' * 4096)", b"", "OLE", None),
    ("b = bytearray(200 << 20)\nprint(1)", b"", "MLE", None),
    ("while True: pass", b"", "TLE", ""),
)


def judge(number: int) -> tuple[int, str | None, bool]:
    """Judge one response twice over; returns its kind and what was wrong with the answer ("" if right, "IE")."""
    from verifier.executor import run_tests
    from verifier.verdict import Limits

    # Two in a hundred loop for ever, so that the machine does more than wait for limits.
    kind = number % (len(KINDS) - 1) if number % 50 else len(KINDS) - 1
    program, stdin, verdict, output = KINDS[kind]
    limits = Limits(cpu_seconds=0.3, wall_seconds=60, memory_bytes=100 << 20, stdout_bytes=1 << 20)
    answers = set()
    for execution in run_tests(program, [stdin, stdin], limits):
        found = execution.verdict and execution.verdict.value
        right = found == verdict and (output is None or execution.stdout == output.encode())
        answers.add("" if right else "IE" if found == "IE" else f"{found} {execution}"[:300])
    return kind, max(answers), len(answers) == 1


def caller(seed: int) -> None:
    """One process of the test: judges in threads, prints what it saw."""
    sys.path.insert(0, str(ROOT))
    order = list(range(THREADS * RESPONSES))
    random.Random(seed).shuffle(order)
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(judge, order))
    wrong = [text for _, text, _ in results if text not in ("", "IE")]
    print(json.dumps({"judged": len(results), "internal": sum(t == "IE" for _, t, _ in results), "wrong": wrong[:5]}))


def kill_at_random(callers: list[subprocess.Popen[str]], stop: threading.Event) -> collections.Counter[str]:
    """Kill a fork server or a session about every second, and two of the callers."""
    killed: collections.Counter[str] = collections.Counter()
    dice = random.Random(1)
    victims = dice.sample(range(len(callers)), KILLED_CALLERS)
    while not stop.wait(dice.uniform(0.5, 1.5)):
        table = parents()
        if victims and sum(killed.values()) > 4:
            callers[victims.pop()].kill()
            killed["caller"] += 1
            continue
        pids = {process.pid for process in callers}
        servers = [pid for pid, (parent, state) in table.items() if parent in pids and state != "Z"]
        sessions = [pid for pid, (parent, state) in table.items() if parent in servers and state != "Z"]
        kind, targets = ("server", servers) if dice.random() < 0.3 else ("session", sessions)
        if targets:
            try:
                os.kill(dice.choice(targets), signal.SIGKILL)
                killed[kind] += 1
            except ProcessLookupError:
                pass
    return killed


def test_many_at_once_some_killed() -> None:
    before, others = files(), descendants(os.getpid())  # of other tests' libraries
    started = time.monotonic()
    command = [sys.executable, __file__]
    callers = [subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True) for seed in range(PROCESSES)]
    stop = threading.Event()
    with ThreadPoolExecutor(1) as killer:
        killing = killer.submit(kill_at_random, callers, stop)
        try:
            outputs = [process.communicate(timeout=HANG_SECONDS)[0] for process in callers]
        finally:
            stop.set()
            for process in callers:
                process.kill()
        killed = killing.result()
    survivors = [json.loads(output) for process, output in zip(callers, outputs, strict=True) if process.returncode == 0]
    internal = sum(report["internal"] for report in survivors)
    print(f"{killed}, {internal} internal errors, {time.monotonic() - started:.0f} s")
    assert len(survivors) == PROCESSES - killed["caller"]
    assert all(report["judged"] == THREADS * RESPONSES for report in survivors)
    assert [report["wrong"] for report in survivors if report["wrong"]] == []
    # Each kill can hit at most the tests that run on its server, twice in a row; others are tried again.
    assert internal <= (killed["server"] + killed["session"]) * THREADS
    assert wait_until(lambda: not servers_and_below({process.pid for process in callers})), "processes are left"
    assert not descendants(os.getpid()) - others
    assert slots_taken() == 0
    client.mode()  # the next start removes the folders of servers that were killed with their callers
    client.discard()
    assert files() - before == set()


if __name__ == "__main__":
    caller(int(sys.argv[1]))
