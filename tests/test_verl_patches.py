"""The patches: that they take hold of veRL's own modules, and what they change."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import ROOT, script_environment

# The package of veRL's vLLM rollout asks for vLLM, which needs a GPU; the modules of it that are looked at here do not.
WITHOUT_VLLM = """
import importlib.metadata, sys, types
version = importlib.metadata.version
importlib.metadata.version = lambda name: "0.24.0" if name == "vllm" else version(name)
sys.modules["verl.third_party.vllm"] = types.SimpleNamespace(VLLM_SLEEP_LEVEL=2)
"""


def in_patched_verl(program: str, **settings: str) -> str:
    """Run a program in a process where veRL loads the patches by itself, and return its stdout."""
    environment = script_environment(VERL_USE_EXTERNAL_MODULES="training.verl_patches", **settings)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_patch_is_applied_when_verl_imports_its_module():
    program = """
import importlib, verl
from training.verl_patches import PATCHES
changed = {
    "verl.experimental.agent_loop.agent_loop": "AgentLoopWorker._run_agent_loop",
    "verl.utils.checkpoint.fsdp_checkpoint_manager": "FSDPCheckpointManager.load_checkpoint",
    "verl.utils.model": "load_valuehead_model",
    "verl.utils.torch_functional": "logprobs_from_logits_v2",
    "verl.utils.tracking": "FileLogger",
    "verl.workers.engine.fsdp.transformer_impl": "FSDPEngineWithValueHead.disable_adapter",
    "verl.trainer.ppo.v1.replay_buffer": "ReplayBuffer.__init__",
    "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer": "BucketedWeightReceiver.__init__",
}
assert changed.keys() == PATCHES.keys()
for name, path in changed.items():
    value = importlib.import_module(name)
    for part in path.split("."):
        value = getattr(value, part)
    print(value.__module__, (getattr(value, "__wrapped__", None) is not None) or value.__module__ == "training.verl_patches")
"""
    lines = in_patched_verl(WITHOUT_VLLM + program).splitlines()
    assert len(lines) == 8 and all(line.endswith("True") for line in lines)


def test_a_response_is_named_and_what_is_dropped_is_logged(tmp_path: Path, monkeypatch):
    """With a stand-in for veRL's worker; the smoke run and the stopped runs show the real one."""
    from training.verl_patches import name_samples

    seen = []

    class AgentLoopWorker:
        async def _run_agent_loop(self, sampling_params, trajectory, *, agent_name, **kwargs):
            seen.append(kwargs["extra_info"])
            raise RuntimeError("no reward today\nand more")

    monkeypatch.setenv("CODE_REWARD_LOG_DIR", str(tmp_path))
    name_samples(SimpleNamespace(AgentLoopWorker=AgentLoopWorker))
    row = {"index": 3, "split": "test"}
    common = {"agent_name": "x", "uid": "ab", "data_source": "taco", "extra_info": row}
    for validate, session in (
        (False, {"session_id": 2}),
        (True, {}),
    ):  # 0.9.1 numbers the responses to one prompt, 0.8.0 does not
        with pytest.raises(RuntimeError, match="no reward today"):
            asyncio.run(AgentLoopWorker()._run_agent_loop({}, {"step": 7, "validate": validate}, **common, **session))
    assert row == {"index": 3, "split": "test"}  # the row's own dict, which its other responses share
    assert [(x["index"], x["verl_sample"]) for x in seen] == [
        (3, {"step": 7, "split": "train", "uid": "ab_2"}),
        (3, {"step": 7, "split": "validation", "uid": "ab"}),
    ]
    [file] = (tmp_path / "dropped").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(x["step"], x["split"], x["uid"], x["index"], x["data_source"]) for x in rows] == [
        (7, "train", "ab_2", 3, "taco"),
        (7, "validation", "ab", 3, "taco"),
    ]
    assert {x["error"] for x in rows} == {"RuntimeError: no reward today"}


def test_the_critic_loads_with_pytorchs_attention(tiny_model: Path):
    program = f"""
import torch, verl
from transformers import AutoConfig
from verl.utils.model import load_valuehead_model
config = AutoConfig.from_pretrained({str(tiny_model)!r}, attn_implementation="sdpa", num_labels=1)
model = load_valuehead_model({str(tiny_model)!r}, torch.float32, config, False)
print(type(model).__name__, model.config._attn_implementation, model(torch.tensor([[5, 6, 7]])).logits.shape)
"""
    assert "Qwen2ForTokenClassification sdpa torch.Size([1, 3, 1])" in in_patched_verl(program)


def test_the_trainer_looks_often_whether_a_step_is_complete():
    program = """
import verl
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
settings = dict(trainer_mode="sync", trainer_config={}, max_off_policy_threshold=None, max_off_policy_strategy="drop")
print(ReplayBuffer(**settings, sampler_kwargs={}).poll_interval)
print(ReplayBuffer(**settings, sampler_kwargs={}, poll_interval=3.0, filter_groups_metric=None).poll_interval)
"""
    assert in_patched_verl(program).split()[-2:] == ["0.1", "3.0"]


def test_two_runs_on_a_machine_do_not_share_the_socket_for_weights():
    """That each Ray's first job has the same number is what veRL's name overlooks; a run on two GPUs each has shown it."""
    program = f"""{WITHOUT_VLLM}
import verl
from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver, BucketedWeightSender
name = "ipc:///tmp/rl-colocate-zmq-01000000-replica-0-rank-0.sock"
print(BucketedWeightSender(zmq_handle=name).zmq_handle, BucketedWeightReceiver(name, device=None).zmq_handle)
"""
    ends = [in_patched_verl(program, VERL_FILE_LOGGER_PATH=f"/runs/{run}/metrics.jsonl").split()[-2:] for run in "ab"]
    assert ends[0][0] == ends[0][1] != ends[1][0] == ends[1][1]
    assert all(name.startswith("ipc:///tmp/rl-colocate-zmq-01000000-") and len(name) < 100 for name, _ in ends)


def test_a_resumed_run_keeps_its_metrics(tmp_path: Path):
    """Of three starts: the second goes on after step 2 and validates there first, the third after half a line."""
    program = """
import sys, verl
from verl.utils.tracking import Tracking
tracking = Tracking(project_name="p", experiment_name="e", default_backend=["file"], config={})
for name, step in %s:
    tracking.log({name: 0.5}, step=step)
"""
    path = tmp_path / "metrics.jsonl"
    starts = ([("score", 1), ("score", 2)], [("val", 2), ("score", 3)], [("val", 3), ("score", 4)])
    for calls in starts:
        in_patched_verl(program % calls, VERL_FILE_LOGGER_PATH=str(path))
        if calls == starts[1]:
            with path.open("a") as file:
                file.write('{"step": 3, "da')
    lines = path.read_text().splitlines()
    assert [json.loads(line) for line in lines[:3]] == [
        {"step": 1, "data": {"score": 0.5}},
        {"step": 2, "data": {"score": 0.5, "val": 0.5}},
        {"step": 3, "data": {"score": 0.5}},
    ]
    assert lines[3].startswith('{"step": 3, "da') and json.loads(lines[4]) == {"step": 4, "data": {"score": 0.5}}


def test_a_resumed_run_keeps_as_many_checkpoints_as_any(tmp_path: Path):
    program = f"""
import pathlib, torch, verl
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
torch.distributed.init_process_group("gloo", init_method="file://{tmp_path}/rendezvous", rank=0, world_size=1)
root = pathlib.Path("{tmp_path}")
for loaded, registered in (("run/global_step_10", "run"), ("other/global_step_10", "another"), (None, "fresh")):
    for run in {{registered, (loaded or registered).split("/")[0]}}:
        for step in ("2", "4", "10", "12", "4_mine"):  # 12 was being written when the run was killed
            for part in ("actor", "critic"):
                (root / run / f"global_step_{{step}}" / part).mkdir(parents=True)
    manager = FSDPCheckpointManager(torch.nn.Linear(1, 1), checkpoint_config=dict(load_contents=[], save_contents=[]))
    manager.load_checkpoint(loaded and f"{{root}}/{{loaded}}/actor")
    for step in (14, 16):
        (root / registered / f"global_step_{{step}}" / "actor").mkdir(parents=True)
        manager.register_checkpoint(f"{{root}}/{{registered}}/global_step_{{step}}/actor", max_ckpt_to_keep=2)
"""
    in_patched_verl(program)

    def left(run: str, part: str = "actor") -> set[str]:
        return {path.parent.name.removeprefix("global_step_") for path in (tmp_path / run).glob(f"*/{part}")}

    before = {"2", "4", "10", "12", "4_mine"}
    assert left("run") == {"12", "4_mine", "14", "16"}
    assert left("run", "critic") == before  # its own manager's affair
    assert left("other") == before and left("another") == left("fresh") == before | {"14", "16"}


@pytest.mark.parametrize("dtype,tolerance", ((torch.float32, 1e-5), (torch.bfloat16, 1e-5)))
def test_log_probs_equal_a_log_softmax(dtype, tolerance):
    """Values and gradients, for more tokens than one chunk holds; the reference computes in float64."""
    from types import ModuleType

    from training.verl_patches import log_probs_in_chunks

    module = ModuleType("stand_in")
    log_probs_in_chunks(module)
    torch.manual_seed(0)
    logits = (torch.randn(2, 700, 37) * 5).to(dtype).requires_grad_()
    labels = torch.randint(0, 37, (2, 700))
    ours = module.logprobs_from_logits_v2(logits, labels)
    exact = torch.log_softmax(logits.double(), dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    assert ours.shape == labels.shape
    assert torch.allclose(ours.double(), exact, atol=tolerance)
    [gradient] = torch.autograd.grad(ours.sum(), logits, retain_graph=True)
    [reference] = torch.autograd.grad(exact.sum(), logits)
    assert torch.allclose(gradient.float(), reference.float(), atol=1e-5 if dtype is torch.float32 else 1e-2)
