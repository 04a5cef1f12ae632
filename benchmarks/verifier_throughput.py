"""How fast the verifier judges, against the ways it replaces: ratios within one run, on one workload.

    python3 benchmarks/verifier_throughput.py [--rounds 3] [--loops] [--verl PYTHON]

The workload is made with a fixed seed: 128 responses (right, wrong, crashing, not Python) with 3 to 15 tests each and
inputs from two bytes to 150 kB, sized like those of real contest packages. Everything runs in a clean virtual
environment made for it, since the packages of a training environment slow every start of Python. Ways:

    ours              verifier.executor, every wall up, as many tests at once as there are cores
    ours, 1 at once   the same with one slot
    limits only       one slot, no walls: the floor, a bare fork of the warm server
    recipe            subprocess.run([sys.executable, file]) a test, one after the other
    recipe, threads   the same with as many threads as cores
    prime_code        veRL's own, one response after the other, where --verl names an interpreter that has veRL

--loops adds a batch in which a tenth of the responses loop for ever, under a limit of 1 s (minutes, mostly the recipe's):

    ours              timeout=1, all else as by default: three tests get the second, seven a tenth of it, the rest are not run
    ours, impatient   and full_timeouts=1: one test gets the second, nine a tenth of it
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
RESPONSES, SEED = 128, 7
# Of real contest packages: tests a problem, and bytes of an input at even steps from the smallest to the largest.
TEST_COUNTS = (3, 7, 12, 15, 15, 15, 15, 15)
INPUT_BYTES = (2, 5, 5, 10, 10, 25, 25, 60, 116, 116, 1000, 4307, 4307, 12_384, 146_363)
WAYS = ("ours", "ours, 1 at once", "limits only", "recipe", "recipe, threads", "prime_code")
LOOP_WAYS = ("ours", "ours, impatient", "recipe", "recipe, threads")

SUM = """import sys
from collections import defaultdict


def read_numbers():
    return [int(word) for word in sys.stdin.read().split()]


def main():
    numbers = read_numbers()
    seen = defaultdict(int)
    for number in numbers:
        seen[number % 1000] += 1
    best = max(seen.values()) if seen else 0
    print(sum(numbers) {plus}, best)


if __name__ == "__main__":
    main()
"""
SORT = """import heapq
import sys
input = sys.stdin.readline

def solve(values):
    heap = []
    for value in values:
        heapq.heappush(heap, value)
        if len(heap) > 3:
            heapq.heappop(heap)
    return sorted(heap, reverse=True)

values = []
for line in sys.stdin:
    values.extend(map(int, line.split()))
result = solve(values)
print(len(values) {plus}, *result)
"""
PREFIX = """from functools import lru_cache
from itertools import accumulate
import math

data = []
while True:
    try:
        data += input().split()
    except EOFError:
        break
numbers = list(map(int, data))
prefix = [0] + list(accumulate(numbers))

@lru_cache(None)
def steps(n):
    return 0 if n < 2 else 1 + steps(n // 2)

lowest = min(prefix)
print(prefix[-1] - lowest {plus}, steps(len(prefix)), math.gcd(*numbers[:10]) if numbers else 0)
"""
FLAWS = {"right": 0.42, "wrong": 0.38, "crashing": 0.13, "not Python": 0.07}


def make_workload(loops: float) -> list[dict]:
    """Responses with program, inputs and expected outputs; `loops` is the share that never ends."""
    dice = random.Random(SEED)
    workload = []
    for number in range(RESPONSES):
        template = dice.choice((SUM, SORT, PREFIX))
        flaw = dice.choices(list(FLAWS), list(FLAWS.values()))[0]
        inputs = []
        for _ in range(dice.choice(TEST_COUNTS)):
            size, text = dice.choice(INPUT_BYTES), []
            while sum(map(len, text[-20:])) < min(size, 20) or len(text) * 6 < size:
                text.append(str(dice.randrange(-1000, 10_000)) + ("\n" if dice.random() < 0.1 else " "))
            inputs.append("".join(text) + "\n")
        program = template.replace("{plus}", "+ 1" if flaw == "wrong" else "")
        if flaw == "crashing":
            program = program.replace("print(", "print([][0], ", 1)
        elif flaw == "not Python":
            program = program.replace("print(", "print ", 1)
        if number < loops * RESPONSES:
            program = "while True:\n    pass\n"
        workload.append({"program": program, "right": template.replace("{plus}", ""), "inputs": inputs})
    return workload


def fill_in_expected(workload: list[dict], file: str) -> None:
    for response in workload:
        response["outputs"] = [run_file(response["right"], text, file, 60)[1] for text in response["inputs"]]


def run_file(program: str, text: str, file: str, limit: float) -> tuple[bool, str]:
    """The recipe's way to run one test."""
    Path(file).write_text(program)
    try:
        done = subprocess.run([sys.executable, file], input=text, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return False, ""
    return done.returncode == 0, done.stdout


def by_recipe(response: dict, limit: float) -> list[bool]:
    with tempfile.NamedTemporaryFile(suffix=".py") as file:
        results = [run_file(response["program"], text, file.name, limit) for text in response["inputs"]]
    return [ok and out.split() == want.split() for (ok, out), want in zip(results, response["outputs"], strict=True)]


def by_us(response: dict, settings: dict) -> list[bool]:
    from verifier import options
    from verifier.executor import run_tests

    inputs = [text.encode() for text in response["inputs"]]
    executions = run_tests(response["program"], inputs, options.read(settings, {}).limits)
    return [
        execution.verdict is None and execution.stdout.split() == want.encode().split()
        for execution, want in zip(executions, response["outputs"], strict=True)
    ]


def by_verl(response: dict) -> list[bool]:
    from verl.utils.reward_score.prime_code import compute_score

    tests = json.dumps({"inputs": response["inputs"], "outputs": response["outputs"]})
    passed, _ = compute_score(f"```python\n{response['program']}\n```", tests, continuous=True)
    return [float(passed) == 1.0]


def measure(way: str, file: str, limit: float) -> None:
    """In a process of its own: judge the workload one way; print seconds, CPU seconds and verdicts."""
    workload = json.loads(Path(file).read_text())
    sys.path.insert(0, str(ROOT))
    settings = {"timeout": limit} | ({"full_timeouts": 1} if way == "ours, impatient" else {})
    if way.startswith("recipe"):
        workers, judge = 1 if way == "recipe" else CORES, lambda response: by_recipe(response, limit)
    elif way == "prime_code":
        workers, judge = 1, by_verl
        by_verl(workload[0])  # imports
    else:
        workers, judge = 2 * CORES, lambda response: by_us(response, settings)
        by_us(workload[0], settings)  # the server starts once in a run's life
    started, cpu = time.perf_counter(), time.process_time()
    if workers == 1:
        verdicts = [judge(response) for response in workload]
    else:
        with ThreadPoolExecutor(workers) as pool:
            verdicts = list(pool.map(judge, workload))
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    if "verifier.client" in sys.modules:
        sys.modules["verifier.client"].discard()  # its CPU time counts once it is waited for
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"seconds": seconds, "cpu": cpu + children.ru_utime + children.ru_stime, "verdicts": verdicts}))


def run_way(python: str, way: str, file: str, limit: float) -> dict:
    settings = {"CODE_REWARD_CONCURRENCY": str(CORES if way in ("ours", "ours, impatient") else 1)}
    if way == "limits only":
        settings["CODE_REWARD_ISOLATION"] = "off"
    command = [python, str(Path(__file__).resolve()), "--measure", way, file, str(limit)]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{way}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def table(title: str, rounds: list[dict[str, dict]], tests: int) -> dict[str, dict[str, float]]:
    """Print one batch's table from its rounds; ratios are medians of the ratios within a round."""
    print(f"\n{title}: {RESPONSES} responses, {tests} tests, {len(rounds)} round(s), {CORES} cores")
    print(f"{'way':<17}{'tests/s':>9}{'CPU ms/test':>13}{'x recipe':>10}{'CPU x recipe':>14}{'x floor':>9}{'agree':>8}")
    ratios: dict[str, dict[str, float]] = {}
    for way in rounds[0]:

        def ratio(key: str, other: str, way: str = way) -> float:
            return statistics.median(r[other][key] / r[way][key] for r in rounds) if other in rounds[0] else float("nan")

        verdicts, reference = rounds[0][way]["verdicts"], rounds[0]["recipe"]["verdicts"]
        if way == "prime_code":  # it says only whether all of the first ten passed
            reference = [[all(tests[:10])] for tests in reference]
        pairs = [(a, b) for ours, theirs in zip(verdicts, reference, strict=True) for a, b in zip(ours, theirs, strict=True)]
        speed = statistics.median(tests / r[way]["seconds"] for r in rounds)
        cpu = statistics.median(r[way]["cpu"] / tests * 1000 for r in rounds)
        ratios[way] = {"seconds": ratio("seconds", "recipe"), "cpu": ratio("cpu", "recipe")}
        agree = sum(a == b for a, b in pairs) / len(pairs)
        floor = ratio("cpu", "limits only")
        print(
            f"{way:<17}{speed:>9.0f}{cpu:>13.2f}{ratios[way]['seconds']:>10.2f}{ratios[way]['cpu']:>14.2f}"
            f"{floor:>9.2f}{agree:>8.1%}",
            flush=True,
        )
    return ratios


def isolation_cost(python: str, folder: str) -> float:
    """CPU milliseconds that the walls add to a trivial test, median over interleaved pairs."""
    tests = 300
    one = {"program": "print(int(input()) + 1)", "inputs": ["1\n"] * tests, "outputs": ["2\n"] * tests}
    file = os.path.join(folder, "trivial.json")
    Path(file).write_text(json.dumps([one]))
    pairs = [[run_way(python, way, file, 10)["cpu"] for way in ("ours, 1 at once", "limits only")] for _ in range(7)]
    # Each has judged the response twice: once to warm up.
    return statistics.median((walls - bare) / tests / 2 * 1000 for walls, bare in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds of the batch without loops")
    parser.add_argument("--loops", action="store_true", help="also the batch with loops")
    parser.add_argument("--verl", metavar="PYTHON", help="an interpreter in whose environment veRL is installed")
    parser.add_argument("--measure", nargs=3, metavar=("WAY", "FILE", "LIMIT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        way, file, limit = arguments.measure
        return measure(way, file, float(limit))
    with tempfile.TemporaryDirectory() as folder:
        venv.create(os.path.join(folder, "venv"), with_pip=False)
        python = os.path.join(folder, "venv", "bin", "python")
        sys.executable = python
        ways = [way for way in WAYS if way != "prime_code" or arguments.verl]
        file = os.path.join(folder, "workload.json")
        for share in (0.0, 0.1) if arguments.loops else (0.0,):
            workload = make_workload(share)
            fill_in_expected(workload, os.path.join(folder, "right.py"))
            Path(file).write_text(json.dumps(workload))
            tests = sum(len(response["inputs"]) for response in workload)
            rounds = []
            for number in range(1 if share else arguments.rounds):
                print(f"round {number + 1} ...", file=sys.stderr, flush=True)
                pythons = {"prime_code": arguments.verl}
                limit = 1 if share else 10
                chosen = LOOP_WAYS if share else ways
                rounds.append({way: run_way(pythons.get(way, python), way, file, limit) for way in chosen})
            ratios = table("a tenth loop for ever" if share else "no loops", rounds, tests)
            if not share:
                threaded = statistics.median(r["recipe, threads"]["seconds"] / r["ours"]["seconds"] for r in rounds)
                scaling = statistics.median(r["ours, 1 at once"]["seconds"] / r["ours"]["seconds"] for r in rounds)
                print(f"CPU a test, recipe / ours: {ratios['ours']['cpu']:.1f} (at least 3)")
                print(f"time, recipe / ours: {ratios['ours']['seconds']:.1f} (at least 6)")
                print(f"time, threaded recipe / ours: {threaded:.1f} (at least 3)")
                print(f"{CORES} at once / 1 at once: {scaling:.2f} (at least 1.8 on two idle cores)")
                print(f"the walls cost {isolation_cost(python, folder):.2f} ms of CPU a test (at most 0.6)")
            else:
                for way, aim in (("ours", ""), ("ours, impatient", " (at least 10)")):
                    print(f"time, recipe / {way}: {ratios[way]['seconds']:.1f}{aim}")


if __name__ == "__main__":
    main()
