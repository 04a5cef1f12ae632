"""What a run looks like: curves, warnings and samples from the files that veRL and the reward write.

    python3 plot_metrics.py RUN                curves.png and curves.html in RUN
    python3 plot_metrics.py RUN1 RUN2          laid over each other, in the current folder
    python3 plot_metrics.py RUN --follow       a line a step, while the run goes on
    python3 plot_metrics.py RUN --steps        the same lines of the steps so far
    python3 plot_metrics.py RUN --check        what is wrong with it, a line each; exit code 1 if something is
    python3 plot_metrics.py RUN --samples 40   prompts, responses, programs and verdicts of step 40, worst and best first
    python3 plot_metrics.py RUN --rerun        the page, with what its samples' programs print on the tests that they fail

RUN is a run directory (runs/EXPERIMENT_NAME) or a metrics file alone. Reading it needs neither veRL nor a GPU.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from monitoring import follow, health, samples
from monitoring.curves import curves
from monitoring.run import Run, RunError, names, open_run, read
from monitoring.text import one_line
from verifier.isolation import IsolationError

SAMPLES_ON_PAGE = 6  # of a step and split: three worst, three best
STEPS_ON_PAGE = 6  # whose samples are shown, from the first to the last


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run directory or a metrics file")
    parser.add_argument("--out", type=Path, help="folder for curves.png and curves.html")
    parser.add_argument("--follow", action="store_true", help="print a line a step until Ctrl-C")
    parser.add_argument("--steps", action="store_true", help="print a line a step of those so far")
    parser.add_argument(
        "--check", action="store_true", help="print warnings, exit 1 if there are any; with --follow: at the first"
    )
    parser.add_argument(
        "--samples", nargs="?", type=int, const=-1, metavar="STEP", help="show a step's samples; without STEP the last"
    )
    parser.add_argument("--rerun", action="store_true", help="run each shown program on the test it failed, to show its output")
    chosen = parser.parse_args(arguments)
    sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character is no reason to fail
    try:
        runs = [open_run(path) for path in chosen.runs]
        if len(runs) > 1 and (chosen.follow or chosen.steps or chosen.samples is not None):
            raise RunError("--follow, --steps and --samples show one run: name only one.")
        if chosen.steps:
            read(runs[0])  # a run without steps is an error here; --follow waits for the first
        if chosen.follow or chosen.steps:
            return _follow(runs[0], chosen.check, once=chosen.steps)
        for run in runs:
            read(run)
        if chosen.check:
            return _check(runs)
        if chosen.samples is not None:
            return _samples(runs[0], None if chosen.samples < 0 else chosen.samples, chosen.rerun)
        return _draw(runs, chosen.out or (runs[0].folder if len(runs) == 1 else Path()), chosen.rerun)
    except BrokenPipeError:  # as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return 0
    except (RunError, IsolationError, OSError) as error:
        print(f"plot_metrics: {one_line(error)}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"plot_metrics: {error}: install requirements.txt, or requirements-cpu.txt without a GPU", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _wait(seconds: float) -> None:
    """Raises BrokenPipeError as soon as nobody reads stdout any more, for the next line may take minutes."""
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)  # errors only
    if stdout.poll(1000 * seconds):
        raise BrokenPipeError


def _follow(run: Run, check: bool, once: bool) -> int:
    for line in follow.follow(run, _wait, once):
        print(line, flush=True)
        if check and line.startswith("[warning]"):
            return 1
    return 0


def _check(runs: list[Run]) -> int:
    found = [(name, warning) for name, run in zip(names(runs), runs, strict=True) for warning in health.findings(curves(run))]
    for name, warning in found:
        print(f"{name}: {warning.line()}" if len(runs) > 1 else warning.line())
    return int(any(not warning.over for _, warning in found))


def _samples(run: Run, step: int | None, rerun: bool) -> int:
    from rich.console import Console

    from monitoring.terminal import show_samples

    for shown in samples.read_steps(run, [step] if step is not None else samples.steps(run)[-1:]).values():
        show_samples(_rerun(shown) if rerun else shown, Console())
    return 0


def _draw(runs: list[Run], folder: Path, rerun: bool) -> int:
    from monitoring import draw, page
    from monitoring.panels import panels
    from monitoring.phases import phases

    labels = names(runs) if len(runs) > 1 else [one_line(runs[0].path)]
    found = [(label, curves(run)) for label, run in zip(labels, runs, strict=True)]
    drawn = panels(found)
    if not drawn:
        raise RunError(f"{runs[0].path} holds no step yet: wait for the first, or for the first validation.")
    marked = phases(found[0][1]) if len(found) == 1 else []
    warned = [(name, warning) for name, each in found for warning in health.findings(each)]
    dumped = samples.milestones(runs[0], STEPS_ON_PAGE) if len(runs) == 1 else []
    read_samples = samples.read_steps(runs[0], dumped) if dumped else {}
    chosen = {step: samples.some(each, SAMPLES_ON_PAGE) for step, each in read_samples.items()}
    shown = [(step, _rerun(each) if rerun else each, len(read_samples[step])) for step, each in chosen.items()]
    notes = ["Over the training steps. Dashed: validation."]
    notes += [f"{phase.number} {phase.label}, steps {phase.first} to {phase.last}" for phase in marked]
    notes += [f"{name}: {warning.line()}" if len(found) > 1 else warning.line() for name, warning in warned]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "curves.png", lambda path: draw.png(drawn, marked, " and ".join(name for name, _ in found), notes, path))
    text = page.html(found, drawn, marked, warned, shown)
    _write(folder / "curves.html", lambda path: path.write_text(text, encoding="utf-8"))
    return 0


def _rerun(shown: list[samples.Sample]) -> list[samples.Sample]:
    from tqdm import tqdm

    from monitoring.rerun import with_actual

    return with_actual(tqdm(shown, desc="running programs", unit="sample", leave=False, delay=1))


def _write(path: Path, write: Callable[[Path], object]) -> None:
    new = path.with_name(f".{path.name}.new")
    try:
        write(new)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    print(path)


if __name__ == "__main__":
    sys.exit(main())
