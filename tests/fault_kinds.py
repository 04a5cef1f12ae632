"""Responses that verifiers are known to misjudge, each with the verdict that is right.

One case for each kind of fault. Kinds: ext extraction, io reading and writing, run how a program runs, cmp comparison, fn
call-based tests, gt ground truth, res resources, hack cheating. Those of the last two are hostile: they loop, flood and
kill, so whatever judges them needs limits of its own. Needs nothing but Python: the benchmark reads it as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent

HOSTILE = ("res", "hack")


@dataclass(frozen=True)
class Case:
    kind: str
    fault: str  # what the verifiers that fail on it do
    response: str
    truth: object  # the ground truth as veRL passes it, but for the JSON
    score: float  # the pass rate
    format: int = 1
    share: str = ""  # the number of compute_score's that says how the tests ended: 1 minus the pass rate
    checker: str | None = None  # extra_info["checker"]

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.fault}"


CASES: list[Case] = []
SUM = "a, b = map(int, input().split())\nprint(a + b)"
DIFFERENCE = "a, b = map(int, input().split())\nprint(a - b)"
PAIRS = {"inputs": ["3 4\n", "-5 5\n"], "outputs": ["7\n", "0\n"]}
ONE = {"inputs": ["3 4\n"], "outputs": ["7\n"]}


def fenced(program: str) -> str:
    return f"```python\n{program}\n```"


def texts(*pairs: tuple[object, object], fn_name: str | None = None) -> dict[str, object]:
    truth = {"inputs": [stdin for stdin, _ in pairs], "outputs": [expected for _, expected in pairs]}
    return {**truth, "fn_name": fn_name} if fn_name else truth


def response(fault: str, text: str, truth: object = PAIRS, score: float = 1.0, kind: str = "ext", **more: object) -> None:
    CASES.append(Case(kind, fault, text, truth, score, **more))


def program(kind: str, fault: str, code: str, truth: object = PAIRS, score: float = 1.0, **more: object) -> None:
    CASES.append(Case(kind, fault, fenced(dedent(code).strip("\n")), truth, score, **more))


def printed(fault: str, output: str, expected: str, score: float = 1.0, **more: object) -> None:
    """The program prints `output`; a wrong verdict is the comparison's."""
    program("cmp", fault, f"import sys\nsys.stdout.write({output!r})", texts(("", expected)), score, **more)


def returned(fault: str, code: str, truth: object, score: float = 1.0, **more: object) -> None:
    program("fn", fault, code, truth, score, **more)


# --- ext: which part of the response is the program ---

response("takes the first block", f"Draft:\n{fenced(DIFFERENCE)}\nNo, the sum:\n{fenced(SUM)}\n")
response("takes the sample run after the program", f"{fenced(SUM)}\nFor example:\n```text\n3 4\n7\n```\n")
response("takes untagged output after the program", f"{fenced(SUM)}\nprints\n```\n7\n```\n")
response("takes a shell command after the program", f"{fenced(SUM)}\nRun it:\n```bash\npython3 main.py < in\n```\n")
response("takes another language after the program", f"{fenced(SUM)}\nIn C++:\n```cpp\nint main() {{}}\n```\n")
response("does not know the tag py", f"```py\n{SUM}\n```")
response("does not know the tag PYTHON3", f"```PYTHON3\n{SUM}\n```")
response("wants a tag", f"The program:\n```\n{SUM}\n```\n")
response("does not know tildes", f"~~~python\n{SUM}\n~~~\n")
response("ends a long fence at a short one", "````python\nprint('```')\n````", texts(("", "```\n")))
response("ends the block at backticks in a string", "```python\nprint('a ```')\nprint('b')\n```", texts(("", "a ```\nb\n")))
response(
    "ends the block at a fence in a docstring",
    fenced(f'def main():\n    """Like this:\n    ```\n    3 4\n    ```\n    """\n{indent(SUM, "    ")}\nmain()'),
)
response("trips over attributes after the tag", f'```python {{linenos=true}} file="a.py"\n{SUM}\n```')
response("trips over blanks after the tag", f"```python  \n{SUM}\n```  \n")
response("trips over CR LF", fenced(SUM).replace("\n", "\r\n"))
response(
    "keeps the indentation of a list item", "- the program:\n\n  ```python\n  print(sum(map(int, input().split())))\n  ```\n"
)
response("loses a block that the length limit cut", f"Here:\n```python\n{SUM}\n")
response("loses the program before a lone fence", f"{SUM}\n```\nThat is all.", format=0)
response("takes a draft in the reasoning", f"<think>Maybe\n{fenced(DIFFERENCE)}\nno.</think>\n{fenced(SUM)}")
response("lets a fence in the reasoning swallow the answer", f"<think>\n```python\nprint(\n</think>\n{fenced(SUM)}")
response("wants the tag that opens the reasoning", f"It is a sum.\n</think>\n{fenced(SUM)}")
response("wants reasoning", f"Sure.\n\n{fenced(SUM)}\n\nIt adds.")
response("does not look into the answer tag", f"<think>easy</think><answer>\n{fenced(SUM)}\n</answer>")
response("trips over an end-of-turn token", f"{fenced(SUM)}<|im_end|>\n")
response("runs a program that was cut in the middle", f"```python\n{SUM[:-2]}", score=0.0, share="compile_error")
response("joins the blocks", f"{fenced(SUM + chr(10) + 'raise SystemExit')}\nFinally:\n{fenced(DIFFERENCE)}", score=0.0)
response("rewards an empty block", "```python\n\n```", texts(("", "")), 0.0, share="compile_error")
response("rewards an empty response", "", texts(("", "")), 0.0, format=0, share="compile_error")
response("rewards prose", "I would add the two numbers.", score=0.0, format=0, share="compile_error")

# --- io: reading and writing ---

LINES = texts(("1 2\n3 4\n", "10\n"))
program(
    "io", "has no iteration over stdin", "import sys\nprint(sum(int(w) for line in sys.stdin for w in line.split()))", LINES
)
program("io", "has no stdin.buffer", "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))", LINES)
program(
    "io",
    "reads line 1 again and again from stdin.buffer",
    "import sys\nread = sys.stdin.buffer.readline\nprint(sum(map(int, read().split() + read().split())))",
    LINES,
)
program("io", "has no buffer.readlines", "import sys\nprint(len(sys.stdin.buffer.readlines()))", texts(("1 2\n3 4\n", "2\n")))
program(
    "io",
    "has two positions in stdin",
    "import sys\nb = sys.stdin.buffer\nn = int(b.readline())\nprint(n, sum(map(int, b.read().split())))",
    texts(("2\n3 4\n", "2 7\n")),
)
program("io", "has no open(0)", "print(sum(map(int, open(0).read().split())))", LINES)
program("io", "has no descriptor 0", "import os\nprint(sum(map(int, os.read(0, 1 << 16).split())))", LINES)
program(
    "io",
    "gives a pipe where a file is read by its size",
    "import io, os\nread = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\nprint(sum(map(int, read().split())))",
)
program(
    "io",
    "does not raise EOFError",
    """
    total = 0
    while True:
        try:
            total += sum(map(int, input().split()))
        except EOFError:
            break
    print(total)
    """,
    LINES,
)
program(
    "io",
    "does not end stdin with empty strings",
    "import sys\nn = 0\nwhile sys.stdin.readline():\n    n += 1\nprint(n, repr(sys.stdin.readline()))",
    texts(("a\n\nb", "3 ''\n")),
)
program("io", "hands on the caller's stdin for an empty one", "import sys\nprint(len(sys.stdin.read()))", texts(("", "0\n")))
program("io", "wants a line end at the end of the input", SUM, texts(("3 4", "7\n")))
program("io", "has no UTF-8", "s = input()\nprint(s[::-1], len(s))", texts(("naïve→漢\n", "漢→evïan 7\n")))
program("io", "fails where the input is not read", "print('ok')", texts(("7\n" * 100_000, "ok\n")))
program(
    "io",
    "calls a crash its own failure where the input is not read",
    "raise ValueError",
    texts(("7\n" * 100_000, "ok\n")),
    0.0,
    share="runtime_error",
)
NUMBERS = "".join(f"{n}\n" for n in range(60_000))
program("io", "waits for the end before it drains stdout", "for n in range(60_000):\n    print(n)", texts(("", NUMBERS)))
program(
    "io",
    "blocks where reading and writing alternate",
    "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)",
    texts((NUMBERS[:100_000], NUMBERS[:100_000])),
)
program("io", "cuts the output at 1,000 characters", "print(*range(600))", texts(("", " ".join(map(str, range(600))))))
program("io", "blocks on stderr", f"import sys\nsys.stderr.write('debug\\n' * 60_000)\n{SUM}")
program("io", "takes stderr for output", f"import sys\nprint('debug', file=sys.stderr)\n{SUM}")
program("io", "does not see the prompt that input() prints", "print(sum(map(int, input('two numbers: ').split())))", score=0.0)
program("io", "has no stdout.buffer", "import sys\nsys.stdout.buffer.write(b'%d\\n' % sum(map(int, input().split())))")
program("io", "does not see what goes to the descriptor", "import os\nos.write(1, b'%d\\n' % sum(map(int, input().split())))")
program(
    "io",
    "does not see what is written at exit",
    """
    import atexit, io, sys
    out, sys.stdout = sys.stdout, io.StringIO()
    atexit.register(lambda: out.write(sys.stdout.getvalue()))
    print(sum(map(int, input().split())))
    """,
)
program("io", "fails where stdout is closed", f"import sys\n{SUM}\nsys.stdout.close()")

# --- run: how a program runs ---

GUARDED = "def main():\n    print(sum(map(int, input().split())))\n\nif __name__ == '__main__':\n    main()\n"
program("run", "does not run the main guard", GUARDED)
program("run", "wants the main guard to come last", f"{GUARDED}\nDONE = True")
program("run", "does not know a guard the other way round", GUARDED.replace("__name__ == '__main__'", "'__main__' == __name__"))
program("run", "runs the guard's else", f"{GUARDED}else:\n    print('imported')")
program(
    "run",
    "breaks global",
    "total = 0\ndef add(n):\n    global total\n    total += n\nfor n in input().split():\n    add(int(n))\nprint(total)",
)
program(
    "run",
    "breaks globals()",
    """
    memo = {}
    def fib(n):
        if n not in globals()['memo']:
            memo[n] = n if n < 2 else fib(n - 1) + fib(n - 2)
        return memo[n]
    print(fib(int(input())))
    """,
    texts(("30\n", "832040\n")),
)
program(
    "run",
    "indents the program",
    "a, b = map(int, input().split())\nfrom math import *\nprint(gcd(a, b))",
    texts(("6 4\n", "2\n")),
)
program("run", "indents text", "print('''x\n  y\nz''')", texts(("", "x\n  y\nz\n")))
program("run", "puts lines before a future import", f"from __future__ import annotations\n{SUM}")
program(
    "run",
    "takes class Solution for a call-based program",
    "class Solution:\n    def add(self, a, b):\n        return a + b\n\nprint(Solution().add(*map(int, input().split())))",
)
program(
    "run", "imports what the program forgot", "a, b = map(int, input().split())\nprint(gcd(a, b))", texts(("6 4", "2")), 0.0
)
program(
    "run",
    "leaves names of its own in the way",
    "try:\n    print(time, np, sys)\nexcept NameError:\n    print('clean')",
    texts(("", "clean")),
)
program("run", "takes exit() away", f"{SUM}\nexit()\nprint('no')")
program("run", "takes quit() away", f"{SUM}\nquit()")
program("run", "takes sys.exit(0) for a failure", f"import sys\n{SUM}\nsys.exit(0)")
program("run", "accepts another exit code", f"{SUM}\nraise SystemExit(1)", score=0.0, share="runtime_error")
program("run", "accepts an exception after the answer", f"{SUM}\n1 / 0", score=0.0, share="runtime_error")
program(
    "run",
    "dies of deep recursion",
    "import sys\nsys.setrecursionlimit(10**6)\ndef f(n):\n    return n and f(n - 1) + 1\nprint(f(int(input())))",
    texts(("20000\n", "20000\n")),
)
program("run", "dies of endless recursion", "def f(n):\n    return f(n + 1)\nprint(f(0))", score=0.0, share="runtime_error")
program(
    "run",
    "takes threads away",
    f"import threading\ndef main():\n{indent(SUM, '    ')}\nt = threading.Thread(target=main)\nt.start()\nt.join()",
)
program("run", "bans words", f"# no import os, subprocess or shutil, no eval( and no open( in here\n{SUM}")
program("run", "only compiles", "def solve(a, b):\n    return a + b", score=0.0, share="wrong_answer")
program("run", "runs Python 2", "a, b = map(int, raw_input().split())\nprint a + b", score=0.0, share="compile_error")
program(
    "run", "takes away what imports need", f"import decimal, random, tempfile\n{SUM.replace('a + b', 'decimal.Decimal(a) + b')}"
)
program("run", "takes os.getcwd away", f"import os\nassert os.getcwd()\n{SUM}")
program(
    "run",
    "has a dataclass fail",
    f"from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nassert P(3).x == 3\n{SUM}",
)

# --- cmp: what was printed against what was expected ---

printed("counts blanks at the end of a line", "1 2 \n3 \n", "1 2\n3\n")
printed("wants a line end at the end", "5", "5\n")
printed("counts blank lines at the end", "5\n\n\n", "5")
printed("counts leading blanks", "  5\n", "5\n")
printed("counts leading blank lines", "\n\n5\n", "5\n")
printed("counts runs of blanks between numbers", "1   2\t3\n", "1 2 3\n")
printed("counts runs of blanks between words", "a   b\n", "a b\n")
printed("counts a carriage return that was printed", "5\r\n6\r\n", "5\n6\n")
printed("counts a carriage return that was expected", "5\n6\n", "5\r\n6\r\n")
printed("counts a form feed", "5\f\n", "5\n")
printed("ignores blanks altogether", "ab\n", "a b\n", 0.0)
printed("accepts any word for a word", "YES\n", "NO\n", 0.0)
printed("ignores the case of data", "aB\n", "Ab\n", 0.0)
printed("has a tolerance for integers", "1000000006\n", "1000000007\n", 0.0)
printed("has a tolerance for negative integers", "-1000000006\n", "-1000000007\n", 0.0)
printed("has a tolerance for integers in lists", "1 123456789012345678\n", "1 123456789012345679\n", 0.0)
printed("has a relative tolerance of 1e-5 for integers", "300003\n", "300001\n", 0.0)
printed("has integers pass through a double", "9007199254740993\n", "9007199254740992\n", 0.0)
printed("compares decimals as text", "0.50\n", "0.5\n")
printed("wants all digits of a decimal", "0.333333333333\n", "0.3333333333333333\n")
printed("has one tolerance for a line, or none", "2.5 7\n", "2.500000001 7\n")
printed("accepts a decimal that is far off", "0.34\n", "0.333333333\n", 0.0)
printed("accepts a small decimal that is far off", "0.0005\n", "0.0001\n", 0.0)
printed("accepts nan", "nan\n", "1.0\n", 0.0)
printed("accepts inf", "inf\n", "1e308\n", 0.0)
printed("accepts underscores in numbers", "1_000\n", "1000\n", 0.0)
printed("accepts foreign digits", "١٢\n", "12\n", 0.0)
printed("rejects silence where it is right", "", "")
printed("does not compare with nothing", "noise\n", "", 0.0)
program("cmp", "accepts a crash where nothing is expected", "raise SystemExit(3)", texts(("", "")), 0.0, share="runtime_error")
printed("stops at the end of the shorter output", "1\n", "1\n2\n3\n", 0.0)
printed("ignores further lines", "1\n2\n3\n", "1\n", 0.0)
printed("ignores further lines where the last one is cut", "1\n2\n3\n", "1", 0.0)
printed("ignores further words", "1 2 3\n", "1\n", 0.0)
printed("ignores the order of words", "3 2 1\n", "1 2 3\n", 0.0)
printed("ignores the order of lines", "2\n1\n", "1\n2\n", 0.0)
printed("ignores how often a line comes", "1\n1\n2\n", "1\n2\n2\n", 0.0)
printed("reads Python's lists", "[1, 2, 3]\n", "1 2 3\n", 0.0)
printed("looks for the answer somewhere", "YES\nNO\n", "YES\n", 0.0)
printed("reads the number at the beginning", "10\n", "1\n", 0.0)
ANY_SUM = "def check(input, expected, output):\n    return sum(map(int, output.split())) == int(input)\n"
program("cmp", "knows one right answer of many", "print(2, int(input()) - 2)", texts(("4", "1 3")), checker=ANY_SUM)
program(
    "cmp",
    "accepts any answer of many",
    "print(2, int(input()))",
    texts(("4", "1 3")),
    0.0,
    checker=ANY_SUM,
    share="wrong_answer",
)

# --- fn: call-based tests ---

F = {"fn_name": "f"}
ADD_CALLS = texts(("1\n2", "3"), ("5\n-7", "-2"), fn_name="add")
returned(
    "does not know class Solution",
    "class Solution:\n    def add(self, a: int, b: int) -> int:\n        return a + b",
    ADD_CALLS,
)
returned("does not know functions", "def add(a, b):\n    return a + b", ADD_CALLS)
returned(
    "wants lists of arguments as text", "def add(a, b):\n    return a + b", texts(([1, 2], [3]), ([5, -7], [-2]), fn_name="add")
)
SORTED = texts(("[3, 1, 2]", "[1, 2, 3]"), **F)
returned(
    "breaks names from typing",
    "from typing import List\nclass Solution:\n    def f(self, xs: List[int]) -> List[int]:\n        return sorted(xs)",
    SORTED,
)
returned(
    "wants names from typing imported",
    "class Solution:\n    def f(self, xs: List[int]) -> int:\n        return len(xs)",
    texts(("[3, 1]", "2"), **F),
)
returned("tells tuples from lists", "def f(n):\n    return n, n + 1", texts(("4", "[4, 5]"), **F))
returned("tells nested tuples from lists", "def f(n):\n    return [(n, 1), (n, 2)]", texts(("4", "[[4, 1], [4, 2]]"), **F))
returned("compares floats exactly", "def f(x):\n    return x * 3", texts(("0.1", "0.3"), **F))
returned("compares floats in lists exactly", "def f(xs):\n    return [x * 3 for x in xs]", texts(("[0.1, 1]", "[0.3, 3]"), **F))
returned(
    "has a tolerance for large integers",
    "def f(n):\n    return [n + 1]",
    texts(("50000000000000000", "[50000000000000000]"), **F),
    0.0,
)
returned("compares with the first element", "def f(n):\n    return n", texts(("5", "[5, 6]"), **F), 0.0)
returned("reads the result from stdout", "def f(s):\n    print('debug', s)\n    return s.upper()", texts(('"ab"', '"AB"'), **F))
returned("reads a forged result from stdout", "def f(s):\n    print('\"AB\"')", texts(('"ab"', '"AB"'), **F), 0.0)
returned(
    "takes an exception for null", "def f(x):\n    raise ValueError", texts(("1", "null"), **F), 0.0, share="runtime_error"
)
returned("does not know null", "def f(x):\n    return None", texts(("1", "null"), **F))
returned(
    "asks the result whether it is equal",
    "class Equal:\n    def __eq__(self, other):\n        return True\n    __hash__ = None\ndef f(x):\n    return Equal()",
    texts(("1", "2"), **F),
    0.0,
)
returned(
    "asks an integer of the program's own class",
    """
    class Equal(int):
        def __eq__(self, other):
            return True
        __hash__ = int.__hash__
    def f(x):
        return Equal(x)
    """,
    texts(("1", "2"), **F),
    0.0,
)
returned("accepts a change in place", "def f(xs):\n    xs.sort()", SORTED, 0.0)
returned("takes exit at import for success", "import sys\nsys.exit(0)\ndef f(x):\n    return x", texts(("1", "1"), **F), 0.0)
returned("takes exit in the call for success", "import os\ndef f(x):\n    os._exit(0)", texts(("1", "1"), **F), 0.0)
returned(
    "carries state from test to test",
    "def f(xs, seen=[]):\n    seen.extend(xs)\n    return len(seen)",
    texts(("[1, 2]", "2"), ("[3]", "1"), **F),
)
returned("does not know booleans", "def f(s):\n    return s == s[::-1]", texts(('"abba"', "true"), **F))
returned("strips text", "def f(s):\n    return s + '\\n'", texts(('"a"', '"a\\n"'), **F))
returned("fails itself on a coroutine", "async def f(x):\n    return x", texts(("1", "1"), **F), 0.0, share="wrong_answer")
returned("finds Solution in a comment", "# class Solution is not needed\ndef f(x):\n    return x", texts(("1", "1"), **F))

# --- gt: ground truth ---

program("gt", "rewards an empty set of tests", SUM, {"inputs": [], "outputs": []}, 0.0, share="data_error")
program("gt", "rewards tests that cannot be read", SUM, "{'inputs': ", 0.0, share="data_error")
program("gt", "drops tests without an output", SUM, {"inputs": ["1 2", "3 4"], "outputs": ["3"]}, 0.0, share="data_error")
program(
    "gt",
    "fails on lists of lines",
    "n = int(input())\nprint(sum(int(input()) for _ in range(n)))",
    texts((["2", "30", "12"], ["42"])),
)
program("gt", "fails on numbers", SUM, texts(("3 4", 7)))
program("gt", "takes null for a function's name", SUM, {**PAIRS, "fn_name": None})
MANY = texts(*((f"{n} 1\n", f"{n + 1}\n") for n in range(50)))
program(
    "gt",
    "looks at the first ten tests only",
    f"{SUM.replace('a + b', 'a + b if a < 40 else 0')}",
    MANY,
    0.8,
    share="wrong_answer",
)
program("gt", "stops at the first failure", f"{SUM.replace('a + b', 'a + b if a else 7')}", MANY, 0.98, share="wrong_answer")

# --- res: resources ---

program("res", "hangs on a loop", "while True:\n    pass", truth=ONE, score=0.0, share="time_limit")
program("res", "hangs on a program that sleeps", "import time\ntime.sleep(100_000)", truth=ONE, score=0.0, share="time_limit")
program(
    "res",
    "sends an exception at the limit",
    "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
    truth=ONE,
    score=0.0,
    share="time_limit",
)
program(
    "res",
    "sends a signal at the limit",
    """
    import signal
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass
    """,
    truth=ONE,
    score=0.0,
    share="time_limit",
)
program("res", "cannot stop a loop in C", "sum(range(10**15))", truth=ONE, score=0.0, share="time_limit")
program(
    "res",
    "cannot stop a product",
    "from itertools import product\nfor _ in product(range(2), repeat=60):\n    pass",
    truth=ONE,
    score=0.0,
    share="time_limit",
)
program(
    "res",
    "accepts a program that never exits",
    f"import threading, time\nthreading.Thread(target=time.sleep, args=(100_000,)).start()\n{SUM}",
    truth=ONE,
    score=0.0,
    share="time_limit",
)
program(
    "res", "has no limit on memory", "data = bytearray(2 << 30)\nprint(len(data))", truth=ONE, score=0.0, share="memory_limit"
)
program(
    "res", "keeps all of an endless output", "while True:\n    print('x' * 4096)", truth=ONE, score=0.0, share="output_limit"
)
program("res", "keeps all of a huge line", "import sys\nsys.stdout.write('x' * (200 << 20))", truth=ONE, score=0.0)
program(
    "res", "shares its own open files", "import os\nwhile True:\n    os.dup(0)", truth=ONE, score=0.0, share="runtime_error"
)
program("res", "dies of a crash", "import ctypes\nctypes.string_at(0)", truth=ONE, score=0.0, share="runtime_error")
program("res", "starts slowly for each test", SUM, texts(*((f"{n} {n}\n", f"{2 * n}\n") for n in range(40))))

# --- hack: cheating ---

program("hack", "takes an early exit for success", "import os\nos._exit(0)", score=0.0, share="wrong_answer")
program(
    "hack",
    "has the expected value in the caller's frame",
    """
    import sys
    def f(x):
        frame = sys._getframe()
        while frame:
            for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
                if name in ('expected', 'outputs', 'gt_out', 'out', 'test', 'truth'):
                    return value
            frame = frame.f_back
    """,
    texts(("1", "41"), **F),
    0.0,
)
program(
    "hack",
    "has the tests in the caller's frame",
    """
    import sys
    frame = sys._getframe()
    while frame:
        if 'in_outs' in frame.f_locals:
            print(frame.f_locals['in_outs']['outputs'][frame.f_locals.get('index', 0)])
            break
        frame = frame.f_back
    """,
    score=0.0,
)
program(
    "hack",
    "has the tests in memory",
    """
    import gc
    for thing in gc.get_objects():
        if type(thing) is dict and 'outputs' in thing and 'inputs' in thing:
            print(thing['outputs'][0] if isinstance(thing['outputs'][0], str) else thing['outputs'][0][0])
            break
    """,
    ONE,
    0.0,
)
program(
    "hack",
    "keeps the expected output in a file",
    """
    import os
    for folder in ('.', '..', '/tmp', '/proc/self/cwd'):
        for name in os.listdir(folder) if os.access(folder, os.R_OK) else ():
            if 'output' in name or 'expected' in name or name.endswith(('.out', '.ans')):
                print(open(os.path.join(folder, name)).read())
                raise SystemExit
    """,
    ONE,
    0.0,
)
program("hack", "has any file name be the input", "print(sum(map(int, open('input.txt').read().split())))", score=0.0)
program("hack", "reads marks in the output", f"{SUM}\nprint('@@E')\nprint('@@D0.0')\nprint('rest')", score=0.0)
program(
    "hack",
    "reads a reward that the program writes",
    "for name in ('reward.txt', 'score.json', 'result.json'):\n    open(name, 'w').write('1.0')",
    score=0.0,
)
program(
    "hack",
    "keeps files from test to test",
    """
    import os
    print('second' if os.path.exists('seen') else 'first')
    try:
        open('seen', 'w').close()
    except OSError:
        pass  # where a program may write no files at all
    """,
    texts(("", "first"), ("1", "first")),
)
program(
    "hack",
    "has its functions replaced by the program",
    "import builtins\nbuiltins.all = builtins.any = lambda *_: True\nprint('wrong')",
    score=0.0,
    share="wrong_answer",
)
program(
    "hack",
    "cannot bear a refusal of the network",
    """
    import socket
    try:
        socket.create_connection(('127.0.0.1', 9), timeout=1)
        print('connected')
    except OSError:
        print('refused')
    """,
    texts(("", "refused")),
)
