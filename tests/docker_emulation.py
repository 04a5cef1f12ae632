"""Run a command under what Docker's default settings leave it: python3 docker_emulation.py COMMAND ...

The default capability set, and the refusals of the default system-call profile (moby, profiles/seccomp/default.json)
for a container without CAP_SYS_ADMIN. An emulation of these two only; x86_64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from verifier import linux, seccomp

CAPABILITIES = 0xA80425FB
# unshare setns mount umount2 pivot_root bpf fanotify_init fsopen fsconfig fsmount fspick open_tree move_mount
# mount_setattr perf_event_open quotactl sethostname setdomainname syslog keyctl add_key request_key userfaultfd
# open_by_handle_at kcmp pidfd_getfd process_madvise iopl ioperm settimeofday clock_settime vhangup get_mempolicy
# mbind set_mempolicy reboot init_module delete_module finit_module acct swapon swapoff kexec_load nfsservctl
# lookup_dcookie uselib ustat sysfs _sysctl
REFUSED = (
    272, 308, 165, 166, 155, 321, 300, 430, 431, 432, 433, 428, 429, 442, 298, 179, 170, 171, 103, 250, 248, 249, 323,
    304, 312, 438, 440, 172, 173, 164, 227, 153, 239, 237, 238, 169, 175, 176, 313, 163, 167, 168, 246, 180,
    212, 134, 136, 139, 156,
)  # fmt: skip
CLONE, CLONE3, SOCKET = 56, 435, 41
NEW_NAMESPACES, AF_VSOCK = 0x7E020000, 40


def profile() -> list[seccomp.Instruction]:
    """The filter: everything allowed but the above, new namespaces by clone, and vsock."""
    allowed = (seccomp.RETURN, 0, 0, seccomp.ALLOW)
    denied = (seccomp.RETURN, 0, 0, seccomp.fail(errno.EPERM))
    argument = (seccomp.LOAD, 0, 0, 16)
    rules = {number: [denied] for number in REFUSED}
    rules[CLONE] = [argument, (seccomp.ANY_BIT, 0, 1, NEW_NAMESPACES), denied, allowed]
    rules[CLONE3] = [(seccomp.RETURN, 0, 0, seccomp.fail(errno.ENOSYS))]
    rules[SOCKET] = [argument, (seccomp.EQUAL, 0, 1, AF_VSOCK), denied, allowed]
    return seccomp.assemble("x86_64", rules, seccomp.ALLOW)


def drop_to(capabilities: int) -> None:
    """Keep only `capabilities`, for this process and whatever it executes."""
    drop_bounding = 24
    for number in range(64):
        if not capabilities >> number & 1:
            linux.libc.prctl(drop_bounding, ctypes.c_ulong(number), 0, 0, 0)  # fails past the newest one
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    low, high = capabilities & 0xFFFFFFFF, capabilities >> 32
    linux.syscall("capset", header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0))


if __name__ == "__main__":
    if os.geteuid() == 0:
        drop_to(CAPABILITIES)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.Filter(profile()).install(os.getpid())
    os.execvp(sys.argv[1], sys.argv[1:])
