"""Starting and stopping a server, with a stub in vLLM's place: a GPU is not to be had here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, script_environment

from evaluation import results, serving
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


def test_the_cause_of_a_failed_start_is_said(tmp_path):
    """vLLM's engine is a process of its own: what it says comes long before what its server ends with. A warning that names an
    error is no cause, nor is a traceback that was only a warning."""
    warning, error = (
        "(APIServer pid=1) WARNING 11-29 12:00:00 [x.py:1] ",
        "(EngineCore pid=7) ERROR 11-29 12:00:01 [core.py:1] ",
    )
    lines = [
        f"{warning}Found ulimit of 20000. This can cause errors like `OSError: [Errno 24] Too many open files`. Consider more",
        f"{warning}ImportError: an extension that is not needed",
        f"{error}EngineCore failed to start.",
        f"{error}Traceback (most recent call last):",
        f"{error}ValueError: No available memory for the cache blocks.",
        "(EngineCore pid=7) ValueError: No available memory for the cache blocks.",
        '(APIServer pid=1)   File "launch.py", line 1, in main',
    ]
    text = "\n".join(lines)
    script = f"print({text!r}); print('frame\\n' * 1000); raise RuntimeError('Engine core initialization failed.')"
    with (
        pytest.raises(EvaluationError) as caught,
        serving.server("m", "n", tmp_path / "log", argv=[sys.executable, "-c", script]),
    ):
        pass
    said = ["ValueError: No available memory for the cache blocks.", "RuntimeError: Engine core initialization failed."]
    assert str(caught.value).splitlines()[1:] == said


def test_what_a_wrong_setting_is_told(tmp_path):
    """pydantic says what is wrong in the lines below the exception's; argparse raises nothing."""
    said = "pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, no such quantization"
    (tmp_path / "log").write_text("".join(f"(APIServer pid=1) {line}\n" for line in ["Traceback:", *said.splitlines()]))
    assert serving.last_words(tmp_path / "log") == said
    (tmp_path / "log").write_text("usage: api_server.py\napi_server.py: error: unrecognized arguments: --eager")
    assert serving.last_words(tmp_path / "log").endswith("error: unrecognized arguments: --eager")


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


def test_both_models_are_served_once_for_everything(tmp_path, tiny_model):
    """eval.sh where there is a GPU and vLLM; both are made up here, the rest is real."""
    bin_folder, package = tmp_path / "bin", tmp_path / "site" / "vllm" / "entrypoints" / "openai"
    bin_folder.mkdir()
    (bin_folder / "nvidia-smi").write_text("#!/bin/sh\necho GPU 0\n")
    (bin_folder / "nvidia-smi").chmod(0o755)
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "api_server.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'tests')!r})\nfrom openai_stub import make\n"
        "print('served', sys.argv[sys.argv.index('--model') + 1], flush=True)\n"
        "make(int(sys.argv[sys.argv.index('--port') + 1]), lambda request: 'ok', []).serve_forever()\n"
    )
    run = tmp_path / "run"
    actor = run / "checkpoints" / "global_step_1" / "actor"
    actor.mkdir(parents=True)
    (actor / "model_world_size_1_rank_0.pt").touch()
    (run / "config.yaml").write_text(f"actor_rollout_ref: {{model: {{path: {tiny_model}}}}}\n")
    shutil.copytree(tiny_model, run / "merged" / "global_step_1")  # merged already
    (run / "merged" / "global_step_1" / "model.safetensors").touch()  # as weights are told apart
    settings = {"DATASETS": "humaneval gsm8k", "LOCAL_DATASETS": "evaluation/problems", "LIMIT": "2"}
    settings["http_proxy"] = "http://127.0.0.1:9"  # nobody there: the server must be asked without it
    environment = script_environment(**settings)
    environment |= {"PATH": f"{bin_folder}:{environment['PATH']}", "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}"}
    command = ["bash", str(ROOT / "eval.sh"), str(actor.parent)]
    logs = {name: run / "eval" / name / "vllm.log" for name in ("base", "global_step_1")}
    for again in (False, True):  # the second time all answers are there: they are reviewed without a server
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        for (name, log), model in zip(logs.items(), (tiny_model, run / "merged" / "global_step_1"), strict=True):
            assert log.read_text() == ("not started\n" if again else f"served {model}\n")
            log.write_text("not started\n")
            found = {path: results.read(path) for path in (run / "eval" / name).glob("*/result.json")}
            assert sorted(x.benchmark for x in found.values()) == ["gsm8k", "humaneval"]
            assert all(len(x.problems) == 2 for x in found.values())
            if not again:
                next(iter(found)).unlink()
    assert "| humaneval (own problems) | pass@1 | 0.000 | 0.000 |" in done.stdout

    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (run / "eval").glob("*/**/*") if path.is_file()}

    before = written()
    third = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert (third.returncode, third.stdout, third.stderr) == (0, done.stdout, "")  # the table, and nothing was done for it
    assert written() == before
    shutil.copytree(actor.parent, actor.parent.with_name("global_step_2"))  # the run has gone on
    shutil.copytree(tiny_model, run / "merged" / "global_step_2")
    (run / "merged" / "global_step_2" / "model.safetensors").touch()
    command[-1] = str(actor.parent.with_name("global_step_2"))
    later = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert later.returncode == 0 and f"trained: {run / 'merged' / 'global_step_2'}\n" in later.stdout
    assert {path: time for path, time in written().items() if "global_step_2" not in path.parts} == before
    assert (run / "eval" / "global_step_1.md").read_text() in third.stdout
