"""`python3 code_reward.py`: does the verifier work on this machine? A few seconds, one line a check."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from verifier import isolation, launch, options

ADD = "a, b = map(int, input().split())\nprint(a + b)\n"
SUM_TESTS = {"inputs": ["3 4\n", "-5 5\n"], "outputs": ["7\n", "0\n"]}
ONE_TEST = {"inputs": ["3 4\n"], "outputs": ["7\n"]}
BIG = "".join(f"{number}\n" for number in range(700_000))  # 4.6 MB, far more than a pipe holds
ESCAPE = """import os, time
print(sum(map(int, input().split())), flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
"""
CHECKER = """def check(input, expected, output):
    a, b = map(int, output.split())
    return a + b == int(input)
"""

# name, program, tests, options, the numbers that must come back
CASES = (
    ("time limit (busy)", "while True: pass", SUM_TESTS, {"timeout": 0.3}, {"time_limit": 1.0}),
    ("time limit (asleep)", "import time\ntime.sleep(600)", ONE_TEST, {"wall_timeout": 1.0}, {"time_limit": 1.0}),
    ("memory limit", "data = bytearray(300 << 20)", SUM_TESTS, {"memory_mb": 64}, {"memory_limit": 1.0}),
    ("output flood", "while True: print('x' * 4096)", SUM_TESTS, {}, {"output_limit": 1.0}),
    ("crash", "import os\nos.abort()", SUM_TESTS, {}, {"runtime_error": 1.0}),
    ("exit code", f"{ADD}raise SystemExit(1)", SUM_TESTS, {}, {"runtime_error": 1.0}),
    ("syntax error", "print 'hello'", SUM_TESTS, {}, {"compile_error": 1.0}),
    ("partly right", "print(7)", SUM_TESTS, {}, {"score": 0.5, "pass_rate": 0.5, "acc": 0.0, "wrong_answer": 0.5}),
    (
        "call-based",
        "def add(a, b):\n    return a + b\n",
        {"fn_name": "add", "inputs": ["3\n4"], "outputs": ["7"]},
        {},
        {"score": 1.0, "acc": 1.0},
    ),
    (
        "big input and output",
        "import sys\nsys.stdout.write(sys.stdin.read())",
        {"inputs": [BIG], "outputs": [BIG]},
        {},
        {"score": 1.0},
    ),
)
USAGE = "usage: python3 code_reward.py [--isolation]"


def command(arguments: Sequence[str], compute_score: Callable[..., dict[str, float]]) -> int | str:
    """What `python3 code_reward.py` does; returns what sys.exit takes."""
    try:
        if arguments == ["--isolation"]:
            print(isolation.report(), flush=True)
            return 0
        if arguments in (["--help"], ["-h"]):
            print(USAGE, flush=True)
            return 0
        return USAGE if arguments else main(compute_score)
    except BrokenPipeError:  # as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return 1
    except (ValueError, isolation.IsolationError, OSError) as error:  # an option in the environment, or the machine
        return f"code_reward.py: {error}"


def main(compute_score: Callable[..., dict[str, float]]) -> int:
    """Print the lines; return 0 when everything is as it should be, else 1."""
    # What is checked is where programs run, here or at a service, not the other settings of a run.
    for name in {*options.PARSERS, "log_dir"} - {"backend", "sandbox_fusion_url"}:
        os.environ.pop(options.PREFIX + name.upper(), None)
    all_ok = True

    def judge(response: str, tests: dict, checker: str | None = None, **arguments: object) -> dict[str, float]:
        return compute_score("self-check", response, tests, {"index": 0, "checker": checker}, **arguments)

    for label, response, expected in (
        ("Correct code", _fenced(ADD), (1.0, 1.0, 1.0)),
        ("Wrong code  ", _fenced("print('no')"), (0.0, 0.0, 1.0)),
        ("No code     ", "I would add the two numbers, but I have not written a program.", (0.0, 0.0, 0.0)),
    ):
        numbers = judge(response, SUM_TESTS)
        score, pass_rate, has_code = numbers["score"], numbers["pass_rate"], numbers["format"]
        print(f"{label} -> score={score:.2f} pass_rate={pass_rate:.2f} format={has_code:.0f}", flush=True)
        all_ok &= (score, pass_rate, has_code) == expected

    def report(name: str, wrong: str) -> None:
        nonlocal all_ok
        print(f"{name} -> {'FAILED: ' + wrong if wrong else 'ok'}", flush=True)
        all_ok &= not wrong

    for name, program, tests, arguments, expected in CASES:
        report(name, _difference(judge(_fenced(program), tests, **arguments), expected))
    sums = judge(_fenced("print(input(), 0)"), {"inputs": ["7"], "outputs": ["3 4"]}, CHECKER)
    report("checker program", _difference(sums, {"score": 1.0, "internal_error": 0.0}))
    # A response that was cut off at the length limit still holds its program.
    unclosed = f"Here it is:\n```python\n{ADD}"
    report("unclosed fence", _difference(judge(unclosed, SUM_TESTS), {"score": 1.0}))
    report("from a thread", _difference(_in_thread(lambda: judge(_fenced(ADD), SUM_TESTS)), {"score": 1.0}))
    escaped = judge(_fenced(ESCAPE), SUM_TESTS)
    report("nothing left behind", _difference(escaped, {"internal_error": 0.0}) or left_behind())
    return 0 if all_ok else 1


def _fenced(program: str) -> str:
    return f"```python\n{program}\n```"


def _difference(numbers: dict[str, float], expected: dict[str, float]) -> str:
    """What is not as expected, "" when all is."""
    if all(numbers.get(name) == value for name, value in expected.items()):
        return ""
    return f"expected {expected}, got { {name: value for name, value in numbers.items() if value} }"


def _in_thread(judge: Callable[[], dict[str, float]]) -> dict[str, float]:
    answers: list[dict[str, float]] = []
    thread = threading.Thread(target=lambda: answers.append(judge()))
    thread.start()
    thread.join()
    return answers[0] if answers else {}


def left_behind() -> str:
    """Name the processes that are still there when every response has its score, but for the idle fork server; "" for none."""
    for _ in range(40):  # a killed process is not gone at once, on a busy machine least of all
        if not (left := _leftovers()):
            break
        time.sleep(0.05)
    return left


def _leftovers() -> str:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            parents[int(stat.parent.name)] = int(parent), state
    zombies = [pid for pid, (parent, state) in parents.items() if parent == os.getpid() and state == "Z"]
    below = [pid for pid, (parent, _) in parents.items() if parent == os.getpid() and _is_fork_server(pid)]
    for pid in below:  # grows as it goes: the servers, what they have started, and so on
        below += [child for child, (parent, _) in parents.items() if parent == pid]
    running = [pid for pid in below if parents[pid][0] != os.getpid()]
    return ", ".join(f"{len(found)} {what}" for found, what in ((running, "processes"), (zombies, "zombies")) if found)


def _is_fork_server(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return launch.SERVER.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False
