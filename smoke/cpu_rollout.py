"""The rollout of a CPU run: a Ray actor that decodes with transformers in place of a vLLM server.

Requests that arrive together are decoded as one batch: a step takes as many passes as its longest answer has tokens.
Written against the rollout interface of veRL 0.9.1, for its synchronous trainer and whole weights (a LoRA actor needs
lora.merge=True). A request that asks for more than this rollout can do is an error, never half obeyed.
"""

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterable, Iterable
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput
from verl.workers.rollout.utils import ensure_async_iterator

from smoke.decoding import Request, decode

GATHER_SECONDS = 0.05  # a batch is complete when nothing new arrived for so long


def server_name(replica_rank: int) -> str:
    return f"cpu_rollout_{replica_rank}"


def to_request(prompt_ids: list[int], sampling: dict[str, Any], room: int, seed: int) -> Request:
    """A request as veRL's agent loop phrases it (vLLM's sampling parameters) in this rollout's terms.

    `room`: how many tokens may follow. ValueError if none may, and for parameters that have no effect here.
    """
    sampling = dict(sampling)
    sampling.pop("logprobs", None)  # the server decides what it returns
    budget = sampling.pop("max_tokens", None) or sampling.pop("max_new_tokens", None) or room
    request = Request(
        prompt=list(prompt_ids),
        max_new_tokens=min(int(budget), room),
        temperature=float(sampling.pop("temperature", 1.0)),
        top_p=float(sampling.pop("top_p", 1.0)),
        top_k=max(0, int(sampling.pop("top_k", 0))),  # vLLM writes -1 for all tokens
        seed=seed,
    )
    if request.max_new_tokens < 1:
        raise ValueError(f"a prompt of {len(request.prompt)} tokens leaves no room for an answer")
    if sampling.get("repetition_penalty") == 1.0:  # veRL always names it
        del sampling["repetition_penalty"]
    if sampling:
        raise ValueError(f"the CPU rollout knows temperature, top_p, top_k and max_tokens, not {sampling}")
    return request


class RolloutServer:
    """Ray actor. Holds the rollout's copy of the weights; one batch is decoded at a time."""

    def __init__(self, model_path: str, prompt_length: int, response_length: int, max_batch: int, seed: int) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32).eval()
        eos = self.model.generation_config.eos_token_id
        self.eos_ids = {AutoTokenizer.from_pretrained(model_path).eos_token_id}
        self.eos_ids |= {eos} if isinstance(eos, int) else set(eos or ())
        self.prompt_length, self.response_length = prompt_length, response_length
        self.max_batch, self.seed = max_batch, seed
        self.global_steps: int | None = None
        self.waiting: list[tuple[Request, asyncio.Future]] = []
        self.serving: asyncio.Task | None = None
        self.weights_in_use = asyncio.Lock()
        self.repeats: Counter[bytes] = Counter()

    async def update_weights(self, weights: dict[str, torch.Tensor], global_steps: int | None) -> None:
        async with self.weights_in_use:
            self.model.load_state_dict(weights)
            self.global_steps = global_steps
            self.repeats.clear()

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], image_data=None, video_data=None
    ) -> TokenOutput:
        if image_data or video_data:
            raise ValueError("the CPU rollout takes text only")
        room = min(self.response_length, self.prompt_length + self.response_length - len(prompt_ids))
        request = to_request(prompt_ids, sampling_params, room, self._seed_of(prompt_ids))
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((request, future))
        if self.serving is None or self.serving.done():
            self.serving = asyncio.create_task(self._serve())
        completion = await future
        return TokenOutput(
            token_ids=completion.tokens,
            log_probs=completion.log_probs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            num_preempted=0,
            extra_fields={"global_steps": self.global_steps},
        )

    def _seed_of(self, prompt_ids: list[int]) -> int:
        """Made of the run's seed, the weights' step, the prompt and how often it was asked; not of when it arrived."""
        prompt = hashlib.sha256(repr(list(prompt_ids)).encode()).digest()
        self.repeats[prompt] += 1
        text = f"{self.seed} {self.global_steps} {prompt.hex()} {self.repeats[prompt]}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    async def _serve(self) -> None:
        while self.waiting:
            await self._gather()
            batch, self.waiting = self.waiting[: self.max_batch], self.waiting[self.max_batch :]
            requests = [request for request, _ in batch]
            error = None
            try:
                async with self.weights_in_use:
                    completions = await asyncio.to_thread(decode, self.model, requests, self.eos_ids)
            except Exception as failure:
                error, completions = failure, [None] * len(batch)
            for (_, future), completion in zip(batch, completions, strict=True):
                if future.cancelled():
                    continue
                if error:
                    future.set_exception(error)
                else:
                    future.set_result(completion)

    async def _gather(self) -> None:
        known = 0
        while known < len(self.waiting) < self.max_batch:
            known = len(self.waiting)
            await asyncio.sleep(GATHER_SECONDS)

    async def wake_up(self) -> None:
        """Nothing to bring back: host memory is not handed over between trainer and rollout."""

    async def sleep(self) -> None:
        """Nothing to give back."""


class CpuReplica(RolloutReplica):
    """Starts the server; veRL's agent loop calls `generate` on it through the load balancer."""

    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError(f"the CPU rollout is one process a replica: set ROLLOUT_TP=1, not {self.world_size}")
        # Concurrency: a request waits inside the actor for its batch, so all of a step must fit in at once.
        server = ray.remote(RolloutServer).options(
            name=server_name(self.replica_rank), num_cpus=0, max_concurrency=self.max_concurrency
        )
        self._server_handle = server.remote(
            model_path=self.model_config.path,
            prompt_length=self.config.prompt_length,
            response_length=self.config.response_length,
            max_batch=self.config.max_num_seqs,
            seed=self.config.seed,
        )
        self.servers = [self._server_handle]
        self._server_address = server_name(self.replica_rank)


class CpuRollout(BaseRollout):
    """The training worker's side: hands the actor's weights to the server after every step."""

    async def resume(self, tags: list[str]) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]] | AsyncIterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **kwargs: Any,
    ) -> None:
        if wire_format != "named_tensors":
            raise ValueError(f"the CPU rollout takes whole tensors, not {wire_format!r}")
        full = {name: tensor.detach().float() async for name, tensor in ensure_async_iterator(weights)}
        server = ray.get_actor(server_name(int(os.environ["RANK"])))
        await server.update_weights.remote(full, global_steps)
