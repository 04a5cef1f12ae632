"""The places where veRL offers no hook, each patch with its reason and the releases that need it.

veRL imports this module in each of its processes (VERL_USE_EXTERNAL_MODULES, set by the run script), while its own package
is still being imported. So nothing of veRL is imported here: each patch waits until its module is, and costs nothing in
processes that never load it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.abc
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

Patch = Callable[[ModuleType], None]


def critic_attention(module: ModuleType) -> None:
    """Let the critic use the attention that its configuration names.

    `load_valuehead_model` asks for flash_attention_2 whatever the configuration says; without flash-attn the run ends with
    "... is not a value head model, please install trl". 0.7.1 to 0.9.1.
    """
    original = module.load_valuehead_model

    @functools.wraps(original)
    def load_valuehead_model(local_path, torch_dtype, model_config, trust_remote_code):
        wanted = getattr(model_config, "_attn_implementation", None)
        if wanted in (None, "flash_attention_2"):
            return original(local_path, torch_dtype, model_config, trust_remote_code)
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            torch_dtype=torch_dtype,
            config=model_config,
            attn_implementation=wanted,
            trust_remote_code=trust_remote_code,
        )

    module.load_valuehead_model = load_valuehead_model


def critic_without_adapter(module: ModuleType) -> None:
    """Let a full critic stand beside a LoRA actor.

    With a KL term the reference is the actor with its adapter switched off; the flag that says so stays in the batch and
    reaches the critic, which has no adapter to switch off and crashes. 0.9.1's new trainer.
    """
    module.FSDPEngineWithValueHead.disable_adapter = lambda self: contextlib.nullcontext()


def log_probs_in_chunks(module: ModuleType) -> None:
    """Compute log-probabilities many tokens at a time where flash-attn's kernel is not installed.

    veRL's fallback loops over the first dimension of the logits, which in its engines is the token: one kernel launch and
    one Python step for each of a batch's tokens, forward and backward. 0.7.1 to 0.9.1. Same numbers: x[label] - logsumexp(x).
    """
    import torch

    rows = 1024  # bounds the float32 copy of bfloat16 logits: 0.6 GB at 151,936 words

    def logprobs_from_logits_v2(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Logits [..., vocabulary] and labels [...] -> float32 log-probabilities [...]."""
        parts = []
        flat = zip(logits.reshape(-1, logits.shape[-1]).split(rows), labels.reshape(-1).split(rows), strict=True)
        for chunk, chosen in flat:
            scores = chunk.float()
            parts.append(scores.gather(-1, chosen.unsqueeze(-1)).squeeze(-1) - scores.logsumexp(-1))
        return torch.cat(parts).view(labels.shape)

    module.logprobs_from_logits_v2 = logprobs_from_logits_v2


def append_metrics(module: ModuleType) -> None:
    """Keep the metrics file when a run resumes, one line a step. 0.7.1 to 0.9.1.

    veRL's file logger opens it for writing. And a resumed run validates at the step that it goes on from, which is logged
    already: the two become one line.
    """

    class AppendingFileLogger(module.FileLogger):
        last_line = b""  # of the start that this one goes on from

        def __init__(self, project_name: str, experiment_name: str):
            path = os.environ.get("VERL_FILE_LOGGER_PATH")
            if path is None:  # not started by the run script
                super().__init__(project_name, experiment_name)
                return
            self.project_name, self.experiment_name, self.filepath = project_name, experiment_name, path
            self.fp = open(path, "a+b", buffering=0)  # noqa: SIM115  # closed by veRL's finish()
            self.fp.seek(0)
            self.last_line = b"".join(self.fp.read().splitlines(keepends=True)[-1:])

        def log(self, data, step):
            line, self.last_line = self.last_line, b""
            if line.endswith(b"\n") and (earlier := json.loads(line))["step"] == step:
                data = {**earlier["data"], **data}
                self.fp.truncate(self.fp.tell() - len(line))
            super().log(data, step)

    module.FileLogger = AppendingFileLogger


def prompt_replay_buffer(module: ModuleType) -> None:
    """Let a step end when its last response is judged: the new trainer looks only every 2 s whether all are there.

    Short steps wait for that longer than for anything else. The `custom_sampler` option could change it too, but veRL hands a
    custom sampler no group filter, so DAPO's would be lost. 0.9.1.
    """
    original = module.ReplayBuffer.__init__

    @functools.wraps(original)
    def __init__(self, *arguments, poll_interval: float = 0.1, **keywords):
        original(self, *arguments, poll_interval=poll_interval, **keywords)

    module.ReplayBuffer.__init__ = __init__


def name_samples(module: ModuleType) -> None:
    """Tell the reward which step and response it judges, and log the responses that veRL drops.

    The step and whether it validates are known where a response is generated and reach the reward in no release. What raises
    there, the reward above all, is caught in 0.9.1's new trainer and the response left out of training, with a traceback in the
    log as the only trace; 0.7.1 and 0.8.0 end the run.
    """
    from verifier import reward_log

    original = module.AgentLoopWorker._run_agent_loop

    @functools.wraps(original)
    async def _run_agent_loop(self, sampling_params, trajectory, **kwargs):
        uid, session = kwargs.get("uid"), kwargs.get("session_id")
        sample = {
            "step": trajectory["step"],
            "split": "validation" if trajectory["validate"] else "train",
            "uid": uid if session is None else f"{uid}_{session}",
        }
        # A dict of its own: the responses to one prompt share the row's.
        kwargs["extra_info"] = {**(kwargs.get("extra_info") or {}), reward_log.PLACE: sample}
        try:
            return await original(self, sampling_params, trajectory, **kwargs)
        except Exception as error:
            reward_log.write_dropped(error, kwargs.get("data_source"), kwargs["extra_info"])
            raise

    module.AgentLoopWorker._run_agent_loop = _run_agent_loop


def count_earlier_checkpoints(module: ModuleType) -> None:
    """Let a resumed run delete old checkpoints as if it had not been stopped: veRL counts only those of its own start, so each
    start would leave `max_actor_ckpt_to_keep` more on the disk. 0.7.1 to 0.9.1.

    Counted are those in the folder that the run writes to, up to the one it goes on from: what is newer may be broken.
    """
    manager = module.FSDPCheckpointManager
    load, register = manager.load_checkpoint, manager.register_checkpoint
    name = re.compile(r"global_step_(\d+)")

    def steps(path: str) -> dict[int, Path]:
        """The checkpoints beside `path`, .../global_step_N/actor, of the same model."""
        beside = Path(path).resolve().parents[1].glob(f"*/{Path(path).name}")
        return {int(found[1]): each for each in beside if (found := name.fullmatch(each.parent.name))}

    @functools.wraps(load)
    def load_checkpoint(self, local_path, *arguments, **keywords):
        load(self, local_path, *arguments, **keywords)
        self.resumed_from = local_path

    @functools.wraps(register)
    def register_checkpoint(self, new_path, *arguments, **keywords):
        resumed_from, self.resumed_from = getattr(self, "resumed_from", None), None
        if resumed_from:
            beside = steps(new_path)
            last = max((step for step, path in beside.items() if path == Path(resumed_from).resolve()), default=-1)
            self.previous_saved_paths = [str(beside[step]) for step in sorted(beside) if step <= last]
        register(self, new_path, *arguments, **keywords)

    manager.load_checkpoint, manager.register_checkpoint = load_checkpoint, register_checkpoint


def socket_of_its_own(module: ModuleType) -> None:
    """Let each run on a machine have a socket of its own for the weights that its trainer hands to vLLM.

    veRL names it by the number of Ray's job, so that two runs do not meet; but each starts a Ray of its own and is job 1 there.
    They met: one run ended with "'str' object is not callable", the other waited for ever. 0.8.0 and 0.9.1.
    """
    run = hashlib.sha256(os.environ.get("VERL_FILE_LOGGER_PATH", "").encode()).hexdigest()[:8]  # in RUN_DIR

    def renamed(original: Callable) -> Callable:
        @functools.wraps(original)
        def __init__(self, zmq_handle: str, *arguments, **keywords):
            original(self, zmq_handle.replace(".sock", f"-{run}.sock"), *arguments, **keywords)

        return __init__

    for end in (module.BucketedWeightSender, module.BucketedWeightReceiver):
        end.__init__ = renamed(end.__init__)


PATCHES: dict[str, Patch] = {
    "verl.experimental.agent_loop.agent_loop": name_samples,
    "verl.trainer.ppo.v1.replay_buffer": prompt_replay_buffer,
    "verl.utils.checkpoint.fsdp_checkpoint_manager": count_earlier_checkpoints,
    "verl.utils.model": critic_attention,
    "verl.utils.torch_functional": log_probs_in_chunks,
    "verl.utils.tracking": append_metrics,
    "verl.workers.engine.fsdp.transformer_impl": critic_without_adapter,
    "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer": socket_of_its_own,
}


class _PatchingLoader(importlib.abc.Loader):
    """Runs the module's own loader, then the patch."""

    def __init__(self, loader: importlib.abc.Loader, patch: Patch):
        self.loader, self.patch = loader, patch

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.patch(module)


class _PatchingFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        patch = PATCHES.get(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _PatchingLoader(spec.loader, patch)
                return spec
        return None


def install() -> None:
    """Patch what is already imported, and the rest when it is. Calling it twice changes nothing."""
    if any(isinstance(finder, _PatchingFinder) for finder in sys.meta_path):
        return
    for name, patch in PATCHES.items():
        if name in sys.modules:
            patch(sys.modules[name])
    sys.meta_path.insert(0, _PatchingFinder())


install()
