"""The executor: a program behaves as under `python3 main.py < input > output`, costs what it may, and leaves nothing."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from verifier import calls, cores, executor, process, self_check
from verifier.executor import run_tests
from verifier.verdict import Execution, Limits, Verdict

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(cpu_seconds=5, wall_seconds=60, memory_bytes=128 << 20, stdout_bytes=1 << 20)
QUICK = replace(LIMITS, cpu_seconds=0.4, wall_seconds=30)
ADD = "a, b = map(int, input().split())\nprint(a + b)\n"


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_behind(tmp_path_factory: pytest.TempPathFactory):
    """After all tests of this file there is no folder, no process and no zombie of theirs."""
    tempfile.tempdir = str(tmp_path_factory.mktemp("scratch"))
    yield
    left = self_check.left_behind(tempfile.tempdir)
    tempfile.tempdir = None
    assert left == ""


def run(program: str, stdin: bytes = b"", limits: Limits = LIMITS, **arguments: object) -> Execution:
    (execution,) = run_tests(program, [stdin], limits, **arguments)
    return execution


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- as under python3 main.py ---

AS_UNDER_PYTHON = {
    "exit code": "import sys\nprint(1)\nsys.exit(3)",
    "exit text": "import sys\nsys.exit('bad')",
    "exit none": "import sys\nprint(1)\nsys.exit()",
    "os._exit": "import os\nprint(1)\nos._exit(4)",
    "exit builtin": "print(1)\nexit()\nprint(2)",
    "quit builtin": "quit(5)",
    "uncaught": "print(1)\n1 / 0",
    "argv": "import sys\nprint(sys.argv)",
    "name": "import os\nprint(__name__, os.path.basename(__file__), __doc__, __package__, __spec__)",
    "globals": "print(sorted(k for k in globals() if k not in ('__annotations__', '__loader__')))",
    "own module": "import __main__\nx = 5\nprint(__main__.x, __main__.__dict__ is globals())",
    "own source": "print(open(__file__).read())",
    "own folder": "import os, sys\nprint(os.listdir(), os.path.realpath(sys.path[0]) == os.path.realpath('.'))",
    "builtins": "print(type(__builtins__).__name__, exit, quit)",
    "recursion depth": (
        "def f(n):\n    global deepest\n    deepest = n\n    f(n + 1)\n"
        "try:\n    f(0)\nexcept RecursionError:\n    print(deepest)"
    ),
    "pickle": "import pickle\nclass A: x = 3\nprint(pickle.loads(pickle.dumps(A())).x, A.__module__)",
    "dataclass": (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(P(3))"
    ),
    "future stays inside": "def f(x: undefined_name): pass",
    "atexit": "import atexit\natexit.register(print, 'last')\nprint('first')",
    "thread after main": (
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\nprint('main')"
    ),
    "unflushed file": "f = open(1, 'w', closefd=False)\nf.write('42')",
    "destructor": "class A:\n    def __del__(self): print('gone')\na = A()",
    "closed stdout": "import sys\nprint(1)\nsys.stdout.close()",
    "read all": "import sys\nprint(repr(sys.stdin.read()))",
    "eof": "while True:\n    print(input())",
    "buffer": "import sys\nprint(sys.stdin.buffer.read())",
    "open(0)": "print(len(open(0).read()))",
    "/dev/stdin": "print(len(open('/dev/stdin').read()))",
    "fstat": "import os\nprint(os.read(0, os.fstat(0).st_size))",
    "seek": "import sys\nsys.stdin.read()\nsys.stdin.seek(0)\nprint(sys.stdin.readline())",
    "echo": "import sys\nsys.stdout.write(sys.stdin.read())",
    "encodings": "import sys\nprint(sys.stdin.encoding, sys.stdin.errors, sys.stdout.encoding, sys.stdout.errors)",
    "isatty": "import os\nprint(os.isatty(0), os.isatty(1))",
    "hash": "print(hash('reward'), list({'a', 'b', 'c'}))",
    "first free descriptor": "print(open('main.py').fileno())",
    "byte order mark": "\ufeffprint(1)",
    "carriage returns": "x = '''a\r\nb'''\r\nprint(repr(x))\r\n",
    "warning": "print(1 is 1)",
    "last line is a comment": "print(1)\n# end",
    "empty": "",
}
INPUT = "3 4\r\nnaïve → 漢字\nlast line without end".encode() + b"\xff\xfe"


@pytest.mark.parametrize("name", AS_UNDER_PYTHON)
def test_same_as_python(name: str, tmp_path: Path) -> None:
    program = AS_UNDER_PYTHON[name]
    (tmp_path / "main.py").write_bytes(program.encode())
    stdin = tmp_path.parent / "input"
    stdin.write_bytes(INPUT)
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    with stdin.open("rb") as file:
        native = subprocess.run(
            [sys.executable, "main.py"], stdin=file, capture_output=True, cwd=tmp_path, env=environment, timeout=60
        )
    execution = run(program, INPUT)
    assert (execution.stdout, execution.exit_code) == (native.stdout, native.returncode)
    last_lines = [text.strip().rpartition("\n")[2] for text in (execution.stderr_tail, native.stderr.decode())]
    assert last_lines[0] == last_lines[1]
    assert execution.verdict is (None if native.returncode == 0 else Verdict.RE)


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


def test_numpy_where_the_trainer_has_it() -> None:
    pytest.importorskip("numpy")
    assert run("import numpy\nprint(numpy.arange(5).sum())", limits=Limits()).stdout == b"10\n"


def test_environment_and_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a secret")
    program = "import os\nprint(sorted(os.environ), os.listdir())\nopen('note', 'w').close()"
    first, second = run_tests(program, [b"", b""], LIMITS)
    assert first.stdout == second.stdout  # the second sees nothing of the first
    assert b"WANDB" not in first.stdout
    assert first.stdout.endswith(b"['main.py']\n")


def test_standard_streams_only(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        listing = run("import os\nprint(*sorted(os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')[:-1]))")
    assert b"held" not in listing.stdout
    assert len(listing.stdout.split()) <= 4  # 0, 1, 2 ("/memfd:stdin (deleted)" is two words)


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
    "in a subprocess": (
        f"import subprocess\nsubprocess.run([{sys.executable!r}, '-c', 'while True: pass'])",
        replace(LIMITS, wall_seconds=2),
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
    "too many files": ("held = []\nwhile True: held.append(open('main.py'))", LIMITS, Verdict.RE),
    "big file": ("with open('f', 'wb') as f:\n    for _ in range(100): f.write(bytes(1 << 20))", LIMITS, Verdict.RE),
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


def test_time_without_a_core_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(LIMITS, wall_seconds=0.8)
    monkeypatch.setattr(process, "_starved_seconds", lambda pid: 1000.0)
    assert run("import time\ntime.sleep(1.5)\nprint(1)", limits=limits).verdict is None
    monkeypatch.setattr(process, "STARVED_FACTOR", 1)
    assert run("import time\ntime.sleep(600)", limits=limits).verdict is Verdict.TLE


def test_starved_seconds_grow_while_two_processes_share_a_core() -> None:
    core = min(os.sched_getaffinity(0))
    busy = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    rivals = [subprocess.Popen([sys.executable, "-S", "-c", busy, str(core)]) for _ in range(2)]
    try:
        deadline = time.monotonic() + 30
        while process._starved_seconds(rivals[0].pid) < 0.1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process._starved_seconds(rivals[0].pid) >= 0.1
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()


def test_own_memory_is_not_taken_for_the_programs() -> None:
    """Between vfork and exec the child lives in our memory, and the kernel counts that as its peak."""
    ballast = b"x" * (300 << 20)
    assert run("print(1)").verdict is None
    assert len(ballast) == 300 << 20


def test_works_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int) -> int:
        raise OSError(errno.ENOSYS, "not on this kernel")

    monkeypatch.setattr(os, "pidfd_open", missing)
    assert run(ADD, b"3 4\n").stdout == b"7\n"
    assert run("while True: pass", limits=QUICK).verdict is Verdict.TLE


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


def test_lazy_and_stops_when_closed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    executions = run_tests(f"open({str(log)!r}, 'a').write(input())", [b"a", b"b", b"c"], LIMITS)
    assert not log.exists()
    next(executions)
    next(executions)
    executions.close()
    assert log.read_text() == "ab"


def test_budget_for_a_program_that_never_ends() -> None:
    limits = replace(LIMITS, cpu_seconds=1.5, wall_seconds=60, full_limit_timeouts=1, short_cpu_seconds=0.2, max_timeouts=3)
    executions = list(run_tests("if input(): \n    while True: pass", [b"\n", b"1", b"1", b"1", b"1", b"\n"], limits))
    assert [e.ran for e in executions] == [True, True, True, True, False, False]
    assert [e.verdict for e in executions] == [None] + [Verdict.TLE] * 5
    assert executions[1].cpu_seconds >= 1.5
    assert all(0.2 <= e.cpu_seconds < 1.5 for e in executions[2:4])


def test_compile_error_is_found_once(tmp_path: Path) -> None:
    program = f"open({str(tmp_path / 'ran')!r}, 'w')\nprint 1"
    executions = list(run_tests(program, [b""] * 3, LIMITS))
    assert [e.verdict for e in executions] == [Verdict.CE] * 3
    assert "SyntaxError" in executions[0].message and "line 2" in executions[0].message
    assert list(tmp_path.iterdir()) == []


def test_a_program_cannot_reach_the_status_pipe() -> None:
    program = "import os\nfor fd in range(3, 256):\n    try: os.write(fd, b'CSyntaxError')\n    except OSError: pass\nprint(1)"
    assert run(program).verdict is None


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
    listing = run("import os\ndef f(): print(os.listdir())", calls.encode_args([]), fn_name="f")
    assert listing.stdout == b"['main.py']\n"


# --- nothing is left ---

SURVIVORS = {
    "child": "if os.fork() == 0: time.sleep(600)",
    "own group": "if os.fork() == 0:\n    os.setpgid(0, 0)\n    time.sleep(600)",
    "own session": "if os.fork() == 0:\n    os.setsid()\n    time.sleep(600)",
    "daemon": (
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    os.closerange(0, 64)\n    time.sleep(600)"
    ),
    "another program": "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)",
    "many": "for _ in range(30):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)",
}


@pytest.mark.parametrize("ending", ["", "\nwhile True: pass", "\n1 / 0"])
@pytest.mark.parametrize("name", SURVIVORS)
def test_no_process_survives(name: str, ending: str) -> None:
    program = (
        f"import os, time\nprint(7, flush=True)\nmain = os.getpid()\n{SURVIVORS[name]}\n"
        f"if os.getpid() == main: time.sleep(0.1){ending}"
    )
    execution = run(program, limits=QUICK)
    assert execution.stdout.startswith(b"7\n")
    assert self_check.left_behind(tempfile.tempdir) == ""


FOLDERS = {
    "files": "import os\nfor n in range(200): open(f'f{n}', 'w').close()\nos.symlink('/etc', 'link')",
    "deep": "import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')",
    "closed": "import os\nos.makedirs('a/b')\nopen('a/b/f', 'w').close()\nfor d in ('a/b', 'a', '.'): os.chmod(d, 0)",
    "gone": "import os, shutil\nshutil.rmtree(os.getcwd())",
    "program replaced": "import os\nos.unlink('main.py')\nos.mkdir('main.py')",
}


@pytest.mark.parametrize("name", FOLDERS)
def test_no_folder_survives(name: str) -> None:
    assert run(FOLDERS[name]).verdict is None
    assert os.listdir(tempfile.tempdir) == []


def test_left_behind_sees_what_is_left(tmp_path: Path) -> None:
    assert self_check.left_behind(str(tmp_path)) == ""
    (tmp_path / "file").touch()
    sleeper = subprocess.Popen(["sleep", "600"], env={"TMPDIR": f"{tmp_path}/x", "PATH": os.environ["PATH"]})
    try:
        assert self_check.left_behind(str(tmp_path)) == "1 files, 1 processes"
        sleeper.kill()
        os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
        assert self_check.left_behind(str(tmp_path)) == "1 files, 1 zombies"
    finally:
        sleeper.kill()
        sleeper.wait()


# --- failures of the verifier itself ---


@pytest.mark.parametrize("what, error", [
    ("subprocess.Popen", BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")),
    ("os.pipe", OSError(errno.EMFILE, "Too many open files")),
    ("tempfile.mkdtemp", OSError(errno.ENOSPC, "No space left on device")),
    ("os.memfd_create", OSError(errno.ENOMEM, "Cannot allocate memory")),
])  # fmt: skip
def test_start_failures_are_tried_again_and_then_internal(what: str, error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "START_PAUSES", (0.0, 0.0))
    module, name = what.split(".")
    working = getattr(getattr(process, module), name)
    tries = []

    def failing(times: int):
        def call(*arguments: object, **keywords: object):
            tries.append(1)
            if len(tries) <= times:
                raise error
            return working(*arguments, **keywords)

        return call

    monkeypatch.setattr(getattr(process, module), name, failing(2))
    assert run(ADD, b"3 4\n").stdout == b"7\n"
    tries.clear()
    monkeypatch.setattr(getattr(process, module), name, failing(10**6))
    first, second = run_tests(ADD, [b"3 4\n", b"1 1\n"], LIMITS)
    assert first.verdict is second.verdict is Verdict.IE
    assert error.strerror in first.message
    assert len(tries) == 3  # one test's tries; the second test is not tried at all


def test_an_interpreter_that_does_not_start_is_internal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "START_PAUSES", ())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    execution = run(ADD, b"3 4\n")
    assert (execution.verdict, execution.message) == (Verdict.IE, "/bin/false ended with exit code 1: ")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert run(ADD, b"3 4\n").verdict is Verdict.IE


def test_a_lost_exit_status_is_internal() -> None:
    script = (
        "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfrom verifier import executor\n"
        "executor.START_PAUSES = ()\n(e,) = executor.run_tests('print(1)', [b''])\nprint(e.verdict.value, e.message)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("IE the exit status was lost"), done


def test_interrupted_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        time.sleep(0.2)
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "_watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("while True: pass")
    assert self_check.left_behind(tempfile.tempdir) == ""


# --- many at once ---


def test_slots_bound_what_runs_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(executor, "_slots", threading.BoundedSemaphore(2))
    program = (
        f"import os, time\nos.chdir({str(tmp_path)!r})\nname = str(os.getpid())\nopen(name, 'w').close()\n"
        "time.sleep(0.2)\nprint(len(os.listdir()))\nos.unlink(name)"
    )
    outputs: list[bytes] = []
    threads = [threading.Thread(target=lambda: outputs.append(run(program).stdout)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(outputs) == 8
    assert max(map(int, outputs)) <= 2


def test_a_forked_child_has_slots_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_slots", threading.BoundedSemaphore(1))
    with executor._slots:
        child = multiprocessing.get_context("fork").Process(target=_judge_in_child)
        child.start()
        child.join(120)
    assert child.exitcode == 0


def _judge_in_child() -> None:
    sys.exit(0 if run(ADD, b"3 4\n").stdout == b"7\n" else 1)


def test_concurrency_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE_REWARD_CONCURRENCY", "5")
    assert cores.concurrency() == 5
    for bad in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("CODE_REWARD_CONCURRENCY", bad)
        with pytest.raises(ValueError, match="CODE_REWARD_CONCURRENCY must be a whole number"):
            cores.concurrency()
    monkeypatch.setenv("CODE_REWARD_CONCURRENCY", "")
    for usable, tests in ((1.0, 1), (2.0, 1), (8.0, 6), (64.0, 48), (0.5, 1)):
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
