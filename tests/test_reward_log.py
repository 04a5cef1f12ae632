"""The reward log: one line a response, whatever extra_info holds, and never at the cost of a score."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT

from code_reward import compute_score
from verifier import cores, reward_log

ADD = "```python\na, b = map(int, input().split())\nprint(a + b)\n```"
TESTS = {"inputs": ["3 4\n", "-5 5\n"], "outputs": ["7\n", "0\n"]}


@pytest.fixture
def log_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("CODE_REWARD_") or name == "REWARD_LOG":
            monkeypatch.delenv(name)
    folder = tmp_path / "run" / "reward_log"
    monkeypatch.setenv("CODE_REWARD_LOG_DIR", str(folder))
    return folder


def lines(folder: Path) -> list[dict]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    rows = []
    for file in sorted(folder.glob("*.jsonl")):
        text = file.read_text()
        assert text.endswith("\n")
        rows += [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
    return rows


def test_one_line_a_response(log_dir: Path) -> None:
    compute_score("taco", ADD, TESTS, {"global_steps": 7, "split": "train", "index": 12})
    half = "```python\nprint(7)\n```"
    compute_score("taco", half, TESTS, {"global_steps": 8, "split": "validation", "index": 13})
    right, wrong = lines(log_dir)
    assert right["time"] <= wrong["time"]
    assert (right["step"], right["split"], right["data_source"], right["index"]) == (7, "train", "taco", 12)
    assert (right["score"], right["pass_rate"], right["format"], right["acc"]) == (1.0, 1.0, 1.0, 1.0)
    assert (right["verdicts"], right["tests"], right["tests_not_run"]) == ({"AC": 2}, 2, 0)
    assert sum(right["rules"].values()) == 2 and "exact" in right["rules"]
    assert right["first_failure"] is None
    assert right["cpu_seconds"] > 0 and right["wall_seconds"] > 0
    assert 0 <= right["queue_seconds"] <= right["wall_seconds"]
    assert right["uid"] is None
    assert (wrong["step"], wrong["score"], wrong["verdicts"]) == (8, 0.5, {"AC": 1, "WA": 1})
    assert (wrong["first_failure"]["index"], wrong["first_failure"]["verdict"]) == (1, "WA")
    assert len(right["code_sha256"]) == 16 and right["code_sha256"] != wrong["code_sha256"]
    assert right["response_sha256"] == hashlib.sha256(ADD.encode()).hexdigest()[:16]
    assert right["block"]
    assert right.keys() == wrong.keys()
    assert [file.name.endswith(f"-{os.getpid()}.jsonl") for file in log_dir.iterdir()] == [True]


def test_what_verl_knows_of_a_response_comes_first(log_dir: Path) -> None:
    sample = {"step": 9, "split": "validation", "uid": "ab_0"}
    compute_score("x", ADD, TESTS, {"global_steps": 8, "split": "train", "index": 1, "verl_sample": sample})
    compute_score("x", ADD, TESTS, {"global_steps": 8, "split": "train", "index": 1, "verl_sample": "odd"})
    named, odd = lines(log_dir)
    assert (named["step"], named["split"], named["uid"], named["index"]) == (9, "validation", "ab_0", 1)
    assert (odd["step"], odd["split"], odd["uid"]) == (8, "train", None)


def test_waiting_for_a_core_is_told_apart(log_dir: Path) -> None:
    """More sleepers at once than the machine has slots: some wait while the others sleep."""
    sleeper = "```python\nimport time\ntime.sleep(0.3)\nprint(1)\n```"
    tests = {"inputs": ["", ""], "outputs": ["1", "1"]}
    count = 2 * cores.concurrency() + 1
    threads = [threading.Thread(target=compute_score, args=("x", sleeper, tests)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    rows = lines(log_dir)
    assert [row["score"] for row in rows] == [1.0] * count
    assert max(row["queue_seconds"] for row in rows) > 0.25
    assert all(row["queue_seconds"] + 0.3 <= row["wall_seconds"] for row in rows)  # its two tests may sleep side by side


def test_a_file_is_followed_by_the_next(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWARD_LOG_MB", "0.002")
    for index in range(9):
        compute_score("x", ADD, TESTS, {"index": index})
    stem = f"{socket.gethostname()}-{os.getpid()}"
    files = sorted(log_dir.iterdir())
    assert [file.name for file in files][:2] == [f"{stem}.1.jsonl", f"{stem}.2.jsonl"] and files[-1].name == f"{stem}.jsonl"
    assert all(file.stat().st_size <= 0.002 * (1 << 20) for file in files)
    assert sorted(row["index"] for row in lines(log_dir)) == list(range(9))


def test_a_file_of_an_earlier_process_is_left_alone(log_dir: Path) -> None:
    """Process numbers come again, in containers above all, and the earlier file may end in half a line."""
    log_dir.mkdir(parents=True)
    earlier = log_dir / f"{socket.gethostname()}-{os.getpid()}.jsonl"
    earlier.write_text('{"time": 1')
    compute_score("x", ADD, TESTS, {"index": 5})
    assert earlier.read_text() == '{"time": 1'
    assert json.loads((log_dir / f"{earlier.stem}.1.jsonl").read_text())["index"] == 5


def test_a_size_that_is_none(log_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("REWARD_LOG_MB", "much")
    assert [compute_score("x", ADD, TESTS)["score"] for _ in range(3)] == [1.0] * 3
    assert capsys.readouterr().err.count("REWARD_LOG_MB must be a number of megabytes, not 'much'") == 1


def test_a_killed_process_leaves_whole_lines(log_dir: Path) -> None:
    """Many threads write in a process that is killed: only the last line may be broken."""
    program = f"""
import threading
from code_reward import compute_score
def work():
    while True:
        compute_score("x" * 3000, "no program", {TESTS!r})
for _ in range(4):
    threading.Thread(target=work).start()
"""
    environment = {**os.environ, "CODE_REWARD_LOG_DIR": str(log_dir)}
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment)
        until = time.monotonic() + 60
        while (
            sum(file.stat().st_size for file in log_dir.glob(f"*-{process.pid}.jsonl")) < 300_000 and time.monotonic() < until
        ):
            time.sleep(0.05)
        process.kill()
        process.wait(60)
        [file] = log_dir.glob(f"*-{process.pid}.jsonl")
        *whole, _ = file.read_text().split("\n")
        assert len(whole) > 60 and all(json.loads(line)["verdicts"] == {"CE": 2} for line in whole)


def test_failures_are_explained(log_dir: Path) -> None:
    compute_score("x", "```python\nint('seven')\n```", TESTS)
    compute_score("x", "```python\nprint 7\n```", TESTS)
    compute_score("x", ADD, "{")
    compute_score("x", "```python\nif input()[0] == '-': raise KeyError('late')\nprint(7)\n```", TESTS, max_tests=3)
    runtime, compiling, data, late = lines(log_dir)
    assert "invalid literal" in runtime["first_failure"]["detail"]
    assert "SyntaxError" in compiling["first_failure"]["detail"] and compiling["tests_not_run"] == 2
    assert (data["verdicts"], data["tests"], data["tests_not_run"]) == ({"DE": 1}, 0, 0)
    assert late["first_failure"] == {"index": 1, "verdict": "RE", "detail": "KeyError: 'late'"}


def test_the_failing_test_is_named_by_its_place_in_the_ground_truth(log_dir: Path) -> None:
    tests = {"inputs": ["1"] * 30 + ["2" * 50], "outputs": ["1"] * 30 + ["3"]}
    compute_score("x", "```python\nprint(input())\n```", tests, max_tests=3)
    (row,) = lines(log_dir)
    assert (row["tests"], row["first_failure"]["index"]) == (3, 30)


def test_off_when_not_asked_for(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWARD_LOG", "0")
    compute_score("x", ADD, TESTS)
    monkeypatch.delenv("REWARD_LOG")
    monkeypatch.setenv("CODE_REWARD_LOG_DIR", "")
    compute_score("x", ADD, TESTS)
    assert not log_dir.exists()
    monkeypatch.setenv("CODE_REWARD_LOG_DIR", str(log_dir))
    monkeypatch.setenv("REWARD_LOG", "1")
    compute_score("x", ADD, TESTS)
    assert len(lines(log_dir)) == 1


@pytest.mark.parametrize("extra_info", [None, "text", 5, [1], {}, {"index": object()}, {"index": {"a": {1}}}])
def test_any_extra_info(log_dir: Path, extra_info: object) -> None:
    assert compute_score("x", ADD, TESTS, extra_info)["score"] == 1.0
    assert len(lines(log_dir)) == 1


def test_numpy_values(log_dir: Path) -> None:
    np = pytest.importorskip("numpy")
    info = {"global_steps": np.int64(3), "split": np.str_("train"), "index": np.array([5])}
    compute_score(np.str_("taco"), ADD, TESTS, info)
    compute_score("x", ADD, TESTS, {"global_steps": np.float64("nan"), "split": np.bool_(True), "index": np.arange(3)})
    first, second = lines(log_dir)
    assert (first["step"], first["split"], first["data_source"], first["index"]) == (3, "train", "taco", 5)
    assert (second["step"], second["split"], second["index"]) == ("nan", True, "[0 1 2]")


def test_odd_text(log_dir: Path) -> None:
    compute_score("漢字", "```python\nraise ValueError('\\ud800 \\x00 é')\n```", TESTS, {"split": "\ud800"})
    compute_score("x", "\ud800", TESTS)
    first, second = lines(log_dir)
    assert first["data_source"] == "漢字"
    assert second["verdicts"] == {"CE": 2}


def test_threads_do_not_tear_lines(log_dir: Path) -> None:
    prose = "No program, but a long answer. " * 2000

    def call(index: int) -> None:
        compute_score("x" * 20_000, prose, TESTS, {"index": index})

    threads = [threading.Thread(target=call, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(row["index"] for row in lines(log_dir)) == list(range(16))


def test_a_forked_process_has_a_file_of_its_own(log_dir: Path) -> None:
    compute_score("x", ADD, TESTS, {"index": 0})
    child = multiprocessing.get_context("fork").Process(target=compute_score, args=("x", ADD, TESTS, {"index": 1}))
    child.start()
    child.join(120)
    assert len(list(log_dir.iterdir())) == 2
    assert sorted(row["index"] for row in lines(log_dir)) == [0, 1]


def test_a_log_that_cannot_be_written_changes_no_score(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    log_dir.parent.mkdir()
    log_dir.write_text("a file where the folder should be")
    assert [compute_score("x", ADD, TESTS)["score"] for _ in range(3)] == [1.0] * 3
    assert capsys.readouterr().err.count("cannot write the reward log") == 1


def test_a_full_disk_and_room_again(log_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    real_write = os.write
    monkeypatch.setattr(
        reward_log.os, "write", lambda fd, data: real_write(fd, data[:10]) if b"code_sha256" in data else real_write(fd, data)
    )
    assert compute_score("x", ADD, TESTS, {"index": 1})["score"] == 1.0
    monkeypatch.setattr(reward_log.os, "write", real_write)
    assert compute_score("x", ADD, TESTS, {"index": 2})["score"] == 1.0
    (file,) = log_dir.iterdir()
    torn, whole = file.read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(whole)["index"] == 2
    assert "only 10 of" in capsys.readouterr().err
