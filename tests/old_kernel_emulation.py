"""Run a command without the system calls that came after Linux 5.4: python3 old_kernel_emulation.py COMMAND ...

Of an old kernel only this; close_range and Landlock are what the verifier would use of them. x86_64.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from verifier import linux, seccomp

FIRST_MISSING, LAST_MISSING = 436, 450  # close_range; assemble() takes away those from 451 on

if __name__ == "__main__":
    missing = {
        number: [(seccomp.RETURN, 0, 0, seccomp.fail(errno.ENOSYS))] for number in range(FIRST_MISSING, LAST_MISSING + 1)
    }
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.Filter(seccomp.assemble("x86_64", missing, seccomp.ALLOW)).install(os.getpid())
    os.execvp(sys.argv[1], sys.argv[1:])
