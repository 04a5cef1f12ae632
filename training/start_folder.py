"""Refuse a start folder with modules that would be taken in place of this project's, Python's or veRL's.

    python3 training/start_folder.py          as a file: `python3 -m` would itself look into the start folder first

`python3 -m` and Ray's workers look for modules in the folder that they are started from before anywhere else. A veRL checkout,
in a folder verl/, is meant to be found there. The project's own path may hold no colon, which ends a path in PYTHONPATH.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
NEEDED = {
    "datasets",
    "hydra",
    "numpy",
    "omegaconf",
    "pandas",
    "pyarrow",
    "ray",
    "tensordict",
    "torch",
    "transformers",
    "verl",
    "vllm",
}


def modules(folder: str) -> dict[str, str]:
    """{name: path} of the modules and packages in a folder."""
    found = {}
    for entry in os.listdir(folder):
        name, extension = os.path.splitext(entry)
        if extension == ".py":
            found[name] = os.path.join(folder, entry)
        elif os.path.isfile(os.path.join(folder, entry, "__init__.py")):
            found[entry] = os.path.join(folder, entry, "")
    return found


def problem(start: str, root: str) -> str | None:
    """What is wrong with starting from `start` a project in `root`, as one sentence; None: nothing."""
    if os.pathsep in root:
        return f"{root} holds a {os.pathsep}, which ends a path in PYTHONPATH: move this project elsewhere."
    if os.path.realpath(start) == root:
        return None
    names = {*modules(root), *sys.stdlib_module_names, *NEEDED} - {"test"}  # Python's own tests, which nobody imports
    for name, path in sorted(modules(start).items()):
        if name in names and not (name == "verl" and os.path.isdir(path)):
            taken = f"{path} would be imported in place of the module {name} that a run needs"
            return f"{taken}: rename it, or start from another folder."
    return None


if __name__ == "__main__":
    try:
        sentence = problem(os.getcwd(), ROOT)
    except OSError as error:  # deleted in the meantime, or nothing to be read by this user
        sentence = f"The start folder cannot be read ({error.strerror}): start from another folder."
    if sentence:
        print(sentence, file=sys.stderr)
        sys.exit(2)
