"""The real thing once, without a GPU: two PPO steps through the run script, a resume, the merge, EvalScope before and after."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, script_environment
from leftovers import descendants, parents, wait_until

from evaluation import generation, held_out, results
from preparation import writing

HANG = 1500  # seconds; far more than it takes, on any machine


def run(command: list[str], log: Path, **settings: str) -> str:
    """Run in a session of its own, so that nothing of a hanging run outlives the test."""
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=script_environment(**settings),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(HANG)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    text = log.read_text()
    assert code == 0, text[-3000:]
    return text


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, prepared_data: Path) -> Path:
    """The folder of a finished smoke run of two steps."""
    folder = tmp_path_factory.mktemp("smoke")
    files = [str(prepared_data / "train.parquet"), str(prepared_data / "validation.parquet")]
    run(["bash", "smoke/run.sh", str(folder), *files], folder / "log")
    return folder


def metrics(work: Path) -> list[dict]:
    return [json.loads(line) for line in (work / "run" / "metrics.jsonl").read_text().splitlines()]


def test_two_steps_were_trained_and_validated(work):
    lines = metrics(work)
    assert [x["step"] for x in lines] == [0, 1, 2]
    for line in lines[1:]:
        for name in ("critic/score/mean", "actor/pg_loss", "critic/vf_loss", "actor/reward_kl_penalty", "response_length/mean"):
            assert name in line["data"]
        assert line["data"]["training/rollout_probs_diff_max"] < 1e-5  # the rollout has the actor's weights
    names = lines[2]["data"].keys()
    for source in ("recipe_seen", "recipe_unseen"):
        assert f"val-core/{source}/acc/mean@1" in names  # veRL's headline: our acc
        assert f"val-aux/{source}/format/mean@1" in names
        assert f"val-aux/{source}/internal_error/mean@1" in names


def test_lora_on_two_workers(prepared_data, tmp_path):
    """The rollout gets the weights with the adapters merged in: without them the correlation is 0.95."""
    files = [str(prepared_data / "train.parquet"), str(prepared_data / "validation.parquet")]
    settings = {"LORA_RANK": "4", "ACTOR_LR": "1e-2", "NDEVICES_PER_NODE": "2", "VAL_BEFORE_TRAIN": "False", "TEST_FREQ": "-1"}
    text = run(["bash", "smoke/run.sh", str(tmp_path), *files], tmp_path / "log", **settings)
    assert "of 1,477,568 weights differ from the base model's" in text  # merged from two shards
    assert metrics(tmp_path)[1]["data"]["training/rollout_actor_probs_pearson_corr"] > 0.9999  # sent in bfloat16


def test_our_reward_judged_the_responses(work):
    """The log that the reward itself writes: as many lines as responses, none an internal error."""
    lines = [json.loads(x) for path in (work / "run" / "reward_log").glob("*.jsonl") for x in path.read_text().splitlines()]
    training = [x for x in lines if x["split"] == "train"]
    assert len(training) == 2 * 16
    assert {x["split"] for x in lines} == {"train", "validation"}
    assert all("IE" not in x["verdicts"] for x in lines)


def test_each_line_of_the_reward_log_leads_to_its_response(work):
    """By step, uid and the hash of the text, in veRL's own dumps."""
    lines = [json.loads(x) for path in (work / "run" / "reward_log").glob("*.jsonl") for x in path.read_text().splitlines()]
    judged = {(x["split"], x["step"], x["uid"], x["response_sha256"], x["score"]) for x in lines}
    assert {x[1] for x in judged if x[0] == "train"} == {1, 2} and {x[1] for x in judged if x[0] == "validation"} == {0, 2}
    dumped = set()
    for split, folder in (("train", "rollouts"), ("validation", "validation")):
        for path in (work / "run" / folder).glob("*.jsonl"):
            for row in map(json.loads, path.read_text().splitlines()):
                digest = hashlib.sha256(row["output"].encode("utf-8", "surrogatepass")).hexdigest()[:16]
                dumped.add((split, row["step"], row["uid"].removesuffix("_0"), digest, row["score"]))
    assert dumped == judged


def test_everything_is_in_the_run_folder(work):
    found = {x.name for x in (work / "run").iterdir()}
    assert found >= {"checkpoints", "metrics.jsonl", "reward_log", "rollouts", "validation", "train.log", "hydra"}
    assert found >= {"command.sh", "config.yaml", "versions.txt", "curves.html", "curves.png"}
    assert (work / "run" / "rollouts" / "2.jsonl").is_file() and (work / "run" / "validation" / "2.jsonl").is_file()


def test_the_merged_model_is_the_trained_one(work, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    [folder] = (work / "run" / "merged").iterdir()
    assert folder.name == "global_step_2"
    merged, base = (AutoModelForCausalLM.from_pretrained(x) for x in (folder, work / "model"))
    changed = [name for name, value in merged.state_dict().items() if not value.equal(base.state_dict()[name])]
    assert changed
    assert AutoTokenizer.from_pretrained(folder).chat_template == AutoTokenizer.from_pretrained(work / "model").chat_template


def test_before_and_after(work):
    """eval.sh on the run's own checkpoint: real EvalScope and the own held-out problems, from the run's config.yaml."""
    settings = {
        "DATASETS": "held_out humaneval gsm8k",
        "LOCAL_DATASETS": "evaluation/problems",
        "LIMIT": "4",
        "MAX_TOKENS": "8",
    }
    text = run(["bash", "eval.sh", str(work / "run")], work / "log", **settings)
    folder = work / "run" / "eval"
    assert (folder / "global_step_2.md").read_text() in text
    rows = json.loads((folder / "global_step_2.json").read_text())["rows"]
    assert {(x["name"], x["problems"]) for x in rows} >= {
        ("held_out", 4),
        ("humaneval (own problems)", 4),
        ("gsm8k (own problems)", 4),
    }
    assert (folder / "global_step_2.png").is_file()
    files = {x: x.stat().st_mtime_ns for x in folder.glob("*/*/result.json")}
    assert len(files) == 6
    run(["bash", "eval.sh", str(work / "run")], work / "log", **settings)
    assert {x: x.stat().st_mtime_ns for x in files} == files  # nothing is done twice


def test_held_out_answers_are_those_of_validation(work, prepared_data, tmp_path):
    """The same prompts, answers and scores as in veRL's own validation of the weights that were merged."""
    check_against_validation(work / "run", prepared_data / "validation.parquet", tmp_path)


def check_against_validation(run_folder: Path, file: Path, scratch: Path) -> None:
    validated = [json.loads(x) for x in (run_folder / "validation" / "2.jsonl").read_text().splitlines()]
    assert len(validated) == 32
    merged = str(run_folder / "merged" / "global_step_2")
    tokenizer = generation.load_tokenizer(merged)

    def prompt(row: dict) -> str:
        return tokenizer.decode(generation.prompt_tokens(tokenizer, row["prompt"]), skip_special_tokens=True)

    asked = {x["input"] for x in validated}
    writing.write_rows(
        scratch / "asked.parquet", [x for x in held_out.column(file, writing.SCHEMA.names) if prompt(x) in asked]
    )
    settings = held_out.Settings(scratch / "asked.parquet", max_prompt_tokens=384, max_tokens=48)
    for stage in ("generate", "judge"):
        folder = held_out.do(stage, scratch, merged, "trained", settings, None, 32)
    prompts = {problem: prompt(row) for problem, row in held_out.problems_of(settings).items()}
    answers = {prompts[x["problem"]]: x["text"] for x in results.lines(folder / "answers.jsonl")}
    judged = {prompts[x["problem"]]: x for x in results.lines(folder / "judged.jsonl")}
    same = [answers[x["input"]] == x["output"] for x in validated]
    assert sum(same) >= 30  # veRL's merger rounds the weights to bfloat16, so that a close call may fall otherwise
    for line, alike in zip(validated, same, strict=True):
        for name in ("acc", "pass_rate", "format", "compile_error"):
            assert not alike or judged[line["input"]][name] == line[name]


def test_a_second_start_goes_on_from_the_checkpoint(work, prepared_data, tmp_path):
    files = [str(prepared_data / "train.parquet"), str(prepared_data / "validation.parquet")]
    settings = {"STEPS": "1", "VAL_BEFORE_TRAIN": "False", "TEST_FREQ": "-1", "MAX_CKPT_TO_KEEP": "1"}
    run(["bash", "smoke/run.sh", str(work), *files], tmp_path / "log", **settings)
    assert [x["step"] for x in metrics(work)] == [0, 1, 2, 3]  # kept, and step 3 added
    checkpoints = work / "run" / "checkpoints"
    assert (checkpoints / "latest_checkpointed_iteration.txt").read_text() == "3"
    assert {path.parts[-3] for path in checkpoints.glob("*/*/model_*.pt")} == {"global_step_3"}  # not that of the first start


def prompts(run_dir: Path, step: int) -> list[str]:
    """What a step was trained on; veRL dumps it in the order of names made by chance."""
    return sorted(json.loads(line)["input"] for line in (run_dir / "rollouts" / f"{step}.jsonl").read_text().splitlines())


def test_a_killed_run_goes_on_with_the_same_data(work, prepared_data, tmp_path):
    """Killed with all its processes in step 2, with a half-written checkpoint; compared with the run that was not."""
    files = [str(prepared_data / "train.parquet"), str(prepared_data / "validation.parquet")]
    settings = {"MODEL_PATH": str(work / "model"), "SAVE_FREQ": "1", "VAL_BEFORE_TRAIN": "False", "TEST_FREQ": "-1"}
    folder = tmp_path / "run"
    command = ["bash", "smoke/run.sh", str(tmp_path), *files]
    with (tmp_path / "log").open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=script_environment(**settings, STEPS="5"), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            first = (folder / "metrics.jsonl", folder / "rollouts" / "1.jsonl")
            assert wait_until(lambda: process.poll() is not None or all(x.exists() and x.stat().st_size for x in first), HANG)
            assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
        finally:
            killed = descendants(process.pid) | {process.pid}
            for pid in killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
    assert len(killed) > 5  # the script, the watcher, the driver, Ray and its workers
    assert wait_until(lambda: not [pid for pid, (_, state) in parents().items() if pid in killed and state != "Z"])
    checkpoints = folder / "checkpoints"
    shutil.rmtree(checkpoints / "global_step_2", ignore_errors=True)
    shutil.copytree(checkpoints / "global_step_1", checkpoints / "global_step_2")
    shard = checkpoints / "global_step_2" / "actor" / "optim_world_size_1_rank_0.pt"
    shard.write_bytes(shard.read_bytes()[:-1000])
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("")

    text = run(command, tmp_path / "second log", **settings, STEPS="2")
    assert "latest_checkpointed_iteration.txt is cut short: the run goes on from step 1." in text
    assert [x["step"] for x in metrics(tmp_path)] == [1, 2]
    assert (checkpoints / "latest_checkpointed_iteration.txt").read_text() == "2"
    for step in (1, 2):
        assert prompts(folder, step) == prompts(work / "run", step)
    assert prompts(folder, 1) != prompts(folder, 2)
