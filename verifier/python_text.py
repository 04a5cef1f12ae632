"""What can be told about Python by looking at it: its names, its strings, whether a text is a program.

No parser: what a model writes may be cut off anywhere, and Python's own parser is no place for hostile text in the trainer.
"""

from __future__ import annotations

import bisect
import functools
import keyword
import re
from collections.abc import Callable
from typing import TypeVar

NAME = re.compile(  # not pycon, python-repl and their kin: a console's transcript
    r"(?:(?:text|application)/)?(?:x-)?(?:c|i|micro)?py(?:thon|py)?[-_/]?[23]?(?:\.\d+)*"
    r"(?:[-_](?:code|program|script|solution|source))?$"
)
WORD = re.compile(r"(?:\b(?:lang|language)[-=:][\"']?)?([\w+#-][\w+#./-]*)", re.IGNORECASE)
UNTAGGED = ("", "code", "text", "txt", "plain", "plaintext", "raw", "none", "solution", "answer", "program", "script", "main")
ATOM = re.compile(r"\\.|\"\"\"|'''|[\"'#]")  # where strings and comments begin and end
# One line without its indentation that hardly anything but Python has.
STATEMENT = re.compile(
    r"import [\w.]+(?: as \w+)? *(?:[,;#].*)?$|from [\w.]+ import\b"
    r"|(?:async )?def \w+ *\(|class \w+ *(?:\([^()]*\))? *:"
    r"|(?:for|while|if|elif|with|except)\b.*: *(?:#.*)?$|(?:try|else|finally) *:"
    r"|(?:[^#]*[^\w.#])?(?:print|input|open|main|solve|solution|sys\.std(?:in|out)\.[a-z.]+) *\("
)
FOREIGN = re.compile(
    r"\$ |>>>|```|~~~|In \[\d|#include *[<\"]|using namespace\b|Traceback \(most"
    r"|(?:public|private|static|const|let|var|func|fn|function|int|void|package) +(?!(?:and|or|in|is|if|else|not)\b)[^\W\d]"
    r"|(?:const|let|var) +[{\[]|(?!#)(?:.*\) *\{$|(?=.*;$).*(?:\+\+|&&|\|\||::|<<|>>|->|[{}]))"
)
# What no line of Python has outside its strings: a backtick, or two words side by side that are both none of its own.
PROSE = re.compile(r"`|\b(?!(?:{0})\b)[^\W\d]\w* +(?!(?:{0})\b)[^\W\d]".format("|".join(keyword.kwlist)))
TRIPLE = re.compile(r"\"\"\"|'''")
STRING_OVER_LINES = re.compile(r"(\"\"\"|''').*?\1", re.DOTALL)
LONGEST_REMEMBERED = 100  # characters
LONGEST_JUDGED = 500  # characters; longer lines are data
_Answer = TypeVar("_Answer")
TRANSCRIPT = re.compile(r"\s*(?:>>>|In \[\d+\]:|Traceback \(most recent call last\):)")


def remembered(function: Callable[..., _Answer]) -> Callable[..., _Answer]:
    """Keep the last answers about short lines, the function's first argument: a text may be the same few, over and over."""
    short = functools.lru_cache(4096)(function)

    @functools.wraps(function)
    def ask(line: str, *others: object) -> _Answer:
        return short(line, *others) if len(line) < LONGEST_REMEMBERED else function(line, *others)

    return ask


@remembered
def language(info: str) -> str:
    """The language an info string names: "python" for all of Python's names, "" for none or a word that names none."""
    words = [word.lower() for word in WORD.findall(info)]
    if info.lstrip().startswith("{"):  # attributes: {.python .numberLines}, {code-cell} ipython3
        words = [word for word in words if _is_python(word)] or words
    name = words[0] if words else ""
    if _is_python(name):
        return "python"
    return "" if name in UNTAGGED or f"{name}=" in info.lower() else name


def _is_python(word: str) -> bool:
    return NAME.match(word) is not None or word.endswith(".py")


Spans = list[tuple[int, int, str]]  # never changed once made; start, end, and kind: "string", "triple" or "comment"


@remembered
def literals(line: str, quote: str | None, endless: tuple[str, ...] = ()) -> tuple[Spans, str | None]:
    """The strings and the comment in a line of Python at whose start the triple quote `quote` is open (None: none).

    Returns where they stand, and the triple quote that is open at the end. The triple quotes in `endless` open nothing, nor
    does a single one without a partner on its line.
    """
    spans: Spans = []
    start, single = 0, None
    for atom in ATOM.finditer(line):
        mark = atom[0]
        if quote:
            if mark == quote:
                spans.append((start, atom.end(), "triple"))
                quote = None
        elif single:
            if mark[0] == single:  # three of them: the end, and an empty string
                spans.append((start, atom.end(), "string"))
                single = None
        elif mark == "#":
            spans.append((atom.start(), len(line), "comment"))
            return spans, None
        elif len(mark) == 3:
            if mark in endless:
                continue
            quote, start = mark, atom.start()
        elif mark[0] != "\\":
            single, start = mark, atom.start()
    if quote:
        spans.append((start, len(line), "triple"))
    return spans, quote


def kind_at(spans: Spans, position: int) -> str:
    """What stands at `position`: the kind of one of the spans of `literals`, or "code"."""
    at = bisect.bisect_right(spans, position, key=lambda span: span[0]) - 1
    return spans[at][2] if at >= 0 and position < spans[at][1] else "code"


def looks_like_python(text: str) -> bool:
    """Whether a text without a language is a program: at least one line only Python has, none that Python has not."""
    if not any(STATEMENT.match(line) and not is_prose(line) for line in _judged_lines(text)):
        return False
    outside = STRING_OVER_LINES.sub("", text)  # a docstring's line may begin with "function " as well
    return not any(map(FOREIGN.match, _judged_lines(outside)))


def is_prose(line: str) -> bool:
    """Whether a line only speaks about Python: "the call print(x) shows it"."""
    start, code = 0, ""
    for first, end, _ in literals(line, None)[0]:
        code += line[start:first] + "''"
        start = end
    return PROSE.search(code + line[start:]) is not None


def _judged_lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if len(line) <= LONGEST_JUDGED]


def is_transcript(text: str) -> bool:
    """Whether a text is what a console showed: prompts and answers between them, or a traceback."""
    return TRANSCRIPT.match(text) is not None
