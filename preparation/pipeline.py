"""From a source to the finished folder: clean, measure, compare, sample, write, check, describe.

Usable rows go to a file of their own as they are read, and only what is needed to choose among them stays in memory
(about 5 kB a problem); the chosen rows are then copied without their tests becoming Python objects again.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from tqdm import tqdm

from preparation import card, difficulty, duplicates, lengths, writing
from preparation.cleaning import Problem, Rules, clean, source_name
from preparation.difficulty import Question, Sampling
from preparation.duplicates import Task
from preparation.reading import DataError, Source, file_digest, read_code_rows
from preparation.row_view import readable
from verifier import ground_truth as gt

MAX_HELD_OUT = 1024  # as many code rows as the hub's validation split
HELD_OUT = "held out for validation"
NEAR_KEPT, EXACT_KEPT = "near-duplicate (--drop-duplicates near)", "repeated statement (--drop-duplicates exact)"
OUTPUTS = ("card.json", "card.md", "duplicates.jsonl", "train.parquet", "validation.parquet")


@dataclass(frozen=True)
class Settings:
    out: Path
    num_train: int
    seed: int
    rules: Rules
    max_prompt_tokens: int
    tokenizer: str | None
    drop_duplicates: str  # "none", "exact" or "near"
    similarity: float  # from which on statements are near-duplicates
    tasks: tuple[Task, ...]  # of benchmarks, which train must not hold
    sampling: Sampling | None  # how difficulty is measured, if it is


@dataclass
class Split:
    """The usable rows of one split, in the source's order, and what became of the others."""

    name: str
    path: Path  # the usable rows as parquet, at the positions that `problems` has them
    problems: dict[int, Problem] = field(default_factory=dict)  # by position; what is dropped later goes
    outcomes: Counter[str] = field(default_factory=Counter)
    by_source: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    tokens: dict[int, int] = field(default_factory=dict)  # of every usable prompt, by position, before the limit
    pass_rates: list[float] = field(default_factory=list)  # of every problem that was sampled

    def count(self, outcome: str, data_source: str) -> None:
        self.outcomes[outcome] += 1
        self.by_source[data_source][outcome] += 1

    def drop(self, position: int, reason: str) -> None:
        problem = self.problems.pop(position)
        self.count(reason, problem.data_source)
        self.outcomes["kept"] -= 1
        self.by_source[problem.data_source]["kept"] -= 1


def prepare(source: Source, settings: Settings) -> dict:
    """Writes the files of one run to settings.out, all or nothing, and returns the card.

    Raises DataError, OSError or pa.ArrowException; the folder is then as it was before, but for difficulty.jsonl, which
    keeps what has been judged.
    """
    subset = f"train{settings.num_train}.parquet"
    targets = [(settings.out / name).resolve() for name in (*OUTPUTS, subset)]
    for path in (path for paths in source.splits.values() for path in paths):
        if path.resolve() in targets:
            raise DataError(f"{path} is a source and would be overwritten; give --out another folder")
    with lengths.counting_process(settings.tokenizer):
        pass  # it can be loaded; it is not kept, for reading needs memory too
    with writing.output_folder(settings.out) as work:
        splits = {
            name: read_split(name, source, work / f".{name}.parquet", settings.rules)
            for name in ("validation", "train")
            if name in source.splits
        }
        with lengths.counting_process(settings.tokenizer) as count:
            for split in splits.values():
                limit_length(split, count, settings.max_prompt_tokens)
        if "validation" not in splits:
            splits["validation"] = hold_out(splits["train"], settings.seed)
        drop_duplicates(splits, settings, work / "duplicates.jsonl")
        insist_on_rows(splits)
        if settings.sampling:
            limit_difficulty(splits["train"], settings.sampling, settings.out / "difficulty.jsonl")
            insist_on_rows(splits)
        files = write_splits(splits, subset, settings, work)
        described = describe(source, splits, files, settings)
        card.write(work, described)
    return described


def read_split(name: str, source: Source, path: Path, rules: Rules) -> Split:
    """Cleans the rows of one split and writes the usable ones to `path`; `index` counts its raw rows from 0."""
    split = Split(name, path)
    paths = source.splits[name]
    total = sum(source.rows[path] or 0 for path in paths)

    def usable() -> Iterator[dict]:
        start = 0
        with tqdm(total=total or None, desc=f"reading {name}", unit=" rows", disable=None) as bar:
            for file in paths:
                for number, positions, rows in read_code_rows(file):
                    split.outcomes["not code"] += number - len(positions)
                    for position, row in zip(positions, rows, strict=True):
                        cleaned = clean(row, start + position, rules)
                        if isinstance(cleaned, str):
                            split.count(cleaned, source_name(row or {}))
                            continue
                        problem, ground_truth = cleaned
                        split.count("kept", problem.data_source)
                        split.problems[len(split.problems)] = problem
                        yield problem.row(name, ground_truth)
                    start += number
                    bar.update(number)

    writing.write_rows(path, usable())
    pa.default_memory_pool().release_unused()  # the next step's memory is Python's
    return split


def limit_length(split: Split, count: lengths.TokenCounter, limit: int) -> None:
    """Measures all usable prompts and drops those over `limit` tokens."""
    measured = lengths.measure(list(split.problems.values()), count, split.name)
    split.tokens = dict(zip(split.problems, measured, strict=True))
    for position, tokens in split.tokens.items():
        if tokens > limit:
            split.drop(position, f"prompt over {limit} tokens")


def hold_out(train: Split, seed: int) -> Split:
    """Takes a tenth of the train rows, for a source without a validation split."""
    if len(train.problems) < 2:
        insist_on_rows({"train": train})
        raise DataError("the source has no validation split and only one usable row; give --validation-source a file")
    held = random.Random(seed).sample(list(train.problems), max(1, min(MAX_HELD_OUT, len(train.problems) // 10)))
    validation = Split("validation", train.path)
    for position in sorted(held):
        validation.problems[position] = problem = train.problems[position]
        validation.tokens[position] = train.tokens[position]
        validation.count("kept", problem.data_source)
        train.drop(position, HELD_OUT)
    return validation


def insist_on_rows(splits: dict[str, Split]) -> None:
    for split in splits.values():
        if not split.problems:
            why = ", ".join(f"{n:,} {reason}" for reason, n in split.outcomes.items() if n)
            raise DataError(f"no {split.name} row is left ({why or 'the source has no rows'})")


def drop_duplicates(splits: dict[str, Split], settings: Settings, side_file: Path) -> None:
    """Drops or counts what train repeats, and writes it down with its partners."""
    train, validation = splits["train"], list(splits["validation"].problems.values())
    position_of = {problem.index: position for position, problem in train.problems.items()}
    matches = duplicates.find(
        list(train.problems.values()), validation, settings.tasks, settings.similarity, settings.drop_duplicates
    )
    for match in matches:
        position = position_of[match.index]
        if match.removed:
            train.drop(position, match.reason)
        else:
            train.problems[position].notes[EXACT_KEPT if match.kind == "exact" else NEAR_KEPT] += 1
    duplicates.write_matches(side_file, matches)


def limit_difficulty(split: Split, sampling: Sampling, results: Path) -> None:
    """Measures the problems left and drops those outside of the band."""
    rates = difficulty.measure(questions(split), len(split.problems), sampling, results)
    split.pass_rates = list(rates.values())
    for position, rate in rates.items():
        if not sampling.low <= rate <= sampling.high:
            side = f"under {sampling.low:g}" if rate < sampling.low else f"over {sampling.high:g}"
            split.drop(position, f"pass rate {side}")


def questions(split: Split) -> Iterator[Question]:
    for position, ground_truth in ground_truths(split, split.problems):
        yield Question(position, split.problems[position], ground_truth)


def ground_truths(split: Split, positions: Collection[int]) -> Iterator[tuple[int, str]]:
    """(position, ground truth) of the usable rows at these positions."""
    for here, batch in writing.read_at(split.path, positions):
        for position, reward_model in zip(here, batch.column("reward_model"), strict=True):
            yield position, reward_model["ground_truth"].as_py()


def write_splits(splits: dict[str, Split], subset: str, settings: Settings, work: Path) -> dict[str, dict]:
    """Writes and checks the three parquet files. Returns {file name: rows, bytes, sha256}."""
    train, validation = splits["train"], splits["validation"]
    positions = list(train.problems)
    drawn = sorted(random.Random(settings.seed).sample(positions, min(settings.num_train, len(positions))))
    files = {}
    for name, split, chosen in (
        (subset, train, drawn),
        ("train.parquet", train, positions),
        ("validation.parquet", validation, list(validation.problems)),
    ):
        path = work / name
        writing.copy_rows(split.path, path, chosen, split.name)
        writing.check_written(path, split.name, [split.problems[position] for position in chosen])
        files[name] = {"rows": len(chosen), "bytes": path.stat().st_size, "sha256": file_digest(path)}
    return files


def describe(source: Source, splits: dict[str, Split], files: dict[str, dict], settings: Settings) -> dict:
    """The card."""
    train = splits["train"]
    chosen = card.choose_samples([k for k, problem in train.problems.items() if problem.test_sizes], settings.seed)
    made_of = f"of {settings.tokenizer}, chat template included" if settings.tokenizer else lengths.ESTIMATE
    described = {
        "source": {name: [origin(source, path) for path in paths] for name, paths in source.splits.items()},
        "options": options_of(settings),
        "made with": card.versions(),
        "prompt lengths": made_of,
        "files": files,
        "splits": {
            name: card.split_summary(
                split.outcomes, split.by_source, list(split.problems.values()), list(split.tokens.values())
            )
            for name, split in sorted(splits.items())
        },
        "samples": [
            card.sample(train.problems[position], readable(gt.parse(ground_truth).tests[0]))
            for position, ground_truth in ground_truths(train, chosen)
        ],
    }
    return described if settings.sampling is None else {**described, "pass rates": card.tenths(train.pass_rates)}


def origin(source: Source, path: Path) -> dict:
    """Which file it is, wherever it lies: the hub's commit, else a digest of its bytes."""
    if source.hub and source.revision in path.parts:
        return {"file": path.name, "hub": source.hub, "revision": source.revision, "rows": source.rows[path]}
    return {"file": path.name, "sha256": file_digest(path), "rows": source.rows[path]}


def options_of(settings: Settings) -> dict:
    options = {
        "seed": settings.seed,
        "num-train": settings.num_train,
        "max-prompt-tokens": settings.max_prompt_tokens,
        **{name.replace("_", "-"): value for name, value in vars(settings.rules).items()},
        "drop-duplicates": settings.drop_duplicates,
        "similarity": settings.similarity,
        "benchmarks": sorted({task.benchmark for task in settings.tasks}),
    }
    return options if settings.sampling is None else {**options, "difficulty": settings.sampling.public()}
