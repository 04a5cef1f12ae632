"""What a run asks of its machine and its folder: GPUs, CPUs, memory, disk, checkpoints that are whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training import processes, resume
from training.finding import Finding

LOG_BYTES = 1 << 30  # what a run writes beside its checkpoints
FILES = 100  # a checkpoint of actor and critic takes some 25
MASTER_AND_ADAM_BYTES = 12  # a trained parameter: fp32 weight and two fp32 moments; a checkpoint holds the same
BASE_PROCESSES_BYTES = 8 << 30  # Ray, the driver, agent and reward workers


def check_machine(config: Any, run_dir: Path) -> Iterator[Finding]:
    """GPUs, CPUs, memory and disk suffice. Memory is an estimate, so it only warns."""
    trainer = config.trainer
    joins_cluster = config.get("ray_kwargs", config).ray_init.get("address", "local") != "local"
    if trainer.device != "cpu" and not joins_cluster:  # cluster_check asks the nodes; this may be a head without a GPU
        import torch

        count = torch.cuda.device_count()
        if count < trainer.n_gpus_per_node:
            yield Finding(f"NDEVICES_PER_NODE={trainer.n_gpus_per_node}, but {count} GPUs are visible here: lower it.")
    cpus = config.get("ray_kwargs", config).ray_init.num_cpus or len(os.sched_getaffinity(0))
    needed = 10 + 3 * trainer.n_gpus_per_node
    if cpus < needed and not joins_cluster:
        yield Finding(
            f"Ray has {cpus} CPUs to hand out and veRL asks for {needed}, so it would wait for ever at start-up: "
            f"set RAY_NUM_CPUS={needed} (bookkeeping, not cores)."
        )

    actor, critic = model_parameters(config.actor_rollout_ref.model.path), 0
    if config.algorithm.adv_estimator == "gae":
        critic = model_parameters(config.critic.model.path)
    trained = MASTER_AND_ADAM_BYTES if config.actor_rollout_ref.model.lora_rank == 0 else 4
    checkpoint = trained * actor + MASTER_AND_ADAM_BYTES * critic
    kept = trainer.max_actor_ckpt_to_keep or 1
    number = kept + 1 if trainer.save_freq > 0 else 0
    where, disk = existing_parent(run_dir), LOG_BYTES + number * checkpoint
    free = shutil.disk_usage(where).free
    if not (where.is_dir() and os.access(where, os.W_OK)):
        yield Finding(f"{run_dir} cannot be written: set RUN_DIR to a folder that can.")
    if free < disk:
        yield Finding(
            f"{run_dir} has {free / 1e9:.1f} GB free, and logs with {number} checkpoints take about {disk / 1e9:.1f} GB: "
            "lower MAX_CKPT_TO_KEEP, free space, or set RUN_DIR to a larger disk."
        )
    inodes = os.statvfs(where)
    if inodes.f_files and inodes.f_favail < FILES:
        yield Finding(
            f"The disk of {run_dir} takes {inodes.f_favail} more files (inodes), and a run writes more than {FILES}: "
            "delete files there, or set RUN_DIR to another disk."
        )
    if trainer.device != "cpu" and config.actor_rollout_ref.actor.fsdp_config.param_offload:
        memory, total = checkpoint + BASE_PROCESSES_BYTES, memory_bytes()
        if total < memory:
            yield Finding(
                f"Offloaded states take about {memory / 1e9:.0f} GB of host memory and this machine has "
                f"{total / 1e9:.0f} GB: set OFFLOAD=False if the GPU is large, or take a smaller model.",
                fatal=False,
            )


def check_resume(config: Any, run_dir: Path) -> Iterator[Finding]:
    """No other run is in the folder, and the checkpoint that this one goes on from is whole."""
    log = run_dir / "train.log"
    if log.is_file():
        with log.open("ab") as file:
            if not processes.take(file):
                yield Finding(f"Another run writes to {run_dir}: end it, or set RUN_DIR.")
    found = resume.find(config)
    if found.words:
        yield Finding(found.words, fatal=found.fatal)
    trainer = config.trainer
    if trainer.save_freq > 0 and trainer.max_actor_ckpt_to_keep == 1:
        yield Finding(
            "With MAX_CKPT_TO_KEEP=1 veRL deletes the last checkpoint before the next is whole, so a run that is killed "
            "between the two starts at step 0: set it to 2.",
            fatal=False,
        )


def model_parameters(path: str) -> int:
    """The number of parameters of a model folder or hub name, from its configuration alone; 0 if that cannot be read."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(path)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config).num_parameters()
    except (OSError, ValueError):
        return 0  # of a kind that only its own code can make


def existing_parent(path: Path) -> Path:
    return next(x for x in (path, *path.parents) if x.exists())


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
