"""Every attack is contained, under every isolation that this machine can force, as the present user and as nobody.

A round is a process of its own (attack_round.py): it starts its fork server in the mode that the environment asks for.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from leftovers import files

from verifier import isolation

ROUND = Path(__file__).with_name("attack_round.py")
EMULATIONS = {"docker": "docker_emulation.py", "old kernel": "old_kernel_emulation.py"}
NOBODY = 65534
HANG_SECONDS = 900


def interpreter_for_nobody() -> str | None:
    """An interpreter that any user may execute, with the project readable to them."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        check = [candidate, "-c", f"import sys; open({str(ROUND)!r}).read(); assert sys.version_info >= (3, 10)"]
        try:
            if subprocess.run(check, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True).returncode == 0:
                return candidate
        except OSError:
            continue
    return None


@functools.cache
def command_for(user: str, place: str) -> tuple[tuple[str, ...], dict[str, object]]:
    """The start of a command line that runs as `user` in `place`, and the arguments for subprocess.run."""
    python: str | None = sys.executable
    identity: dict[str, object] = {}
    if user == "nobody":
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        python = interpreter_for_nobody()
        if python is None:
            pytest.skip("no interpreter, or not this folder, can be read by other users")
        identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    emulation = (python, "-B", str(ROUND.with_name(EMULATIONS[place]))) if place in EMULATIONS else ()
    return (*emulation, python, "-B"), identity


def run_as(user: str, place: str, mode: str, *arguments: str, processes: str = "0") -> subprocess.CompletedProcess[str]:
    command, identity = command_for(user, place)
    settings = {isolation.ISOLATION: mode, isolation.PROCESSES: processes}
    return subprocess.run(
        [*command, *arguments],
        env=os.environ | settings,
        cwd=ROUND.parent.parent,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        **identity,
    )


@functools.cache
def modes_that_hold(user: str, place: str, processes: str = "0") -> dict[str, str]:
    """For each mode "" if it holds for `user` in `place`, else why not."""
    code = "import json, sys; sys.path.insert(0, '.'); from verifier import isolation; print(json.dumps(isolation.probe()))"
    done = run_as(user, place, "auto", "-c", code, processes=processes)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", isolation.MODES)
@pytest.mark.parametrize("user", ["self", "nobody"])
@pytest.mark.parametrize("place", ["host", "docker"])
def test_all_attacks_are_contained(place: str, user: str, mode: str) -> None:
    why_not = modes_that_hold(user, place)[mode]
    if why_not:
        pytest.skip(why_not)
    done = run_as(user, place, mode, str(ROUND))
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["escaped"] == {}
    assert (outcome["mode"], outcome["ran"]) == (mode, 80 + 87)


@pytest.mark.parametrize("mode", isolation.MODES)
def test_no_descriptor_is_left_open_on_an_old_kernel(mode: str) -> None:
    """Without close_range each has to be closed by itself, those above the program's own limit too."""
    why_not = modes_that_hold("self", "old kernel")[mode]
    if why_not:
        pytest.skip(why_not)
    attacks = ("descriptors_left_open", "message_about_itself", "way_out_of_chroot", "paths_without_reading")
    done = run_as("self", "old kernel", mode, str(ROUND), *attacks)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["mode"], outcome["ran"], outcome["escaped"]) == (mode, len(attacks), {})


def test_attacks_are_contained_where_programs_may_start_processes() -> None:
    why_not = modes_that_hold("self", "host", "1")["landlock"]
    if why_not:
        pytest.skip(why_not)
    done = run_as("self", "host", "landlock", str(ROUND), processes="1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["escaped"] == {}


def test_the_attacks_have_teeth() -> None:
    """Without walls these get out: what the other tests see contained is the walls' doing."""
    harmless = ["net_loopback", "kill_parent", "read_expected_outputs", "execveat_memfd", "write_home", "import_repo"]
    done = run_as("self", "host", "off", str(ROUND), *harmless)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["mode"] == "off"
    assert set(outcome["escaped"]) == set(harmless) - {"import_repo"}


def test_where_nothing_holds_it_refuses() -> None:
    """chroot needs root: forced without it, nothing is run and one sentence says why."""
    user = "nobody" if os.geteuid() == 0 else "self"
    before = files()
    done = run_as(user, "host", "chroot", str(ROUND), "net_loopback")
    assert not [path for path in files() - before if "code-reward" in path]
    assert done.returncode != 0
    assert "Refusing to run model-written programs" in done.stderr
    assert "only root can chroot" in done.stderr
