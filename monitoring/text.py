"""Text that a model wrote, made fit to be shown: it may hold anything, from terminal commands to half characters."""

from __future__ import annotations

import re

# All control characters but tab and newline, what reorders text on the screen or hides in it, and half surrogates.
UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
    "|[\U000e0000-\U000e0fff]"
)


def visible(text: object) -> str:
    """The text with every character that a terminal or a browser would act on, or not show, as its escape."""
    return UNFIT.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text).replace("\r\n", "\n"))


def one_line(text: object, longest: int | None = None) -> str:
    """The text in one line, so that a name cannot pretend to be further lines; its beginning where it is too long."""
    line = " ".join(visible(text).split())
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"


def cut(text: str, characters: int) -> str:
    """The text, or its beginning and its end with what is left out between them said."""
    if len(text) <= characters:
        return text
    head = characters * 2 // 3
    tail = characters - head
    return f"{text[:head]}\n[... {len(text) - characters:,} characters left out ...]\n{text[-tail:]}"
