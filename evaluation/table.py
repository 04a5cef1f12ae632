"""Two models' results -> one table and one chart.

    python3 -m evaluation.table --base RESULT.json ... --trained RESULT.json ... --out STEM

Writes STEM.md, STEM.json and STEM.png and prints the Markdown. A row is a benchmark: base, trained, difference, the 95%
interval of the difference (paired bootstrap over the problems that both have), and which problems flipped. Only problems
that both models answered are counted; a benchmark that one of them lacks is left out, by name.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from evaluation import results, statistics
from evaluation.results import EvaluationError, Result

# The original experiment's own figures, as published with it. Not measured here: another model, another implementation.
PUBLISHED = {"gsm8k": (0.82, 0.83), "humaneval": (0.59, 0.59), "live_code_bench": (0.50, 0.53)}
PUBLISHED_WHAT = (
    "Qwen2.5-7B-Instruct-1M before and after 130 steps, as published for the original experiment; not measured here"
)
OWN_PROBLEMS = Path(__file__).resolve().parent / "problems"
SHOWN = 20  # flipped problems named in the Markdown; the JSON has all
FEW = 5  # problems that differ, all to one side, are still chance at 5% (2 / 2**5); a bootstrap of so few is too sure
MAJORITY = 0.5  # a problem counts as solved when more than this share of its answers is right


@dataclass(frozen=True)
class Row:
    """One line of the table. All values are 0 to 1.

    low, high: the interval of the difference. sure: it leaves zero out, and not by a handful of problems.
    gained, lost: problems that only the trained, only the base model solves; None where a row is not about solving.
    """

    name: str
    metric: str
    base: float
    trained: float
    low: float
    high: float
    problems: int
    sure: bool
    gained: tuple[str, ...] | None = None
    lost: tuple[str, ...] | None = None

    @property
    def difference(self) -> float:
        return self.trained - self.base


def row(
    name: str,
    metric: str,
    base: dict[str, list[float]],
    trained: dict[str, list[float]],
    k: int | None = None,
    flips: bool = True,
) -> Row:
    """A row from the scores of the problems that both have; k: pass@k instead of the mean over answers.

    Raises:
        EvaluationError: they have no problem in common.
    """
    common = [problem for problem in base if problem in trained]
    if not common:
        raise EvaluationError(f"The two results of {name} have no problem in common: evaluate both with the same settings.")
    before, after = ([value(side[problem], k) for problem in common] for side in (base, trained))
    differences = [y - x for x, y in zip(before, after, strict=True)]
    low, high = statistics.interval(differences)
    sure = not low <= 0 <= high and sum(x != 0 for x in differences) > FEW
    line = Row(name, metric, sum(before) / len(common), sum(after) / len(common), low, high, len(common), sure)
    if not flips:
        return line
    was, now = ({x for x in common if sum(side[x]) / len(side[x]) > MAJORITY} for side in (base, trained))
    gained, lost = (tuple(x for x in common if x in group) for group in (now - was, was - now))
    return replace(line, gained=gained, lost=lost)


def value(scores: list[float], k: int | None) -> float:
    if k is None:
        return sum(scores) / len(scores)
    return statistics.pass_at_k(len(scores), sum(score == 1.0 for score in scores), k)


def title(result: Result) -> str:
    """The benchmark's name; this project's own problems in a benchmark's format are not that benchmark."""
    own = str(result.settings.get("dataset", {}).get("local_path", "")).startswith(str(OWN_PROBLEMS))
    return f"{result.benchmark} (own problems)" if own else result.benchmark


def rows_of(base: Result, trained: Result) -> list[Row]:
    """The rows of one benchmark.

    Raises:
        EvaluationError: the two were not evaluated alike.
    """
    different = [
        name
        for name in sorted(base.settings.keys() | trained.settings.keys())
        if name not in ("model", "weights") and base.settings.get(name) != trained.settings.get(name)
    ]
    if different:
        raise EvaluationError(f"{base.benchmark} was evaluated with another {', '.join(different)} for each model: run again.")
    if base.settings["weights"] == trained.settings["weights"]:
        raise EvaluationError(f"Both results of {base.benchmark} are of the same weights ({base.settings['model']}).")
    name, answers = title(base), base.settings["repeats"]
    found = [row(name, "accuracy" if base.benchmark == "gsm8k" else "pass@1", base.problems, trained.problems)]
    if answers > 1:
        found.append(row(name, f"pass@{answers}", base.problems, trained.problems, k=answers, flips=False))
        if base.details.get("greedy"):
            greedy = [{problem: [x] for problem, x in side.details["greedy"].items()} for side in (base, trained)]
            found.append(row(name, "pass@1, greedy", *greedy))
    if "pass_rates" in base.details:
        found.append(row(name, "pass rate", base.details["pass_rates"], trained.details["pass_rates"], flips=False))
        sources = sorted({problem.rpartition("/")[0] for problem in base.problems})
        for source in sources if len(sources) > 1 else ():
            parts = [{p: x for p, x in s.problems.items() if p.rpartition("/")[0] == source} for s in (base, trained)]
            found.append(row(f"{name}: {source}", "pass@1", *parts))
    return found


def markdown(
    rows: list[Row],
    base: list[Result],
    trained: list[Result],
    missing: list[str],
    published: dict[str, tuple[float, float]],
) -> str:
    """The whole report. published: {benchmark: (before, after)} of those in the table."""
    lines = [
        f"base: {base[0].settings['model']}",
        "",
        f"trained: {trained[0].settings['model']}",
        "",
        "| benchmark | metric | base | trained | difference | 95% interval | problems | gained / lost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for x in rows:
        flips = f"{len(x.gained)} / {len(x.lost)}" if x.gained is not None else ""
        sure = " *" if x.sure else ""
        lines.append(
            f"| {x.name} | {x.metric} | {x.base:.3f} | {x.trained:.3f} | {x.difference:+.3f}{sure} "
            f"| {x.low:+.3f} to {x.high:+.3f} | {x.problems} | {flips} |"
        )
    lines += [
        "",
        "The interval is of the difference: a paired bootstrap over the problems. `*`: it leaves zero out, and more than "
        f"{FEW} problems differ. Gained and lost are problems that only the trained or only the base model solves.",
    ]
    for x in rows:
        for what, names in (("gained", x.gained), ("lost", x.lost)):
            if names and ":" not in x.name:
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                lines += ["", f"{x.name}, {x.metric}, {what}: {', '.join(names[:SHOWN])}{more}"]
    lines += shares(base, trained)
    lines += notes(base)
    if missing:
        lines += ["", f"Not in the table, as a model has no result: {', '.join(missing)}."]
    if published:
        lines += ["", f"For comparison ({PUBLISHED_WHAT}):", "", "| benchmark | before | after |", "|---|---|---|"]
        lines += [f"| {name} | {before:.2f} | {after:.2f} |" for name, (before, after) in published.items()]
    return "\n".join(lines) + "\n"


def shares(base: list[Result], trained: list[Result]) -> list[str]:
    """How the answers to the own problems ended, by data source."""
    pairs = [(x, y) for x in base for y in trained if x.benchmark == y.benchmark and "shares" in x.details]
    lines = []
    for before, after in pairs:
        kinds = list(next(iter(before.details["shares"].values())))
        lines += [
            "",
            f"{before.benchmark}: share of answers in a Python block, of tests that ended so, and of answers cut, in %",
        ]
        lines += ["", f"| | {' | '.join(kind.replace('_', ' ') for kind in kinds)} |", "|---|" + "---|" * len(kinds)]
        for source in before.details["shares"]:
            for name, side in (("base", before), ("trained", after)):
                numbers = side.details["shares"].get(source, {})
                cells = " | ".join(f"{100 * numbers[kind]:.0f}" if kind in numbers else "" for kind in kinds)
                lines.append(f"| {source}, {name} | {cells} |")
    return lines


def notes(base: list[Result]) -> list[str]:
    """What one has to know of a benchmark's settings."""
    lines = []
    for x in base:
        s, dataset = x.settings, x.settings.get("dataset", {})
        words = [s["file"]] if "file" in s else []
        words.append(f"{s['repeats']} answers a problem at temperature {s['temperature']}" if s["repeats"] > 1 else "greedy")
        words.append(f"up to {s['max_tokens']} tokens an answer")
        words += [f"{dataset[key]} worked examples" for key in ("few_shot_num",) if key in dataset]
        if window := dataset.get("extra_params"):
            words.append(f"{window['start_date']} to {window['end_date']}")
        if s["limit"]:
            words.append(f"at most {s['limit']} problems")
        if x.details.get("unusable"):
            words.append(f"{len(x.details['unusable'])} problems without usable tests left out")
        lines += ["", f"{title(x)}: {', '.join(words)}."]
    return lines


def compare(base: list[Result], trained: list[Result], wanted: list[str], out: Path) -> str:
    """Write the three files and return the Markdown. Raises EvaluationError where there is nothing to compare."""
    sides: dict[str, list[Result]] = defaultdict(list)
    for result in [*base, *trained]:
        sides[result.benchmark].append(result)
    both = {name: pair for name, pair in sides.items() if len(pair) == 2}
    missing = sorted({*wanted, *sides} - both.keys())
    if not both:
        raise EvaluationError(f"No benchmark has results of both models (asked for: {', '.join(missing) or 'none'}).")
    rows = [x for pair in both.values() for x in rows_of(*pair)]
    published = {name: PUBLISHED[name] for name in PUBLISHED if any(x.name == name for x in rows)}
    pairs = list(zip(*both.values(), strict=True))
    text = markdown(rows, list(pairs[0]), list(pairs[1]), missing, published)
    whole = {
        "base": base[0].settings["model"],
        "trained": trained[0].settings["model"],
        "rows": [{**asdict(x), "difference": x.difference} for x in rows],
        "settings": {name: pair[0].settings for name, pair in both.items()},
        "shares": {name: [x.details.get("shares") for x in pair] for name, pair in both.items()},
        "missing": missing,
        "published_not_measured_here": {"what": PUBLISHED_WHAT, "before_after": published},
    }
    results.write_text(out.with_name(f"{out.name}.json"), json.dumps(whole, indent=1, ensure_ascii=False))
    from evaluation import chart

    chart.draw(rows, published, out.with_name(f"{out.name}.png"))
    results.write_text(out.with_name(f"{out.name}.md"), text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, nargs="+", default=[], help="result.json files of the base model")
    parser.add_argument("--trained", type=Path, nargs="+", default=[], help="and of the trained one")
    parser.add_argument("--wanted", nargs="*", default=[], help="benchmarks to name where a result is missing")
    parser.add_argument("--out", type=Path, required=True, help="where to write, without an ending")
    arguments = parser.parse_args()
    try:
        sides = [[results.read(path) for path in paths] for paths in (arguments.base, arguments.trained)]
        print(compare(*sides, arguments.wanted, arguments.out), end="")
    except EvaluationError as error:
        sys.exit(f"table: {error}")


if __name__ == "__main__":
    main()
