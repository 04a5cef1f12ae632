"""Make a tiny Qwen2 model with random weights and a tokenizer of its own, with no network, in a few seconds.

    python3 -m smoke.tiny_model OUT

Architecture, tokenizer class and chat format are Qwen2.5-Coder's, so what loads the real model loads this one. Its
1.5 million parameters know nothing. The same code makes the same files, byte for byte.
"""

import argparse
import os
import random
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer
from transformers.utils import logging

from data.families import FAMILIES
from preparation.prompts import build_prompt

VOCABULARY = 1024
PROBLEMS_A_FAMILY = 8  # enough of each wording and program for the words in them to become tokens
SEED = 0

# As in Qwen2.5: a default system message when the conversation brings none, and no check that it is a list of messages
# (the characters of a plain string have no role, and the question is silently lost).
CHAT_TEMPLATE = """\
{%- if messages[0].role != "system" %}<|im_start|>system
You are a helpful assistant.<|im_end|>
{% endif %}
{%- for message in messages if message.role in ["system", "user", "assistant"] %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def corpus() -> Iterator[str]:
    """The texts that training will show: this project's prompts, and programs right and wrong."""
    rng = random.Random(SEED)
    for family in FAMILIES:
        for _ in range(PROBLEMS_A_FAMILY):
            problem = family.make(rng, held_out=False)
            for message in build_prompt(problem.statement, problem.fn_name):
                yield f"{message['role']}\n{message['content']}"
            for program in (problem.solution, *problem.wrong):
                yield f"assistant\n```python\n{program}\n```"


def train_tokenizer(texts: Iterable[str]) -> Qwen2Tokenizer:
    """A byte-level BPE tokenizer with Qwen's rules (each digit a token) and Qwen's special tokens."""
    rules = Qwen2Tokenizer(
        eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token=None, extra_special_tokens=["<|im_start|>"]
    )
    tokenizer = rules.train_new_from_iterator(texts, vocab_size=VOCABULARY, show_progress=False)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.model_max_length = 2048
    return tokenizer


def make_model(tokenizer: Qwen2Tokenizer) -> Qwen2ForCausalLM:
    """Random bfloat16 weights; heads of 64 as in Qwen2.5-Coder-0.5B, a size that vLLM's attention kernels know."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=3,
        num_key_value_heads=1,
        max_position_embeddings=tokenizer.model_max_length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(SEED)
    model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.generation_config = GenerationConfig(  # Qwen's chat models stop at either
        eos_token_id=[tokenizer.eos_token_id, tokenizer.pad_token_id], pad_token_id=tokenizer.pad_token_id
    )
    return model


def save(out: Path) -> tuple[Qwen2ForCausalLM, Qwen2Tokenizer]:
    """Write model and tokenizer to `out`, a new folder that appears complete or not at all.

    Raises:
        FileExistsError: there is something at `out` already.
    """
    if out.exists():
        raise FileExistsError(f"{out} exists already: remove it or name another folder.")
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f"{out.name}.unfinished{os.getpid()}")
    try:
        tokenizer = train_tokenizer(corpus())
        model = make_model(tokenizer)
        tokenizer.save_pretrained(unfinished)
        model.save_pretrained(unfinished)
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return model, tokenizer


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a tiny Qwen2 model with random weights, for a run without a GPU.")
    parser.add_argument("out", type=Path, help="new folder for model and tokenizer")
    arguments = parser.parse_args()
    logging.disable_progress_bar()
    try:
        model, tokenizer = save(arguments.out)
    except OSError as error:
        print(f"tiny_model: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.out}: {model.num_parameters():,} parameters, {len(tokenizer):,} tokens, random weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
