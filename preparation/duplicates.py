"""The same problem twice: within train, in train and validation, in train and a benchmark.

Exact: the same statement but for capitals and white space. Near: sets of five-word shingles whose Jaccard similarity is
at least a threshold; datasketch's MinHash finds the candidates, and the similarity itself is then computed from the
sets, so nothing is called near by chance (a pair close to the threshold may be missed by chance, the same one each time).
Benchmark: that share of the shingles of a benchmark's task stands in the statement, however long the statement is.

Validation stays as it is, and of train the first row stays. Rows are compared with those that stay, so every partner
named can be looked up in what was written, unless difficulty drops it later.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha1
from pathlib import Path

from datasketch import MinHash, MinHashLSH
from tqdm import tqdm
from xxhash import xxh32_intdigest

from preparation.cleaning import Problem
from preparation.reading import DataError, ending, first_line, open_parquet

SHINGLE = 5  # words and signs
PERMUTATIONS = 128
FEW_MISSED = (0.2, 0.8)  # what a false candidate costs against a missed one: candidates are looked at again
MIN_SHINGLES = 4  # a benchmark's task shorter than that would be found everywhere
WORD = re.compile(r"\w+|[^\w\s]")
EMPTY = MinHash(num_perm=PERMUTATIONS, seed=1, hashfunc=xxh32_intdigest)
SHOWN = 300  # characters of a statement in the side file
# What holds the task in HumanEval, MBPP (both forms) and LiveCodeBench, first come first served.
TASK_FIELDS = ("question_content", "text", "prompt")
ID_FIELDS = ("task_id", "question_id", "id")


@dataclass(frozen=True)
class Match:
    """Two statements that are too much alike; the side file has one a line."""

    kind: str  # "exact", "near" or "benchmark"
    removed: bool
    similarity: float  # Jaccard; for a benchmark, the share of its task
    index: int  # of the train row
    data_source: str
    partner: str  # "train", "validation" or the benchmark's file
    partner_id: int | str  # index in that split, or the benchmark's name for the task
    statement: str
    partner_statement: str

    @property
    def reason(self) -> str:
        if self.kind == "benchmark":
            return "statement holds a benchmark's task"
        return f"{'same statement' if self.kind == 'exact' else 'near-duplicate'} as in {self.partner}"


@dataclass(frozen=True)
class Task:
    """One problem of a benchmark."""

    benchmark: str
    name: str
    text: str


def find(
    train: Sequence[Problem], validation: Sequence[Problem], tasks: Sequence[Task], threshold: float, drop: str
) -> list[Match]:
    """What each train row repeats, at most one match a row, in the order of train.

    drop: "exact" removes repetitions within train, and rows like one of validation, near or exact; "near" removes near ones
        within train as well; "none" removes only what holds a benchmark's task.
    """
    seen: dict[bytes, tuple[str, Problem]] = {}
    index = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, weights=FEW_MISSED)
    known: list[tuple[str, Problem]] = []
    in_benchmark = benchmark_index(tasks)
    matches = []

    def remember(split: str, problem: Problem, signature: MinHash) -> None:
        seen.setdefault(exact_key(problem.statement), (split, problem))
        index.insert(len(known), signature)
        known.append((split, problem))

    def match(problem: Problem, signature: MinHash) -> Match | None:
        if held := in_benchmark(problem.statement, threshold):
            similarity, task = held
            return make_match("benchmark", True, similarity, problem, task.benchmark, task.name, task.text)
        if earlier := seen.get(exact_key(problem.statement)):
            split, other = earlier
            return make_match("exact", drop != "none", 1.0, problem, split, other.index, other.statement)
        alike = [(jaccard(problem.statement, known[key][1].statement), -key) for key in index.query(signature)]
        similarity, key = max(alike, default=(0.0, 0))
        if similarity < threshold:
            return None
        split, other = known[-key]
        removed = drop == "near" or (drop == "exact" and split == "validation")
        return make_match("near", removed, similarity, problem, split, other.index, other.statement)

    total = len(validation) + len(train)
    with tqdm(total=total, desc="comparing statements", unit=" rows", disable=None) as bar:
        for split, problems in (("validation", validation), ("train", train)):
            for problem in problems:
                signature = minhash(problem.statement)
                found = match(problem, signature) if split == "train" else None
                if found:
                    matches.append(found)
                    if not found.removed:  # a row that stays can be repeated word for word
                        seen.setdefault(exact_key(problem.statement), (split, problem))
                else:
                    remember(split, problem, signature)
                bar.update()
    return matches


def make_match(
    kind: str, removed: bool, similarity: float, problem: Problem, partner: str, partner_id: int | str, text: str
) -> Match:
    shown = (problem.statement[:SHOWN], text[:SHOWN])
    return Match(kind, removed, round(similarity, 3), problem.index, problem.data_source, partner, partner_id, *shown)


def exact_key(statement: str) -> bytes:
    return sha1(" ".join(statement.lower().split()).encode()).digest()


@lru_cache(maxsize=1024)
def shingles(text: str) -> frozenset[str]:
    """Every five words in a row; all of them where there are fewer. Signs count as words: a + b is not a - b."""
    words = WORD.findall(text.lower())
    return frozenset(" ".join(words[k : k + SHINGLE]) for k in range(max(1, len(words) - SHINGLE + 1)))


def minhash(statement: str) -> MinHash:
    signature = EMPTY.copy()
    signature.update_batch([shingle.encode() for shingle in shingles(statement)])
    return signature


def jaccard(first: str, second: str) -> float:
    a, b = shingles(first), shingles(second)
    return len(a & b) / len(a | b)


# ---- benchmarks


def benchmark_index(tasks: Sequence[Task]) -> Callable[[str, float], tuple[float, Task] | None]:
    """A function (statement, threshold) -> (share, task) of the task that the statement holds most of, or None."""
    tasks = [task for task in tasks if len(shingles(task.text)) >= MIN_SHINGLES]
    where: dict[str, list[int]] = defaultdict(list)
    for number, task in enumerate(tasks):
        for shingle in shingles(task.text):
            where[shingle].append(number)
    sizes = [len(shingles(task.text)) for task in tasks]

    def best(statement: str, threshold: float) -> tuple[float, Task] | None:
        hits = Counter(number for shingle in shingles(statement) for number in where.get(shingle, ()))
        share, number = max(((hit / sizes[k], -k) for k, hit in hits.items()), default=(0.0, 0))
        return (share, tasks[-number]) if share >= threshold else None

    return best


def read_benchmark(path: Path) -> list[Task]:
    """The tasks of a local copy of HumanEval, MBPP or LiveCodeBench: .jsonl, .jsonl.gz, .json or .parquet.

    Raises DataError where the file cannot be read or holds no field with a task's text.
    """
    try:
        records = list(records_of(path))
    except (OSError, ValueError, EOFError) as error:  # EOFError: a gzip file that was cut
        raise DataError(
            f"the benchmark {path} cannot be read ({first_line(error)}); give a jsonl, json or parquet file"
        ) from error
    tasks = []
    for number, record in enumerate(records):
        text = next((record[name] for name in TASK_FIELDS if isinstance(record.get(name), str)), None)
        if text is None:
            raise DataError(
                f"the benchmark {path} has no text of a task in record {number} (one of {', '.join(TASK_FIELDS)} is read, "
                "as in HumanEval, MBPP and LiveCodeBench)"
            )
        name = next((str(record[name]) for name in ID_FIELDS if name in record), str(number))
        tasks.append(Task(path.name, name, docstring(text) or text))
    if not tasks:
        raise DataError(f"the benchmark {path} holds no task; give the file with the problems")
    return tasks


def records_of(path: Path) -> Iterator[dict]:
    if ending(path) == ".parquet":
        with open_parquet(path) as file:
            columns = [name for name in (*TASK_FIELDS, *ID_FIELDS) if name in file.schema_arrow.names]
            yield from file.read(columns=columns).to_pylist()
        return
    data = path.read_bytes()
    text = (gzip.decompress(data) if ending(path) == ".gz" else data).decode("utf-8")
    records = json.loads(text) if ending(path) == ".json" else [json.loads(line) for line in text.splitlines() if line.strip()]
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError("it does not hold JSON objects")
    yield from records


def docstring(code: str) -> str:
    """The words of a HumanEval prompt (a function without a body), its examples left out; "" for text that is no code."""
    try:
        functions = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    text = next(filter(None, (ast.get_docstring(node) for node in reversed(functions))), "")
    return re.split(r"\n\s*(?:>>>|[Ee]xamples?\b)", text)[0].strip()


def write_matches(path: Path, matches: Sequence[Match]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for match in matches:
            file.write(json.dumps(asdict(match), ensure_ascii=False) + "\n")
