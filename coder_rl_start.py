"""This project's packages come before all others of their names, and those of the start folder after all others.

    python3 coder_rl_start.py -m training.preflight ARGUMENT ...     as python3 -m, for the scripts

`python3 -m` and Ray's workers look into the folder that they are started from before anything else, so a user's own training/
or json.py there would be taken in place of this project's or of Python's. A veRL checkout in that folder keeps its place, and
so does what PYTHONPATH names. veRL imports this module in each of its processes (VERL_USE_EXTERNAL_MODULES), hence a name that
nobody else has.
"""

from __future__ import annotations

import os
import runpy
import sys

ROOT = os.path.dirname(os.path.realpath(__file__))


def arrange() -> None:
    """Order sys.path. Calling it twice changes nothing."""
    rest = [folder for folder in sys.path if folder != ROOT]
    try:
        start = os.getcwd()
    except FileNotFoundError:  # deleted in the meantime
        start = ROOT
    if start not in (ROOT, *os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        rest = [folder for folder in rest if folder not in ("", start)]
        rest.insert(0 if os.path.isfile("verl/__init__.py") else len(rest), start)
    sys.path[:] = [ROOT, *rest]


def command(module: str, *arguments: str) -> list[str]:
    """python3 -m MODULE ARGUMENT ..., started as this file does it."""
    return [sys.executable, os.path.join(ROOT, os.path.basename(__file__)), "-m", module, *arguments]


arrange()

if __name__ == "__main__":
    if sys.argv[1:2] != ["-m"] or len(sys.argv) < 3:
        sys.exit(f"usage: python3 {sys.argv[0]} -m MODULE [ARGUMENT ...]")
    del sys.argv[:2]
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:  # Ctrl-C, which needs no traceback
        sys.exit(130)
