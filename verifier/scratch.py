"""The working folder of a test: a place of its own to make and write files in, empty at its start and gone with it.

Plain files only: the system-call filter refuses folders, links, pipes, sockets, devices, renaming and removing. So a
folder stays flat, whatever the program does, and every byte that it writes is found by listing it. (Of a file that can
be removed or replaced the content would live on, uncounted, in a descriptor or a mapping.) How much it may hold is
watched, and it is emptied when the test's process is gone.

    the fork server's folder: nothing can be made in it; locked for as long as a process of the fork server lives
      `- one folder for each host-wide slot, used by one test at a time

On /dev/shm where that has room to spare, so that a full disk does not matter, else where temporary files go.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

MODES = ("landlock", "chroot", "off")  # of isolation.py, in which a test can have a folder
PLACES = ("/dev/shm", "/tmp", "/var/tmp")
MAX_BYTES, MAX_FILES = 64 << 20, 256  # of one test; looked at a few times a second, so a fast writer gets some more
ROOM = 4  # times what all slots may hold must be free
_UNTOUCHED = (0, 0)  # the times of an empty folder; any file that is made in it changes them


def place(count: int) -> str:
    """Where the folders of `count` slots can be. Raises OSError where nowhere is room."""
    for path in PLACES:
        if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
            state = os.statvfs(path)
            if state.f_bavail * state.f_frsize >= ROOM * count * MAX_BYTES:
                return path
    raise OSError(f"none of {', '.join(PLACES)} can be written and has {ROOM * count * MAX_BYTES >> 20} MiB to spare")


class Scratch:
    """The folders of one fork server, for slots 0 to count - 1."""

    def __init__(self, count: int) -> None:
        """Make them. Raises OSError."""
        self.count = count
        where = place(count)
        self.path = ""
        while not self.path:
            path = os.path.join(where, f"{_prefix()}{os.getpid()}-{os.urandom(8).hex()}")
            os.mkdir(path, 0o700)
            self.root = _open_folder(path)
            # A sweep may have found the new folder before it was locked.
            if _lock(self.root) and os.path.exists(path):
                self.path = path
            else:
                os.close(self.root)
        for slot in range(count):
            os.mkdir(str(slot), 0o700, dir_fd=self.root)
            os.utime(str(slot), _UNTOUCHED, dir_fd=self.root)
        os.chmod(self.root, 0o500)

    def folder(self, slot: int) -> str:
        return os.path.join(self.path, str(slot))

    def enter(self, slot: int) -> None:
        """Make a slot's folder the working folder of this process."""
        os.chdir(self.folder(slot))

    def own(self, slot: int, uid: int) -> None:
        """Give a slot's folder to the user that its tests run as."""
        os.chown(str(slot), uid, uid, dir_fd=self.root)

    def is_full(self, slot: int) -> bool:
        """Whether a test has put more into its folder than it may."""
        if self._is_untouched(slot):
            return False
        with _listing(self.root, slot) as entries:
            return _too_much(list(entries))

    def empty(self, slot: int) -> bool:
        """Take out what a test has left; no process of it may live. Returns whether that was more than it may.

        Raises OSError where it cannot be taken out.
        """
        if self._is_untouched(slot):
            return False
        with _listing(self.root, slot) as entries:
            left = list(entries)
            full = _too_much(left)
            for entry in left:
                _remove(os.path.join(self.folder(slot), entry.name))
        os.utime(str(slot), _UNTOUCHED, dir_fd=self.root)
        return full

    def remove(self) -> None:
        """All of it; no test may run."""
        _remove_root(self.path, self.root)
        os.close(self.root)

    def _is_untouched(self, slot: int) -> bool:
        return slot >= self.count or os.stat(str(slot), dir_fd=self.root, follow_symlinks=False).st_mtime_ns == 0


def _prefix() -> str:
    return f"code-reward-{os.getuid()}-"


def _open_folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _listing(root: int, slot: int):
    descriptor = os.open(str(slot), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def _too_much(entries: list[os.DirEntry]) -> bool:
    return len(entries) > MAX_FILES or sum(map(_bytes_of, entries)) > MAX_BYTES


def _bytes_of(entry: os.DirEntry) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:  # with limits only, a program can remove files
        return 0


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except IsADirectoryError:  # with limits only
        import shutil  # late: every module makes every fork dearer

        shutil.rmtree(path)


def _remove_root(path: str, root: int) -> None:
    import shutil

    os.chmod(root, 0o700)
    shutil.rmtree(path)


def sweep() -> None:
    """Remove what fork servers of this user have left that were killed, with all their processes."""
    for where in PLACES:
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(where) if name.startswith(_prefix())]
            for path in (os.path.join(where, name) for name in names):
                with contextlib.suppress(OSError):
                    root = _open_folder(path)
                    try:
                        if os.fstat(root).st_uid == os.getuid() and _lock(root):
                            _remove_root(path, root)
                    finally:
                        os.close(root)
