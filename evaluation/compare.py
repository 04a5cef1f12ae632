"""Before and after: merge a checkpoint, evaluate the base model and the merged one alike, print one table.

    python3 -m evaluation.compare CHECKPOINT [setting ...]          eval.sh calls it

For each of the two models: one vLLM server (without a GPU, transformers), all answers to EvalScope's benchmarks and to the
own validation problems, then, with the server stopped, the review under the verifier's isolation. Every stage is a process
of its own and keeps what it has, so a second call goes on where the first one stopped. What a run folder's config.yaml says
of the base model, the files and the limits need not be said again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shlex
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from evaluation import benchmarks, held_out, merge, results, run_config, serving
from evaluation.results import EvaluationError

HELD_OUT = "held_out"


def stage(words: list[str], dry: bool) -> list[Path]:
    """Run one stage, `python -m` and the rest of the words; the folders that it finished. Never raises for its failure."""
    command = [sys.executable, "-m", *words]
    if dry:
        print(shlex.join(command))
        return []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        output, _ = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return [Path(line) for line in output.splitlines() if Path(line).is_dir()]


def flags(settings: object, names: list[str]) -> list[str]:
    """Settings as command-line words; None and empty ones are left out."""
    words = []
    for name in names:
        value = getattr(settings, name)
        if value not in (None, (), []):
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return words


def evaluate(
    name: str, model: str, wanted: list[str], shared: list[str], own: list[str], out: Path, batch_size: int, dry: bool
) -> None:
    """All answers of one model. What cannot be had is said by its stage, and missing in the table."""
    where = ["--out", str(out), "--model", model, "--name", name, "--batch-size", str(batch_size)]
    public = [x for x in wanted if x != HELD_OUT]
    with contextlib.ExitStack() as stack:
        served: list[str] = []
        if serving.available() and not dry:
            print(f"evaluation: starting vLLM for {name} ({model})", file=sys.stderr, flush=True)
            log = out / name / "vllm.log"
            served = ["--api-url", stack.enter_context(serving.server(model, name, log))]
        if HELD_OUT in wanted:
            stage(["evaluation.held_out", "generate", *where, *own, *served], dry)
        if public:
            stage(["evaluation.benchmarks", "generate", *where, "--datasets", *public, *shared, *served], dry)


def review(
    name: str, model: str, wanted: list[str], shared: list[str], own: list[str], out: Path, batch_size: int, dry: bool
) -> list[Path]:
    """Judge the answers of one model. Returns its result files."""
    where = ["--out", str(out), "--model", model, "--name", name, "--batch-size", str(batch_size)]
    public = [x for x in wanted if x != HELD_OUT]
    folders: list[Path] = []
    if HELD_OUT in wanted:
        folders += stage(["evaluation.held_out", "judge", *where, *own], dry)
    if public:
        folders += stage(["evaluation.benchmarks", "review", *where, "--datasets", *public, *shared], dry)
    return [folder / "result.json" for folder in folders]


def known(names: list[str]) -> list[str]:
    """The benchmarks by their right names, each once. Raises EvaluationError for an unknown one."""
    plain = [name if name.lower() == HELD_OUT else benchmarks.benchmark_name(name) for name in names]
    return list(dict.fromkeys(plain))


def own_settings(arguments: argparse.Namespace, run: run_config.RunConfig) -> held_out.Settings:
    """The settings of the own problems: what was given, else the run's, else the defaults. Raises EvaluationError."""
    file = arguments.file or run.val_file
    if file is None:
        raise EvaluationError("Which validation problems? Name VAL_FILE, or leave held_out out of DATASETS.")
    defaults = held_out.Settings(file)
    train = tuple(arguments.train) or run.train_files
    if not train:
        print("evaluation: no training file is known, so overlap with it is not checked (TRAIN_FILE)", file=sys.stderr)
    return held_out.Settings(
        file=file,
        train=train,
        limit=arguments.limit,
        repeats=arguments.repeats,
        temperature=run.temperature if run.temperature is not None else defaults.temperature,
        max_prompt_tokens=run.max_prompt_length or defaults.max_prompt_tokens,
        max_tokens=run.max_response_length or defaults.max_tokens,
        seed=arguments.seed,
        template_options=run.template_options,
        reward_options=run.reward_options,
    )


def run(arguments: argparse.Namespace) -> int:
    """The whole evaluation. Returns the exit code: 1 where a benchmark is missing in the table."""
    wanted = known(arguments.datasets)
    if set(wanted) - {HELD_OUT} and importlib.util.find_spec("evalscope") is None:
        raise EvaluationError(
            "EvalScope is not installed: pip install --no-deps -r requirements-evalscope.txt, or DATASETS=held_out."
        )
    actor = merge.actor_folder(arguments.checkpoint.expanduser().resolve())
    try:
        config = run_config.read(arguments.checkpoint)
    except ValueError as error:
        raise EvaluationError(str(error)) from error
    base = arguments.base or config.model
    if base is None:
        raise EvaluationError("Which model did the run start from? Name MODEL_PATH: the checkpoint lies in no run folder.")
    settings = benchmarks.settings_of(arguments)
    shared = flags(settings, [x.name for x in fields(settings) if x.name != "batch_size"])
    own: list[str] = []
    if HELD_OUT in wanted:
        chosen = own_settings(arguments, config)
        own = flags(chosen, [x.name for x in fields(chosen)])
        if not arguments.dry_run:
            held_out.check_files(chosen)
    target = merge.default_target(actor)
    out = arguments.out or target.parent.parent / "eval"
    if arguments.dry_run:
        print(shlex.join([sys.executable, "-m", "evaluation.merge", str(actor), "--base", base]))
    else:
        merge.merge(actor, base=base)
    models = {"base": base, target.name: str(target)}
    rest = (wanted, shared, own, out, arguments.batch_size, arguments.dry_run)
    for name, model in models.items():
        evaluate(name, model, *rest)
    found = [review(name, model, *rest) for name, model in models.items()]
    stem = out / target.name
    if arguments.dry_run:
        print(shlex.join([sys.executable, "-m", "evaluation.table", "--base", "...", "--trained", "...", "--out", str(stem)]))
        return 0
    sides = [[results.read(path) for path in paths if path.exists()] for paths in found]
    from evaluation import table

    print(table.compare(*sides, wanted, stem), end="")
    print(f"\n{stem}.md  {stem}.json  {stem}.png")
    return int(any(len(side) < len(wanted) for side in sides))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, help="run folder, checkpoints folder, global_step_N or its actor folder")
    parser.add_argument("--base", help="the model that the run started from; default: what the run's config.yaml says")
    parser.add_argument("--datasets", nargs="+", default=[HELD_OUT, *benchmarks.BENCHMARKS])
    parser.add_argument("--out", type=Path, help="default: the run's folder eval")
    parser.add_argument("--file", type=Path, help="own validation problems; default: the run's")
    parser.add_argument("--train", type=Path, nargs="*", default=[], help="files trained on; default: the run's")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    benchmarks.add_settings(parser)
    # So that a server is stopped and a half-written stage ends when this process is asked to.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(run(parser.parse_args()))
    except (EvaluationError, merge.MergeError) as error:
        sys.exit(f"evaluation: {error}")
    except KeyboardInterrupt:
        sys.exit("evaluation: interrupted; the same command goes on from here.")


if __name__ == "__main__":
    main()
