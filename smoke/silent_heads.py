"""Give a model more attention heads that say nothing, so that a tensor-parallel rollout can be tried with it.

    python3 -m smoke.silent_heads HuggingFaceTB/SmolLM2-135M-Instruct OUT [--groups 1]

vLLM splits a layer's heads over ROLLOUT_TP GPUs, and SmolLM2-135M has nine of them for three keys and values. The model that
is written has one group more, twelve for four, whose weights are all 0: it computes what it did before, and goes on doing so
in training, since no gradient reaches weights of 0 on both sides. For Llama and Qwen2, or what has their names of weights.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

GROWN_ROWS = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "q_proj.bias", "k_proj.bias", "v_proj.bias")
GROWN_COLUMNS = ("o_proj.weight",)


def with_silent_heads(model: PreTrainedModel, groups: int) -> PreTrainedModel:
    """A model that computes the same, with `groups` more key/value heads, each with its share of query heads."""
    config = type(model.config)(**model.config.to_dict())
    config.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    config.num_attention_heads += groups * config.num_attention_heads // config.num_key_value_heads
    config.num_key_value_heads += groups
    wider = type(model)(config).to(model.dtype)
    weights = wider.state_dict()
    for name, old in model.state_dict().items():
        if name.endswith(GROWN_ROWS):
            weights[name].zero_()[: old.shape[0]] = old
        elif name.endswith(GROWN_COLUMNS):
            weights[name].zero_()[:, : old.shape[1]] = old
        else:
            weights[name].copy_(old)
    wider.generation_config = model.generation_config
    return wider


def main() -> int:
    parser = argparse.ArgumentParser(description="Give a model more attention heads that say nothing.")
    parser.add_argument("model", help="hub name or folder")
    parser.add_argument("out", type=Path, help="new folder for model and tokenizer")
    parser.add_argument("--groups", type=int, default=1, help="key/value heads to add (default 1)")
    arguments = parser.parse_args()
    if arguments.groups < 1:
        parser.error("--groups must be at least 1")
    if arguments.out.exists():
        print(f"silent_heads: {arguments.out} exists already: remove it or name another folder.", file=sys.stderr)
        return 1
    logging.disable_progress_bar()
    unfinished = arguments.out.with_name(f"{arguments.out.name}.unfinished{os.getpid()}")
    try:
        model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.bfloat16)
        wider = with_silent_heads(model, arguments.groups)
        wider.save_pretrained(unfinished)
        AutoTokenizer.from_pretrained(arguments.model).save_pretrained(unfinished)
        unfinished.rename(arguments.out)
    except (OSError, ValueError) as error:
        print(f"silent_heads: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(f"{arguments.out}: {wider.config.num_attention_heads} heads, {wider.config.num_key_value_heads} of keys and values")
    return 0


if __name__ == "__main__":
    sys.exit(main())
