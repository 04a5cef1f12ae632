"""Extraction: which block of a response is the program, character by character."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verifier.extraction import extract
from verifier.python_text import language, literals, looks_like_python

ADD = "a, b = map(int, input().split())\nprint(a + b)"
DRAFT = "a, b = map(int, input().split())\nprint(a - b)"

DOCUMENTED = f"'''Adds.\n\n```\n3 4\n```\n'''\n{ADD}"


def fenced(code: str, info: str = "python", fence: str = "```", prefix: str = "") -> str:
    """`code` as a fenced block, each of its lines after `prefix`."""
    return "\n".join(prefix + line for line in [fence + info, *code.split("\n"), fence])


# Name: response, program. Where the program is not given, it is ADD.
BLOCKS = {
    "the last of two": (f"Draft:\n{fenced(DRAFT)}\nFixed:\n{fenced(ADD)}\n",),
    "text before the fence's line": (f"Use ``` for code.\n{fenced(ADD)}\nThe ``` ends it.",),
    "a fence alone after it": (f"{fenced(ADD)}\nDone.\n```\n",),
    "a fence alone before it": (f"```\nHere it is:\n\n{fenced(ADD)}",),
    "longer fence": (fenced("print('''\n```\n''')", fence="`````"), "print('''\n```\n''')"),
    "longer closing fence": (f"```python\n{ADD}\n`````\ntext",),
    "tildes around backticks": (fenced("x = '''\n```\n'''", fence="~~~~"), "x = '''\n```\n'''"),
    "backticks do not close tildes": ("~~~text\n```\n~~~\n" + fenced(ADD),),
    "a tilde fence's info string may hold backticks": (fenced(ADD, "python `x`", "~~~"),),
    "three spaces before the fences": (f"   ```python\n{ADD}\n   ```",),
    "in an indented fence, its indentation is taken off": (fenced(ADD, prefix="  "),),
    "CR LF": (fenced(ADD).replace("\n", "\r\n"),),
    "lone CR": (fenced(ADD).replace("\n", "\r"),),
    "blanks after the fences": (f"```python  \t\n{ADD}\n```   ",),
    "byte order mark": ("\ufeff" + fenced(ADD),),
    "ordered list": (f"1. Program:\n\n{fenced(ADD, prefix='   ')}",),
    "ordered list of two digits": (f"10. Program:\n\n{fenced(ADD, prefix='    ')}",),
    "bullet, on the marker's line": ("- " + fenced(ADD, prefix="  ")[2:],),
    "nested list": (f"- a\n  1. b\n\n{fenced(ADD, prefix='     ')}",),
    "list indented by tabs": (f"1. Program:\n\n{fenced(ADD, prefix=chr(9))}",),
    "list with the code at the margin": (f"1. Program:\n\n   ```python\n{ADD}\n   ```",),
    "list with the code at the margin, a comment first": (f"1. x\n\n   ```python\n# sum\n{ADD}\n   ```", f"# sum\n{ADD}"),
    "list whose fence has no end": (f"- Draft:\n  ```python\n  {DRAFT.split()[0]}\n\nText.\n\n{fenced(ADD)}",),
    "block quote": (fenced(ADD, prefix="> "),),
    "block quote without blanks": (fenced(ADD, prefix=">"),),
    "block quote in a list": (f"- x\n\n{fenced(ADD, prefix='  > ')}",),
    "block quote that ends before its fence does": (f"> ```python\n> x = 1\n\n{fenced(ADD)}",),
    "lazy text in a list": (f"1. some\ntext\n{fenced(ADD, prefix='    ')}",),
    "a thematic break is no list": (f"* * *\n{fenced(ADD)}",),
    "after a heading": (f"## Solution\n{fenced(ADD)}",),
    "after a tag that CommonMark takes for HTML": (f"<details>\n{fenced(ADD)}\n</details>",),
}

WITHOUT_AN_END = {
    "cut": (f"```python\n{ADD}", ADD),
    "cut within a docstring": ("```python\ndef f():\n    '''Adds\n    the", "def f():\n    '''Adds\n    the"),
    "cut with fences in the docstring": ("```python\n'''\n    ```\n    3\n", "'''\n    ```\n    3\n"),
    "opened again": (f"```python\n{DRAFT}\n```python\n{ADD}\n```", ADD),
    "another language follows": (f"```python\n{ADD}\n```text\n7\n```", ADD),
    "sample block without an end before": (f"```\n3 4\n```python\n{ADD}\n```", ADD),
    "fence glued to the code": (f"```python\n{ADD}```", ADD),
    "fence glued to the code, text after it": (f"```python\n{ADD}```\nThis adds.\n\nSample:\n```\n7\n```", ADD),
    "fence glued to the code, text on its line": (f"```python\n{ADD}``` which adds them.\nDone.", ADD),
    "fence glued to the code, after strings with fences": (
        f"```python\nx = '```'  # ```\n{ADD};y = '```'``` Done",
        f"x = '```'  # ```\n{ADD};y = '```'",
    ),
    "tildes in code": (fenced(f"x = ~~~5 + 1\n{ADD}", fence="~~~"), f"x = ~~~5 + 1\n{ADD}"),
    "closing fence far indented": (f"```python\n{ADD}\n      ```\nText.", ADD),
    "a blank block was opened last": (f"{fenced(ADD)}\nBetter:\n```python", ADD),
    "closing fence too short": (f"````python\n{ADD}\n```\nThis adds.\n\nSample:\n```\n7\n```", ADD),
    "closing fence of two backticks": (f"```python\n{ADD}\n``", ADD),
    "closing fence of another kind": (f"~~~python\n{ADD}\n```\nThis adds.", ADD),
    "such fences in strings and comments": (f"````python\n{DOCUMENTED}\n# ```\n", f"{DOCUMENTED}\n# ```"),
    "opened again by a shorter fence": (f"````python\n{fenced(ADD)}\n````", ADD),
    "the same, a string without an end before": (f"````python\nx = '''\n{fenced(DOCUMENTED)}", DOCUMENTED),
}

# The prompt ended in the opening fence.
OPENED_BY_THE_PROMPT = {
    "text about the code after it": (f"{ADD}\n```\nWe read with input() and print() the sum.", ADD),
    "text with code in backticks after it": (f"{ADD}\n```\n- `input().split()` reads\n- `print(a + b)` writes\n", ADD),
    "a sample after it": (f"{ADD}\n```\nSo for the sample\n```\n3 4\n```\nit will print(7).\n```\n7\n```", ADD),
    "pseudocode after it": (f"{ADD}\n```\nIn short:\nfor each pair:\n    print the sum", ADD),
    "Python's name first": (f"python\n{ADD}\n```\nThis adds.", ADD),
    "Python's name first, nothing else": (f"Python3\n{ADD}", ADD),
}

STRINGS = {
    "fence in a docstring at the margin": (fenced(f"'''\n```\n3 4\n```\n'''\n{ADD}"), f"'''\n```\n3 4\n```\n'''\n{ADD}"),
    "tagged fence in a docstring": (fenced(f'"""\n```python\nx\n```\n"""\n{ADD}'), f'"""\n```python\nx\n```\n"""\n{ADD}'),
    "fence in a comment": (fenced(f"# ```\n{ADD}  # ends ```"), f"# ```\n{ADD}  # ends ```"),
    "fence within a line": (fenced("print('```', \"```\")"), "print('```', \"```\")"),
    "line that ends in a string with a fence": (fenced("x = '```'\ny = 1"), "x = '```'\ny = 1"),
    "apostrophe in a comment": (fenced(f"# don't '''\n{ADD}"), f"# don't '''\n{ADD}"),
    "the other quote's triple": (fenced("x = '''\"\"\"'''\nprint(x)"), "x = '''\"\"\"'''\nprint(x)"),
    "escaped quotes": (fenced("x = '''\\'''\n```\n'''\nprint(x)"), "x = '''\\'''\n```\n'''\nprint(x)"),
    "a string without an end protects nothing": (f"```python\nx = '''abc\n```\nNow:\n{fenced(ADD)}", ADD),
    "nor if a later docstring seems to end it": (
        "```python\nx = '''abc\n```\nNow:\n" + fenced(f"'''doc'''\n{ADD}"),
        f"'''doc'''\n{ADD}",
    ),
}

OTHER_BLOCKS = {
    "sample text": (f"{fenced(ADD)}\nSample:\n{fenced('3 4', 'text')}", ADD),
    "sample output": (f"{fenced(ADD)}\nOutput:\n{fenced('7', '')}", ADD),
    "shell": (f"{fenced(ADD)}\n{fenced('python main.py < in.txt', 'bash')}", ADD),
    "another language": (f"{fenced(ADD)}\n{fenced('int main() { return 0; }', 'cpp')}", ADD),
    "console": (f"{fenced(ADD)}\n{fenced('>>> 3 + 4' + chr(10) + '7', 'pycon')}", ADD),
    "console tagged as Python": (f"{fenced(ADD)}\n{fenced('>>> 3 + 4' + chr(10) + '7')}", ADD),
    "notebook tagged as Python": (f"{fenced(ADD)}\n{fenced('In [1]: 3 + 4')}", ADD),
    "traceback tagged as Python": (
        f"{fenced(ADD)}\nIt failed:\n{fenced('Traceback (most recent call last):' + chr(10) + 'ValueError: int(x)')}",
        ADD,
    ),
    "comments tagged as Python": (f"{fenced(ADD)}\n{fenced('# Example:' + chr(10) + '# 3 4 (gives 7)')}", ADD),
    "sample input tagged as Python": (f"{fenced(ADD)}\nInput:\n{fenced('3 4')}\nOutput:\n{fenced('YES')}", ADD),
    "sample output tagged as Python": (f"{fenced(ADD)}\n{fenced('[(3, 4), (7, 8)]')}\n{fenced('(7,)')}", ADD),
    "sample output with a remark": (f"{fenced(ADD)}\n{fenced('Input: 3 4' + chr(10) + 'Output: 7 (3 + 4)')}", ADD),
    "sample with prose tagged as Python": (f"{fenced(ADD)}\n{fenced('Sample input (one line):' + chr(10) + '3 4')}", ADD),
    "complexity tagged as Python": (f"{fenced(ADD)}\n{fenced('O(n log n)')}", ADD),
    "command tagged as Python": (f"{fenced(ADD)}\n{fenced('$ python3 main.py  (then type)')}", ADD),
    "a call after a blank is a program": (f"{fenced(DRAFT)}\n{fenced('print (7)')}", "print (7)"),
    "a lambda is a program": (f"{fenced(DRAFT)}\n{fenced('f = lambda a, b: a + b')}", "f = lambda a, b: a + b"),
    "blank block": (f"{fenced(ADD)}\n{fenced('')}", ADD),
    "untagged program": (fenced(ADD, ""), ADD),
    "untagged program among samples": (
        f"{fenced('3 4', '')}\n{fenced(ADD, '')}\n{fenced('7', '')}\n{fenced('$ python a.py', '')}",
        ADD,
    ),
    "tagged before a later untagged one": (f"{fenced(ADD)}\n{fenced(DRAFT, '')}", ADD),
    "untagged text about the program": (f"{fenced(ADD, '')}\n{fenced('It will print(7) and stop.', '')}", ADD),
    "Python's name in the block": (fenced(f"python\n{ADD}", ""), ADD),
    "Python's name twice": (fenced(f"\nPython\n{ADD}"), ADD),
    "untagged C is no Python": (
        f"{fenced(ADD, '')}\n{fenced('int main() {' + chr(10) + '  print(1);' + chr(10) + '}', '')}",
        ADD,
    ),
    "a block that holds Markdown": (f"````markdown\n{fenced(ADD)}\n````", ADD),
    "an untagged block that holds Markdown": (f"````\n{fenced(ADD)}\n````", ADD),
    "a stray fence of another kind before": (f"~~~\nprose\n{fenced(ADD)}", ADD),
    "a stray fence between a draft and the program": (f"{fenced(DRAFT)}\n~~~~~~~~\nBetter:\n{fenced(ADD)}", ADD),
    "a stray fence in a list after a draft": (f"{fenced(DRAFT)}\n- ~~~text\n{fenced(ADD, prefix='  ')}\n\nDone.", ADD),
    "Markdown that was cut, after a draft": (f"{fenced(DRAFT)}\n````markdown\n# Title\n{fenced(ADD)}\nIt", ADD),
    "a longer stray fence before": (f"````\nprose\n{fenced(ADD)}\nDone", ADD),
}

LOOSE = {
    "text before the fence": (f"Solution: {fenced(ADD)}", ADD),
    "indented as code": (f"Solution:\n\n{fenced(ADD, prefix='    ')}", ADD),
    "indented as code, after a draft": (f"{fenced(DRAFT)}\n\nFixed:\n\n{fenced(ADD, prefix='    ')}", ADD),
}

REASONING = {
    "closed": (f"<think>\n{fenced(DRAFT)}\n</think>\n{fenced(ADD)}", ADD),
    "opened by the chat template": (f"{fenced(DRAFT)}\nno.\n</think>\n{fenced(ADD)}", ADD),
    "with a fence without an end": (f"<think>\n```python\nprint(0)\n</think>\n{fenced(ADD)}", ADD),
    "with a fence and a string without an end": (f"<think>\n```python\n'''\nprint(0)\n</think>\n{fenced(ADD)}", ADD),
    "with a string without an end, before a docstring": (
        f"<think>\n```python\nx = '''\n</think>\n{fenced(DOCUMENTED)}",
        DOCUMENTED,
    ),
    "opened by the template, with such a string": (f"```python\nx = '''\n</think>\n{fenced(DOCUMENTED)}", DOCUMENTED),
    "the same, glued to the fence": (f"```python\nx = '''\n</think>{fenced(DOCUMENTED)}", DOCUMENTED),
    "glued to the fences around its end": (f"<think>\n```\n3 4\n```</think>{fenced(ADD)}", ADD),
    "with an apostrophe before its end": (f"```python\nprint(0)\nI don't know.</think>\n{fenced(ADD)}", ADD),
    "never closed": (f"<think>\nSo:\n{fenced(DRAFT)}\n", ""),
    "never closed, after the answer": (f"{fenced(ADD)}\n<think>\nIs it right?\n{fenced(DRAFT)}", ADD),
    "twice": (f"<think>a</think>\n{fenced(DRAFT)}\n<think>b</think>\n{fenced(ADD)}", ADD),
    "in capitals": (f"<THINK>\n{fenced(DRAFT)}\n</Think>\n{fenced(ADD)}", ADD),
    "by another name": (f"<reasoning>\n{fenced(DRAFT)}\n</reasoning>\n{fenced(ADD)}", ADD),
    "without a block after it": (f"<think>\n{fenced(DRAFT)}\n</think>\nI do not know.", "\nI do not know."),
    "in a string of the program": (fenced("print('</think>')"), "print('</think>')"),
    "in a string after real reasoning": (
        f"<think>x</think>\n{fenced('print(1, ' + chr(34) + '</think>' + chr(34) + ')')}",
        'print(1, "</think>")',
    ),
    "in a long string": (fenced("x = '''\n</think>\n'''\nprint(x)"), "x = '''\n</think>\n'''\nprint(x)"),
    "opened and closed in a long string": (fenced("x = '''<think>\n</think>'''"), "x = '''<think>\n</think>'''"),
    "in a comment of the program": (fenced(f"# </think>\n{ADD}"), f"# </think>\n{ADD}"),
    "in a program without a fence": ("print('</think>')", "print('</think>')"),
    "named in the prose": (f"The tag `</think>` ends it.\n{fenced(ADD)}", ADD),
    "named in the prose, in quotes": (f'{fenced(ADD)}\nI wrote "</think>" nowhere.', ADD),
    "a sample with both tags": (f"{fenced(ADD)}\n{fenced('<think>' + chr(10) + '</think>', '')}", ADD),
}

ANSWER_TAGS = {
    "around a block": (f"<think>sum</think>\n<answer>\n{fenced(ADD)}\n</answer>", ADD),
    "before another block": (f"<answer>\n{fenced(ADD)}\n</answer>\nTest:\n{fenced('assert True')}", ADD),
    "glued to the fences": (f"<answer>```python\n{ADD}```</answer>", ADD),
    "around a block without an end": (f"<answer>\n```python\n{ADD}\n</answer>", ADD),
    "never closed": (f"{fenced(DRAFT)}\n<answer>\n{fenced(ADD)}", ADD),
    "around bare code": (f"<answer>{ADD}</answer>", ADD),
    "without a block in them": (f"{fenced(ADD)}\n<answer>see above</answer>", ADD),
    "after reasoning that was never closed": (f"<think>\n{fenced(DRAFT)}\n<answer>\n{fenced(ADD)}\n</answer>", ADD),
    "named in such reasoning": (f"<think>\nIn <answer> tags:\n{fenced(DRAFT)}", ""),
    "at a line's start in reasoning": (f"<think>\n<answer>\n{fenced(DRAFT)}\n</think>\n{fenced(ADD)}", ADD),
    "twice": (f"<answer>{fenced(DRAFT)}</answer>\nNo:\n<answer>\n{fenced(ADD)}\n</answer>", ADD),
    "in the reasoning": (f"<think><answer>{fenced(DRAFT)}</answer></think>\n{fenced(ADD)}", ADD),
    "with reasoning in them that has a fence without an end": (f"<answer><think>```\n</answer></think>\n{fenced(ADD)}", ADD),
    "only named": (f"In <answer></answer> tags.\n{fenced(ADD)}", ADD),
    "in a string": (fenced("print('<answer>1</answer>')"), "print('<answer>1</answer>')"),
}

END_OF_TURN = {
    "behind the closing fence": (f"{fenced(ADD)}<|im_end|>", ADD),
    "several": (f"{fenced(ADD)}\n<|im_end|>\n<|endoftext|> \n", ADD),
    "other models'": (f"{fenced(ADD)}</s>", ADD),
    "behind a block without an end": (f"```python\n{ADD}<|eot_id|>", ADD),
    "behind bare code": (f"{ADD}<|endoftext|>", ADD),
    "a next turn": (f"{fenced(ADD)}<|im_end|>\n<|im_start|>user\nAnother\n{fenced(DRAFT)}", ADD),
    "in a string of the program": (fenced("print('<|im_end|>')"), "print('<|im_end|>')"),
}

ALL = {
    f"{group}: {name}": case
    for group, cases in {
        "blocks": BLOCKS,
        "without an end": WITHOUT_AN_END,
        "opened by the prompt": OPENED_BY_THE_PROMPT,
        "strings": STRINGS,
        "other blocks": OTHER_BLOCKS,
        "loose": LOOSE,
        "reasoning": REASONING,
        "answer tags": ANSWER_TAGS,
        "end of turn": END_OF_TURN,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", ALL)
def test_the_program_of_a_response(name: str):
    response, code = ALL[name] if len(ALL[name]) == 2 else (*ALL[name], ADD)
    assert extract(response).code.rstrip("\n") == code.rstrip("\n")


def test_says_which_block_and_whether_it_had_one():
    assert extract(f"{fenced(DRAFT)}\n{fenced(ADD)}\n{fenced('7', '')}").block == "2/3 python"
    assert extract(f"```python\n{ADD}").block == "unclosed 1/1 python"
    assert extract(fenced(ADD, "")).block == "1/1 untagged"
    assert extract(f"So: {fenced(ADD)}").block == "loose 1/1 python"
    assert extract(f"<think>{fenced(DRAFT)}</think>{fenced(ADD)}").block == "1/1 python"
    assert extract(ADD).block == "whole text"
    assert extract(f"{ADD}\n```\nThis adds.").block == "before the first fence"
    assert extract(f"<answer>{ADD}</answer>").block == "answer tag"
    with_block = (fenced(ADD), fenced(ADD, ""), f"```python\n{ADD}", fenced(""))
    assert [extract(text).format for text in with_block] == [1, 1, 1, 1]
    without = ("", ADD, f"{ADD}\n```", fenced("3 4", ""), fenced("int x;", "cpp"), f"<answer>{ADD}</answer>")
    assert [extract(text).format for text in without] == [0, 0, 0, 0, 0, 0]


def test_without_a_program_the_code_is_blank_or_the_text():
    assert extract("").code == ""
    assert extract(fenced("")).code == ""
    assert extract("I cannot solve this.").code == "I cannot solve this."
    assert extract(f"{ADD}\n```\n").code == ADD  # the prompt ended in the opening fence
    assert extract(f"Text.\n{fenced('3 4', '')}").code == f"Text.\n{fenced('3 4', '')}"


def test_rule_first_takes_the_first_python_block():
    text = f"{fenced('3 4', '')}\n{fenced('')}\n{fenced(ADD)}\n{fenced(DRAFT)}"
    assert extract(text, "first").code == ADD
    assert extract(text, "first").block == "3/4 python"
    assert extract(text).code == DRAFT
    with pytest.raises(ValueError, match="extraction rule"):
        extract(text, "longest")


@pytest.mark.parametrize(
    "info",
    [
        *("python", "Python", "PYTHON", "py", "py3", "python3", "Python3", "Python 3", "python3.11", "python2", "pypy3"),
        *(
            "ipython",
            "ipython3",
            "cpython",
            "python-3",
            " python ",
            "python title='main.py'",
            "python:main.py",
            "python,linenos",
        ),
        *("python_3", "python/3", "python-code", "Python_Solution", "py-script", "text/x-python", "x-python3"),
        *("python{1,3}", "python=", "{.python}", "{.numberLines .python}", "{python}", "{code-cell} ipython3", "[python]"),
        *("lang=python", 'lang="python"', "language-python", "lang:python", "main.py", "src/main.py"),
    ],
)
def test_names_of_python(info: str):
    assert language(info) == "python"
    assert extract(f"{fenced(ADD, info)}\n{fenced('7', '')}").code == ADD


@pytest.mark.parametrize(
    "info",
    [
        *("pycon", "python-repl", "py-repl", "pytb", "python-traceback", "python_output", "doctest"),
        *("c", "cpp", "java", "bash", "js title=x.py", "pyth"),
    ],
)
def test_names_of_other_languages(info: str):
    assert language(info) not in ("python", "")
    assert extract(fenced(ADD, info)).format == 0


@pytest.mark.parametrize("info", ["", " ", "text", "Plaintext", "code", "title='x'"])
def test_info_strings_that_name_no_language(info: str):
    assert language(info) == ""
    assert extract(fenced(ADD, info)).code == ADD


PROGRAMS = (
    ADD,
    "print(1)",
    "import sys\nsys.stdout.write('1')",
    "from math import *\nx = 1",
    "def f(x):\n    return x",
    "class Solution:\n    pass",
    "n = int(input())",
    "for i in range(3):\n    x = i",
    "[print(x) for x in range(3)]",
    "while True: print(input())",
    "n = int(input());\nprint(n);",
    'def f(x):\n    """\n    function to double x;\n    int x -> int {\n    """\n    return 2 * x',
    "#include both ends\nprint(1)",
    "func = int\nvar = func(input())\nprint(\n    var if var else 0\n)",
    "# void main() {\n# x -> y;\nprint(1)",
    "x = [print('all of these words') for _ in 'a b']  # in a row",
    "import sys\nx = 1 if sys.argv else lambda: not 1",
)
NO_PROGRAMS = (
    "",
    "3 4\n7",
    "YES",
    "N = 9, K = 4",
    "Input: 3\nOutput: 4",
    "$ python main.py\n7",
    "pip install numpy",
    "python3 main.py < input.txt",
    ">>> print(1)\n1",
    "Traceback (most recent call last):\n  File 'x', line 1, in <module>\n    print(x)\nNameError: x",
    "#include <cstdio>\nint main() {\n  print(1);\n}",
    "function f(x) {\n  print(x)\n}",
    "public class Main {\n}",
    "let x = input();\nprint(x)",
    "const [a, b] = solve(input)\nprint(a)",
    "fn f() -> i32\nprint (1)",
    "cin >> n;\nsolve(n);",
    '{"a": [1, 2]}',
    "the answer is printed",
    "We call print(x) at the end.",
    "`print(x)` shows it",
    "for each of them:\n    add it",
)


@pytest.mark.parametrize("text", PROGRAMS)
def test_looks_like_python(text: str):
    assert looks_like_python(text)
    assert extract(f"Text.\n{fenced(text, '')}").code == text


@pytest.mark.parametrize("text", NO_PROGRAMS)
def test_does_not_look_like_python(text: str):
    assert not looks_like_python(text)
    assert extract(f"Text.\n{fenced(text, '')}").format == 0


def test_strings_and_comments_of_a_line():
    spans, quote = literals("x = 'a' + \"b\"  # it's '''", None)
    assert [span[2] for span in spans] == ["string", "string", "comment"]
    assert quote is None
    assert literals("x = '''a", None) == ([(4, 8, "triple")], "'''")
    assert literals("a''' + 'b'", "'''") == ([(0, 4, "triple"), (7, 10, "string")], None)
    assert literals("it's", None) == ([], None)
    assert literals("x = ''", None) == ([(4, 6, "string")], None)
    assert literals("x = '''a", None, ("'''",))[1] is None


# What responses are made of, and what they are made of when they are broken.
PIECES = [
    *("```", "````", "~~~", "```python", "```py title='x'", "~~~python", "```text", "```cpp", "`", "x```"),
    *("<think>", "</think>", "<answer>", "</answer>", "<|im_end|>", "<|im_start|>", "</s>"),
    *('"""', "'''", "'", '"', "\\", "#", "# c", "> ", "- ", "1. ", "   ", "    ", "\t", " "),
    *("\n", "\n\n", "\r\n", "\r", "print(1)", "x = 1", "def f():", "text", "\ufeff", "\x0c", "\u2028", "\ud800"),
]
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=40).map("\n".join),
    st.text(max_size=200),
)


@settings(max_examples=1000, deadline=None)
@example("<answer><think>```\n</answer>", "last")
@example("a<think>b</think>c", "last")
@given(texts, st.sampled_from(["last", "first"]))
def test_never_raises_and_invents_nothing(text: str, rule: str):
    extracted = extract(text, rule)
    assert extracted.format in (0, 1)
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.strip() for line in extracted.code.split("\n")]
    assert all(line in plain for line in lines)
    if extracted.format == 0:
        assert all(part in plain for part in extracted.code.split("\n"))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab =\n'\"#()\\", max_size=80), texts)
def test_a_block_in_a_fence_longer_than_any_other_comes_back(code: str, before: str):
    """What stands before may be anything that leaves no fence, tag or container open."""
    before = before.replace("<", "(").replace("`", "'").replace("~", "-")
    response = f"{before}\n\n# Solution\n\n{fenced('print(0)' + chr(10) + code + chr(10) + 'print(1)', fence='`' * 50)}"
    assert extract(response).code == f"print(0)\n{code}\nprint(1)"


HOSTILE = {
    "backticks": "`" * 2_000_000,
    "fences": "```\n" * 100_000,
    "python fences": "```python\n" * 50_000,
    "backticks and text": "`" * 1_000_000 + "x`" + "`" * 1_000_000,
    "strings that seem to have no end": "```python\n# '''\n'''\n" * 50_000,
    "tags in a string": "```python\n'''" + "</think>" * 100_000,
    "fences behind a tag in a string": "```python\n'''\n</think>" + ">~~~" * 500_000 + "`",
    "tags on one line": "<think></think>" * 50_000,
    "answers": "<answer>x</answer>" * 50_000,
    "quotes within quotes": ">" * 2_000_000,
    "lists within lists": "- " * 500_000,
    "a staircase of lists": "".join(" " * depth + "- a\n" for depth in range(1000)),
    "end-of-turn tokens": "</s> " * 200_000 + "x",
    "blanks": " " * 2_000_000 + "```python",
    "quotes": "```python\n" + "'" * 1_000_000,
    "a long info string": "```py" + ".1" * 500_000,
    "backticks in a block without an end": "```python\nx = '" + "`" * 1_000_000 + "'" * 1_000_000,
    "prose": "```\n" + "print the words of print(x)\n" * 50_000 + "```",
    "a long untagged line": "```\nimport " + "a." * 500_000 + "\n```",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_takes_linear_time(name: str):
    """The ceiling is far above what these take, and far below what quadratic time would."""
    started = time.process_time()
    extract(HOSTILE[name])
    assert time.process_time() - started < 60
