# ruff: noqa: E501 - a probe program is easier to read on one line
"""A program ends and prints as under `python3 main.py < input`: each probe runs both ways.

Intended differences, which the probes leave out: a program starts no process, removes no file and makes no folder, has no
source file of its own and no installed package but numpy, and its random numbers and hashes are the same in every run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from verifier import client
from verifier.executor import run_tests
from verifier.verdict import Limits

LIMITS = Limits(cpu_seconds=30, wall_seconds=120)
NATIVE = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0"}
LINES = "3 4\nsecond line\n\nnaïve → 漢字\r\nlast without end".encode()

READING = {
    "input": "print(input())\nprint(repr(input()))",
    "input until EOF": "n = 0\ntry:\n    while True:\n        input(); n += 1\nexcept EOFError:\n    print('end', n)",
    "input past EOF": "while True: input()",
    "input with a prompt": "print(input('name? '))",
    "iteration": "import sys\nfor line in sys.stdin: print(repr(line))",
    "iteration twice": "import sys\nprint(len(list(sys.stdin)), len(list(sys.stdin)))",
    "read": "import sys\nprint(repr(sys.stdin.read()))",
    "read twice": "import sys\nprint(len(sys.stdin.read()), repr(sys.stdin.read()))",
    "read some": "import sys\nprint(repr(sys.stdin.read(5)), repr(sys.stdin.readline()), repr(sys.stdin.read(3)))",
    "readline at the end": "import sys\nsys.stdin.read()\nprint(repr(sys.stdin.readline()), repr(sys.stdin.readline()))",
    "readlines": "import sys\nprint(sys.stdin.readlines())",
    "buffer.read": "import sys\nprint(sys.stdin.buffer.read())",
    "buffer.readline": "import sys\nb = sys.stdin.buffer\nprint(b.readline(), b.readline(), b.read())",
    "buffer.readlines": "import sys\nprint(sys.stdin.buffer.readlines())",
    "buffer.readinto": "import sys\nb = bytearray(7)\nprint(sys.stdin.buffer.readinto(b), b)",
    "buffer.peek": "import sys\nprint(sys.stdin.buffer.peek(2)[:2], sys.stdin.buffer.read1(2))",
    "buffer.raw": "import sys\nprint(sys.stdin.buffer.raw.readall())",
    "open(0)": "print(open(0).read())",
    "open(0) without newline translation": "print(repr(open(0, newline='').read()))",
    "open(0, 'rb')": "print(open(0, 'rb').read())",
    "/dev/stdin": "print(open('/dev/stdin').read())",
    "os.read": "import os\nprint(os.read(0, 4), os.read(0, 1 << 16), os.read(0, 1))",
    "fstat": "import os\nprint(os.read(0, os.fstat(0).st_size))",
    "BytesIO": "import io, os\ninput = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\nprint(input(), input())",
    "mmap": "import mmap\nprint(mmap.mmap(0, 0, access=mmap.ACCESS_READ)[:])",
    "seek": "import sys\nsys.stdin.read()\nsys.stdin.seek(0)\nprint(sys.stdin.readline(), sys.stdin.seekable())",
    "rebound input": "import sys\ninput = sys.stdin.readline\nprint(repr(input()))",
    "split over lines": "import sys\nit = iter(sys.stdin.read().split())\nprint(int(next(it)) + int(next(it)), list(it))",
    "fileinput": "import fileinput\nprint([line for line in fileinput.input()])",
    "select": "import select, sys\nprint(select.select([sys.stdin], [], [], 0)[0] == [sys.stdin])",
    "closed stdin": "import sys\nsys.stdin.close()\nprint(1)\ninput()",
    "stdin replaced": "import io, sys\nsys.stdin = io.StringIO('7 8')\nprint(input())",
    "stdin is a file": "import os, stat\nprint(stat.S_ISREG(os.fstat(0).st_mode), os.isatty(0), os.lseek(0, 0, 1))",
}
WRITING = {
    "print": "print(1, 2, sep='-', end='!')\nprint(flush=True)",
    "write": "import sys\nsys.stdout.write('a\\r\\nb')",
    "writelines": "import sys\nsys.stdout.writelines(['a\\n', 'b'])",
    "buffer.write": "import sys\nsys.stdout.buffer.write(b'\\xff\\x00')",
    "text then bytes": "import sys\nprint('text')\nsys.stdout.flush()\nsys.stdout.buffer.write(b'bytes')",
    "os.write": "import os\nos.write(1, b'x' * 10)",
    "os.write overtakes print": "import os\nprint('second')\nos.write(1, b'first ')",
    "open(1)": "open(1, 'w').write('42')",
    "open(1) never closed": "f = open(1, 'w', closefd=False)\nf.write('42')",
    "fdopen": "import os\nwith os.fdopen(1, 'wb') as f: f.write(b'42')",
    "surrogates": "print('\\udcff')",
    "cannot be encoded": "print('\\ud800')",
    "unicode": "print('naïve → 漢字 😀')",
    "echo": "import sys\nsys.stdout.write(sys.stdin.read())",
    "many lines": "for i in range(50_000): print(i)",
    "join": "import sys\nsys.stdout.write('\\n'.join(map(str, range(100_000))))",
    "closed stdout": "import sys\nprint(1)\nsys.stdout.close()",
    "print after close": "import sys\nsys.stdout.close()\nprint(1)",
    "closed descriptor": "import os\nprint(1, flush=True)\nos.close(1)\nprint(2)",
    "stdout replaced": "import io, sys\nreal, sys.stdout = sys.stdout, io.StringIO()\nprint('lost')\nreal.write('kept')",
    "stdout detached": "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')\nprint('é')",
    "stdout detached, with codecs": "import codecs, sys\nsys.stdin = codecs.getreader('utf-8')(sys.stdin.detach())\n"
    "sys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach())\nprint(sys.stdin.readline())",
    "stdout detached for good": "import sys\nsys.stdout.detach().write(b'7')",
    "stdout deleted": "import sys\nprint(7)\ndel sys.stdout",
    "stderr detached": "import sys\nsys.stderr.detach()\nprint(1)",
    "redirect_stdout": "import contextlib, io\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): print('in')\nprint(b.getvalue())",
    "dup": "import os\nd = os.dup(1)\nos.write(d, b'a')\nos.close(d)\nprint('b')",
    "dup2": "import os\nos.dup2(1, 2)\nos.write(2, b'via stderr')",
    "tell and truncate": "import sys\nprint('junk', flush=True)\nsys.stdout.seek(0)\nsys.stdout.truncate()\nprint('good')",
    "reconfigure": "import sys\nsys.stdout.reconfigure(encoding='latin-1', line_buffering=True)\nprint('é')",
    "writes to stderr": "import sys\nprint('note', file=sys.stderr)\nprint(1)",
    "logging": "import logging\nlogging.warning('note')\nprint(1)",
    "devnull": "import os\nprint('lost', file=open(os.devnull, 'w'))\nprint(open(os.devnull).read() == '')",
    "stream attributes": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
    "    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.fileno(), s.buffer.raw.name, s.newlines)",
    "same objects": "import sys\nprint(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)",
}
ENDING = {
    "exit code": "import sys\nprint(1)\nsys.exit(3)",
    "exit none": "import sys\nsys.exit()",
    "exit true": "import sys\nsys.exit(True)",
    "exit negative": "import sys\nsys.exit(-1)",
    "exit big": "import sys\nsys.exit(256)",
    "exit huge": "import sys\nsys.exit(2**40 + 1)",
    "exit text": "import sys\nsys.exit('message')",
    "exit tuple": "import sys\nsys.exit((1, 2))",
    "exit()": "print(1)\nexit()",
    "quit(4)": "quit(4)",
    "raise SystemExit": "raise SystemExit(5)",
    "os._exit loses what is buffered": "import os\nprint('lost')\nos._exit(4)",
    "os.abort": "import os\nprint('lost')\nos.abort()",
    "exception": "print(1)\nint('x')",
    "exception with a cause": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e",
    "exception group" if sys.version_info >= (3, 11) else "exception chain": "try:\n    {}['x']\nfinally:\n    [][1]",
    "assert": "assert 1 == 2, 'no'",
    "excepthook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__, a[2].tb_lineno)\n1 / 0",
    "excepthook fails": "import sys\ndef hook(*a): raise KeyError\nsys.excepthook = hook\n1 / 0",
    "unraisable": "class A:\n    def __del__(self): 1 / 0\na = A()\ndel a\nprint(1)",
    "killed by itself": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "alarm": "import signal, time\nsignal.alarm(1)\ntime.sleep(20)",
    "signal handler": "import os, signal\nsignal.signal(10, lambda *a: print('got', a[0]))\nos.kill(os.getpid(), 10)\nprint('on')",
    "raise_signal": "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n    print('interrupted')",
    "signal defaults": "import signal\nprint([signal.getsignal(s) for s in (2, 13, 15, 25)])",
    "segmentation fault": "import ctypes\nctypes.string_at(0)",
    "atexit": "import atexit\natexit.register(print, 'last')\nprint('first')\n1 / 0",
    "atexit and os._exit": "import atexit, os\natexit.register(lambda: os._exit(9))\nprint('flushed before')",
    "thread overtakes what was printed": "import os, threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), os.write(1, b'second'))).start()\nprint('first')",
    "KeyboardInterrupt": "import atexit\natexit.register(print, 'last')\nprint('first')\nraise KeyboardInterrupt",
    "a kind of KeyboardInterrupt": "class K(KeyboardInterrupt): pass\nraise K",
    "interrupt_main": "import _thread, time\n_thread.interrupt_main()\ntime.sleep(20)",
    "exception without stderr": "import os\nos.close(2)\n1 / 0",
    "atexit and exit": "import atexit, sys\natexit.register(print, 'last')\nsys.exit(2)",
    "atexit fails": "import atexit\natexit.register(lambda: 1 / 0)\natexit.register(print, 'still')",
    "atexit flush": "import atexit, io, sys\nb = io.StringIO()\nreal, sys.stdout = sys.stdout, b\n"
    "atexit.register(lambda: real.write(b.getvalue()))\nprint(7)",
    "destructor at the end": "class A:\n    def __del__(self): print('gone', name)\nname = 'x'\na = A()",
    "destructor in a cycle": "class A:\n    def __del__(self): print('gone')\na = A()\na.me = a\ndel a\nprint('end')",
    "generator finally": "def g():\n    try:\n        yield 1\n    finally:\n        print('finally')\nx = g()\nprint(next(x))",
    "weakref.finalize": "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'finalized')",
    "thread after main": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\nprint('main')",
    "daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('main')",
    "exception in a thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\nprint('main')",
    "exit in a thread": "import sys, threading\nt = threading.Thread(target=sys.exit, args=(3,))\nt.start()\nt.join()\nprint('main')",
}
FILES = {
    "write and read": "with open('f.txt', 'w') as f: print('naïve', 7, file=f)\nprint(open('f.txt').read(), open('f.txt', 'rb').read())",
    "append and update": "open('f', 'w').write('one')\nopen('f', 'a').write('two')\nf = open('f', 'r+')\nf.write('O')\nf.seek(0)\n"
    "print(f.read())",
    "exclusive": "open('f', 'x').close()\ntry:\n    open('f', 'x')\nexcept FileExistsError:\n    print('exists')",
    "truncate": "f = open('f', 'w+')\nf.write('x' * 100)\nf.truncate(7)\nf.seek(0)\nprint(f.read())\nprint(len(open('f', 'w+').read()))",
    "no such file": "import os\nprint(os.path.exists('input.txt'))\nopen('input.txt')",
    "stdin from a file": "import sys\nopen('in.txt', 'w').write('5\\n6')\nsys.stdin = open('in.txt')\nprint(int(input()) + int(input()))",
    "stdout to a file": "import sys\nsys.stdout = open('out.txt', 'w')\nprint('lost')",
    "freopen by descriptor": "import os\nd = os.open('out.txt', os.O_CREAT | os.O_WRONLY)\nos.dup2(d, 1)\nprint('lost')",
    "pathlib": "from pathlib import Path\np = Path('f')\np.write_text('x\\ny')\nprint(p.read_text(), p.stat().st_size, p.exists(), p.is_file())",
    "json and csv": "import csv, json\njson.dump({'a': [1]}, open('f', 'w'))\nprint(json.load(open('f')))\n"
    "csv.writer(open('c', 'w')).writerow([1, 'x y'])\nprint(open('c').read())",
    "pickle": "import pickle\npickle.dump([1, 2], open('f', 'wb'))\nprint(pickle.load(open('f', 'rb')))",
    "mmap": "import mmap\nf = open('f', 'wb+')\nf.write(bytes(100))\nf.flush()\nm = mmap.mmap(f.fileno(), 0)\nm[0] = 65\nprint(m[:3], open('f', 'rb').read()[:3])",
    "own folder": "import os\nos.chdir(os.path.dirname(os.path.abspath(__file__)))\nopen('f', 'w').close()\nprint('f' in os.listdir(os.getcwd()))",
    "not closed": "f = open('f', 'w')\nf.write('x')\nprint(open('f').read() == '')",
}  # fmt: skip
RUNNING = {
    "main guard": "if __name__ == '__main__':\n    print('main')",
    "module names": "print(sorted(dir()), __name__, __package__, __spec__, __doc__, __cached__)",
    "docstring": "'''doc'''\nprint(__doc__)",
    "own module": "import __main__\nx = 5\nprint(__main__.x, __main__.__dict__ is globals())",
    "builtins": "print(type(__builtins__).__name__, exit, quit)\nimport builtins\nbuiltins.x = 3\nprint(x)",
    "argv": "import sys\nprint(len(sys.argv), sys.argv[0].endswith('main.py'))",
    "star import": "from math import *\nprint(gcd(12, 18))",
    "future": "from __future__ import annotations\ndef f(x: undefined): pass\nprint(f.__annotations__)",
    "future does not leak": "def f(x: undefined): pass",
    "pickle": "import pickle\nclass A: x = 3\nprint(pickle.loads(pickle.dumps(A())).x, A.__module__)",
    "dataclass": "from dataclasses import dataclass\n@dataclass(order=True)\nclass P:\n    x: int\nprint(P(3), P(1) < P(2))",
    "enum and namedtuple": "from collections import namedtuple\nimport enum\nprint(namedtuple('P', 'x')(1), enum.Enum('E', 'A B').A)",
    "typing": "from typing import List, NamedTuple\nclass P(NamedTuple):\n    x: List[int]\nprint(P([1]))",
    "recursion limit": "def f(n):\n    global deepest\n    deepest = n\n    f(n + 1)\n"
    "try:\n    f(0)\nexcept RecursionError:\n    print(deepest)",
    "infinite recursion": "def f(n): return f(n + 1)\nf(0)",
    "deep recursion": "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(20_000))",
    "deep recursion in a big thread": "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(512 << 20)\n"
    "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nt = threading.Thread(target=lambda: print(f(50_000)))\nt.start()\nt.join()",
    "stack limit idiom": "import resource\nresource.setrlimit(resource.RLIMIT_STACK, (64 << 20, -1))\nprint(1)",
    "threads": "from threading import Lock, Thread\nn, lock = 0, Lock()\ndef f():\n    global n\n    for _ in range(100):\n"
    "        with lock: n += 1\nts = [Thread(target=f) for _ in range(20)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nprint(n)",
    "thread names": "import threading\nprint(threading.current_thread().name, threading.main_thread() is threading.current_thread(), "
    "threading.active_count(), threading.stack_size())",
    "thread pool": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p: print(list(p.map(abs, range(-5, 0))))",
    "queue": "import queue, threading\nq = queue.Queue()\nthreading.Thread(target=q.put, args=(1,)).start()\nprint(q.get())",
    "asyncio": "import asyncio\nasync def f(x):\n    await asyncio.sleep(0.01)\n    return x\n"
    "async def main(): print(await asyncio.gather(f(1), f(2)))\nasyncio.run(main())",
    "late import": "def f():\n    import calendar\n    return calendar.isleap(2000)\nprint(f())",
    "dynamic import": "print(__import__('col' + 'orsys').rgb_to_hsv(1, 0, 0))",
    "no such module": "import no_such_module",
    "many modules": "import bisect, csv, decimal, fractions, hashlib, heapq, json, re, sqlite3, statistics, string, textwrap, zlib\n"
    "print(decimal.Decimal(1) / 3, fractions.Fraction(1, 3), hashlib.sha256(b'x').hexdigest(), json.dumps({'a': 1}))",
    "strptime": "from datetime import datetime\nprint(datetime.strptime('2024-02-29', '%Y-%m-%d'), datetime(2024, 1, 1).strftime('%A'))",
    "zoneinfo": "import zoneinfo\nprint(zoneinfo.ZoneInfo('UTC'))",
    "inspect": "import inspect\ndef f(): return 1\nprint(inspect.getsource(f), inspect.signature(f))",
    "traceback": "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    print(traceback.format_exc().splitlines()[-1])",
    "stack": "import sys\nf = sys._getframe()\nprint(f.f_code.co_name, f.f_lineno)",
    "exec": "exec('x = 1\\nprint(x)')\nprint(eval('x + 1'))",
    "hash": "print(hash('reward'), list({'a', 'b', 'c', 'd'}))",
    "seeded random": "import random\nrandom.seed(5)\nprint(random.random(), random.sample(range(100), 5))",
    "big integers": "print(2**4000 % (10**9 + 7), len(str(3**5000)))",
    "integer to text limit": "print(len(str(10**5000)))",
    "garbage collector": "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.garbage)",
    "warnings": "import warnings\nwarnings.warn('note')\nprint(1 is 1)",
    "deprecation": "import warnings\nwarnings.simplefilter('error')\ntry:\n    eval('1 is 1')\nexcept SyntaxWarning:\n    print('warned')",
    "locale": "import locale\nprint(locale.getlocale(), locale.setlocale(locale.LC_ALL, ''))",
    "locale and encodings": "import locale, sys\nprint(sys.getdefaultencoding(), sys.getfilesystemencoding(), locale.getpreferredencoding())",
    "folder": "import os\nprint(bool(os.getcwd()), os.path.basename(__file__))",
    "first free descriptor": "import os\nprint(os.dup(0))",
    "flags": "import sys\nprint(sys.flags.optimize, sys.flags.utf8_mode, sys.flags.hash_randomization, sys.dont_write_bytecode in (0, 1))",
    "frozen time": "import time\na = time.time()\ntime.sleep(0.01)\nprint(time.time() > a, time.perf_counter() > 0, time.process_time() > 0)",
    "byte order mark": "\ufeffprint(1)",
    "carriage returns": "x = '''a\r\nb'''\r\nprint(repr(x))\r\n",
    "form feed": "print(1)\n\f\nprint(2)",
    "coding line": "# -*- coding: utf-8 -*-\nprint('é')",
    "line continuation": "x = 1 + \\\n    2\nprint(x)",
    "last line is a comment": "print(1)\n# end",
    "empty": "",
    "walrus, match": "match [1, 2]:\n    case [a, b] if (c := a + b): print(c)",
}  # fmt: skip
PROBES = {**READING, **WRITING, **ENDING, **FILES, **RUNNING}


@pytest.fixture(scope="module", autouse=True)
def _stop_server():
    yield
    client.discard()


@pytest.mark.parametrize("name", PROBES)
def test_same_as_python(name: str, tmp_path: Path) -> None:
    program = PROBES[name]
    (tmp_path / "main.py").write_bytes(program.encode())
    (tmp_path / "input").write_bytes(LINES)
    with (tmp_path / "input").open("rb") as stdin, (tmp_path / "output").open("wb") as stdout:
        native = subprocess.run(
            [sys.executable, "main.py"], stdin=stdin, stdout=stdout, stderr=-1, cwd=tmp_path, env=NATIVE, timeout=120
        )
    (ours,) = run_tests(program, [LINES], LIMITS)
    assert ours.stdout == (tmp_path / "output").read_bytes(), ours
    assert ours.exit_code == native.returncode, ours
    last_lines = [text.strip().rpartition("\n")[2] for text in (ours.stderr_tail, native.stderr.decode(errors="replace"))]
    assert last_lines[0] == last_lines[1]


def test_there_are_enough_probes() -> None:
    assert len(PROBES) >= 70
