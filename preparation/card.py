"""The data card: what was prepared, from what, and how, beside the parquet as card.json and card.md.

No date and no path of this machine stands in it, so the same input and options give the same card.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from preparation import lengths
from preparation.cleaning import Problem

SAMPLES = 3
STATEMENT_SHOWN, TEST_SHOWN = 1500, 300  # characters
MADE_WITH = ("pyarrow", "datasketch")


def split_summary(
    outcomes: Counter[str], by_source: dict[str, Counter[str]], problems: Sequence[Problem], tokens: Sequence[int]
) -> dict:
    """What became of one split's rows.

    Args:
        outcomes: rows by outcome, "kept" among them; they add up to the rows read.
        by_source: the same for the code rows of each data_source.
        problems: those kept.
        tokens: prompt lengths of all usable rows, before the limit.
    """
    sizes = [size for problem in problems for size in problem.test_sizes]
    notes = sum((problem.notes for problem in problems), Counter())
    return {
        "rows read": sum(outcomes.values()),
        "dropped": {name: count for name, count in outcomes.items() if name != "kept" and count},
        "kept": outcomes["kept"],
        "of those kept": dict(sorted(notes.items())),
        "data sources": {
            source: {"code rows read": sum(counts.values()), "kept": counts["kept"]}
            for source, counts in sorted(by_source.items())
        },
        "tests": {
            "tests a problem": lengths.quantiles([len(problem.test_sizes) for problem in problems]),
            "bytes a test": lengths.quantiles(sizes),
            "bytes a problem": lengths.quantiles([sum(problem.test_sizes) for problem in problems]),
            "bytes in all": sum(sizes),
            "call-based problems": sum(problem.fn_name != "" for problem in problems),
            "problems with a checker of their own": sum(problem.checker != "" for problem in problems),
        },
        "prompt tokens": {
            "quantiles": lengths.quantiles(tokens),
            "share over": {str(limit): round(share, 4) for limit, share in lengths.shares_over(tokens).items()},
            "histogram": lengths.histogram(tokens),
        },
    }


def choose_samples(positions: Sequence[int], seed: int) -> set[int]:
    """Positions of the problems to show."""
    return set(random.Random(f"{seed} card").sample(positions, min(SAMPLES, len(positions))))


def tenths(rates: Sequence[float]) -> dict[str, int]:
    """{"0": problems with pass rate 0, "0.0-0.1": above that, ..., "1": with pass rate 1}"""
    names = ["0", *(f"{k / 10:.1f}-{(k + 1) / 10:.1f}" for k in range(10)), "1"]
    places = [0 if rate == 0 else 11 if rate == 1 else 1 + int(rate * 10) for rate in rates]
    return {name: places.count(place) for place, name in enumerate(names)}


def sample(problem: Problem, test: tuple[str, str]) -> dict:
    return {
        "index": problem.index,
        "data source": problem.data_source,
        "function": problem.fn_name,
        "statement": clip(problem.statement, STATEMENT_SHOWN),
        "tests": len(problem.test_sizes),
        "first test": {side: clip(text, TEST_SHOWN) for side, text in zip(("input", "output"), test, strict=True)},
    }


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [{len(text) - limit:,} more characters]"


def versions() -> dict[str, str]:
    return {name: version(name) for name in MADE_WITH}


def write(folder: Path, card: dict) -> None:
    """folder/card.json and folder/card.md"""
    (folder / "card.json").write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "card.md").write_text("\n".join(markdown(card)) + "\n", encoding="utf-8")


# ---- Markdown


def markdown(card: dict) -> list[str]:
    lines = ["# Data card", "", "## Source", ""]
    for split, files in card["source"].items():
        lines += [f"- {split}: " + "; ".join(", ".join(f"{k} {v}" for k, v in file.items() if v is not None) for file in files)]
    lines += ["", "## Options", ""]
    lines += ["| option | |", "|---|---|", *(f"| {name} | {cell(value)} |" for name, value in card["options"].items())]
    lines += ["", f"Made with {', '.join(f'{name} {number}' for name, number in card['made with'].items())}.", ""]
    lines += ["## Files", "", "| file | rows | bytes | SHA-256 |", "|---|---|---|---|"]
    lines += [f"| {name} | {x['rows']:,} | {x['bytes']:,} | `{x['sha256']}` |" for name, x in card["files"].items()]
    splits = card["splits"]
    lines += ["", "## Rows", "", *table(["", *splits], row_lines(splits)), ""]
    for split, summary in splits.items():
        lines += [f"### {split}, by data source", ""]
        rows = [[source, *(f"{n:,}" for n in counts.values())] for source, counts in summary["data sources"].items()]
        lines += [*table(["data source", "code rows read", "kept"], rows), ""]
    lines += ["## Tests", "", *table(["", *splits], test_lines(splits)), ""]
    lines += ["## Prompt lengths", "", f"Tokens, {card['prompt lengths']}, of all rows that are usable at any length.", ""]
    for split, summary in splits.items():
        tokens = summary["prompt tokens"]
        shares = ", ".join(f"over {limit}: {share:.1%}" for limit, share in tokens["share over"].items())
        lines += [f"{split}: {shares}; quantiles {spread(tokens['quantiles'])}", ""]
        lines += ["```", *lengths.bars(tokens["histogram"]), "```", ""]
    if "pass rates" in card:
        lines += ["## Pass rates", "", "Of the train problems that were sampled, before the band.", ""]
        lines += ["```", *lengths.bars(card["pass rates"]), "```", ""]
    lines += ["## Some problems of train", ""]
    for shown in card["samples"]:
        called = f", calls `{shown['function']}`" if shown["function"] else ""
        lines += [f"### {shown['data source']}, index {shown['index']}, {shown['tests']} tests{called}", ""]
        lines += [*fenced(shown["statement"]), "", "First test, input and expected output:", ""]
        lines += [*fenced(shown["first test"]["input"]), "", *fenced(shown["first test"]["output"]), ""]
    return lines


def row_lines(splits: dict[str, dict]) -> list[list[str]]:
    """Lines of the table of rows: read, dropped by each reason, kept, and what is worth knowing of those."""
    lines = [["rows read", *(f"{x['rows read']:,}" for x in splits.values())]]
    for key in ("dropped", "kept", "of those kept"):
        if key == "kept":
            lines += [["kept", *(f"{x['kept']:,}" for x in splits.values())]]
            continue
        for name in dict.fromkeys(name for x in splits.values() for name in x[key]):
            lines += [[f"- {name}", *(f"{x[key].get(name, 0):,}" for x in splits.values())]]
    return lines


def test_lines(splits: dict[str, dict]) -> list[list[str]]:
    names = next(iter(splits.values()))["tests"]
    values = {name: [x["tests"][name] for x in splits.values()] for name in names}
    return [[name, *(spread(v) if isinstance(v, dict) else f"{v:,}" for v in row)] for name, row in values.items()]


def spread(quantiles: dict[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in quantiles.items())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(map(cell, row))} |" for row in (head, ["---"] * len(head), *rows)]


def cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def fenced(text: str) -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence, text.rstrip("\n"), fence]
