"""Decode many prompts at once with a transformers model: one left-padded batch, one KV cache, sampling by row.

Every row draws from a generator of its own, so what a request gets does not depend on which requests share its batch.
"""

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel


@dataclass(frozen=True)
class Request:
    prompt: list[int]
    max_new_tokens: int
    temperature: float = 1.0  # 0: greedy
    top_p: float = 1.0
    top_k: int = 0  # 0: all tokens
    seed: int = 0


@dataclass(frozen=True)
class Completion:
    tokens: list[int]  # ends with the end-of-sequence token unless the budget ran out first
    log_probs: list[float]  # of each token under the distribution it was drawn from (greedy: temperature 1)


@torch.no_grad()
def decode(model: PreTrainedModel, requests: list[Request], eos_ids: set[int]) -> list[Completion]:
    """Completions of `requests`, in their order. Takes max(max_new_tokens) forward passes at most."""
    rows, width = len(requests), max(len(request.prompt) for request in requests)
    tokens = torch.zeros((rows, width), dtype=torch.long)  # on the left; the mask hides them, so any token will do
    mask = torch.zeros((rows, width), dtype=torch.long)
    for row, request in enumerate(requests):
        start = width - len(request.prompt)
        tokens[row, start:] = torch.tensor(request.prompt)
        mask[row, start:] = 1
    positions = (mask.cumsum(1) - 1).clamp(min=0)

    budgets = torch.tensor([request.max_new_tokens for request in requests])
    steps = int(budgets.max())
    draws = torch.stack([_uniforms(request.seed, steps) for request in requests])
    stops = torch.tensor(sorted(eos_ids))
    done = torch.zeros(rows, dtype=torch.bool)
    new_tokens, new_log_probs, cache = [], [], None
    for step in range(steps):
        output = model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = output.past_key_values
        chosen, log_probs = _choose(output.logits[:, -1].float(), requests, draws[:, step])
        new_tokens.append(chosen)
        new_log_probs.append(log_probs)
        done |= torch.isin(chosen, stops) | (step + 1 >= budgets)
        if bool(done.all()):
            break
        tokens = chosen[:, None]
        mask = torch.cat([mask, mask.new_ones((rows, 1))], dim=1)
        positions = positions[:, -1:] + 1
    token_rows, log_prob_rows = torch.stack(new_tokens, 1).tolist(), torch.stack(new_log_probs, 1).tolist()
    return [_cut(*row, eos_ids) for row in zip(requests, token_rows, log_prob_rows, strict=True)]


def _uniforms(seed: int, count: int) -> torch.Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _choose(logits: torch.Tensor, requests: list[Request], draws: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Next token of each row and its log-probability, from logits [rows, vocabulary] and one uniform draw a row."""
    greedy = torch.tensor([request.temperature == 0 for request in requests])
    temperatures = torch.tensor([request.temperature or 1.0 for request in requests])
    scores = logits / temperatures[:, None]
    for row, request in enumerate(requests):
        if request.temperature and (request.top_k or request.top_p < 1.0):
            scores[row] = _truncate(scores[row], request.top_k, request.top_p)
    log_probs = torch.log_softmax(scores, dim=-1)
    cumulative = log_probs.double().exp().cumsum(-1)
    thresholds = draws[:, None] * cumulative[:, -1:]
    sampled = torch.searchsorted(cumulative, thresholds, right=True)[:, 0]
    chosen = torch.where(greedy, log_probs.argmax(-1), sampled)
    return chosen, log_probs.gather(1, chosen[:, None])[:, 0]


def _truncate(scores: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Scores [vocabulary] of the top_k tokens and, of those, the fewest that hold top_p of the mass; -inf elsewhere."""
    ordered, order = scores.sort(descending=True)
    if top_k:
        ordered[top_k:] = float("-inf")
    probabilities = ordered.softmax(-1)
    mass_before = probabilities.cumsum(-1) - probabilities
    ordered[mass_before >= top_p] = float("-inf")
    return torch.empty_like(scores).scatter(0, order, ordered)


def _cut(request: Request, tokens: list[int], log_probs: list[float], eos_ids: set[int]) -> Completion:
    budget = min(request.max_new_tokens, len(tokens))
    end = next((place + 1 for place, token in enumerate(tokens[:budget]) if token in eos_ids), budget)
    return Completion(tokens[:end], log_probs[:end])
