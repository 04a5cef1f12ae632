# ruff: noqa: SIM105 - suppress() looks names up in builtins, which the program may have replaced
"""Running a program in a forked interpreter so that it notices no difference from `python3 file.py`.

Everything the interpreter does around a script is done here by hand: standard streams, a fresh __main__,
uncaught exceptions, exit codes, and the way down: threads, atexit, finalizers, flushing.
Names that the program could replace (os._exit, gc.collect) are bound before it runs.
"""

from __future__ import annotations

import atexit
import builtins
import codecs
import gc
import io
import os
import random
import re
import signal
import sys
from collections.abc import Iterable
from types import CodeType, ModuleType

FILE_NAME = "main.py"

_INTERRUPTED = -signal.SIGINT  # ended by KeyboardInterrupt: the interpreter kills itself by the signal
_exit = os._exit
_kill = os.kill
_own_pid = os.getpid
_set_handler = signal.signal
_collect = gc.collect
_run_exit_functions = atexit._run_exitfuncs
_seed = random.seed
# Kept referenced for ever: a stream that is let go flushes what it holds, in every child once more.
_startup_streams = (sys.stdin, sys.stdout, sys.stderr)
_streams: list[io.TextIOWrapper] = []

# Standard modules that do something when imported (venv.__main__ makes an environment, and nothing is confined yet), or
# that no judge needs.
_NOT_PRELOADED = {"antigravity", "this", "__hello__", "__phello__", "idlelib", "tkinter", "turtle", "turtledemo", "test"}
_NOT_PRELOADED |= {"__main__", "tests"}
# What these import only when first used, which a program that can open no file could not do itself.
_IMPORTED_LATE = {
    "datetime": ["_strptime"],
    "time": ["_strptime"],
    "concurrent": ["concurrent.futures.thread", "concurrent.futures.process"],
    "multiprocessing": [f"multiprocessing.{name}" for name in ("dummy", "pool", "popen_fork", "queues", "synchronize")],
    "asyncio": ["concurrent.futures.thread", "asyncio.base_futures"],
    "decimal": ["numbers"],
    "functools": ["weakref"],
    "argparse": ["locale", "shutil"],
    "unittest": ["locale", "shutil", "textwrap", "unittest.async_case"],
    "traceback": ["ast", "unicodedata"],
    "numpy": ["numpy.random", "numpy.ma"],  # so that it can be seeded; for unique and percentile
}
_NUMPY_PARTS = ("char", "ctypeslib", "fft", "polynomial", "rec", "strings", "testing")  # imported when first looked up
_MAX_CODECS = 1000  # words that are looked up, each in some 15 microseconds: a list of a million words is none of codecs
_MAYBE_CODEC = re.compile(r"[\"']([A-Za-z][\w-]{1,15})[\"']")
_IMPORT = re.compile(
    r"(?:^|[;:\"'])[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(?:\(([^()]*)|([\w, \t*]*))|import[ \t]+([\w., \t]+))", re.M
)
_IMPORT_CALL = re.compile(r"(?:__import__|import_module)\([ \t]*[\"']([\w.]+)[\"']")


def prepare_interpreter() -> None:
    """Once, in the fork server: the streams and builtins that every test will find."""
    for descriptor, mode, name, errors in (
        (0, "r", "<stdin>", "surrogateescape"),
        (1, "w", "<stdout>", "surrogateescape"),
        (2, "w", "<stderr>", "backslashreplace"),
    ):
        # With a buffer of the size that the interpreter itself takes.
        buffer = open(descriptor, mode + "b", closefd=False)  # noqa: SIM115 - open for ever
        buffer.raw.name = name
        # newline: as the interpreter itself opens them on Linux, so that "\r\n" reaches the program unchanged
        stream = io.TextIOWrapper(buffer, "utf-8", errors, newline="\n", line_buffering=descriptor == 2)
        stream.mode = mode
        _streams.append(stream)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = _streams
    import site  # which was kept from doing anything at the interpreter's start

    for add_names in (site.setquit, site.setcopyright, site.sethelper):  # exit and quit, license and others, help
        add_names()


def _import_module_or_member(name: str) -> None:
    """Import a.b where it is a module; where b is a member of a, importing a was enough."""
    package, _, member = name.rpartition(".")
    parent = sys.modules.get(package)
    if parent is None or (hasattr(parent, "__path__") and not hasattr(parent, member)):
        __import__(name)


def _modules_named(source: str) -> list[str]:
    """The modules that a program's text asks for; a name that is imported from one may be a module too."""
    wanted = _IMPORT_CALL.findall(source)
    for package, in_brackets, in_line, modules in _IMPORT.findall(source.replace("\\\n", " ")):
        if package:
            names = (in_brackets or in_line).split(",")
            wanted += [package, *(f"{package}.{name.split()[0]}" for name in names if name.split())]
        wanted += [name.split()[0] for name in modules.split(",") if name.split()]
    return wanted


def _load_codecs(names: Iterable[str]) -> None:
    for name in names:
        try:
            codecs.lookup(name)
        except BaseException:  # LookupError, most often
            continue


def preload(source: str, others: Iterable[str] = ()) -> None:
    """Import, once for all its tests, the standard modules (and numpy) that a program's text asks for, and `others`.

    Importing runs none of the program's own code. A module that fails to import is left for the program to meet.
    """
    wanted = [*_modules_named(source), *others]
    if "numpy" in source:  # however it is imported: a confined child cannot load the C++ library that it needs
        wanted += ["numpy", *(f"numpy.{part}" for part in _NUMPY_PARTS if f".{part}" in source)]
    if "cod" in source:  # encode, decode, encoding, codecs
        _load_codecs(list(dict.fromkeys(_MAYBE_CODEC.findall(source)))[:_MAX_CODECS])
    for name in wanted:
        top = name.partition(".")[0]
        if not _NOT_PRELOADED.isdisjoint(name.split(".")) or not (top in sys.stdlib_module_names or top == "numpy"):
            continue
        for module in [name, *_IMPORTED_LATE.get(top, [])]:
            try:
                _import_module_or_member(module)
            except BaseException:
                continue


def compile_program(source: str) -> CodeType:
    """Compile as a file would be, less the coding cookie: the text is Unicode already.

    Raises SyntaxError, ValueError, OverflowError, RecursionError or MemoryError.
    """
    return compile(source.removeprefix("\ufeff"), FILE_NAME, "exec", dont_inherit=True)


def show_source(source: str) -> None:
    """Let inspect and traceback find the program's lines, as they would in its file."""
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        linecache.cache[FILE_NAME] = (len(source), None, source.splitlines(True), FILE_NAME)


def _exit_status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    try:
        sys.stderr.write(f"{code}\n")
    except BaseException:
        pass
    return 1


def _show_both(second: BaseException, first: BaseException) -> None:
    try:
        for title, error in (("Error in sys.excepthook:", second), ("\nOriginal exception was:", first)):
            sys.stderr.write(f"{title}\n")
            sys.__excepthook__(type(error), error, error.__traceback__)
    except BaseException:
        pass


def _flush_both() -> None:
    """As the interpreter does when a script's last line is done, before anything that still runs can print."""
    for name in ("stderr", "stdout"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass


def _execute(code: CodeType, namespace: dict[str, object]) -> int:
    try:
        try:
            exec(code, namespace)
        finally:
            _flush_both()
    except SystemExit as stop:
        return _exit_status(stop.code)
    except BaseException as error:
        try:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # less our own frame
            sys.excepthook(type(error), error, error.__traceback__)
        except BaseException as second:
            _show_both(second, error)
        return _INTERRUPTED if type(error) is KeyboardInterrupt else 1
    return 0


def _flushed(stream: object) -> bool:
    try:
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    except BaseException as error:
        try:
            sys.stderr.write(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}\n")
        except BaseException:
            pass
        return False
    return True


def _detached(stream: io.TextIOWrapper) -> bool:
    """Whether the program took the stream's buffer away, to put a stream of its own around it."""
    try:
        return stream.buffer is None
    except ValueError:
        return True


def _finish(status: int) -> int:
    """Take the interpreter down in its own order; returns the exit status."""
    threading = sys.modules.get("threading")
    for step in ([threading._shutdown] if threading is not None else []) + [_run_exit_functions]:
        try:
            step()
        except BaseException:
            pass
    for name in ("stdout", "stderr"):
        if not _flushed(getattr(sys, name, None)):
            status = 120  # the interpreter's own code for output that could not be written
    # Finalizers see the module's names intact: nothing is cleared, the whole namespace is let go.
    sys.modules.pop("__main__", None)
    try:
        _collect()
    except BaseException:
        pass
    for stream in _streams[1:]:
        if not _detached(stream) and not _flushed(stream) and stream is _streams[1]:
            status = 120
    return status


def run_program(code: CodeType) -> None:
    """Run and end the process, as `python3 main.py` would. Never returns."""
    status = 1
    try:
        numpy_random = sys.modules.get("numpy.random")
        _seed(0)
        if numpy_random is not None:
            numpy_random.seed(0)
        main = ModuleType("__main__")
        namespace = main.__dict__
        namespace.update(__file__=FILE_NAME, __builtins__=builtins, __annotations__={}, __cached__=None)
        sys.modules["__main__"] = main
        sys.argv[:] = [FILE_NAME]
        depth, frame = 0, sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        del frame
        # What lies below the program's own frames does not count against it; exec itself counted before Python 3.12.
        sys.setrecursionlimit(1000 + depth + (3 if sys.version_info < (3, 12) else 2))
        status = _execute(code, namespace)
        del main, namespace
        interrupted = status == _INTERRUPTED
        status = _finish(1 if interrupted else status)
        if interrupted:
            _set_handler(signal.SIGINT, signal.SIG_DFL)
            _kill(_own_pid(), signal.SIGINT)
    finally:
        _exit(status)
