"""Pass@k, and how sure a difference between two models is."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

RESAMPLES = 10_000
SEED = 20_250_101
BLOCK = 2_000_000  # indices drawn at a time


def pass_at_k(answers: int, right: int, k: int) -> float:
    """The chance that one of k answers is right, without bias, from `right` of `answers` (Chen et al. 2021, equation 1)."""
    if not 0 <= right <= answers or not 1 <= k <= answers:
        raise ValueError(f"pass@{k} of {right} right in {answers} answers")
    return 1.0 - comb(answers - right, k) / comb(answers, k)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """The 95% interval of the mean of paired differences, one a problem.

    Percentile bootstrap over the problems, RESAMPLES draws, always the same ones.
    """
    values = np.asarray(differences, dtype=np.float64)
    random = np.random.default_rng(SEED)
    rows = max(1, BLOCK // len(values))
    means = [
        values[random.integers(0, len(values), (min(rows, RESAMPLES - start), len(values)))].mean(axis=1)
        for start in range(0, RESAMPLES, rows)
    ]
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5))
    return float(low), float(high)
