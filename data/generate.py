"""Write the problem set of data/families.py in the raw schema of Eurus-2-RL-Data.

    python data/generate.py --out DIR [--seed 42] [--rows 1200] [--validation-rows 240] [--levels trivial easy harder]
                            [--families NAME ...]

DIR then holds train.parquet and validation.parquet, as the hub does, and a table of the rows of each kind is printed.
The same options, seed and pyarrow give the same bytes. `rows()` gives the rows themselves without pyarrow.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, sys.path starts with data/

from data.extras import BROKEN, broken_tests, long_statement, math_problem
from data.families import FAMILIES, LEVELS, Family, Problem, select
from preparation.arguments import path

SYSTEM = """
Work on the task below in steps. At each step choose one of these actions:

[READ]

[PLAN]

[TRY]

[CHECK]

[REVISE]

[ANSWER]

Write each step in this format:

[ACTION]

# What you do in this step

...

Next: [ACTION]

"""
CODE_ENDING = "\n\nWrite Python code to solve the problem. Present the code in \n```python\nYour code\n```\nat the end."
MATH_ENDING = "\n\nPresent the answer in LaTex format: \\boxed{Your answer}"

STDIN_LAYOUTS = ("stdin, compact", "stdin, pretty", "stdin, lists of lines")
CALL_LAYOUTS = ("call, list arguments", "call, text arguments")
USABLE = (*STDIN_LAYOUTS, *CALL_LAYOUTS)
# Beside the usable rows, whatever their number. They come from trivial families whose outputs are lines of numbers.
EXTRAS = {
    "train": {"math": 40, "too long": 8, "no tests": 6, "unequal tests": 6, "all tests cut": 6, "one test cut": 6},
    "validation": {"math": 10, "too long": 2},
}
MAX_DRAWS = 200  # of one problem that must be a new one
LINE_FAMILIES = ("reverse_list", "sort_list")


def rows(split: str, n: int, seed: int = 42, families: Sequence[Family] = FAMILIES) -> Iterator[dict]:
    """Rows in the raw schema: n usable code rows and EXTRAS[split], shuffled; no statement occurs twice.

    In "train" the data_source is recipe_stdio, recipe_call or recipe_math. In "validation" half of the code rows are
    recipe_seen (families of the training split, other wordings and parameters), half recipe_unseen (whole families
    that training never shows).
    """
    plan = _plan(split, n, families)
    random.Random(f"{seed} {split} order").shuffle(plan)
    statements: set[str] = set()
    for index, (kind, source, family, number) in enumerate(plan):
        rng = random.Random(f"{seed} {split} {kind} {source} {number}")
        for _ in range(MAX_DRAWS):
            statement, tests = _content(rng, kind, family, held_out=split == "validation")
            if statement not in statements:
                break
        else:
            raise ValueError(
                f"the family {family.name if family else kind} has too few different problems for so many rows; "
                "ask for fewer, or for more families"
            )
        statements.add(statement)
        is_math = kind == "math"
        yield {
            "data_source": source,
            "prompt": [
                {"content": SYSTEM, "role": "system"},
                {"content": statement + (MATH_ENDING if is_math else CODE_ENDING), "role": "user"},
            ],
            "ability": "math" if is_math else "code",
            "reward_model": {"ground_truth": tests, "style": "rule"},
            # As in the real data, "split" does not say which file a row is in.
            "extra_info": {"index": index, "split": "dummy" if is_math or split == "validation" else "train"},
        }


def counts(split: str, n: int, families: Sequence[Family] = FAMILIES) -> dict[str, int]:
    """How many rows of each kind `rows` gives for these arguments."""
    kinds = [kind for kind, *_ in _plan(split, n, families)]
    return {kind: kinds.count(kind) for kind in (*USABLE, "math", "too long", *BROKEN)}


def _plan(split: str, n: int, families: Sequence[Family]) -> list[tuple[str, str, Family | None, int]]:
    """(kind, data_source, family, number) of each row, families and layouts in turn."""
    if split not in EXTRAS:
        raise ValueError(f"there is no split {split!r}; use train or validation")
    seen = [family for family in families if not family.unseen]
    unseen = [family for family in families if family.unseen]
    if not seen or (split == "validation" and not unseen):
        raise ValueError(
            "problems are needed of families that training shows, and for validation of some that it does not show"
        )
    plan: list[tuple[str, str, Family | None, int]] = []
    if split == "train":
        for number, family, layout in _in_turn(seen, n):
            plan.append((layout, "recipe_call" if family.fn_name else "recipe_stdio", family, number))
    else:
        for source, its, share in (("recipe_seen", seen, n - n // 2), ("recipe_unseen", unseen, n // 2)):
            plan += [(layout, source, family, number) for number, family, layout in _in_turn(its, share)]
    lines = [family for family in FAMILIES if family.name in LINE_FAMILIES]
    source = "recipe_stdio" if split == "train" else "recipe_seen"
    for kind, number in EXTRAS[split].items():
        for k in range(number):
            plan.append((kind, "recipe_math", None, k) if kind == "math" else (kind, source, lines[k % len(lines)], k))
    return plan


def _in_turn(families: list[Family], n: int) -> Iterator[tuple[int, Family, str]]:
    for number in range(n):
        turn, k = divmod(number, len(families))
        layouts = CALL_LAYOUTS if families[k].fn_name else STDIN_LAYOUTS
        yield number, families[k], layouts[(turn + k) % len(layouts)]


def _content(rng: random.Random, kind: str, family: Family | None, held_out: bool) -> tuple[str, str]:
    """Statement and ground truth of one row."""
    if family is None:
        return math_problem(rng)
    problem = family.make(rng, held_out)
    if kind in BROKEN:
        return problem.statement, json.dumps(broken_tests(rng, kind, problem))
    if kind == "too long":
        return long_statement(rng, problem), ground_truth(problem, STDIN_LAYOUTS[0])
    return problem.statement, ground_truth(problem, kind)


def ground_truth(problem: Problem, layout: str) -> str:
    """The problem's tests as JSON text in one of the layouts in USABLE that fit it."""
    inputs, outputs = problem.inputs, problem.outputs
    if layout == "stdin, pretty":
        return json.dumps({"inputs": inputs, "outputs": outputs}, indent=1)
    if layout == "stdin, compact":
        return json.dumps({"inputs": [text.rstrip("\n") for text in inputs], "outputs": [t.rstrip("\n") for t in outputs]})
    if layout == "stdin, lists of lines":
        return json.dumps({"inputs": [text.splitlines() for text in inputs], "outputs": [t.splitlines() for t in outputs]})
    if layout == "call, text arguments":
        return json.dumps({"fn_name": problem.fn_name, "inputs": inputs, "outputs": outputs})
    arguments = [[json.loads(line) for line in text.splitlines()] for text in inputs]
    return json.dumps({"fn_name": problem.fn_name, "inputs": arguments, "outputs": [[json.loads(t)] for t in outputs]})


def write(out: Path, seed: int, sizes: dict[str, int], families: Sequence[Family] = FAMILIES) -> dict[str, dict[str, int]]:
    """Write out/train.parquet and out/validation.parquet with `sizes` usable rows, and return the counts of each split.

    Both files are complete before either gets its name.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    message = pa.struct({"content": pa.string(), "role": pa.string()})
    schema = pa.schema(
        {
            "data_source": pa.string(),
            "prompt": pa.list_(message),
            "ability": pa.string(),
            "reward_model": pa.struct({"ground_truth": pa.string(), "style": pa.string()}),
            "extra_info": pa.struct({"index": pa.int64(), "split": pa.string()}),
        }
    )
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".generate-", dir=out) as folder:
        for split, n in sizes.items():
            print(f"generating {n} problems for {split}", file=sys.stderr, flush=True)
            table = pa.Table.from_pylist(list(rows(split, n, seed, families)), schema=schema)
            pq.write_table(table, Path(folder, f"{split}.parquet"), compression="zstd")
        for split in sizes:
            os.replace(Path(folder, f"{split}.parquet"), out / f"{split}.parquet")
    return {split: counts(split, n, families) for split, n in sizes.items()}


def _at_least_two(text: str) -> int:
    if not text.isdigit() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows; give an integer of 2 or more")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a small problem set in the raw schema of Eurus-2-RL-Data.")
    parser.add_argument("--out", type=path, required=True, help="folder for train.parquet and validation.parquet")
    parser.add_argument("--seed", type=int, default=42, help="another seed gives other problems (default 42)")
    parser.add_argument("--rows", type=_at_least_two, default=1200, help="usable train rows (default 1200)")
    parser.add_argument("--validation-rows", type=_at_least_two, default=240, help="usable validation rows (default 240)")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS, help="only families of these levels")
    parser.add_argument("--families", nargs="+", default=(), metavar="NAME", help="only these (data/catalogue has their names)")
    options = parser.parse_args()
    sizes = {"train": options.rows, "validation": options.validation_rows}
    try:
        table = write(options.out, options.seed, sizes, select(options.levels, options.families))
    except ImportError as error:
        sys.exit(f"generate.py needs pyarrow to write parquet ({error}); install it with: pip install pyarrow")
    except ValueError as error:
        sys.exit(f"generate.py: {error}")
    except OSError as error:
        sys.exit(f"cannot write to {options.out} ({error}); choose another folder with --out")
    print(f"{'kind of row':24}{'train':>8}{'validation':>12}")
    for kind in table["train"]:
        print(f"{kind:24}{table['train'][kind]:8}{table['validation'][kind]:12}")
    totals = {split: sum(kinds.values()) for split, kinds in table.items()}
    print(f"{'in all':24}{totals['train']:8}{totals['validation']:12}")


if __name__ == "__main__":
    main()
