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
STREAMS = {
    "buffered tail lost at os._exit": "import os\nfor i in range(20_000): print(i)\nos._exit(0)",
    "buffered bytes lost at os._exit": "import os, sys\nfor i in range(20_000): sys.stdout.buffer.write(b'%d\\n' % i)\nos._exit(0)",
    "buffered tail lost at abort": "import os\nfor i in range(20_000): print(i)\nos.abort()",
    "how far a line reads ahead": "import os, sys\nprint(sys.stdin.buffer.readline(), os.lseek(0, 0, 1))",
    "how far input() reads ahead": "import os\nprint(input(), os.lseek(0, 0, 1))",
    "two readers": "import os, sys\nprint(len(sys.stdin.readline()), len(open(0, closefd=False).read()), os.read(0, 9))",
    "rewound": "import os, sys\nprint(sys.stdin.readline())\nos.lseek(0, 0, 0)\nprint(os.read(0, 3), sys.stdin.readline())",
    "interactive": "for _ in range(2):\n    print('number?', flush=True)\n    print('got', input())\nprint(input('next: '), input())",
    "prompt to a closed stream": "import sys\nsys.stdout.close()\nsys.stdout = sys.stderr\nprint(input('x'))",
    "stdin detached": "import io, sys\nprint(io.TextIOWrapper(sys.stdin.detach(), 'latin-1').readline())",
    "stdout detached": "import sys\nb = sys.stdout.detach()\nb.write(b'raw')\nb.flush()",
    "stdin as latin-1": "import sys\nsys.stdin.reconfigure(encoding='latin-1')\nprint(sys.stdin.read().encode())",
    "strict errors": "import sys\nsys.stdout.reconfigure(errors='strict')\nprint('\\udcff')",
    "write through": "import os, sys\nsys.stdout.reconfigure(write_through=True)\nprint('a')\nos._exit(0)",
    "big line": "print('x' * 3_000_000)",
    "print to two": "import sys\nfor i in range(5000): print(i, file=sys.stdout if i % 2 else sys.stderr)",
    "memoryview": "import sys\nsys.stdout.buffer.write(memoryview(b'abc')[1:])\nsys.stdout.buffer.raw.write(b'first')",
    "helpers of site": "print(callable(help), callable(copyright), callable(credits), callable(license), quit, exit)\nhelp(abs)",
}  # fmt: skip
LIBRARY = {
    "decimal context": "from decimal import *\ngetcontext().prec = 50\nprint(Decimal(2).sqrt())\nwith localcontext() as c:\n    c.prec = 5\n    print(Decimal(1) / 7)",
    "fractions": "from fractions import Fraction as F\nprint(sum(F(1, n) for n in range(1, 30)), F('0.125').limit_denominator(4))",
    "caches": "from functools import cache, cached_property, singledispatch\n@cache\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(400), f.cache_info())",
    "int max str digits": "import sys\nprint(sys.get_int_max_str_digits())\nsys.set_int_max_str_digits(0)\nprint(len(str(7**9000)))\nint('9' * 5000)",
    "int max str digits reached": "print(10**5000)",
    "dummy pool": "from multiprocessing.dummy import Pool\nwith Pool(3) as p: print(p.map(len, ['a', 'bb', '']))",
    "futures": "from concurrent.futures import *\nwith ThreadPoolExecutor() as p:\n    fs = [p.submit(pow, 2, i) for i in range(9)]\n"
    "    print(sorted(f.result() for f in as_completed(fs)))\n    print(p.submit(int, 'x').exception())",
    "asyncio queue and threads": "import asyncio\nasync def main():\n    q = asyncio.Queue(2)\n    async def put():\n        for i in range(5): await q.put(i)\n"
    "    t = asyncio.create_task(put())\n    print([await q.get() for _ in range(5)], await asyncio.to_thread(sum, [1, 2]))\n"
    "    try: await asyncio.wait_for(asyncio.sleep(9), 0.01)\n    except asyncio.TimeoutError: print('late')\nasyncio.run(main())",
    "asyncio reads stdin": "import asyncio, sys\nasync def main(): print(await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline))\nasyncio.run(main())",
    "asyncio exception": "import asyncio\nasync def main(): raise ValueError('x')\nasyncio.run(main())",
    "asyncio over a pair": "import asyncio, socket\nasync def main():\n    a, b = socket.socketpair()\n    r, w = await asyncio.open_connection(sock=a)\n"
    "    w.writelines([b'x', b'y\\n'])\n    await w.drain()\n    print(b.recv(9))\n    w.close()\nasyncio.run(main())",
    "pickled to itself": "import enum, pickle\nclass E(enum.Enum): A = 1\nclass C:\n    def __init__(self): self.e = E.A\n    def __reduce__(self): return C, ()\n"
    "print(pickle.loads(pickle.dumps([C().e, C])), C.__qualname__)",
    "typing at run time": "from typing import *\nfrom dataclasses import *\n@dataclass(frozen=True, slots=True)\nclass P:\n    x: int = 1\n    y: Optional['P'] = field(default=None, repr=False)\n"
    "print(get_type_hints(P), P(), fields(P)[0].name, replace(P(), x=2), hash(P()) == hash(P()))",
    "protocol": "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass S(Protocol):\n    def size(self): ...\nclass A:\n    def size(self): return 1\nprint(isinstance(A(), S))",
    "file and argv": "import os, sys\nprint(os.path.basename(__file__), sys.argv[1:], os.path.basename(sys.argv[0]), __name__, __spec__)",
    "source of itself": "import inspect, sys\ndef f(x):\n    'doc'\n    return x\nclass A:\n    def g(self): pass\nprint(inspect.getsource(f), inspect.getsource(A), inspect.getsourcelines(A.g))",
    "traceback text": "import traceback\ndef f(): raise KeyError('k')\ntry: f()\nexcept KeyError as e:\n"
    "    print([(s.lineno, s.name, s.line) for s in traceback.extract_tb(e.__traceback__)])",
    "exec and its traceback": "import traceback\ntry: exec(compile('def g():\\n    1/0\\ng()', 'other', 'exec'))\nexcept ZeroDivisionError as e:\n"
    "    print([(s.filename, s.lineno) for s in traceback.extract_tb(e.__traceback__)[1:]])",
    "eval of ast": "import ast\nt = ast.parse('1 + 2', mode='eval')\nprint(eval(compile(t, 'x', 'eval')), ast.unparse(t), ast.literal_eval('[1, {2: 3}]'))",
    "code module": "import code\ncode.InteractiveInterpreter().runsource('print(6 * 7)')",
    "interactive console": "import code\ncode.interact(banner='', exitmsg='bye', readfunc=lambda prompt: (_ for _ in ()).throw(EOFError))",
    "exit in except": "import sys\ntry: sys.exit(3)\nexcept SystemExit as e: print(e.code)",
    "exit in finally": "import sys\ntry: 1 / 0\nfinally: sys.exit(4)",
    "exit in atexit": "import atexit, sys\natexit.register(lambda: sys.exit(7))\nprint(1)",
    "exit float": "import sys\nsys.exit(1.5)",
    "exit with an object": "import sys\nclass A:\n    def __str__(self): return 'said'\nsys.exit(A())",
    "exit true and false": "import sys\nsys.exit(False)",
    "exit with bytes": "import sys\nsys.exit(b'x')",
    "exit from signal handler": "import os, signal, sys\nsignal.signal(15, lambda *a: sys.exit(9))\nos.kill(os.getpid(), 15)\nprint('not here')",
    "subclass of SystemExit": "class E(SystemExit): pass\nraise E(6)",
    "own BaseException": "class E(BaseException): pass\nprint(1)\nraise E('x')",
    "KeyboardInterrupt raised": "print(1)\nraise KeyboardInterrupt",
    "GeneratorExit raised": "raise GeneratorExit",
    "recursion in repr": "a = []\na.append(a)\nclass R:\n    def __repr__(self): return repr(self)\nprint(a)\ntry: repr(R())\nexcept RecursionError as e: print(type(e).__name__)",
    "recursion limits with threads": "import sys, threading\nthreading.stack_size(256 << 20)\nsys.setrecursionlimit(200_000)\ndef f(n): return n and 1 + f(n - 1)\n"
    "for n in (10_000, 60_000):\n    t = threading.Thread(target=lambda: print(f(n)))\n    t.start()\n    t.join()",
    "recursion limit lowered": "import sys\nsys.setrecursionlimit(200)\ndef f(): f()\ntry: f()\nexcept RecursionError: print('deep')",
    "deep json": "import json\ns = '[' * 900 + ']' * 900\nprint(len(json.dumps(json.loads(s))))\njson.loads('[' * 100_000)",
    "interval timer": "import signal\nclass Out(Exception): pass\ndef out(*a): raise Out\nsignal.signal(signal.SIGALRM, out)\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\n"
    "try:\n    while True: pass\nexcept Out: print('out')",
    "profile timer": "import signal\nn = []\nsignal.signal(signal.SIGPROF, lambda *a: n.append(1))\nsignal.setitimer(signal.ITIMER_PROF, 0.01)\nwhile not n: pass\nprint('tick')",
    "pending signals": "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [10])\nos.kill(os.getpid(), 10)\nprint(signal.sigpending(), signal.sigwait([10]))",
    "thread killed": "import signal, threading\nsignal.signal(12, lambda *a: print('got'))\nsignal.pthread_kill(threading.get_ident(), 12)\nprint('on')",
    "ignored signal": "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nos.kill(os.getpid(), 15)\nprint('alive', signal.getsignal(15))",
    "times": "import time, datetime as d\nprint(d.date(2024, 2, 29) + d.timedelta(366), time.gmtime(0)[:6], time.strftime('%Y-%m-%d', time.gmtime(86400)), d.datetime.fromtimestamp(0, d.timezone.utc))",
    "local time": "import time\nprint(time.localtime(0)[:5], time.tzname)",
    "calendar": "import calendar\nprint(calendar.month(2024, 2), calendar.day_name[0])",
    "environment": "import os\nprint(os.environ.get('NO_SUCH'), os.getenv('X', 'd'), 'PATH' in os.environ)\nos.environ['A'] = 'b'\nprint(os.environ['A'])",
    "system": "import os, platform, sys\nprint(os.name, sys.platform, platform.system(), platform.python_implementation(), platform.python_version(), sys.byteorder, sys.maxsize, os.cpu_count() > 0)",
    "uuid and hashes": "import hashlib, hmac, uuid\nprint(uuid.UUID(int=5), uuid.uuid5(uuid.NAMESPACE_DNS, 'x'), hashlib.blake2b(b'x').hexdigest()[:9], hmac.new(b'k', b'm', 'sha256').hexdigest()[:9], len(str(uuid.uuid4())))",
    "compression": "import bz2, gzip, lzma, zlib\nfor m in (bz2, gzip, lzma, zlib): print(m.decompress(m.compress(b'x' * 1000)) == b'x' * 1000)",
    "sqlite in memory": "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (x)')\nc.executemany('insert into t values (?)', [(i,) for i in range(5)])\nprint(c.execute('select sum(x) from t').fetchall())",
    "shelf of files": "import shutil\nopen('a', 'w').write('x' * 9000)\nshutil.copyfileobj(open('a', 'rb'), open('b', 'wb'))\nprint(len(open('b').read()))",
    "copied file": "import os, shutil\nwith open('a', 'w') as f: f.write('x' * 9000)\nshutil.copyfile('a', 'b')\nprint(os.path.getsize('b'), sorted(os.listdir('.'))[:2])",
    "temporary in memory": "import tempfile\nwith tempfile.SpooledTemporaryFile(max_size=1000) as f:\n    f.write(b'abc')\n    f.seek(0)\n    print(f.read())",
    "ctypes": "import ctypes, ctypes.util\nc = ctypes.CDLL(None)\nprint(c.abs(-5), ctypes.sizeof(ctypes.c_long))\n@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))\n"
    "def cmp(a, b): return a[0] - b[0]\na = (ctypes.c_int * 4)(3, 1, 2, 0)\nc.qsort(a, 4, 4, cmp)\nprint(list(a))",
    "memory map of its own": "import mmap\nm = mmap.mmap(-1, 10_000)\nm[:3] = b'abc'\nm.resize(20_000)\nprint(m[:5], len(m), type(m), isinstance(m, mmap.mmap))\n"
    "for o in ({'access': mmap.ACCESS_WRITE}, {'access': mmap.ACCESS_COPY}, {'flags': mmap.MAP_PRIVATE}, {'prot': 3}, {'access': mmap.ACCESS_READ}):\n"
    "    m = mmap.mmap(-1, 9, **o)\n    m[0] = 65",
    "memory map of stdin": "import mmap\nprint(mmap.mmap(0, 5, mmap.MAP_PRIVATE)[:], mmap.mmap(0, 0, prot=mmap.PROT_READ)[:3])\nmmap.mmap(0, 0, 1, access=mmap.ACCESS_READ)",
    "finalizer order": "import atexit, weakref\nclass A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('del', self.n)\natexit.register(print, 'exit')\na = A(1)\nl = [A(2)]\nweakref.finalize(a, print, 'fin')\nprint('end')",
    "settrace": "import sys\nn = 0\ndef t(f, e, a):\n    global n\n    n += f.f_code.co_name == 'g'\n    return t\ndef g():\n    x = 1\n    return x\nsys.settrace(t)\ng()\nsys.settrace(None)\nprint(n)",
    "tracemalloc": "import tracemalloc\ntracemalloc.start()\nx = [bytes(1000) for _ in range(100)]\nprint(tracemalloc.get_traced_memory()[0] > 100_000)",
    "contextvars and generators": "import contextvars\nv = contextvars.ContextVar('v', default=1)\ndef g():\n    v.set(2)\n    yield v.get()\nprint(list(g()), v.get(), contextvars.copy_context().run(v.get))",
    "thread exceptions": "import threading\nthreading.excepthook = lambda a: print('hook', a.exc_type.__name__)\nt = threading.Thread(target=int, args=('x',))\nt.start()\nt.join()",
    "timer thread": "import threading\nthreading.Timer(0.05, print, ('fired',)).start()\nprint('main')",
    "barrier and condition": "import threading\nb = threading.Barrier(3)\nout = []\ndef f(i):\n    b.wait()\n    out.append(i)\nts = [threading.Thread(target=f, args=(i,)) for i in range(3)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nprint(sorted(out))",
    "many threads": "import threading\nts = [threading.Thread(target=lambda: None) for _ in range(300)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nprint(len(ts))",
    "seeded sequence": "import random\nr = random.Random(42)\nx = list(range(20))\nr.shuffle(x)\nprint(x, r.gauss(0, 1), r.choices('abc', k=5), r.getrandbits(70))",
    "heap and bisect": "import bisect, heapq\nh = [5, 3, 8]\nheapq.heapify(h)\nprint(heapq.heappushpop(h, 1), list(heapq.merge([1, 4], [2, 3])), bisect.bisect([1, 2, 2, 3], 2, key=lambda x: x))",
    "regular expressions": "import re\nprint(re.sub(r'(?P<a>\\w)(\\d+)', r'\\g<a>-\\2', 'x12 y3'), re.fullmatch('(a+)+b', 'a' * 20 + 'b').span(), re.findall(r'\\b\\w', 'naïve 漢字'))",
    "format and locale": "import locale\nprint(f'{1234567.891:,.2f} {255:#x} {3.0!r} {\"é\":>5} {1e100:.3g}', '%5.1f|%-5s|' % (2.25, 'a'), format(12345, 'n'))",
    "unicode data": "import unicodedata as u\nprint(u.name('é'), u.normalize('NFD', 'é').encode(), 'ß'.upper(), 'İ'.lower().encode(), '٣'.isdigit(), int('٣'))",
    "text codecs": "for e in ('utf-16', 'utf-7', 'cp1252', 'shift_jis', 'gb18030', 'big5', 'koi8-r', 'idna', 'punycode'):\n    print(e, 'abc'.encode(e), b'abc'.decode('ascii'))",
    "late standard modules": "for n in 'array cmath statistics textwrap pprint copy difflib operator struct colorsys graphlib ipaddress numbers reprlib "
    "shlex sched timeit types html urllib.parse xml.etree.ElementTree configparser argparse getopt'.split():\n    __import__(n)\nprint('all')",
    "wildcards of many modules": "from collections import *\nfrom itertools import *\nfrom functools import *\nfrom math import *\nfrom heapq import *\nfrom bisect import *\nfrom string import *\n"
    "from operator import *\nfrom random import *\nfrom sys import *\nprint(Counter('aab'), list(accumulate([1, 2])), maxsize, comb(5, 2))",
    "arguments by argparse": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=3)\nprint(p.parse_args())",
    "arguments refused": "import argparse\np = argparse.ArgumentParser(prog='p')\np.add_argument('n')\np.parse_args()",
    "doctest and unittest": "import doctest, unittest\ndef f():\n    '''\n    >>> f()\n    1\n    '''\n    return 1\nprint(doctest.testmod())\nclass T(unittest.TestCase):\n    def test_f(self): self.assertEqual(f(), 1)\nunittest.main()",
    "timeit and profile": "import cProfile, io, pstats, timeit\np = cProfile.Profile()\nprint(p.runcall(sum, [1, 2]), timeit.timeit('pass', number=10) >= 0, 'function calls' in (s := io.StringIO(), pstats.Stats(p, stream=s).print_stats())[0].getvalue())",
    "own import hook": "import importlib.abc, importlib.util, sys\nclass F(importlib.abc.MetaPathFinder, importlib.abc.Loader):\n    def find_spec(self, n, p, t=None): return importlib.util.spec_from_loader(n, self) if n == 'mine' else None\n"
    "    def exec_module(self, m): m.x = 5\nsys.meta_path.append(F())\nimport mine\nprint(mine.x)",
    "run path": "import runpy\nwith open('part.py', 'w') as f: f.write('print(__name__)')\nrunpy.run_path('part.py')",
    "globals and main": "import __main__, sys\nprint(sys.modules['__main__'] is __main__, '__file__' in globals(), sorted(k for k in globals() if k.startswith('__')))",
    "displayhook": "import sys\nsys.displayhook([1])\nprint(_)",
    "breakpoint": "import sys\nsys.breakpointhook = lambda: print('hook')\nbreakpoint()",
    "audit": "import sys\nseen = []\nsys.addaudithook(lambda e, a: seen.append(e) if e == 'mine' else None)\nsys.audit('mine')\nprint(seen)",
    "resource": "import resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_utime >= 0, resource.getpagesize())\nresource.setrlimit(resource.RLIMIT_STACK, (1 << 26, resource.getrlimit(resource.RLIMIT_STACK)[1]))",
    "matrix": "a = [[1, 2], [3, 4]]\nprint(*map(list, zip(*a)), sep='\\n')\nprint(complex(1, 2) ** 2, divmod(-7, 2), round(2.5), -7 // 2, pow(3, -1, 7), 0.1 + 0.2)",
    "selectors": "import os, selectors\nr, w = os.pipe()\ns = selectors.DefaultSelector()\ns.register(r, selectors.EVENT_READ)\nos.write(w, b'x')\nprint(len(s.select(1)), os.read(r, 1))",
    "wsgi and mail": "import email.message, json, xml.dom.minidom as x\nm = email.message.EmailMessage()\nm['To'] = 'é@x'\nm.set_content('hi')\nprint(m.as_string(), x.parseString('<a><b/></a>').toxml())",
    "modules named in a text": "exec('import base64, bz2')\nprint(base64.b64encode(b'x'), bz2.__name__)",
    "modules named in a call": "import importlib\nprint(__import__('zlib').crc32(b'x'), importlib.import_module('sqlite3').sqlite_version_info > (3,))",
    "locks of multiprocessing": "import multiprocessing as m, threading\nq, s, r = m.Queue(), m.BoundedSemaphore(2), m.RLock()\n"
    "threading.Thread(target=lambda: [q.put(i) for i in range(3)]).start()\nwith r, r, s: print([q.get() for _ in range(3)], r, s)\n"
    "e, c = m.Event(), m.Condition()\ne.set()\nwith c: print(e.wait(1), c.wait(0.01), m.Lock().acquire(False))\ns.release()",
}  # fmt: skip
PROBES = {**READING, **WRITING, **ENDING, **FILES, **RUNNING, **STREAMS, **LIBRARY}


@pytest.fixture(scope="module", autouse=True)
def _stop_server():
    yield
    client.discard()


@pytest.mark.parametrize("name", PROBES)
def test_same_as_python(name: str, tmp_path: Path) -> None:
    program = PROBES[name]
    (tmp_path / "main.py").write_bytes(program.encode())
    stdin = LINES + b"\nx y z" * 40_000 if "ahead" in name else LINES  # more than any buffer holds
    (tmp_path / "input").write_bytes(stdin)
    with (tmp_path / "input").open("rb") as source, (tmp_path / "output").open("wb") as stdout:
        native = subprocess.run(
            [sys.executable, "main.py"], stdin=source, stdout=stdout, stderr=-1, cwd=tmp_path, env=NATIVE, timeout=120
        )
    (ours,) = run_tests(program, [stdin], LIMITS)
    assert ours.stdout == (tmp_path / "output").read_bytes(), ours
    assert ours.exit_code == native.returncode, ours
    last_lines = [text.strip().rpartition("\n")[2] for text in (ours.stderr_tail, native.stderr.decode(errors="replace"))]
    assert last_lines[0] == last_lines[1]


def test_there_are_enough_probes() -> None:
    assert len(PROBES) >= 70
