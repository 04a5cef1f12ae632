"""The system-call filter of a test: which calls a program may make, as a BPF program for the kernel.

An allow-list. What is not on it fails with EPERM, or ENOSYS where libraries then take an older call.
The rule that matters most: `clone` makes threads only. A program that cannot start a process cannot leave
one behind, so killing one pid ends everything, without cgroups or namespaces.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from verifier import linux

# Allowed whatever the arguments. (x86_64, aarch64); None: the machine has no such call.
_ALLOWED = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62),
    "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291),
    "statfs": (137, 43), "fstatfs": (138, 44), "access": (21, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50),
    "getdents": (78, None), "getdents64": (217, 61),
    "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66),
    "preadv": (295, 69), "pwritev": (296, 70), "ftruncate": (77, 46), "fsync": (74, 82),
    "fdatasync": (75, 83), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "pipe": (22, None), "pipe2": (293, 59), "umask": (95, 166),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd": (284, None), "eventfd2": (290, 19),
    # Neither mincore nor fadvise64: through the cache of a file that all can read, one program could speak to another.
    # On the two ends of a socketpair, the only sockets there are (asyncio wakes itself through one). No sendmsg: a
    # descriptor that is under way in a message counts for nobody.
    "getsockname": (51, 204), "getsockopt": (55, 209), "shutdown": (48, 210),
    "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216), "msync": (26, 227),
    "madvise": (28, 233), "brk": (12, 214),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "pause": (34, None), "alarm": (37, None),
    "getitimer": (36, 102), "setitimer": (38, 103), "nanosleep": (35, 101), "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None),
    "times": (100, 153), "futex": (202, 98), "set_tid_address": (218, 96), "set_robust_list": (273, 99),
    "rseq": (334, 293), "membarrier": (324, 283), "arch_prctl": (158, None),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126), "getpriority": (140, 141),
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158), "getpgrp": (111, None), "getpgid": (121, 155),
    "getsid": (124, 156), "uname": (63, 160), "getrlimit": (97, 163), "getrusage": (98, 165),
    "sysinfo": (99, 179), "getcpu": (309, 168), "getrandom": (318, 278),
    "wait4": (61, 260), "waitid": (247, 95), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_OPENING = {"readlink": (89, None), "readlinkat": (267, 78)}
_FORKING = {"fork": (57, None), "vfork": (58, None), "setsid": (112, 157), "setpgid": (109, 154)}
_CHECKED = {
    "open": (2, None), "openat": (257, 56),
    "clone": (56, 220), "clone3": (435, 435), "openat2": (437, 437), "kill": (62, 129), "tgkill": (234, 131),
    "ioctl": (16, 29), "fcntl": (72, 25), "prctl": (157, 167), "prlimit64": (302, 261),
    "setrlimit": (160, 164), "socketpair": (53, 199), "sendto": (44, 206), "recvfrom": (45, 207),
    "close_range": (436, 436), "mmap": (9, 222),
}  # fmt: skip
CALLS = {**_ALLOWED, **_OPENING, **_FORKING, **_CHECKED}

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD, JUMP, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
OWN_PID = 0x5AFE1D01  # stands for the program's own pid until it is known
_NEWEST_CALL = 451  # from here on: calls younger than this list, which libraries try before older ones

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def fail(error: int) -> int:
    return 0x00050000 | error


def _constant(action: int) -> list[Instruction]:
    return [(RETURN, 0, 0, action)]


def _argument(index: int, high: bool = False) -> Instruction:
    return (LOAD, 0, 0, 16 + 8 * index + 4 * high)


def _one_of(index: int, values: tuple[int, ...], otherwise: int) -> list[Instruction]:
    """Allow when the low half of an argument is one of `values`."""
    tests = [(EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [_argument(index), *tests, (RETURN, 0, 0, otherwise), (RETURN, 0, 0, ALLOW)]


def _none_of(index: int, bits: int) -> list[Instruction]:
    """Allow when none of `bits` is set in the low half of an argument."""
    return [_argument(index), (ANY_BIT, 0, 1, bits), (RETURN, 0, 0, fail(errno.EPERM)), (RETURN, 0, 0, ALLOW)]


def _open_rule(flags_index: int) -> list[Instruction]:
    """Any flags but two: a file without a name would escape the count of what a test has written, and Landlock before
    Linux 6.2 lets a file that is opened for reading be cut to nothing in the same breath."""
    temporary, truncate, access = 0x400000, 0x200, 0x3  # __O_TMPFILE, O_TRUNC, O_ACCMODE
    return [
        _argument(flags_index),
        (ANY_BIT, 0, 1, temporary),
        (RETURN, 0, 0, fail(errno.EOPNOTSUPP)),
        (ANY_BIT, 0, 3, truncate),
        (AND, 0, 0, access),
        (EQUAL, 1, 0, 1),  # O_WRONLY
        (EQUAL, 0, 1, 2),  # O_RDWR
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, fail(errno.EACCES)),
    ]


def _checked_rules(allow_open: bool, allow_processes: bool) -> dict[str, list[Instruction]]:
    denied = fail(errno.EPERM)
    new_namespaces = 0x7E020000
    # CLONE_VM, FS, FILES, SIGHAND, THREAD: one that shares less has, for one, a table of descriptors of its own.
    thread = 0x00010F00
    shared_anonymous = 0x21  # MAP_SHARED, MAP_ANONYMOUS
    huge_pages = 0x40000  # MAP_HUGETLB: from a stock of the machine's, and no part of what a process is seen to use
    if allow_processes:
        clone = _none_of(0, new_namespaces)
        kill = _constant(ALLOW)  # the pid namespace holds nobody else
        mmap = _none_of(3, huge_pages)
    else:
        clone = [
            _argument(0),
            (ANY_BIT, 2, 0, new_namespaces),
            (AND, 0, 0, thread),
            (EQUAL, 1, 0, thread),
            (RETURN, 0, 0, denied),
            (RETURN, 0, 0, ALLOW),
        ]
        kill = _one_of(0, (OWN_PID,), denied)
        # Such memory lives on as a whole while one page of it is mapped, and then no count of the process shows it.
        mmap = [
            _argument(3),
            (ANY_BIT, 2, 0, huge_pages),
            (AND, 0, 0, shared_anonymous),
            (EQUAL, 0, 1, shared_anonymous),
            (RETURN, 0, 0, denied),
            (RETURN, 0, 0, ALLOW),
        ]
    rlimit_stack = 3
    closed = _constant(fail(errno.EACCES))
    return {
        "open": _open_rule(1) if allow_open else closed,
        "openat": _open_rule(2) if allow_open else closed,
        "clone": clone,
        "clone3": _constant(fail(errno.ENOSYS)),  # its flags lie in memory, out of a filter's reach
        "openat2": _constant(fail(errno.ENOSYS)),
        "close_range": _none_of(2, 2),  # CLOSE_RANGE_UNSHARE: as a thread that shares less
        "mmap": mmap,
        "sendto": _none_of(3, 1),  # MSG_OOB: nobody needs it, and it has let programs into the kernel
        "recvfrom": _none_of(3, 1),
        "kill": kill,
        "tgkill": kill,
        # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
        "ioctl": _one_of(1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451), fail(errno.ENOTTY)),
        # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ: no locks (a channel between
        # programs that read the same file), no larger pipes (memory that nobody counts)
        "fcntl": _one_of(1, (0, 1, 2, 3, 4, 1030, 1032), denied),
        # PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
        "prctl": _one_of(0, (3, 15, 16, 0x53564D41), denied),
        # Limits can be read; the soft stack limit can be raised (the usual idiom), the address space bounds it.
        "setrlimit": _one_of(0, (rlimit_stack,), denied),
        "prlimit64": [
            _argument(0),
            (EQUAL, 0, 6, 0),
            _argument(1),
            (EQUAL, 5, 0, rlimit_stack),
            _argument(2),
            (EQUAL, 0, 2, 0),
            _argument(2, high=True),
            (EQUAL, 1, 0, 0),
            (RETURN, 0, 0, denied),
            (RETURN, 0, 0, ALLOW),
        ],
        # AF_UNIX streams only: a datagram socket could still send to a named one.
        "socketpair": [
            _argument(0),
            (EQUAL, 0, 3, 1),
            _argument(1),
            (AND, 0, 0, 0xF),
            (EQUAL, 1, 0, 1),
            (RETURN, 0, 0, denied),
            (RETURN, 0, 0, ALLOW),
        ],
    }


def _tree(starts: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Binary search over (first call number, what to do from there on).

    The kernel runs a new filter once for every call it knows, to remember those that are always allowed: a
    tree instead of a list makes installing it, which every test pays for, several times cheaper.
    """
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    low, high = _tree(starts[:middle]), _tree(starts[middle:])
    return [(AT_LEAST, 0, 1, starts[middle][0]), (JUMP, 0, 0, len(low)), *low, *high]


def assemble(machine: str, rules: dict[int, list[Instruction]], otherwise: int) -> list[Instruction]:
    """A whole filter. rules: what to do for a call's number, ending in a return; otherwise: for those without."""
    starts: list[tuple[int, list[Instruction]]] = []
    for number in range(_NEWEST_CALL):
        rule = rules.get(number, _constant(otherwise))
        if not starts or starts[-1][1] != rule:
            starts.append((number, rule))
    starts.append((_NEWEST_CALL, _constant(fail(errno.ENOSYS))))
    starts.append((0x40000000, _constant(KILL)))  # the x32 ABI: the same calls under other numbers
    return [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, AUDIT_ARCH[machine]),  # int 0x80 would mean other calls by these numbers
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
        *_tree(starts),
    ]


def build(machine: str, *, allow_open: bool = True, allow_processes: bool = False) -> list[Instruction]:
    """The filter of a test, for "x86_64" or "aarch64". Without `allow_open` no path can be opened."""
    column = list(AUDIT_ARCH).index(machine)
    rules = {name: _constant(ALLOW) for name in _ALLOWED}
    rules |= {name: _constant(ALLOW if allow_open else fail(errno.EACCES)) for name in _OPENING}
    if allow_processes:
        rules |= {name: _constant(ALLOW) for name in _FORKING}
    rules |= _checked_rules(allow_open, allow_processes)
    by_number = {CALLS[name][column]: rule for name, rule in rules.items() if CALLS[name][column] is not None}
    return assemble(machine, by_number, fail(errno.EPERM))


class Filter:
    """A filter in the kernel's form, kept ready so that a test only writes its pid into it."""

    def __init__(self, instructions: list[Instruction]) -> None:
        packed = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
        self._memory = ctypes.create_string_buffer(packed, len(packed))
        self._pids = [8 * i + 4 for i, instruction in enumerate(instructions) if instruction[3] == OWN_PID]
        # struct sock_fprog: a length, padding, a pointer
        self._program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(self._memory)))

    def install(self, pid: int) -> None:
        """Confine the calling process for good. no_new_privs must be set. Raises OSError."""
        for offset in self._pids:
            struct.pack_into("I", self._memory, offset, pid)
        set_mode_filter, keep_speculation = 1, 4  # else older kernels slow the whole program down (SSBD)
        linux.syscall("seccomp", set_mode_filter, keep_speculation, self._program)
