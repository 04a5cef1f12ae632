"""docs/multi_node.md and docs/sizing.md: their tables are what the commands print, their scripts are whole."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from benchmarks import sizing

SIZING = (ROOT / "docs" / "sizing.md").read_text()
NODES = (ROOT / "docs" / "multi_node.md").read_text()
BLOCKS = re.findall(r"```\n(.*?)```", NODES, re.DOTALL)


def printed(*arguments: str) -> str:
    command = [sys.executable, "benchmarks/sizing.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("arguments, table", re.findall(r"<!-- sizing([^>]*) -->\n(.*?)<!-- end -->", SIZING, re.DOTALL))
def test_tables_are_what_the_script_prints(arguments: str, table: str) -> None:
    assert printed(*shlex.split(arguments)) == table


def test_numbers_in_the_text() -> None:
    assert sizing.loop_seconds(10) == pytest.approx(37)
    assert sizing.loop_seconds(2) == pytest.approx(7.4)
    one = sizing.response_seconds(5, 13, 0, 10)
    assert one == pytest.approx(0.065) and round(37 / one, -1) == 570
    rows = printed("--tokens", "512", "--tokens-per-second", "2500").splitlines()[2:]
    assert [row.split(" | ")[3] for row in rows] == ["2.8", "22.6", "2,827.8"]
    assert "says 2.8 cores for one GPU, 22.6 for 8 and 2,828 for 1,000" in SIZING


def test_more_of_anything_needs_more_cores() -> None:
    base = {"gpus": 8, "tokens_per_second": 1000, "tokens": 500, "seconds_per_response": 0.1}
    assert sizing.cores(**base) == pytest.approx(8 * 1000 / 500 * 0.1 / 0.75)
    for name in ("gpus", "tokens_per_second", "seconds_per_response"):
        assert sizing.cores(**base | {name: 2 * base[name]}) == pytest.approx(2 * sizing.cores(**base))


def test_the_slurm_script_is_whole(tmp_path: Path) -> None:
    (script,) = (block for block in BLOCKS if "#SBATCH" in block)
    (tmp_path / "job.sh").write_text(script)
    linter = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([linter, tmp_path / "job.sh"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_ray_job_is_whole() -> None:
    (manifest,) = (yaml.safe_load(block) for block in BLOCKS if "kind: RayJob" in block)
    cluster = manifest["spec"]["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    nodes = int(re.search(r"NNODES=(\d+)", manifest["spec"]["entrypoint"])[1])
    assert 1 + workers["replicas"] == nodes
    for template in (cluster["headGroupSpec"]["template"], workers["template"]):
        (container,) = template["spec"]["containers"]
        volumes = {volume["name"] for volume in template["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        assert "securityContext" not in container
        home = re.search(r"ENV HOME=(\S+)", (ROOT / "Dockerfile").read_text())[1]
        assert {"/dev/shm", f"{home}/data", "/recipe/runs"} == {mount["mountPath"] for mount in container["volumeMounts"]}


def test_what_the_pages_name_is_there() -> None:
    for text, folder in ((NODES, ROOT / "docs"), (SIZING, ROOT / "docs")):
        for link in re.findall(r"\]\(([\w./]+)\)", text):
            assert (folder / link).exists()
        for file in re.findall(r"(?:bash|python3) ([\w/]+\.(?:sh|py))", text):
            assert (ROOT / file).exists()
    script = (ROOT / "run_qwen_coder_ppo_single_gpu.sh").read_text()
    for name in re.findall(r"`([A-Z_]{6,})`", NODES):
        assert name in script or name.startswith(("CODE_REWARD_", "SANDBOX_FUSION_"))
