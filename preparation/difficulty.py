"""How hard each problem is for a model: sample responses from a server, judge them with the verifier.

Any server of OpenAI's chat completions will do, `vllm serve MODEL` among them. A problem's pass rate is the mean score of
its responses, so what the reward of the training sees: at 0 and at 1 there is nothing to learn from it. Each result is
one line of a file as soon as it is there, and is not asked for again by a later run with the same model and settings.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tqdm import tqdm

from code_reward import compute_score
from preparation.cleaning import Problem
from preparation.reading import DataError, first_line
from verifier import options

RETRIES, TIMEOUT_SECONDS = 5, 900.0
KEY_VARIABLE, NO_KEY = "OPENAI_API_KEY", "EMPTY"  # servers of one's own ask for none


@dataclass(frozen=True)
class Sampling:
    """Which model is asked how, and which pass rates stay."""

    url: str  # ends in /v1
    model: str
    low: float
    high: float
    samples: int = 8
    temperature: float = 1.0
    max_tokens: int = 1024
    concurrency: int = 16  # problems at once

    def public(self) -> dict:
        """What the card tells: everything but the address."""
        return {name: value for name, value in asdict(self).items() if name not in ("url", "concurrency")}

    def key(self, problem: Problem) -> str:
        """Names a result: it changes with whatever would change the responses or their scores."""
        asked = [problem.prompt, problem.truth_digest.hex(), problem.checker]
        settings = [self.model, self.samples, self.temperature, self.max_tokens]
        return sha256(json.dumps([*asked, *settings]).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Question:
    position: int  # the caller's name for it
    problem: Problem
    ground_truth: str


def measure(questions: Iterable[Question], total: int, sampling: Sampling, results: Path) -> dict[int, float]:
    """{position: pass rate} of all questions, from the results file where it has them.

    Raises DataError where the server or the verifier fails; what was judged until then stays in the file.
    """
    reward_options()
    return asyncio.run(ask_and_judge(questions, total, sampling, results))


async def ask_and_judge(questions: Iterable[Question], total: int, sampling: Sampling, results: Path) -> dict[int, float]:
    """What `measure` returns. Tasks, not threads: only a task that waits for a server's answer can be told to stop."""
    import openai  # slow to import, and only needed here

    known, rates = read_results(results), {}
    running: dict[asyncio.Task[list[float]], Question] = {}
    with results.open("a", encoding="utf-8") as file, tqdm(total=total, desc="sampling", unit=" problems", disable=None) as bar:
        if file.tell() and not results.read_bytes().endswith(b"\n"):  # a stop cut the last line off
            file.write("\n")

        async def collect() -> None:
            """Wait for one at least, and write down what has come."""
            finished, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                question = running.pop(task)
                scores = task.result()
                record = {
                    "key": sampling.key(question.problem),
                    "index": question.problem.index,
                    "data_source": question.problem.data_source,
                    "model": sampling.model,
                    "scores": scores,
                }
                file.write(json.dumps(record) + "\n")
                file.flush()
                rates[question.position] = sum(scores) / len(scores)
                bar.update()

        async with openai.AsyncOpenAI(
            base_url=sampling.url, api_key=os.environ.get(KEY_VARIABLE) or NO_KEY, max_retries=RETRIES, timeout=TIMEOUT_SECONDS
        ) as client:
            try:
                for question in questions:
                    if (scores := known.get(sampling.key(question.problem))) is not None:
                        rates[question.position] = sum(scores) / len(scores)
                        bar.update()
                        continue
                    if len(running) >= sampling.concurrency:  # the tests of those in flight are all that is in memory
                        await collect()
                    running[asyncio.create_task(judge(client, question, sampling))] = question
                while running:
                    await collect()
            except openai.OpenAIError as error:
                raise DataError(
                    f"the server at {sampling.url} failed ({type(error).__name__}: {first_line(error)}); check its address, "
                    f"its model and its context length, and run this again: what was judged is kept in {results}"
                ) from error
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
    return dict(sorted(rates.items()))


def reward_options() -> options.Options:
    """The reward's options, as the environment has them. Raises DataError for one that cannot be used."""
    try:
        return options.read({})
    except ValueError as error:
        raise DataError(str(error)) from error


async def judge(client: Any, question: Question, sampling: Sampling) -> list[float]:
    """The score of each response to one question."""
    problem, scores = question.problem, []
    for response in await sample(client, problem.prompt, sampling):
        extra_info = {"index": problem.index, "checker": problem.checker}
        judged = await asyncio.to_thread(compute_score, problem.data_source, response, question.ground_truth, extra_info)
        if judged["internal_error"]:
            raise DataError(
                f"the verifier could not judge a response to the problem of index {problem.index}; its message stands above, "
                "and python3 code_reward.py shows whether it works here"
            )
        scores.append(round(judged["pass_rate"], 6))
    return scores


async def sample(client: Any, prompt: list[dict[str, str]], sampling: Sampling) -> list[str]:
    """As many responses as asked for; some servers give one a request whatever `n` says."""
    responses: list[str] = []
    while len(responses) < sampling.samples:
        try:
            completion = await client.chat.completions.create(
                model=sampling.model,
                messages=prompt,
                n=sampling.samples - len(responses),
                temperature=sampling.temperature,
                max_tokens=sampling.max_tokens,
            )
            texts = [choice.message.content or "" for choice in completion.choices or ()]
        except (ValueError, TypeError, AttributeError):  # the client takes whatever it is sent for an answer
            texts = []
        if not texts:
            raise DataError(f"the server at {sampling.url} answers without a response; check that it serves {sampling.model}")
        responses += texts
    return responses[: sampling.samples]


def read_results(path: Path) -> dict[str, list[float]]:
    """{key: scores}; a last line that was cut off by a stop is passed over."""
    known: dict[str, list[float]] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
                known[record["key"]] = record["scores"]
            except (ValueError, KeyError, TypeError):
                continue
    return known
