"""Prompts as in training, and the model's answers to them: from a vLLM server, or from transformers where there is none."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from evaluation.results import EvaluationError

REQUEST_SECONDS = 3600


@dataclass(frozen=True)
class Request:
    """One answer that is wanted. tokens: the prompt; temperature 0: greedy."""

    problem: str
    sample: int
    tokens: tuple[int, ...]
    max_tokens: int
    temperature: float
    seed: int


@dataclass(frozen=True)
class Answer:
    problem: str
    sample: int
    text: str
    tokens: int  # how many the model wrote
    cut: bool  # by the length limit


def load_tokenizer(model: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise EvaluationError(f"The tokenizer of {model} cannot be loaded: {str(error).splitlines()[0]}") from error


def prompt_tokens(tokenizer: Any, messages: list[dict[str, str]], **template_options: Any) -> tuple[int, ...]:
    """The prompt as veRL's agent loop makes it: the model's chat template, ready for an answer."""
    encoded = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, **template_options
    )
    return tuple(encoded["input_ids"])


def from_server(url: str, name: str, requests: Sequence[Request], at_once: int) -> Iterator[Answer]:
    """Answers as they come. The prompt goes as tokens, so no template is applied a second time.

    Raises:
        EvaluationError: the server does not answer, or refuses.
    """
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(request: Request) -> Answer:
        body = {
            "model": name,
            "prompt": list(request.tokens),
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": 1.0,
            "top_k": -1,
            "repetition_penalty": 1.0,
            "seed": request.seed,
        }
        headers = {"Content-Type": "application/json"}
        message = urllib.request.Request(f"{url}/completions", json.dumps(body).encode(), headers)
        with direct.open(message, timeout=REQUEST_SECONDS) as response:
            answer = json.load(response)
        [choice] = answer["choices"]
        count = answer["usage"]["completion_tokens"]
        return Answer(request.problem, request.sample, choice["text"], count, choice["finish_reason"] == "length")

    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(ask, request) for request in requests]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")[:300]
            raise EvaluationError(f"The server refused a prompt ({error.code}): {text}") from error
        except OSError as error:
            raise EvaluationError(
                f"The server at {url} does not answer ({error}): start again, what is there is kept."
            ) from error
        finally:
            for future in waiting:
                future.cancel()


def from_transformers(model: str, tokenizer: Any, requests: Sequence[Request], at_once: int) -> Iterator[Answer]:
    """Answers batch by batch, decoded on the CPU in float32. An answer does not depend on its batch."""
    import torch
    from transformers import AutoModelForCausalLM

    from smoke import decoding

    try:
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    except (OSError, ValueError) as error:
        raise EvaluationError(f"The model {model} cannot be loaded: {str(error).splitlines()[0]}") from error
    eos = loaded.generation_config.eos_token_id
    eos_ids = {tokenizer.eos_token_id} | ({eos} if isinstance(eos, int) else set(eos or ()))
    ordered = sorted(requests, key=lambda request: len(request.tokens))  # little padding
    for start in range(0, len(ordered), at_once):
        batch = ordered[start : start + at_once]
        wanted = [decoding.Request(list(x.tokens), x.max_tokens, x.temperature, seed=x.seed) for x in batch]
        for request, completion in zip(batch, decoding.decode(loaded, wanted, eos_ids), strict=True):
            text = tokenizer.decode(completion.tokens, skip_special_tokens=True)
            cut = completion.tokens[-1] not in eos_ids
            yield Answer(request.problem, request.sample, text, len(completion.tokens), cut)
