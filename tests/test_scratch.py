"""The working folder of a test: a program can make files in it and read them back, and nothing is left of them.

What a hostile program may try there is in cases/folder_attacks.json, run by test_attacks.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from leftovers import descendants, parents, wait_until

from verifier import client, isolation, scratch
from verifier.executor import run_tests
from verifier.verdict import Execution, Limits, Verdict

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(cpu_seconds=10, wall_seconds=120)
WRITE_AND_READ = (
    "import os\nprint(sorted(os.listdir('.')))\nwith open('notes.txt', 'w') as f: f.write(input())\n"
    "with open('notes.txt', 'a') as f: f.write('!')\nprint(open('notes.txt').read(), os.path.getsize('notes.txt'))"
)


def run(program: str, stdin: bytes = b"", limits: Limits = LIMITS) -> Execution:
    (execution,) = run_tests(program, [stdin], limits)
    return execution


def roots(server: int) -> list[Path]:
    """The folders of a fork server: one, or none."""
    return [path for place in scratch.PLACES for path in Path(place).glob(f"code-reward-{os.getuid()}-{server}-*")]


def server_pid() -> int:
    return client._running().process.pid


def own_root() -> Path:
    """The folder of the server that runs."""
    (root,) = roots(server_pid())
    return root


@pytest.fixture(autouse=True)
def _fresh_server():
    client.discard()
    yield
    client.discard()


@pytest.fixture(params=scratch.MODES)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    why_not = request.param != "off" and isolation.probe()[request.param]
    if why_not:
        pytest.skip(why_not)
    monkeypatch.setenv(isolation.ISOLATION, request.param)
    return request.param


def test_files_can_be_written_and_read_back_and_the_next_test_finds_none(mode: str) -> None:
    outputs = [e.stdout for e in run_tests(WRITE_AND_READ, [b"one", b"two", b"three"], LIMITS)]
    assert outputs == [b"[]\none! 4\n", b"[]\ntwo! 4\n", b"[]\nthree! 6\n"]
    assert run(WRITE_AND_READ, b"other").stdout == b"[]\nother! 6\n"


def test_how_much_may_be_written(mode: str) -> None:
    def writer(files: int, size: int) -> str:
        return f"for n in range({files}):\n    with open(str(n), 'wb') as f: f.write(bytes({size}))\nprint(1)"

    most = scratch.MAX_BYTES >> 20
    assert run(writer(most // 8 - 1, 8 << 20)).stdout == b"1\n"
    assert run(writer(most // 8 + 1, 8 << 20)).verdict is Verdict.OLE
    assert run(writer(scratch.MAX_FILES, 1)).stdout == b"1\n"
    assert run(writer(scratch.MAX_FILES + 1, 1)).verdict is Verdict.OLE
    assert run(writer(1, Limits().stdout_bytes + 2)).verdict is Verdict.RE  # a single file: as large as stdout may be


def test_the_folder_goes_with_its_server(mode: str) -> None:
    assert run(WRITE_AND_READ, b"x").verdict is None
    server = server_pid()
    assert len(roots(server)) == 1
    client.discard()
    assert roots(server) == []


def test_with_limits_only_anything_may_be_left_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(isolation.ISOLATION, "off")
    program = (
        "import os\nprint(os.listdir('.'))\nos.makedirs('a/b/c')\nos.symlink('/etc', 'link')\nos.mkfifo('p')\n"
        "open('a/b/f', 'w').close()\nos.chmod('a/b', 0o500)\nopen('../beside', 'w').close()"
    )
    assert [e.stdout for e in run_tests(program, [b"", b""], LIMITS)] == [b"[]\n", b"[]\n"]
    server = server_pid()
    client.discard()
    assert roots(server) == []
    assert os.listdir("/etc")


WRITE_AND_WAIT = "import time\nopen('left', 'w').write('x')\nprint(1, flush=True)\ntime.sleep(600)"


def start_and_kill(victim) -> int:
    """Run a test that writes and waits, in a process of its own, and kill what `victim(caller, server)` names.

    Returns the server's pid, when everything has ended.
    """
    code = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom verifier import client, executor\n"
    code += "print(client._running().process.pid, flush=True)\n"
    code += f"list(executor.run_tests({WRITE_AND_WAIT!r}, [b'']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as caller:
        server = int(caller.stdout.readline())
        assert wait_until(lambda: len(descendants(server)) == 2)
        family = {server} | descendants(server)
        for pid in victim(caller.pid, server):
            os.kill(pid, signal.SIGKILL)
        if caller.poll() is None:
            caller.kill()
    assert wait_until(lambda: not family & set(parents()))
    return server


def test_the_folder_goes_with_a_caller_that_is_killed() -> None:
    server = start_and_kill(lambda caller, server: [caller])
    assert roots(server) == []


def test_what_killed_servers_left_is_removed_at_the_next_start() -> None:
    if isolation.probe()["landlock"]:
        pytest.skip("no Landlock here")
    killed = start_and_kill(lambda caller, server: [server, caller])
    assert server_pid() != killed
    assert roots(killed) == []
    assert (own_root() / "0").is_dir()


def test_a_session_that_is_killed_leaves_nothing_to_the_next() -> None:
    if isolation.probe()["landlock"]:
        pytest.skip("no Landlock here")
    root = own_root()
    server = client._running().process.pid
    executions = run_tests("print(1)", [b"", b""], LIMITS)
    next(executions)
    sessions = [pid for pid, (parent, _) in parents().items() if parent == server]
    for pid in sessions:
        os.kill(pid, signal.SIGKILL)
    for slot in root.iterdir():
        (slot / "left").write_text("x")
    assert run("import os\nprint(os.listdir('.'))").stdout == b"[]\n"
    executions.close()
    for slot in root.iterdir():
        (slot / "left").unlink(missing_ok=True)


def test_another_slots_folder_is_out_of_reach() -> None:
    if isolation.probe()["landlock"]:
        pytest.skip("no Landlock here")
    root = own_root()
    (root / "1").mkdir(exist_ok=True)
    secrets = [folder / "secret" for folder in root.iterdir()]
    for path in secrets:
        path.write_text("secret")
    program = (
        "import os\nfor path in eval(input()):\n    for flags in (os.O_RDONLY, os.O_WRONLY):\n"
        "        try: print('opened', os.open(path, flags))\n        except OSError: pass\nprint('end')"
    )
    assert run(program, repr([str(path) for path in secrets]).encode()).stdout == b"end\n"
    for path in secrets:
        path.unlink(missing_ok=True)


def test_where_there_is_no_room_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "ROOM", 1 << 40)
    with pytest.raises(OSError, match="none of /dev/shm, /tmp, /var/tmp can be written and has"):
        scratch.place(2)
    monkeypatch.setattr(scratch, "ROOM", 4)
    assert scratch.place(1) in scratch.PLACES


def test_a_locked_root_is_not_swept_and_others_files_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "PLACES", (str(tmp_path),))
    living = scratch.Scratch(2)
    dead = tmp_path / f"code-reward-{os.getuid()}-dead"
    (dead / "0").mkdir(parents=True)
    (dead / "0" / "file").touch()
    (tmp_path / "precious").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"code-reward-{os.getuid()}-link").symlink_to(elsewhere)
    scratch.sweep()
    assert not dead.exists()
    assert Path(living.path).is_dir() and (tmp_path / "precious").exists() and elsewhere.is_dir()
    living.remove()
    assert not Path(living.path).exists()
