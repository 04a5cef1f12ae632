"""A veRL checkpoint -> a Hugging Face folder.

    python3 -m evaluation.merge CHECKPOINT [--target DIR]

CHECKPOINT is a run folder, a checkpoints folder (its last step), a global_step_N folder or the actor folder in it. veRL's own
merger joins the FSDP shards; a LoRA adapter, which that merger leaves beside the base weights, is merged into them here.
The target (default: merged/global_step_N beside the checkpoints folder) appears only when it is complete; one that is there
already is kept. Its path is the only line on stdout.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path


class MergeError(Exception):
    """One sentence: what is wrong and what to do."""


def actor_folder(checkpoint: Path) -> Path:
    """The folder with the actor's shards.

    Raises:
        MergeError: there is none.
    """
    if not checkpoint.is_dir():
        raise MergeError(f"{checkpoint} is not a folder: name a run folder or one of its checkpoints.")
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


def merge_adapter(folder: Path, lora_alpha: int | None) -> None:
    """Merge folder/lora_adapter into the weights beside it. The base weights are written anew, in their own dtype."""
    adapter = folder / "lora_adapter"
    settings = json.loads((adapter / "adapter_config.json").read_text())
    if lora_alpha is not None:
        settings["lora_alpha"] = lora_alpha
        (adapter / "adapter_config.json").write_text(json.dumps(settings))
    if not settings["lora_alpha"]:
        raise MergeError("This veRL release saved the adapter with lora_alpha 0: give the run's LORA_ALPHA with --lora-alpha.")
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    merged = PeftModel.from_pretrained(base, adapter).merge_and_unload()
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    merged.save_pretrained(folder)
    shutil.rmtree(adapter)


def merge(checkpoint: Path, target: Path | None = None, lora_alpha: int | None = None) -> Path:
    """Write the merged folder and return its path.

    Raises:
        MergeError: no checkpoint there, or veRL's merger failed.
    """
    actor = actor_folder(checkpoint.expanduser().resolve())
    target = (target or default_target(actor)).expanduser().resolve()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
    command += ["--local_dir", str(actor), "--target_dir", str(unfinished)]
    try:
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            raise MergeError(f"veRL's merger failed on {actor}: its message stands above.")
        if (unfinished / "lora_adapter").is_dir():
            merge_adapter(unfinished, lora_alpha)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="Merge a veRL checkpoint into a Hugging Face folder.")
    parser.add_argument("checkpoint", type=Path, help="run folder, checkpoints folder, global_step_N or its actor folder")
    parser.add_argument("--target", type=Path, help="default: merged/global_step_N beside the checkpoints folder")
    parser.add_argument("--lora-alpha", type=int, help="only for LoRA checkpoints of veRL before 0.8, which lose it")
    arguments = parser.parse_args()
    try:
        print(merge(arguments.checkpoint, arguments.target, arguments.lora_alpha))
    except MergeError as error:
        sys.exit(f"merge: {error}")


if __name__ == "__main__":
    main()
