"""The run's own validation problems, judged by the reward's verifier: Pass@1, pass@k, pass rate, format, ways to fail.

    python3 -m evaluation.held_out generate --out DIR --model MODEL --name base --file validation.parquet --train train.parquet
    python3 -m evaluation.held_out judge    the same arguments

Prompts, chat template and length limits are those of the training; longer prompts are left out, as there. One answer a
problem is greedy; with --repeats N there are N sampled ones beside it. DIR/NAME/held_out-XXXXXXXX holds answers.jsonl,
judged.jsonl and result.json; a stage that was interrupted goes on where it stopped. A file that shares a problem with the
training file is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from evaluation import generation, results
from evaluation.generation import Answer, Request
from evaluation.results import EvaluationError
from verifier import cores, isolation, options, scoring
from verifier.verdict import Verdict

GREEDY = -1  # the sample's number of the answer at temperature 0
KINDS = ("format", *(name for name in scoring.SHARES if name not in ("data_error", "internal_error")))


@dataclass(frozen=True)
class Settings:
    """What is the same for every model that is compared."""

    file: Path
    train: tuple[Path, ...] = ()
    limit: int = 0  # problems, drawn by the seed; 0: all
    repeats: int = 1
    temperature: float = 1.0
    max_prompt_tokens: int = 512
    max_tokens: int = 512
    seed: int = 42
    template_options: str = "{}"  # JSON, for the chat template
    reward_options: str = "{}"  # JSON, for the verifier


def problem_digest(prompt: list[dict[str, str]]) -> bytes:
    """Equal for prompts whose last message differs in letters' case and blanks only."""
    text = " ".join(prompt[-1]["content"].lower().split())
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def column(path: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of a prepared file, these columns only. Raises EvaluationError."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(256, columns=names):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        what = str(error).splitlines()[0]
        raise EvaluationError(f"{path} cannot be read as a file of prepare_data.py ({what}): name another file.") from error


def refuse_overlap(file: Path, train: tuple[Path, ...]) -> None:
    """Raises EvaluationError where a problem of `file` was trained on."""
    asked = {problem_digest(row["prompt"]): number for number, row in enumerate(column(file, ["prompt"]))}
    for path in train:
        trained = {problem_digest(row["prompt"]) for row in column(path, ["prompt"])}
        if shared := sorted(asked[x] for x in asked.keys() & trained):
            raise EvaluationError(
                f"{len(shared)} problems of {file} are in the training file {path} too (the first is row {shared[0]}): "
                "prepare the data again, or evaluate on another file."
            )


def check_files(settings: Settings) -> None:
    """Raises EvaluationError where a file is missing or was trained on."""
    for path in (settings.file, *settings.train):
        if not path.is_file():
            raise EvaluationError(f"{path} does not exist: name the run's files with VAL_FILE and TRAIN_FILE.")
    refuse_overlap(settings.file, settings.train)


def problems_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """{"data_source/row": row}, as many as the limit says."""
    rows = list(column(settings.file, ["data_source", "prompt", "reward_model", "extra_info"]))
    order = list(range(len(rows)))
    if settings.limit:
        random.Random(settings.seed).shuffle(order)  # a larger limit keeps the problems of a smaller one
        order = sorted(order[: settings.limit])
    return {f"{rows[number]['data_source']}/{number}": rows[number] for number in order}


def requests_of(problems: dict[str, dict[str, Any]], tokenizer: Any, settings: Settings) -> list[Request]:
    """Every answer that is wanted, of the problems whose prompt is not too long."""
    template = json.loads(settings.template_options)
    samples = [GREEDY, *(range(settings.repeats) if settings.repeats > 1 else ())]
    wanted = []
    for problem, row in problems.items():
        tokens = generation.prompt_tokens(tokenizer, row["prompt"], **template)
        if len(tokens) > settings.max_prompt_tokens:
            continue
        for sample in samples:
            seed = int.from_bytes(hashlib.sha256(f"{settings.seed} {problem} {sample}".encode()).digest()[:4], "big") >> 1
            temperature = 0.0 if sample == GREEDY else settings.temperature
            wanted.append(Request(problem, sample, tokens, settings.max_tokens, temperature, seed))
    if not wanted:
        raise EvaluationError(f"No prompt of {settings.file} has {settings.max_prompt_tokens} tokens or fewer.")
    return wanted


def what_decides(model: str, settings: Settings) -> dict[str, Any]:
    """All that an answer depends on, but for the engine."""
    return {
        "benchmark": "held_out",
        "model": model,
        "weights": results.weights_digest(model),
        "file": str(settings.file),
        "content": hashlib.sha256(settings.file.read_bytes()).hexdigest(),
        "repeats": settings.repeats,
        "temperature": settings.temperature if settings.repeats > 1 else 0.0,
        "max_prompt_tokens": settings.max_prompt_tokens,
        "max_tokens": settings.max_tokens,
        "seed": settings.seed,
        "template_options": settings.template_options,
    }


def place(out: Path, model: str, name: str, settings: Settings) -> tuple[Path, dict[str, Any]]:
    """(the folder of a model's answers, what decides)"""
    decides = what_decides(model, settings)
    return out / name / f"held_out-{results.digest(decides)}", decides


def generate(folder: Path, model: str, name: str, settings: Settings, api_url: str | None, batch_size: int) -> None:
    """Write the answers that are missing to answers.jsonl. Raises EvaluationError."""
    path = folder / "answers.jsonl"
    if path.exists():
        results.drop_torn_line(path)
    there = {(x["problem"], x["sample"]) for x in results.lines(path)}
    tokenizer = generation.load_tokenizer(model)
    wanted = requests_of(problems_of(settings), tokenizer, settings)
    missing = [x for x in wanted if (x.problem, x.sample) not in there]
    if not missing:
        return
    if api_url:
        answers = generation.from_server(api_url, name, missing, batch_size)
    else:
        answers = generation.from_transformers(model, tokenizer, missing, batch_size)
    bar = tqdm(answers, f"held_out answers of {name}", len(wanted), initial=len(wanted) - len(missing), unit="")
    with path.open("a", encoding="utf-8") as file:
        for answer in bar:
            file.write(json.dumps(asdict(answer), ensure_ascii=False) + "\n")
            file.flush()


def judge_answer(answer: Answer, row: dict[str, Any], chosen: options.Options) -> dict[str, Any]:
    """{"problem", "sample", "acc", "pass_rate", "format", ...}: the numbers that training gets for this answer."""
    judgement = scoring.judge_response(answer.text, row["reward_model"]["ground_truth"], chosen, row["extra_info"])
    shares = {name: judgement.share(verdict) for name, verdict in scoring.SHARES.items()}
    numbers = {"acc": judgement.accepted, "pass_rate": judgement.pass_rate, "format": float(judgement.format), **shares}
    if judgement.results[0].verdict in (Verdict.IE, Verdict.DE):
        numbers["why"] = judgement.results[0].detail
    return {"problem": answer.problem, "sample": answer.sample, "cut": float(answer.cut), **numbers}


def judge(folder: Path, settings: Settings, name: str) -> None:
    """Write the judgements that are missing to judged.jsonl.

    Raises:
        EvaluationError: there is an answer missing, or the verifier failed.
    """
    problems, path = problems_of(settings), folder / "judged.jsonl"
    if path.exists():
        results.drop_torn_line(path)
    there = {(x["problem"], x["sample"]) for x in results.lines(path)}
    answers = [Answer(**x) for x in results.lines(folder / "answers.jsonl")]
    missing = [x for x in answers if x.problem in problems and (x.problem, x.sample) not in there]
    chosen = options.read(json.loads(settings.reward_options))
    with path.open("a", encoding="utf-8") as file, ThreadPoolExecutor(cores.concurrency()) as pool:
        waiting = [pool.submit(judge_answer, x, problems[x.problem], chosen) for x in missing]
        try:
            for future in tqdm(as_completed(waiting), f"held_out judgements of {name}", len(waiting), unit=""):
                numbers = future.result()
                if numbers["internal_error"]:
                    raise EvaluationError(f"The verifier failed ({numbers['why']}): run python3 code_reward.py, then again.")
                file.write(json.dumps(numbers) + "\n")
        except isolation.IsolationError as error:
            raise EvaluationError(str(error)) from error
        finally:
            for future in waiting:
                future.cancel()


def summarise(folder: Path, settings: Settings, decides: dict[str, Any]) -> results.Result:
    """The scores by problem, and in `details` what else is known of them.

    details: pass_rates {problem: [...]}, greedy {problem: acc} where the scores are of sampled answers, shares
    {data_source: {format, compile_error, ..., cut}}, unusable: the problems without usable tests, left out.
    """
    problems = problems_of(settings)
    judged = [x for x in results.lines(folder / "judged.jsonl") if x["problem"] in problems]
    unusable = sorted({x["problem"] for x in judged if x["data_error"]})
    judged = sorted((x for x in judged if x["problem"] not in unusable), key=lambda x: (x["problem"], x["sample"]))
    greedy = {x["problem"]: x["acc"] for x in judged if x["sample"] == GREEDY}
    counted = [x for x in judged if (x["sample"] == GREEDY) == (settings.repeats == 1)]
    scores: dict[str, list[float]] = defaultdict(list)
    rates: dict[str, list[float]] = defaultdict(list)
    by_source: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for numbers in counted:
        scores[numbers["problem"]].append(numbers["acc"])
        rates[numbers["problem"]].append(numbers["pass_rate"])
        by_source[numbers["problem"].rpartition("/")[0]].append(numbers)
    if not scores or any(len(x) != settings.repeats for x in scores.values()):
        raise EvaluationError(f"Answers are missing in {folder}: generate first.")
    shares = {
        source: {kind: sum(x[kind] for x in them) / len(them) for kind in (*KINDS, "cut")} for source, them in by_source.items()
    }
    details = {"pass_rates": dict(rates), "greedy": greedy, "shares": shares, "unusable": unusable}
    return results.Result("held_out", {**decides, "limit": settings.limit}, dict(scores), details)


def do(stage: str, out: Path, model: str, name: str, settings: Settings, api_url: str | None, batch_size: int) -> Path:
    """One stage. Returns its folder; a stage that is finished costs nothing. Raises EvaluationError."""
    check_files(settings)
    folder, decides = place(out, model, name, settings)
    if results.finished(folder, settings.limit):
        return folder
    results.say("held_out", name, stage, folder)
    folder.mkdir(parents=True, exist_ok=True)
    if stage == "generate":
        generate(folder, model, name, settings, api_url, batch_size)
        results.write_text(folder / results.ANSWERED, str(settings.limit))
    else:
        judge(folder, settings, name)
        results.write(folder / "result.json", summarise(folder, settings, decides))
    return folder


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", type=Path, required=True, help="validation.parquet")
    parser.add_argument("--train", type=Path, nargs="*", default=[], help="the files that the model was trained on")
    parser.add_argument("--limit", type=int, default=0, help="problems, drawn by the seed; 0: all")
    parser.add_argument("--repeats", type=int, default=1, help="sampled answers a problem; 1: the greedy one only")
    parser.add_argument("--temperature", type=float, default=1.0, help="of sampled answers")
    parser.add_argument("--max-prompt-tokens", type=int, default=512, help="longer prompts are left out")
    parser.add_argument("--max-tokens", type=int, default=512, help="of an answer")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--template-options", default="{}", help="JSON: data.apply_chat_template_kwargs of the run")
    parser.add_argument("--reward-options", default="{}", help="JSON: reward_kwargs of the run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=("generate", "judge"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True, help="folder or hub name")
    parser.add_argument("--name", required=True, help="what the model is called in the results, e.g. base")
    parser.add_argument("--api-url", help="an OpenAI-compatible server that has the model under --name")
    parser.add_argument("--batch-size", type=int, default=16, help="answers at a time")
    add_settings(parser)
    given = vars(parser.parse_args())
    where = {name: given.pop(name) for name in ("stage", "out", "model", "name", "api_url", "batch_size")}
    given["train"] = tuple(given["train"])
    try:
        do(settings=Settings(**given), **where)
    except (EvaluationError, ValueError, OSError) as error:
        sys.exit(f"evaluation: {error}")


if __name__ == "__main__":
    main()
