"""What every part of the evaluation writes and reads: one result.json a benchmark and model, scores problem by problem."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ANSWERED = "answered"  # the file that a finished generation leaves; in it the limit


class EvaluationError(Exception):
    """One sentence: what is wrong and what to do."""


@dataclass(frozen=True)
class Result:
    """One model on one benchmark.

    problems: {problem: the scores of its answers, each 0 to 1}, as many for every problem.
    details: further numbers to show, by name.
    """

    benchmark: str
    settings: dict[str, Any]
    problems: dict[str, list[float]]
    details: dict[str, Any] = field(default_factory=dict)

    def mean(self) -> float:
        """The mean over problems of the mean over answers: Pass@1 where a score is 0 or 1."""
        return sum(sum(x) / len(x) for x in self.problems.values()) / len(self.problems)


def write(path: Path, result: Result) -> None:
    write_text(path, json.dumps(asdict(result), indent=1, ensure_ascii=False))


def read(path: Path) -> Result:
    """Raises EvaluationError for a file that cannot be read."""
    try:
        result = Result(**json.loads(path.read_text(encoding="utf-8")))
        if not result.problems:
            raise ValueError("no problems")
        result.mean()
        return result
    except (OSError, ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise EvaluationError(f"{path} is no result that can be read ({error}): remove it and evaluate again.") from error


def finished(folder: Path, limit: int) -> bool:
    """Whether a benchmark's folder has the result of so many problems."""
    path = folder / "result.json"
    return path.exists() and read(path).settings["limit"] == limit


def answered(folder: Path, limit: int) -> bool:
    """Whether a benchmark's folder has all answers to so many problems, so that no model is needed any more."""
    path = folder / ANSWERED
    return path.exists() and path.read_text(encoding="utf-8") == str(limit)


def say(benchmark: str, name: str, stage: str, folder: Path) -> None:
    """One line on what a stage does with a model's answers; stage: generate, or one that judges."""
    doing = "generating the answers, to be judged later" if stage == "generate" else "judging the answers, programs confined"
    print(f"evaluation: {benchmark} of {name}: {doing}; kept in {folder}", file=sys.stderr, flush=True)


def write_text(path: Path, text: str) -> None:
    """Complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.rename(path)


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def weights_digest(model: str) -> str:
    """Which weights a folder holds, by its files' names, sizes and times; a hub name stands for itself."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return model
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin"), *folder.glob("*.json"), *folder.glob("*.jinja")])
    return digest([(x.name, x.stat().st_size, x.stat().st_mtime_ns) for x in files])


def drop_torn_line(path: Path) -> None:
    """Cut off what a killed process left of its last line: the next line would be glued to it, and both lost."""
    with path.open("rb+") as file:
        text = file.read()
        file.truncate(text.rfind(b"\n") + 1)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON lines file; none where there is no file."""
    if path.exists():
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
