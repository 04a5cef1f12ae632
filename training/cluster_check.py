"""The part of the pre-flight for a run on several machines: what each node of the Ray cluster has, asked of the node itself.

veRL spreads its reward and agent workers over all nodes by itself, so each needs the same repository, the data, a model that
is a folder, and an isolation that holds. A node that lacks one of these fails minutes into the run, and only for its share.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.finding import Finding

CONNECT_SECONDS = 10
LOOK_SECONDS = 300  # for one node: a worker's start, on a machine with too much to do, and the reward's self-test


def check_cluster(config: Any) -> Iterator[Finding]:
    """Join the cluster that the run would join and look at each of its nodes. Nothing where the run starts its own Ray."""
    from omegaconf import OmegaConf

    from training.preflight import data_files

    options = OmegaConf.to_container(config.get("ray_kwargs", config).ray_init, resolve=True)
    if options.get("address", "local") == "local":
        return
    import ray

    address = options["address"]
    try:
        _connect(address)
        ray.init(address=address, runtime_env=options.get("runtime_env"), log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        yield Finding(f"No Ray cluster answers at RAY_ADDRESS={address} ({reason}): start it with ray start --head.")
        return
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        yield from _gpus(nodes, config)
        model = config.actor_rollout_ref.model.path
        paths = [path for files in data_files(config).values() for path in files] + [model] * os.path.isdir(model)
        reward = os.path.abspath(config.get("reward", config).custom_reward_function.path)
        for name, found in _look_everywhere(nodes, reward, paths).items():
            for text in _complaints(found, reward, fingerprint(reward)):
                yield Finding(f"Node {name}: {text}")
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    """Raises OSError where nothing listens at host:port; Ray itself would try for minutes and then end this process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()


def _gpus(nodes: Sequence[dict[str, Any]], config: Any) -> Iterator[Finding]:
    wanted, each = config.trainer.nnodes, config.trainer.n_gpus_per_node
    able = sum(node["Resources"].get("GPU", 0) >= each for node in nodes)
    if able < wanted:
        yield Finding(
            f"NNODES={wanted} x NDEVICES_PER_NODE={each}, but {able} of the cluster's {len(nodes)} nodes have that many GPUs: "
            "add nodes or lower them."
        )


def _look_everywhere(nodes: Sequence[dict[str, Any]], reward: str, paths: Sequence[str]) -> dict[str, dict[str, Any] | str]:
    """{node's name: what `look` found there, or in one line why there is no answer}."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the node may lack this module
    task = ray.remote(num_cpus=0, max_retries=0)(look)
    asked = {}
    for node in nodes:
        place = On(node["NodeID"], soft=False)
        name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:6]})"
        asked[name] = task.options(scheduling_strategy=place).remote(reward, list(paths))
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=LOOK_SECONDS)
    found: dict[str, dict[str, Any] | str] = {}
    for name, answer in asked.items():
        try:
            found[name] = ray.get(answer, timeout=0)
        except Exception as error:  # whatever a node may fail with
            found[name] = f"it gave no answer ({type(error).__name__}: {str(error).strip().splitlines()[-1][:200]})"
    return found


def look(reward: str, paths: Sequence[str]) -> dict[str, Any]:
    """On a node: which of the paths cannot be read there, the reward's fingerprint, and how its self-test ends."""
    found: dict[str, Any] = {"unreadable": [path for path in (reward, *paths) if not os.access(path, os.R_OK)]}
    if reward in found["unreadable"]:
        return found
    found["fingerprint"] = fingerprint(reward)
    test = subprocess.run([sys.executable, reward], capture_output=True, text=True, timeout=240, check=False)
    if test.returncode:
        refusal = next((line for line in test.stderr.splitlines() if "Refusing to run" in line), "")
        last = (test.stdout + test.stderr).strip().splitlines()[-1:] or ["no output"]
        found["self_test"] = refusal or last[0]
    return found


def fingerprint(reward: str) -> str:
    """Of the reward's file and of the verifier beside it."""
    digest = hashlib.sha256()
    for path in (Path(reward), *sorted(Path(reward).parent.glob("verifier/*.py"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _complaints(found: dict[str, Any] | str, reward: str, ours: str) -> Iterator[str]:
    if isinstance(found, str):
        yield f"{found}; look at it with ray status, or take it out of the cluster."
        return
    for path in found["unreadable"]:
        yield f"{path} cannot be read there: put it under the same path on every node, or on a shared disk."
    if found.get("fingerprint", ours) != ours:
        yield f"{reward} or the verifier beside it is another version than here: bring the repository up to date there."
    if "self_test" in found:
        yield f"the reward's self-test fails there ({found['self_test']}): run python3 {reward} on it."
