"""Call-based tests: what goes in arrives, what comes out is data, and only a function that returned has a result."""

from __future__ import annotations

import collections
import decimal
import enum
import fractions
import math
import os
import subprocess
import sys
import threading
import time

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifier.calls import Opaque, Record, decode_args, decode_value, driver, encode_args, encode_value

# As the executor does it: the result pipe becomes descriptor 3, the driver the main program.
RUN_DRIVER = "import os, sys\nos.dup2(int(sys.argv[1]), 3)\nexec(compile(sys.argv[2], 'main.py', 'exec'))"


def call(program: str, *arguments: object, fn_name: str = "f") -> tuple[object, int, bytes, bytes]:
    """Run the driver: the decoded value, the exit code, stdout, stderr."""
    return start(program, [*arguments], fn_name)


def start(program: str, arguments: list | dict | Record, fn_name: str = "f") -> tuple[object, int, bytes, bytes]:
    read_fd, write_fd = os.pipe()
    received: list[bytes] = []

    def read() -> None:
        with open(read_fd, "rb") as pipe:
            received.append(pipe.read())

    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-I", "-c", RUN_DRIVER, str(write_fd), driver(program, fn_name)]
    try:
        done = subprocess.run(command, input=encode_args(arguments), capture_output=True, pass_fds=[write_fd], timeout=60)
    finally:
        os.close(write_fd)
        reader.join()
    return decode_value(received[0]), done.returncode, done.stdout, done.stderr


def returned(program: str, *arguments: object, fn_name: str = "f") -> object:
    value, exit_code, _, stderr = call(program, *arguments, fn_name=fn_name)
    assert exit_code == 0, stderr.decode()
    return value


FOUND = {
    "function": ("def f(x): return x + 1", "f"),
    "method of Solution": ("class Solution:\n    def f(self, x): return x + 1", "f"),
    "static method": ("class Solution:\n    @staticmethod\n    def f(x): return x + 1", "f"),
    "class method": ("class Solution:\n    @classmethod\n    def f(cls, x): return x + 1", "f"),
    "inherited method": ("class Base:\n    def f(self, x): return x + 1\nclass Solution(Base): pass", "f"),
    "Solution before a function": ("def f(x): return 0\nclass Solution:\n    def f(self, x): return x + 1", "f"),
    "function beside a Solution": ("class Solution:\n    def g(self): pass\ndef f(x): return x + 1", "f"),
    "method of the only other class": ("class Answer:\n    def f(self, x): return x + 1", "f"),
    "named with its class": ("class A:\n    def f(self, x): return 0\nclass B:\n    def f(self, x): return x + 1", "B.f"),
    "lambda": ("f = lambda x: x + 1", "f"),
    "class that is only a comment": ("# class Solution:\ndef f(x): return x + 1", "f"),
    "class that is only a string": ("'''class Solution:'''\ndef f(x): return x + 1", "f"),
    "future import": ("from __future__ import annotations\ndef f(x: Nothing) -> Nothing: return x + 1", "f"),
    "state of a module": ("total = 1\ndef f(x):\n    global total\n    total += x\n    return total", "f"),
    "functions nested deeply": ("g = " + "lambda: " * 80 + "0\ndef f(x): return x + 1", "f"),
    "dataclass": ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\ndef f(x): return A(x).x + 1", "f"),
}


@pytest.mark.parametrize("name", FOUND)
def test_finds_the_function(name: str):
    program, fn_name = FOUND[name]
    assert returned(program, 4, fn_name=fn_name) == 5


@pytest.mark.parametrize("program", ["", "def g(x): return x", "class A:\n    def f(self): 0\nclass B:\n    def f(self): 0"])
def test_a_missing_function_is_an_error_of_the_program(program: str):
    value, exit_code, _, stderr = call(program, 4)
    assert isinstance(value, Opaque)
    assert exit_code == 1
    assert b"NameError: the program defines no f" in stderr


TYPED = "class Solution:\n    def f(self, xs: List[int], y: Optional[Dict[str, int]] = None) -> int: return len(xs)"
PRELUDE = {  # with [3, 1, 2]
    "typing": (TYPED, 3),
    "collections": ("def f(xs): return Counter(xs)[3] + len(deque(xs)) + len(defaultdict(list))", 4),
    "modules": ("def f(xs): return math.gcd(*xs) + len(collections.Counter(xs)) + bisect.bisect_left(xs, 1)", 4),
    "functions": ("def f(xs):\n    heapify(xs)\n    return heappop(xs) + sum(accumulate(xs))", 8),
    "decorator": ("@lru_cache(None)\ndef g(n): return n if n < 2 else g(n - 1) + g(n - 2)\ndef f(xs): return g(30)", 832040),
    "nested": ("def f(xs):\n    def g(): return [ceil(x / 2) for x in xs]\n    return sum(g())", 4),
    "more of typing": ("def f(xs: Literal[1], y: 'Final' = 0) -> typing.Annotated[List[int], 1]: return len(xs)", 3),
    "own definitions win": ("def gcd(a, b): return 100\ndef f(xs): return gcd(2, 4)", 100),
    "own imports win": ("from math import sqrt as ceil\ndef f(xs): return ceil(4)", 2),
}


@pytest.mark.parametrize("name", PRELUDE)
def test_usual_names_need_no_import(name: str):
    program, value = PRELUDE[name]
    assert returned(program, [3, 1, 2]) == value


REVERSE = """
class Solution:
    def f(self, head: Optional[ListNode]) -> Optional[ListNode]:
        before = None
        while head:
            head.next, before, head = before, head, head.next
        return before
"""
OWN_LIST = """
class ListNode:
    def __init__(self, x):
        self.val, self.next, self.own = x, None, True
class Solution:
    @lru_cache
    def f(self, head: 'ListNode | None', steps=0) -> 'ListNode':
        return head.next if head.own else None
"""
MERGE = """
def f(lists: List[Optional[ListNode]]):
    values = []
    for node in lists:
        while node:
            values.append(node.val)
            node = node.next
    return [ListNode(value) for value in sorted(values)]
"""
INVERT = """
from __future__ import annotations
def f(root: TreeNode) -> TreeNode:
    if root:
        root.left, root.right = f(root.right), f(root.left)
    return root
"""
CIRCLE = "def f(head: ListNode) -> ListNode:\n    head.next = head\n    return head"
NODES = {
    "linked list": (REVERSE, [1, 2, 3], [3, 2, 1]),
    "empty list": (REVERSE, [], []),
    "the program's own class": (OWN_LIST, [1, 2, 3], [2, 3]),
    "several lists": (MERGE, [[1, 3], [], [2]], [[1], [2], [3]]),
    "tree": (INVERT, [4, 2, 7, 1, 3, None, 9], [4, 7, 2, 9, None, 3, 1]),
    "uneven tree": (INVERT, [1, None, 2, 3], [1, 2, None, None, 3]),
    "empty tree": (INVERT, [], []),
    "a list by its hint": ("# no ListNode\ndef f(head: List[int]) -> List[int]: return head[1:]", [1, 2], [2]),
    "without a hint": ("def f(head): return ListNode(head[0], ListNode(5))", [1], [1, 5]),
    "a pair with a node": ("def f(head: ListNode): return head.next, head.val", [1, 2], [[2], 1]),
    "nothing where no node is due": ("def f(head: ListNode): head.val = 2", [1], None),
}


@pytest.mark.parametrize("name", NODES)
def test_lists_and_trees_of_nodes(name: str):
    program, argument, value = NODES[name]
    assert returned(program, argument) == value


def test_a_circle_of_nodes_is_no_value():
    value, exit_code, _, stderr = call(CIRCLE, [1, 2])
    assert isinstance(value, Opaque)
    assert exit_code == 1
    assert b"ValueError: the nodes form a circle" in stderr


PAIR = {"price": 7, "count": 3}  # 73 by name and in this order, 37 in the other
MEMO = """
def memo(function):
    known = {}
    @functools.wraps(function)
    def wrapper(*arguments):
        if arguments not in known:
            known[arguments] = function(*arguments)
        return known[arguments]
    return wrapper
@memo
def f(count, price, seen={}): return price * 10 + count
"""
BARE_MEMO = """
def passed_on(function):
    def wrapper(*arguments, **named): return function(*arguments, **named)
    return wrapper
@passed_on
def f(p, c): return p * 10 + c
"""
NODE_BY_NAME = """
def f(k: int, head: ListNode, *, add=0) -> ListNode:
    head.next.val += k + add
    return head.next
"""
BY_NAME = {
    "function": "def f(price, count): return price * 10 + count",
    "another order": "def f(count, price): return price * 10 + count",
    "a default beside": "def f(count, tax=0, price=0, more=[]): return price * 10 + count + tax + len(more)",
    "a default before": "def f(tax=0, *, count, price): return price * 10 + count + tax",
    "named only": "def f(*, count, price=0): return price * 10 + count",
    "positional only": "def f(count, /, price): return price * 10 + count",
    "any names": "def f(**named): return named['price'] * 10 + named['count']",
    "one and any names": "def f(count, **named): return named['price'] * 10 + count",
    "any number as well": "def f(count, price, *rest, **named): return price * 10 + count + len(rest) + len(named)",
    "method": "class Solution:\n    def f(self, count, price): return price * 10 + count",
    "static method": "class Solution:\n    @staticmethod\n    def f(count, price): return price * 10 + count",
    "class method": "class Solution:\n    @classmethod\n    def f(cls, count, price): return price * 10 + count",
    "decorated method": "class Solution:\n    @cache\n    def f(self, count, price): return price * 10 + count",
    "lambda": "f = lambda count, price: price * 10 + count",
    "decorated": MEMO,
    "decorated twice": "@cache\n@lru_cache(9)\ndef f(count, price): return price * 10 + count",
    "class": "class f(int):\n    def __new__(cls, *_): return int.__new__(cls, 73)\n    def __init__(self, count, price): pass",
    "object to be called": "class F:\n    def __call__(self, count, price): return price * 10 + count\nf = F()",
}
BY_POSITION = {
    "other names": "def f(p, c): return p * 10 + c",
    "other names and a default": "def f(p, c, tax=0): return p * 10 + c + tax",
    "one other name": "def f(price, c): return price * 10 + c",
    "any number": "def f(*numbers): return numbers[0] * 10 + numbers[1]",
    "one and any number": "def f(p, *numbers): return p * 10 + numbers[0]",
    "other names in a method": "class Solution:\n    def f(self, p, c): return p * 10 + c",
    "decorated without its names": BARE_MEMO,
    "what has no parameters to see": "f = functools.partial(lambda zero, p, c: p * 10 + c, 0)",
}
AS_RECORD = {
    "one parameter": "def f(order): return order['price'] * 10 + order['count']",
    "one and a default": "def f(order, tax=0): return order['price'] * 10 + order['count'] + tax",
    "a default": "def f(order=None): return order['price'] * 10 + order['count']",
    "one and another by name": "def f(order, *, tax=0): return order['price'] * 10 + order['count'] + tax",
    "one and any names of its own": "def f(order, **named): return order['price'] * 10 + order['count'] + len(named)",
    "a key's name": "def f(price): return price['price'] * 10 + price['count']",
    "method": "class Solution:\n    def f(self, order): return order['price'] * 10 + order['count']",
    "decorated": "@functools.wraps(lambda order: 0)\ndef f(*_): return _[0]['price'] * 10 + _[0]['count']",
    "in its own order": "def f(order): return 73 if list(order) == ['price', 'count'] else 0",
}


@pytest.mark.parametrize("name", BY_NAME | BY_POSITION)
def test_arguments_with_names(name: str):
    """As a text or a record gives them; one record or one of several."""
    program = (BY_NAME | BY_POSITION)[name]
    assert start(program, PAIR)[0] == 73
    assert start(program, Record(PAIR, PAIR, True, [*PAIR]))[0] == 73
    if name != "what has no parameters to see":
        assert start(program, Record(PAIR, PAIR, False, [*PAIR]))[0] == 73


@pytest.mark.parametrize("name", AS_RECORD)
def test_a_record_is_the_argument_of_a_function_that_takes_one(name: str):
    for likely in (True, False):
        value, _, _, stderr = start(AS_RECORD[name], Record({"count": 0, "price": 0}, PAIR, likely, [*PAIR]))
        assert value == 73, stderr.decode()


def test_records_that_the_parameters_do_not_tell_from_arguments():
    same = "def f(x): return x"
    for record, likely, value in (({"n": 5}, True, 5), ({"n": 5}, False, {"n": 5}), ({}, False, {})):
        arguments = Record(record, record, likely, [*record])
        assert start(same, arguments)[0] == value
        assert start("f = functools.partial(lambda x: x)", arguments)[0] == value
        assert decode_args(encode_args(arguments)) == [value]
    assert start("def f(n): return n", Record({"n": 5}, {"n": 5}, False, ["n"]))[0] == 5
    assert start("def f(): return 5", Record({}, {}, False, []))[0] == 5
    assert start("def f(n): return n", Record({"n": 5}, {"n": 5}, False, ["n", "m"]))[0] == {"n": 5}  # m is no parameter
    assert start("def f(n, m=0): return n", Record({"n": 5}, {"n": 5}, False, ["n", "m"]))[0] == 5
    assert start(same, {"n": 5})[0] == 5
    value, exit_code, _, stderr = start(same, PAIR)  # written as two arguments, they are no record
    assert (isinstance(value, Opaque), exit_code, b"TypeError" in stderr) == (True, 1, True)


def test_nodes_among_arguments_with_names():
    assert start(NODE_BY_NAME, {"head": [1, 2, 3], "k": 5})[0] == [7, 3]
    assert start(NODE_BY_NAME, {"head": [1, 2, 3], "k": 5, "add": 1})[0] == [8, 3]


def test_the_library_does_not_stand_in_for_the_function():
    value, exit_code, _, stderr = call("def other(a, b): return gcd(a, b)", 4, 6, fn_name="gcd")
    assert isinstance(value, Opaque)
    assert exit_code == 1
    assert b"NameError" in stderr


def test_the_program_is_a_module_and_its_demonstration_does_not_run():
    program = "def f(x): return x, __name__\nif __name__ == '__main__':\n    print(f(int(input())))"
    value, _, stdout, _ = call(program, 5)
    assert value == (5, "solution")
    assert stdout == b""


def test_prints_and_inputs_are_the_programs_own():
    value, _, stdout, _ = call("import sys\nprint('top')\ndef f(x):\n    print('in', x)\n    return sys.stdin.read()", 5)
    assert value == ""
    assert stdout == b"top\nin 5\n"


NO_RESULT = {
    "exit before the definition": "import sys\nsys.exit(0)\ndef f(x): return x",
    "exit in the call": "def f(x): exit(0)",
    "os._exit in the call": "import os\ndef f(x): os._exit(0)",
    "os._exit at the top": "import os\nos._exit(0)",
    "killed": "import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGKILL)",
    "exception": "def f(x): raise ValueError('boom')",
    "exception at the top": "1 / 0\ndef f(x): return x",
    "too many arguments": "def f(): return 1",
    "not to be called": "f = 5",
    "syntax": "def f(x: return x",
    "constructor": "class Solution:\n    def __init__(self): raise ValueError\n    def f(self, x): return x",
    "json on stdout": "import os\ndef f(x):\n    print('1', flush=True)\n    os._exit(0)",
    "a second result": "import os\ndef f(x):\n    os.write(3, b'[1]')\n    return [1]",
    "a result later": "import atexit, os\natexit.register(os.write, 3, b'[1]')\ndef f(x): return [1]",
    "half a result": "import os\ndef f(x):\n    os.write(3, b'[1')\n    os._exit(0)",
    "the descriptor closed": "import os\nos.close(3)\ndef f(x): return 1",
}


@pytest.mark.parametrize("name", NO_RESULT)
def test_without_a_return_there_is_no_result(name: str):
    value, exit_code, _, _ = call(NO_RESULT[name], 1)
    assert isinstance(value, Opaque)
    assert value.description in ("no value was returned", "a damaged value")
    if name in ("exception", "exception at the top", "syntax", "the descriptor closed"):
        assert exit_code == 1


def test_an_exit_code_after_the_return_is_the_programs():
    program = "import atexit, os\natexit.register(os._exit, 7)\ndef f(x): return x"
    value, exit_code, _, _ = call(program, 5)
    assert (value, exit_code) == (5, 7)


PLAIN = [
    *(None, True, False, 0, -1, 2**63, -(2**63), 2**63 - 1, 10**6000, -(10**6000)),
    *(0.1, -0.0, 1e308, 5e-324, math.inf, -math.inf, 1 + 2j, complex(math.inf, -0.0)),
    *("", "a", '"\\\n\r\t\0\x1f\x7f', "→😀", "\ud800", "\ud83d\ude00", b"", b"\x00\xff"),
    *([], [1, 2, 3], [1, "a", None, [True]], [[]], (), (1,), ((1, 2), [3]), [(1, 2)]),
    *(set(), {1, "a"}, frozenset(), {frozenset([1])}, {(1, 2)}),
    *({}, {"a": 1}, {1: "a", "1": "b", None: [1], (1, 2): {}, 1.5: 2, b"x": 3}),
    {"tuple": [1], "other": "x", "int": "5"},
]


@pytest.mark.parametrize("number", range(len(PLAIN)))
def test_plain_data_comes_back_as_it_was(number: int):
    value = PLAIN[number]
    found = decode_value(encode_value(value))
    assert found == value
    assert type(found) is type(value)


def test_plain_data_goes_through_a_process():
    values = [value for value in PLAIN if not isinstance(value, complex)]
    found = returned("def f(*values): return [values, [type(value).__name__ for value in values]]", *values)
    assert found == [tuple(values), [type(value).__name__ for value in values]]


def test_a_nan_stays_one():
    assert math.isnan(decode_value(encode_value(math.nan)))
    assert math.isnan(decode_value(encode_value([math.nan]))[0])


class Colour(enum.IntEnum):
    RED = 5


Point = collections.namedtuple("Point", "x y")
STANDS_FOR = [
    (Colour.RED, 5),
    (Point(1, 2), (1, 2)),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (collections.defaultdict(list, {1: [2]}), {1: [2]}),
    (collections.OrderedDict(a=1), {"a": 1}),
    (collections.deque([1, 2]), [1, 2]),
    (range(3), [0, 1, 2]),
    ({1: 2}.keys(), [1]),
    ({1: 2}.values(), [2]),
    ({1: 2}.items(), [(1, 2)]),
    (bytearray(b"ab"), b"ab"),
    (decimal.Decimal("0.5"), 0.5),
    (decimal.Decimal(10**30), 10**30),
    (fractions.Fraction(1, 4), 0.25),
    (numpy.int64(5), 5),
    (numpy.float64(0.5), 0.5),
    (numpy.bool_(True), True),
    (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ([numpy.int32(1), (numpy.float32(0.5),)], [1, (0.5,)]),
]


@pytest.mark.parametrize(("value", "plain"), STANDS_FOR)
def test_relatives_of_plain_data_become_plain_data(value: object, plain: object):
    found = decode_value(encode_value(value))
    assert found == plain
    assert type(found) is type(plain)


NO_DATA = {
    "coroutine": "async def f(x): return x",
    "generator": "def f(x): yield x",
    "iterator": "def f(x): return map(int, [x])",
    "function": "def f(x): return f",
    "class": "def f(x): return int",
    "module": "import sys\ndef f(x): return sys",
    "object": "def f(x): return object()",
    "claims to equal everything": "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()",
    "claims so within a list": "class A:\n    def __eq__(self, other): return True\ndef f(x): return [A()]",
}


@pytest.mark.parametrize("name", NO_DATA)
def test_other_objects_equal_nothing(name: str):
    value = returned(NO_DATA[name], 1)
    again = returned(NO_DATA[name], 1)
    for other in (1, [1], None, [None], again, object()):
        assert not value == other  # noqa: SIM201 - the operator that comparisons use
        assert value != other


def test_a_subclass_keeps_no_behaviour():
    program = """
class Number(int):
    def __eq__(self, other): return True
    def __repr__(self): return "12345"
    __hash__ = int.__hash__
class Text(str):
    def __eq__(self, other): return True
    def __str__(self): return "other"
class List(list):
    def __eq__(self, other): return True
def f(x): return [Number(1), Text("a"), List([2])]
"""
    value = returned(program, 1)
    assert value == [1, "a", [2]]
    assert [type(element) for element in value] == [int, str, list]


def test_cycles_and_depths_end():
    assert isinstance(returned("def f(x):\n    x = []\n    x.append(x)\n    return x", 1), list)
    deep = returned("def f(x):\n    for _ in range(100000): x = [x]\n    return x", 1)
    for _ in range(100):
        (deep,) = deep
    assert isinstance(deep, Opaque)
    fifty = returned("def f(x):\n    for _ in range(50): x = [{'a': (x,)}] if _ % 2 else [x]\n    return 7", 1)
    assert fifty == 7


def test_a_large_value_passes_the_pipe():
    assert returned("def f(n): return list(range(n))", 300_000) == list(range(300_000))
    assert returned("def f(s): return s * 1000", "ab\n" * 1000) == "ab\n" * 1_000_000
    assert returned("def f(xs): return len(xs)", list(range(300_000))) == 300_000


def test_arguments_are_not_shared_between_calls_nor_executed():
    assert encode_args([[1]]) == encode_args([[1]])
    assert encode_args([1, "→"]).isascii()
    with pytest.raises(ValueError, match="marshal"):
        encode_args([object()])


TEXTS = """
x   [   1 2   [1] [2]   [1]x   1,2   {"tuple"   {}   {"a":1,"b":2}   {"unknown":[]}   {"tuple":5}   {"set":[[]]}   {"dict":5}
{"dict":[[1]]}   {"dict":[[[],1]]}   {"int":"xyz"}   {"int":5}   {"bytes":"x"}   {"complex":[1]}   {"complex":["1",2]}   nul
[1,]   'a'   [{}]
"""
DAMAGED = [
    *(text.encode() for text in TEXTS.replace("\n", "   ").strip().split("   ")),
    *(b"", b"\xff\xfe", b"\x00", b"\xef\xbb\xbf1", b"1" * 5000, b'{"complex":[1,' + b"9" * 500 + b"]}"),
    *(b"[" * 1_000_000, b"[" * 100_000 + b"]" * 100_000, b'{"tuple":' * 50_000 + b"[]" + b"}" * 50_000),
]


@pytest.mark.parametrize("number", range(len(DAMAGED)))
def test_damaged_values_are_opaque(number: int):
    value = decode_value(DAMAGED[number])
    assert isinstance(value, Opaque)
    assert value != decode_value(DAMAGED[number])


def test_forged_values_cannot_hold_up_the_parent():
    """Each of these would take minutes, or gigabytes, if it were read without thought."""
    modulus = (1 << 61) - 1
    same_hash = b",".join(str(modulus * number).encode() for number in range(1, 4))
    assert decode_value(b'{"set":[' + same_hash + b"]}") == {modulus, modulus * 2, modulus * 3}
    same_hash = b",".join(b'{"int":"%x"}' % (modulus * number) for number in range(200_000))
    keys = b",".join(b'[{"int":"%x"},1]' % (modulus * number) for number in range(200_000))
    tuples = b",".join(b'{"tuple":[{"int":"%x"}]}' % (modulus * number) for number in range(200_000))
    hostile = [
        b'{"set":[' + same_hash + b"]}",
        b'{"frozenset":[' + tuples + b"]}",
        b'{"dict":[' + keys + b"]}",
        b"9" * 5_000_000,
        b"[" + b"9" * 5_000_000 + b"]",
        b"[" + b"[]," * 3_000_000 + b"[]]",
    ]
    for data in hostile:
        started = time.process_time()
        assert isinstance(decode_value(data), Opaque)
        assert time.process_time() - started < 30


def test_a_string_of_digits_is_no_long_number():
    assert decode_value(encode_value(["1" * 100_000, 5])) == ["1" * 100_000, 5]


hashable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
values = st.recursive(
    hashable | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
    ),
    max_leaves=8,
)


def shape(value: object) -> object:
    """The value with the type of every part, since 1, 1.0 and True are equal."""
    if isinstance(value, dict):
        return dict, sorted((repr(shape(key)), repr(shape(element))) for key, element in value.items())
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(repr(shape(element)) for element in value)
    if isinstance(value, (list, tuple)):
        return type(value), [shape(element) for element in value]
    return type(value), repr(value)


@settings(max_examples=200)
@given(values)
def test_every_value_comes_back_with_its_types(value: object):
    assert shape(decode_value(encode_value(value))) == shape(value)


@settings(max_examples=300)
@given(st.binary(max_size=50) | st.text(alphabet='[]{}",:0123456789abcdefintuplosx.-e', max_size=60).map(str.encode))
def test_decoding_never_raises(data: bytes):
    decode_value(data)


def test_the_driver_needs_nothing_but_its_text():
    """It runs where this project cannot be read; any text of a program survives being quoted in it."""
    source = driver("def f(x):\n    return '''→''' + \"\"\"\\\\'\"\"\" + x\n", "f")
    imports = {line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert imports == {"marshal", "os", "sys"}
    assert returned("def f(x):\n    return '''→''' + \"\"\"\\\\'\"\"\" + x\n", "\\") == "→\\'\\"
