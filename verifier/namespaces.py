"""Namespaces: a read-only view of the file system without Landlock, and a pid namespace for forking programs.

The view is made once by a helper that then ends; a test joins it with setns, which costs microseconds, while
making new namespaces for every test would make network set-up the bottleneck.
"""

from __future__ import annotations

import os
import signal

from verifier import linux

_VIEW = {
    "user": linux.CLONE_NEWUSER,  # first: it brings the right to join the others
    "mnt": linux.CLONE_NEWNS,
    "net": linux.CLONE_NEWNET,
    "ipc": linux.CLONE_NEWIPC,
    "uts": linux.CLONE_NEWUTS,
}
# Where the view is put together: hidden inside the helper's own mount namespace only.
_STAGES = ("/mnt", "/srv", "/media", "/opt", "/run", "/var/tmp", "/tmp")


def enter_user_namespace(others: int = 0) -> None:
    """Move the calling process into a new user namespace (as the same user) and `others`. Raises OSError."""
    uid, gid = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER | others)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _make_folders(path: str, root: str) -> None:
    """Folders that can be passed through but not listed."""
    if path.startswith(root + "/") and not os.path.isdir(path):
        _make_folders(os.path.dirname(path), root)
        os.mkdir(path, 0o111)


def _bind_read_only(source: str, root: str) -> None:
    target = root + source
    if os.path.isdir(source):
        _make_folders(target, root)
    else:
        _make_folders(os.path.dirname(target), root)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    linux.mount(source, target, None, linux.MS_BIND)
    # Flags that the mount already has cannot be taken away in a user namespace, so they are named again.
    kept = os.statvfs(target).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_RELATIME)
    linux.mount("none", target, None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | kept)


def _build_view(folders: list[str], hidden: list[str], shown: list[str]) -> None:
    others = 0
    for flag in list(_VIEW.values())[1:]:
        others |= flag
    enter_user_namespace(others)
    os.umask(0)
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    paths = folders + shown
    root = next(s for s in _STAGES if os.path.isdir(s) and not any(p.startswith(s + "/") for p in paths))
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1m,mode=111")
    own = [root]
    for path in folders:
        if os.path.exists(path):
            _bind_read_only(path, root)
    for path in hidden:
        if os.path.isdir(root + path):
            linux.mount("tmpfs", root + path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1m,mode=111")
            own.append(root + path)
    for path in shown:
        if os.path.exists(path):
            _bind_read_only(path, root)
    for path in own:
        flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
        linux.mount("none", path, None, flags)
    os.chdir(root)
    linux.syscall("pivot_root", b".", b".")
    linux.unmount(".", linux.MNT_DETACH)  # the old root, stacked on top of the new one
    os.chdir("/")


def make_view(folders: list[str], hidden: list[str], shown: list[str]) -> list[tuple[int, int]]:
    """Descriptors of the namespaces of a view in which only `folders`, less `hidden`, and `shown` exist.

    Returns (descriptor, kind) in the order in which to join them. Raises OSError.
    """
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    helper = os.fork()
    if helper == 0:
        try:
            _build_view(folders, hidden, shown)
            os.write(ready_write, b"ok")
            os.close(done_write)
            os.read(done_read, 1)
        except BaseException as error:
            os.write(ready_write, str(error).encode()[:500])
        os._exit(0)
    os.close(ready_write)
    os.close(done_read)
    try:
        answer = os.read(ready_read, 500)
        if answer != b"ok":
            raise OSError(answer.decode() or "the helper died")
        return [(os.open(f"/proc/{helper}/ns/{name}", os.O_RDONLY), kind) for name, kind in _VIEW.items()]
    finally:
        os.close(ready_read)
        os.close(done_write)
        os.waitpid(helper, 0)


def start_pid_namespace() -> int:
    """Make a pid namespace for all children to come; returns the pid of its first process, which only waits.

    Killing that one kills all. It is not the program itself, since a first process ignores its own signals.
    """
    linux.unshare(linux.CLONE_NEWPID)
    init = os.fork()
    if init == 0:
        try:
            linux.close_from(0)
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are reaped at once
            while True:
                signal.pause()
        finally:
            os._exit(1)
    return init


def end_pid_namespace(init: int) -> None:
    """Kill everything in the namespace of `init`; returns when all of it is gone."""
    os.kill(init, signal.SIGKILL)
    os.waitpid(init, 0)
