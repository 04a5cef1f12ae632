"""Repeated problems: within train, in train and validation, in train and a benchmark; the side file that names partners."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
from raw_rows import MATH, good_rows, raw_row, run, snapshot, source_folder, story, table, written

from preparation import duplicates
from preparation.duplicates import Task, docstring, jaccard, read_benchmark


def matches(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "duplicates.jsonl").read_text().splitlines()]


def indices(out: Path, name: str = "train") -> list[int]:
    return [row["extra_info"]["index"] for row in written(out, name)]


def nearly(text: str) -> str:
    """The same text with one word more at its end."""
    return text + " indeed"


A, B, C, D = (story(seed) for seed in range(4))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Train: 0 A, 1 A as 0 in capitals, 2 nearly A, 3 B, 4 C, 5 nearly C, 6 D, 7 nearly A as 2. Validation: 0 B, 1 C."""
    train = [A, "  ".join(A.upper().split()), nearly(A), B.replace(" ", "\n"), C, nearly(C), D, nearly(A)]
    return source_folder(tmp_path / "raw", list(map(raw_row, train)), [raw_row(B), raw_row(C), MATH])


def prepare(raw: Path, out: Path, *options: object) -> list[int]:
    assert run("--source", raw, "--out", out, *options) == 0
    return indices(out)


def test_by_default_repeats_go_and_whatever_is_like_validation(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare(raw, tmp_path / "out") == [0, 2, 6]
    assert indices(tmp_path / "out", "validation") == [0, 1]
    counts = table(capsys.readouterr().out)
    assert counts["same statement as in train"] == [2, 0]
    assert counts["same statement as in validation"] == [2, 0]
    assert counts["near-duplicate as in validation"] == [1, 0]
    assert counts["near-duplicate (--drop-duplicates near)"] == [1, 0]
    assert counts["kept"] == [3, 2]


def test_near_duplicates_within_train_go_on_demand(raw: Path, tmp_path: Path) -> None:
    assert prepare(raw, tmp_path / "near", "--drop-duplicates", "near") == [0, 6]
    assert prepare(raw, tmp_path / "alone", "--drop-duplicates") == [0, 6]


def test_none_are_dropped_but_all_are_counted(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(raw, tmp_path / "out", "--drop-duplicates", "none") == list(range(8))
    counts = table(capsys.readouterr().out)
    assert counts["repeated statement (--drop-duplicates exact)"] == [4, 0]
    assert counts["near-duplicate (--drop-duplicates near)"] == [2, 0]
    assert [match["removed"] for match in matches(tmp_path / "out")] == [False] * 6


def test_the_side_file_names_partners_that_were_kept(raw: Path, tmp_path: Path) -> None:
    prepare(raw, tmp_path / "out", "--drop-duplicates", "near")
    found = {match["index"]: match for match in matches(tmp_path / "out")}
    partners = {index: (match["kind"], match["partner"], match["partner_id"]) for index, match in found.items()}
    assert partners == {
        1: ("exact", "train", 0),
        2: ("near", "train", 0),
        3: ("exact", "validation", 0),
        4: ("exact", "validation", 1),
        5: ("near", "validation", 1),
        7: ("near", "train", 0),
    }
    kept = {split: indices(tmp_path / "out", split) for split in ("train", "validation")}
    assert all(partner_id in kept[split] for _, split, partner_id in partners.values())
    assert found[2]["similarity"] == round(jaccard(nearly(A), A), 3) < 1 == found[1]["similarity"]
    assert found[5]["statement"] == nearly(C)[:300] and found[5]["partner_statement"] == C[:300]
    assert found[5]["data_source"] == "taco" and all(match["removed"] for match in found.values())


def test_the_threshold_decides(tmp_path: Path) -> None:
    words = A.split()
    half = " ".join(words[:90] + D.split()[:30])
    assert 0.5 < jaccard(A, half) < 0.8
    raw = source_folder(tmp_path / "raw", [raw_row(A), raw_row(half)])
    assert prepare(raw, tmp_path / "a", "--drop-duplicates", "near") == [0, 1]
    assert prepare(raw, tmp_path / "b", "--drop-duplicates", "near", "--similarity", "0.5") == [0]


def test_many_near_pairs_are_found_and_few_others(tmp_path: Path) -> None:
    """MinHash may miss a pair close to the threshold; at 0.9 and more it finds nearly all, and it invents none."""
    originals = [story(seed) for seed in range(200)]
    rows = [raw_row(text) for text in originals] + [raw_row(nearly(text)) for text in originals]
    raw = source_folder(tmp_path / "raw", rows)
    kept = prepare(raw, tmp_path / "out", "--drop-duplicates", "near")
    assert kept[:200] == list(range(200)) and len(kept) <= 204
    assert all(match["partner_id"] == match["index"] - 200 for match in matches(tmp_path / "out"))


def test_signs_and_numbers_tell_short_statements_apart(tmp_path: Path) -> None:
    texts = ["Print a + b.", "Print a - b.", "Print 2 times n.", "Print 3 times n."]
    raw = source_folder(tmp_path / "raw", list(map(raw_row, texts)))
    assert prepare(raw, tmp_path / "out", "--drop-duplicates", "near") == [0, 1, 2, 3]


def test_rows_held_out_for_validation_are_not_trained_on(tmp_path: Path) -> None:
    texts = [text for seed in range(30) for text in (story(seed), nearly(story(seed)))]
    raw = source_folder(tmp_path / "raw", list(map(raw_row, texts)))
    (raw / "validation.parquet").unlink()
    kept = prepare(raw, tmp_path / "out")
    held = indices(tmp_path / "out", "validation")
    assert len(held) == 6
    pairs_of = {index // 2 for index in held}
    assert not pairs_of & {index // 2 for index in kept}
    assert len(kept) == 60 - 2 * len(pairs_of)


def test_the_same_matches_in_every_run(raw: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        prepare(raw, tmp_path / name, "--drop-duplicates", "near")
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")


# ---- benchmarks

HUMANEVAL = '''from typing import List


def separate(text: str) -> List[str]:
    """ The text holds several groups of nested brackets. Separate those groups into strings of their own and
    return them as a list; groups are balanced and not nested within each other.
    >>> separate('( ) (( ))')
    ['()', '(())']
    """
'''
TASK = "The text holds several groups of nested brackets. Separate those groups into strings of their own"


def benchmark_files(folder: Path) -> dict[str, Path]:
    """A file of each format, in the fields of HumanEval, MBPP (both forms) and LiveCodeBench."""
    folder.mkdir()
    humaneval = {"task_id": "HumanEval/1", "prompt": HUMANEVAL, "canonical_solution": "", "test": "", "entry_point": "separate"}
    mbpp = {"task_id": 11, "text": f"Write a function. {A}", "code": "", "test_list": []}
    sanitized = {"source_file": "x", "task_id": 12, "prompt": B, "code": "", "test_list": []}
    lcb = {"question_title": "t", "question_content": C, "question_id": "abc_1", "contest_date": "2024-09-01"}
    with gzip.open(folder / "HumanEval.jsonl.gz", "wt") as file:
        file.write(json.dumps(humaneval) + "\n")
    (folder / "mbpp.jsonl").write_text(json.dumps(mbpp) + "\n\n")
    (folder / "sanitized-mbpp.json").write_text(json.dumps([sanitized]))
    pd.DataFrame([lcb]).to_parquet(folder / "lcb.parquet")
    return {path.name: path for path in folder.iterdir()}


def test_benchmarks_are_read_in_their_own_formats(tmp_path: Path) -> None:
    files = benchmark_files(tmp_path / "benchmarks")
    read = {name: read_benchmark(path)[0] for name, path in files.items()}
    assert read["HumanEval.jsonl.gz"].name == "HumanEval/1"
    assert read["HumanEval.jsonl.gz"].text.startswith(TASK) and ">>>" not in read["HumanEval.jsonl.gz"].text
    assert read["mbpp.jsonl"] == Task("mbpp.jsonl", "11", f"Write a function. {A}")
    assert read["sanitized-mbpp.json"] == Task("sanitized-mbpp.json", "12", B)
    assert read["lcb.parquet"] == Task("lcb.parquet", "abc_1", C)
    assert docstring("Write a function to add.") == "" and docstring("def f():\n    pass\n") == ""


def test_what_holds_a_benchmarks_task_goes_from_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = benchmark_files(tmp_path / "benchmarks")
    within = f"{D} {docstring(HUMANEVAL)} {story(9)}"  # a task in the middle of a long statement
    texts = [within, nearly(A), D, C, "Print the sum."]
    raw = source_folder(tmp_path / "raw", list(map(raw_row, texts)), [raw_row(B), raw_row("Halve it.")])
    options = ("--drop-duplicates", "none", "--benchmarks", *files.values())
    assert prepare(raw, tmp_path / "out", *options) == [2, 4]
    assert indices(tmp_path / "out", "validation") == [0, 1]  # never trained on, so it may overlap
    assert table(capsys.readouterr().out)["statement holds a benchmark's task"] == [3, 0]
    found = {match["index"]: (match["partner"], match["partner_id"]) for match in matches(tmp_path / "out")}
    assert found == {0: ("HumanEval.jsonl.gz", "HumanEval/1"), 1: ("mbpp.jsonl", "11"), 3: ("lcb.parquet", "abc_1")}
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["options"]["benchmarks"] == sorted(files)


def test_a_task_too_short_to_tell_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "mbpp.jsonl").write_text(json.dumps({"task_id": 1, "text": "Print the sum."}) + "\n")
    raw = source_folder(tmp_path / "raw", [raw_row("Print the sum."), *good_rows(1)])
    assert prepare(raw, tmp_path / "out", "--benchmarks", tmp_path / "mbpp.jsonl") == [0, 1]


BAD = {
    "missing.jsonl": (None, "cannot be read"),
    "broken.jsonl": ('{"task_id": ', "cannot be read"),
    "list.jsonl": ("[1]\n", "does not hold JSON objects"),
    "object.json": ('{"a": 1}', "does not hold JSON objects"),
    "empty.jsonl": ("", "holds no task"),
    "other.jsonl": ('{"question": "x"}\n', "has no text of a task in record 0"),
    "cut.jsonl.gz": ("no gzip", "cannot be read"),
    "bad.parquet": ("no parquet", "cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_benchmark_that_cannot_be_used(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, words = BAD[name]
    if content is not None:
        (tmp_path / name).write_text(content)
    raw = source_folder(tmp_path / "raw", good_rows(2))
    assert run("--source", raw, "--out", tmp_path / "out", "--benchmarks", tmp_path / name) == 1
    error = capsys.readouterr().err
    assert words in error and name in error and error.count("\n") == 1 and not (tmp_path / "out").exists()


def test_all_of_a_benchmark_is_looked_at(tmp_path: Path) -> None:
    tasks = [Task("b", str(k), story(k, 40)) for k in range(50)]
    best = duplicates.benchmark_index(tasks)
    assert all(best(f"{story(1000 + k)} {story(k, 40)}", 0.9)[1] is tasks[k] for k in range(50))
    assert best(story(2000), 0.1) is None
