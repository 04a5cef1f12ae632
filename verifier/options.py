"""The options of compute_score: keyword arguments (veRL's reward_kwargs), else CODE_REWARD_* in the environment.

A misspelt option that is silently ignored trains the wrong thing for a week, so an unknown name or a bad value raises
ValueError before anything is judged. An empty variable or None counts as not given.
"""

from __future__ import annotations

import difflib
import importlib.util
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from verifier import comparison, extraction
from verifier.verdict import Limits

PREFIX = "CODE_REWARD_"
# Read elsewhere: cores.py, isolation.py, reward_log.py.
OTHER_VARIABLES = ("CONCURRENCY", "ISOLATION", "ALLOW_PROCESSES", "LOG_DIR")
SERVICE_URL = "SANDBOX_FUSION_URL"  # the one variable without the prefix; the option sandbox_fusion_url
VERL_ARGUMENTS = ("reward_router_address", "reward_model_tokenizer")  # veRL passes them to every reward function
WALL_FACTOR = 3  # wall_timeout follows timeout where only that is given
SHORT_FACTOR = 10  # so does the limit after three tests over time, at most a second
SOURCE_RULES = {"block": "source", "comparison": "source", "row_checkers": False}  # what the source recipe does
# Half of the score is the tests' at the least, or a program that only compiles would be worth the trouble.
MAX_FORMAT_WEIGHT, MAX_COMPILE_WEIGHT = 0.2, 0.3
LARGEST, LARGEST_COUNT = 1e6, 1e15  # seconds and MiB; tests. Clocks and limits of the kernel cannot take any number
CHOICES = ("block", "comparison", "reward", "format_weight", "compile_weight", "max_tests")  # fields of Options, as given


@dataclass(frozen=True)
class Options:
    """How a response is judged; the defaults are the README's."""

    limits: Limits = field(default_factory=Limits)
    block: str = "last"  # which Python block is the program: "last", "first", or "source" (the first, by a pattern)
    comparison: str = "tokens"  # how stdout is compared: one of comparison.MODES
    row_checkers: bool = True  # a row's own checker (checkers.py) comes before `comparison`
    reward: str = "pass_rate"  # what the tests earn: "pass_rate", or "binary" (1 when every test passed)
    format_weight: float = 0.0  # share of the score for a Python block
    compile_weight: float = 0.0  # share of the score for a program that compiles
    max_tests: int | None = None  # run at most so many tests of a problem
    service: str | None = None  # address of the SandboxFusion service that runs the programs; None: this machine does


def read(arguments: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Options:
    """Return the options. Raises ValueError for an unknown name or a bad value, with one sentence that says which.

    environ: the process's own, looked up now, since libraries under veRL put another object in its place.
    """
    given: dict[str, object] = {}
    for variable, text in (os.environ if environ is None else environ).items():
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and name not in OTHER_VARIABLES and text != "":
            given[_known(name.lower(), variable, PREFIX)] = text
        elif variable == SERVICE_URL and text != "":
            given["sandbox_fusion_url"] = text
    for name, value in arguments.items():
        if name not in VERL_ARGUMENTS and value is not None:
            given[_known(name, name, "")] = value
    values = {name: PARSERS[name](name, value) for name, value in given.items()}

    rules = SOURCE_RULES if values.get("rules") == "source" else {}
    chosen = {name: values[name] for name in CHOICES if name in values}
    if arguments.get("sandbox_fusion_url") and values.get("backend") != "sandbox_fusion":
        raise ValueError("code_reward's option sandbox_fusion_url does nothing without backend=sandbox_fusion")
    return Options(limits=_limits(values), service=_service(values), **{**rules, **chosen})


def _service(values: Mapping[str, object]) -> str | None:
    if values.get("backend") != "sandbox_fusion":
        return None
    if "sandbox_fusion_url" not in values:
        raise ValueError(f"code_reward's backend sandbox_fusion needs the service's address: set {SERVICE_URL}")
    if importlib.util.find_spec("httpx") is None:
        raise ValueError("code_reward's backend sandbox_fusion needs httpx: run pip install httpx")
    return values["sandbox_fusion_url"]


def _limits(values: Mapping[str, object]) -> Limits:
    limits = Limits()
    if "timeout" in values:
        cpu_seconds = values["timeout"]
        short = min(limits.short_cpu_seconds, cpu_seconds / SHORT_FACTOR)
        limits = replace(limits, cpu_seconds=cpu_seconds, wall_seconds=cpu_seconds * WALL_FACTOR, short_cpu_seconds=short)
    if "wall_timeout" in values:
        limits = replace(limits, wall_seconds=values["wall_timeout"])
    if "short_timeout" in values:
        limits = replace(limits, short_cpu_seconds=min(values["short_timeout"], limits.cpu_seconds))
    for name, limit in (("full_timeouts", "full_limit_timeouts"), ("max_timeouts", "max_timeouts")):
        if name in values:
            limits = replace(limits, **{limit: values[name]})
    if "memory_mb" in values:
        limits = replace(limits, memory_bytes=int(values["memory_mb"] * (1 << 20)))
    return limits


def _known(name: str, as_given: str, prefix: str) -> str:
    if name in PARSERS:
        return name
    written = {option: prefix + option.upper() if prefix else option for option in PARSERS}
    close = difflib.get_close_matches(name, PARSERS, n=1)
    hint = f"did you mean {written[close[0]]}? " if close else ""
    raise ValueError(f"code_reward has no option {as_given}: {hint}the options are {', '.join(written.values())}")


def _number(at_least: float, at_most: float = LARGEST) -> Callable[[str, object], float]:
    def parse(name: str, value: object) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if isinstance(value, bool) or not at_least <= number <= at_most:
            open_end = at_most >= LARGEST and not number > at_most
            span = f", {at_least:g} or more" if open_end else f" from {at_least:g} to {at_most:g}"
            raise ValueError(f"code_reward's option {name} must be a number{span}, not {value!r}")
        return number

    return parse


def _whole(at_least: int) -> Callable[[str, object], int]:
    def parse(name: str, value: object) -> int:
        number = _number(at_least, LARGEST_COUNT)(name, value)
        if number != int(number):
            raise ValueError(f"code_reward's option {name} must be a whole number, not {value!r}")
        return int(number)

    return parse


def _one_of(*choices: str) -> Callable[[str, object], str]:
    def parse(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"code_reward's option {name} must be one of {', '.join(choices)}, not {value!r}")
        return str(value)

    return parse


def _address(name: str, value: object) -> str:
    """An http address, as veRL's own sandbox_fusion.url names it (with the path) or without the path."""
    text = str(value).strip().removesuffix("/").removesuffix("/run_code").removesuffix("/")
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", text):
        raise ValueError(f"code_reward's option {name} must be an address like http://host:8080, not {value!r}")
    return text


PARSERS: dict[str, Callable[[str, object], object]] = {
    "timeout": _number(0.1),  # CPU seconds a test; Python's own start takes a few hundredths
    "wall_timeout": _number(0.1),  # seconds a test
    "full_timeouts": _whole(1),  # tests over time, after which the rest get the short limit
    "short_timeout": _number(0.05),  # CPU seconds of that
    "max_timeouts": _whole(1),  # tests over time, after which the rest are not run
    "memory_mb": _number(1),  # MiB for the program, interpreter not counted
    "rules": _one_of("default", "source"),
    "block": _one_of(*extraction.RULES, "source"),
    "comparison": _one_of(*comparison.MODES),
    "reward": _one_of("pass_rate", "binary"),
    "format_weight": _number(0, MAX_FORMAT_WEIGHT),
    "compile_weight": _number(0, MAX_COMPILE_WEIGHT),
    "backend": _one_of("local", "sandbox_fusion"),  # where programs run
    "sandbox_fusion_url": _address,
    "max_tests": _whole(3),  # the first, the last and the largest always run
}
