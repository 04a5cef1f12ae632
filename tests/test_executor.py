"""The executor: every limit has its verdict, tests run in order and lazily, and a failure of its own is never a verdict.

That programs behave as under plain Python is in test_parity.py; hostile ones are in test_attacks.py.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from leftovers import descendants

from verifier import calls, client, cores, executor, runner
from verifier.executor import run_tests
from verifier.slots import Slots
from verifier.verdict import Execution, Limits, Verdict

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(cpu_seconds=5, wall_seconds=60, memory_bytes=128 << 20, stdout_bytes=1 << 20)
QUICK = replace(LIMITS, cpu_seconds=0.4, wall_seconds=30)
ADD = "a, b = map(int, input().split())\nprint(a + b)\n"


def run(program: str, stdin: bytes = b"", limits: Limits = LIMITS, **arguments: object) -> Execution:
    (execution,) = run_tests(program, [stdin], limits, **arguments)
    return execution


def test_coding_line_does_not_change_the_text() -> None:
    assert run("# coding: latin-1\nprint('é')").stdout == "é\n".encode()


def test_deep_recursion_and_big_thread_stacks() -> None:
    # Through C from 3.10 to 3.11, where it needs the stack; 3.12 has a limit of its own for recursion through C.
    decorator = "@functools.cache\n" if sys.version_info < (3, 12) else ""
    recursion = (
        f"import functools, sys\nsys.setrecursionlimit(10**6)\n{decorator}"
        "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(20_000))"
    )
    assert run(recursion, limits=Limits()).stdout == b"20000\n"
    thread = (
        "import threading\nthreading.stack_size(512 << 20)\nt = threading.Thread(target=print, args=(7,))\nt.start()\nt.join()"
    )
    assert run(thread).stdout == b"7\n"


def test_a_short_program_that_is_long_when_compiled() -> None:
    """Each `finally` is compiled twice, one within another four times: a few lines need any amount of memory."""
    lines = [f"{' ' * depth}try:\n{' ' * depth} if x: return\n{' ' * depth}finally:" for depth in range(1, 19)]
    program = "def f(x):\n" + "\n".join(lines) + "\n" + " " * 19 + "x()\nprint(1)"
    most, done = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            for pid in descendants(client._running().process.pid):
                with contextlib.suppress(OSError, IndexError):
                    most = max(most, int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    execution = run(program)
    done.set()
    watcher.join()
    assert (execution.verdict, execution.message) == (Verdict.CE, "MemoryError: ")
    assert 512 << 20 < most < 3 << 29


def test_as_many_threads_as_stacks_find_room_for() -> None:
    program = (
        "import threading\ndone = threading.Event()\ndef work():\n    data = [bytearray(2000) for _ in range(50)]\n"
        "    done.wait()\nthreads = [threading.Thread(target=work, daemon=True) for _ in range(80)]\n"
        "for t in threads: t.start()\ndone.set()\nfor t in threads: t.join()\nprint(len(threads))"
    )
    assert run(program).stdout == b"80\n"


def test_a_crash_starts_no_program_of_the_hosts() -> None:
    """Where the kernel hands cores to one (apport, systemd-coredump), it takes a limit of 0 for any, and only 1 for none."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    limit = 0 if hard == 0 else 1
    output = run("import resource\nprint(*resource.getrlimit(resource.RLIMIT_CORE))").stdout
    assert output == b"%d %d\n" % (limit, limit)


def test_numpy_where_the_trainer_has_it() -> None:
    pytest.importorskip("numpy")
    program = "import numpy\nprint(numpy.arange(5).sum(), numpy.random.rand())"
    first, second = run_tests(program, [b"", b""], Limits())
    assert first.stdout.startswith(b"10 0.") and first.stdout == second.stdout
    assert run("print(__import__('numpy').arange(5).sum())", limits=Limits()).stdout == b"10\n"


def test_importing_beforehand_runs_no_command(tmp_path: Path) -> None:
    """Nothing is confined yet when the modules that a text names are imported: venv.__main__ would make an environment."""
    source = "import venv.__main__\nfrom unittest import __main__\nimport unittest.__main__, json.tests, colorsys"
    look = "print(*[name for name in sys.modules if '__main__' in name or name == 'colorsys'])"
    code = f"import sys\nfrom verifier import runner\nrunner.preload({source!r})\n{look}"
    environment = {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, "made"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, [*tmp_path.iterdir()]) == ("__main__ colorsys\n", "", [])


IMPORTS = {
    "import zlib": "zlib",
    "import math, zlib as z, bz2": "zlib bz2",
    "from math import gcd\nimport zlib\nfrom bz2 import open": "zlib bz2",
    "from decimal import *\nfrom zlib import *": "decimal zlib",
    "from math import (\n    gcd,  # (really)\n    lcm,\n)\nimport zlib": "zlib",
    "from math import gcd, \\\n    lcm\nimport zlib, \\\n    bz2": "zlib bz2",
    "if 1:\n\timport zlib; import bz2\ntry:import lzma\nexcept:pass": "zlib bz2 lzma",
    "from concurrent import futures\nfrom xml.etree import ElementTree as E": "concurrent.futures xml.etree.ElementTree",
    "from concurrent import(futures)": "concurrent.futures",
    "x = __import__('zlib').crc32\nfrom importlib import import_module\nimport_module( 'bz2')": "zlib bz2",
    "exec('import zlib; from bz2 import open')": "zlib bz2",
}


@pytest.mark.parametrize("source", IMPORTS)
def test_modules_that_a_text_names_are_found(source: str) -> None:
    compile(source, "", "exec")
    assert set(IMPORTS[source].split()) <= set(runner._modules_named(source))


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a secret")
    client.discard()  # the server that is started next would inherit it
    execution = run("import os\nprint(sorted(os.environ), os.listdir(os.getcwd()))")
    assert execution.stdout.startswith(b"['HOME', 'LANG', ")
    assert b"WANDB" not in execution.stdout
    assert execution.stdout.endswith(b" []\n")


def test_nothing_leaks_from_one_test_to_the_next() -> None:
    program = (
        "import math, random, sys\nprint(hasattr(math, 'mark'), random.random(), hash('x'), input(), len(sys.modules))\n"
        "math.mark = 1\nimport colorsys\nsys.stderr.write('noise')"
    )
    first, second, other = *run_tests(program, [b"a", b"a"], LIMITS), run(program, b"a")
    assert first.stdout.startswith(b"False")
    assert first.stdout == second.stdout == other.stdout


def test_the_same_in_every_process() -> None:
    """Hash and random seeds are fixed: another fork server gives the same output."""
    program = "import random\nprint(random.random(), hash('x'), list({'a', 'b', 'c', 'd', 'e'}))"
    first = run(program).stdout
    client.discard()
    assert run(program).stdout == first


def test_the_trainers_random_numbers_are_left_alone() -> None:
    state = random.getstate()
    assert run("print(1)").stdout == b"1\n"
    assert random.getstate() == state


def test_only_standard_streams_are_open() -> None:
    program = "import os\nfor n in range(3, 256):\n    try: print(n, os.fstat(n))\n    except OSError: pass\nprint(1)"
    assert run(program).stdout == b"1\n"


# --- verdicts ---

VERDICTS = {
    "busy": ("while True: pass", QUICK, Verdict.TLE),
    "busy in a thread": (
        "import threading\ndef f():\n    while True: pass\nthreading.Thread(target=f).start()",
        QUICK,
        Verdict.TLE,
    ),
    "catches everything": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        QUICK,
        Verdict.TLE,
    ),
    "ignores signals": (
        "import signal\nfor s in (1, 2, 14, 15, 24):\n    signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
        QUICK,
        Verdict.TLE,
    ),
    "asleep": ("import time\ntime.sleep(600)", replace(LIMITS, wall_seconds=1), Verdict.TLE),
    "stops itself": ("import os\nos.kill(os.getpid(), 19)", replace(LIMITS, wall_seconds=1), Verdict.TLE),
    "thread never ends": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()",
        replace(LIMITS, wall_seconds=1),
        Verdict.TLE,
    ),
    "resident memory": ("data = b'x' * (300 << 20)\nprint(1)", LIMITS, Verdict.MLE),
    "address space": ("data = bytearray(4 << 30)", LIMITS, Verdict.MLE),
    "slowly": ("data = []\nwhile True: data.append(bytearray(1 << 20))", LIMITS, Verdict.MLE),
    "caught MemoryError": ("try:\n    bytearray(4 << 30)\nexcept MemoryError:\n    print(1)", LIMITS, None),
    "untouched memory": ("import mmap\nm = mmap.mmap(-1, 400 << 20)\nprint(1)", LIMITS, None),
    "flood": ("while True: print('x' * 4096)", LIMITS, Verdict.OLE),
    "flood at once": ("print('x' * (40 << 20))", LIMITS, Verdict.OLE),
    "flood on stderr": ("import sys\nfor _ in range(50_000): sys.stderr.write('debug ' * 9 + '\\n')\nprint(1)", LIMITS, None),
    "exit code": ("raise SystemExit(1)", LIMITS, Verdict.RE),
    "exception": ("print(1)\nint('x')", LIMITS, Verdict.RE),
    "infinite recursion": ("def f(n): return f(n + 1)\nf(0)", LIMITS, Verdict.RE),
    "segmentation fault": ("import ctypes\nctypes.string_at(0)", LIMITS, Verdict.RE),
    "kills itself": ("import os\nos.kill(os.getpid(), 9)", LIMITS, Verdict.RE),
    "too many files": ("import os\nwhile True: os.dup(0)", LIMITS, Verdict.RE),
    "file": ("print(1, file=open('f', 'w'))\nprint(open('f').read(), end='')", LIMITS, None),
    "file elsewhere": ("open('/tmp/f', 'w')", LIMITS, Verdict.RE),
    "folder": ("import os\nos.mkdir('d')", LIMITS, Verdict.RE),
    "too many bytes in files": (
        "for n in range(200): open(str(n), 'wb').write(bytes(1 << 20))",
        LIMITS,
        Verdict.OLE,
    ),
    "process": ("import os\nos.fork()", LIMITS, Verdict.RE),
    "subprocess": ("import subprocess\nsubprocess.run(['true'])", LIMITS, Verdict.RE),
    "network": ("import socket\nsocket.socket()", LIMITS, Verdict.RE),
    "stderr without end": ("import sys\nwhile True: sys.stderr.write('x' * 4096)", QUICK, Verdict.TLE),
    "numpy's MemoryError": (
        "class ArrayMemoryError(MemoryError): pass\nraise ArrayMemoryError('Unable to allocate')",
        LIMITS,
        Verdict.MLE,
    ),
    "syntax error": ("print 'hello'", LIMITS, Verdict.CE),
    "null byte": ("print(1)\x00", LIMITS, Verdict.CE),
    "lone surrogate": ("print('\ud800')", LIMITS, Verdict.CE),
    "nested too deep": ("(" * 5000 + ")" * 5000, LIMITS, Verdict.CE),
    "prose": ("I would add the two numbers.", LIMITS, Verdict.CE),
    "syntax error in exec": ("print(1)\nexec('print 1')", LIMITS, Verdict.RE),
    "raises SyntaxError": ("raise SyntaxError('mine')", LIMITS, Verdict.RE),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name: str) -> None:
    program, limits, verdict = VERDICTS[name]
    started = time.monotonic()
    execution = run(program, limits=limits)
    assert execution.verdict is verdict, execution
    assert time.monotonic() - started < 55  # a hang ceiling only
    if verdict is None:
        assert execution.stdout == b"1\n"
    if verdict is Verdict.CE:
        assert execution.message and not execution.ran and execution.stdout == b""


def test_cpu_time_is_counted_not_wall_time() -> None:
    execution = run("import time\ntime.sleep(0.7)\nprint(1)", limits=QUICK)
    assert execution.verdict is None
    assert execution.cpu_seconds < 0.4 < execution.wall_seconds


def test_waiting_for_a_core_is_not_counted() -> None:
    """Four busy rivals on the test's core: the wall limit passes long before it has had that much of the core."""
    core = min(os.sched_getaffinity(0))
    rival = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
    command = [sys.executable, "-S", "-c", rival]
    rivals = [subprocess.Popen(command, start_new_session=True) for _ in range(4)]  # else the kernel takes them as one
    usable = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [core])
        client.discard()  # the next server, and its tests, inherit this core
        busy = "import time\nwhile time.process_time() < 0.5: pass\nprint(1)"
        execution = run(busy, limits=replace(LIMITS, wall_seconds=1))
        assert (execution.verdict, execution.stdout) == (None, b"1\n")
        assert execution.wall_seconds > 1
    finally:
        os.sched_setaffinity(0, usable)
        client.discard()
        for process in rivals:
            process.kill()
            process.wait()


def test_the_trainers_memory_is_not_taken_for_the_programs() -> None:
    ballast = b"x" * (300 << 20)
    assert run("print(1)").verdict is None
    assert len(ballast) == 300 << 20


# --- input and output ---


def test_big_input_and_output() -> None:
    data = os.urandom(1 << 20) * 8
    execution = run("import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())", data, Limits(), stdout_limits=[len(data)])
    assert execution.verdict is None
    assert execution.stdout == data


@pytest.mark.parametrize("program", ["print(1)", "import sys\nsys.stdin.close()\nprint(1)", "import os\nos.close(0)\nprint(1)"])
def test_big_input_that_is_not_read(program: str) -> None:
    assert run(program, b"x" * (8 << 20)).stdout == b"1\n"


def test_input_is_the_same_for_whoever_reads_it() -> None:
    program = "import os\ntry:\n    os.write(0, b'changed')\nexcept OSError: pass\nprint(open(0).read())"
    assert run(program, b"given").stdout == b"given\n"


def test_output_limit_is_exact() -> None:
    at, over = run_tests("print(input(), end='')", [b"x" * 1000, b"x" * 1001], LIMITS, stdout_limits=[1000, 1000])
    assert (at.verdict, len(at.stdout)) == (None, 1000)
    assert (over.verdict, len(over.stdout)) == (Verdict.OLE, 1000)


def test_output_after_which_stdout_is_closed() -> None:
    program = "import os, time\nos.write(1, b'out')\nos.close(1)\nos.close(2)\ntime.sleep(0.3)\nos._exit(0)"
    execution = run(program)
    assert (execution.verdict, execution.stdout) == (None, b"out")


def test_the_end_of_stderr_is_kept() -> None:
    execution = run("import sys\nsys.stderr.write('x' * 100_000 + 'the end')")
    assert execution.stderr_tail == "x" * (4096 - 7) + "the end"


def test_stdout_limits_must_match_the_inputs() -> None:
    with pytest.raises(ValueError, match="1 stdout limits for 2 inputs"):
        run_tests(ADD, [b"", b""], LIMITS, stdout_limits=[1])


# --- in order, lazily, within a budget ---


def test_lazy_and_stops_when_closed() -> None:
    executions = run_tests("print(input())\nimport time\ntime.sleep(0 if input() else 600)", [b"1\nx", b"2\n\n"], LIMITS)
    assert client._server is None or not executor._slots.held  # nothing happens before it is asked for
    assert next(executions).stdout == b"1\n"
    assert len(executor._slots.held) == 1
    executions.close()
    assert not executor._slots.held


def test_budget_for_a_program_that_never_ends() -> None:
    limits = replace(LIMITS, cpu_seconds=1.5, wall_seconds=60, full_limit_timeouts=1, short_cpu_seconds=0.2, max_timeouts=3)
    executions = list(run_tests("if input(): \n    while True: pass", [b"\n", b"1", b"1", b"1", b"1", b"\n"], limits))
    assert [e.ran for e in executions] == [True, True, True, True, False, False]
    assert [e.verdict for e in executions] == [None] + [Verdict.TLE] * 5
    assert executions[1].cpu_seconds >= 1.5
    assert all(0.2 <= e.cpu_seconds < 1.5 for e in executions[2:4])


def test_compile_error_is_found_once() -> None:
    executions = list(run_tests("print(1)\nprint 1", [b""] * 3, LIMITS))
    assert [e.verdict for e in executions] == [Verdict.CE] * 3
    assert "SyntaxError" in executions[0].message and "line 2" in executions[0].message


def test_a_compiler_that_crashes_or_hangs_is_a_compile_error() -> None:
    """The session's own limits end it; the next response is judged as ever."""
    for program in ("x = " + "-" * 200_000 + "1", "x = " + "(" * 199_000 + ")" * 199_000, "x = " + "1+" * 100_000 + "1"):
        assert run(program).verdict in (Verdict.CE, None)
        assert run(ADD, b"3 4\n").stdout == b"7\n"


def test_a_program_cannot_speak_for_its_process() -> None:
    """It has no descriptor on which anybody listens, whatever it writes where."""
    program = (
        "import os\nfor fd in range(3, 256):\n    try: os.write(fd, bytes(29))\n    except OSError: pass\nprint(1)\nos._exit(3)"
    )
    assert run(program).verdict is Verdict.RE


# --- call-based ---


def test_call_based_result_comes_on_its_own_channel() -> None:
    execution = run("def f():\n    print('debug')\n    return 5", calls.encode_args([]), fn_name="f")
    assert execution.verdict is None
    assert (execution.stdout, execution.result) == (b"debug\n", b"5")
    assert run("print(1)").result is None


def test_call_based_verdicts() -> None:
    assert run("def f(: pass", calls.encode_args([]), fn_name="f").verdict is Verdict.CE
    assert run("def f(): return 1 / 0", calls.encode_args([]), fn_name="f").verdict is Verdict.RE
    assert run("def f(): exec('print 1')", calls.encode_args([]), fn_name="f").verdict is Verdict.RE
    assert run("import os\ndef f(): os._exit(0)", calls.encode_args([]), fn_name="f").result == b""
    flood = "import os\ndef f():\n    while True: os.write(3, bytes(4096))"
    assert run(flood, calls.encode_args([]), fn_name="f").verdict is Verdict.OLE


# --- failures of the verifier itself ---


@pytest.mark.parametrize("what, error", [
    ("socket.socketpair", OSError(errno.EMFILE, "Too many open files")),
    ("os.memfd_create", OSError(errno.ENOMEM, "Cannot allocate memory")),
])  # fmt: skip
def test_shortages_are_waited_for_and_then_internal(what: str, error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "START_PAUSES", (0.0, 0.0))
    assert run(ADD, b"3 4\n").stdout == b"7\n"  # the server runs
    module, name = what.split(".")
    working = getattr(getattr(client, module), name)
    tries = []

    def failing(times: int):
        def call(*arguments: object, **keywords: object):
            tries.append(1)
            if len(tries) <= times:
                raise error
            return working(*arguments, **keywords)

        return call

    monkeypatch.setattr(getattr(client, module), name, failing(2))
    assert run(ADD, b"3 4\n").stdout == b"7\n"
    tries.clear()
    monkeypatch.setattr(getattr(client, module), name, failing(10**6))
    first, second = run_tests(ADD, [b"3 4\n", b"1 1\n"], LIMITS)
    assert first.verdict is second.verdict is Verdict.IE
    assert error.strerror in first.message
    assert len(tries) == 3  # one test's tries; the second test is not tried at all
    assert not executor._slots.held


@pytest.mark.parametrize("interpreter", ["/bin/false", "/nowhere/python"])
def test_an_interpreter_that_does_not_start_is_internal(interpreter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "START_PAUSES", ())
    client.discard()
    monkeypatch.setattr(sys, "executable", interpreter)
    execution = run(ADD, b"3 4\n")
    assert execution.verdict is Verdict.IE
    assert interpreter in execution.message


def test_the_trainers_signals_are_not_the_programs() -> None:
    """A trainer that ignores SIGCHLD and blocks SIGALRM hands both on to what it starts."""
    script = (
        "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\nfrom verifier import executor\n"
        "(e,) = executor.run_tests('import signal, time; print(1, flush=True); signal.alarm(1); time.sleep(60)', [b''])\n"
        "print(e.verdict.value, e.stdout, e.exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "RE b'1\\n' -14\n", done


# --- how many at once ---


def test_more_tests_at_once_than_one_program_may_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session holds six descriptors for each test that runs."""
    at_once, failures = [], []
    monkeypatch.setattr(executor, "_slots", Slots(40, f"code-reward-{os.getuid()}-{os.getpid()}"))
    wait, retreat = executor._Response._wait_for_message, executor._Response._retreat
    monkeypatch.setattr(executor._Response, "_wait_for_message", lambda self: at_once.append(len(self.running)) or wait(self))
    monkeypatch.setattr(executor._Response, "_retreat", lambda self: failures.append(sys.exc_info()[1]) or retreat(self))
    limits = replace(LIMITS, max_timeouts=40, full_limit_timeouts=40)
    executions = list(run_tests("import time\ntime.sleep(1.5)\nprint(input())", [b"%d" % n for n in range(40)], limits))
    assert [execution.stdout for execution in executions] == [b"%d\n" % n for n in range(40)]
    assert max(at_once) > 30 and failures == []


def test_concurrency_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE_REWARD_CONCURRENCY", "5")
    assert cores.concurrency() == 5
    for bad in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("CODE_REWARD_CONCURRENCY", bad)
        with pytest.raises(ValueError, match="CODE_REWARD_CONCURRENCY must be a whole number"):
            cores.concurrency()
    monkeypatch.setenv("CODE_REWARD_CONCURRENCY", "")
    for usable, tests in ((1.0, 1), (2.0, 2), (3.0, 3), (4.0, 3), (8.0, 6), (64.0, 48), (0.5, 1)):
        monkeypatch.setattr(cores, "usable", lambda usable=usable: usable)
        assert cores.concurrency() == tests


def test_cpu_quota_is_read(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cores._quota(tmp_path) == [1.5]
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cores._quota(tmp_path) == []
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu.cfs_quota_us").write_text("400000\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert cores._quota(tmp_path) == [4.0]
    (tmp_path / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores._quota(tmp_path) == []
    assert 0 < cores.usable() <= len(os.sched_getaffinity(0))
