"""A row's own way of judging what was printed, for problems that the default comparison would misjudge.

`extra_info["checker"]` of a row is one of these; without one, or where it is null or empty, the option `comparison` decides:

    "exact", "tokens", "float", "lines-unordered"    a mode of comparison.py; capitals, blanks, _ and the order do not matter
    a program, as it is or as {"program": source}    Python that defines check(input, expected, output) and returns a bool

A checker program is for problems with several right answers. It judges each test that ended with exit code 0: `check` gets
three texts (in a call-based test the list of arguments, the expected value and the returned one), True accepts, False
rejects. It runs like a call-based program: in a process of its own, under the same limits and the same isolation, started
when the judged program has ended on all tests, so the expected output and the judged program never meet. Whatever else
it does (raises, returns something else, runs out of time, does not compile) is the row's fault, not the judged program's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from verifier import calls, comparison, remote
from verifier.comparison import Comparison, Exactly
from verifier.executor import run_tests
from verifier.ground_truth import GroundTruthError, plain
from verifier.verdict import Limits, Verdict

FUNCTION = "check"
NAMES = {**{mode: mode for mode in comparison.MODES}, "unordered-lines": "lines-unordered"}
KEPT_FACTOR = 4  # the outputs of all tests wait for the checker in memory: at most so many times what one test may print

Case = tuple[object, object, object]  # what `check` gets: input, expected, output


class CheckerError(Exception):
    """The row's checker program failed; the message is one sentence that says on which test, and how."""


@dataclass(frozen=True)
class Checker:
    """How one row is judged: by a mode of comparison.py, by a program, or (both None) as the options say."""

    mode: str | None = None
    program: str | None = None


def of_row(extra_info: object) -> Checker:
    """Return the checker that a row names. Raises GroundTruthError for one that cannot be used."""
    value = extra_info.get("checker") if isinstance(extra_info, Mapping) else None
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()  # numpy's scalars
    with contextlib.suppress(GroundTruthError):  # what holds no data is refused below
        value = plain(value)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, Mapping):
        given = {str(key): element for key, element in value.items() if element is not None}
        if given and not (set(given) == {"program"} and isinstance(given["program"], str)):
            raise GroundTruthError(f'the row\'s checker has the keys {", ".join(given)}: it must be {{"program": source}}')
        return Checker(program=given.get("program"))
    if value is None or (isinstance(value, float) and value != value):  # NaN: what pandas has for a row without one
        return Checker()
    if not isinstance(value, str):
        raise GroundTruthError(f"the row's checker is of type {type(value).__name__}, not a name or a program")
    if not value.strip():
        return Checker()
    name = value.strip().lower().replace("_", "-").replace(" ", "-")
    if name in NAMES:
        return Checker(mode=NAMES[name])
    if "\n" not in value and "(" not in value:
        names = ", ".join(comparison.MODES)
        raise GroundTruthError(f"the row's checker {value!r} is unknown: use one of {names}, or a program")
    return Checker(program=value)


def case(stdin: bytes, expected: object, output: bytes, call_based: bool) -> Case | None:
    """Return the arguments of `check` for one test; None where the program returned no plain data, which no check accepts.

    `stdin` and `expected` are a ground_truth.Test's, `output` is what the program printed, or its encoded return value.
    """
    if not call_based:
        return tuple(text.decode(errors="replace") for text in (stdin, expected, output))
    arguments = calls.decode_args(stdin)
    returned = calls.decode_value(output)
    try:
        calls.encode_args([returned])
    except ValueError:
        return None
    return arguments, expected.value if isinstance(expected, Exactly) else expected, returned


def room_for_outputs(limits: Limits, expected_sizes: Sequence[int]) -> int:
    """Bytes that a program may print on all tests of a row with a checker program, together."""
    return max(KEPT_FACTOR * limits.stdout_bytes, limits.expected_factor * sum(expected_sizes))


def run(program: str, cases: Mapping[int, Case | None], limits: Limits, service: str | None = None) -> dict[int, Comparison]:
    """Return the checker's word on each case; the keys are the tests' indices. `service`: as in Options.

    Raises CheckerError where the checker fails, RuntimeError where the verifier does.
    """
    words = {index: Comparison(False, "", "what the program returned is no plain data") for index in cases}
    to_run = {index: case for index, case in cases.items() if case is not None}
    start = remote.runner(service) if service else run_tests
    executions = start(program, _Encoded(list(to_run.values())), limits, fn_name=FUNCTION)
    with contextlib.closing(executions):
        for index, execution in zip(to_run, executions, strict=True):
            if execution.verdict is Verdict.IE:
                raise RuntimeError(f"the row's checker could not be run: {execution.message}")
            if execution.verdict is not None:
                last_line = execution.stderr_tail.rstrip().rpartition("\n")[2]
                how = " ".join(filter(None, (execution.verdict.value, execution.message or last_line)))
                raise CheckerError(f"the row's checker failed on test {index + 1}: {how}")
            accepted = calls.decode_value(execution.result)
            if not isinstance(accepted, bool):
                what = accepted if isinstance(accepted, calls.Opaque) else f"a value of type {type(accepted).__name__}"
                raise CheckerError(f"the row's checker must return True or False; on test {index + 1}: {what}")
            words[index] = Comparison(True, "checker", "") if accepted else Comparison(False, "", "the checker rejects it")
    return words


class _Encoded(Sequence):
    """The cases as the executor's inputs, each encoded when its turn comes: all at once they take a multiple of the memory."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases

    def __len__(self) -> int:
        return len(self.cases)

    def __getitem__(self, index: int) -> bytes:
        return calls.encode_args(list(self.cases[index]))
