"""The supervised start: what the model is shown, what it learns from, what is left behind when something is wrong."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT, script_environment

from data.families import FAMILIES
from training.warm_up import IGNORED, answer, batch, trained_families
from verifier.extraction import extract


@pytest.mark.parametrize("right,fenced", ((0.0, 1.0), (1.0, 0.0), (0.4, 0.5)))
def test_answers_are_right_and_fenced_as_often_as_asked(right: float, fenced: float):
    rng = random.Random(1)
    family = next(family for family in FAMILIES if len(family.wrong) == 3)
    problem = family.make(rng, held_out=False)
    answers = [answer(problem, rng, right, fenced) for _ in range(2000)]
    assert sum(problem.solution in text for text in answers) / 2000 == pytest.approx(right, abs=0.05)
    assert sum(text.startswith("```python\n") for text in answers) / 2000 == pytest.approx(fenced, abs=0.05)
    counts = [sum(wrong in text for text in answers) for wrong in problem.wrong]
    assert counts == sorted(counts, reverse=True)


def test_an_answer_in_a_block_is_the_program_and_one_without_is_no_program():
    rng = random.Random(2)
    problem = FAMILIES[0].make(rng, held_out=False)
    assert extract(answer(problem, rng, right=1.0, fenced=1.0)).code.strip() == problem.solution
    with pytest.raises(SyntaxError):
        compile(extract(answer(problem, rng, right=1.0, fenced=0.0)).code, "answer", "exec")


def test_families_kept_for_validation_are_not_shown():
    families = trained_families(("trivial", "easy"))
    assert len(families) >= 30
    assert not any(family.unseen for family in families)
    assert {family.level for family in families} == {"trivial", "easy"}


def test_only_the_answers_tokens_are_learned():
    tensors = batch([([5, 6, 7], [8]), ([5], [9, 10])], pad=0, device=torch.device("cpu"))
    assert tensors["input_ids"].tolist() == [[5, 6, 7, 8], [5, 9, 10, 0]]
    assert tensors["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert tensors["labels"].tolist() == [[IGNORED] * 3 + [8], [IGNORED, 9, 10, IGNORED]]


def warm_up(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "training.warm_up", *map(str, arguments)]
    return subprocess.run(command, env=script_environment(), cwd=ROOT, capture_output=True, text=True, timeout=600)


def test_a_model_is_trained_judged_and_saved(tiny_model: Path, tmp_path: Path):
    out = tmp_path / "warm"
    options = ("--steps", 12, "--batch-size", 8, "--learning-rate", 2e-3, "--levels", "trivial", "--samples", 8)
    done = warm_up(tiny_model, out, *options)
    assert done.returncode == 0, done.stderr
    assert "8 sampled answers to unseen wordings: pass_rate=" in done.stdout
    from transformers import AutoModelForCausalLM, AutoTokenizer

    before, after = (AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32) for path in (tiny_model, out))
    assert not torch.equal(before.lm_head.weight, after.lm_head.weight)
    assert AutoTokenizer.from_pretrained(out).chat_template == AutoTokenizer.from_pretrained(tiny_model).chat_template

    again = warm_up(tiny_model, out)
    assert again.returncode != 0 and "exists already" in again.stderr and again.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["warm"]


def test_a_model_that_is_not_there_is_named(tmp_path: Path):
    done = warm_up(tmp_path / "nowhere", tmp_path / "warm")
    assert done.returncode != 0 and "cannot load" in done.stderr and str(tmp_path / "nowhere") in done.stderr
    assert list(tmp_path.iterdir()) == []
