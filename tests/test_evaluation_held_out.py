"""The own validation problems: a stub server or a tiny real model answers, the real verifier judges."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import ROOT, script_environment
from openai_stub import serve

from evaluation import generation, held_out, results
from evaluation.held_out import GREEDY, Settings
from evaluation.results import EvaluationError
from preparation import writing

HANG = 600


def prepared_row(number: int, source: str, statement: str, tests: dict[str, Any]) -> dict[str, Any]:
    return {
        "data_source": source,
        "prompt": [{"role": "system", "content": "Answer in Python."}, {"role": "user", "content": statement}],
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": json.dumps(tests)},
        "extra_info": {"index": number, "split": "validation", "fn_name": None, "num_tests": len(tests.get("inputs", []))},
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Five problems of two sources: add one to a number; one has a long prompt, one no tests."""
    tests = {"inputs": ["1", "5"], "outputs": ["2", "6"]}
    rows = [prepared_row(number, "ab"[number % 2], f"Problem {number}: add one.", tests) for number in range(4)]
    rows.append(prepared_row(4, "a", "Problem 4: " + "long " * 300, tests))
    rows.append(prepared_row(5, "b", "Problem 5: no tests.", {"inputs": [], "outputs": []}))
    writing.write_rows(tmp_path / "validation.parquet", rows)
    writing.write_rows(tmp_path / "train.parquet", [prepared_row(0, "a", "Something else.", tests)])
    return Settings(tmp_path / "validation.parquet", (tmp_path / "train.parquet",))


RIGHT = "```python\nprint(int(input()) + 1)\n```"
HALF = "```python\nprint(2)\n```"


def test_answers_are_generated_once_and_judged_as_in_training(settings, tiny_model, tmp_path):
    tokenizer = generation.load_tokenizer(str(tiny_model))
    prompts = []

    def answer(request: dict[str, Any]) -> str:
        text = tokenizer.decode(request["prompt"])
        prompts.append(text)
        number = int(text.partition("Problem ")[2][0])
        if number == 3 and len(prompts) < 20:
            raise LookupError("down")
        return {0: RIGHT, 1: HALF, 2: "no idea what to do"}.get(number, RIGHT)

    settings = replace(settings, repeats=2)
    with serve(answer) as (url, requests):
        words = (tmp_path / "out", str(tiny_model), "base", settings)
        with pytest.raises(EvaluationError, match="refused a prompt"):
            held_out.do("generate", *words, url, 1)
        prompts += [""] * 20
        [path] = (tmp_path / "out").glob("base/held_out-*/answers.jsonl")
        there = len(path.read_text().splitlines())
        path.write_text(path.read_text() + '{"problem": "b/3", "sam')  # killed while it wrote
        count = len(requests)
        folder = held_out.do("generate", *words, url, 4)
        assert len(requests) - count == 15 - there  # five prompts are short enough: greedy and two samples each
        held_out.do("generate", *words, url, 4)
        assert len(requests) - count == 15 - there
    with pytest.raises(EvaluationError, match="Answers are missing"):
        held_out.summarise(folder, settings, {})
    held_out.do("judge", *words, None, 4)
    found = results.read(folder / "result.json")
    assert found.problems == {"a/0": [1, 1], "a/2": [0, 0], "b/1": [0, 0], "b/3": [1, 1]}
    assert found.details["pass_rates"]["b/1"] == [0.5, 0.5]
    assert found.details["greedy"] == {"a/0": 1, "a/2": 0, "b/1": 0, "b/3": 1}
    assert found.details["unusable"] == ["b/5"]
    assert found.details["shares"]["a"]["format"] == 0.5 and found.details["shares"]["a"]["compile_error"] == 0.5
    assert found.details["shares"]["b"]["wrong_answer"] == 0.25
    greedy = [x for x in requests if x["temperature"] == 0.0]
    sampled = [x for x in requests if x["temperature"] == 1.0]
    assert len({x["seed"] for x in sampled}) == 10 and {x["repetition_penalty"] for x in requests} == {1.0}
    assert len({tuple(x["prompt"]) for x in greedy}) == 5
    text = next(x for x in prompts if "Problem 0" in x)
    assert text == tokenizer.apply_chat_template(
        held_out.problems_of(settings)["a/0"]["prompt"], add_generation_prompt=True, tokenize=False
    )


def test_a_tiny_real_model(settings, tiny_model, tmp_path):
    """The same answers whatever the batch, greedy and sampled."""
    settings = replace(settings, repeats=2, max_tokens=6)
    texts = []
    for batch in (1, 7):
        folder = held_out.do("generate", tmp_path / str(batch), str(tiny_model), "base", settings, None, batch)
        texts.append({(x["problem"], x["sample"]): x["text"] for x in results.lines(folder / "answers.jsonl")})
    assert texts[0] == texts[1] and len(texts[0]) == 15
    assert any(texts[0]["a/0", 0] != texts[0]["a/0", sample] for sample in (1, GREEDY))
    held_out.do("judge", tmp_path / "1", str(tiny_model), "base", settings, None, 1)


def test_a_limit_draws_the_same_problems(settings):
    few, more = (list(held_out.problems_of(replace(settings, limit=x))) for x in (2, 4))
    assert len(few) == 2 and len(more) == 4 and set(few) < set(more)


def test_a_file_that_was_trained_on(settings, tmp_path):
    """The same problem in other letters' case and blanks."""
    rows = [prepared_row(0, "a", "PROBLEM 3:\n add   one.", {"inputs": ["1"], "outputs": ["1"]})]
    writing.write_rows(tmp_path / "train.parquet", rows)
    command = [sys.executable, "-m", "evaluation.held_out", "generate", "--out", str(tmp_path / "out"), "--model", "x"]
    command += ["--name", "base", "--file", str(settings.file), "--train", str(settings.train[0])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=script_environment(), timeout=HANG)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith(f"evaluation: 1 problems of {settings.file} are in the training file")
    assert not (tmp_path / "out").exists()


def test_files_that_are_not_there(settings, tmp_path):
    with pytest.raises(EvaluationError, match=r"other\.parquet does not exist"):
        held_out.check_files(replace(settings, train=(tmp_path / "other.parquet",)))
    (tmp_path / "broken.parquet").write_text("no parquet")
    with pytest.raises(EvaluationError, match="cannot be read as a file of prepare_data"):
        held_out.check_files(replace(settings, file=tmp_path / "broken.parquet"))


def test_a_failure_of_the_verifier_is_no_wrong_answer(settings, tmp_path, monkeypatch):
    from verifier import executor
    from verifier.client import ServerError

    (tmp_path / "answers.jsonl").write_text(
        json.dumps({"problem": "a/0", "sample": GREEDY, "text": RIGHT, "tokens": 9, "cut": False}) + "\n"
    )

    def fail(*words: object) -> None:
        raise ServerError("gone")

    monkeypatch.setattr(executor.client, "open_session", fail)
    with pytest.raises(EvaluationError, match="The verifier failed"):
        held_out.judge(tmp_path, settings, "base")
    assert (tmp_path / "judged.jsonl").read_text() == ""


def test_every_prepared_problem_can_be_asked(prepared_data, tiny_model):
    """The files that prepare_data.py writes; nothing of train.parquet is in validation.parquet."""
    settings = Settings(prepared_data / "validation.parquet", (prepared_data / "train.parquet",), max_prompt_tokens=384)
    held_out.check_files(settings)
    problems = held_out.problems_of(settings)
    assert len(problems) == pq.read_metadata(settings.file).num_rows
    asked = held_out.requests_of(problems, generation.load_tokenizer(str(tiny_model)), settings)
    assert 0.9 * len(problems) < len(asked) <= len(problems)
