"""A small supervised start for a model that earns no reward yet: PPO can only raise what sometimes succeeds.

    python3 -m training.warm_up HuggingFaceTB/SmolLM2-135M-Instruct warm            some 30 s on a GPU
    python3 -m training.warm_up tiny-model warm --steps 400 --learning-rate 2e-3 --levels trivial

The model is shown problems of data/families.py in the prompts that prepare_data.py makes, each with an answer that is
imperfect on purpose: a right program only now and then, a fence only now and then. So it learns to write programs
for the problem at hand, and what is left to learn, which of them pass and how to present them, is left to the reward.
Wordings, parameters and families that are kept for validation are never shown.

OUT, a folder that appears complete or not at all, then holds model and tokenizer. At the end the model answers
problems with wordings and parameters it has not seen, sampled at temperature 1, and the reward judges them.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from code_reward import compute_score
from data.families import LEVELS, Family, Problem, select
from data.generate import ground_truth
from preparation.prompts import build_prompt

PROBLEMS_A_FAMILY = 32
IGNORED = -100  # label of tokens that the loss leaves out
PREFACE = "Here is the code:"  # what an answer without a fence starts with; no Python, so such an answer earns nothing


def trained_families(levels: Sequence[str], names: Sequence[str] = ()) -> list[Family]:
    """The families that training shows, of those that `select` gives."""
    return [family for family in select(levels, names) if not family.unseen]


def answer(problem: Problem, rng: random.Random, right: float, fenced: float) -> str:
    """An answer with the right program in `right` of the cases, else a wrong one; in a Python block in `fenced`.

    The first wrong program is three times as frequent as the next, and so on: the likeliest answer is then a wrong one.
    """
    weights = [3.0**-k for k in range(len(problem.wrong))]
    program = problem.solution if rng.random() < right else rng.choices(problem.wrong, weights)[0]
    return f"```python\n{program}\n```" if rng.random() < fenced else f"{PREFACE}\n{program}"


def prompt_ids(tokenizer: PreTrainedTokenizerBase, problem: Problem) -> list[int]:
    """The problem as training shows it, up to where the answer starts."""
    messages = build_prompt(problem.statement, problem.fn_name)
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def batch(examples: Sequence[tuple[list[int], list[int]]], pad: int, device: torch.device) -> dict[str, torch.Tensor]:
    """(prompt, answer) token lists -> input_ids, attention_mask and labels [examples, longest], padded on the right.

    Only the tokens of the answers are labelled.
    """
    width = max(len(prompt) + len(reply) for prompt, reply in examples)
    ids = torch.full((len(examples), width), pad)
    mask = torch.zeros_like(ids)
    labels = torch.full_like(ids, IGNORED)
    for row, (prompt, reply) in enumerate(examples):
        end = len(prompt) + len(reply)
        ids[row, :end] = torch.tensor(prompt + reply)
        mask[row, :end] = 1
        labels[row, len(prompt) : end] = torch.tensor(reply)
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device), "labels": labels.to(device)}


def train(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, families: Sequence[Family], options: argparse.Namespace
) -> None:
    """Supervised steps on `model`, in place; options as on the command line."""
    rng = random.Random(options.seed)
    pool = [family.make(rng, held_out=False) for family in families for _ in range(PROBLEMS_A_FAMILY)]
    prompts = [prompt_ids(tokenizer, problem) for problem in pool]
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=options.learning_rate, total_steps=options.steps, pct_start=0.1, anneal_strategy="linear"
    )
    model.train()
    for _ in (bar := tqdm(range(options.steps), desc="warm-up", unit="step", mininterval=2)):
        examples = []
        for k in rng.choices(range(len(pool)), k=options.batch_size):
            reply = answer(pool[k], rng, options.right, options.fenced) + tokenizer.eos_token
            examples.append((prompts[k], tokenizer(reply, add_special_tokens=False)["input_ids"]))
        with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
            loss = model(**batch(examples, tokenizer.pad_token_id, model.device)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)


@torch.no_grad()
def judged_samples(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, families: Sequence[Family], count: int, seed: int
) -> dict[str, float]:
    """What the reward says of `count` sampled answers to problems in held-out wordings: mean of each of its numbers."""
    rng = random.Random(f"{seed} held out")
    problems = [families[k % len(families)].make(rng, held_out=True) for k in range(count)]
    longest = max(len(tokenizer(problem.solution)["input_ids"]) for problem in problems)
    tokenizer.padding_side = "left"
    model.eval()
    results: list[dict[str, float]] = []
    for start in tqdm(range(0, count, 64), desc="checking", unit="batch"):
        chosen = problems[start : start + 64]
        inputs = tokenizer.pad({"input_ids": [prompt_ids(tokenizer, problem) for problem in chosen]}, return_tensors="pt")
        inputs = inputs.to(model.device)
        settings = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": longest + 32}
        output = model.generate(**inputs, **settings, pad_token_id=tokenizer.pad_token_id)
        answers = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for problem, text in zip(chosen, answers, strict=True):
            layout = "call, list arguments" if problem.fn_name else "stdin, compact"
            results.append(compute_score("warm_up", text, ground_truth(problem, layout), timeout=1))
    return {key: sum(result[key] for result in results) / count for key in results[0]}


def share(text: str) -> float:
    """A command line's number from 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share; give a number from 0 to 1")
    return value


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A small, imperfect supervised start for a model that earns no reward yet.")
    parser.add_argument("model", help="hub name or folder of a chat model")
    parser.add_argument("out", type=Path, help="new folder for the warmed-up model")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32, help="answers a step (default 32)")
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="default 1e-4; 2e-3 for the tiny model")
    parser.add_argument("--right", type=share, default=0.4, help="share of answers with a right program (default 0.4)")
    parser.add_argument("--fenced", type=share, default=0.5, help="share of answers in a Python block (default 0.5)")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=("trivial", "easy"), help="default: trivial easy")
    parser.add_argument("--families", nargs="+", default=(), metavar="NAME", help="only these, as for data/generate.py")
    parser.add_argument("--samples", type=int, default=128, help="answers judged at the end (default 128; 0: none)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.out.exists():
        sys.exit(f"warm_up: {options.out} exists already: remove it or name another folder.")
    try:
        families = trained_families(options.levels, options.families)
    except ValueError as error:
        sys.exit(f"warm_up: {error}")
    if not families:
        sys.exit("warm_up: training shows none of these families; name others.")
    logging.disable_progress_bar()
    torch.manual_seed(options.seed)
    try:
        tokenizer = AutoTokenizer.from_pretrained(options.model)
        model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).to(options.device)
    except (OSError, ValueError) as error:
        sys.exit(f"warm_up: cannot load {options.model}: {error}")
    if tokenizer.chat_template is None:
        sys.exit(f"warm_up: {options.model} has no chat template; take an Instruct model.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    print(f"warm_up: {len(families)} families of problems, {options.right:.0%} right, {options.fenced:.0%} fenced", flush=True)
    train(model, tokenizer, families, options)
    if options.samples:
        means = judged_samples(model, tokenizer, families, options.samples, options.seed)
        print(
            f"warm_up: {options.samples} sampled answers to unseen wordings: "
            + " ".join(f"{key}={means[key]:.2f}" for key in ("pass_rate", "acc", "format"))
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = options.out.with_name(f"{options.out.name}.unfinished{os.getpid()}")
    try:
        tokenizer.padding_side = "right"
        tokenizer.save_pretrained(unfinished)
        model.to(torch.bfloat16).save_pretrained(unfinished)
        unfinished.rename(options.out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(f"warm_up: {options.out}")


if __name__ == "__main__":
    main()
