"""Starting and stopping a server, with a stub in vLLM's place: a GPU is not to be had here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, script_environment

from evaluation import serving
from evaluation.results import EvaluationError

STUB = [sys.executable, str(ROOT / "tests" / "openai_stub.py"), "{port}"]
HANG = 60


def gone(pid: int) -> bool:
    """Whether a process has ended, within a while."""
    for _ in range(HANG * 10):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


def test_a_server_and_its_children_are_stopped(tmp_path, monkeypatch):
    """A server that ignores SIGTERM, with a child that does too."""
    monkeypatch.setattr(serving, "STOP_SECONDS", 2)
    script = "trap '' TERM; sleep 1000 & echo $! > {pids}; exec {stub}"
    pids = tmp_path / "pids"
    words = ["bash", "-c", script.replace("{pids}", str(pids)).replace("{stub}", " ".join(STUB))]
    with serving.server("model", "base", tmp_path / "log", argv=words) as url:
        assert url.startswith("http://127.0.0.1:") and url.endswith("/v1")
        child = int(pids.read_text())
        assert Path(f"/proc/{child}").exists()
    assert gone(child)


def test_a_server_that_does_not_start(tmp_path):
    words = [sys.executable, "-c", "raise SystemExit('no CUDA here')"]
    with (
        pytest.raises(EvaluationError, match=r"ended before it was ready(.|\n)*no CUDA here"),
        serving.server("m", "n", tmp_path / "l", argv=words),
    ):
        pass


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGKILL))
def test_a_server_does_not_outlive_the_evaluation(tmp_path, number):
    program = (
        "import signal, sys, time; from pathlib import Path; from evaluation import serving\n"
        "signal.signal(signal.SIGTERM, lambda *words: sys.exit(1))\n"
        f"with serving.server('m', 'n', Path({str(tmp_path / 'log')!r}), argv={STUB!r}) as url:\n"
        "    print(url, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=script_environment()
    )
    try:
        assert process.stdout.readline().startswith("http")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert children
        os.kill(process.pid, number)
        process.wait(HANG)
        assert all(gone(int(child)) for child in children)
    finally:
        process.kill()
        process.wait()


def test_the_command(monkeypatch):
    monkeypatch.setenv("VLLM_ARGS", "--gpu-memory-utilization 0.5 --enforce-eager")
    words = serving.command("some/model", "base", 8123, 7)
    assert words[:3] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    assert words[-3:] == ["--gpu-memory-utilization", "0.5", "--enforce-eager"]
    for name, value in (("--model", "some/model"), ("--port", "8123"), ("--generation-config", "vllm"), ("--seed", "7")):
        assert words[words.index(name) + 1] == value
