"""The model's text -> the program (interface; the parser follows)."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Extraction:
    """`code` is the program, `format` is 1 when a fenced Python block was found, `block` says which one it is."""

    code: str
    format: int
    block: str


def extract(text: str, rule: str = "last") -> Extraction:
    """Return the program in `text`: the last (or with rule "first" the first) Python block. Never raises."""
    blocks = re.findall(r"^ {0,3}```(?:python3?|py)[^\n]*\n(.*?)^ {0,3}```[ \t]*$", text, re.S | re.M | re.I)
    if not blocks:
        return Extraction(text, 0, "whole text")
    index = 0 if rule == "first" else len(blocks) - 1
    return Extraction(blocks[index], 1, f"{index + 1}/{len(blocks)} python")
