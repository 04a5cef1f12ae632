"""The problem set: its catalogue, the problems drawn from it, and the raw rows written by data/generate.py."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from code_reward import compute_score
from data import generate
from data.families import FAMILIES, LEVELS, Family, Problem, select

ROOT = Path(__file__).resolve().parents[1]

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def draws(family: Family, number: int = 4) -> list[Problem]:
    """Problems of the family, half of them held out."""
    return [family.make(random.Random(f"{family.name} {k}"), held_out=k % 2 == 1) for k in range(number)]


def run_here(program: str, fn_name: str | None, stdin: str) -> str:
    """The output (or JSON result) of one of the catalogue's own programs, in this process; "" after an exception."""
    output, namespace = io.StringIO(), {"__name__": "__main__"}
    before, sys.stdin = sys.stdin, io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(program, "program", "exec"), namespace)
            if fn_name is None:
                return output.getvalue()
            scope = vars(namespace["Solution"]) if "Solution" in namespace else namespace
            arguments = [json.loads(line) for line in stdin.splitlines()]
            return json.dumps(scope[fn_name](*([None] if "Solution" in namespace else []), *arguments))
    except Exception:
        return ""
    finally:
        sys.stdin = before


# ---- the catalogue


def test_catalogue_is_as_large_and_as_mixed_as_promised():
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names)) >= 36
    stdin_levels = Counter(family.level for family in FAMILIES if family.fn_name is None)
    assert set(stdin_levels) == set(LEVELS)
    assert stdin_levels["trivial"] >= 16 and stdin_levels["easy"] + stdin_levels["harder"] >= 14
    assert sum(family.fn_name is not None for family in FAMILIES) >= 4
    assert {family.in_class for family in FAMILIES if family.fn_name} == {True, False}
    for level in LEVELS:
        unseen = [family.unseen for family in FAMILIES if family.level == level]
        assert 0.15 <= sum(unseen) / len(unseen) <= 0.25, f"a fifth of the {level} families is for validation"


@every_family
def test_family_keeps_wordings_and_parameters_for_validation(family):
    assert len(set(family.wordings)) >= 4 and len(set(family.held_out_wordings)) >= 2
    assert not set(family.wordings) & set(family.held_out_wordings)
    assert family.parameters, "at least one parameter differs between training and validation"
    for name, (training, held_out) in family.parameters.items():
        assert training and held_out and not set(training) & set(held_out), name


def test_catalogue_needs_only_the_standard_library():
    code = "import sys; import data.families; print(json.dumps(sorted(sys.modules)))"
    run = [sys.executable, "-S", "-c", "import json; " + code]
    loaded = {name.split(".")[0] for name in json.loads(subprocess.check_output(run, cwd=ROOT, text=True))}
    assert loaded - {"data", "__main__"} <= set(sys.stdlib_module_names)


def test_readme_lists_every_family_at_its_place():
    rows = {}
    for line in (ROOT / "data/README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in LEVELS:
            rows[cells[0]] = [sorted(re.findall(r"(\w+)(?: \((call)\))?", cell)) for cell in cells[1:]]
    for level in LEVELS:
        for column, unseen in enumerate((False, True)):
            there = [f for f in FAMILIES if f.level == level and f.unseen == unseen]
            assert rows[level][column] == sorted((f.name, "call" if f.fn_name else "") for f in there)


# ---- single problems


def examples(problem: Problem) -> list[tuple[str, str]]:
    """The (input, output) pairs that the statement shows, as a reader of the statement would find them."""
    if problem.fn_name:
        calls = re.findall(rf"^Example: {problem.fn_name}\((.*)\) returns (.*)$", problem.statement, re.MULTILINE)
        pairs = [(ast.literal_eval(f"[{arguments}]"), ast.literal_eval(value)) for arguments, value in calls]
        return [("\n".join(map(json.dumps, arguments)), json.dumps(value)) for arguments, value in pairs]
    demo = re.search(r"\n\nDemo Input:\n(.*)\n\nDemo Output:\n(.*)$", problem.statement)
    if demo:
        return list(zip(*map(ast.literal_eval, demo.groups()), strict=True))
    shown = re.split(r"\n(?:Example|-----Examples-----)\n", problem.statement)[1]
    return re.findall(r"Input:\n(.*?\n)Output:\n(.*?\n)(?:\n|\Z)", shown + "\n", re.DOTALL)


@every_family
def test_statement_is_short_and_its_examples_are_tests(family):
    for problem in draws(family, 8):
        assert len(problem.statement) <= (350 if family.fn_name else 260) if family.level == "trivial" else 800
        assert "$" not in problem.statement + problem.solution + "".join(problem.wrong), "a parameter was not filled in"
        shown = examples(problem)
        assert 1 <= len(shown) <= 2
        assert shown == list(zip(problem.inputs, problem.outputs, strict=True))[: len(shown)]


@every_family
def test_tests_tell_right_from_wrong(family):
    """The reference prints what `answer` says; wrong programs and constants fail most tests of every problem."""
    for problem in draws(family, 6):
        assert 8 <= len(problem.inputs) == len(problem.outputs) <= 20
        assert len(set(problem.inputs)) == len(problem.inputs)
        assert max(Counter(problem.outputs).values()) <= 0.5 * len(problem.outputs)
        for stdin, expected in zip(problem.inputs, problem.outputs, strict=True):
            assert run_here(problem.solution, problem.fn_name, stdin) == expected
        small = [(i, o) for i, o in zip(problem.inputs, problem.outputs, strict=True) if len(i) < 5000]
        assert len(set(problem.wrong)) >= 2
        for program in problem.wrong:
            passed = sum(run_here(program, problem.fn_name, stdin) == expected for stdin, expected in small)
            assert passed <= 0.35 * len(small), program


def test_some_problems_of_a_family_with_large_tests_have_one():
    families = [family for family in FAMILIES if family.big_case]
    assert len(families) >= 6 and {family.level for family in families} == {"harder"}
    for family in families:
        longest = [max(map(len, problem.inputs)) for problem in draws(family, 24)]
        assert min(longest) < 3000 and 6400 <= max(longest) < 500_000, family.name


@every_family
def test_verifier_accepts_the_reference_and_rejects_wrong_programs(family):
    """As in training: every layout of the ground truth, and for the reference the large tests too."""
    layouts = generate.CALL_LAYOUTS if family.fn_name else generate.STDIN_LAYOUTS

    def first(is_wanted: Callable[[int], bool]) -> Problem:
        """The first draw whose longest input has a wanted length."""
        problems = (family.make(random.Random(f"{family.name} {k}"), held_out=False) for k in range(100))
        return next(problem for problem in problems if is_wanted(max(map(len, problem.inputs))))

    def judge(problem: Problem, program: str, turn: int) -> dict[str, float]:
        tests = generate.ground_truth(problem, layouts[(turn + FAMILIES.index(family)) % len(layouts)])
        return compute_score("recipe_stdio", f"```python\n{program}\n```", tests)

    # A large test is not for the wrong programs: slow ones would spend the whole CPU limit on it.
    small = first(lambda length: length < 6000)
    large = first(lambda length: length > 6000) if family.big_case else small
    with ThreadPoolExecutor() as pool:
        right = pool.submit(judge, large, large.solution, 0)
        wrong = [pool.submit(judge, small, program, turn) for turn, program in enumerate(small.wrong[:2], 1)]
    assert right.result()["acc"] == 1
    for scores in (future.result() for future in wrong):
        assert scores["internal_error"] == scores["data_error"] == 0
        assert scores["acc"] == 0 and scores["pass_rate"] <= 0.35


# ---- raw rows

USER_ENDING = "\n\nWrite Python code to solve the problem. Present the code in \n```python\nYour code\n```\nat the end."


@pytest.fixture(scope="module")
def raw() -> dict[str, list[dict]]:
    return {"train": list(generate.rows("train", 400)), "validation": list(generate.rows("validation", 160))}


def kind_of(row: dict) -> str:
    """What kind of row it is, found from its content alone."""
    if row["ability"] == "math":
        return "math"
    text = row["reward_model"]["ground_truth"]
    tests = json.loads(text)
    inputs, outputs = tests["inputs"], tests["outputs"]
    if len(row["prompt"][1]["content"]) > 10_000:
        return "too long"
    if not inputs and not outputs:
        return "no tests"
    if len(inputs) != len(outputs):
        return "unequal tests"
    if "fn_name" in tests:
        return "call, list arguments" if isinstance(inputs[0], list) else "call, text arguments"
    if isinstance(inputs[0], list):
        return "stdin, lists of lines"
    cut = sum(output.endswith("...") for output in outputs)
    if cut:
        return "all tests cut" if cut == len(outputs) else "one test cut" if cut == 1 else f"{cut} tests cut"
    if text.startswith('{\n "inputs": [\n') and all(side.endswith("\n") for side in inputs + outputs):
        return "stdin, pretty"
    return "stdin, compact" if not any(side.endswith("\n") for side in inputs + outputs) else "unknown"


def test_rows_have_the_raw_schema(raw):
    for split, rows in raw.items():
        assert [row["extra_info"]["index"] for row in rows] == list(range(len(rows)))
        for row in rows:
            assert list(row) == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
            system, user = row["prompt"]
            assert (system["role"], user["role"]) == ("system", "user")
            assert system["content"].startswith("\n") and system["content"].endswith("\n\n")
            assert row["reward_model"]["style"] == "rule" and isinstance(row["reward_model"]["ground_truth"], str)
            assert row["extra_info"]["split"] in ("train", "dummy")
            if row["ability"] == "code":
                assert user["content"].endswith(USER_ENDING)
        assert {row["extra_info"]["split"] for row in raw["train"]} == {"train", "dummy"}, split


@pytest.mark.parametrize("split, n", [("train", 400), ("validation", 160)])
def test_counts_agree_with_the_rows(raw, split, n):
    found = Counter(map(kind_of, raw[split]))
    promised = generate.counts(split, n)
    assert found == Counter(promised) and sum(promised[kind] for kind in generate.USABLE) == n
    assert all(promised[kind] > 0 for kind in generate.USABLE)
    readme = (ROOT / "data/README.md").read_text()
    for kind, number in generate.EXTRAS[split].items():
        row = re.search(rf"^\| {kind} \| (\d+) \| (\d+) \|", readme, re.MULTILINE)
        assert number == int(row[1 if split == "train" else 2]) == promised[kind]


def test_call_rows_hold_lists_of_arguments_and_wrapped_values(raw):
    seen = 0
    for row in raw["train"]:
        if kind_of(row) == "call, list arguments":
            tests = json.loads(row["reward_model"]["ground_truth"])
            assert all(isinstance(side, list) for side in tests["inputs"])
            assert all(isinstance(side, list) and len(side) == 1 for side in tests["outputs"])
            seen += 1
    assert seen


WORDINGS = [
    (re.compile(re.sub(r"\\\$\w+", r"\\w+", re.escape(wording))), family.name, held_out)
    for family in FAMILIES
    for held_out, wordings in ((False, family.wordings), (True, family.held_out_wordings))
    for wording in wordings
]


def families_of(statement: str) -> set[tuple[str, bool]]:
    """(name, held out?) of every wording that stands as a line of its own in the statement."""
    lines = [line for line in statement.splitlines() if len(line) < 400]
    return {(name, held_out) for pattern, name, held_out in WORDINGS if any(map(pattern.fullmatch, lines))}


def test_validation_is_new_to_a_model_trained_on_train(raw):
    unseen = {family.name for family in FAMILIES if family.unseen}
    content = {split: [row["prompt"][1]["content"] for row in rows] for split, rows in raw.items()}
    assert not set(content["train"]) & set(content["validation"])
    assert len(set(content["train"])) == len(content["train"])
    shown: dict[str, set[str]] = {}
    for split, rows in raw.items():
        for row in rows:
            if row["ability"] == "math":
                assert row["data_source"] == "recipe_math"
                continue
            ((name, held_out),) = families_of(row["prompt"][1]["content"])
            assert held_out == (split == "validation"), (name, "wording of the other split")
            shown.setdefault(row["data_source"], set()).add(name)
            is_call = "fn_name" in json.loads(row["reward_model"]["ground_truth"])
            if split == "train":
                assert row["data_source"] == ("recipe_call" if is_call else "recipe_stdio")
    assert shown["recipe_unseen"] == unseen
    trained = {family.name for family in FAMILIES} - unseen
    assert shown["recipe_seen"] == shown["recipe_stdio"] | shown["recipe_call"] == trained


def test_levels_restrict_the_families():
    rows = generate.rows("train", 46, families=select(("trivial",)))
    names = {name for row in rows if row["ability"] == "code" for name, _ in families_of(row["prompt"][1]["content"])}
    assert names == {family.name for family in FAMILIES if family.level == "trivial" and not family.unseen}


# ---- the command line


def run_generator(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess:
    command = [sys.executable, "data/generate.py", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def test_generator_is_deterministic_byte_for_byte(tmp_path):
    sizes = ("--rows", "60", "--validation-rows", "60")
    for name, seed, hash_seed in (("a", "42", "1"), ("b", "42", "2"), ("other", "7", "1")):
        done = run_generator("--out", str(tmp_path / name), "--seed", seed, *sizes, hash_seed=hash_seed)
        assert done.returncode == 0, done.stderr
    files = {name: {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("a", "b", "other")}
    assert sorted(files["a"]) == ["train.parquet", "validation.parquet"]
    assert files["a"] == files["b"]
    assert all(files["a"][name] != files["other"][name] for name in files["a"])


def test_written_parquet_holds_the_rows(tmp_path):
    import pyarrow.parquet as pq

    table = generate.write(tmp_path, 42, {"train": 20, "validation": 10})
    for split, n in (("train", 20), ("validation", 10)):
        assert pq.read_table(tmp_path / f"{split}.parquet").to_pylist() == list(generate.rows(split, n))
        assert table[split] == generate.counts(split, n)


def test_an_empty_path_is_not_the_current_folder():
    done = run_generator("--out", "", "--rows", "2", "--validation-rows", "2")
    assert done.returncode == 2 and "an empty path; name a file or a folder" in done.stderr


@pytest.mark.parametrize("rows", ["1", "many", "-5"])
def test_bad_number_of_rows_is_refused(tmp_path, rows):
    done = run_generator("--out", str(tmp_path), f"--rows={rows}")
    assert done.returncode != 0 and "give an integer of 2 or more" in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


def test_only_the_named_families(tmp_path):
    import pyarrow.parquet as pq

    names = ("--families", "sum_two", "upper_case", "list_minimum")
    done = run_generator("--out", str(tmp_path), "--rows", "8", "--validation-rows", "4", *names)
    assert done.returncode == 0, done.stderr
    code = [
        row for row in pq.read_table(tmp_path / "validation.parquet").to_pylist() if len(row["prompt"][1]["content"]) < 5000
    ]
    assert Counter(row["data_source"] for row in code if row["ability"] == "code") == {"recipe_seen": 2, "recipe_unseen": 2}

    for wrong in (("--families", "no_such_family"), ("--families", "sum_two"), ("--families", "maze", "--levels", "easy")):
        done = run_generator("--out", str(tmp_path / "none"), *wrong)
        assert done.returncode != 0 and done.stderr.splitlines()[-1].startswith("generate.py: ")
        assert "Traceback" not in done.stderr and not list((tmp_path / "none").glob("*"))


def test_more_rows_than_a_family_has_problems_are_refused(tmp_path):
    done = run_generator("--out", str(tmp_path), "--rows", "3000", "--levels", "trivial")
    assert done.returncode != 0 and "too few different problems" in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


def test_output_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "taken").write_text("mine")
    done = run_generator("--out", str(tmp_path / "taken"), "--rows", "2")
    assert done.returncode != 0 and "choose another folder with --out" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "taken").read_text() == "mine"
