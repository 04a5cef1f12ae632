"""Every case file through the sandbox_fusion backend: the same numbers as from the local one, no exception.

The service is a stand-in of SandboxFusion's format (sandbox_fusion_stand_in.py) on this machine. Hostile programs meet the
same walls there as here: the isolation is named, so a service that cannot put it up refuses to run them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from attack_round import LIMITS as ATTACK_LIMITS
from attack_round import verdict_of
from fault_kinds import CASES as FAULT_KINDS
from sandbox_fusion_stand_in import StandIn

from code_reward import compute_score
from verifier import client, isolation, remote

FILES = Path(__file__).parent / "cases"
OPTIONS = {"timeout": 1.0, "wall_timeout": 4.0, "memory_mb": 256}
AT_ONCE = 4


@pytest.fixture(scope="module")
def service() -> Iterator[StandIn]:
    with pytest.MonkeyPatch.context() as patch, StandIn() as server:
        patch.setenv(isolation.ISOLATION, client.mode())
        yield server


def compare(service: StandIn, cases: dict[str, tuple[str, str, dict]]) -> None:
    """Judge each case (response, ground truth, extra_info) on both backends."""
    there = {"backend": "sandbox_fusion", "sandbox_fusion_url": service.url}

    def judge(name: str, **backend: str) -> dict[str, float]:
        response, truth, extra_info = cases[name]
        return compute_score("cases", response, truth, extra_info, **OPTIONS, **backend)

    before = len(service.requests)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        local = dict(zip(cases, pool.map(judge, cases), strict=True))
        remotely = dict(zip(cases, pool.map(lambda name: judge(name, **there), cases), strict=True))
    assert {name: (local[name], remotely[name]) for name in cases if local[name] != remotely[name]} == {}
    assert not any(numbers["internal_error"] for numbers in remotely.values())
    assert len(service.requests) - before > len(cases) / 2  # the rest holds no program, or no tests


def test_verifier_cases(service: StandIn) -> None:
    rows = json.loads((FILES / "verifier_cases.json").read_text())
    compare(service, {row["id"]: (row["response"], json.dumps(row["ground_truth"]), {"index": 0}) for row in rows})


def test_fault_kinds(service: StandIn) -> None:
    def truth(case: object) -> str:
        return case.truth if isinstance(case.truth, str) else json.dumps(case.truth)

    compare(service, {case.name: (case.response, truth(case), {"checker": case.checker}) for case in FAULT_KINDS})


def test_judged_responses(service: StandIn) -> None:
    rows = json.loads((FILES / "judged_responses.json").read_text())
    compare(service, {row["name"]: (row["response"], json.dumps(row["ground_truth"]), {"index": 0}) for row in rows})


def test_attacks(service: StandIn) -> None:
    """Contained there as well: no attack gets a verdict that it should not, or tells what it should not know."""
    attacks = json.loads((FILES / "attacks.json").read_text())

    def escaped(attack: dict) -> str:
        inputs = [attack["stdin"].encode()] * attack["repeat"]
        executions = list(remote.run_tests(service.url, attack["code"], inputs, ATTACK_LIMITS))
        verdict = verdict_of(executions[-1], attack["expected"])
        told = any(attack["forbid_substring"].encode() in execution.stdout for execution in executions)
        return f"{verdict} {executions[-1]}" if told or verdict not in attack["verdict_any_of"] else ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = dict(zip((attack["id"] for attack in attacks), pool.map(escaped, attacks), strict=True))
    assert {name: how for name, how in outcomes.items() if how} == {}
    assert len(outcomes) == 69
