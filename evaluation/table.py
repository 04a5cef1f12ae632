"""Two EvalScope work folders -> one table.

    python3 -m evaluation.table BASE_DIR TRAINED_DIR

Reads reports/*/*.json of each (EvalScope's report schema 2) and prints a Markdown table: benchmark, base, trained,
difference, number of problems. A benchmark's headline is pass@1 where EvalScope reports it, else the mean score.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def headline(report: dict[str, Any]) -> tuple[float, int]:
    """(score in 0..1, number of problems) of one EvalScope report.

    Raises:
        ValueError: the report holds no metric.
    """
    metrics = report.get("metrics") or []
    if not metrics:
        raise ValueError("no metrics")

    def rank(metric: dict[str, Any]) -> int:
        identity = metric.get("identity", {})
        first = identity.get("dimensions", {}).get("k", 1) == 1
        return 2 if identity.get("aggregation") == "pass_at_k" and first else 1 if identity.get("aggregation") == "mean" else 0

    best = max(metrics, key=rank)
    return float(best["score"]), int(best["num"])


def read_reports(folder: Path) -> dict[str, tuple[float, int]]:
    """{benchmark: (score, problems)} of an EvalScope work folder.

    Raises:
        ValueError: no report there, or one that cannot be read.
    """
    paths = sorted(folder.glob("reports/*/*.json"))
    if not paths:
        raise ValueError(f"{folder} has no EvalScope report: the evaluation did not finish, run eval.sh again.")
    scores = {}
    for path in paths:
        try:
            scores[path.stem] = headline(json.loads(path.read_text()))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not an EvalScope report that can be read ({error}): evaluate again.") from error
    return scores


def table(base: dict[str, tuple[float, int]], trained: dict[str, tuple[float, int]]) -> str:
    """Markdown; a benchmark that only one side has shows a dash on the other."""
    lines = ["| benchmark | base | trained | difference | problems |", "|---|---|---|---|---|"]
    for name in sorted(base.keys() | trained.keys()):
        cells = [f"{side[name][0]:.3f}" if name in side else "-" for side in (base, trained)]
        both = name in base and name in trained
        difference = f"{trained[name][0] - base[name][0]:+.3f}" if both else "-"
        problems = sorted({side[name][1] for side in (base, trained) if name in side})
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {difference} | {' / '.join(map(str, problems))} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        sys.exit("usage: python3 -m evaluation.table BASE_DIR TRAINED_DIR")
    try:
        print(table(*(read_reports(Path(folder)) for folder in arguments)))
    except ValueError as error:
        sys.exit(f"table: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
