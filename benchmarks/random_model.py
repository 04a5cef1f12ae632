"""Write a model with random weights and exactly the shapes of a Qwen2.5-Coder: what memory and speed depend on.

    python3 benchmarks/random_model.py 0.5B OUT
    python3 benchmarks/random_model.py 0.5B OUT --vocabulary 152064        a critic for the 7B model, whose words it must know

Sizes as in the models' own configuration files. The tokenizer is made on the spot (smoke/tiny_model.py) and its vocabulary
filled up to the model's with words that no text contains, so that whatever such a model says can be decoded. All words are
about as likely, and one in 250 ends a response: their lengths differ as a trained model's do, and what padding takes shows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, Qwen2Config
from transformers.utils import logging

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from smoke.tiny_model import corpus, train_tokenizer

# hidden size, size of the MLP, layers, heads, heads of keys and values, vocabulary, embeddings tied to the output
SHAPES = {
    "0.5B": (896, 4864, 24, 14, 2, 151_936, True),
    "1.5B": (1536, 8960, 28, 12, 2, 151_936, True),
    "7B": (3584, 18_944, 28, 28, 4, 152_064, False),
}
LONGEST = 32_768
ENDING = 1 / 250  # share of the words that end a response


def configuration(size: str, vocabulary: int | None = None) -> Qwen2Config:
    hidden, mlp, layers, heads, kv_heads, own_vocabulary, tied = SHAPES[size]
    return Qwen2Config(
        vocab_size=vocabulary or own_vocabulary,
        hidden_size=hidden,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=LONGEST,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=tied,
    )


def fill_vocabulary(folder: Path, size: int) -> None:
    """Give the tokenizer in `folder` words up to `size`."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    words = tokenizer["model"]["vocab"]
    taken = set(words.values()) | {token["id"] for token in tokenizer["added_tokens"]}
    words.update({f"unused{number}": number for number in range(size) if number not in taken})
    file.write_text(json.dumps(tokenizer, ensure_ascii=False))


def endings(vocabulary: int) -> list[int]:
    """The last words, which are none of a text's."""
    return list(range(vocabulary - round(vocabulary * ENDING), vocabulary))


def save(size: str, out: Path, device: str, vocabulary: int | None = None) -> int:
    """Write model and tokenizer to `out`, which appears complete or not at all; returns the number of parameters."""
    unfinished = out.with_name(f"{out.name}.unfinished{os.getpid()}")
    try:
        tokenizer = train_tokenizer(corpus())
        tokenizer.model_max_length = LONGEST
        tokenizer.save_pretrained(unfinished)
        config = configuration(size, vocabulary)
        config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
        fill_vocabulary(unfinished, config.vocab_size)
        torch.manual_seed(0)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        ends = [tokenizer.eos_token_id, *endings(config.vocab_size)]
        model.generation_config = GenerationConfig(eos_token_id=ends, pad_token_id=tokenizer.pad_token_id)
        model.save_pretrained(unfinished)
        unfinished.rename(out)
        return model.num_parameters()
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write a model with random weights and the shapes of a Qwen2.5-Coder.")
    parser.add_argument("size", choices=SHAPES)
    parser.add_argument("out", type=Path, help="new folder for model and tokenizer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="where weights are drawn")
    parser.add_argument("--vocabulary", type=int, help="this many words instead of the size's own")
    arguments = parser.parse_args()
    if arguments.out.exists():
        print(f"random_model: {arguments.out} exists already: remove it or name another folder.", file=sys.stderr)
        return 1
    logging.disable_progress_bar()
    try:
        parameters = save(arguments.size, arguments.out, arguments.device, arguments.vocabulary)
    except OSError as error:
        print(f"random_model: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.out}: {parameters:,} parameters, random weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
