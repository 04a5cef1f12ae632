"""Peaks by phase, without a card: NVML and psutil are stand-ins, and the run is a few lines that take veRL's timers' place."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import ROOT
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from benchmarks import phase_log, random_model

NVML = """
import os, types
class NVMLError(Exception): pass
nvmlMemory_v2 = 2
def nvmlInit():
    if "NO_CARD" in os.environ: raise NVMLError("NVML Shared Library Not Found")
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetMemoryInfo(card, version):
    used = int(open(os.environ["USED_MIB"]).read() or 0)
    return types.SimpleNamespace(used=used << 20, total=100_000 << 20)
"""
PSUTIL = """
import os, types
def virtual_memory():
    used = int(open(os.environ["USED_MIB"]).read() or 0)
    return types.SimpleNamespace(total=50_000 << 20, available=(50_000 - 2 * used) << 20)
"""
RUN = """
import json, os, sys, time
from pathlib import Path
used, log = Path(os.environ["USED_MIB"]), os.environ["PHASE_LOG"]
print(os.environ["VERL_USE_EXTERNAL_MODULES"], os.environ.get("ROLLOUT_GPU_MEM_UTIL"), os.environ.get("PYTORCH_ALLOC_CONF"))
for name, mib in (("gen", 3000), ("update_actor", 9000)):
    start = time.time()
    used.write_text(str(mib))
    time.sleep(1.5)
    with open(log, "a") as file:
        file.write(json.dumps({"phase": name, "start": start, "end": time.time()}) + chr(10))
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def measure(tmp_path: Path):
    (tmp_path / "pynvml.py").write_text(NVML)
    (tmp_path / "psutil.py").write_text(PSUTIL)
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "used").write_text("1000")

    def run(*options: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "benchmarks" / "gpu_memory.py"), *options, "--", sys.executable]
        paths = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "USED_MIB": str(tmp_path / "used")}
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ROLLOUT", "PYTORCH", "VERL"))}
        whole = [*command, str(tmp_path / "run.py"), str(code)]
        return subprocess.run(whole, capture_output=True, text=True, env={**clean, **paths, **environment})

    return run


def test_peaks_by_phase(measure, tmp_path: Path) -> None:
    run = measure("--json", str(tmp_path / "figures.json"), VERL_USE_EXTERNAL_MODULES="mine")
    assert run.returncode == 0, run.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["phases"]["gen"]["peak_mib"] == 3000
    assert figures["phases"]["update_actor"]["peak_mib"] == 9000 == figures["peak_mib"]
    assert figures["phases"]["gen"]["seconds"] == pytest.approx(1.5, abs=1)
    assert figures["before_mib"] == 1000
    assert figures["host_mib"] == 16_000
    assert run.stdout.startswith("benchmarks.phase_log,mine None None\n")
    assert "| update_actor | 9,000 |" in run.stdout
    assert "host memory 16,000 MiB" in run.stdout


def test_figures_outlive_a_run_that_is_cut_off(measure, tmp_path: Path) -> None:
    """The run kills the measuring process, after it has written the figures of the first phase."""
    json_file = tmp_path / "figures.json"
    wait = f"""
import signal
while "gen" not in json.loads(Path({str(json_file)!r}).read_text())["phases"]: time.sleep(0.1)
os.kill(os.getppid(), signal.SIGKILL)
"""
    end = "sys.exit(int(sys.argv[1]))"
    (tmp_path / "run.py").write_text(RUN.replace('("update_actor", 9000)', "").replace(end, wait))
    assert measure("--json", str(json_file)).returncode == -9
    figures = json.loads(json_file.read_text())
    assert figures["phases"]["gen"]["peak_mib"] == 3000 == figures["peak_mib"]
    assert [path.name for path in tmp_path.glob("figures*")] == ["figures.json"]


def test_a_smaller_card(measure) -> None:
    run = measure("--card", "24")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("benchmarks.phase_log 0.0960 per_process_memory_fraction:0.2400\n")
    assert measure("--card", "24", ROLLOUT_GPU_MEM_UTIL="0.5").stdout.split()[1] == "0.1200"
    words = measure("--card", "24", PYTORCH_ALLOC_CONF="max_split_size_mb:64").stdout.split()
    assert words[2] == "max_split_size_mb:64,per_process_memory_fraction:0.2400"
    run = measure("--card", "8")
    assert (run.returncode, run.stderr) == (1, "gpu_memory: the run takes more than a card of 8 GB has.\n")


def test_what_cannot_be_measured(measure) -> None:
    assert measure(code=3).returncode == 3  # the run's own
    run = measure("--json", "/no/such/folder/figures.json")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("gpu_memory: ") and "No such file or directory" in run.stderr
    run = measure("--card", "200")
    assert (run.returncode, run.stderr) == (1, "gpu_memory: --card 200: this card has 100,000 MiB only.\n")
    run = measure(NO_CARD="1")
    assert (run.returncode, run.stderr) == (1, "gpu_memory: NVML Shared Library Not Found\n")


def test_timers_write_down_when_they_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = types.ModuleType("trainer")

    @contextlib.contextmanager
    def marked_timer(name: str, timing: dict[str, float], color: str | None = None) -> Iterator[None]:
        timing[name] = 1.0
        yield

    trainer.marked_timer = marked_timer
    phase_log.log_phases(trainer)
    monkeypatch.setenv("PHASE_LOG", str(tmp_path / "log"))
    timing: dict[str, float] = {}
    with trainer.marked_timer("step", timing), trainer.marked_timer("gen", timing, color="red"):
        pass
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["phase"] for line in lines] == ["gen", "step"]
    assert lines[1]["start"] <= lines[0]["start"] <= lines[0]["end"] <= lines[1]["end"]
    assert timing == {"step": 1.0, "gen": 1.0}
    with pytest.raises(MemoryError), trainer.marked_timer("update_actor", timing):
        raise MemoryError
    assert json.loads((tmp_path / "log").read_text().splitlines()[-1])["phase"] == "update_actor"


@pytest.mark.parametrize("name", ["verl.trainer.ppo.v1.trainer_base", "verl.trainer.ppo.v1.trainer_sync"])
def test_verl_still_has_those_timers(name: str) -> None:
    assert importlib.import_module(name).marked_timer


@pytest.mark.parametrize(("size", "parameters"), [("0.5B", 494_032_768), ("1.5B", 1_543_714_304), ("7B", 7_615_616_512)])
def test_shapes(size: str, parameters: int) -> None:
    """The published models' numbers of parameters."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(random_model.configuration(size))
    assert model.num_parameters() == parameters


def test_every_word_can_be_decoded(tiny_model: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path)
    random_model.fill_vocabulary(tmp_path, 5000)
    filled = AutoTokenizer.from_pretrained(tmp_path)
    assert len(filled) == 5000
    assert filled("print(1)")["input_ids"] == tokenizer("print(1)")["input_ids"]
    assert filled.decode([len(tokenizer), 4999]) == f"unused{len(tokenizer)}unused4999"


def test_responses_end_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words that end a response are as likely as they are many, and none is one of a text's."""
    monkeypatch.setitem(random_model.SHAPES, "small", (64, 256, 2, 4, 2, 5000, True))
    random_model.save("small", tmp_path / "model", "cpu")
    assert random_model.configuration("small", 5100).vocab_size == 5100  # that of another model, to be its critic
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    ends = GenerationConfig.from_pretrained(tmp_path / "model").eos_token_id
    prompt = tokenizer("Print the sum of two numbers.", return_tensors="pt")["input_ids"]
    likely = model(prompt).logits[0].softmax(-1)[:, ends].sum(-1)
    assert likely.mean().item() == pytest.approx(random_model.ENDING, rel=0.5)
    assert tokenizer.eos_token_id in ends
    assert all(tokenizer.decode([end]) == f"unused{end}" for end in ends if end != tokenizer.eos_token_id)
