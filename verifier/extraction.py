"""The model's text -> the program.

The answer is the last Python block: fenced as CommonMark has it (markdown.py says where it is read more kindly), with
any of Python's names in its info string. Reasoning in `<think>` is cut first, end-of-turn tokens are taken off, and
where the response has an `<answer>`, a Python block in there comes before one outside.

- A block without a language (or with one that says nothing, such as `text`) is the answer only where no block is
  tagged Python, and only if it looks like Python (`looks_like_python`): sample output, shell and pseudocode are not it.
- Blocks in other languages are never the answer; `pycon` and its kin are transcripts of a console, `ipython` is Python.
- A block tagged Python that calls, defines and asserts nothing (blank, comments, sample input, prose) or is what a console
  showed (`>>>`, a traceback) is passed over while there is another.
- A block cut by the length limit is the answer: it runs to the end of the text, or to a backtick that is in no string, as of a
  closing fence that is shorter than the opening one.
- Only where nothing of this is found are fences accepted that stand after text.
- Without any block the whole text is tried as the program, up to a lone fence if the part before it looks like Python.
- A first line that is only Python's name is no part of the program: the prompt may have ended in the fence that it follows.

Not covered: a program in several blocks (they are not joined, or a draft would run with the answer), a demonstration
in a Python block of its own after the program (the last block is the answer, as the prompt says), indented code blocks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from verifier import markdown
from verifier.markdown import Block, Document
from verifier.python_text import NAME, TRIPLE, is_prose, is_transcript, kind_at, literals, looks_like_python

RULES = ("last", "first")

END_OF_TURN = re.compile(
    r"<\|(?:im_end|endoftext|eot_id|eom_id|end_of_text|end_of_turn|end|eot|return|fim_pad|pad)\|>"
    r"|</s>|<eos>|<pad>|<end_of_turn>|\[EOS\]|<｜end▁of▁sentence｜>",
    re.IGNORECASE,
)
# No program does anything without one of these: a call (no tuple, no "7 (in words)"), a decorator, a lambda, an assertion.
ACTS = re.compile(r"[^#]*(?:[\w)\]]\(|[^\W\d][ \t]+\(|@|\b(?:lambda|assert)\b)")
NEXT_TURN = re.compile(
    r"\s*(?:<\|(?:im_start|start_header_id|start|begin_of_text|user|assistant)\|>|<start_of_turn>|<s>|\[INST\]|<｜User｜>)"
)


@dataclass(frozen=True)
class Extraction:
    """What is run, and where it came from.

    code: the program; blank where there is none, which a caller must not run as an (empty) program.
    format: 1 when a fenced Python block was found, else 0.
    block: which one it is, among the blocks outside the reasoning: "3/3 python", "unclosed 1/1 python", "2/2 untagged",
        "whole text".
    """

    code: str
    format: int
    block: str


def extract(text: str, rule: str = "last") -> Extraction:
    """Return the program in a response: its last Python block, or with rule "first" its first. Never raises for a text.

    Line ends become newlines; apart from its indentation, each line of the code is (the beginning of) one of the text.
    """
    if rule not in RULES:
        raise ValueError(f"unknown extraction rule {rule!r}: use one of {', '.join(RULES)}")
    text = _without_end_of_turn(text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff"))
    document = markdown.read(text)
    block = _choose(document, rule)
    if block and block.text.strip():
        return Extraction(_code(block), 1, _label(block, document.blocks))
    loose = [b for b in markdown.read(document.visible, loose=True).blocks if b.text.strip()]
    if loose:
        found = loose[0 if rule == "first" else -1]
        return Extraction(_code(found), 1, "loose " + _label(found, loose))
    if block:
        return Extraction("", 1, _label(block, document.blocks))
    rest = document.visible if document.answer is None else document.answer
    before = _before_fence(rest)
    if looks_like_python(before):
        return Extraction(_unnamed(before), 0, "before the first fence")
    return Extraction(_unnamed(rest), 0, "whole text" if document.answer is None else "answer tag")


def _choose(document: Document, rule: str) -> Block | None:
    inside = [document.blocks[i] for i in document.answer_blocks]
    for predicate, blocks in (
        (_is_program, inside),
        (_is_program, document.blocks),
        (_may_be_program, inside),
        (_may_be_program, document.blocks),
        (_is_transcript, document.blocks),
        (_is_python, document.blocks),
    ):
        found = list(filter(predicate, blocks))
        if found:
            return found[0 if rule == "first" else -1]
    return None


def _is_python(block: Block) -> bool:
    return block.language == "python"


def _is_transcript(block: Block) -> bool:
    return _is_python(block) and is_transcript(block.text)


def _is_program(block: Block) -> bool:
    acts = _is_python(block) and any(ACTS.match(line) and not is_prose(line) for line in block.lines)
    return acts and not is_transcript(block.text)


def _may_be_program(block: Block) -> bool:
    return block.language == "" and block.lines != [] and looks_like_python(block.text)


def _label(block: Block, blocks: list[Block]) -> str:
    number = next(i for i, other in enumerate(blocks, 1) if other is block)
    return f"{'' if block.closed else 'unclosed '}{number}/{len(blocks)} {block.language or 'untagged'}"


def _code(block: Block) -> str:
    cut = _is_python(block) and not block.closed
    return _unnamed(_dedent(_up_to_a_backtick(block) if cut else block.lines))


def _up_to_a_backtick(block: Block) -> list[str]:
    """The lines before the first backtick outside strings and comments, where it means nothing in Python."""
    quote = None
    for number, line in enumerate(block.lines):
        spans, following = literals(line, quote, block.endless) if "`" in line or TRIPLE.search(line) else ([], quote)
        for mark in re.finditer("`", line):
            if kind_at(spans, mark.start()) == "code":
                return [*block.lines[:number], line[: mark.start()]]
        quote = following
    return block.lines


def _unnamed(code: str) -> str:
    """The program without a first line that is only Python's name, which no program can begin with."""
    first, _, rest = code.lstrip("\n").partition("\n")
    return rest if NAME.match(first.strip().lower()) else code


def _dedent(lines: list[str]) -> str:
    """The lines without the indentation that all of them share, as no program has one."""
    margins = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines if line.strip()]
    margin = min(margins, key=len, default="")
    while not all(other.startswith(margin) for other in margins):
        margin = margin[:-1]
    return "\n".join(line.removeprefix(margin) for line in lines)


def _before_fence(text: str) -> str:
    """The text before its first line that is a fence: the prompt may have ended in the opening one."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if markdown.FENCE.match(line.strip()):
            return "\n".join(lines[:number])
    return ""


def _without_end_of_turn(text: str) -> str:
    """The text without the tokens at its end, and without a next turn that the model has made up after one."""
    tokens = list(END_OF_TURN.finditer(text))
    end = next((token.start() for token in tokens if NEXT_TURN.match(text, token.end())), len(text))
    for token in reversed(tokens):
        if token.start() < end:
            if text[token.end() : end].strip():
                break
            end = token.start()
    return text[:end]
