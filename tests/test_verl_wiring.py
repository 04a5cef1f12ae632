"""Our reward inside veRL's own reward loop, with the configuration that the run script composes."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import SINGLE

from training import preflight

SUM = json.dumps({"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]})
RIGHT = "```python\nprint(sum(map(int, input().split())))\n```"
HALF_RIGHT = "```python\nprint(3)\n```"
LOOP = "```python\nwhile True: pass\n```"


SLOW = "```python\nimport time\nend = time.time() + 1.5\nwhile time.time() < end: pass\nprint(3)\n```"


@pytest.fixture(scope="module", params=preflight.MANAGERS)
def worker(request, dry_run, tiny_model: Path):
    """veRL's RewardLoopWorker with each manager that takes the reward's dict, as a plain object in this process."""
    from verl.experimental.reward_loop import RewardLoopWorker

    timeout = "++reward.custom_reward_function.reward_kwargs.timeout=1"
    manager = f"reward.reward_manager.name={request.param}"
    return RewardLoopWorker(preflight.compose(dry_run(SINGLE, timeout, manager, MODEL_PATH=str(tiny_model))))


def sample(tokenizer: Any, response: str, ground_truth: str = SUM, index: int = 0) -> Any:
    """One generated response as the agent loop hands it to the reward loop: token ids [1, length] and the row's columns."""
    from verl import DataProto

    def column(value: Any) -> np.ndarray:
        array = np.empty(1, dtype=object)
        array[0] = value
        return array

    prompt = tokenizer("hi")["input_ids"]
    answer = tokenizer(response)["input_ids"] + [tokenizer.eos_token_id]
    return DataProto.from_dict(
        tensors={
            "prompts": torch.tensor([prompt]),
            "responses": torch.tensor([answer]),
            "attention_mask": torch.ones(1, len(prompt) + len(answer), dtype=torch.long),
        },
        non_tensors={
            "data_source": column("recipe_stdio"),
            "reward_model": column({"style": "rule", "ground_truth": ground_truth}),
            "extra_info": column({"index": index, "split": "train"}),
            "__num_turns__": np.array([2]),
        },
    )


def scores(worker: Any, samples: list[Any]) -> list[dict[str, Any]]:
    async def together() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(worker.compute_score(x) for x in samples)))

    return worker.reward_manager.loop.run_until_complete(together())


def test_the_reward_loop_scores_with_our_function(worker):
    results = scores(worker, [sample(worker.input_tokenizer, x) for x in (RIGHT, HALF_RIGHT, "I do not know.")])
    assert [x["reward_score"] for x in results] == [1.0, 0.5, 0.0]
    assert [x["reward_extra_info"]["format"] for x in results] == [1.0, 1.0, 0.0]
    assert [x["reward_extra_info"]["acc"] for x in results] == [1.0, 0.0, 0.0]


def test_every_response_gives_the_same_keys_and_only_numbers(worker):
    odd = ["", "```python\n", LOOP, "```python\nraise SystemExit(3)\n```", "```python\ndef\n```", RIGHT]
    samples = [sample(worker.input_tokenizer, x) for x in odd]
    samples += [
        sample(worker.input_tokenizer, RIGHT, ground_truth=x) for x in ("", "{}", "not json", '{"inputs": [], "outputs": []}')
    ]
    results = scores(worker, samples)
    keys = set(results[0]["reward_extra_info"])
    for result in results:
        assert set(result["reward_extra_info"]) == keys
        assert all(isinstance(value, (int, float)) for value in result["reward_extra_info"].values())
        assert 0.0 <= result["reward_score"] <= 1.0
    assert "reward" not in keys  # veRL keeps a list of its own under that name


def test_reward_kwargs_reach_it(worker):
    """The loop is stopped after 1 s a test (reward_kwargs), not after the default 10 s."""
    [result] = scores(worker, [sample(worker.input_tokenizer, LOOP)])
    assert result["reward_extra_info"]["time_limit"] == 1.0


def test_many_at_once(worker):
    texts = [RIGHT, HALF_RIGHT] * 16
    results = scores(worker, [sample(worker.input_tokenizer, x, index=i) for i, x in enumerate(texts)])
    assert [x["reward_score"] for x in results] == [1.0, 0.5] * 16


def test_judging_never_blocks_the_event_loop(worker):
    """A coroutine beside it on veRL's own loop goes on while programs burn CPU for seconds."""
    beats = []

    async def heartbeat() -> None:
        while True:
            beats.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.05)

    async def judged_beside_it() -> list[dict[str, Any]]:
        heart = asyncio.create_task(heartbeat())
        await asyncio.sleep(0)
        results = await asyncio.gather(*(worker.compute_score(sample(worker.input_tokenizer, SLOW)) for _ in range(3)))
        heart.cancel()
        return list(results)

    results = worker.reward_manager.loop.run_until_complete(judged_beside_it())
    # A slow program is stopped after the second of CPU that reward_kwargs give it, or it ends by itself: it burns that long.
    assert all(x["reward_extra_info"]["time_limit"] + x["reward_extra_info"]["pass_rate"] >= 0.5 for x in results)
    assert len(beats) > 10  # of 20 or more; a loop that is blocked has one


def batch(tokenizer: Any, texts: list[str]) -> Any:
    """Several responses, padded to one length as veRL's trainer holds them."""
    from verl import DataProto

    single = [sample(tokenizer, text, index=index) for index, text in enumerate(texts)]
    width = max(x.batch["responses"].shape[1] for x in single)
    for x in single:
        missing = width - x.batch["responses"].shape[1]
        for key, value in (("responses", tokenizer.pad_token_id), ("attention_mask", 0)):
            x.batch[key] = torch.nn.functional.pad(x.batch[key], (0, missing), value=value)
    return DataProto.concat(single)


def test_ray_workers_score_a_batch(dry_run, tiny_model: Path):
    """veRL's RewardLoopManager: two Ray actors, a batch padded to one length, one tensor of scores."""
    import ray
    from verl.experimental.reward_loop import RewardLoopManager
    from verl.utils import hf_tokenizer

    config = preflight.compose(dry_run(SINGLE, MODEL_PATH=str(tiny_model), REWARD_WORKERS="2"))
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        texts = [RIGHT, HALF_RIGHT, "nothing", RIGHT]
        result = RewardLoopManager(config).compute_rm_score(batch(hf_tokenizer(str(tiny_model)), texts))
    finally:
        ray.shutdown()
    assert result.batch["rm_scores"].sum(dim=1).tolist() == [1.0, 0.5, 0.0, 1.0]
    assert result.non_tensor_batch["acc"].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_the_workers_of_every_node_judge(dry_run, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two Ray nodes on this host, each with a raylet and an object store of its own; four workers, two a node."""
    import ray
    from ray.cluster_utils import Cluster
    from verl.experimental.reward_loop import RewardLoopManager
    from verl.utils import hf_tokenizer

    monkeypatch.setenv("CODE_REWARD_LOG_DIR", str(tmp_path))  # before the nodes start, which hand it to their workers
    config = preflight.compose(dry_run(SINGLE, MODEL_PATH=str(tiny_model), REWARD_WORKERS="4"))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        manager = RewardLoopManager(config)
        result = manager.compute_rm_score(batch(hf_tokenizer(str(tiny_model)), [RIGHT, HALF_RIGHT] * 8))
        where = [
            ray.get(worker.__ray_call__.remote(lambda self: (ray.get_runtime_context().get_node_id(), os.getpid())))
            for worker in manager.reward_loop_workers
        ]
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert result.batch["rm_scores"].sum(dim=1).tolist() == [1.0, 0.5] * 8
    assert sorted(Counter(node for node, _ in where).values()) == [2, 2]
    judged = {int(path.stem.rpartition("-")[2]): len(path.read_text().splitlines()) for path in tmp_path.glob("*.jsonl")}
    assert judged == {pid: 4 for _, pid in where}


def test_verls_dataset_reads_the_prepared_rows(dry_run, tiny_model: Path, prepared_data: Path):
    """Every prompt of the embedded set reaches the model as one system and one user turn with the whole statement."""
    from verl.utils import hf_tokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    config = preflight.compose(dry_run(SINGLE, MODEL_PATH=str(tiny_model), MAX_PROMPT_LENGTH="2048"))
    tokenizer = hf_tokenizer(str(tiny_model))
    for name in ("train", "validation"):
        data = RLHFDataset(data_files=str(prepared_data / f"{name}.parquet"), tokenizer=tokenizer, config=config.data)
        assert len(data) > 0
        rows = [data[i] for i in range(0, len(data), max(1, len(data) // 20))]
        for row in rows:
            assert [x["role"] for x in row["raw_prompt"]] == ["system", "user"]
            text = tokenizer.apply_chat_template(row["raw_prompt"], tokenize=False, add_generation_prompt=True)
            assert all(x["content"].strip() in text for x in row["raw_prompt"])
            assert row["extra_info"]["split"] == name
        batch = collate_fn(rows)
        assert len(batch["reward_model"]) == len(rows)
