"""Write a checkpoint as veRL's own FSDP checkpoint manager does, in two ranks on the CPU.

    python fsdp_checkpoint.py MODEL ACTOR_FOLDER SCRATCH lora|SHIFT

Every weight is moved by SHIFT first, or a LoRA adapter of rank 4 with random weights is put on. SCRATCH.pt holds the logits of
PROMPT, computed before the model was sharded.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

PROMPT = [[5, 6, 7, 8]]


def work(rank: int, model_path: str, actor: str, scratch: str, change: str) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", init_method=f"file://{scratch}", rank=rank, world_size=2)
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    torch.manual_seed(0)
    if change == "lora":
        from peft import LoraConfig, get_peft_model

        settings = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
        model = get_peft_model(model, settings)
    else:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += float(change)
    if rank == 0:
        with torch.no_grad():
            torch.save(model.eval()(torch.tensor(PROMPT)).logits, f"{scratch}.pt")
    fully_shard(model, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",)))
    contents = {"save_contents": ["model"], "load_contents": ["model"]}
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    manager = FSDPCheckpointManager(
        model, optimizer=None, lr_scheduler=None, processing_class=tokenizer, checkpoint_config=contents
    )
    manager.save_checkpoint(actor, global_step=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=tuple(sys.argv[1:5]), nprocs=2)
