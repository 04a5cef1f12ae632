"""Finds the fenced blocks of a model's response, without its reasoning: one pass over the lines, linear in their length.

Covered, as in CommonMark 0.31: fences of backticks or tildes of any length, up to three spaces before them, a closing
fence of the same character and at least the opening one's length, no backtick in a backtick fence's info string, fences
in list items and block quotes (whose indentation and `>` are taken off the content), a fence without an end (to the end
of its container). Besides, `<think>` is cut, with or without its opening or closing tag, and `<answer>` is noted, which ends
a reasoning that has no end of its own.

Not as in CommonMark, because models write so, and the letter of it gives text that no Python compiles:
- Inside a triple-quoted string of a Python block nothing ends the block, if that string has an end. Nor does it end the
  reasoning, but where that was opened, or where a Python block opens between its tag and the string's end.
- Outside its strings a Python block ends at any line that starts with its fence, whatever the indentation and info
  string, at a fence glued to a line's code, and where a Python block of any fence opens. Any other block ends where a
  Python block of its own length opens, or one of any length where it has no end of its own.
- A fence that is tagged Python opens a block however far it is indented.
- In a list item the content of a Python block may stand to the left of the item's text.
- HTML blocks are not known: a tag in the line before a fence does not swallow it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from verifier.python_text import TRIPLE, Spans, kind_at, language, literals, remembered

TAG = re.compile(r"<(/?)(think|thinking|thought|reasoning|answer)>", re.IGNORECASE)
REASONING_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})(.*)$")  # the fence, its info string
OPENINGS = re.compile(r"(?:^|(?<=>))[ \t]*(?:`{3,}|~{3,}(?!~))([^`\n]{0,200})$", re.M)  # at a line's start, or behind a tag
MARKER = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$)")
STARTS = frozenset(" \t#>-+*_0123456789`~")  # a line that starts with none of these is text
QUOTE = -1  # a block quote among the containers; a list item is the column of its text within its parent
MAX_DEPTH = 16  # of containers; what is deeper is text
MAX_REWINDS = 4  # in one text: what needs more is made to cost quadratic time


@dataclass(slots=True)
class Block:
    """One fenced block: its language ("" where none is named) and its lines, without what its containers add to them."""

    language: str
    fence: str
    indent: int  # columns before the opening fence within its container
    lines: list[str] = field(default_factory=list)
    closed: bool = False
    # While it is read:
    quote: str | None = None  # the triple quote that is open at the end of the last line
    endless: tuple[str, ...] = ()  # the triple quotes that open a string without an end, and thus open none
    resume: tuple[int, int] | None = None  # number and len(lines) of the first line that may be misread
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
    if loose and "<" not in text and "py" not in text.lower():  # no name of Python's is without
        return Document([], text)
    return _Reader(text, loose).read()


def indent_of(line: str, column: int = 0) -> int:
    """Columns of blanks at the start of a line that itself starts at `column`; tab stops are four apart."""
    body = line.lstrip(" ")
    if body[:1] != "\t":
        return len(line) - len(body)
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
        self.rewinds = MAX_REWINDS
        self.searched = 0  # up to here, for a fence behind a reasoning tag in a string
        self.containers: list[int] = []
        self.paragraph = False  # an outdented line would go on with the text of the containers
        self.hidden: list[tuple[int, int]] = []  # reasoning, in offsets
        self.thinking: tuple[int, int] | None = None  # where an opened <think> stands, and len(blocks) there
        self.last_end = max((tag.start() for tag in REASONING_END.finditer(text)), default=-1)
        self.answer: tuple[int, int] | None = None  # the same for an opened <answer>
        self.answered: tuple[int, int, range] | None = None  # a closed one: its offsets, its blocks

    def read(self) -> Document:
        number = 0
        while number < len(self.lines) or self._misread():
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
        if not self.containers and line == block.fence and not block.quote:
            return self._end(number)
        if not self.containers and not block.indent and "```" not in line and "~~~" not in line and not TRIPLE.search(line):
            block.lines.append(line)  # no line that matters
            return number + 1
        rest, column, depth = self._descend(line)
        if depth < len(self.containers):
            comment_first = rest.startswith("#")  # what else would be a heading
            left_of_item = self.containers[depth] != QUOTE and (comment_first or not _starts_block(rest, column))
            if block.language != "python" or not left_of_item or any(map(str.strip, block.lines)):
                if self._misread():
                    return self._rewind()
                self.fence = None
                return self._plain(number, line)
            del self.containers[depth:]
        if block.language == "python":
            return self._python_content(number, rest, column)
        body = rest.lstrip(" \t")
        if body.startswith(block.fence) and indent_of(rest, column) < 4:
            if not body.lstrip(block.fence[0]).strip():
                return self._end(number)
            if _opens_python(body):
                return self._open(number, _opening(body), indent_of(rest, column))
        elif not block.resume and indent_of(rest, column) < 4 and _opens_python(body):
            block.resume = (number, len(block.lines))
        block.lines.append(strip_columns(rest, block.indent, column)[0])
        return number + 1

    def _python_content(self, number: int, rest: str, column: int) -> int:
        block = self.fence
        body = rest.strip(" \t")
        if body.startswith(block.fence) or (body[:3] in ("```", "~~~") and _opens_python(body)):
            if not block.quote:
                opening = _opening(body)
                if not body.strip(block.fence[0]) or not opening:
                    return self._end(number)
                return self._open(number, opening, indent_of(rest, column))
            opening = _opening(body)
            if opening and indent_of(rest, column) < 4 and not block.resume:
                block.resume = (number, len(block.lines))
        if block.fence in body and (end := self._end_of_code(rest)) >= 0:
            block.lines.append(strip_columns(rest[:end], block.indent, column)[0])
            return self._end(number)
        block.lines.append(strip_columns(rest, block.indent, column)[0])
        if TRIPLE.search(rest):
            _, block.quote = literals(rest, block.quote, block.endless)
        return number + 1

    def _end_of_code(self, rest: str) -> int:
        """Where a fence stands in a line's code, outside its strings and comments; -1 if nowhere.

        Backticks mean nothing in Python, whatever follows them; tildes do, but not at the end of a line.
        """
        block = self.fence
        spans = literals(rest, block.quote, block.endless)[0]
        if block.fence[0] == "~":
            end = len(rest.rstrip().rstrip("~"))
            return end if rest.startswith(block.fence, end) and kind_at(spans, end) == "code" else -1
        end = rest.find(block.fence)
        while end >= 0 and kind_at(spans, end) != "code":
            end = rest.find(block.fence, end + 1)
        return end

    def _misread(self) -> bool:
        """Whether the block has no end, and has kept lines from their meaning: in a string, or as a stray fence."""
        block = self.fence
        return bool(block and block.resume and self.rewinds and (block.quote or block.language != "python"))

    def _rewind(self) -> int:
        """Go back to the first of these lines. An earlier string may have been the wrong one, so it is the block's first."""
        block = self.fence
        number, kept = block.resume
        del block.lines[kept:]
        if block.quote:
            block.endless += (block.quote,)
        else:
            self.fence = None
        block.resume = block.quote = None
        self.rewinds -= 1
        return number

    def _open(self, number: int, opening: re.Match, indent: int) -> int:
        self.fence = Block(language(opening[2]), opening[1], indent)
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
        if not self.containers:
            if line[:1] not in STARTS:
                self.paragraph = line != ""
                return number + 1
            if line[0] in "`~":
                opening = _opening(line.strip(" \t"))
                self.paragraph = not opening
                return self._open(number, opening, 0) if opening else number + 1
        rest, column, depth = self._descend(line)
        if depth < len(self.containers):
            if self.paragraph and not _starts_block(rest, column):
                self.paragraph = bool(rest.strip())
                return number + 1
            del self.containers[depth:]
            self.paragraph = False
        rest, column = self._enter(rest, column)
        indent, body = indent_of(rest, column), rest.strip(" \t")
        opening = _opening(body) if indent < 4 or _opens_python(body) else None
        text = bool(body) and not opening and not body.startswith("#") and not _is_rule(body)
        self.paragraph = text and (self.paragraph or indent < 4)
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
        opened, rest, column = _containers_at(rest, column, MAX_DEPTH - len(self.containers))
        if opened:
            self.containers += opened
            self.paragraph = False
        return rest, column

    # Tags.

    def _tagged(self, number: int, line: str) -> int:
        spans = literals(line, self.fence.quote, self.fence.endless)[0] if self.fence else []
        done, first = 0, True  # how much of the line is dealt with, and whether no tag after that has been left standing
        for tag in TAG.finditer(line):
            leads = first and not line[done : tag.start()].strip()
            if not (self._ends_in_fence(tag, spans, number) if self.fence else self._counts(tag, leads, number)):
                first = False
                continue
            before = line[done : tag.start()]
            if before.strip() and (following := self._line(number, before)) <= number:
                return following
            self._apply(tag, self.starts[number])
            done, first = tag.end(), True
        return number + 1 if done and not line[done:].strip() else self._line(number, line[done:])

    def _counts(self, tag: re.Match, leads: bool, number: int) -> bool:
        """Whether a tag outside all fences is one, and not a word about one."""
        around = tag.string[max(0, tag.start() - 1) : tag.start()] + tag.string[tag.end() : tag.end() + 1]
        if around in ("``", "''", '""') and not tag.string.startswith("```", tag.end()):
            return False
        closing, answer = bool(tag[1]), tag[2].lower() == "answer"
        if self.thinking and answer:
            return leads and not closing and self.starts[number] > self.last_end
        if self.thinking:
            return closing
        return (not closing or self.answer is not None) if answer else (closing or leads)

    def _ends_in_fence(self, tag: re.Match, spans: Spans, number: int) -> bool:
        """Whether a tag within a fence shows that the fence was never closed, and is not part of the block."""
        block, answer = self.fence, tag[2].lower() == "answer"
        kind = kind_at(spans, tag.start()) if block.language == "python" else "text"
        if not tag[1]:
            block.inner_tags += not answer and kind != "code"
            return False
        if answer and (self.thinking or not self.answer):
            return False
        if block.inner_tags and not answer:
            block.inner_tags -= 1
            return False
        if kind == "triple" and not block.resume:
            block.resume = (number, len(block.lines))
        if kind == "triple" and not self.thinking:
            return self._answer_before(block.quote, self.starts[number] + tag.end())
        return kind in ("code", "text") or (kind in ("comment", "triple") and self.thinking is not None)

    def _answer_before(self, quote: str | None, start: int) -> bool:
        """Whether a Python fence opens between `start` and the next triple quote, which is then the answer's own."""
        if not quote or start < self.searched:
            return False
        end = self.text.find(quote, start)
        self.searched = len(self.text) if end < 0 else end
        return any(language(opening[1]) == "python" for opening in OPENINGS.finditer(self.text, start, self.searched))

    def _apply(self, tag: re.Match, offset: int) -> None:
        if tag[2].lower() == "answer":
            if tag[1]:
                self._close_answer(offset + tag.start())
            else:
                if self.thinking:
                    self._forget(self.thinking, offset + tag.start())
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
        shown = [self.text[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True)]
        return "\n".join(filter(None, shown))


_opening = remembered(FENCE.match)


def _opens_python(body: str) -> bool:
    opening = _opening(body)
    return opening is not None and language(opening[2]) == "python"


@remembered
def _containers_at(rest: str, column: int, room: int) -> tuple[tuple[int, ...], str, int]:
    """The block quotes and list items, at most `room`, that start a text at `column`; what they leave of it, and its column."""
    opened: list[int] = []
    while len(opened) < room and (indent := indent_of(rest, column)) < 4:
        body = rest.lstrip(" \t")
        if body.startswith(">"):
            opened.append(QUOTE)
            rest, column = strip_columns(body[1:], 1, column + indent + 1)
        elif (marker := MARKER.match(body)) and not _is_rule(body):
            width = marker.end()
            blanks = indent_of(body[width:], column + indent + width)
            blanks = blanks if blanks < 5 and body[width:].strip(" \t") else 1
            opened.append(indent + width + blanks)
            rest, column = strip_columns(body[width:], blanks, column + indent + width)
        else:
            break
    return tuple(opened), rest, column


@remembered
def _starts_block(rest: str, column: int) -> bool:
    """Whether a text at `column` begins something that a paragraph does not go on into."""
    body = rest.lstrip(" \t")
    if not body or indent_of(rest, column) > 3:
        return not body
    return bool(body[0] in ">#" or MARKER.match(body) or FENCE.match(body) or _is_rule(body))


def _is_rule(body: str) -> bool:
    """A thematic break, `* * *`, which else would be three list items."""
    return body[:1] in ("*", "-", "_") and body.count(body[0]) > 2 and not body.strip(body[0] + " \t")


def _loose_opening(line: str) -> re.Match | None:
    """The last fence of a line, if it opens a Python block."""
    at = max(line.rfind("```"), line.rfind("~~~"))
    if at < 0 or line.find("y", at) < 0 > line.find("Y", at):  # nor without this
        return None
    before = line[: at + 3].rstrip(line[at])
    opening = FENCE.match(line[len(before) :])
    return opening if opening and language(opening[2]) == "python" else None
