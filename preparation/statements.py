"""What a problem's statement says about itself: whether it can be solved in Python, from its text, with one right answer.

Patterns, so they err both ways; each was written to miss rather than to accuse. Covered: pictures named by a tag or by
words; demands for another language, as an instruction to the reader. Not covered: formulas that lost their signs, pictures
that the text does not mention, a language named in another sentence than its demand.
"""

from __future__ import annotations

import re

# ---- several right answers

SEVERAL_ANSWERS = re.compile(
    r"\bany of (?:them|these|those)\b|\bin any order\b"
    r"|\bany (?:\w+ )?(?:valid|possible|correct|suitable|optimal) (?:\w+ )?(?:answer|solution|output|way|order)"
    r"|\b(?:several|many|multiple) (?:\w+ )?(?:answers|solutions|outputs)\b",
    re.IGNORECASE,
)

# ---- pictures

PICTURE_TAG = re.compile(
    r"<im(?:age|g)\b[^>]*>|\[(?:image|img)\]|!\[[^\]\n]*\]\([^)\n]*\)|\\includegraphics\b"
    r"|https?://\S+\.(?:png|jpe?g|gif|svg|bmp|webp)\b",
    re.IGNORECASE,
)
PICTURES = ("figure", "picture", "image", "diagram", "illustration", "drawing")
PICTURE_WORDS = re.compile(
    rf"\b(?:{'|'.join(PICTURES)})s? (?:\d+ )?(?:below|above)\b"
    r"|\b(?:shown|depicted|illustrated|drawn|given) (?:in|on|by) (?:the |this |these )?(?:following |right |left )?"
    rf"(?:{'|'.join(PICTURES)})s?\b"
)
# From here on a statement shows examples and explains them: a picture there may be missed without loss.
EXAMPLES = re.compile(
    r"^\W*(?:(?:sample|demo) (?:input|test)|examples?\b|notes?\b|explanation\b|(?:sample|example) \d|input \d)",
    re.IGNORECASE | re.MULTILINE,
)

# ---- other languages

# Names that are also English words or single letters count in their own spelling only, and C, R and D with a word beside them.
LANGUAGE = (
    r"(?:C\+\+(?:\s?\d\d)?|C#|(?:Objective-)?C (?:language|programming language)|ANSI C|Java(?:[Ss]cript)?|JS|TypeScript"
    r"|Golang|Go language|Rust|Ruby|Haskell|Kotlin|Swift|Scala|Perl|PHP|Pascal|Delphi|Fortran|COBOL|Lisp|Scheme|Clojure"
    r"|Erlang|Elixir|OCaml|F#|Prolog|Lua|Julia|MATLAB|R language|Visual Basic|VB\.NET|SQL|MySQL|PL/SQL|[Bb]ash|[Aa]ssembly"
    r"|[Ss]hell script|[Bb]rainf\W*ck)"
)
ANY_LANGUAGE = re.compile(rf"\b(?=[A-Zabs]){LANGUAGE}")
INSTRUCTION = (
    r"(?:^|[,:;*(]\s*|\b(?:[Yy]ou (?:must|should|have to|need to|are to|are asked to|will)|[Pp]lease|(?:task|job|goal) is to) )"
    r"(?:\w+ly )?"
)
VERB = r"(?:[Ww]rite|[Ii]mplement|[Cc]reate|[Dd]evelop|[Cc]omplete|[Cc]ode|[Ss]olve|[Ss]ubmit|[Dd]esign|[Dd]efine|[Mm]ake)"
KIND = r"(?:program|function|code|class|method|script|query|queries|solution|snippet|procedure|statement)s?"
MUST = r"\b(?:must|should|has to|have to|needs to)"
END = r"(?![\w+#-])"
OTHER_LANGUAGE = re.compile(
    # "Write a Java program that ...", "complete the following C++ function"
    rf"{INSTRUCTION}{VERB} (?:(?:an?|the|this|your|following|given|simple|short) ){{0,3}}{LANGUAGE}[ -]{KIND}\b"
    # "Implement the queue below in C++", "solve it using only Haskell"
    rf"|{INSTRUCTION}{VERB}\b[^.\n]{{0,80}}?\b(?:in|using|with) (?:only |pure |plain |standard )?{LANGUAGE}{END}"
    # "Your program must be written in Pascal"
    rf"|{MUST} (?:only )?be (?:written|implemented|coded|submitted|done) (?:only )?(?:in|using) {LANGUAGE}{END}"
    # "Solutions are accepted only in Java", "you must use Rust"
    rf"|\b(?:only|exclusively) (?:in|use) {LANGUAGE}{END}|{MUST} use {LANGUAGE}{END}"
)
NO_DEMAND = re.compile(
    r"python|\b(?:any|other|another|favou?rite|chosen|preferred|either|whichever|several|different) (?:\w+ )*languages?"
    r"|\blanguages? (?:of your|you)\b|\bif you\b|\bfor (?:example|instance)\b|\be\.g\.|\bsuch as\b|\bnot\b|n't\b|\bavoid\b"
    r"|\b(?:interpreter|compiler|parser|translator|simulator|transpiler)\b",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|\n+")

# ---- a function is asked for

NO_INPUT = re.compile(
    r"\b(?:you )?(?:don't|do not|needn't|need not) (?:need to |have to )?(?:read|take) (?:any )?(?:the )?inputs?\b",
    re.IGNORECASE,
)


def allows_several_answers(statement: str) -> bool:
    """Whether more than one output is right, so that comparing with one expected output may reject a right program."""
    return SEVERAL_ANSWERS.search(" ".join(statement.split())) is not None


def needs_picture(statement: str) -> bool:
    """Whether the task itself, not only its examples and notes, points to a picture that is not in the text."""
    examples = EXAMPLES.search(statement)
    task = statement[: examples.start()] if examples else statement
    words = " ".join(task.lower().split())
    named = any(picture in words for picture in PICTURES) and PICTURE_WORDS.search(words) is not None
    return named or PICTURE_TAG.search(task) is not None


def demands_other_language(statement: str) -> bool:
    """Whether the reader is told to write in a language other than Python.

    No demand: a sentence that also names Python, leaves the choice, gives the language as an example or a condition, or
    is about a tool for it ("write an interpreter for Brainfuck").
    """
    if not ANY_LANGUAGE.search(statement):  # most name none, and the patterns below take a millisecond
        return False
    return any(OTHER_LANGUAGE.search(sentence) and not NO_DEMAND.search(sentence) for sentence in SENTENCE.split(statement))


def says_no_input(statement: str) -> bool:
    """Whether the statement says that input is not to be read, as sites do that ask for a function only."""
    return NO_INPUT.search(statement) is not None
