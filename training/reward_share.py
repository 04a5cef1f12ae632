"""How many of the latest responses got no verdict, read from the reward log while a run writes it."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

from verifier.reward_log import DROPPED

WINDOW = 1000  # responses
ENOUGH = 50  # responses to judge a share by ...
SOON = 20.0  # ... or seconds since the first without a verdict: a small batch may hold fewer


class RewardShare:
    """The window over a folder of reward logs. Lines that stand there already are of an earlier start and do not count."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read = {path: path.stat().st_size for path in self._files()}
        self.reasons: deque[str] = deque(maxlen=WINDOW)  # "" for a response with a verdict
        self.first_failure: float | None = None

    def problem(self, most: float, now: float, at_the_end: bool = False) -> str:
        """One sentence when more than the share `most` of the responses got no verdict, else "".

        Args:
            now: seconds, on any clock that goes on.
            at_the_end: there will be no more lines, so judge by what there is.
        """
        self.reasons.extend(self._new_reasons())
        failed = Counter(reason for reason in self.reasons if reason)
        number, total = sum(failed.values()), len(self.reasons)
        if not number:
            return ""
        self.first_failure = now if self.first_failure is None else self.first_failure
        if number <= most * total or not (at_the_end or total >= ENOUGH or now - self.first_failure >= SOON):
            return ""
        return (
            f"{number} of the last {total} responses got no verdict, and MAX_INTERNAL_ERRORS={most:g} is the share that may; "
            f"most often because {failed.most_common(1)[0][0]}"
        )

    def _files(self) -> list[Path]:
        return sorted([*self.folder.glob("*.jsonl"), *self.folder.glob(f"{DROPPED}/*.jsonl")])

    def _new_reasons(self) -> Iterator[str]:
        for path in self._files():
            with path.open("rb") as file:
                file.seek(self.read.get(path, 0))
                for line in file:
                    if not line.endswith(b"\n"):  # still being written
                        break
                    self.read[path] = self.read.get(path, 0) + len(line)
                    reason = _reason(line, path.parent.name == DROPPED)
                    if reason is not None:
                        yield reason


def _reason(line: bytes, dropped: bool) -> str | None:
    """Why there is no verdict, "" where there is one; None for a line that a killed process or a full disk has broken."""
    try:
        row = json.loads(line)
        if dropped:
            return f"veRL dropped them ({row['error']})"
        return row["first_failure"]["detail"] or "the verifier failed" if "IE" in row["verdicts"] else ""
    except (ValueError, KeyError, TypeError):
        return None
