"""Finding and merging a checkpoint: shards as veRL's own manager writes them. A run's own is in test_smoke_run.py."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import ROOT, script_environment
from fsdp_checkpoint import PROMPT

from evaluation import merge

HANG = 900


def checkpoint(run: Path, step: int, finished: bool = True) -> Path:
    actor = run / "checkpoints" / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    (actor / "model_world_size_1_rank_0.pt").write_bytes(b"")
    if finished:
        (run / "checkpoints" / "latest_checkpointed_iteration.txt").write_text(str(step))
    return actor


def test_a_run_folder_means_its_last_finished_checkpoint(tmp_path):
    checkpoint(tmp_path, 9)
    actor = checkpoint(tmp_path, 20)
    checkpoint(tmp_path, 40, finished=False)  # the run was killed while it wrote this one
    for folder in (tmp_path, tmp_path / "checkpoints", actor.parent, actor):
        assert merge.actor_folder(folder) == actor
    assert merge.default_target(actor) == tmp_path / "merged" / "global_step_20"


def test_a_certain_step(tmp_path):
    first = checkpoint(tmp_path, 1)
    checkpoint(tmp_path, 2)
    assert merge.actor_folder(first.parent) == first


@pytest.mark.parametrize("make", (lambda path: None, lambda path: (path / "checkpoints" / "global_step_3").mkdir(parents=True)))
def test_no_checkpoint(tmp_path, make):
    make(tmp_path)
    with pytest.raises(merge.MergeError, match=r"no finished checkpoint|not a folder"):
        merge.actor_folder(tmp_path)


def test_the_critic_is_no_model_to_evaluate(tmp_path):
    critic = checkpoint(tmp_path, 1).with_name("critic")
    critic.mkdir()
    (critic / "model_world_size_1_rank_0.pt").touch()
    with pytest.raises(merge.MergeError, match="is the critic"):
        merge.merge(critic)
    assert not (critic.parent / "merged").exists()


def test_a_merge_that_fails_leaves_nothing(tmp_path):
    checkpoint(tmp_path, 1)  # its shard is empty
    with pytest.raises(merge.MergeError, match="merger failed"):
        merge.merge(tmp_path)
    assert list((tmp_path / "merged").iterdir()) == []


def test_a_merged_folder_is_not_merged_again(tmp_path):
    checkpoint(tmp_path, 1)
    target = tmp_path / "merged" / "global_step_1"
    target.mkdir(parents=True)
    assert merge.merge(tmp_path) == target


def test_a_missing_shard(tmp_path):
    actor = checkpoint(tmp_path, 1)
    (actor / "model_world_size_1_rank_0.pt").rename(actor / "model_world_size_2_rank_1.pt")
    with pytest.raises(merge.MergeError, match="1 shards of world size"):
        merge.merge(tmp_path)


@pytest.fixture(scope="module")
def two_ranks(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, torch.Tensor]]:
    """two_ranks("lora" or a shift) -> (a checkpoint of two shards, the logits of PROMPT)"""

    def make(change: str) -> tuple[Path, torch.Tensor]:
        run = tmp_path_factory.mktemp("run")
        actor = run / "checkpoints" / "global_step_1" / "actor"
        command = [sys.executable, ROOT / "tests" / "fsdp_checkpoint.py", tiny_model, actor, run / "scratch", change]
        subprocess.run(command, check=True, timeout=HANG, env=script_environment())
        return actor.parent, torch.load(run / "scratch.pt")

    return make


def merged_logits(folder: Path) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()(torch.tensor(PROMPT)).logits


def same_files(folder: Path, tiny_model: Path) -> bool:
    names = ("tokenizer.json", "chat_template.jinja", "generation_config.json")
    return all(json_or_text(folder / name) == json_or_text(tiny_model / name) for name in names)


def json_or_text(path: Path) -> object:
    text = path.read_text()
    return {k: v for k, v in json.loads(text).items() if k != "transformers_version"} if path.suffix == ".json" else text


def test_two_shards(two_ranks, tiny_model, capfd):
    step, logits = two_ranks("0.01")
    folder = merge.merge(step, base=str(tiny_model))
    assert folder == step.parent.parent / "merged" / "global_step_1"
    assert torch.allclose(merged_logits(folder), logits, atol=0.02)  # veRL's merger rounds to bfloat16
    assert same_files(folder, tiny_model)
    said = capfd.readouterr().err
    assert "100.0% of 1,477,568 weights differ from the base model's" in said and "1.0e-02 at the most" in said


def test_a_lora_adapter_is_merged(two_ranks, tiny_model, capfd):
    step, logits = two_ranks("lora")
    (step / "actor" / "lora_train_meta.json").write_text(json.dumps({"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM"}))
    folder = merge.merge(step, base=str(tiny_model))
    assert not torch.allclose(merged_logits(tiny_model), logits, atol=0.2)  # the adapter matters
    assert torch.allclose(merged_logits(folder), logits, atol=0.05)
    assert not (folder / "lora_adapter").exists() and same_files(folder, tiny_model)


def test_an_adapter_that_lost_its_alpha(two_ranks, tiny_model):
    """veRL before 0.8 saves none: the run's config.yaml has it."""
    step, logits = two_ranks("lora")
    (step / "actor" / "lora_train_meta.json").unlink(missing_ok=True)
    with pytest.raises(merge.MergeError, match="--lora-alpha"):
        merge.merge(step, base=str(tiny_model))
    (step.parent.parent / "config.yaml").write_text("actor_rollout_ref: {model: {lora_alpha: 8}}")
    assert torch.allclose(merged_logits(merge.merge(step, base=str(tiny_model))), logits, atol=0.05)


def test_weights_of_the_base_model_are_refused(two_ranks, tiny_model):
    step, _ = two_ranks("0")
    with pytest.raises(merge.MergeError, match="are the base model's"):
        merge.merge(step, base=str(tiny_model))
    assert not (step.parent.parent / "merged" / "global_step_1").exists()


def test_another_base_model(tiny_model, tmp_path):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    other = Qwen2ForCausalLM(Qwen2Config(hidden_size=64, intermediate_size=64, num_hidden_layers=1, vocab_size=64))
    with pytest.raises(merge.MergeError, match="other weights than MODEL_PATH"):
        merge.difference(merge.load(tiny_model), other)


def test_weights_that_are_no_numbers(tiny_model):
    broken = merge.load(tiny_model)
    with torch.no_grad():
        next(broken.parameters())[0, 0] = float("nan")
    with pytest.raises(merge.MergeError, match="not finite"):
        merge.difference(broken, merge.load(tiny_model))


def test_weights_that_are_missing(tiny_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] += 1
    config["layer_types"].append(config["layer_types"][0])
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(merge.MergeError, match="other weights than its configuration"):
        merge.load(folder)
