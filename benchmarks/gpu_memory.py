"""How much of a card a training run takes, by phase, and how long its steps are.

    python3 benchmarks/gpu_memory.py [--card 24] -- bash run_qwen_coder_ppo_single_gpu.sh [veRL option ...]

The memory of the whole card is sampled five times a second (NVML, what nvidia-smi shows) and set against the times at which
veRL's trainer entered and left its phases. With --card a smaller card is emulated on a larger one: vLLM's share is scaled down
to what ROLLOUT_GPU_MEM_UTIL would be of that card, and PyTorch's allocator is capped at the card's size in each process. What
then counts is that the peak stays under it: the cap alone does not add the processes up. The host's memory is what the whole
machine uses more than before, pages of files that it would give up left out. The file of --json is written anew every few
seconds, so that a run that is cut off leaves its figures, those of the phase that it was in under "other".
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pynvml

SAMPLE_SECONDS = 0.2
WRITE_SECONDS = 5.0
MIB = 1 << 20
DEFAULT_SHARE = 0.4  # ROLLOUT_GPU_MEM_UTIL of the single-GPU script
START, OTHER = "start", "other"  # before the first phase; between phases and after the last
WHOLE = ("step",)  # timers around others


class Sampler(threading.Thread):
    """Samples the used memory of one card, (Unix seconds, bytes), and the most of the host's, bytes, until `stop` is set."""

    def __init__(self, index: int) -> None:
        super().__init__(daemon=True)
        pynvml.nvmlInit()
        self.card = pynvml.nvmlDeviceGetHandleByIndex(index)
        self.samples: list[tuple[float, int]] = []
        self.host_before = self.host = self.host_memory()
        self.stop = threading.Event()

    def memory(self) -> tuple[int, int]:
        """Used and total bytes; what the driver reserves for itself counts as neither, as in nvidia-smi."""
        memory = pynvml.nvmlDeviceGetMemoryInfo(self.card, version=pynvml.nvmlMemory_v2)
        return memory.used, memory.total

    @staticmethod
    def host_memory() -> int:
        memory = psutil.virtual_memory()
        return memory.total - memory.available

    def run(self) -> None:
        while not self.stop.wait(SAMPLE_SECONDS):
            self.samples.append((time.time(), self.memory()[0]))
            self.host = max(self.host, self.host_memory())


def smaller_card(environment: dict[str, str], gigabytes: float, total: int) -> dict[str, str]:
    """What to set so that a run takes no more of a card of `total` bytes than of one of `gigabytes` (24: 24,000 MiB)."""
    fraction = gigabytes * 1000 * MIB / total
    if fraction > 1:
        raise ValueError(f"--card {gigabytes:g}: this card has {total // MIB:,} MiB only.")
    share = float(environment.get("ROLLOUT_GPU_MEM_UTIL", DEFAULT_SHARE))
    allocator = [*filter(None, [environment.get("PYTORCH_ALLOC_CONF")]), f"per_process_memory_fraction:{fraction:.4f}"]
    return {"ROLLOUT_GPU_MEM_UTIL": f"{share * fraction:.4f}", "PYTORCH_ALLOC_CONF": ",".join(allocator)}


def by_phase(samples: list[tuple[float, int]], phases: list[dict]) -> dict[str, dict[str, float]]:
    """{phase: peak MiB, and median seconds of one pass}, in the order in which the phases first came; none too short to see."""
    phases = sorted((phase for phase in phases if phase["phase"] not in WHOLE), key=lambda phase: phase["start"])
    first = phases[0]["start"] if phases else float("inf")
    peaks: dict[str, int] = {START: 0, **{phase["phase"]: 0 for phase in phases}, OTHER: 0}
    for moment, used in samples:
        names = {phase["phase"] for phase in phases if phase["start"] <= moment <= phase["end"]}
        for name in names or {START if moment < first else OTHER}:
            peaks[name] = max(peaks[name], used)
    seconds = {name: [p["end"] - p["start"] for p in phases if p["phase"] == name] for name in peaks}
    return {
        name: {"peak_mib": peak // MIB, "seconds": statistics.median(seconds[name]) if seconds[name] else 0.0}
        for name, peak in peaks.items()
        if peak
    }


def read_lines(path: Path) -> list[dict]:
    """Those that are whole: the run may be writing one."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def write(path: Path, figures: dict) -> None:
    """The file is there whole, or as it was before."""
    unfinished = path.with_name(f"{path.name}.unfinished{os.getpid()}")
    unfinished.write_text(json.dumps(figures, indent=1) + "\n")
    unfinished.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description="How much of a card a training run takes, by phase.")
    parser.add_argument("--card", type=float, metavar="GB", help="emulate a card of this size, for example 24")
    parser.add_argument("--index", type=int, default=0, help="the card, as nvidia-smi counts (default 0)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("command", nargs="+", help="after --: the run")
    arguments = parser.parse_args()

    def figures(phases: list[dict]) -> dict:
        return {
            "command": arguments.command,
            "settings": settings,
            "peak_mib": max((used for _, used in sampler.samples), default=0) // MIB,
            "before_mib": before // MIB,
            "host_mib": (sampler.host - sampler.host_before) // MIB,
            "steps": [phase["end"] - phase["start"] for phase in phases if phase["phase"] == "step"],
            "phases": by_phase(sampler.samples.copy(), phases),
        }

    try:
        sampler = Sampler(arguments.index)
        before, total = sampler.memory()
        settings = smaller_card(dict(os.environ), arguments.card, total) if arguments.card else {}
        if arguments.json:
            write(arguments.json, figures([]))
    except (pynvml.NVMLError, ValueError, OSError) as error:
        print(f"gpu_memory: {error}", file=sys.stderr)
        return 1

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "phases.jsonl"
        others = os.environ.get("VERL_USE_EXTERNAL_MODULES")
        modules = ",".join(["benchmarks.phase_log", *([others] if others else [])])
        environment = {**os.environ, **settings, "VERL_USE_EXTERNAL_MODULES": modules, "PHASE_LOG": str(log)}
        sampler.start()
        with subprocess.Popen(arguments.command, env=environment) as run:
            while run.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(WRITE_SECONDS)
                measured = figures(read_lines(log))
                if arguments.json:
                    write(arguments.json, measured)
        sampler.stop.set()
        sampler.join()

    print("\n| phase | peak MiB | seconds |\n|---|---|---|")
    for name, phase in measured["phases"].items():
        print(f"| {name} | {phase['peak_mib']:,} | {phase['seconds']:.1f} |")
    peak, steps = measured["peak_mib"], measured["steps"]
    limit = f" of {arguments.card * 1000:,.0f}" if arguments.card else ""
    # The first step warms up: compilers, caches, allocators.
    step = statistics.median(steps[1:] or steps) if steps else 0.0
    print(
        f"\npeak {peak:,}{limit} MiB ({before // MIB:,} before the run), host memory {measured['host_mib']:,} MiB; "
        f"{len(steps)} steps, {step:.1f} s each after the first"
    )
    if run.returncode == 0 and arguments.card and peak > arguments.card * 1000:
        print(f"gpu_memory: the run takes more than a card of {arguments.card:g} GB has.", file=sys.stderr)
        return 1
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
