"""Random responses, ground truths, checkers and options through compute_score: it never raises, and its numbers add up.

    python3 tests/fuzz.py --minutes 10

Not part of the test suite. Stops at the first input that breaks a rule, prints it, and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import math
import pickle
import random
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from code_reward import compute_score  # noqa: E402
from verifier import comparison, scoring  # noqa: E402

NUMBERS = {"score", "pass_rate", "format", "acc", *scoring.SHARES}
PROGRAMS = (
    *("print(input())", "a, b = map(int, input().split())\nprint(a + b)", "import sys\nprint(sys.stdin.read())", "1 / 0"),
    *("def f(*xs):\n    return xs", "class Solution:\n    def f(self, x):\n        return x", "while True: pass", "print(7"),
    *(
        "print('x' * 10**7)",
        "x = [0] * 10**8",
        "raise SystemExit(3)",
        "print(0.5, 'YES', -0.0, 1e300)",
        "def f(x): return {x: [x]}",
    ),
    *(
        "'''\n```\n'''\nprint(1)",
        "print('```')",
        "x = 1",
        "# nothing",
        "import sys\nsys.stdout.buffer.write(bytes(range(256)))",
    ),
)
PIECES = (
    *("```python\n", "```", "\n```\n", "````py\n", "~~~python\n", "~~~\n", "```{.python a=1}\n", "```text\n", "   ```python\n"),
    *("<think>", "</think>", "<answer>", "</answer>", "<|im_end|>", "</s>", "- ", "> ", "1. ", "    ", "\t", "\n\n", "\r\n"),
    *(
        "Here is the program:",
        "Output:",
        ">>> print(1)",
        "\x00",
        "\ud800",
        "\ufeff",
        "é",
        "漢字",
        "\u2028",
        "\x1b[0m",
        "{",
        "'",
        '"""',
    ),
)
VALUES = (
    *(None, True, False, 0, -1, 7, 10**30, 0.5, -0.0, math.nan, math.inf, "", " ", "7", "7\n", "3 4\n", "0.50", "yes", "1_000"),
    *(
        "[1, 2]",
        '"x"',
        "null",
        "NaN",
        "\x00",
        "\ud800",
        b"7",
        b"\xff",
        [],
        [7],
        ["3", "4"],
        [[1, 2]],
        {},
        {"a": 1},
        {"f": None},
    ),
)
KEYS = ("inputs", "outputs", "input", "output", "fn_name", "tests", "test_cases", "stdin", "expected_output", "x")
CHECKERS = (
    *(
        None,
        "",
        "float",
        "exact",
        "tokens",
        "lines-unordered",
        "unordered lines",
        "nonsense",
        7,
        math.nan,
        {},
        {"program": None},
    ),
    *(
        {"program": "def check(i, e, o): return i == o"},
        "def check(i, e, o):\n    return len(o) > 1",
        {"program": 7},
        {"other": "x"},
    ),
    *("def check(i, e, o):\n    return int(o) > 0", "def check(i, e, o) return", ["float"], b"float"),
)


def mutated(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((0, 0, 0, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        text = rng.choice((text[:at], text[:at] + rng.choice(PIECES) + text[at:], text[:at] + text[at + 1 :], text * 2))[
            :20_000
        ]
    return text


def response(rng: random.Random) -> object:
    if rng.random() < 0.05:
        return rng.choice(VALUES)
    if rng.random() < 0.6:
        text = f"```python\n{mutated(rng.choice(PROGRAMS), rng)}\n```"
    else:
        text = "".join(rng.choice((*PIECES, *PROGRAMS, "\n")) for _ in range(rng.randrange(12)))
    if rng.random() < 0.05:
        text += "".join(map(chr, rng.choices(range(1, 0x3000), k=rng.randrange(300))))
    if rng.random() < 0.3:
        text = mutated(text, rng)
    return text.encode("utf-8", "surrogatepass") if rng.random() < 0.03 else text


def value(rng: random.Random, depth: int = 2) -> object:
    if depth and rng.random() < 0.2:
        parts = [value(rng, depth - 1) for _ in range(rng.randrange(4))]
        return rng.choice((parts, tuple(parts), {str(n): part for n, part in enumerate(parts)}))
    return rng.choice(VALUES)


def ground_truth(rng: random.Random) -> object:
    kind = rng.random()
    if kind < 0.8:  # as rows are
        count = rng.randrange(1, 5)
        texts = ("7\n", "3 4\n", "", "0.5 YES\n", "[1, 2]", "1\n2\n3\n")
        row = {"inputs": [rng.choice(texts) for _ in range(count)], "outputs": [rng.choice(texts) for _ in range(count)]}
        if rng.random() < 0.1:
            row[rng.choice(("inputs", "outputs"))].append(value(rng))
        if rng.random() < 0.3:
            row["fn_name"] = rng.choice(("f", "Solution.f", None, "", "g", 3))
        if rng.random() < 0.2:
            row[rng.choice(KEYS)] = value(rng)
    elif kind < 0.9:
        row = {rng.choice(KEYS): value(rng) for _ in range(rng.randrange(4))}
    elif kind < 0.95:
        row = [{rng.choice(KEYS): value(rng) for _ in range(2)} for _ in range(rng.randrange(3))]
    else:
        return value(rng)
    form = rng.random()
    with contextlib.suppress(TypeError, ValueError):  # what JSON cannot hold is passed as it is
        if form < 0.6:
            text = json.dumps(row)
            return mutated(text, rng) if rng.random() < 0.2 else text
        if form < 0.65:
            return json.dumps(row).encode()
        if form < 0.7:
            data = rng.choice((json.dumps(row).encode(), pickle.dumps(json.dumps(row)), pickle.dumps(row)))
            return mutated(base64.b64encode(zlib.compress(data)).decode(), rng)
    return row


def settings(rng: random.Random) -> dict[str, object]:
    chosen: dict[str, object] = {"timeout": 0.3, "wall_timeout": 2, "memory_mb": 64}
    for name, choices in (
        ("max_tests", (3, 4, None)),
        ("block", ("first", "source", "last")),
        ("comparison", tuple(comparison.MODES)),
        ("rules", ("source", "default")),
        ("reward", ("binary", "pass_rate")),
        ("format_weight", (0, 0.1, 0.2)),
        ("compile_weight", (0, 0.15, 0.3)),
    ):
        if rng.random() < 0.2:
            chosen[name] = rng.choice(choices)
    return chosen


def wrong(numbers: dict[str, float], may_fail: bool) -> str:
    """The rule that the numbers break, "" for none."""
    if set(numbers) != NUMBERS or any(type(number) is not float for number in numbers.values()):
        return "the keys or the types are others"
    if not all(0.0 <= number <= 1.0 for number in numbers.values()):
        return "a number is not between 0 and 1"
    if abs(sum(numbers[name] for name in (*scoring.SHARES, "pass_rate")) - 1.0) > 1e-9:
        return "the shares do not add up to 1"
    if numbers["internal_error"] and not may_fail:
        return "the verifier failed"
    if numbers["data_error"] + numbers["internal_error"] and numbers["score"]:
        return "a score for nothing"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    rng, started, seen, said = random.Random(chosen.seed), time.monotonic(), Counter(), 0.0
    while (elapsed := time.monotonic() - started) < chosen.minutes * 60:
        checker = rng.choice(CHECKERS) if rng.random() < 0.3 else None
        extra_info = rng.choice((None, {}, {"index": 3}, "none", {"index": math.nan, "checker": checker}))
        if checker is not None:
            extra_info = {"index": 3, "checker": checker}
        arguments = ("fuzz", response(rng), ground_truth(rng), extra_info)
        options = settings(rng)
        said_by_it = io.StringIO()
        try:
            with contextlib.redirect_stderr(said_by_it):
                numbers = compute_score(*arguments, **options)
            said_so = said_by_it.getvalue()  # a checker program of its own may fail, the machine may not
            problem = wrong(numbers, may_fail="the row's checker failed" in said_so or "the row's checker must" in said_so)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            print(f"\n{problem}\ncompute_score(*{arguments!r}, **{options!r})\n{said_by_it.getvalue()}")
            return 1
        seen["responses"] += 1
        seen.update(name for name, number in numbers.items() if number)
        if elapsed - said > 10:
            said = elapsed
            print(
                f"\r{elapsed / 60:.1f} of {chosen.minutes:g} minutes, {seen['responses']} responses ", end="", file=sys.stderr
            )
    print(f"\n{seen.pop('responses')} responses, no rule broken; how many had each number above 0:")
    print(", ".join(f"{name} {count}" for name, count in seen.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
