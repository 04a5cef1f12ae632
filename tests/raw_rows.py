"""Rows in the raw schema of Eurus-2, files of them, and prepare_data.py run on those files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import prepare_data

CLOSING = "\n\nWrite Python code to solve the problem. Present the code in \n```python\nYour code\n```\nat the end."
DOUBLE = {"inputs": ["3\n", "-4\n"], "outputs": ["6\n", "-8\n"]}
WORDS = [f"word{k}" for k in range(40)]


def raw_row(statement: str, tests: object = DOUBLE, **changes: object) -> dict:
    """One row as the hub has it; `tests` that are not a string are written as JSON."""
    row = {
        "data_source": "taco",
        "prompt": [
            {"content": "\nUse these actions.\n\n[ASSESS]\n\n[ADVANCE]\n\n", "role": "system"},
            {"content": statement + CLOSING, "role": "user"},
        ],
        "ability": "code",
        "reward_model": {"ground_truth": tests if isinstance(tests, str) else json.dumps(tests), "style": "rule"},
        "extra_info": {"index": 7, "split": "dummy"},
    }
    return {**row, **changes}


def good_rows(number: int) -> list[dict]:
    """Usable rows, no two of them alike."""
    return [raw_row(f"Double the number, variant {k}.") for k in range(number)]


def story(seed: int, words: int = 120) -> str:
    """A statement of random words."""
    return " ".join(np.random.default_rng(seed).choice(WORDS, words)) + "."


MATH = raw_row("What is 1 + 1?", "2", ability="math", data_source="numina_cn_k12")


def write_parquet(path: Path, rows: list[dict], **options: object) -> Path:
    """By way of pandas, as the dataset's authors do: prompts become numpy arrays of dicts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame({**row, "prompt": np.array(row["prompt"])} if isinstance(row["prompt"], list) else row for row in rows)
    frame.to_parquet(path, **options)
    return path


def write_jsonl(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def source_folder(folder: Path, train: list[dict], validation: list[dict] | None = None) -> Path:
    write_parquet(folder / "train.parquet", train)
    write_parquet(folder / "validation.parquet", validation or [raw_row("Halve the number."), MATH])
    return folder


def run(*arguments: object) -> int:
    return prepare_data.main([str(argument) for argument in arguments])


def written(out: Path, name: str = "train") -> list[dict]:
    return pq.read_table(out / f"{name}.parquet").to_pylist()


def table(stdout: str) -> dict[str, list[int]]:
    """The report's lines of counts: {"rows read": [train, validation], ...}"""
    found = re.findall(r"^ *(\S.*?) {2,}([\d,]+(?: +[\d,]+)?)$", stdout, re.MULTILINE)
    return {name: [int(number.replace(",", "")) for number in numbers.split()] for name, numbers in found}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def files_written(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())
