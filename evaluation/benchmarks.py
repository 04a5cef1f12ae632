"""EvalScope's benchmarks in two stages: generation, which needs the model, then the review, which runs its programs confined.

    python3 -m evaluation.benchmarks generate --out DIR --model MODEL --name base --datasets humaneval gsm8k [setting ...]
    python3 -m evaluation.benchmarks review   the same arguments

Each benchmark has a folder of its own, DIR/NAME/BENCHMARK-XXXXXXXX, named by a digest of everything that decides what a
model answers. A stage that was interrupted goes on where it stopped: an answer that is there is not generated again, with a
larger --limit neither. The review leaves result.json (evaluation/results.py) beside EvalScope's own folders.

Three of EvalScope's ways are worked around here. It takes `limit` before live_code_bench's date window, so a limit of a
hundred can leave nothing: the limit is applied to what the window leaves. It evaluates every one of live_code_bench's
overlapping releases: one is asked for. It refuses earlier answers when the server's port has changed: what must not change
is in the folder's name instead.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation import contained, results
from evaluation.results import EvaluationError

BENCHMARKS = ("humaneval", "live_code_bench", "gsm8k")
OTHER_NAMES = {"livecodebench": "live_code_bench", "lcb": "live_code_bench", "human_eval": "humaneval", "gsm_8k": "gsm8k"}
SUBSETS = {"humaneval": "openai_humaneval", "live_code_bench": "release_latest", "gsm8k": "main"}
SCORES = ("acc", "accuracy")  # what a review calls it: the first for programs, the second for gsm8k

# Warnings of what is done here on purpose: earlier answers are always taken, nothing has a score before the review, and it is
# EvalScope that watches Math-Verify's time.
EXPECTED = {
    "generate": ("Forcing prediction reuse for", "No valid scores generated for", "score computed from"),
    "review": ("Forcing prediction reuse for", "Timeout is disabled as"),
}
WARNING_LOGGERS = ("evalscope", "math_verify.parser", "math_verify.grader")


@dataclass(frozen=True)
class Settings:
    """What is the same for every model that is compared."""

    limit: int = 100  # problems of each benchmark; 0: all
    repeats: int = 1  # answers a problem; one is greedy, more are sampled
    temperature: float = 0.8  # of sampled answers
    max_tokens: int = 2048
    seed: int = 42
    start_date: str = "2024-08-01"  # live_code_bench's window
    end_date: str = "2025-02-01"
    hub: str = "modelscope"
    local: Path | None = None  # a folder with offline copies, one folder a benchmark
    batch_size: int = field(default=16, compare=False)


def benchmark_name(name: str) -> str:
    """EvalScope's name of a benchmark, from that or another common one.

    Raises:
        EvaluationError: unknown.
    """
    plain = name.strip().lower().replace("-", "_")
    plain = OTHER_NAMES.get(plain, plain)
    if plain not in BENCHMARKS:
        raise EvaluationError(f"Unknown benchmark {name!r}: DATASETS takes {', '.join(BENCHMARKS)} (and held_out).")
    return plain


def dataset_arguments(benchmark: str, settings: Settings) -> dict[str, Any]:
    """EvalScope's dataset_args of one benchmark: where it lies and which part of it.

    Raises:
        EvaluationError: the folder of offline copies lacks it.
    """
    arguments: dict[str, Any] = {"subset_list": [SUBSETS[benchmark]]}
    if benchmark == "live_code_bench":
        arguments["extra_params"] = {"start_date": settings.start_date, "end_date": settings.end_date}
    if settings.local is None:
        return arguments
    folder = settings.local.expanduser().resolve() / benchmark
    if not folder.is_dir():
        raise EvaluationError(f"LOCAL_DATASETS has no folder {folder}: put a copy there, or leave {benchmark} out of DATASETS.")
    from datasets import get_dataset_config_names, get_dataset_split_names

    configurations = get_dataset_config_names(str(folder))
    subset = SUBSETS[benchmark] if SUBSETS[benchmark] in configurations else configurations[0]
    arguments |= {"local_path": str(folder), "subset_list": [subset]}
    if benchmark == "gsm8k" and "train" not in get_dataset_split_names(str(folder), subset):
        arguments["few_shot_num"] = 0  # the worked examples come from the training split
    return arguments


def generation_arguments(settings: Settings, served: bool) -> dict[str, Any]:
    """EvalScope's generation_config. Nothing is left to a model's own defaults: Qwen's have a repetition penalty."""
    sampled = settings.repeats > 1
    arguments = {
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature if sampled else 0.0,
        "top_p": 1.0,
        "extra_body": {"repetition_penalty": 1.0},
    }
    if not served:
        return arguments | {"do_sample": sampled, "top_k": 0, "temperature": settings.temperature if sampled else 1.0}
    # A request's seed would make all repeats of a problem the same answer; the server has one instead.
    return arguments | {"timeout": 3600} | ({} if sampled else {"seed": settings.seed})


def what_decides(benchmark: str, model: str, settings: Settings, arguments: dict[str, Any]) -> dict[str, Any]:
    """All that an answer depends on, but for the engine; the limit only says how many there are."""
    return {
        "benchmark": benchmark,
        "model": model,
        "weights": results.weights_digest(model),
        "dataset": arguments,
        "repeats": settings.repeats,
        "temperature": settings.temperature if settings.repeats > 1 else 0.0,
        "max_tokens": settings.max_tokens,
        "seed": settings.seed,
    }


def place(out: Path, model: str, name: str, benchmark: str, settings: Settings) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """(a benchmark's folder, EvalScope's dataset_args, what decides). Raises EvaluationError."""
    arguments = dataset_arguments(benchmark, settings)
    decides = what_decides(benchmark, model, settings, arguments)
    return out / name / f"{benchmark}-{results.digest(decides)}", arguments, decides


def engine(model: str, name: str, api_url: str | None) -> dict[str, Any]:
    """EvalScope's options for who answers: a server, else its own checkpoint backend."""
    if api_url is not None:
        return {"model": name, "eval_type": "openai_api", "api_url": api_url, "api_key": "EMPTY"}
    import torch

    # Its default is float16, which these models were not trained in; most CPUs are fastest in float32.
    precision, device = ("torch.bfloat16", "auto") if torch.cuda.is_available() else ("torch.float32", "cpu")
    return {"model": model, "eval_type": "llm_ckpt", "model_args": {"precision": precision, "device_map": device}}


def task(
    stage: str, benchmark: str, model: str, folder: Path, settings: Settings, arguments: dict[str, Any], api_url: str | None
) -> Any:
    """EvalScope's TaskConfig for a benchmark's folder."""
    from evalscope.config import TaskConfig

    name = folder.parent.name
    return TaskConfig(
        model_id=name,
        datasets=[benchmark],
        dataset_args={benchmark: arguments},
        dataset_hub=settings.hub,
        repeats=settings.repeats,
        generation_config=generation_arguments(settings, api_url is not None),
        eval_batch_size=settings.batch_size if stage == "generate" else os.cpu_count() or 1,
        seed=settings.seed,
        work_dir=str(folder),
        use_cache=str(folder),
        rerun_review=True,
        no_timestamp=True,
        **engine(model, name, api_url),
    )


def evaluator(stage: str, limit: int, repeats: int) -> type:
    """EvalScope's evaluator, made to do one stage only and to apply the limit after a benchmark's own filter."""
    from evalscope.api.dataset import DatasetDict
    from evalscope.evaluator import DefaultEvaluator

    class OneStage(DefaultEvaluator):
        def __init__(self, benchmark: Any, **others: Any) -> None:
            super().__init__(benchmark=benchmark, **others)
            load = benchmark.load_dataset

            def load_limited() -> DatasetDict:
                loaded = load()
                return DatasetDict({name: x[: limit * repeats] if limit else x for name, x in loaded.items()})

            benchmark.load_dataset = load_limited

        def _predict_sample(self, sample: Any, model_prediction_dir: str) -> Any:
            if stage == "review":
                raise EvaluationError(f"Problem {sample.id} has no answer yet: generate first.")
            return super()._predict_sample(sample, model_prediction_dir)

        def _review_task_state(self, task_state: Any) -> Any:
            return None if stage == "generate" else super()._review_task_state(task_state)

    return OneStage


@contextlib.contextmanager
def without_expected_warnings(stage: str) -> Iterator[None]:
    """Leave out the warnings of a stage that say nothing of this evaluation; all others are shown."""

    def shown(record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING or not any(x in record.getMessage() for x in EXPECTED[stage])

    with contextlib.ExitStack() as stack:
        for logger in map(logging.getLogger, WARNING_LOGGERS):
            logger.addFilter(shown)
            stack.callback(logger.removeFilter, shown)
        yield


def run_stage(stage: str, configuration: Any, limit: int) -> None:
    """Run EvalScope on one benchmark. Raises EvaluationError with its last words."""
    import evalscope.evaluator  # noqa: F401 - registers the evaluator that is replaced here
    from evalscope.api.registry import EVALUATOR_REGISTRY
    from evalscope.run import run_task

    EVALUATOR_REGISTRY["default"] = evaluator(stage, limit, configuration.repeats)
    [benchmark] = configuration.datasets
    contained.failures.clear()
    logging.disable(logging.INFO)  # its progress bars and warnings are enough
    try:
        with without_expected_warnings(stage):
            reports = run_task(configuration)
    except Exception as error:
        raise EvaluationError(f"EvalScope could not {stage} {benchmark}: {type(error).__name__}: {error}") from error
    if contained.failures:
        raise EvaluationError(f"The verifier failed {len(contained.failures)} times on {benchmark}: {contained.failures[0]}")
    if not reports.get(benchmark):
        raise EvaluationError(f"{benchmark} has no problem left: widen LCB_START_DATE and LCB_END_DATE, or check its copy.")


def read_result(folder: Path, benchmark: str, settings: Settings, decides: dict[str, Any]) -> results.Result:
    """The answers' scores, problem by problem, from EvalScope's review files.

    Raises:
        EvaluationError: an answer could not be scored, or the mean is not the one that EvalScope reports.
    """
    problems: dict[str, list[float]] = defaultdict(list)
    for path in sorted((folder / "reviews" / folder.parent.name).glob(f"{benchmark}_*.jsonl")):
        for line in sorted(results.lines(path), key=lambda line: line["index"]):
            review = line["sample_score"]
            metadata = review.get("sample_metadata") or {}
            name = str(metadata.get("task_id", review["group_id"]))
            scores = [x for key, x in review["score"]["value"].items() if key in SCORES]
            if len(scores) != 1:
                raise EvaluationError(f"EvalScope could not score problem {name} of {benchmark}: {review['score']['metadata']}")
            problems[name].append(float(scores[0]))
    result = results.Result(benchmark, {**decides, "limit": settings.limit}, dict(problems))
    reported = json.loads((folder / "reports" / folder.parent.name / f"{benchmark}.json").read_text(encoding="utf-8"))
    means = [x["score"] for x in reported["metrics"] if x["identity"]["aggregation"] == "mean"]
    if len(means) != 1 or abs(means[0] - result.mean()) > 1e-4:
        raise EvaluationError(
            f"EvalScope reports {means} for {benchmark}, its reviews say {result.mean():.4f}: evaluate again."
        )
    return result


def drop_refused(path: Path) -> int:
    """Take out what EvalScope keeps as an answer where the server refused the prompt as too long. Returns how many."""
    kept, refused = [], 0
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        output = json.loads(line)["model_output"]
        too_long = output["choices"][0]["stop_reason"] == "model_length" and not output.get("usage")
        refused += too_long
        kept += [] if too_long else [line]
    if refused:
        results.write_text(path, "".join(kept))
    return refused


def do(stage: str, out: Path, model: str, name: str, benchmark: str, settings: Settings, api_url: str | None) -> Path:
    """One stage of one benchmark. Returns its folder; a stage that is finished costs nothing.

    Raises:
        EvaluationError: one sentence.
    """
    folder, arguments, decides = place(out, model, name, benchmark, settings)
    if results.finished(folder, settings.limit):
        return folder
    results.say(benchmark, name, stage, folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("predictions/*/*.jsonl"):
        results.drop_torn_line(path)
    run_stage(stage, task(stage, benchmark, model, folder, settings, arguments, api_url), settings.limit)
    if refused := sum(map(drop_refused, folder.glob("predictions/*/*.jsonl"))):
        raise EvaluationError(
            f"{refused} prompts of {benchmark} and MAX_TOKENS={settings.max_tokens} are more than the model's length: lower it."
        )
    if stage == "generate":
        results.write_text(folder / results.ANSWERED, str(settings.limit))
    else:
        results.write(folder / "result.json", read_result(folder, benchmark, settings, decides))
    return folder


def at_least(low: int, kind: type = int) -> Callable[[str], int | float]:
    """An argument's type: a number that is not below `low`."""

    def number(text: str) -> int | float:
        if not (value := kind(text)) >= low:
            raise argparse.ArgumentTypeError(f"invalid, {text} is less than {low}")
        return value

    return number


def date(text: str) -> str:
    return datetime.date.fromisoformat(text).isoformat()


def add_settings(parser: argparse.ArgumentParser) -> None:
    defaults = Settings()
    parser.add_argument("--limit", type=at_least(0), default=defaults.limit, help="problems of each benchmark; 0: all")
    parser.add_argument(
        "--repeats", type=at_least(1), default=defaults.repeats, help="answers a problem; more than one are sampled"
    )
    parser.add_argument("--temperature", type=at_least(0, float), default=defaults.temperature, help="of sampled answers")
    parser.add_argument("--max-tokens", type=at_least(1), default=defaults.max_tokens)
    parser.add_argument("--seed", type=at_least(0), default=defaults.seed)
    parser.add_argument("--start-date", type=date, default=defaults.start_date, help="live_code_bench: first day, YYYY-MM-DD")
    parser.add_argument("--end-date", type=date, default=defaults.end_date, help="live_code_bench: last day")
    parser.add_argument("--hub", default=defaults.hub, choices=("modelscope", "huggingface"))
    parser.add_argument("--local", type=Path, help="a folder with offline copies, one folder a benchmark")
    parser.add_argument("--batch-size", type=at_least(1), default=defaults.batch_size, help="answers at a time")


def settings_of(arguments: argparse.Namespace) -> Settings:
    return Settings(**{name: getattr(arguments, name) for name in Settings.__dataclass_fields__})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=("generate", "review"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True, help="folder or hub name")
    parser.add_argument("--name", required=True, help="what the model is called in the results, e.g. base")
    parser.add_argument("--datasets", nargs="+", required=True, help=", ".join(BENCHMARKS))
    parser.add_argument("--api-url", help="an OpenAI-compatible server that has the model under --name")
    add_settings(parser)
    arguments = parser.parse_args()
    settings = settings_of(arguments)
    failed = []
    try:
        names = [benchmark_name(name) for name in arguments.datasets]
        if arguments.stage == "review":
            contained.install()
    except (EvaluationError, contained.ContainmentError) as error:
        sys.exit(f"evaluation: {error}")
    for name in names:  # one that fails does not take the others with it
        try:
            where = (arguments.out, arguments.model, arguments.name, name)
            do(arguments.stage, *where, settings, arguments.api_url)
        except (EvaluationError, OSError) as error:
            print(f"evaluation: {error}", file=sys.stderr)
            failed.append(name)
    sys.stdout.flush()
    # Threads that EvalScope leaves waiting for a server must not keep the stage alive.
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
