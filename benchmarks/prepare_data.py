"""Time and memory of reading a file of Eurus-2's size, against the source recipe's way: ratios within one run.

    python3 benchmarks/prepare_data.py [--work DIR] [--scale 1.0] [--rounds 1] [--row-group-rows N] [--tokenizer MODEL]

Makes train.parquet and validation.parquet in the dataset's schema with a fixed seed: 455,261 rows of mathematics, then
25,276 of code (and 1,024 of each), 1.7 GB, tests of a few bytes to a few megabytes. They are one row group a file, as
pandas writes them and the hardest to read in pieces; --row-group-rows gives them several. The numbers of rows and bytes are
the real file's; code at the end is a guess, and the texts are random digits and words. A hundredth of the code rows repeat
others, word for word or nearly.
The ways, each in a process of its own, one after the other:

    recipe             datasets.load_dataset(folder)[split].to_pandas(), then the rows of ability "code"
    recipe, again      the same from the library's cache of the first time
    reading            preparation.reading.read_code_rows: the same rows, one at a time
    prepare_data.py    all of it: reading, cleaning, duplicates, three files, the check, the card

Memory is the largest sum of the resident sets of the process and those it started, looked at twenty times a second; pages of
files that a process has mapped count. The files stay in DIR for the next run. Needs 9 GB of disk and, for the recipe, 8 GB of
memory at full size.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
SEED = 11
ROWS = {"train": {"math": 455_261, "code": 25_276}, "validation": {"math": 1024, "code": 1024}}
SYSTEM = (
    "\nWork in steps, and name each of them.\n\n"
    + "\n\n".join(f"[STEP {k}]\n\n# What is done in it" for k in range(22))
    + "\n\n"
)
ENDINGS = {
    "code": "\n\nWrite Python code to solve the problem. Present the code in \n```python\nYour code\n```\nat the end.",
    "math": "\n\nPresent the answer in LaTex format: \\boxed{Your answer}",
}
SOURCES = {"code": ("apps", "codecontests", "codeforces", "taco"), "math": ("numina_cn_k12", "numina_olympiads")}
REPEATED = 0.005  # of the code rows, word for word and once more nearly
TESTS, LARGEST_TEST = 23.0, 5 << 20  # a problem, on average; bytes
TEST_BYTES = (5.65, 2.2)  # mean and standard deviation of the logarithm
DIGITS = 64 << 20
BATCH = 512
LOOKS_A_SECOND = 20
MESSAGE = pa.struct({"content": pa.string(), "role": pa.string()})
SCHEMA = pa.schema(
    {
        "data_source": pa.string(),
        "prompt": pa.list_(MESSAGE),
        "ability": pa.string(),
        "reward_model": pa.struct({"ground_truth": pa.string(), "style": pa.string()}),
        "extra_info": pa.struct({"index": pa.int64(), "split": pa.string()}),
    }
)

# What each way runs, in a fresh interpreter with the folder of the data as its argument.
RECIPE = """
import sys
from datasets import load_dataset, disable_progress_bars
disable_progress_bars()
data = load_dataset(sys.argv[1])
for split in ("train", "validation"):
    frame = data[split].to_pandas()
    frame = frame[frame["ability"] == "code"].reset_index(drop=True)
    print(len(frame))
"""
READING = """
import sys
from pathlib import Path
from preparation.reading import read_code_rows
for split in ("train", "validation"):
    print(sum(1 for _, _, rows in read_code_rows(Path(sys.argv[1], split + ".parquet")) for row in rows))
"""


# ---- the files


def make(folder: Path, scale: float, group_rows: int | None) -> None:
    """Writes both files, complete before either has its name."""
    rng = np.random.default_rng(SEED)
    # Digits with a blank after five on average, which is what most large tests are made of.
    digits = rng.choice(np.frombuffer(b"012345678901234567890123456789    ", "u1"), DIGITS).tobytes().decode()
    words = [f"{a}{b}{c}" for a in "bdfklmnprst" for b in ("a", "e", "i", "ou", "oo") for c in ("n", "rd", "s", "tle", "mp")]
    for split, kinds in ROWS.items():
        path = folder / f".{split}.unfinished"
        rows = rows_of({kind: max(4, round(number * scale)) for kind, number in kinds.items()}, split, digits, words)
        batches = []
        with tqdm(desc=f"making {split}", unit=" rows", disable=None) as bar:
            while batch := list(itertools.islice(rows, BATCH)):
                batches.append(pa.RecordBatch.from_pylist(batch, SCHEMA))
                bar.update(len(batch))
        table = pa.Table.from_batches(batches)
        pq.write_table(table, path, row_group_size=group_rows or table.num_rows)
    for split in ROWS:
        (folder / f".{split}.unfinished").rename(folder / f"{split}.parquet")


def rows_of(numbers: dict[str, int], split: str, digits: str, words: list[str]) -> Iterator[dict]:
    dice, index = random.Random(f"{SEED} {split}"), 0
    earlier: list[str] = []
    for kind, number in numbers.items():
        for _ in range(number):
            statement = " ".join(dice.choices(words, k=int(dice.lognormvariate(5.2 if kind == "code" else 3.6, 0.5))))
            if kind == "code":
                repeat = dice.random() / REPEATED
                if repeat < 2 and earlier:
                    statement = dice.choice(earlier)
                    statement = statement if repeat < 1 else statement + " " + dice.choice(words)
                earlier.append(statement)
            yield {
                "data_source": dice.choice(SOURCES[kind]),
                "prompt": [
                    {"content": SYSTEM, "role": "system"},
                    {"content": statement + ENDINGS[kind], "role": "user"},
                ],
                "ability": kind,
                "reward_model": {"ground_truth": tests_of(dice, digits) if kind == "code" else str(index), "style": "rule"},
                "extra_info": {"index": index, "split": "train"},
            }
            index += 1


def tests_of(dice: random.Random, digits: str) -> str:
    inputs, outputs = [], []
    for _ in range(1 + int(dice.expovariate(1 / TESTS))):
        size = min(LARGEST_TEST, int(dice.lognormvariate(*TEST_BYTES)))
        start = dice.randrange(len(digits) - LARGEST_TEST)
        inputs.append(f"{size}\n{digits[start : start + size]}\n")
        outputs.append(f"{dice.randrange(10**9)}\n")
    return json.dumps({"inputs": inputs, "outputs": outputs})


# ---- the ways


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    stdout: str


def measure(command: list[str], cache: Path) -> Measured:
    """Runs a command and looks at it and all that it starts. Raises SystemExit where it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_DATASETS_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    started, peak, before = time.monotonic(), 0, cpu_of_children()
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, resident(root))
            time.sleep(1 / LOOKS_A_SECOND)
        seconds = time.monotonic() - started
        output = process.stdout.read()
    if process.returncode:
        sys.exit(f"{command[:4]} failed with exit code {process.returncode}")
    return Measured(seconds, cpu_of_children() - before, peak, output)


def cpu_of_children() -> float:
    """Seconds of CPU that the processes which have ended so far have used, with those that they waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def resident(root: psutil.Process) -> int:
    total = 0
    try:
        for process in (root, *root.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass  # it has just ended; the next look sees the others
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of reading a file of Eurus-2's size.")
    parser.add_argument("--work", type=Path, default=Path("runs/prepare_benchmark"), help="folder for the files")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the real number of rows")
    parser.add_argument("--rounds", type=int, default=1, help="of each way the fastest of so many runs counts")
    parser.add_argument("--row-group-rows", type=int, help="rows a row group (default: all in one)")
    parser.add_argument("--tokenizer", help="for prepare_data.py, so that prompts are measured and not estimated")
    args = parser.parse_args()
    raw, cache, out = (args.work / f"{name}-{args.scale:g}-{args.row_group_rows or 'one'}" for name in ("raw", "cache", "out"))
    raw.mkdir(parents=True, exist_ok=True)
    if not (raw / "validation.parquet").exists():
        make(raw, args.scale, args.row_group_rows)
    size = sum((raw / f"{split}.parquet").stat().st_size for split in ROWS)
    folder, inline = str(raw.resolve()), [sys.executable, "-c"]
    prepare = [sys.executable, "prepare_data.py", "--source", folder, "--out", str(out.resolve())]
    prepare += ["--max-prompt-tokens", "2048", *(("--tokenizer", args.tokenizer) if args.tokenizer else ())]
    ways = {
        "recipe": [*inline, RECIPE, folder],
        "recipe, again": [*inline, RECIPE, folder],
        "reading": [*inline, READING, folder],
        "prepare_data.py": prepare,
    }
    results: dict[str, Measured] = {}
    for _ in range(args.rounds):
        shutil.rmtree(cache, ignore_errors=True)
        for way, command in ways.items():
            measured = measure(command, cache)
            if way not in results or measured.seconds < results[way].seconds:
                results[way] = measured
    shutil.rmtree(cache)
    if len({results[way].stdout for way in ("recipe", "recipe, again", "reading")}) != 1:
        sys.exit("the ways found different numbers of code rows")
    rows = sum(pq.read_metadata(raw / f"{split}.parquet").num_rows for split in ROWS)
    found = " + ".join(results["reading"].stdout.split())
    print(f"{rows:,} rows, {size / 1e9:.2f} GB, code rows {found}, {os.cpu_count()} cores")
    print(f"{'':16}{'seconds':>9}{'CPU s':>8}{'peak MB':>9}{'x faster':>10}{'x less CPU':>12}{'x less memory':>15}")
    first = results["recipe"]
    for way, x in results.items():
        ratios = first.seconds / x.seconds, first.cpu_seconds / x.cpu_seconds, first.peak_bytes / x.peak_bytes
        print(f"{way:16}{x.seconds:9.1f}{x.cpu_seconds:8.1f}{x.peak_bytes / 1e6:9,.0f}", end="")
        print(f"{ratios[0]:10.1f}{ratios[1]:12.1f}{ratios[2]:15.1f}")
    print(results["prepare_data.py"].stdout, end="")


if __name__ == "__main__":
    main()
