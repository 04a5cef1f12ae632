"""Does transformers load a merged checkpoint, and did training change it?

    python3 -m smoke.check_model MERGED STARTED_FROM

Exit code 1 and a sentence if not.
"""

import argparse
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

QUESTION = [{"role": "user", "content": "Read two integers and print their sum."}]


def check(merged: str, started_from: str) -> str:
    """One line about the merged model.

    Raises:
        OSError: one of the two cannot be loaded.
        ValueError: weights that differ in shape, are not finite, or are those that training started from.
    """
    model = AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32)
    before = AutoModelForCausalLM.from_pretrained(started_from, dtype=torch.float32).state_dict()
    after = model.state_dict()
    if {name: x.shape for name, x in before.items()} != {name: x.shape for name, x in after.items()}:
        raise ValueError(f"{merged} has other weights than {started_from}")
    if not all(bool(x.isfinite().all()) for x in after.values()):
        raise ValueError(f"{merged} has weights that are not finite numbers")
    change = max(float((after[name] - before[name]).abs().max()) for name in after)
    if change == 0:
        raise ValueError(f"{merged} is the model that training started from: no weight has changed")

    tokenizer = AutoTokenizer.from_pretrained(merged)
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**prompt, max_new_tokens=8, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    return (
        f"{merged}: {model.num_parameters():,} parameters, transformers loads it; "
        f"largest change of a weight {change:.1e}; it says {tokenizer.decode(answer)!r}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Load a merged checkpoint and compare it with the model before training.")
    parser.add_argument("merged")
    parser.add_argument("started_from")
    arguments = parser.parse_args()
    logging.disable_progress_bar()
    try:
        print(check(arguments.merged, arguments.started_from))
    except (OSError, ValueError) as error:
        print(f"check_model: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
