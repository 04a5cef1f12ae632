"""What a family of problems is, and how one problem is drawn from it. Standard library only.

A family is written once, as data: wordings, parameters, a reference solution and wrong programs as program text. Two
precautions keep its tests honest. Expected outputs come from `answer`, a Python function, and the project's tests run
the solution's text against them, so a mistake in either shows. A test that one of the wrong programs passes is drawn
again, and so is one whose answer several others share: the usual mistakes and constants earn little.
"""

from __future__ import annotations

import json
import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from types import SimpleNamespace
from typing import Any

LEVELS = ("trivial", "easy", "harder")
BIG_SHARE = 0.12  # of the problems whose family has a big test; in all of them it would make megabytes of digits
MAX_EQUAL = 3  # tests of a problem with one and the same answer, so that a constant earns little
MAX_DRAWS = 20  # of one test; then it stays although a wrong program passes it, as in a maze that has no way out

# How the parts of a statement are put together: the layouts of the sites that Eurus-2 was collected from.
PLAIN = "{task}\n\nInput\n{input}\n\nOutput\n{output}\n\nExample\n{examples}"
DASHES = "{task}\n\n-----Input-----\n\n{input}\n\n-----Output-----\n\n{output}\n\n-----Examples-----\n{examples}"
SPECIFICATION = (
    "Title: {title}\n\nProblem Description:\n{task}\n\nInput Specification:\n{input}\n\n"
    "Output Specification:\n{output}\n\nDemo Input:\n{demo_inputs}\n\nDemo Output:\n{demo_outputs}"
)
FUNCTION = "{task}\n\nNothing is read from standard input and nothing is printed: complete the function {head}.\n\n{calls}"
METHOD = (
    "{task}\n\nNothing is read from standard input and nothing is printed: "
    "complete the method below.\n\nclass Solution:\n    def {head}:\n\n{calls}"
)


@dataclass(frozen=True)
class Problem:
    """One task. `inputs[i]` is a whole stdin, or for call-based tasks one JSON value a line; `outputs[i]` likewise."""

    family: str
    statement: str
    inputs: list[str]
    outputs: list[str]
    solution: str  # program text that passes every test
    wrong: tuple[str, ...]  # program texts, each of which fails at least one test
    fn_name: str | None = None


@dataclass(frozen=True)
class Family:
    """A kind of task. `$name` in wordings, formats and programs stands for the parameter of that name.

    `case(rng, i, p)` draws test number i: a list of lines (numbers, texts, or lists to be joined by blanks), or for
    call-based tasks the arguments. `answer(p, *case)` gives the line or list of lines to be printed, or the value to be
    returned. p holds the parameters. Tests 0 and 1 may become examples in the statement, so they should be small.
    Wrong programs of stdin tasks read with input() and write with print() only.
    """

    name: str
    level: str
    wordings: tuple[str, ...]
    held_out_wordings: tuple[str, ...]
    parameters: dict[str, tuple[tuple, tuple]]  # name -> (values in training, values held out for validation)
    case: Callable[[random.Random, int, SimpleNamespace], list]
    answer: Callable[..., Any]
    solution: str
    wrong: tuple[str, ...]
    input_format: str = ""
    output_format: str = ""
    big_case: Callable[[random.Random, SimpleNamespace], list] | None = None
    fn_name: str | None = None  # call-based: the function, or the method of a class Solution
    signature: str = ""  # call-based: the names of its arguments
    in_class: bool = False
    unseen: bool = False  # the whole family is kept for validation

    def make(self, rng: random.Random, held_out: bool) -> Problem:
        """Draw one problem with 8 to 13 tests; with `held_out`, from wordings and parameters never used in training."""
        p = SimpleNamespace(**{name: rng.choice(values[int(held_out)]) for name, values in self.parameters.items()})
        wrong = tuple(_fill(text, p) for text in self.wrong)
        tests = self._tests(rng, p, [compile(text, self.name, "exec") for text in wrong])
        wording = _fill(rng.choice(self.held_out_wordings if held_out else self.wordings), p)
        statement = self._function(wording, tests) if self.fn_name else self._statement(rng, wording, p, tests)
        inputs, outputs = ([test[k] for test in tests] for k in (0, 1))
        return Problem(self.name, statement, inputs, outputs, _fill(self.solution, p), wrong, self.fn_name)

    def _tests(self, rng: random.Random, p: SimpleNamespace, wrong: list) -> list[tuple[str, str]]:
        tests: dict[str, str] = {}
        for i in range(rng.randint(8, 12)):
            for _ in range(MAX_DRAWS):
                case = self.case(rng, i, p)
                stdin, expected = self._texts(p, case)
                fresh = stdin not in tests and list(tests.values()).count(expected) < MAX_EQUAL
                if fresh and not any(self._result(code, case, stdin) == expected for code in wrong):
                    break
            tests[stdin] = expected
        if self.big_case and rng.random() < BIG_SHARE:
            stdin, expected = self._texts(p, self.big_case(rng, p))
            tests[stdin] = expected
        return list(tests.items())

    def _texts(self, p: SimpleNamespace, case: list) -> tuple[str, str]:
        """One test as (input, expected output)."""
        answer = self.answer(p, *case)
        if self.fn_name:
            return "\n".join(json.dumps(argument) for argument in case), json.dumps(answer)
        return _lines(case), _lines(answer if isinstance(answer, list) else [answer])

    def _result(self, code, case: list, stdin: str) -> str:
        """What a wrong program of this catalogue makes of one test. It is trusted text, so it runs right here."""
        printed: list[str] = []
        feed = iter(stdin.splitlines())

        def write(*values, sep=" ", end="\n") -> None:
            printed.append(sep.join(map(str, values)) + end)

        namespace: dict[str, Any] = {"__name__": "__main__", "input": lambda: next(feed), "print": write}
        try:
            exec(code, namespace)
            if self.fn_name:
                owner = namespace["Solution"]().__getattribute__ if self.in_class else namespace.__getitem__
                return json.dumps(owner(self.fn_name)(*json.loads(json.dumps(case))))
        except Exception as error:
            return f"failed: {error}"
        return "".join(printed)

    def _statement(self, rng: random.Random, task: str, p: SimpleNamespace, tests: list[tuple[str, str]]) -> str:
        layout = PLAIN if self.level == "trivial" else rng.choice((PLAIN, DASHES, SPECIFICATION))
        shown = tests[:1]
        if self.level != "trivial" and sum(map(len, tests[1])) < 100 and rng.random() < 0.5:
            shown = tests[:2]
        return layout.format(
            title=self.name.replace("_", " ").title(),
            task=task,
            input=_fill(self.input_format, p),
            output=_fill(self.output_format, p),
            examples="\n".join(f"Input:\n{stdin}Output:\n{expected}" for stdin, expected in shown).rstrip("\n"),
            demo_inputs=[stdin for stdin, _ in shown],
            demo_outputs=[expected for _, expected in shown],
        )

    def _function(self, task: str, tests: list[tuple[str, str]]) -> str:
        calls = []
        for arguments, value in tests[:2]:
            shown = ", ".join(repr(json.loads(argument)) for argument in arguments.splitlines())
            calls.append(f"Example: {self.fn_name}({shown}) returns {json.loads(value)!r}")
        layout = METHOD if self.in_class else FUNCTION
        self_argument = "self, " if self.in_class else ""
        return layout.format(task=task, head=f"{self.fn_name}({self_argument}{self.signature})", calls="\n".join(calls))


def _fill(text: str, p: SimpleNamespace) -> str:
    return Template(textwrap.dedent(text).strip()).substitute(vars(p))


def _lines(rows: list) -> str:
    """[3, [1, 2]] -> "3\\n1 2\\n"."""
    return "".join((" ".join(map(str, row)) if isinstance(row, list) else str(row)) + "\n" for row in rows)


def integers(rng: random.Random, count: int, low: int, high: int) -> list[int]:
    """`count` integers, both ends included."""
    return [rng.randint(low, high) for _ in range(count)]


def letters(rng: random.Random, count: int, alphabet: str = "abcdefghijklmnopqrstuvwxyz") -> str:
    """`count` letters of the alphabet."""
    return "".join(rng.choice(alphabet) for _ in range(count))


VOCABULARY = (
    "acorn bench cedar drum ember fern goose harp inlet jolly kite lemon maple nest "
    "otter pearl quilt raven sand tulip urn velvet wagon yarn zinc brook clay dune "
    "frost grape hill ivy lake moss oak plum reed salt toad wolf"
)


def phrase(rng: random.Random, count: int) -> str:
    """`count` words with one blank between them, some with a capital."""
    return " ".join(w.capitalize() if rng.random() < 0.4 else w for w in (rng.choice(VOCABULARY.split()) for _ in range(count)))
