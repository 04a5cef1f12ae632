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
from dataclasses import dataclass, fields
from pathlib import Path

from evaluation import benchmarks, held_out, merge, results, run_config, serving
from evaluation.results import EvaluationError, Result

HELD_OUT = "held_out"
AT_ONCE = {True: 128, False: 16}  # answers at a time, with a server and without


def stage(words: list[str], dry: bool) -> None:
    """Run one stage, `python -m` and the rest of the words. It says itself what fails; what is missing then is seen later."""
    command = [sys.executable, "-m", *words]
    if dry:
        print(shlex.join(command))
        return
    process = subprocess.Popen(
        command,
        stdout=sys.stderr,
        env=serving.direct_environment(),
        start_new_session=True,  # out of reach of the terminal's Ctrl-C, which is answered here
        preexec_fn=serving.die_with_parent,
    )
    try:
        process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def flags(settings: benchmarks.Settings | held_out.Settings) -> list[str]:
    """Settings as command-line words; None and empty ones are left out."""
    words = []
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name != "batch_size" and value not in (None, ()):
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{field.name.replace('_', '-')}", *map(str, values)]
    return words


@dataclass(frozen=True)
class Plan:
    """What is evaluated and how, the same for both models; own: the settings of held_out, where that is wanted."""

    wanted: list[str]
    public: benchmarks.Settings
    own: held_out.Settings | None
    out: Path
    dry: bool

    def result(self, name: str, model: str, benchmark: str) -> Path | None:
        """Where the result of a model on a benchmark is or will be; None where the benchmark cannot be had."""
        try:
            if benchmark == HELD_OUT:
                return held_out.place(self.out, model, name, self.own)[0] / "result.json"
            return benchmarks.place(self.out, model, name, benchmark, self.public)[0] / "result.json"
        except EvaluationError:
            return None  # its stage says why

    def pending(self, name: str, model: str) -> list[str]:
        """The benchmarks that a model has no result of yet."""
        places = {x: self.result(name, model, x) for x in self.wanted}
        return [x for x, path in places.items() if path is None or not results.finished(path.parent, self.public.limit)]

    def unanswered(self, name: str, model: str) -> list[str]:
        """Of those, the ones for which the model is still needed."""
        places = {x: self.result(name, model, x) for x in self.pending(name, model)}
        return [x for x, path in places.items() if path is None or not results.answered(path.parent, self.public.limit)]

    def results(self, name: str, model: str) -> list[Result]:
        """What there is."""
        missing = self.pending(name, model)
        return [results.read(self.result(name, model, x)) for x in self.wanted if x not in missing]

    def run(self, own: str, public: str, name: str, model: str, pending: list[str], more: list[str]) -> None:
        """The stages, called `own` in held_out and `public` in benchmarks, of the pending benchmarks."""
        words = ["--out", str(self.out), "--model", model, "--name", name, "--batch-size", str(self.public.batch_size), *more]
        others = [x for x in pending if x != HELD_OUT]
        if HELD_OUT in pending:
            stage(["evaluation.held_out", own, *words, *flags(self.own)], self.dry)
        if others:
            stage(["evaluation.benchmarks", public, *words, "--datasets", *others, *flags(self.public)], self.dry)


def generate(plan: Plan, name: str, model: str) -> None:
    """All answers of one model that are missing."""
    pending = plan.wanted if plan.dry else plan.unanswered(name, model)
    with contextlib.ExitStack() as stack:
        served: list[str] = []
        if pending and not plan.dry and serving.available():
            log = plan.out / name / "vllm.log"
            print(f"evaluation: starting vLLM for {name} ({model}), its output is in {log}", file=sys.stderr, flush=True)
            server = serving.server(model, name, log, plan.public.seed)
            served = ["--api-url", stack.enter_context(server)]
        plan.run("generate", "generate", name, model, pending, served)


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
    if arguments.batch_size is None:
        arguments.batch_size = AT_ONCE[serving.available()]
    own = own_settings(arguments, config) if HELD_OUT in wanted else None
    if own and not arguments.dry_run:
        held_out.check_files(own)
    target = merge.default_target(actor)
    out = arguments.out or target.parent.parent / "eval"
    plan = Plan(wanted, benchmarks.settings_of(arguments), own, out, arguments.dry_run)
    if plan.dry:
        print(shlex.join([sys.executable, "-m", "evaluation.merge", str(actor), "--base", base]))
    else:
        if base[0] in "/." and not Path(base).is_dir():
            raise EvaluationError(f"{base}, from which the run started, is not there: name the model with MODEL_PATH.")
        try:
            out.mkdir(parents=True, exist_ok=True)  # before the long work, to see that it can be
        except OSError as error:
            raise EvaluationError(f"{out} cannot be written ({error.strerror}): set EVAL_DIR to a folder that can.") from error
        merge.merge(actor, base=base)
    models = {"base": base, target.name: str(target)}
    for name, model in models.items():
        generate(plan, name, model)
    for name, model in models.items():
        plan.run("judge", "review", name, model, wanted if plan.dry else plan.pending(name, model), [])
    stem = out / target.name
    if plan.dry:
        print(shlex.join([sys.executable, "-m", "evaluation.table", "--base", "...", "--trained", "...", "--out", str(stem)]))
        return 0
    sides = [plan.results(name, model) for name, model in models.items()]
    from evaluation import table

    print(table.compare(*sides, wanted, stem), end="")
    print(f"\n{stem}.md  {stem}.json  {stem}.png")
    return int(any(len(side) < len(wanted) for side in sides))


def main() -> None:
    usage = "python3 -m evaluation.compare CHECKPOINT [setting ...]    (--help lists them; eval.sh's variables give them)"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], usage=usage)
    parser.add_argument("checkpoint", type=Path, help="run folder, checkpoints folder, global_step_N or its actor folder")
    parser.add_argument("--base", help="the model that the run started from; default: what the run's config.yaml says")
    parser.add_argument("--datasets", nargs="+", default=[HELD_OUT, *benchmarks.BENCHMARKS])
    parser.add_argument("--out", type=Path, help="default: the run's folder eval")
    parser.add_argument("--file", type=Path, help="own validation problems; default: the run's")
    parser.add_argument("--train", type=Path, nargs="*", default=[], help="files trained on; default: the run's")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    benchmarks.add_settings(parser)
    parser.set_defaults(batch_size=None)
    # So that a server is stopped and a half-written stage ends when this process is asked to.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(run(parser.parse_args()))
    except (EvaluationError, merge.MergeError, OSError) as error:
        sys.exit(f"evaluation: {error}")
    except KeyboardInterrupt:
        sys.exit("evaluation: interrupted; the same command goes on from here.")


if __name__ == "__main__":
    main()
