"""A veRL checkpoint -> a Hugging Face folder.

    python3 -m evaluation.merge CHECKPOINT [--base MODEL] [--target DIR]

CHECKPOINT is a run folder, a checkpoints folder (its last step), a global_step_N folder or the actor folder in it. veRL's own
merger joins the FSDP shards; a LoRA adapter, which that merger leaves beside the base weights, is merged into them here.
Before the target (default: merged/global_step_N beside the checkpoints folder) appears, transformers has loaded it and its
weights have been compared with those of the model that the run started from: a folder whose weights are the base model's is
not kept. A target that is there already is. Its path is the only line on stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation import run_config


class MergeError(Exception):
    """One sentence: what is wrong and what to do."""


def actor_folder(checkpoint: Path) -> Path:
    """The folder with the actor's shards.

    Raises:
        MergeError: there is none.
    """
    if not checkpoint.is_dir():
        raise MergeError(f"{checkpoint} is not a folder: name a run folder or one of its checkpoints.")
    if checkpoint.name == "critic":
        raise MergeError(f"{checkpoint} is the critic, which generates nothing: name the actor folder beside it.")
    if any(checkpoint.glob("model_world_size_*_rank_*.pt")):
        return checkpoint
    if (checkpoint / "actor").is_dir():
        return actor_folder(checkpoint / "actor")
    if (checkpoint / "checkpoints").is_dir():
        return actor_folder(checkpoint / "checkpoints")
    steps = {
        int(m[1]): path for path in checkpoint.glob("global_step_*") if (m := re.fullmatch(r"global_step_(\d+)", path.name))
    }
    last = checkpoint / "latest_checkpointed_iteration.txt"  # written after the folder: a later one is incomplete
    if last.is_file() and last.read_text().strip().isdigit() and int(last.read_text()) in steps:
        return actor_folder(steps[int(last.read_text())])
    raise MergeError(f"{checkpoint} holds no finished checkpoint: wait for the first SAVE_FREQ steps or name another folder.")


def default_target(actor: Path) -> Path:
    """runs/X/checkpoints/global_step_N/actor -> runs/X/merged/global_step_N"""
    step = actor.parent if actor.name == "actor" else actor
    root = step.parent.parent if step.parent.name == "checkpoints" else step.parent
    return root / "merged" / step.name


def check_shards(actor: Path) -> None:
    """Raises MergeError where a shard is missing: the merger would stop in the middle."""
    names = [re.fullmatch(r"model_world_size_(\d+)_rank_(\d+)\.pt", x.name) for x in actor.glob("model_world_size_*.pt")]
    found = {(int(m[1]), int(m[2])) for m in names if m}
    sizes = {size for size, _ in found}
    if len(sizes) != 1 or {rank for _, rank in found} != set(range(max(sizes))):
        raise MergeError(
            f"{actor} holds {len(found)} shards of world size {sorted(sizes)}: bring the shards of all nodes there."
        )


def merge_adapter(folder: Path, lora_alpha: int | None) -> None:
    """Merge folder/lora_adapter into the weights beside it, in float32; they are written anew in their own dtype.

    lora_alpha: of the run, for veRL before 0.8, which saves it as 0.
    """
    adapter = folder / "lora_adapter"
    settings = json.loads((adapter / "adapter_config.json").read_text())
    if not settings["lora_alpha"]:
        if not lora_alpha:
            raise MergeError(
                "This veRL release saved the adapter with lora_alpha 0: give the run's LORA_ALPHA with --lora-alpha."
            )
        settings["lora_alpha"] = lora_alpha
        (adapter / "adapter_config.json").write_text(json.dumps(settings))
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    dtype = base.dtype
    merged = PeftModel.from_pretrained(base.to(torch.float32), adapter).merge_and_unload().to(dtype)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    merged.save_pretrained(folder)
    shutil.rmtree(adapter)


def load(model: Path | str) -> Any:
    """A model as transformers loads it; MergeError where it cannot, or where weights are missing or left over."""
    from transformers import AutoModelForCausalLM

    try:
        loaded, report = AutoModelForCausalLM.from_pretrained(model, dtype="auto", output_loading_info=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise MergeError(f"transformers cannot load {model}: {str(error).splitlines()[0]}") from error
    if wrong := sorted(map(str, [*report["missing_keys"], *report["unexpected_keys"], *report["mismatched_keys"]])):
        raise MergeError(f"{model} has other weights than its configuration says (the first is {wrong[0]}).")
    return loaded


def difference(merged: Any, base: Any) -> str:
    """How far the weights are from the base model's, in one sentence.

    Raises:
        MergeError: not at all, or the two are not the same kind of model.
    """
    import torch

    before, after = dict(base.named_parameters()), dict(merged.named_parameters())  # tied ones once
    if {name: x.shape for name, x in before.items()} != {name: x.shape for name, x in after.items()}:
        raise MergeError("The checkpoint has other weights than MODEL_PATH names: that is not the model the run started from.")
    changed, total, largest, distance, size = 0, 0, 0.0, 0.0, 0.0
    for name, new in after.items():
        new, old = (
            new.detach(),
            before[name].detach().to(new.dtype),
        )  # a run may keep in float32 what the base model has in bfloat16
        step = new.float() - old.float()
        if not bool(torch.isfinite(step).all()):
            raise MergeError(f"The checkpoint's {name} holds values that are not finite: the training has diverged.")
        changed, total = changed + int(step.count_nonzero()), total + step.numel()
        largest = max(largest, float(step.abs().max()))
        distance, size = distance + float(step.square().sum()), size + float(old.float().square().sum())
    if changed == 0:
        raise MergeError(
            "The checkpoint's weights are the base model's, to the last bit of what is saved: nothing was trained, or the "
            "steps are still too small for bfloat16."
        )
    return (
        f"{100 * changed / total:.1f}% of {total:,} weights differ from the base model's; the difference is "
        f"{(distance / size) ** 0.5:.1e} of their norm, {largest:.1e} at the most"
    )


def check(folder: Path, actor: Path, base: str | None) -> str:
    """What is known of a merged folder, in one line. Raises MergeError where it cannot be used."""
    saved = {x.name for x in (actor / "huggingface").iterdir() if x.suffix in (".json", ".jinja")}
    if missing := sorted(saved - {x.name for x in folder.iterdir()}):
        raise MergeError(f"The merged folder lacks {', '.join(missing)}, which {actor}/huggingface has: merge again.")
    from transformers import AutoTokenizer

    if not AutoTokenizer.from_pretrained(folder).chat_template:
        raise MergeError("The merged folder has no chat template: the checkpoint's folder huggingface is incomplete.")
    merged = load(folder)
    return difference(merged, load(base)) if base else "not compared with a base model: none was named"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One merge at a time writes to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)  # the folder itself, so that nothing is left in it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def merge(checkpoint: Path, target: Path | None = None, lora_alpha: int | None = None, base: str | None = None) -> Path:
    """Write the merged folder and return its path. `base`: what to compare with, default what the run's config.yaml says.

    Raises:
        MergeError: no checkpoint there, veRL's merger failed, or what came of it cannot be used.
    """
    actor = actor_folder(checkpoint.expanduser().resolve())
    target = (target or default_target(actor)).expanduser().resolve()
    with locked(target.parent):
        if target.exists():
            return target
        check_shards(actor)
        run = run_config.read(actor)
        unfinished = target.with_name(f".{target.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
        command += ["--local_dir", str(actor), "--target_dir", str(unfinished)]
        try:
            if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
                raise MergeError(f"veRL's merger failed on {actor}: its message stands above.")
            if (unfinished / "lora_adapter").is_dir():
                merge_adapter(unfinished, lora_alpha or run.lora_alpha)
            print(f"merged {actor}: {check(unfinished, actor, base or run.model)}", file=sys.stderr)
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="Merge a veRL checkpoint into a Hugging Face folder.")
    parser.add_argument("checkpoint", type=Path, help="run folder, checkpoints folder, global_step_N or its actor folder")
    parser.add_argument("--target", type=Path, help="default: merged/global_step_N beside the checkpoints folder")
    parser.add_argument("--base", help="the model that the run started from; default: what the run's config.yaml says")
    parser.add_argument("--lora-alpha", type=int, help="LoRA checkpoints of veRL before 0.8; default: the run's config.yaml")
    arguments = parser.parse_args()
    try:
        print(merge(arguments.checkpoint, arguments.target, arguments.lora_alpha, arguments.base))
    except (MergeError, ValueError, OSError) as error:
        sys.exit(f"merge: {error}")


if __name__ == "__main__":
    main()
