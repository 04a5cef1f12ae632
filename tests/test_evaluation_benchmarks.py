"""Real EvalScope on small local copies in the benchmarks' own formats; a stub server or its mock model answers."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import re
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT, script_environment
from openai_stub import serve

from evaluation import benchmarks, contained, results
from evaluation.benchmarks import Settings
from evaluation.results import EvaluationError

PROBLEMS = ROOT / "evaluation" / "problems"
HUMANEVAL = [json.loads(line) for line in (PROBLEMS / "humaneval" / "test.jsonl").read_text().splitlines()]
HANG = 600


def right_answer(problem: dict[str, str]) -> str:
    return f"```python\n{problem['prompt']}{problem['canonical_solution']}```"


def problem_of(request: dict[str, Any]) -> dict[str, str]:
    text = request["messages"][-1]["content"]
    return next(x for x in HUMANEVAL if x["prompt"] in text)


def stage(name: str, out: Path, *words: str, model: str = "some/model", code: int = 0) -> str:
    """Run a stage as eval.sh does; what it said."""
    command = [sys.executable, "-m", "evaluation.benchmarks", name, "--out", str(out), "--model", model, "--name", "base"]
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=HANG, env=script_environment(), cwd=ROOT, check=False
    )
    assert done.returncode == code, done.stderr[-3000:]
    return done.stdout + done.stderr


def result(out: Path, benchmark: str) -> results.Result:
    [path] = out.glob(f"base/{benchmark}-*/result.json")
    return results.read(path)


def test_answers_are_generated_then_reviewed_and_never_twice(tmp_path):
    broken, asked = True, []

    def answer(request: dict[str, Any]) -> str:
        problem = problem_of(request)
        asked.append(problem["task_id"])
        if broken and problem["task_id"] == "own/1":
            raise ValueError("out of order")
        return "I do not know." if problem["task_id"] == "own/2" else right_answer(problem)

    words = ["--datasets", "humaneval", "--local", str(PROBLEMS), "--batch-size", "1"]
    with serve(answer) as (url, requests):
        said = stage("generate", tmp_path, *words, "--limit", "3", "--api-url", url, code=1)
        assert "evaluation: EvalScope could not generate humaneval" in said
        assert "no answer yet: generate first" in stage("review", tmp_path, *words, "--limit", "3", code=1)
        broken = False
        said = stage("generate", tmp_path, *words, "--limit", "3", "--api-url", url)
        assert "evaluation: humaneval of base: generating the answers, to be judged later; kept in " in said
        assert "WARNING" not in said
        assert sorted(asked) == ["own/0", "own/1", "own/1", "own/2"]
        assert not any(x.read_text() for x in tmp_path.glob("base/*/reviews/base/*.jsonl"))  # nothing was run yet
        said = stage("review", tmp_path, *words, "--limit", "3")
        assert "evaluation: humaneval of base: judging the answers, programs confined; kept in " in said
        assert "WARNING" not in said
        assert result(tmp_path, "humaneval").problems == {"own/0": [1.0], "own/1": [1.0], "own/2": [0.0]}
        stage("generate", tmp_path, *words, "--limit", "3", "--api-url", url)
        assert len(requests) == 4
        first = requests[0]
    asked.clear()
    with serve(answer) as (url, _):  # another port, a larger limit, and a line that a killed process left behind
        [path] = tmp_path.glob("base/*/predictions/base/*.jsonl")
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:2]) + lines[2][:40])
        torn = f"own/{json.loads(lines[2])['index']}"
        stage("generate", tmp_path, *words, "--limit", "5", "--api-url", url)
        stage("review", tmp_path, *words, "--limit", "5")
    assert sorted(asked) == sorted([torn, "own/3", "own/4"])
    assert result(tmp_path, "humaneval").problems == {"own/0": [1], "own/1": [1], "own/2": [0], "own/3": [1], "own/4": [1]}
    assert (first["temperature"], first["top_p"], first["seed"], first["repetition_penalty"]) == (0.0, 1.0, 42, 1.0)


def test_sampled_answers_give_pass_at_k(tmp_path):
    seen: dict[str, int] = {}

    def answer(request: dict[str, Any]) -> str:
        problem = problem_of(request)
        seen[problem["task_id"]] = seen.get(problem["task_id"], 0) + 1
        return right_answer(problem) if seen[problem["task_id"]] == 2 else "no"

    words = ["--datasets", "humaneval", "--local", str(PROBLEMS), "--limit", "2", "--repeats", "4", "--batch-size", "1"]
    with serve(answer) as (url, requests):
        stage("generate", tmp_path, *words, "--api-url", url)
        stage("review", tmp_path, *words)
    assert len(requests) == 8
    assert all(x["temperature"] == 0.8 and "seed" not in x for x in requests)  # a seed would repeat one answer four times
    assert {name: sorted(x) for name, x in result(tmp_path, "humaneval").problems.items()} == {
        "own/0": [0, 0, 0, 1],
        "own/1": [0, 0, 0, 1],
    }


def test_a_prompt_that_the_server_refuses_is_no_wrong_answer(tmp_path):
    def answer(request: dict[str, Any]) -> str:
        raise ValueError("This model's maximum context length is 64 tokens.")

    words = ["--datasets", "humaneval", "--local", str(PROBLEMS), "--limit", "2"]
    with serve(answer) as (url, _):
        said = stage("generate", tmp_path, *words, "--api-url", url, code=1)
    assert "2 prompts of humaneval and MAX_TOKENS=2048 are more than the model's length" in said
    [path] = tmp_path.glob("base/*/predictions/base/*.jsonl")
    assert path.read_text() == ""


def test_programs_that_reach_outside(tmp_path):
    """Through real EvalScope: a file outside, a socket, a process; each after what would have been a right answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        target = tmp_path / "escaped"
        attacks = {
            "own/0": f"open({str(target)!r}, 'w').write('out')",
            "own/1": f"__import__('socket').create_connection(('127.0.0.1', {listener.getsockname()[1]}))",
            "own/2": f"assert __import__('os').system('touch {target}') == 0",
            "own/3": f"__import__('subprocess').run(['touch', {str(target)!r}], check=True)",
            "own/4": f"print(open({str(ROOT / 'eval.sh')!r}).read()[0])",
            "own/5": "__import__('os')._exit(0)",
            "own/6": "__import__('sys').exit(0)",
        }

        def answer(request: dict[str, Any]) -> str:
            problem = problem_of(request)
            attack = attacks.get(problem["task_id"], "pass")
            return f"```python\n{problem['prompt']}{problem['canonical_solution']}\n{attack}\n```"

        words = ["--datasets", "humaneval", "--local", str(PROBLEMS), "--limit", "0"]
        with serve(answer) as (url, _):
            stage("generate", tmp_path / "out", *words, "--api-url", url)
        stage("review", tmp_path / "out", *words)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert not target.exists()
    assert result(tmp_path / "out", "humaneval").problems == {f"own/{i}": [float(i == 7)] for i in range(8)}
    [review] = (tmp_path / "out").glob("base/*/reviews/base/*.jsonl")
    said = {x["index"]: x["sample_score"]["score"]["metadata"]["execution_result"]["result"] for x in results.lines(review)}
    assert "Permission" in said[0] and "not permitted" in said[1]
    assert said[5] == said[6] == "failed: ended before its tests did"


SUM = "a, b = map(int, input().split())\nprint(a + b)"
METHOD = "class Solution:\n    def add(self, a: List[int], b: int) -> List[int]:\n        return (*a, b)"
GLOBAL = """\
from __future__ import annotations
total = 0


def add():
    global total
    total = sum(map(int, input().split()))


if __name__ == "__main__":
    add()
    print(total)
    exit()
"""
ANSWERS = (  # (program, calls a function, passes); the first one's date is before the window
    (SUM, False, True),
    (SUM, False, True),
    (METHOD, True, True),  # List is not imported, and a tuple is returned: both are let pass there
    (SUM.replace("a + b", "3"), False, False),  # right on the public test only
    (METHOD.replace("(*a, b)", "a"), True, False),
    (f"open('{{out}}', 'w')\n{SUM}", False, False),
    (METHOD.replace("return", "__import__('socket').socket(); return"), True, False),
    (GLOBAL, False, True),
)


def live_code_bench(folder: Path) -> None:
    """Problems in the format of livecodebench_code_generation_lite_parquet, one for each of ANSWERS."""

    def row(number: int, function: str) -> dict[str, str]:
        if function:
            tests = [{"input": "[1, 2]\n3", "output": "[1, 2, 3]", "testtype": "functional"}]
            hidden = json.dumps(tests)
        else:
            tests = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
            text = json.dumps([{"input": "4 5\n", "output": "9\n", "testtype": "stdin"}])
            hidden = base64.b64encode(zlib.compress(pickle.dumps(text))).decode()  # as the benchmark itself packs them
        return {
            "question_title": f"problem {number}",
            "question_content": f"Question number {number}.",
            "platform": "own",
            "question_id": str(number),
            "contest_id": "1",
            "contest_date": "2024-09-01T00:00:00" if number else "2023-05-01T00:00:00",
            "starter_code": "class Solution:\n    def add(self, a, b):\n" if function else "",
            "difficulty": "easy",
            "public_test_cases": json.dumps(tests),
            "private_test_cases": hidden,
            "metadata": json.dumps({"func_name": function} if function else {}),
        }

    folder.mkdir(parents=True)
    rows = [row(number, "add" if call else "") for number, (_, call, _) in enumerate(ANSWERS)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "test.parquet")


def test_live_code_bench(tmp_path):
    """Its window comes before the limit; hidden tests count; both kinds of tests run confined."""
    live_code_bench(tmp_path / "local" / "live_code_bench")
    escaped = tmp_path / "escaped"

    def answer(request: dict[str, Any]) -> str:
        number = int(re.search(r"Question number (\d)", request["messages"][-1]["content"])[1])
        assert request["messages"][0]["role"] == "system"
        return f"```python\n{ANSWERS[number][0].replace('{out}', str(escaped))}\n```"

    words = ["--datasets", "livecodebench", "--local", str(tmp_path / "local"), "--limit", "7"]
    with serve(answer) as (url, requests):
        stage("generate", tmp_path, *words, "--api-url", url)
        assert len(requests) == 7
    stage("review", tmp_path, *words)
    expected = {str(number): [float(passes)] for number, (_, _, passes) in enumerate(ANSWERS[1:])}
    assert result(tmp_path, "live_code_bench").problems == expected
    assert not escaped.exists()


def test_an_empty_window(tmp_path):
    live_code_bench(tmp_path / "local" / "live_code_bench")
    words = ["--datasets", "live_code_bench", "--local", str(tmp_path / "local"), "--start-date", "2030-01-01"]
    said = stage("generate", tmp_path, *words, "--api-url", "http://127.0.0.1:9/v1", code=1)
    assert "live_code_bench has no problem left: widen LCB_START_DATE" in said


def test_gsm8k_with_the_mock_model(tmp_path, monkeypatch):
    """In this process, so that EvalScope's own mock model can be given its answers."""
    from evalscope.api.model import ModelOutput

    target = tmp_path / "escaped"
    attack = f"__import__('os').system('touch {target}')"
    hostile = f"{attack} = 8 and \\boxed{{{attack}}} and ${attack}$"  # what is parsed as mathematics must not be executed
    texts = ["16 rolls: \\boxed{16}", "ANSWER: \\boxed{35}", "It is \\boxed{38}.", hostile]
    outputs = [ModelOutput.from_content(model="mock", content=text) for text in texts]
    mock = {"model": "mock", "eval_type": "mock_llm", "model_args": {"custom_outputs": outputs}}
    monkeypatch.setattr(benchmarks, "engine", lambda *words: mock)
    settings = Settings(local=PROBLEMS, batch_size=1)
    for name in ("generate", "review"):
        folder = benchmarks.do(name, tmp_path, "some/model", "base", "gsm8k", settings, None)
    assert list(results.read(folder / "result.json").problems.values()) == [[1.0], [0.0], [1.0], [0.0]]
    assert not target.exists()


def test_only_expected_warnings_are_left_out():
    """By their text and by the stage; errors never, and nothing once the stage has ended."""
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())
    loggers = [logging.getLogger(name) for name in ("evalscope", "math_verify.parser")]
    expected = benchmarks.EXPECTED["generate"][1]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        for stage_name in ("generate", "review"):
            with benchmarks.without_expected_warnings(stage_name):
                loggers[0].warning(f"{expected} x during {stage_name}")
                loggers[0].error(f"{expected} x as an error")
                loggers[0].warning("something else")
                loggers[1].warning(f"{benchmarks.EXPECTED['review'][1]} x during {stage_name}")
        loggers[0].warning(f"{expected} x afterwards")
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    always = [f"{expected} x as an error", "something else"]
    math = f"{benchmarks.EXPECTED['review'][1]} x during generate"
    assert seen == [*always, math, f"{expected} x during review", *always, f"{expected} x afterwards"]


def test_a_tiny_real_model(tmp_path, tiny_model):
    words = ["--datasets", "humaneval", "gsm8k", "--local", str(PROBLEMS), "--limit", "2", "--max-tokens", "8"]
    for name in ("generate", "review"):
        said = stage(name, tmp_path, *words, model=str(tiny_model))
        assert not [x for texts in benchmarks.EXPECTED.values() for x in texts if x in said]
    for benchmark in ("humaneval", "gsm8k"):
        assert result(tmp_path, benchmark).problems.keys() >= {"humaneval": {"own/0", "own/1"}, "gsm8k": {"0", "1"}}[benchmark]


@pytest.mark.parametrize("name", ("livecodebench", "LiveCodeBench", "live-code-bench", "LCB"))
def test_other_names_of_benchmarks(name):
    assert benchmarks.benchmark_name(name) == "live_code_bench"


def test_an_unknown_benchmark(tmp_path):
    said = stage("review", tmp_path, "--datasets", "mmlu", code=1)
    assert said == "evaluation: Unknown benchmark 'mmlu': DATASETS takes humaneval, live_code_bench, gsm8k (and held_out).\n"


def test_a_missing_copy(tmp_path):
    with pytest.raises(EvaluationError, match="LOCAL_DATASETS has no folder"):
        benchmarks.dataset_arguments("humaneval", Settings(local=tmp_path))


def test_what_names_the_folder():
    """The same answers go to the same folder: not by the limit, the batch size or the server, but by all else."""
    decides: Callable[..., Any] = lambda model, **given: results.digest(  # noqa: E731
        benchmarks.what_decides("gsm8k", model, Settings(**given), benchmarks.dataset_arguments("gsm8k", Settings(**given)))
    )
    one = decides("a/b")
    assert decides("a/b", limit=7, batch_size=3) == one
    others = [decides("a/c"), decides("a/b", repeats=2), decides("a/b", max_tokens=9), decides("a/b", seed=1)]
    assert len({one, *others}) == 5
    assert decides("a/b", repeats=2, temperature=0.5) != decides("a/b", repeats=2, temperature=0.6)


def test_an_evalscope_that_runs_programs_in_another_way(monkeypatch):
    from evalscope.benchmarks.humaneval import utils

    monkeypatch.setattr(utils, "check_correctness", lambda problem, code: None)
    with pytest.raises(contained.ContainmentError, match="runs programs in another way"):
        contained.install()


def test_no_isolation_no_review(tmp_path):
    command = [
        sys.executable,
        "-m",
        "evaluation.benchmarks",
        "review",
        "--out",
        str(tmp_path),
        "--model",
        "m",
        "--name",
        "base",
    ]
    environment = script_environment(CODE_REWARD_ISOLATION="nonsense")
    done = subprocess.run([*command, "--datasets", "humaneval"], capture_output=True, text=True, env=environment, timeout=HANG)
    assert done.returncode == 1 and "evaluation: CODE_REWARD_ISOLATION=nonsense is unknown" in done.stderr


def test_a_failure_of_the_verifier_is_no_wrong_answer(monkeypatch):
    from verifier.verdict import Execution, Verdict

    monkeypatch.setattr(
        contained, "run_tests", lambda *words, **given: (x for x in [Execution(Verdict.IE, message="no server")])
    )
    monkeypatch.setattr(contained, "failures", [])
    sample = {"input_output": json.dumps({"inputs": ["1"], "outputs": ["1"], "fn_name": None})}
    contained.check_live_code_bench(sample, "print(1)", 1)
    assert contained.failures == ["no server"]
