"""Rows that a preparation must set aside or drop: mathematics, statements too long for a prompt, broken tests."""

from __future__ import annotations

import random
from math import gcd

from data.problem import Problem, phrase

LONG_STATEMENT = 12000  # characters; over 2,048 tokens of any tokenizer

# What can be wrong with the tests of a row. In "one test cut" the other tests are good.
BROKEN = ("no tests", "unequal tests", "all tests cut", "one test cut")


def math_problem(rng: random.Random) -> tuple[str, str]:
    """A question and its answer in LaTeX."""
    a, b, c = rng.randint(2, 40), rng.randint(2, 40), rng.randint(2, 9)
    divisor = gcd(a, b)
    return rng.choice(
        (
            (f"Solve {c}x + {a} = {c * b + a} for x.", f"{b}"),
            (f"A rectangle has sides {a} and {b}. What is its area?", f"{a * b}"),
            (f"What is the sum of the first {a} positive multiples of {c}?", f"{c * a * (a + 1) // 2}"),
            (f"Reduce the fraction with numerator {a} and denominator {a + b}.", _fraction(a // divisor, (a + b) // divisor)),
            (f"Evaluate {c}^2 + {a} \\cdot {b}.", f"{c * c + a * b}"),
        )
    )


def _fraction(numerator: int, denominator: int) -> str:
    return f"\\frac{{{numerator}}}{{{denominator}}}"


def long_statement(rng: random.Random, problem: Problem) -> str:
    """The problem behind a story that does not matter, more than LONG_STATEMENT characters in all."""
    paragraphs = []
    while sum(map(len, paragraphs)) < LONG_STATEMENT:
        year, place, thing = rng.randint(1200, 1900), phrase(rng, 2).title(), phrase(rng, 1).lower()
        paragraphs.append(
            f"In the year {year} the town of {place} counted {rng.randint(2, 900)} houses and one {thing} for each of them. "
            f"A traveller who came by in {year + rng.randint(1, 90)} wrote home about the {phrase(rng, 1).lower()} of the "
            f"market and about a dispute over a {phrase(rng, 1).lower()}, which does not concern us here."
        )
    return "\n\n".join([*paragraphs, "Enough of that; here is your task.", problem.statement])


def broken_tests(rng: random.Random, kind: str, problem: Problem) -> dict[str, list[str]]:
    """The problem's inputs and outputs, damaged in one of the ways in BROKEN."""
    inputs, outputs = list(problem.inputs), list(problem.outputs)
    if kind == "no tests":
        return {"inputs": [], "outputs": []}
    if kind == "unequal tests":
        return {"inputs": inputs, "outputs": outputs[: -rng.randint(1, 3)]}
    damaged = range(len(outputs)) if kind == "all tests cut" else [rng.randrange(1, len(outputs))]
    for k in damaged:
        outputs[k] = _cut(outputs[k])
    return {"inputs": inputs, "outputs": outputs}


def _cut(text: str) -> str:
    """The first half of the numbers on the line, as sites show a long output."""
    values = text.split()
    return " ".join([*values[: len(values) // 2], "..."])
