"""What a check of the pre-flight has to say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One sentence: what is wrong and what to do. `fatal`: it would stop or spoil the run."""

    text: str
    fatal: bool = True
