"""Becomes the model's program: sets the limits, compiles, says so, runs. Executed in the child, never imported.

Arguments: status fd; result fd (-1: none); folder that holds numpy (empty: none); then the limits: CPU seconds, bytes of
address space beyond the interpreter's own, bytes of stack, bytes a file, open files. The program is `main.py` in the
current folder; `program.py` beside it, where there is one, must compile as well (main.py is then a driver around it) and
is gone before main.py runs.

On the status pipe the parent reads how far this came: `L` launched, then `R` running, or `C` and why it does not
compile. It is closed before the program's first instruction, so no program can write there. The limits are set here
and not in a preexec_fn, which would run Python between fork and exec of a process that has threads.
"""

import _sitebuiltins
import builtins
import posix  # not os: a millisecond less in every test
import resource
import sys


def set_limit(kind, soft, hard):
    ceiling = resource.getrlimit(kind)[1]  # may be below ours already, and only root may raise it
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))


def compiled(name):
    with open(name, "rb") as file:
        source = file.read()
    # From str, so that a coding line cannot give the text a second reading.
    return compile(source.decode("utf-8").removeprefix("\ufeff"), name, "exec", dont_inherit=True)


status, result = int(sys.argv[1]), int(sys.argv[2])
cpu_seconds, address_space, stack, file_bytes, open_files = map(int, sys.argv[4:])
with open("/proc/self/statm", "rb") as statm:
    address_space += int(statm.read().split()[0]) * resource.getpagesize()
set_limit(resource.RLIMIT_CORE, 0, 0)
set_limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)
set_limit(resource.RLIMIT_FSIZE, file_bytes, file_bytes)
set_limit(resource.RLIMIT_NOFILE, open_files, open_files)
# For deep recursion. Only the main thread grows to it: glibc has taken its default for threads from the old value.
set_limit(resource.RLIMIT_STACK, stack, stack)
set_limit(resource.RLIMIT_AS, address_space, address_space)

# What `python3 main.py` would have set up; -S left out the site module, which can cost more than the test itself.
folder = posix.getcwd()
sys.path[0] = folder  # in place of this file's folder
if sys.argv[3]:
    sys.path.append(sys.argv[3])
sys.argv = ["main.py"]
builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
builtins.help = _sitebuiltins._Helper()
del sys.modules["resource"], sys.modules["_sitebuiltins"]
main = type(sys)("__main__")
main.__dict__.update(__builtins__=builtins, __file__=f"{folder}/main.py", __cached__=None, __annotations__={})
sys.modules["__main__"] = main

posix.write(status, b"L")
try:
    if "program.py" in posix.listdir():
        compiled("program.py")
        posix.unlink("program.py")
    code = compiled("main.py")
except BaseException as error:  # SyntaxError, but also ValueError, MemoryError, RecursionError: python3 would not run it
    posix.write(status, f"C{type(error).__name__}: {error}"[:500].encode(errors="replace"))
    posix._exit(1)
posix.write(status, b"R")
posix.close(status)
if result >= 0 and result != 3:
    posix.dup2(result, 3)  # calls.RESULT_FD
    posix.close(result)
sys.setrecursionlimit(sys.getrecursionlimit() + (2 if sys.version_info < (3, 12) else 1))  # this frame and exec's
exec(code, main.__dict__)
