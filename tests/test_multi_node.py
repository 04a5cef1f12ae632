"""Several Ray nodes on one host: veRL's own reward workers, agent loop, TransferQueue and replay buffer; one node is killed.

The configuration is the multi-GPU script's for an existing cluster. The only stand-in is the language model: a client that
answers each prompt with the program that the prompt names. What is asserted of the kill is what veRL 0.9.1 does then, as
docs/multi_node.md tells it.
"""

from __future__ import annotations

import asyncio
import collections
import json
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from conftest import MULTI
from ray.cluster_utils import Cluster

from training import preflight

NODES = 4  # one for veRL's agent worker, one for TransferQueue's storage unit, the head, and one that only judges
PROMPTS = 60
HANG_SECONDS = 240
RIGHT = "```python\nprint(sum(map(int, input().split())))\n```"
WRONG = "```python\nprint('no')\n```"
SLOW = "```python\nimport time\ntime.sleep(1)\nprint(sum(map(int, input().split())))\n```"
TESTS = json.dumps({"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]})


class CannedModel:
    """In place of veRL's client of the rollout servers: answers with what the prompt asks for."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    async def generate(self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        wish = self.tokenizer.decode(prompt_ids)
        answer = next(text for name, text in {"slow": SLOW, "wrong": WRONG, "right": RIGHT}.items() if name in wish)
        tokens = self.tokenizer(answer)["input_ids"] + [self.tokenizer.eos_token_id]
        return TokenOutput(token_ids=tokens, stop_reason="completed", num_preempted=0, extra_fields={"global_steps": 0})


class Run:
    """veRL's parts of a run, up to the replay buffer from which the trainer takes its batch."""

    def __init__(self, config: Any, log: Path) -> None:
        import transfer_queue as tq
        from verl.experimental.reward_loop import RewardLoopManager
        from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
        from verl.utils import hf_tokenizer

        self.tq, self.log = tq, log
        tq.init(config.transfer_queue)
        self.reward_workers = RewardLoopManager(config).reward_loop_worker_handles
        model = CannedModel(hf_tokenizer(config.actor_rollout_ref.model.path))
        self.agents = AgentLoopManagerTQ.create(config, model, None, self.reward_workers)
        if asyncio.iscoroutine(self.agents):
            self.agents = asyncio.run(self.agents)
        self.buffer = ReplayBuffer("sync", config.trainer, None, "drop", {}, poll_interval=0.2)
        self.places = self.where(self.reward_workers)
        queue = [ray.get_actor("TransferQueueController", "transfer_queue"), ray.get_actor("TransferQueueStorageUnit#0")]
        self.needed_nodes = set(self.where([*self.agents.agent_loop_workers, *queue]).values())

    def where(self, workers: list[Any]) -> dict[int, str]:
        """{pid: node} of these workers."""

        def here(_: Any) -> tuple[int, str]:
            import os

            return os.getpid(), ray.get_runtime_context().get_node_id()

        return dict(ray.get([worker.__ray_call__.remote(here) for worker in workers], timeout=300))

    def generate(self, wishes: list[str], step: int) -> None:
        """What the trainer does at the start of a step."""
        from verl.utils import tensordict_utils as tu

        def column(values: list[Any]) -> np.ndarray:
            array = np.empty(len(values), dtype=object)
            array[:] = values
            return array

        batch = tu.get_tensordict({
            "raw_prompt": column([[{"role": "user", "content": wish}] for wish in wishes]),
            "data_source": column(["recipe"] * len(wishes)),
            "reward_model": column([{"style": "rule", "ground_truth": TESTS}] * len(wishes)),
            "extra_info": column([{"index": index} for index in range(len(wishes))]),
            "index": column(list(range(len(wishes)))),
            "uid": column([str(uuid.uuid4()) for _ in wishes]),
        })  # fmt: skip
        tu.assign_non_tensor_data(batch, "global_steps", step)
        tags = [{"is_prompt": True, "status": "pending", "global_steps": step} for _ in wishes]
        self.tq.kv_batch_put(keys=list(batch["uid"]), partition_id="train", tags=tags)
        self.agents.generate_sequences(batch)

    def scores(self, step: int, size: int) -> list[float]:
        """What the trainer would train on: the rewards of the responses that are left of a step's batch."""
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

        until, wait = time.monotonic() + HANG_SECONDS, ReplayBuffer._wait_for_next_poll

        def wait_no_longer(*arguments: Any) -> float:
            assert time.monotonic() < until, "the trainer would wait for ever"
            return wait(self.buffer, *arguments)

        self.buffer._wait_for_next_poll = wait_no_longer
        batch, _ = self.buffer.sample(step, "train", size)
        fields = self.tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["rm_scores"])
        self.tq.kv_clear(keys=batch.keys, partition_id="train")
        return [float(scores.sum()) for scores in fields["rm_scores"]]

    def judged(self) -> collections.Counter[str]:
        """How many responses each node has judged, by the reward log."""
        lines = collections.Counter()
        for file in self.log.glob("*.jsonl"):
            lines[self.places[int(file.stem.rpartition("-")[2])]] += len(file.read_text().splitlines())
        return lines


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=4)
    cluster.wait_for_nodes(60)
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_share_for_each_node_and_one_is_killed(cluster, dry_run, tiny_model: Path, tmp_path: Path) -> None:
    log = tmp_path / "reward_log"
    settings = {
        "NNODES": str(NODES), "RAY_ADDRESS": cluster.address, "REWARD_WORKERS": str(NODES), "AGENT_WORKERS": "1",
        "MODEL_PATH": str(tiny_model), "RUN_DIR": str(tmp_path),
    }  # fmt: skip
    config = preflight.compose(dry_run(MULTI, **settings))
    from omegaconf import OmegaConf

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    options = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    ray.init(**{name: value for name, value in options.items() if value is not None}, log_to_driver=False)
    run = Run(config, log)
    assert len(set(run.places.values())) == NODES  # one worker on each

    run.generate(["right", "wrong"] * (PROMPTS // 2), step=1)
    assert sorted(run.scores(1, PROMPTS)) == [0.0] * (PROMPTS // 2) + [1.0] * (PROMPTS // 2)
    shares = run.judged()
    assert sum(shares.values()) == PROMPTS
    assert set(shares) == set(run.places.values())
    assert min(shares.values()) > PROMPTS // NODES // 4

    run.generate(["slow"] * PROMPTS, step=2)
    # A node that only judges: without an agent worker or its queue the trainer would wait for ever (docs/multi_node.md).
    needless = [node for node in cluster.list_all_nodes() if not node.head and node.node_id not in run.needed_nodes]
    victim = next(node for node in needless if node.node_id in shares)
    while run.judged()[victim.node_id] <= shares[victim.node_id] + 1:
        time.sleep(0.1)
    cluster.remove_node(victim, allow_graceful=False)
    scores = run.scores(2, PROMPTS)
    after = run.judged() - shares
    assert set(scores) == {1.0}  # what is left is right
    # What the other nodes judged is there, and of the lost node's what it had answered (its last words may be lost).
    assert after.total() - after[victim.node_id] <= len(scores) <= after.total() < PROMPTS

    before = run.judged()
    run.generate(["right"] * PROMPTS, step=3)
    scores = run.scores(3, PROMPTS)
    share = run.judged() - before
    assert set(scores) == {1.0}
    assert set(share) == set(shares) - {victim.node_id}
    assert len(scores) == share.total() < PROMPTS  # veRL starts no worker in its place and goes on sending it a share
    print(f"judged by each node: {list(shares.values())}; one killed in step 2, {after.total()} of {PROMPTS} judged; "
          f"{len(scores)} of {PROMPTS} in step 3")  # fmt: skip
