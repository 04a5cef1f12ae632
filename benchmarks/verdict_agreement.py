"""How many responses with a known verdict are judged right: by this reward, the source recipe's way, and veRL's prime_code.

    python3 benchmarks/verdict_agreement.py               the table, for all but the hostile cases
    python3 benchmarks/verdict_agreement.py --hostile     with those that loop, flood and cheat (kinds res and hack)
    python3 benchmarks/verdict_agreement.py --missed      which cases each one gets wrong, too

The cases are the tests' own (tests/fault_kinds.py and tests/cases/verifier_cases.json): responses that verifiers are known
to misjudge, so the numbers say where a verifier is weak, not how often it errs on ordinary responses. A case is right when
the pass rate is; to raise or to give no answer in time is wrong. veRL is run where it is installed.

The other two run programs without a sandbox, so each case gets a process of its own with limits, which is killed with all
that it has started. That bounds what a hostile case costs; it does not confine it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import fault_kinds  # noqa: E402
from fault_kinds import HOSTILE, Case  # noqa: E402

from code_reward import compute_score  # noqa: E402

KINDS = ("ext", "io", "run", "cmp", "fn", "gt", *HOSTILE)
CASE_SECONDS = 60.0  # for one response; prime_code needs 16 for a program that loops
MEMORY, FILE_BYTES = 2 << 30, 64 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hostile", action="store_true", help="run the hostile cases without a sandbox, too")
    parser.add_argument("--missed", action="store_true", help="list the cases that each one gets wrong")
    parser.add_argument("--timeout", type=float, default=2.0, help="seconds a test (prime_code has limits of its own)")
    chosen = parser.parse_args()

    judges: dict[str, Callable[[Case], float | None]] = {
        "this reward": lambda case: ours(case, chosen.timeout),
        "the source recipe's way": lambda case: in_a_process(lambda: source_recipe(case, chosen.timeout)),
    }
    if importlib.util.find_spec("verl") is None:
        print("veRL is not installed, so its prime_code is left out", file=sys.stderr)
    else:
        from verl.utils.reward_score import prime_code

        judges["veRL's prime_code"] = lambda case: in_a_process(
            lambda: float(prime_code.compute_score(case.response, as_json(case), continuous=True)[0])
        )
    cases = all_cases()
    right: dict[str, dict[str, int]] = {}
    missed: dict[str, list[Case]] = {}
    for name, judge in judges.items():
        confined = name == "this reward"
        to_judge = [case for case in cases if confined or chosen.hostile or case.kind not in HOSTILE]
        right[name], missed[name] = dict.fromkeys((case.kind for case in to_judge), 0), []
        for number, case in enumerate(to_judge, 1):
            print(f"\r{name}: {number} of {len(to_judge)} ", end="", file=sys.stderr, flush=True)
            score = judge(case)
            if score is not None and abs(score - case.score) < 1e-6:
                right[name][case.kind] += 1
            else:
                missed[name].append(case)
        print(file=sys.stderr)
    print(table(right, {kind: sum(case.kind == kind for case in cases) for kind in KINDS}))
    if not chosen.hostile:
        print("\n–: needs --hostile, as it is run without a sandbox there; the total is that of the other kinds")
    if chosen.missed:
        for name, those in missed.items():
            print(f"\n{name} misses {len(those)}:\n" + "\n".join(f"    {case.name}" for case in those))


def all_cases() -> list[Case]:
    """The cases that have a fixed verdict, each once."""
    rows = json.loads((ROOT / "tests" / "cases" / "verifier_cases.json").read_text())
    cases = list(fault_kinds.CASES)
    for row in rows:
        kind, name = row["id"].split("-", 1)
        if row["expect"]["score"] is not None:
            cases.append(Case(kind, name, row["response"], row["ground_truth"], row["expect"]["score"]))
    return list({(case.response.strip(), as_json(case), case.checker): case for case in cases}.values())


def table(right: dict[str, dict[str, int]], sizes: dict[str, int]) -> str:
    """Markdown: a row for each judge, a column for each kind, and the total of the kinds that all of them ran.

    `right` has the number of cases judged right by judge and kind, `sizes` the number of cases of each kind.
    """
    common = [kind for kind in KINDS if all(kind in counts for counts in right.values())]
    lines = [
        "| judged right, of | "
        + " | ".join(f"{kind} {sizes[kind]}" for kind in KINDS)
        + f" | total {sum(map(sizes.get, common))} |",
        "|---|" + "---|" * (len(KINDS) + 1),
    ]
    for name, counts in right.items():
        cells = [str(counts.get(kind, "–")) for kind in KINDS]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {sum(map(counts.get, common))} |")
    return "\n".join(lines)


def as_json(case: Case) -> str:
    return case.truth if isinstance(case.truth, str) else json.dumps(case.truth)


def ours(case: Case, timeout: float) -> float:
    with contextlib.redirect_stderr(io.StringIO()):  # it speaks up about each row that has no usable tests
        numbers = compute_score("benchmark", case.response, as_json(case), {"checker": case.checker}, timeout=timeout)
    return numbers["pass_rate"]


def source_recipe(case: Case, timeout: float) -> float:
    """The plain recipe: the first Python block or else the whole text, as a file, once for each test; equal text passes."""
    truth = json.loads(as_json(case))
    block = re.search(r"```python\s*\n(.*?)```", case.response, re.DOTALL)
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
        file.write(block[1] if block else case.response)
        file.flush()
        passed = 0
        for stdin, expected in zip(truth["inputs"], truth["outputs"], strict=False):
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run([sys.executable, file.name], input=stdin, capture_output=True, text=True, timeout=timeout)
                passed += done.returncode == 0 and done.stdout.strip() == expected.strip()
    return passed / max(1, len(truth["inputs"]))


def in_a_process(judge: Callable[[], float]) -> float | None:
    """The answer of `judge`, or None for none, from a process of its own that is killed with everything it has started."""
    read_fd, write_fd = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                os.setsid()
                os.chdir(folder)
                tempfile.tempdir = folder
                silence = os.open(os.devnull, os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(silence, fd)
                limit_resources()
                os.write(write_fd, repr(float(judge())).encode())
            os._exit(0)
        os.close(write_fd)
        answer = b""
        deadline = time.monotonic() + CASE_SECONDS
        if select.select([read_fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            answer = os.read(read_fd, 100)
        os.close(read_fd)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return float(answer) if answer else None


def limit_resources() -> None:
    with open("/proc/self/statm") as statm:
        own = int(statm.read().split()[0]) * resource.getpagesize()
    cpu_seconds = int(CASE_SECONDS)
    for kind, limit in (
        (resource.RLIMIT_AS, own + MEMORY),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))


if __name__ == "__main__":
    main()
