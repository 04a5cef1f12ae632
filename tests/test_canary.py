"""The check that every process makes before it judges its first response."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import ROOT, script_environment

from verifier import canary, options, scoring
from verifier.verdict import TestResult, Verdict

PROGRAM = """
import json, sys
from code_reward import compute_score
for response in ("```python\\nprint(7)\\n```", "no program"):
    numbers = compute_score("x", response, {"inputs": [""], "outputs": ["7"]}, {"index": 3})
    print(json.dumps(numbers))
"""


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "_answers", {})


def pretend(wrong: str, verdict: Verdict, detail: str = ""):
    """A verifier that gets one of the three programs wrong, and how often each was asked."""
    asked: list[str] = []

    def judge(program, truth, chosen):
        asked.append(program)
        name, expected = next((name, expected) for name, text, _, expected in canary.PROGRAMS if text == program)
        return (0,), (TestResult(verdict if name == wrong else expected, detail=detail),)

    return judge, asked


def test_the_verifier_passes() -> None:
    assert canary.failure(scoring.judge_program, options.Options()) == ""


def test_it_passes_whatever_the_limits_of_the_run() -> None:
    chosen = options.read({"timeout": 0.1, "memory_mb": 1, "max_tests": 3, "comparison": "exact", "rules": "source"}, {})
    assert canary.failure(scoring.judge_program, chosen) == ""


@pytest.mark.parametrize(
    "wrong,verdict",
    (
        ("a right program", Verdict.WA),
        ("a right program", Verdict.TLE),
        ("an empty program", Verdict.AC),
        ("an endless loop", Verdict.AC),
        ("an endless loop", Verdict.IE),
    ),
)
def test_a_verifier_that_is_wrong(wrong, verdict) -> None:
    judge, asked = pretend(wrong, verdict, "because")
    words = canary.failure(judge, options.Options())
    assert wrong in words and f"got {verdict.value} instead of" in words and words.endswith("(because)")
    assert len(asked) >= canary.ATTEMPTS
    assert canary.failure(judge, options.Options()) == words
    before = len(asked)
    assert canary.failure(judge, options.Options()) == words and len(asked) == before  # asked once


def test_a_verifier_that_raises() -> None:
    def judge(program, truth, chosen):
        raise OSError("no memory")

    assert "got IE instead of AC (OSError: no memory)" in canary.failure(judge, options.Options())


def test_a_failure_that_does_not_last() -> None:
    judge, asked = pretend("nothing", Verdict.IE)

    def at_first(program, truth, chosen):
        if not asked:
            asked.append("")
            raise OSError("no memory")
        return judge(program, truth, chosen)

    assert canary.failure(at_first, options.Options()) == ""


def test_threads_wait_for_one_check() -> None:
    judge, asked = pretend("an endless loop", Verdict.AC)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(canary.failure(judge, options.Options()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 8 and len(set(answers)) == 1 and answers[0]
    assert len(asked) == 2 + canary.ATTEMPTS


def test_a_forked_process_asks_for_itself() -> None:
    judge, asked = pretend("an endless loop", Verdict.AC)
    canary.failure(judge, options.Options())
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    before = len(asked)

    def child() -> None:
        canary.failure(judge, options.Options())
        queue.put(len(asked))

    process = context.Process(target=child)
    process.start()
    process.join(60)
    assert queue.get() == 2 * before


def test_where_nothing_can_be_judged_every_response_says_so(tmp_path: Path) -> None:
    """A real process on a "machine" without isolation: the numbers, the reward log, stderr."""
    environment = script_environment(CODE_REWARD_LOG_DIR=str(tmp_path), CODE_REWARD_ISOLATION="no such mode")
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    for line in done.stdout.splitlines():
        numbers = json.loads(line)
        assert (numbers["score"], numbers["internal_error"]) == (0.0, 1.0)
    assert len(done.stdout.splitlines()) == 2
    rows = [json.loads(line) for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert [row["verdicts"] for row in rows] == [{"IE": 1}] * 2
    assert all(
        "check at start-up failed, a right program got IE instead of AC" in row["first_failure"]["detail"] for row in rows
    )
    assert "INTERNAL ERROR" in done.stderr and "check at start-up" in done.stderr


def test_what_it_costs() -> None:
    """CPU seconds of this process and its programs: the loop's limit and little else (a ceiling that only a bug reaches)."""
    before = os.times()
    assert canary.failure(scoring.judge_program, options.Options()) == ""
    after = os.times()
    assert sum(after[:4]) - sum(before[:4]) < 5
