"""Several Ray nodes on one host: what the pre-flight asks them, with the multi-GPU script's settings for a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from conftest import MULTI, ROOT
from ray.cluster_utils import Cluster

from training import cluster_check, preflight
from verifier import isolation

NODES = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=4)
    cluster.wait_for_nodes(60)
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_the_preflight_asks_every_node(cluster, dry_run, tiny_model: Path, tmp_path: Path) -> None:
    """One node cannot confine programs, none has the data or GPUs: each says so under its name."""
    missing = tmp_path / "train.parquet"
    settings = {"NNODES": "2", "RAY_ADDRESS": cluster.address, "MODEL_PATH": str(tiny_model), "TRAIN_FILE": str(missing)}
    config = preflight.compose(dry_run(MULTI, **settings, VAL_FILE=str(ROOT / "README.md")))
    odd = cluster.add_node(num_cpus=1, env_vars={isolation.ISOLATION: "nonsense"})
    try:
        texts = [finding.text for finding in cluster_check.check_cluster(config)]
    finally:
        cluster.remove_node(odd)
    gpus = f"NNODES=2 x NDEVICES_PER_NODE=8, but 0 of the cluster's {NODES + 1} nodes have that many GPUs"
    assert [text for text in texts if text.startswith(gpus)] == texts[:1]
    assert sum(f"{missing} cannot be read there: put it under the same path" in text for text in texts) == NODES + 1
    (confined,) = (text for text in texts if "self-test fails there" in text)
    assert odd.node_id[:6] in confined and "CODE_REWARD_ISOLATION=nonsense is unknown" in confined
    assert len(texts) == NODES + 3
    assert all("\n" not in text for text in texts)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379"])
def test_no_cluster_there(dry_run, address: str) -> None:
    """Ray itself would try for minutes and end the process."""
    config = preflight.compose(dry_run(MULTI, NNODES="2", RAY_ADDRESS=address))
    (finding,) = cluster_check.check_cluster(config)
    assert finding.fatal and finding.text.startswith(f"No Ray cluster answers at RAY_ADDRESS={address} (")


def test_a_run_on_one_machine_is_not_asked(dry_run) -> None:
    assert list(cluster_check.check_cluster(preflight.compose(dry_run(MULTI)))) == []


def test_another_version_on_a_node(tmp_path: Path) -> None:
    (tmp_path / "verifier").mkdir()
    reward, module = tmp_path / "reward.py", tmp_path / "verifier" / "executor.py"
    reward.write_text("print('ok')")
    module.write_text("ours = 1")
    ours = cluster_check.fingerprint(str(reward))
    assert cluster_check.look(str(reward), [str(module)]) == {"unreadable": [], "fingerprint": ours}
    module.write_text("ours = 2")
    reward.write_text("raise SystemExit('broken here')")
    found = cluster_check.look(str(reward), [])
    assert list(cluster_check._complaints(found, str(reward), ours)) == [
        f"{reward} or the verifier beside it is another version than here: bring the repository up to date there.",
        f"the reward's self-test fails there (broken here): run python3 {reward} on it.",
    ]


def test_what_the_workers_of_a_cluster_are_told(dry_run) -> None:
    """They do not inherit the shell that starts the run."""
    settings = {"CODE_REWARD_BACKEND": "sandbox_fusion", "SANDBOX_FUSION_URL": "http://host:8080"}
    told = preflight.compose(dry_run(MULTI, RAY_ADDRESS="head:6379", **settings)).ray_kwargs.ray_init.runtime_env.env_vars
    assert {name: told[name] for name in settings} == settings
    assert str(ROOT) in told["PYTHONPATH"].split(":")
