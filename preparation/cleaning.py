"""One raw row -> a problem whose tests can be used, or the reason why it is dropped.

Always dropped: rows without a statement, and those with only empty outputs, as a program that prints nothing would earn
the full reward. The rest is for `Rules` to say.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

from preparation import statements
from preparation.prompts import CLOSING_INSTRUCTION, build_prompt, strip_closing_instruction, user_message
from verifier import calls, checkers
from verifier import ground_truth as gt
from verifier.checkers import Checker
from verifier.comparison import Exactly

DISPLAYED_LINE = re.compile(rb"\s*[A-Za-z_]\w*\s*(?:\[\s*\w*\s*\]\s*)*=(?!=)\s*\S.*")
NO_CLOSING = "no closing instruction found to remove"
ASKS_FOR_FUNCTION = "statement says not to read input, tests are on stdin"
OWN_LAYOUT, ONE_LAYOUT = "call-based tests kept in their own layout", "call-based tests brought into one layout"
EMPTY = "every expected output is empty"
CALLS = "tests call a function"
SEVERAL = "statement allows several answers (--drop-multi-answer)"


@dataclass(frozen=True)
class Rules:
    """What is dropped or rewritten. Defaults: what cannot be judged, what no program can pass, what no reader can solve."""

    keep_unusable: bool = False  # rows whose tests the verifier refuses: none, other numbers of inputs and outputs, unreadable
    keep_truncated: bool = False  # tests that end in "..."
    keep_display_tests: bool = False  # tests that are written as a page shows them: N = 9, K = 4
    keep_images: bool = False  # statements that need a picture
    keep_other_languages: bool = False  # statements that demand another language than Python
    drop_multi_answer: bool = False  # statements that allow several answers, where the row has no checker
    drop_call_based: bool = False  # rows whose tests call a function
    keep_call_layout: bool = False  # calls as the row writes them, not in one layout
    max_test_bytes: int = 10 << 20  # larger tests, input and output together, are removed


@dataclass(frozen=True)
class Problem:
    """What is kept in memory of a usable row: everything but its tests."""

    index: int  # of the row in its split of the source
    data_source: str
    statement: str
    fn_name: str  # "" where the program reads standard input
    style: str
    checker: str
    test_sizes: tuple[int, ...]  # bytes of each test, input and expected output together
    truth_digest: bytes  # SHA-1 of the ground truth as it is stored
    notes: Counter[str]  # what is worth knowing of it

    @property
    def prompt(self) -> list[dict[str, str]]:
        return build_prompt(self.statement, self.fn_name or None)

    def row(self, split: str, ground_truth: str) -> dict:
        """The row that veRL reads; writing.SCHEMA."""
        return {
            "data_source": self.data_source,
            "prompt": self.prompt,
            "ability": "code",
            "reward_model": {"style": self.style, "ground_truth": ground_truth},
            "extra_info": {
                "index": self.index,
                "split": split,
                "fn_name": self.fn_name,
                "num_tests": len(self.test_sizes),
                "checker": self.checker,
            },
        }


def clean(row: dict | None, index: int, rules: Rules) -> tuple[Problem, str] | str:
    """(problem, its ground truth), or why the row is dropped.

    `row` is None where a text in it was not Unicode. Raises DataError for rows that are prepared already.
    """
    if row is None:
        return "text is not valid Unicode"
    text = user_message(row.get("prompt"))
    if text is None:
        return "prompt is not one user message"
    statement = strip_closing_instruction(text)
    if not statement:
        return "no problem statement"
    notes: Counter[str] = Counter({NO_CLOSING: CLOSING_INSTRUCTION.search(text) is None})
    reward_model = row["reward_model"] if isinstance(row.get("reward_model"), dict) else {}
    usable = usable_tests(reward_model.get("ground_truth"), rules, notes)
    if isinstance(usable, str):
        return usable
    ground_truth, fn_name, sizes = usable
    try:
        statement.encode()
        encoded = ground_truth.encode()
        checker = row_checker(row.get("extra_info"), call_based=fn_name != "")
        checker.encode()
    except UnicodeEncodeError:
        return "text is not valid Unicode"
    except gt.GroundTruthError:
        return "checker cannot be used"
    if fault := statement_fault(statement, fn_name, checker, rules, notes):
        return fault
    style = str(reward_model.get("style") or "rule").encode(errors="replace").decode()
    digest = sha1(encoded).digest()
    return Problem(index, source_name(row), statement, fn_name, style, checker, sizes, digest, +notes), ground_truth


def source_name(row: dict) -> str:
    return str(row.get("data_source") or "unknown").encode(errors="replace").decode()


def statement_fault(statement: str, fn_name: str, checker: str, rules: Rules, notes: Counter[str]) -> str:
    """Why a problem is dropped for what its statement says, or ""."""
    if not rules.keep_images and statements.needs_picture(statement):
        return "statement needs a picture"
    if not rules.keep_other_languages and statements.demands_other_language(statement):
        return "statement demands another language"
    if statements.allows_several_answers(statement) and not checker:
        if rules.drop_multi_answer:
            return "statement allows several answers"
        notes[SEVERAL] += 1
    if not fn_name and statements.says_no_input(statement):
        notes[ASKS_FOR_FUNCTION] += 1
    return ""


def row_checker(extra_info: Any, call_based: bool) -> str:
    """The row's checker as extra_info.checker holds it: a comparison mode, a program, or "".

    Raises GroundTruthError for one that verifier/checkers.py refuses, or a program that does not define `check`.
    """
    checker: Checker = checkers.of_row(extra_info)
    if checker.mode and call_based:
        raise gt.GroundTruthError(f"the checker {checker.mode} is for printed text, but the tests call a function")
    if checker.program is not None:
        try:
            ast.parse(checker.program)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise gt.GroundTruthError("the checker's program is not valid Python") from error
        if checkers.FUNCTION not in checker.program:
            raise gt.GroundTruthError(f"the checker's program does not define {checkers.FUNCTION}")
    return checker.mode or checker.program or ""


# ---- tests


def usable_tests(ground_truth: Any, rules: Rules, notes: Counter[str]) -> tuple[str, str, tuple[int, ...]] | str:
    """(ground truth to store, fn_name or "", bytes of each test), or why the row is dropped.

    Tests on standard input are stored letter by letter as they were, unless some are removed; `notes` counts those. There
    are no sizes for what the verifier refuses, kept by the rules.
    """
    if isinstance(ground_truth, dict | list):
        try:
            ground_truth = json.dumps(ground_truth, default=bytes.decode)
        except (TypeError, ValueError, RecursionError):  # dates, bytes that are not UTF-8: nothing that JSON can hold
            return "tests cannot be read"
    elif isinstance(ground_truth, bytes):
        ground_truth = ground_truth.decode(errors="surrogateescape")
    try:
        parsed = gt.parse(ground_truth)
    except gt.GroundTruthError:
        fault, fn_name = ground_truth_fault(ground_truth)
        if not rules.keep_unusable:
            return fault
        if fn_name and rules.drop_call_based:
            return CALLS
        notes[f"scored as data_error: {fault}"] += 1
        return ground_truth if isinstance(ground_truth, str) else "", fn_name, ()
    calls_function = parsed.fn_name is not None
    if calls_function and rules.drop_call_based:
        return CALLS
    tests = parsed.tests
    if not calls_function and all_empty(tests):
        return EMPTY
    for applies, is_bad, name in (
        (True, lambda test: size_of(test) > rules.max_test_bytes, f"over {rules.max_test_bytes / (1 << 20):g} MiB"),
        (not calls_function and not rules.keep_display_tests, is_display, "display text (N = 9)"),
        (not calls_function and not rules.keep_truncated, is_truncated, "cut off ('...')"),
    ):
        good = tuple(test for test in tests if not is_bad(test)) if applies else tests
        if not good:
            return f"every test is {name}"
        notes[f"tests removed: {name}"] += len(tests) - len(good)
        tests = good
    sizes, whole = tuple(map(size_of, tests)), len(tests) == len(parsed.tests)
    if calls_function:
        canonical = None if whole and rules.keep_call_layout else canonical_calls(gt.GroundTruth(parsed.fn_name, tests))
        if canonical is None and not whole:
            return "tests cannot be read"
        notes[OWN_LAYOUT if canonical is None else ONE_LAYOUT] += canonical != ground_truth
        return canonical or ground_truth, parsed.fn_name, sizes
    if not whole:
        if all_empty(tests):
            return EMPTY
        inputs, outputs = (
            [side.decode("utf-8", "surrogatepass") for side in sides] for sides in zip(*map(sides_of, tests), strict=True)
        )
        ground_truth = json.dumps({"inputs": inputs, "outputs": outputs})
        if gt.parse(ground_truth).tests != tests:
            return "tests cannot be read"
    return ground_truth, "", sizes


def all_empty(tests: tuple[gt.Test, ...]) -> bool:
    """Whether a program that prints nothing would earn the full reward."""
    return not any(test.expected.strip() for test in tests)


def ground_truth_fault(ground_truth: Any) -> tuple[str, str]:
    """(the reason to report for a ground truth that the verifier refuses, the fn_name in it or "")"""
    try:
        tests = json.loads(ground_truth or "null") if isinstance(ground_truth, str) else ground_truth
    except (ValueError, RecursionError):
        return "ground truth is not JSON", ""
    if tests is None or tests == {}:
        return "no tests", ""
    if not isinstance(tests, dict):
        return "ground truth is not inputs and outputs", ""
    named = tests.get("fn_name")
    fn_name = named if isinstance(named, str) and all(part.isidentifier() for part in named.split(".")) else ""
    if not all(isinstance(tests.get(side), list) for side in ("inputs", "outputs")):
        return "ground truth is not inputs and outputs", fn_name
    if len(tests["inputs"]) != len(tests["outputs"]):
        return "inputs and outputs differ in number", fn_name
    return "tests cannot be read" if tests["inputs"] else "no tests", fn_name


def sides_of(test: gt.Test) -> tuple[bytes, bytes]:
    return test.stdin, test.expected


def size_of(test: gt.Test) -> int:
    """Bytes of input and expected output."""
    if isinstance(test.expected, bytes):
        return len(test.stdin) + len(test.expected)
    return len(test.stdin) // 2 + len(repr(test.expected))  # arguments are written in hexadecimal


def is_display(test: gt.Test) -> bool:
    """Whether the input is written as a page shows it ("N = 9, K = 4", "arr[] = {1, 2}"), which no program reads."""
    lines = test.stdin[:2000].splitlines()
    return bool(lines) and all(DISPLAYED_LINE.fullmatch(line) for line in lines if line.strip()) and test.stdin.strip() != b""


def is_truncated(test: gt.Test) -> bool:
    return any(side.rstrip().endswith(b"...") and is_cut_off(side.decode(errors="replace")) for side in sides_of(test))


def is_cut_off(text: str) -> bool:
    """Whether a test's input or output is only the beginning of the real one.

    Codeforces shows some 500 characters of a test, then "...", and that display is what was scraped. Contests also
    draw maps with dots: a last line as wide as the one before it, or a short word ending in dots ("RL..."), is whole.
    """
    lines = text.rstrip().splitlines()
    if not lines or not lines[-1].endswith("...") or (len(lines) > 1 and len(lines[-1]) == len(lines[-2])):
        return False
    before = lines[-1].rstrip(".")
    three_dots = len(lines[-1]) - len(before) == 3
    return len(text) >= 250 or (three_dots and (not before or before[-1].isspace() or before[-1].isdigit()))


def canonical_calls(parsed: gt.GroundTruth) -> str | None:
    """Call-based tests in one layout: for each test the JSON of each argument on a line of its own, and of the value.

    It is the layout of LiveCodeBench, and the one of the two in Eurus-2 that other scorers read as well. None where it
    would not mean exactly the same to the verifier (names, a value that JSON lacks, or that could be read in two ways).
    """
    inputs, outputs = [], []
    try:
        for test in parsed.tests:
            arguments = calls.decode_args(test.stdin)
            inputs.append("\n".join(map(json.dumps, arguments)))
            outputs.append(json.dumps(test.expected.value if isinstance(test.expected, Exactly) else test.expected))
        text = json.dumps({"fn_name": parsed.fn_name, "inputs": inputs, "outputs": outputs})
        return text if gt.parse(text) == parsed else None
    except (TypeError, ValueError, RecursionError):  # GroundTruthError is a ValueError
        return None
