"""How long the prompts are, in tokens of the model's tokenizer with its chat template."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection

from tqdm import tqdm

from preparation.cleaning import Problem
from preparation.prompts import build_prompt
from preparation.reading import DataError, first_line

Messages = list[dict[str, str]]
TokenCounter = Callable[[Sequence[Messages]], list[int]]  # prompts -> tokens of each
BATCH = 256  # prompts
CHARACTERS_A_TOKEN = 4  # the estimate, where there is no tokenizer
ESTIMATE = f"estimated as {CHARACTERS_A_TOKEN} characters each"
SHARES_OVER = (512, 1024, 2048)
QUANTILES = (0, 50, 90, 99, 100)
BIN = 128  # tokens a line of the histogram
BAR = 40  # characters


def render(tokenizer: str) -> Callable[[Messages], str]:
    """The text that veRL makes of a prompt for this model. Raises DataError as `token_counter` does."""
    loaded = load(tokenizer)
    return lambda messages: loaded.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def token_counter(tokenizer: str | None) -> TokenCounter:
    """Counts the tokens that veRL makes of a prompt; without a tokenizer, an estimate.

    A fast tokenizer, and all of Qwen's are, encodes a batch on all cores by threads of its own, outside of Python: that
    is why one process is enough.
    Raises DataError for a tokenizer that cannot be loaded or has no chat template.
    """
    if tokenizer is None:
        return lambda prompts: [-(-sum(len(m["content"]) for m in messages) // CHARACTERS_A_TOKEN) for messages in prompts]
    loaded = load(tokenizer)

    def count(prompts: Sequence[Messages]) -> list[int]:
        texts = loaded.apply_chat_template(list(prompts), add_generation_prompt=True, tokenize=False)
        return list(map(len, loaded(texts, add_special_tokens=False, verbose=False)["input_ids"]))

    return count


@contextlib.contextmanager
def counting_process(tokenizer: str | None) -> Iterator[TokenCounter]:
    """A `token_counter` in a process of its own: its 400 MB are given back when the prompts are measured."""
    if tokenizer is None:
        yield token_counter(None)
        return
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_count_for, args=(there, tokenizer))
    process.start()
    there.close()

    def ask(prompts: Sequence[Messages]) -> list[int]:
        try:
            here.send(list(prompts))
            found = here.recv()
        except (EOFError, OSError):
            process.join()
            raise DataError(f"the process that measures prompts has ended with code {process.exitcode}") from None
        if isinstance(found, DataError):
            raise found
        return found

    try:
        ask([])  # whether the tokenizer can be loaded
        yield ask
    finally:
        here.close()
        process.join()


def _count_for(connection: Connection, tokenizer: str) -> None:
    """What that process does, until its owner is gone, however that ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the owner, which then closes the connection
    count = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            prompts = connection.recv()
            try:
                count = count or token_counter(tokenizer)
            except DataError as error:
                connection.send(error)
                return
            connection.send(count(prompts) if prompts else [])


def load(tokenizer: str):
    from transformers import AutoTokenizer  # slow to import

    try:
        loaded = AutoTokenizer.from_pretrained(os.path.expanduser(tokenizer))
        loaded.apply_chat_template(build_prompt("probe", None), add_generation_prompt=True, tokenize=False)
    except Exception as error:  # the hub client, the loader and the template each have exceptions of their own
        raise DataError(
            f"--tokenizer {tokenizer} cannot be used ({type(error).__name__}: {first_line(error)}); give the folder or "
            "hub name of an instruct model, whose tokenizer has a chat template"
        ) from error
    return loaded


def measure(problems: Sequence[Problem], count: TokenCounter, split: str) -> list[int]:
    """The tokens of each problem's prompt."""
    lengths = []
    with tqdm(total=len(problems), desc=f"measuring {split}", unit=" prompts", disable=None) as bar:
        for start in range(0, len(problems), BATCH):
            lengths += count([problem.prompt for problem in problems[start : start + BATCH]])
            bar.update(len(lengths) - start)
    return lengths


def quantiles(values: Sequence[int]) -> dict[str, int]:
    """{"0%": smallest, "50%": ..., "100%": largest}; empty for no values."""
    ordered = sorted(values)
    return {f"{q}%": ordered[(len(ordered) - 1) * q // 100] for q in QUANTILES} if ordered else {}


def shares_over(lengths: Sequence[int], limits: Sequence[int] = SHARES_OVER) -> dict[int, float]:
    """{limit: share of the lengths that are over it}"""
    return {limit: sum(length > limit for length in lengths) / max(1, len(lengths)) for limit in limits}


def histogram(lengths: Sequence[int], last: int = max(SHARES_OVER)) -> dict[str, int]:
    """{"0-127": prompts, ..., "2048 or more": prompts}, the empty ones left out."""
    bins = [0] * (last // BIN + 1)
    for length in lengths:
        bins[min(length, last) // BIN] += 1
    names = [f"{start}-{start + BIN - 1}" for start in range(0, last, BIN)] + [f"{last} or more"]
    return {name: count for name, count in zip(names, bins, strict=True) if count}


def bars(counts: dict[str, int]) -> Iterator[str]:
    """A histogram as lines of text."""
    widest = max([*counts.values(), 1])
    for name, count in counts.items():
        yield f"  {name:>12} {count:>8,} {'#' * -(-count * BAR // widest)}"
