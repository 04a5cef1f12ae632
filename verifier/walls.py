"""Making, putting up and trying the walls around a test. What they cover stands at the top of isolation.py.

Runs in the processes of the fork server only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable

from verifier import landlock, linux, namespaces, scratch, seccomp
from verifier.linux import out_of_the_way
from verifier.scratch import Scratch

PROTECTIONS = ("files", "network", "process tree", "parent")
_FIRST_SLOT_UID = 61184  # of no user on common systems; a slot's number is added
_SHARED_DATA = ("/usr/share/zoneinfo", "/usr/lib/locale")  # what the standard library and the C library read when asked
_EMPTY_FOLDERS = ("/var/empty", "/usr/share/empty", "/proc/sys/fs/binfmt_misc", "/srv", "/mnt", "/media", "/opt")
_THIRD_PARTY = ("site-packages", "dist-packages")


class Walls:
    """What a mode needs at hand to confine a test; made by `prepare` in the fork server."""

    def __init__(self, mode: str, allow_processes: bool) -> None:
        self.mode = mode
        self.allow_processes = allow_processes
        self.filter: seccomp.Filter | None = None
        self.scratch: Scratch | None = None
        self.rulesets: list[int] = []  # one for each slot, since each has a folder of its own, and one without a folder
        self.view: list[tuple[int, int]] = []  # (namespace descriptor, its kind)
        self.empty_folder = -1


def standard_library() -> list[str]:
    """Folders of the running interpreter's standard library."""
    return [p for p in sys.path if os.path.isdir(p) and os.path.isabs(p)]


def _package_folders(numpy_parent: str | None) -> list[str]:
    return [] if numpy_parent is None else [os.path.join(numpy_parent, name) for name in ("numpy", "numpy.libs")]


def _without_third_party(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name not in _THIRD_PARTY]


def _empty_folder() -> int:
    for path in _EMPTY_FOLDERS:
        try:
            state = os.stat(path)
            if os.listdir(path) == [] and state.st_uid == 0 and not state.st_mode & 0o022:
                return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
    raise OSError(f"no empty folder of root's among {', '.join(_EMPTY_FOLDERS)}")


def prepare(mode: str, numpy_parent: str | None, allow_processes: bool, slots: int) -> Walls:
    """Make ready, once, what every test will put up. Raises OSError where the machine lacks something."""
    walls = Walls(mode, allow_processes)
    if mode in scratch.MODES:
        with contextlib.suppress(OSError):  # no room for it: a test then has no folder to write in
            walls.scratch = Scratch(slots)
            walls.scratch.root = out_of_the_way(walls.scratch.root)
    try:
        _make(walls, numpy_parent, slots)
    except BaseException:
        if walls.scratch:
            walls.scratch.remove()
        raise
    return walls


def _make(walls: Walls, numpy_parent: str | None, slots: int) -> None:
    """What a mode needs beside the folders."""
    mode, allow_processes = walls.mode, walls.allow_processes
    if allow_processes:
        namespaces.enter_user_namespace()  # so that making pid namespaces needs no privilege
    if mode == "off":
        return
    if linux.MACHINE not in seccomp.AUDIT_ARCH:
        raise OSError(f"no system-call table for {linux.MACHINE or sys.platform}")
    instructions = seccomp.build(linux.MACHINE, allow_open=mode != "seccomp", allow_processes=allow_processes)
    walls.filter = seccomp.Filter(instructions)
    packages = _package_folders(numpy_parent)
    library = standard_library()
    if mode == "landlock":
        files = [path for folder in library for path in _without_third_party(folder)]
        readable = [*files, *packages, *_SHARED_DATA]
        folders = [walls.scratch.folder(slot) for slot in range(slots)] if walls.scratch else []
        for own in [*([folder] for folder in folders), []]:
            walls.rulesets.append(out_of_the_way(landlock.ruleset(readable, library, ["/dev/null"], own)))
    elif mode == "userns":
        hidden = [os.path.join(folder, name) for folder in library for name in _THIRD_PARTY]
        outer = [p for p in library if not any(p.startswith(q + "/") for q in library)]
        view = namespaces.make_view([*outer, *_SHARED_DATA, "/dev/null"], hidden, packages)
        walls.view = [(out_of_the_way(descriptor), kind) for descriptor, kind in view]
    elif mode == "chroot":
        if os.geteuid() != 0:
            raise OSError("only root can chroot")
        walls.empty_folder = out_of_the_way(_empty_folder())


def confine_session(walls: Walls) -> None:
    """What can be given up already by the process that watches the tests, for all of them at once."""
    if walls.mode == "off":
        return
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if walls.mode in ("landlock", "seccomp") and not walls.allow_processes:
        linux.drop_capabilities()


def confine(walls: Walls, slot: int, parent: int, keep: int) -> None:
    """Put up the walls around the calling process, for good, after confine_session in its parent. Raises OSError.

    slot: number of the host-wide slot, for its uid. parent: pid of the process that watches this one.
    keep: lowest descriptor that is closed.
    """
    for descriptor, kind in walls.view:
        linux.setns(descriptor, kind)
    has_folder = walls.scratch is not None and slot < walls.scratch.count
    if has_folder:
        walls.scratch.enter(slot)
    if walls.empty_folder >= 0:
        uid = _FIRST_SLOT_UID + slot
        if has_folder:
            walls.scratch.own(slot, uid)
        else:
            os.fchdir(walls.empty_folder)
        os.chroot(".")
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if walls.view or (walls.allow_processes and walls.mode != "off"):
        linux.drop_capabilities()  # joining or making namespaces needed them
    if walls.rulesets:
        landlock.restrict(walls.rulesets[slot if has_folder else -1])
        # Only here is /proc out of reach anyway; /dev/stdin can then be opened, as it can natively.
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
    linux.close_from(keep)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # after all changes of identity, which clear it
    if os.getppid() not in (parent, 0):  # the parent died before that line; 0: it is outside our pid namespace
        os._exit(1)
    if walls.filter is not None:
        walls.filter.install(os.getpid())


def _refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False


def _list_root() -> None:
    if not os.listdir("/"):
        raise OSError("empty")


def _forks() -> None:
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _escapes(allow_processes: bool, outside: list[str]) -> list[str]:
    """Try to get out; returns the protections that did not hold. outside: paths at which no file can be made."""
    held = {
        "files": _refused(lambda: os.open(__file__, os.O_RDONLY))
        and _refused(_list_root)
        and all(_refused(lambda p=path: _make_file(p)) for path in outside),
        "network": all(_refused(lambda f=f: socket.socket(f)) for f in (socket.AF_INET, socket.AF_UNIX)),
        "process tree": allow_processes or _refused(_forks),
        "parent": os.getppid() == 0 or _refused(lambda: os.kill(os.getppid(), 0)),
    }
    return [name for name in PROTECTIONS if not held[name]]


def attempt(mode: str, numpy_parent: str | None, allow_processes: bool) -> str:
    """Put up the walls of `mode` in a child and try to get out. Returns "" if they hold, else why they do not."""
    read, write = os.pipe()
    child = os.fork()
    outside = [os.path.join(place, f".code-reward-probe-{os.getpid()}") for place in ("/tmp", "/dev/shm", "/var/tmp")]
    if child == 0:
        walls = None
        try:
            watcher = os.getpid()
            scratch.sweep()
            walls = prepare(mode, numpy_parent, allow_processes, slots=1)
            os.dup2(write, 3)
            confine_session(walls)
            inner = namespaces.start_pid_namespace() if allow_processes else 0
            pid = os.fork()
            if pid == 0:
                confine(walls, 0, watcher, 4)
                os.write(3, json.dumps(_escapes(allow_processes, outside)).encode())
                os._exit(0)
            os.waitpid(pid, 0)
            if inner:
                namespaces.end_pid_namespace(inner)
        except BaseException as error:
            os.write(3 if walls else write, json.dumps(str(error) or repr(error)).encode())
        finally:
            if walls and walls.scratch:
                walls.scratch.remove()
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    for path in filter(os.path.exists, outside):
        os.unlink(path)
    outcome = json.loads(answer) if answer else "the attempt died"
    return outcome if isinstance(outcome, str) else "does not cover " + ", ".join(outcome) if outcome else ""
