"""The fork server under bad luck: whatever is killed, used up or copied, a right verdict or IE, and nothing left."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from leftovers import descendants, parents, servers_and_below, slots_taken, wait_until
from test_attacks import interpreter_for_nobody

from verifier import client, executor, isolation, slots
from verifier.executor import run_tests
from verifier.verdict import Execution, Limits, Verdict

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(cpu_seconds=10, wall_seconds=120)
ADD = "a, b = map(int, input().split())\nprint(a + b)\n"
SLOW = "import time\ntime.sleep(1)\nprint(7)"


def run(program: str, stdin: bytes = b"", limits: Limits = LIMITS) -> Execution:
    (execution,) = run_tests(program, [stdin], limits)
    return execution


def works() -> bool:
    return run(ADD, b"3 4\n").stdout == b"7\n"


def server_pid() -> int:
    return client._running().process.pid


@pytest.fixture(autouse=True)
def _nothing_is_left():
    assert works()
    yield
    assert works()
    assert not executor._slots.held
    assert wait_until(lambda: not descendants(server_pid())), "sessions or tests are left below the server"
    client.discard()
    zombies = [pid for pid, (parent, state) in parents().items() if parent == os.getpid() and state == "Z"]
    assert zombies == []


def kill_when(condition, victim) -> threading.Thread:
    """Kill what `victim()` names as soon as `condition()` holds, from another thread."""

    def watch() -> None:
        if wait_until(condition):
            for pid in victim():
                os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


# --- killed ---


def test_server_killed_between_tests() -> None:
    executions = run_tests(ADD, [b"1 1\n", b"2 2\n", b"3 3\n"], LIMITS)
    assert next(executions).stdout == b"2\n"
    os.kill(server_pid(), signal.SIGKILL)
    assert [e.stdout for e in executions] == [b"4\n", b"6\n"]


def test_server_killed_in_the_middle_of_a_test() -> None:
    first = server_pid()
    killer = kill_when(lambda: len(descendants(first)) == 2, lambda: [first])
    assert run(SLOW).stdout == b"7\n"
    killer.join()
    assert server_pid() != first
    assert wait_until(lambda: first not in servers_and_below({os.getpid()}))


def test_session_killed_in_the_middle_of_a_test() -> None:
    server = server_pid()

    def session() -> list[int]:
        return [pid for pid, (parent, _) in parents().items() if parent == server]

    killer = kill_when(lambda: len(descendants(server)) == 2, session)
    assert run(SLOW).stdout == b"7\n"
    killer.join()
    assert server_pid() == server


def running_tests(server: int) -> list[int]:
    table = parents()
    return [pid for pid in descendants(server) if pid in table and table[pid][0] != server]


def test_program_killed_from_outside_is_run_once_more() -> None:
    """As by the kernel, which takes tests first where memory runs out."""
    server = server_pid()
    killer = kill_when(lambda: len(descendants(server)) == 2, lambda: running_tests(server))
    assert run(SLOW).stdout == b"7\n"
    killer.join()


def test_program_killed_whenever_it_runs_is_a_runtime_error() -> None:
    ran_again = "import os, signal\nprint(1, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    first, second = run_tests(ran_again, [b"", b""], LIMITS)
    assert first.verdict is second.verdict is Verdict.RE
    assert first.exit_code == -signal.SIGKILL and first.stdout == b"1\n"


def test_server_killed_again_and_again_is_an_internal_error() -> None:
    stop = threading.Event()

    def kill_all() -> None:
        while not stop.is_set():
            server = client._server
            if server is not None and len(descendants(server.process.pid)) == 2:
                server.process.kill()
            time.sleep(0.01)

    killer = threading.Thread(target=kill_all)
    killer.start()
    try:
        first, second = run_tests(SLOW, [b"", b""], LIMITS)
    finally:
        stop.set()
        killer.join()
    assert first.verdict is second.verdict is Verdict.IE
    assert first.message and not first.ran


def test_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_COMPILE_WAIT_SECONDS", 1)
    first = server_pid()
    os.kill(first, signal.SIGSTOP)
    assert works()
    assert server_pid() != first
    assert wait_until(lambda: first not in parents())


CALLER = """
import signal, sys
sys.path.insert(0, {root!r})
from verifier import client
from verifier.executor import run_tests
print(client._running().process.pid, flush=True)
list(run_tests("import sys\\nwhile True: pass", [b""] * 5))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_caller_killed_in_the_middle(number: int) -> None:
    """Ctrl-C, too, ends at once; server, session and test go with the caller, and its slot comes back."""
    caller = subprocess.Popen([sys.executable, "-c", CALLER.format(root=str(ROOT))], stdout=-1, stderr=-1, text=True)
    with caller:
        server = int(caller.stdout.readline())
        assert wait_until(lambda: len(descendants(server)) == 2)
        family = {server} | descendants(server)
        caller.send_signal(number)
        caller.wait(30)
    assert caller.returncode in (-number, 1, 130)
    assert wait_until(lambda: not family & set(parents())), "something outlived its caller"
    assert wait_until(lambda: slots_taken() == 0)


def test_closing_the_iterator_stops_the_session() -> None:
    server = server_pid()
    executions = run_tests(ADD, [b"1 1\n"] * 100, LIMITS)
    next(executions)
    assert len(descendants(server)) == 1
    executions.close()
    assert wait_until(lambda: not descendants(server))
    assert slots_taken() == 0


# --- used up ---


def test_big_input_big_program_many_tests() -> None:
    line = b"x" * 99 + b"\n"
    count = run("import sys\nprint(sum(map(len, sys.stdin)))", line * (50 << 20 // 100))
    assert count.stdout == b"%d\n" % (100 * (50 << 20 // 100))
    assert run(f"x = '{'y' * (5 << 20)}'\nprint(len(x))").stdout == b"5242880\n"
    outputs = [e.stdout for e in run_tests("print(int(input()) * 2)", [b"%d\n" % n for n in range(1000)], LIMITS)]
    assert outputs == [b"%d\n" % (2 * n) for n in range(1000)]


NO_DESCRIPTORS = """
import os, resource, sys
sys.path.insert(0, {root!r})
from verifier import executor
executor.START_PAUSES = (0.01,)
def run():
    (e,) = executor.run_tests("print(input())", [b"x"])
    return e.verdict and e.verdict.value, e.stdout
print(run())
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True: held.append(os.dup(0))
except OSError:
    pass
print(run())
for descriptor in held: os.close(descriptor)
print(run(), len(os.listdir("/proc/self/fd")) < 20)
"""


def test_no_descriptors_left() -> None:
    code = NO_DESCRIPTORS.format(root=str(ROOT))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["(None, b'x\\n')", "('IE', b'')", "(None, b'x\\n') True"], done


NO_PROCESSES = """
import resource, sys, threading, time, types
sys.path.insert(0, {root!r})
from verifier import executor
resource.setrlimit(resource.RLIMIT_NPROC, (80, 80))
def run(program):
    (e,) = executor.run_tests(program, [b"x"])
    return e.verdict and e.verdict.value, e.stdout, e.message
print(run("import resource\\nprint(resource.getrlimit(resource.RLIMIT_NPROC))"))
release, held = threading.Event(), []
try:
    while True:
        thread = threading.Thread(target=release.wait, daemon=True)
        thread.start()
        held.append(thread)
except RuntimeError:
    pass
def sleep(seconds):
    release.set()
    for thread in held: thread.join()
executor.START_PAUSES = ()
print(run("print(input())"))
executor.START_PAUSES, executor.time = (1,), types.SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
print(run("print(input())"), release.is_set())
"""


def test_no_processes_left() -> None:
    """All that the user may have are taken, by a program that starts threads for one: waited for, then internal."""
    python = interpreter_for_nobody() if os.geteuid() == 0 else None
    if python is None:
        pytest.skip("only root can become a user who has no other processes, and only with an interpreter for everybody")
    command = [python, "-B", "-c", NO_PROCESSES.format(root=str(ROOT))]
    user = 61000  # the kernel counts those of all of a user's processes
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, user=user, group=user, extra_groups=[])
    limit, taken, waited_for = done.stdout.splitlines()
    assert limit == "(None, b'(70, 70)\\n', '')", done
    assert taken.startswith("('IE', b'', ") and "temporarily unavailable" in taken
    assert waited_for == "(None, b'x\\n', '') True"


def test_nothing_is_written_to_disk() -> None:
    """A full disk cannot matter: the fork server's side has nothing open for writing but memory files and pipes."""
    server = server_pid()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, SLOW, b"x" * 10**6)
        assert wait_until(lambda: len(descendants(server)) == 2)
        writable = set()
        for pid in {server} | descendants(server):
            for entry in os.listdir(f"/proc/{pid}/fd"):
                flags = int(Path(f"/proc/{pid}/fdinfo/{entry}").read_text().split("flags:")[1].split()[0], 8)
                if flags & os.O_ACCMODE:
                    writable.add(os.readlink(f"/proc/{pid}/fd/{entry}").partition(":")[0])
        assert running.result().stdout == b"7\n"
    assert writable <= {"/memfd", "pipe", "socket", "/dev/null", "anon_inode"}
    assert "/memfd" in writable


def test_a_test_that_cannot_be_confined_is_an_internal_error() -> None:
    """Here by a limit that the kernel does not take; the program must not be blamed, nor run."""
    (execution,) = run_tests("print('ran')", [b""], replace(LIMITS, memory_bytes=(1 << 64) - 1))
    assert (execution.verdict, execution.stdout) == (Verdict.IE, b"")
    assert "could not be confined" in execution.message


# --- copied ---


def judge_in_child(queue) -> None:
    queue.put((run(ADD, b"3 4\n").stdout, server_pid()))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_called_from_processes_of_the_callers(method: str) -> None:
    """In the middle of a response, with a session, a slot and other threads alive in the parent."""
    context = multiprocessing.get_context(method)
    executions = run_tests(ADD, [b"1 1\n", b"2 2\n"], LIMITS)
    next(executions)
    queue = context.SimpleQueue()
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(lambda: [run(ADD, b"3 4\n").stdout for _ in range(20)])
        child = context.Process(target=judge_in_child, args=(queue,))
        child.start()
        if executor._slots.count > 1:
            output, server = queue.get()
            assert (output, server != server_pid()) == (b"7\n", True)
        assert busy.result() == [b"7\n"] * 20 if executor._slots.count > 1 else True
    assert next(executions).stdout == b"4\n"
    executions.close()
    child.join(60)
    assert child.exitcode == 0


def test_a_forked_child_does_not_keep_the_parents_things_alive() -> None:
    """A child that lives on holds neither the parent's slot, nor its session, nor its server."""
    code = (
        f"import os, sys, time\nsys.path.insert(0, {str(ROOT)!r})\nfrom verifier import client\n"
        "from verifier.executor import run_tests\nexecutions = run_tests('print(1)', [b''] * 9)\nnext(executions)\n"
        "if os.fork() == 0:\n    os.close(1)\n    time.sleep(60)\n    os._exit(0)\n"
        "print(client._running().process.pid, flush=True)\ntime.sleep(60)"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with caller:
        server = int(caller.stdout.readline())
        family = {server} | descendants(server)
        child = descendants(caller.pid) - family
        assert slots_taken() >= 1 and len(family) >= 2 and len(child) == 1
        caller.kill()
    assert wait_until(lambda: not family & set(parents()))
    assert wait_until(lambda: slots_taken() == 0)
    assert child <= set(parents())
    os.kill(child.pop(), signal.SIGKILL)


def test_from_ray() -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, configure_logging=False)
    try:

        @ray.remote
        def judge(number: int) -> tuple[bytes, int]:
            sys.path.insert(0, str(ROOT))
            from verifier import client
            from verifier.executor import run_tests

            (execution,) = run_tests("print(int(input()) + 1)", [b"%d\n" % number])
            return execution.stdout, client._running().process.pid

        answers = ray.get([judge.remote(number) for number in range(20)])
    finally:
        ray.shutdown()
        for pid in [pid for pid, (parent, state) in parents().items() if parent == os.getpid() and state == "Z"]:
            os.waitpid(pid, 0)  # Ray leaves some of its own
    assert [output for output, _ in answers] == [b"%d\n" % (number + 1) for number in range(20)]
    assert wait_until(lambda: not {server for _, server in answers} & set(parents()))


# --- the trainer's process ---


def test_a_trainer_without_standard_streams(tmp_path: Path) -> None:
    code = (
        f"import os, sys\nsys.path.insert(0, {str(ROOT)!r})\nos.closerange(0, 3)\n"
        "from verifier.executor import run_tests\noutput = [e.stdout for e in run_tests('print(input())', [b'x'] * 2)]\n"
        "open('output', 'w').write(str(output))\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=120, check=True)
    assert Path(tmp_path, "output").read_text() == "[b'x\\n', b'x\\n']"


def test_the_trainers_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never forked from, and with the same signals, environment, limits and folder afterwards."""

    def state() -> tuple:
        return (
            [signal.getsignal(number) for number in sorted(signal.valid_signals())],
            signal.pthread_sigmask(signal.SIG_BLOCK, []),
            dict(os.environ),
            [resource.getrlimit(kind) for kind in range(16)],
            os.getcwd(),
            os.getpgid(0),
            threading.active_count(),
        )

    def no_fork() -> int:
        raise AssertionError("the trainer's process was forked")

    client.discard()
    before = state()
    monkeypatch.setattr(os, "fork", no_fork)
    monkeypatch.setattr(os, "forkpty", no_fork)
    assert subprocess._USE_VFORK
    assert works()
    assert run("while True: pass", limits=replace(LIMITS, cpu_seconds=0.2)).verdict is Verdict.TLE
    client.discard()
    assert state() == before


def test_off_says_so_in_the_log_each_time(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(isolation.ISOLATION, "off")
    for _ in range(2):
        client.discard()
        caplog.clear()
        assert works()
        assert "CODE_REWARD_ISOLATION=off" in caplog.text
    left = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.fork() or time.sleep(600)\n    os._exit(0)\nprint(1)"
    server = server_pid()
    assert run(left).stdout == b"1\n"
    assert wait_until(lambda: not descendants(server))
    client.discard()


# --- slots ---


def test_slots_bound_what_runs_at_once() -> None:
    pool = slots.Slots(2, f"test-{os.getpid()}")
    at_once, most, lock = 0, 0, threading.Lock()

    def hold(_: int) -> None:
        nonlocal at_once, most
        slot = pool.acquire()
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)
        with lock:
            at_once -= 1
        pool.release(slot)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(hold, range(100)))
    assert most == 2
    assert slots_taken(pool) == 0


HOLDER = """
import sys, time
sys.path.insert(0, {root!r})
from verifier.slots import Slots
pool = Slots(1, {name!r})
for turn in range({turns}):
    slot = pool.acquire()
    print(turn, flush=True)
    time.sleep({seconds})
    pool.release(slot)
"""


def hold_slots(name: str, turns: int, seconds: float) -> subprocess.Popen[str]:
    code = HOLDER.format(root=str(ROOT), name=name, turns=turns, seconds=seconds)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_slots_come_back_when_their_holder_is_killed() -> None:
    name = f"test-{os.getpid()}-killed"
    with hold_slots(name, 1, 600) as holder:
        assert holder.stdout.readline() == "0\n"
        assert slots_taken(slots.Slots(1, name)) == 1
        waiting = hold_slots(name, 1, 0)
        time.sleep(0.5)
        holder.kill()
    assert waiting.communicate(timeout=60)[0] == "0\n"
    assert slots_taken(slots.Slots(1, name)) == 0


def test_a_process_with_many_threads_does_not_starve_one_with_a_single_thread() -> None:
    """One slot; here sixteen threads want it without pause, there one process wants it fifty times."""
    name = f"test-{os.getpid()}-fair"
    pool = slots.Slots(1, name)
    stop = threading.Event()
    turns = 0

    def grab() -> None:
        nonlocal turns
        while not stop.is_set():
            slot = pool.acquire()
            turns += 1
            time.sleep(0.005)
            pool.release(slot)

    threads = [threading.Thread(target=grab) for _ in range(16)]
    for thread in threads:
        thread.start()
    try:
        with hold_slots(name, 50, 0.001) as single:
            assert single.stdout.readline() == "0\n"
            before = turns
            output, _ = single.communicate(timeout=120)
            taken_meanwhile = turns - before
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert output.splitlines()[-1] == "49"
    assert taken_meanwhile < 500  # in turn it would be about 49; sixteen against one would be 800


def test_an_iterator_that_is_collected_in_the_middle_of_anything() -> None:
    """The collector may close an abandoned response while this thread makes a socket for the next one."""
    code = f"""
import gc, sys
sys.path.insert(0, {str(ROOT)!r})
from verifier import sockets
from verifier.executor import run_tests
cycle = [run_tests("print(1)", [b""] * 9)]
cycle.append(cycle)
next(cycle[0])
del cycle
class Collecting(set):
    def update(self, *sockets):
        gc.collect()
        super().update(*sockets)
sockets._own = Collecting(sockets._own)
print([e.stdout for e in run_tests("print(2)", [b""])])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[b'2\\n']\n", done
