"""How many cores this process may use, and how many tests it should therefore run at once."""

from __future__ import annotations

import math
import os
from pathlib import Path

SHARE = 0.75  # the rest is for the trainer, which waits for the verdicts


def usable() -> float:
    """Cores by CPU affinity and by the control groups' quotas, whichever is less; a quota may be a fraction."""
    return min([float(len(os.sched_getaffinity(0))), *_quotas()])


def concurrency() -> int:
    """Tests at once: CODE_REWARD_CONCURRENCY, or three quarters of the usable cores, rounded up."""
    asked = os.environ.get("CODE_REWARD_CONCURRENCY", "")
    if not asked:
        return max(1, math.ceil(usable() * SHARE))
    if not asked.isdecimal() or int(asked) < 1:
        raise ValueError(f"CODE_REWARD_CONCURRENCY must be a whole number of tests, 1 or more, not {asked!r}")
    return int(asked)


def _quotas() -> list[float]:
    """The CPU quotas of this process's control group and of those above it, version 1 and 2, in cores."""
    try:
        memberships = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    quotas = []
    for line in memberships:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = Path("/sys/fs/cgroup/cpu" if controllers else "/sys/fs/cgroup")
        # In a container the path may be the host's, of which only the root is mounted here.
        for folder in (mount, *(mount.joinpath(*parts) for parts in _prefixes(path))):
            quotas += _quota(folder)
    return quotas


def _prefixes(path: str) -> list[tuple[str, ...]]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return [tuple(parts[:length]) for length in range(1, len(parts) + 1)]


def _quota(folder: Path) -> list[float]:
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = " ".join((folder / name).read_text() for name in names).split()
            return [int(quota) / int(period)] if int(quota) > 0 else []
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return []
