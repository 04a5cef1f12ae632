"""Heads of zeros change nothing, before training and in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from smoke.silent_heads import with_silent_heads


def llama() -> LlamaForCausalLM:
    """Of SmolLM2-135M's proportions: nine heads, three of keys and values."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 64}
    return LlamaForCausalLM(LlamaConfig(vocab_size=50, num_hidden_layers=2, tie_word_embeddings=True, **sizes))


def test_the_same_answers_and_the_same_steps() -> None:
    model = llama()
    wider = with_silent_heads(model, 1)
    assert (wider.config.num_attention_heads, wider.config.num_key_value_heads, wider.config.head_dim) == (12, 4, 8)
    tokens = torch.randint(0, 50, (2, 12))
    for _ in range(3):  # steps of training
        answers = [one(tokens, labels=tokens) for one in (model, wider)]
        torch.testing.assert_close(answers[1].logits, answers[0].logits, rtol=1e-3, atol=1e-5)
        for one, answer in zip((model, wider), answers, strict=True):
            answer.loss.backward()
            torch.optim.SGD(one.parameters(), lr=1.0).step()
            one.zero_grad()
    output = wider.model.layers[0].self_attn.o_proj.weight
    assert output[:, :72].abs().max() > 0
    assert output[:, 72:].abs().max() == 0


def test_command(tiny_model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "smoke.silent_heads", str(tiny_model), str(tmp_path / "wide")]
    first = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert first.stdout == f"{tmp_path / 'wide'}: 6 heads, 2 of keys and values\n", first.stderr
    tokens = AutoTokenizer.from_pretrained(tiny_model)("print(1)", return_tensors="pt").input_ids
    wide = AutoTokenizer.from_pretrained(tmp_path / "wide")("print(1)", return_tensors="pt").input_ids
    assert torch.equal(tokens, wide)
    old, new = (AutoModelForCausalLM.from_pretrained(folder) for folder in (tiny_model, tmp_path / "wide"))
    torch.testing.assert_close(new(tokens).logits, old(tokens).logits, rtol=0.02, atol=0.02)  # bfloat16

    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "exists already" in again.stderr


@pytest.mark.parametrize("model", ["no/such/folder", str(ROOT / "docs")])
def test_no_model(model: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "smoke.silent_heads", model, str(tmp_path / "wide")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin"})
    assert run.returncode == 1
    assert run.stderr.startswith("silent_heads: ")
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []
