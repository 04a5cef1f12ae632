"""The choice of walls and what it says; the tables of the filter against the kernel's own headers.

That the walls hold is in test_attacks.py.
"""

from __future__ import annotations

import importlib.util
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from leftovers import descendants, wait_until

from verifier import calls, client, isolation, seccomp
from verifier.executor import run_tests
from verifier.verdict import Limits

X86_HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
GENERIC_HEADER = Path("/usr/include/asm-generic/unistd.h")
# Names that the generic header spells by macros: newfstatat is fstatat there.
GENERIC_ALIASES = {"newfstatat": 79, "restart_syscall": 128}


@pytest.fixture(autouse=True)
def _fresh_server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(isolation.ISOLATION, raising=False)
    monkeypatch.delenv(isolation.PROCESSES, raising=False)
    client.discard()
    yield
    client.discard()


def run(program: str, stdin: bytes = b"") -> bytes:
    (execution,) = run_tests(program, [stdin], Limits())
    return execution.stdout + execution.stderr_tail.encode()


@pytest.mark.skipif(not X86_HEADER.exists(), reason="no kernel headers here")
def test_call_numbers_are_the_kernels() -> None:
    x86 = dict(re.findall(r"#define __NR_(\w+)\s+(\d+)", X86_HEADER.read_text()))
    generic = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", GENERIC_HEADER.read_text()))
    generic |= {name: str(number) for name, number in GENERIC_ALIASES.items()}
    for name, (on_x86, on_arm) in seccomp.CALLS.items():
        assert int(x86[name]) == on_x86, name
        assert (int(generic[name]) if name in generic else None) == on_arm, name


def decide(program: list[seccomp.Instruction], machine: str, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What a filter answers: the kernel's interpreter, as far as these filters use it."""
    arguments += (0,) * (6 - len(arguments))
    data = struct.pack("=iIQ6Q", number, seccomp.AUDIT_ARCH[machine], 0, *arguments)
    accumulator, place = 0, 0
    while True:
        code, if_true, if_false, operand = program[place]
        place += 1
        if code == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == seccomp.AND:
            accumulator &= operand
        elif code == seccomp.JUMP:
            place += operand
        elif code == seccomp.RETURN:
            return operand
        else:
            holds = {
                seccomp.EQUAL: accumulator == operand,
                seccomp.AT_LEAST: accumulator >= operand,
                seccomp.ANY_BIT: bool(accumulator & operand),
            }[code]
            place += if_true if holds else if_false


@pytest.mark.parametrize("machine, column", [("x86_64", 0), ("aarch64", 1)])
def test_filter_decides_as_its_tables_say(machine: str, column: int) -> None:
    program = seccomp.build(machine)
    denied, missing = seccomp.fail(1), seccomp.fail(38)
    known = {numbers[column] for numbers in seccomp.CALLS.values()}
    for number in range(451):
        if number not in known:
            assert decide(program, machine, number) == denied
    for name, numbers in (seccomp._ALLOWED | seccomp._OPENING).items():
        if numbers[column] is not None:
            assert decide(program, machine, numbers[column], (5, 6, 7)) == seccomp.ALLOW, name

    def call(name: str, *arguments: int, program: list[seccomp.Instruction] = program) -> int:
        return decide(program, machine, seccomp.CALLS[name][column], arguments)

    thread = 0x3D0F00  # what pthread_create asks for
    assert call("clone", thread) == seccomp.ALLOW
    not_all_shared = [thread & ~flag for flag in (0x100, 0x200, 0x400, 0x800, 0x10000)]
    for flags in (17, 0, 0x4111, thread | 0x10000000, thread | 0x20000, 0x40000000 | 17, *not_all_shared):
        assert call("clone", flags) == denied
    assert call("clone3") == call("openat2") == missing
    assert call("kill", seccomp.OWN_PID) == call("tgkill", seccomp.OWN_PID) == seccomp.ALLOW
    assert {call("kill", pid) for pid in (0, 1, 0xFFFFFFFF, seccomp.OWN_PID + 1)} == {denied}
    assert call("prlimit64", 0, 7, 0, 1) == call("prlimit64", 0, 3, 1, 0) == seccomp.ALLOW
    assert call("prlimit64", 1, 7, 0, 1) == call("prlimit64", 0, 7, 1, 0) == call("prlimit64", 0, 7, 1 << 32, 0) == denied
    assert call("socketpair", 1, 1 | 0o2000000) == seccomp.ALLOW
    assert {call("socketpair", *a) for a in ((1, 2), (1, 5), (2, 1), (16, 1))} == {denied}
    assert call("fcntl", 3, 1030) == seccomp.ALLOW
    assert {call("fcntl", 3, command) for command in (6, 7, 37, 38, 1031, 1033)} == {denied}
    assert call("close_range", 3, 9, 4) == call("sendto", 3, 0, 1, 0x4000) == call("recvfrom", 3, 0, 1, 0x40) == seccomp.ALLOW
    assert call("close_range", 3, 9, 6) == call("sendto", 3, 0, 1, 1) == call("recvfrom", 3, 0, 1, 0x41) == denied
    assert {call("mmap", 0, 4096, 3, flags) for flags in (0x1, 0x2, 0x22, 0x20022)} == {seccomp.ALLOW}
    assert {call("mmap", 0, 4096, 3, flags) for flags in (0x21, 0x23, 0x8021, 0x40022, 0x44022, 0x40001)} == {denied}
    assert call("ioctl", 0, 0x5401) == seccomp.ALLOW and call("ioctl", 0, 0x5412) == seccomp.fail(25)
    for name, place in (("open", 1), ("openat", 2)):
        if seccomp.CALLS[name][column] is not None:

            def opening(flags: int, name: str = name, place: int = place) -> int:
                return call(name, *[0] * place, flags)

            read, write, both, create, cut, nameless = 0, 1, 2, 0x40, 0x200, 0x410000
            allowed = (read, write, both, create | write | cut, both | cut, write | cut | 0x80000, 3)
            assert {opening(flags) for flags in allowed} == {seccomp.ALLOW}
            assert {opening(flags) for flags in (cut, cut | create, cut | 3, cut | 0x80000)} == {seccomp.fail(13)}
            assert {opening(flags) for flags in (nameless | both, nameless | write | cut)} == {seccomp.fail(95)}
    assert call("prctl", 15) == seccomp.ALLOW and call("prctl", 1) == call("prctl", 22) == denied
    assert decide(program, machine, 451) == decide(program, machine, 600) == missing
    assert decide(program, machine, 0x40000000 + 39) == seccomp.KILL
    other = "aarch64" if machine == "x86_64" else "x86_64"
    assert decide(program, other, 0) == seccomp.KILL

    closed = seccomp.build(machine, allow_open=False)
    assert call("openat", program=closed) == call("readlinkat", program=closed) == seccomp.fail(13)
    forking = seccomp.build(machine, allow_processes=True)
    assert call("clone", 17, program=forking) == call("kill", 1, program=forking) == seccomp.ALLOW
    assert call("mmap", 0, 4096, 3, 0x21, program=forking) == seccomp.ALLOW  # what processes share
    assert call("clone", 0x10000000 | 17, program=forking) == call("mmap", 0, 4096, 3, 0x40022, program=forking) == denied


def test_report_names_every_layer() -> None:
    report = isolation.report()
    reasons = isolation.probe()
    assert set(reasons) == set(isolation.MODES)
    for mode in isolation.MODES:
        (line,) = [line for line in report.splitlines() if line.startswith(mode)]
        assert reasons[mode] in line
    assert sum(" yes " in line for line in report.splitlines() if line.split()[0] in isolation.MODES) == 1
    assert "covered: files, network, process tree, parent" in report
    (folder,) = [line for line in report.splitlines() if line.startswith("folder")]
    assert (" yes " in folder) == (client.mode() in ("landlock", "chroot"))


@pytest.mark.parametrize("mode", isolation.MODES)
def test_report_says_whether_files_can_be_written(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if isolation.probe()[mode]:
        pytest.skip("does not hold here")
    monkeypatch.setenv(isolation.ISOLATION, mode)
    writes = run("open('f', 'w').write('x')\nprint(open('f').read())") == b"x\n"
    assert (writes, mode) in [(True, "landlock"), (False, "userns"), (True, "chroot"), (False, "seccomp")]
    (folder,) = [line for line in isolation.report().splitlines() if line.startswith("folder")]
    assert (" yes " in folder) == writes
    if writes:
        monkeypatch.setattr(isolation.scratch, "PLACES", ("/nowhere",))
        assert "none of /nowhere can be written" in isolation.report()


def test_report_when_nothing_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "probe", lambda: dict.fromkeys(isolation.MODES, "not on this kernel"))
    assert "Refusing to run" in isolation.report()
    assert "landlock: not on this kernel; userns: not on this kernel" in isolation.report()
    monkeypatch.setenv(isolation.ISOLATION, "off")
    assert "limits only" in isolation.report()


@pytest.mark.parametrize("mode", isolation.MODES)
def test_each_mode_can_be_forced(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    why_not = isolation.probe()[mode]
    monkeypatch.setenv(isolation.ISOLATION, mode)
    if why_not:
        with pytest.raises(isolation.IsolationError, match="Refusing to run model-written programs"):
            run("print(1)")
        return
    assert (
        run("import json, datetime\nprint(json.dumps(input()), datetime.datetime.strptime('5', '%d').day)", b"x") == b'"x" 5\n'
    )
    assert client.mode() == mode
    pytest.importorskip("numpy")
    assert run("import numpy as np\nprint(np.arange(5).sum(), np.linalg.det(np.eye(2)))") == b"10 1.0\n"


# What modules import only when first used, which no program can where it can open no file.
LATE = (
    "from functools import singledispatch\nsingledispatch(len)",
    "import argparse\nargparse.ArgumentParser(description='x').parse_args()",
    "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\nunittest.main(exit=False)",
    "import sys\nsys.stdout.reconfigure(encoding='ascii')",
    "open(0, encoding='utf-8-sig').read()",
    "'x'.encode('shift_jis'), b'x'.decode('cp437')",
    "import codecs\ncodecs.encode('x', 'rot13')",
)
LATE_OF_NUMPY = (
    "np.unique([1, 1])",
    "np.percentile([1, 2], 50)",
    "np.fft.fft([1, 2])",
    "np.polynomial.polynomial.polyval(2, [1, 2])",
    "np.ma.array([1], mask=[1]).sum()",
    "np.char.add(['a'], ['b'])",
    "np.testing.assert_allclose(1, 1)",
)


@pytest.mark.parametrize("mode", isolation.MODES)
def test_what_is_imported_late_is_there(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if isolation.probe()[mode]:
        pytest.skip("does not hold here")
    monkeypatch.setenv(isolation.ISOLATION, mode)
    programs = [*LATE]
    if importlib.util.find_spec("numpy"):
        programs += [f"import numpy as np\n{statement}" for statement in LATE_OF_NUMPY]
    for program in programs:
        (execution,) = run_tests(program, [b""], Limits())
        assert execution.exit_code == 0, (program, execution.stderr_tail)


# Every module whose names a call-based program may use without importing them.
UNIMPORTED = """def f(x):
    if x < 0:
        return Any, Counter, accumulate, lru_cache, heapify, insort, gcd, itemgetter, digits, deepcopy, dataclass, random, json
    if x == 0:
        import sys
        return "num" + "py" in sys.modules
    day = datetime.datetime.strptime("1 2 2003", "%d %m %Y").day
    return [day, int(decimal.Decimal(x)), int(fractions.Fraction(x)), re.sub("a", "b", "a"), statement()]
def statement():
    return operator.add(1, 1)"""


@pytest.mark.parametrize("mode", isolation.MODES)
def test_names_that_a_call_needs_no_import_for_are_there(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if isolation.probe()[mode]:
        pytest.skip("does not hold here")
    monkeypatch.setenv(isolation.ISOLATION, mode)
    executions = run_tests(UNIMPORTED, [calls.encode_args([x]) for x in (1, 0)], Limits(), fn_name="f")
    values = [calls.decode_value(execution.result) for execution in executions]
    assert values == [[1, 1, 1, "b", 2], False]  # and nothing is loaded that nobody asks for: numpy takes a tenth of a second


def test_the_first_mode_that_holds_is_chosen() -> None:
    reasons = isolation.probe()
    assert client.mode() == next(mode for mode in isolation.MODES if not reasons[mode])


def test_unknown_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(isolation.ISOLATION, "lanlock")
    with pytest.raises(isolation.IsolationError, match="lanlock is unknown; use auto, landlock, "):
        run("print(1)")


def test_where_landlock_is_missing_the_next_mode_is_chosen() -> None:
    """A filter from outside takes Landlock away, as an older kernel or a container's profile would."""
    root = Path(__file__).resolve().parent.parent
    code = f"""
import os, sys
sys.path.insert(0, {str(root)!r})
from verifier import linux, seccomp
answer = lambda action: [(seccomp.RETURN, 0, 0, action)]
rules = {{number: answer(seccomp.fail(38)) for number in (444, 445, 446)}}
linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
seccomp.Filter(seccomp.assemble(linux.MACHINE, rules, seccomp.ALLOW)).install(os.getpid())
from verifier import client, isolation
print(isolation.probe()["landlock"])
print(client.mode())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    reason, mode = done.stdout.splitlines()
    assert "landlock_create_ruleset" in reason
    assert mode in ("userns", "chroot", "seccomp")


def test_programs_may_start_processes_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fork = "import os\nif os.fork() == 0:\n    print('child', flush=True)\n    os._exit(0)\nos.wait()\nprint('parent')"
    assert b"PermissionError" in run(fork)
    monkeypatch.setenv(isolation.PROCESSES, "1")
    client.discard()
    if isolation.probe()["landlock"]:
        pytest.skip("no pid namespace here")
    assert run(fork) == b"child\nparent\n"
    assert run("import multiprocessing as m\np = m.Process(target=print, args=(7,))\np.start()\np.join()") == b"7\n"
    signalled = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)"
    (execution,) = run_tests(signalled, [b""], Limits())
    assert execution.exit_code == -signal.SIGTERM
    assert run("import os\nif os.fork():\n    os._exit(0)\nos.setsid()\nos.fork()\nwhile True: pass") == b""
    assert wait_until(lambda: not descendants(client._running().process.pid))
