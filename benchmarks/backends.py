"""What a response costs through each backend: CPU time of this machine and of the service's, and bytes on the way.

    python3 benchmarks/backends.py [--responses 40] [--tests 13]

The service is the tests' stand-in of SandboxFusion's format, on this machine, so waiting on a network is left out. Programs
are one of a few lines and inputs a few numbers: what is measured is what judging costs beside the program itself.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from verifier import client, executor, remote  # noqa: E402

PROGRAM = "import sys\nnumbers = list(map(int, sys.stdin.read().split()))\nprint(sum(numbers), max(numbers))\n"
SERVICE = "from sandbox_fusion_stand_in import StandIn\nwith StandIn() as it: print(it.url, flush=True); input()\n"


def cpu_of(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--responses", type=int, default=40)
    parser.add_argument("--tests", type=int, default=13)
    chosen = parser.parse_args()
    inputs = [f"{number} 7 3\n".encode() for number in range(chosen.tests)]

    def judge(run, *address: str) -> float:
        """CPU milliseconds of this process a response."""
        before = cpu_of(resource.RUSAGE_SELF)
        for _ in range(chosen.responses):
            assert all(execution.verdict is None for execution in run(*address, PROGRAM, inputs))
        return (cpu_of(resource.RUSAGE_SELF) - before) / chosen.responses * 1000

    list(executor.run_tests(PROGRAM, inputs))  # the fork server's start is no response's
    local = judge(executor.run_tests)
    client.discard()  # only what has ended is counted
    local_tests = cpu_of(resource.RUSAGE_CHILDREN) / (chosen.responses + 1) * 1000

    sizes: list[int] = []
    post = remote._post
    remote._post = lambda url, body, seconds: (sizes.append(len(body)), post(url, body, seconds))[1]
    before = cpu_of(resource.RUSAGE_CHILDREN)
    path = json.dumps([str(ROOT), str(ROOT / "tests")])
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}\n{SERVICE}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as service:  # fmt: skip
        there = judge(remote.run_tests, service.stdout.readline().strip())
        service.communicate("\n")
    there_tests = (cpu_of(resource.RUSAGE_CHILDREN) - before) / chosen.responses * 1000

    print(f"{chosen.responses} responses of {chosen.tests} tests, CPU ms a response:")
    print(f"{'backend':<16}{'caller':>8}{'tests':>8}{'bytes sent':>12}")
    print(f"{'local':<16}{local:>8.1f}{local_tests:>8.1f}{'':>12}")
    print(f"{'sandbox_fusion':<16}{there:>8.1f}{there_tests:>8.1f}{sum(sizes) // len(sizes):>12,}")


if __name__ == "__main__":
    main()
