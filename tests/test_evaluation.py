"""Finding a checkpoint, merging it, and the table of two evaluations. The merge of a real run is in test_smoke_run.py."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import torch
from conftest import ROOT, script_environment

from evaluation import merge, table


def checkpoint(run: Path, step: int, finished: bool = True) -> Path:
    actor = run / "checkpoints" / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    (actor / "model_world_size_1_rank_0.pt").write_bytes(b"")
    if finished:
        (run / "checkpoints" / "latest_checkpointed_iteration.txt").write_text(str(step))
    return actor


def test_a_run_folder_means_its_last_finished_checkpoint(tmp_path):
    checkpoint(tmp_path, 9)
    actor = checkpoint(tmp_path, 20)
    checkpoint(tmp_path, 40, finished=False)  # the run was killed while it wrote this one
    for folder in (tmp_path, tmp_path / "checkpoints", actor.parent, actor):
        assert merge.actor_folder(folder) == actor
    assert merge.default_target(actor) == tmp_path / "merged" / "global_step_20"


def test_a_certain_step(tmp_path):
    first = checkpoint(tmp_path, 1)
    checkpoint(tmp_path, 2)
    assert merge.actor_folder(first.parent) == first


@pytest.mark.parametrize("make", (lambda path: None, lambda path: (path / "checkpoints" / "global_step_3").mkdir(parents=True)))
def test_no_checkpoint(tmp_path, make):
    make(tmp_path)
    with pytest.raises(merge.MergeError, match=r"no finished checkpoint|not a folder"):
        merge.actor_folder(tmp_path)


def test_a_merge_that_fails_leaves_nothing(tmp_path):
    checkpoint(tmp_path, 1)  # its shard is empty
    with pytest.raises(merge.MergeError, match="merger failed"):
        merge.merge(tmp_path)
    assert list((tmp_path / "merged").iterdir()) == []


def test_a_merged_folder_is_not_merged_again(tmp_path):
    checkpoint(tmp_path, 1)
    target = tmp_path / "merged" / "global_step_1"
    target.mkdir(parents=True)
    assert merge.merge(tmp_path) == target


def test_a_lora_adapter_changes_the_weights(tiny_model, tmp_path):
    """veRL's merger leaves base weights and an adapter beside them; here both are made with PEFT itself."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = tmp_path / "merged"
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    base.save_pretrained(folder)
    torch.manual_seed(0)
    settings = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    adapted = get_peft_model(base, settings).eval()
    adapted.save_pretrained(folder / "lora_adapter")
    tokens = torch.tensor([[5, 6, 7, 8]])
    expected = adapted(tokens).logits
    merge.merge_adapter(folder, None)
    merged = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    assert torch.allclose(merged(tokens).logits, expected, atol=1e-4)
    assert not (folder / "lora_adapter").exists()


def test_an_adapter_that_lost_its_alpha(tiny_model, tmp_path):
    adapter = tmp_path / "lora_adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"lora_alpha": 0}))
    with pytest.raises(merge.MergeError, match="--lora-alpha"):
        merge.merge_adapter(tmp_path, None)


def report(folder: Path, name: str, score: float, problems: int) -> None:
    """An EvalScope report with the keys that the table reads; real ones are read in test_smoke_run.py."""
    path = folder / "reports" / folder.name / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    mean = {"identity": {"name": "accuracy", "aggregation": "mean"}, "num": problems, "score": 0.5}
    at_one = {
        "identity": {"name": "accuracy", "aggregation": "pass_at_k", "dimensions": {"k": 1}},
        "num": problems,
        "score": score,
    }
    path.write_text(json.dumps({"metrics": [mean, at_one]}))


def test_the_table(tmp_path):
    base, trained = tmp_path / "base", tmp_path / "trained"
    report(base, "humaneval", 0.25, 100)
    report(trained, "humaneval", 0.375, 100)
    report(trained, "gsm8k", 0.8, 50)
    text = table.table(table.read_reports(base), table.read_reports(trained))
    assert "| humaneval | 0.250 | 0.375 | +0.125 | 100 |" in text
    assert "| gsm8k | - | 0.800 | - | 50 |" in text


def test_a_report_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="no EvalScope report"):
        table.read_reports(tmp_path)
    path = tmp_path / "reports" / "base" / "humaneval.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"metrics": []}')
    with pytest.raises(ValueError, match=r"humaneval\.json"):
        table.read_reports(tmp_path)


def test_eval_dry_run():
    environment = script_environment(DRY_RUN="1", LIMIT="7", DATASETS="humaneval gsm8k")
    done = subprocess.run(["bash", ROOT / "eval.sh", "runs/x"], env=environment, capture_output=True, text=True, check=True)
    commands = [shlex.split(line) for line in done.stdout.splitlines()]
    assert [x[2] for x in commands] == ["evaluation.merge", "evalscope.cli.cli", "evalscope.cli.cli", "evaluation.table"]
    base, trained = commands[1], commands[2]
    different = [(a, b) for a, b in zip(base, trained, strict=True) if a != b]
    assert len(different) == 3  # model, model id and work folder; every other setting is the same
    assert base[base.index("--limit") + 1] == "7"
    assert json.loads(base[base.index("--dataset-args") + 1])["live_code_bench"]["extra_params"]["start_date"]


def test_eval_without_a_checkpoint():
    done = subprocess.run(["bash", ROOT / "eval.sh"], env=script_environment(), capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr
