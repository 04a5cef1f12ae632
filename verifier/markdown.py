"""Finds the fenced blocks of a model's response, without its reasoning: one pass over the lines, linear in their length.

Covered, as in CommonMark 0.31: fences of backticks or tildes of any length, up to three spaces before them, a closing
fence of the same character and at least the opening one's length, no backtick in a backtick fence's info string, fences
in list items and block quotes (whose indentation and `>` are taken off the content), a fence without an end (to the end
of its container). Besides, `<think>` is cut, with or without its opening or closing tag, and `<answer>` is noted.

Not as in CommonMark, because models write so, and the letter of it gives text that no Python compiles:
- Inside a triple-quoted string of a Python block nothing ends the block or the reasoning, if that string has an end.
- Outside its strings a Python block ends at any line that starts with its fence, whatever the indentation and info
  string, and at a fence glued to the end of a line. Any other block ends where a Python block of its own length opens.
- In a list item the content of a fence may stand to the left of the item's text.
- HTML blocks are not known: a tag in the line before a fence does not swallow it.
"""

from __future__ import annotations

import bisect
import itertools
import re
from dataclasses import dataclass, field

TAG = re.compile(r"<(/?)(think|thinking|thought|reasoning|answer)>", re.IGNORECASE)
FENCE = re.compile(r"(`{3,})([^`]*)$|(~{3,})(.*)$")
MARKER = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$)")
ATOM = re.compile(r"\\.|\"\"\"|'''|[\"'#]")  # where Python's strings and comments begin and end
PYTHON = re.compile(r"(?:c|i|micro)?py(?:thon|py)?-?[23]?(?:\.\d+)*$")
LANGUAGE = re.compile(r"[\s{.\[]*(?:lang(?:uage)?[-=][\"']?)?([^\s,:;={}\[\]\"']*)", re.IGNORECASE)
UNTAGGED = ("", "code", "text", "txt", "plain", "plaintext", "raw", "none", "solution", "answer", "program", "script", "main")
TRIPLE = ('"""', "'''")
QUOTE = -1  # a block quote among the containers; a list item is the column of its text within its parent
MAX_DEPTH = 16  # of containers; what is deeper is text


@dataclass
class Block:
    """One fenced block: its language ("" where none is named) and its lines, without what its containers add to them."""

    language: str
    fence: str
    indent: int  # columns before the opening fence within its container
    lines: list[str] = field(default_factory=list)
    closed: bool = False
    # While it is read:
    quote: str | None = None  # the triple quote that is open at the end of the last line
    resume: tuple[int, int] | None = None  # line number and len(lines) to go back to if that quote turns out to have no end
    inner_tags: int = 0  # reasoning tags opened within the block, whose ends are the block's own

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Document:
    """A response without its reasoning: the blocks in order, the whole text, and what stands in the last answer tag."""

    blocks: list[Block]
    visible: str
    answer: str | None = None
    answer_blocks: range = range(0)  # which of `blocks` stand in the answer


def read(text: str, loose: bool = False) -> Document:
    """Read a response whose line ends are all newlines. Never raises.

    `loose` finds only Python blocks, but wherever their fence opens at the end of a line: after text, or far indented.
    """
    if "<" not in text and "```" not in text and "~~~" not in text:
        return Document([], text)
    return _Reader(text, loose).read()


def language(info: str) -> str:
    """The language an info string names: "python" for all of Python's names, "" for none or a word that names none."""
    name = LANGUAGE.match(info)[1].lower()
    if PYTHON.match(name) or name.endswith(".py"):
        return "python"
    return "" if name in UNTAGGED or f"{name}=" in info.lower() else name


def literals(line: str, quote: str | None) -> tuple[list[tuple[int, int, str]], str | None, bool]:
    """The strings and the comment in a line of Python at whose start the triple quote `quote` is open (None: none).

    Returns (start, end, kind) of each, with kind "string", "triple" or "comment"; the triple quote open at the end; and
    whether one was closed. A single quote that has no partner on its line opens nothing.
    """
    spans, start, closed = [], 0, False
    single = None
    for atom in ATOM.finditer(line):
        mark = atom[0]
        if quote:
            if mark == quote:
                spans.append((start, atom.end(), "triple"))
                quote, closed = None, True
        elif single:
            if mark[0] == single:  # three of them: the end, and an empty string
                spans.append((start, atom.end(), "string"))
                single = None
        elif mark == "#":
            spans.append((atom.start(), len(line), "comment"))
            return spans, None, closed
        elif mark in TRIPLE:
            quote, start = mark, atom.start()
        elif mark in "\"'":
            single, start = mark, atom.start()
    if quote:
        spans.append((start, len(line), "triple"))
    return spans, quote, closed


def indent_of(line: str, column: int = 0) -> int:
    """Columns of blanks at the start of a line that itself starts at `column`; tab stops are four apart."""
    at = column
    for char in itertools.takewhile(" \t".__contains__, line):
        at += 1 if char == " " else 4 - at % 4
    return at - column


def strip_columns(line: str, count: int, column: int = 0) -> tuple[str, int]:
    """Take up to `count` columns of blanks off a line that starts at `column`: what is left, and its column."""
    if line[:count] == " " * count:
        return line[count:], column + count
    end, used = column + count, 0
    while column < end and line[used : used + 1] in (" ", "\t"):
        column += 1 if line[used] == " " else 4 - column % 4
        used += 1
    return " " * max(0, column - end) + line[used:], min(column, end)  # the rest of a tab cut in two is spaces


class _Reader:
    """The pass itself. Each step takes a line's number and text, and returns the number of the line to go on with."""

    def __init__(self, text: str, loose: bool) -> None:
        self.text = text
        self.loose = loose
        self.lines = text.split("\n")
        self.starts = [0, *itertools.accumulate(len(line) + 1 for line in self.lines)]
        self.blocks: list[Block] = []
        self.fence: Block | None = None
        self.containers: list[int] = []
        self.paragraph = False  # an outdented line would go on with the text of the containers
        self.hidden: list[tuple[int, int]] = []  # reasoning, in offsets
        self.thinking: tuple[int, int] | None = None  # where an opened <think> stands, and len(blocks) there
        self.answer: tuple[int, int] | None = None  # the same for an opened <answer>
        self.answered: tuple[int, int, range] | None = None  # a closed one: its offsets, its blocks

    def read(self) -> Document:
        number = 0
        while number < len(self.lines) or (self.fence and self.fence.resume):
            if number == len(self.lines):
                number = self._rewind()
            line = self.lines[number]
            number = (self._tagged if "<" in line else self._line)(number, line)
        if self.thinking:
            self._forget(self.thinking, len(self.text))
        if self.answer:
            self._close_answer(len(self.text))
        visible = self._shown(0, len(self.text))
        if not self.answered:
            return Document(self.blocks, visible)
        start, end, inside = self.answered
        return Document(self.blocks, visible, self._shown(start, end), inside)

    def _line(self, number: int, line: str) -> int:
        return self._content(number, line) if self.fence else self._plain(number, line)

    # Fenced content.

    def _content(self, number: int, line: str) -> int:
        block = self.fence
        rest, column, depth = self._descend(line)
        if depth < len(self.containers):
            if self.containers[depth] == QUOTE or any(map(str.strip, block.lines)):
                if block.resume:
                    return self._rewind()
                self.fence = None
                return self._plain(number, line)
            del self.containers[depth:]
        if block.language == "python":
            return self._python_content(number, rest, column)
        body = rest.lstrip(" \t")
        if body.startswith(block.fence) and indent_of(rest, column) < 4:
            if not body.strip(block.fence[0] + " \t"):
                return self._end(number)
            opening = FENCE.match(body)
            if opening and language(opening[2] or opening[4] or "") == "python":
                return self._open(number, opening, indent_of(rest, column))
        block.lines.append(strip_columns(rest, block.indent, column)[0])
        return number + 1

    def _python_content(self, number: int, rest: str, column: int) -> int:
        block = self.fence
        body = rest.strip(" \t")
        if body.startswith(block.fence):
            if not block.quote:
                opening = FENCE.match(body)
                if not body.strip(block.fence[0]) or not opening:
                    return self._end(number)
                return self._open(number, opening, indent_of(rest, column))
            opening = FENCE.match(body)
            if opening and indent_of(rest, column) < 4 and not block.resume:
                block.resume = (number, len(block.lines))
        content = strip_columns(rest, block.indent, column)[0]
        if body.endswith(block.fence) and self._kind_at(rest.rstrip(), len(rest.rstrip()) - 1) == "code":
            block.lines.append(content.rstrip().rstrip(block.fence[0]))
            return self._end(number)
        block.lines.append(content)
        if TRIPLE[0] in rest or TRIPLE[1] in rest:
            _, block.quote, closed = literals(rest, block.quote)
            block.resume = None if closed else block.resume
        return number + 1

    def _kind_at(self, line: str, position: int) -> str:
        spans, _, _ = literals(line, self.fence.quote)
        return _kind(spans, position)

    def _rewind(self) -> int:
        """The string that is open has no end, so it is no string: go back to the first line it kept from its meaning."""
        number, kept = self.fence.resume
        del self.fence.lines[kept:]
        self.fence.resume = self.fence.quote = None
        return number

    def _open(self, number: int, opening: re.Match, indent: int) -> int:
        fence, info = (opening[1], opening[2]) if opening[1] else (opening[3], opening[4])
        self.fence = Block(language(info), fence, indent)
        self.blocks.append(self.fence)
        return number + 1

    def _end(self, number: int) -> int:
        self.fence.closed = True
        self.fence = None
        return number + 1

    # Everything else: containers, and where a fence opens.

    def _plain(self, number: int, line: str) -> int:
        if self.loose:
            opening = _loose_opening(line)
            return self._open(number, opening, 0) if opening else number + 1
        rest, column, depth = self._descend(line)
        if depth < len(self.containers):
            if self.paragraph and not self._starts_block(rest, column):
                self.paragraph = bool(rest.strip())
                return number + 1
            del self.containers[depth:]
            self.paragraph = False
        rest, column = self._enter(rest, column)
        indent, body = indent_of(rest, column), rest.strip(" \t")
        opening = FENCE.match(body) if indent < 4 else None
        self.paragraph = bool(body) and not opening and (self.paragraph or indent < 4) and not body.startswith("#")
        return self._open(number, opening, indent) if opening else number + 1

    def _descend(self, line: str) -> tuple[str, int, int]:
        """Take off what the open containers ask of a line: what is left, its column, and how many went along."""
        column = 0
        for depth, container in enumerate(self.containers):
            indent, body = indent_of(line, column), line.lstrip(" \t")
            if container == QUOTE:
                if indent > 3 or not body.startswith(">"):
                    return line, column, depth
                line, column = strip_columns(body[1:], 1, column + indent + 1)
            elif body and indent < container:
                return line, column, depth
            else:
                line, column = strip_columns(line, container, column)
        return line, column, len(self.containers)

    def _enter(self, rest: str, column: int) -> tuple[str, int]:
        """Open the block quotes and list items that start here."""
        while len(self.containers) < MAX_DEPTH and (indent := indent_of(rest, column)) < 4:
            body = rest.lstrip(" \t")
            if body.startswith(">"):
                self.containers.append(QUOTE)
                rest, column = strip_columns(body[1:], 1, column + indent + 1)
            elif (marker := MARKER.match(body)) and not _is_rule(body):
                width = marker.end()
                blanks = indent_of(body[width:], column + indent + width)
                blanks = blanks if blanks < 5 and body[width:].strip(" \t") else 1
                self.containers.append(indent + width + blanks)
                rest, column = strip_columns(body[width:], blanks, column + indent + width)
            else:
                break
            self.paragraph = False
        return rest, column

    def _starts_block(self, rest: str, column: int) -> bool:
        body = rest.lstrip(" \t")
        if not body or indent_of(rest, column) > 3:
            return not body
        return bool(body[0] in ">#" or MARKER.match(body) or FENCE.match(body) or _is_rule(body))

    # Tags.

    def _tagged(self, number: int, line: str) -> int:
        spans = literals(line, self.fence.quote)[0] if self.fence else []
        done, first = 0, True  # how much of the line is dealt with, and whether no tag after that has been left standing
        for tag in TAG.finditer(line):
            leads = first and not line[done : tag.start()].strip()
            if not (self._ends_in_fence(tag, spans, number) if self.fence else self._counts(tag, leads)):
                first = False
                continue
            before = line[done : tag.start()]
            if before.strip() and (following := self._line(number, before)) <= number:
                return following
            self._apply(tag, self.starts[number])
            done, first = tag.end(), True
        return number + 1 if done and not line[done:].strip() else self._line(number, line[done:])

    def _counts(self, tag: re.Match, leads: bool) -> bool:
        """Whether a tag outside all fences is one, and not a word about one."""
        around = tag.string[max(0, tag.start() - 1) : tag.start()] + tag.string[tag.end() : tag.end() + 1]
        if around in ("``", "''", '""'):
            return False
        closing, answer = bool(tag[1]), tag[2].lower() == "answer"
        if self.thinking:
            return closing and not answer
        return (not closing or self.answer is not None) if answer else (closing or leads)

    def _ends_in_fence(self, tag: re.Match, spans: list[tuple[int, int, str]], number: int) -> bool:
        """Whether a tag within a fence shows that the fence was never closed, and is not part of the block."""
        block, answer = self.fence, tag[2].lower() == "answer"
        if not tag[1]:
            block.inner_tags += not answer
            return False
        if answer and not self.answer:
            return False
        if block.inner_tags and not answer:
            block.inner_tags -= 1
            return False
        if block.language != "python":
            return True
        kind = _kind(spans, tag.start())
        if kind == "triple" and not block.resume:
            block.resume = (number, len(block.lines))
        return kind == "code" or (kind == "comment" and self.thinking is not None)

    def _apply(self, tag: re.Match, offset: int) -> None:
        if tag[2].lower() == "answer":
            if tag[1]:
                self._close_answer(offset + tag.start())
            else:
                self.answer = (offset + tag.end(), len(self.blocks))
        elif tag[1]:
            self._forget(self.thinking or (0, 0), offset + tag.end())
        else:
            self.thinking = (offset + tag.start(), len(self.blocks))
        self.fence, self.paragraph = None, False
        self.containers.clear()

    def _forget(self, since: tuple[int, int], end: int) -> None:
        start, kept = since
        del self.blocks[kept:]
        if start == 0:
            self.hidden.clear()
            self.answer = self.answered = None
        self.hidden.append((start, end))
        self.thinking = None

    def _close_answer(self, end: int) -> None:
        start, kept = self.answer
        if self.text[start:end].strip():
            self.answered = (start, end, range(kept, len(self.blocks)))
        self.answer = None

    def _shown(self, start: int, end: int) -> str:
        """The text from `start` to `end` without the reasoning in it."""
        inside = [(max(a, start), min(b, end)) for a, b in self.hidden if a < end and b > start]
        ends = [start, *itertools.chain(*inside), end]
        return "".join(self.text[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True))


def _kind(spans: list[tuple[int, int, str]], position: int) -> str:
    """What stands at `position`: the kind of one of the spans of `literals`, or "code"."""
    at = bisect.bisect_right(spans, position, key=lambda span: span[0]) - 1
    return spans[at][2] if at >= 0 and position < spans[at][1] else "code"


def _is_rule(body: str) -> bool:
    """A thematic break, `* * *`, which else would be three list items."""
    return body[:1] in ("*", "-", "_") and body.count(body[0]) > 2 and not body.strip(body[0] + " \t")


def _loose_opening(line: str) -> re.Match | None:
    """The last fence of a line, if it opens a Python block."""
    at = max(line.rfind("```"), line.rfind("~~~"))
    if at < 0:
        return None
    before = line[: at + 3].rstrip(line[at])
    opening = FENCE.match(line[len(before) :])
    return opening if opening and language(opening[2] or opening[4] or "") == "python" else None
