"""veRL's entry point: the numbers, the options, and everywhere veRL may call it from."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import code_reward
from code_reward import compute_score, extract_code, run_io_tests
from verifier import client, comparison, executor, options, scoring, self_check
from verifier.verdict import Execution, Limits, Verdict

ROOT = Path(__file__).resolve().parent.parent
KEYS = {
    "score", "pass_rate", "format", "acc", "compile_error", "runtime_error", "wrong_answer", "time_limit", "memory_limit",
    "output_limit", "data_error", "internal_error",
}  # fmt: skip
ADD = "```python\na, b = map(int, input().split())\nprint(a + b)\n```"
TESTS = {"inputs": ["3 4\n", "-5 5\n"], "outputs": ["7\n", "0\n"]}


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_behind():
    """After all tests of this file there is no process and no zombie of theirs."""
    yield
    assert self_check.left_behind() == ""


@pytest.fixture(autouse=True)
def _no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CODE_REWARD_"):
            monkeypatch.delenv(name)


def judge(response: object, tests: object = TESTS, **arguments: object) -> dict[str, float]:
    numbers = compute_score("test", response, tests, {"index": 0}, **arguments)
    assert set(numbers) == KEYS
    assert all(type(value) is float for value in numbers.values())
    shares = [*scoring.SHARES, "pass_rate"]
    assert sum(numbers[name] for name in shares) == pytest.approx(1.0)
    return numbers


def fenced(program: str) -> str:
    return f"```python\n{program}\n```"


def nonzero(numbers: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if value}


# --- what became of a response ---

OUTCOMES = {
    "right": (ADD, {}, {"score": 1.0, "pass_rate": 1.0, "format": 1.0, "acc": 1.0}),
    "half right": (fenced("print(7)"), {}, {"score": 0.5, "pass_rate": 0.5, "format": 1.0, "wrong_answer": 0.5}),
    "binary": (fenced("print(7)"), {"reward": "binary"}, {"pass_rate": 0.5, "format": 1.0, "wrong_answer": 0.5}),
    "binary, right": (ADD, {"reward": "binary"}, {"score": 1.0, "pass_rate": 1.0, "format": 1.0, "acc": 1.0}),
    "not in a block": (ADD[10:-4], {}, {"score": 1.0, "pass_rate": 1.0, "acc": 1.0}),
    "prose": ("I would add the numbers.", {}, {"compile_error": 1.0}),
    "does not compile": (fenced("print 7"), {}, {"compile_error": 1.0, "format": 1.0}),
    "crashes on one": (fenced("print(7)\nassert input() == '3 4'"), {}, {
        "score": 0.5, "pass_rate": 0.5, "format": 1.0, "runtime_error": 0.5}),
    "right and then a crash": (fenced("print(7)\nraise SystemExit(1)"), {}, {"format": 1.0, "runtime_error": 1.0}),
    "never ends": (fenced("while True: pass"), {"timeout": 0.3}, {"format": 1.0, "time_limit": 1.0}),
    "sleeps": (fenced("import time; time.sleep(600)"), {"wall_timeout": 0.7}, {"format": 1.0, "time_limit": 1.0}),
    "eats memory": (fenced("x = b'x' * (300 << 20)"), {"memory_mb": 64}, {"format": 1.0, "memory_limit": 1.0}),
    "floods": (fenced("while True: print('x' * 4096)"), {}, {"format": 1.0, "output_limit": 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome(name: str) -> None:
    response, arguments, expected = OUTCOMES[name]
    assert nonzero(judge(response, **arguments)) == expected


@pytest.mark.parametrize(
    "response",
    [
        None,
        b"```python\nprint(7)\n```",
        memoryview(b"```python\nprint(7)\n```"),
        b"\xff\xfe",
        "",
        " \n",
        "\x00",
        "\ud800",
        7,
        ["x"],
        "```" * 99,
    ],
)
def test_any_response_gets_a_score(response: object) -> None:
    numbers = judge(response)
    assert numbers["internal_error"] == 0.0
    assert numbers["score"] == (0.5 if isinstance(response, bytes | memoryview) and b"print" in bytes(response) else 0.0)


def test_numpy_strings_as_veRL_passes_them() -> None:
    np = pytest.importorskip("numpy")
    truth = np.str_(json.dumps(TESTS))
    assert compute_score(np.str_("taco"), np.str_(ADD), truth, {"index": np.int64(3)})["score"] == 1.0


def test_call_based() -> None:
    tests = {"fn_name": "add", "inputs": ["3\n4", "1\n1"], "outputs": ["7", "3"]}
    assert judge(fenced("def add(a, b):\n    print('debug')\n    return a + b"), tests)["pass_rate"] == 0.5
    assert judge(fenced("def add(a, b): return 1 / 0"), tests)["runtime_error"] == 1.0
    assert judge(fenced("import os\ndef add(a, b): os._exit(0)"), tests)["wrong_answer"] == 1.0
    assert judge(fenced("def add(a, b: pass"), tests)["compile_error"] == 1.0


def test_output_limit_grows_with_the_expected_output() -> None:
    big = "x" * (5 << 20)
    tests = {"inputs": [""], "outputs": [big]}
    assert judge(fenced("print('x' * (5 << 20))"), tests)["score"] == 1.0
    assert judge(fenced("print('x' * (18 << 20))"), tests)["wrong_answer"] == 1.0  # over 16 MiB, under four times 5 MiB


# --- data errors and internal errors ---


@pytest.mark.parametrize(
    "truth", [None, "", "{", "[]", "{}", 5, {"inputs": [], "outputs": []}, {"inputs": ["1"], "outputs": []}]
)
def test_unreadable_ground_truth(truth: object, capsys: pytest.CaptureFixture) -> None:
    scoring._reported_rows.clear()
    for _ in range(2):
        assert nonzero(judge(ADD, truth)) == {"data_error": 1.0, "format": 1.0}
    assert capsys.readouterr().err.count("DATA ERROR") == 1


@pytest.mark.parametrize("value", [10**5000, functools.reduce(lambda inner, _: [inner], range(5000))], ids=["long", "deep"])
def test_a_row_that_cannot_be_shown(value: object, capsys: pytest.CaptureFixture) -> None:
    truth = {"inputs": [value], "outputs": []}
    assert nonzero(compute_score(value, ADD, truth, {"index": value})) == {"data_error": 1.0, "format": 1.0}
    assert "DATA ERROR" in capsys.readouterr().err


@pytest.mark.parametrize("stderr", ["none", "closed", "full", "without a reader"])
def test_what_nobody_can_read_costs_no_score(stderr: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scoring._reported_rows.clear()
    reading, writing = os.pipe()
    os.close(reading)
    with open(os.devnull) as closed, open("/dev/full", "w") as full, open(writing, "w", closefd=False) as alone:
        closed.close()
        streams = {"none": None, "closed": closed, "full": full, "without a reader": alone}
        monkeypatch.setattr(sys, "stderr", streams[stderr])
        monkeypatch.setenv("CODE_REWARD_LOG_DIR", "/proc/nothing")
        try:
            assert nonzero(judge(ADD, "{")) == {"data_error": 1.0, "format": 1.0}
        finally:
            monkeypatch.undo()
            os.close(writing)
            for stream in (full, alone):
                with contextlib.suppress(OSError):
                    stream.close()


def test_verifier_failure_is_loud_and_not_the_programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    calls = []

    def no_process(program: str, inputs: list[bytes], *_: object, **__: object):
        calls.append(program)
        yield Execution(Verdict.IE, message="OSError: no more processes")

    monkeypatch.setattr(scoring, "run_tests", no_process)
    assert nonzero(judge(ADD)) == {"internal_error": 1.0, "format": 1.0}
    assert len(calls) == scoring.ATTEMPTS
    assert "INTERNAL ERROR" in (said := capsys.readouterr().err) and "no more processes" in said


def test_a_bug_of_ours_is_an_internal_error_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    working, calls = comparison.compare_output, []

    def fails_once(*arguments: object, **keywords: object):
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError("ours")
        return working(*arguments, **keywords)

    monkeypatch.setattr(comparison, "compare_output", fails_once)
    assert judge(ADD)["score"] == 1.0
    monkeypatch.setattr(comparison, "compare_output", lambda *_, **__: 1 // 0)
    assert judge(ADD)["internal_error"] == 1.0
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_internal_error_is_not_averaged_away(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def fails_late(program: str, inputs: list[bytes], *_: object, **__: object):
        try:
            yield Execution(None, stdout=b"7\n")
            yield Execution(Verdict.IE, message="late")
            raise AssertionError("went on after an internal error")
        finally:
            closed.append(1)

    monkeypatch.setattr(scoring, "run_tests", fails_late)
    numbers = judge(ADD, {"inputs": ["3 4"] * 3, "outputs": ["7"] * 3})
    assert nonzero(numbers) == {"internal_error": 1.0, "format": 1.0}
    assert len(closed) == scoring.ATTEMPTS


# --- options ---


def test_defaults_are_the_documented_ones() -> None:
    assert options.read({}, {}) == options.Options(
        limits=Limits(), block="last", comparison="tokens", row_checkers=True, reward="pass_rate",
        format_weight=0.0, compile_weight=0.0, max_tests=None,
    )  # fmt: skip


def test_options_from_arguments_and_environment() -> None:
    environ = {"CODE_REWARD_TIMEOUT": "4", "CODE_REWARD_MEMORY_MB": "512", "CODE_REWARD_BLOCK": "", "HOME": "/"}
    chosen = options.read({"memory_mb": 256, "reward": None, "reward_model_tokenizer": object()}, environ)
    assert chosen.limits.cpu_seconds == 4.0
    assert chosen.limits.wall_seconds == 12.0  # follows timeout
    assert chosen.limits.memory_bytes == 256 << 20  # the argument comes first
    assert (chosen.block, chosen.reward) == ("last", "pass_rate")
    assert options.read({"wall_timeout": 7, "timeout": "0.5"}, {}).limits.wall_seconds == 7.0
    limits = options.read({"timeout": 4, "full_timeouts": 1, "short_timeout": 9, "max_timeouts": "2"}, {}).limits
    assert (limits.full_limit_timeouts, limits.short_cpu_seconds, limits.max_timeouts) == (1, 4.0, 2)
    source = options.read({"rules": "source"}, {})
    assert (source.block, source.comparison, source.row_checkers) == ("source", "source", False)
    assert options.read({"rules": "source", "block": "last"}, {}).block == "last"
    assert options.read({"rules": "default"}, {"CODE_REWARD_RULES": "source"}) == options.read({}, {})


@pytest.mark.parametrize("arguments, environ, sentence", [
    ({"timout": 3}, {}, "no option timout: did you mean timeout?"),
    ({}, {"CODE_REWARD_TIMOUT": "3"}, "no option CODE_REWARD_TIMOUT: did you mean CODE_REWARD_TIMEOUT?"),
    ({"xyzzy": 3}, {}, "no option xyzzy: the options are timeout, "),
    ({"timeout": 0}, {}, "timeout must be a number, 0.1 or more, not 0"),
    ({"timeout": "ten"}, {}, "timeout must be a number"),
    ({"timeout": float("nan")}, {}, "timeout must be a number"),
    ({"timeout": True}, {}, "timeout must be a number"),
    ({}, {"CODE_REWARD_MEMORY_MB": "1g"}, "memory_mb must be a number"),
    ({"timeout": 1e300}, {}, "timeout must be a number from 0.1 to 1e+06, not 1e+300"),
    ({"wall_timeout": float("inf")}, {}, "wall_timeout must be a number from 0.1 to 1e+06, not inf"),
    ({}, {"CODE_REWARD_MEMORY_MB": "1e300"}, "memory_mb must be a number from 1 to 1e+06"),
    ({"max_tests": 1e300}, {}, "max_tests must be a number from 3 to 1e+15"),
    ({"timeout": 10**400}, {}, "timeout must be a number"),
    ({"block": ["last"]}, {}, "block must be one of last, first, source, not ['last']"),
    ({"full_timeouts": 0}, {}, "full_timeouts must be a number, 1 or more"),
    ({"max_tests": 2}, {}, "max_tests must be a number, 3 or more"),
    ({"max_tests": 3.5}, {}, "max_tests must be a whole number"),
    ({"block": "middle"}, {}, "block must be one of last, first, source, not 'middle'"),
    ({"comparison": "fuzzy"}, {}, "comparison must be one of "),
    ({"reward": "acc"}, {}, "reward must be one of pass_rate, binary"),
    ({"rules": "verl"}, {}, "rules must be one of default, source"),
])  # fmt: skip
def test_wrong_options_are_refused(arguments: dict, environ: dict, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError) as refused:
        compute_score("test", ADD, TESTS, None, **arguments)
    assert sentence in str(refused.value)


def test_block_and_comparison_options_take_effect() -> None:
    two = f"{fenced('print(7)')}\nor\n{fenced('print(8)')}"
    tests = {"inputs": [""], "outputs": ["7\n"]}
    assert judge(two, tests)["score"] == 0.0
    assert judge(two, tests, block="first")["score"] == 1.0
    spaced = {"inputs": [""], "outputs": ["7 8\n"]}
    assert judge(fenced("print('7  8')"), spaced)["score"] == 1.0
    assert judge(fenced("print('7  8')"), spaced, comparison="exact")["score"] == 0.0


# --- called from everywhere ---


def test_from_many_threads() -> None:
    expected = {"```python\nprint(7)\n```": 0.5, ADD: 1.0, "prose only": 0.0}
    answers: list[tuple[str, float]] = []
    threads = [
        threading.Thread(target=lambda r=response: answers.append((r, judge(r)["score"])))
        for response in expected
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(answers) == sorted((response, score) for response, score in expected.items() for _ in range(6))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_from_several_processes(method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        scores = pool.starmap_async(compute_score, [("test", ADD, TESTS)] * 4).get(timeout=120)
    assert [numbers["score"] for numbers in scores] == [1.0] * 4


def test_loaded_by_path_as_veRL_does(tmp_path: Path) -> None:
    """Outside sys.modules, from another folder, called in a thread: siblings must be found all the same."""
    script = f"""
import importlib.util, threading
spec = importlib.util.spec_from_file_location("custom_module_0123", {str(ROOT / "code_reward.py")!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
def call():
    print(module.compute_score(data_source="x", solution_str={ADD!r}, ground_truth={TESTS!r}, extra_info={{}})["score"])
thread = threading.Thread(target=call)
thread.start()
thread.join()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("1.0\n", 0), done.stderr


def test_a_module_of_the_same_name_where_it_is_called_from(tmp_path: Path) -> None:
    (tmp_path / "verifier.py").write_text("raise SystemExit('another verifier')")
    command = [sys.executable, "-c", f"import code_reward; print(code_reward.extract_code({ADD!r}).count('print'))"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    "shell", ["exec {} <&- >&- 2>&-", "ulimit -v 2000000; exec {}"], ids=["no standard streams", "ulimit -v"]
)
def test_from_a_process_that_has_less(shell: str, tmp_path: Path) -> None:
    script = f"""
from code_reward import compute_score
score = compute_score("x", {ADD!r}, {TESTS!r})["score"]
open("score", "w").write(str(score))
"""
    (tmp_path / "score.py").write_text(script)
    command = shell.format(f"{sys.executable} score.py")
    subprocess.run(["bash", "-c", command], cwd=tmp_path, timeout=60, check=True)
    assert (tmp_path / "score").read_text() == "1.0"


@pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="veRL is not installed")
def test_by_veRLs_own_loader(tmp_path: Path) -> None:
    script = f"""
from verl.utils.import_utils import load_extern_object
compute_score = load_extern_object({str(ROOT / "code_reward.py")!r}, "compute_score")
print(compute_score(data_source="x", solution_str={ADD!r}, ground_truth={TESTS!r}, extra_info=None)["score"])
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["1.0"], done.stderr


def test_nothing_is_imported_beyond_the_standard_library() -> None:
    script = (
        "import sys\nbefore = set(sys.modules)\nimport code_reward, verifier.self_check\n"
        "ours = {'code_reward', 'verifier'}\n"
        "print(sorted({m.partition('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names - ours))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done


# --- for users of the tutorial ---


def test_extract_code() -> None:
    assert extract_code(f"first\n{fenced('a')}\nthen\n{fenced('b')}").strip() == "b"


def test_run_io_tests() -> None:
    program = "print(input())"
    assert run_io_tests(program, ["1", "2"], ["1", "3"]) == 0.5
    assert run_io_tests(program, {"inputs": ["1"], "outputs": ["1"]}) == 1.0
    assert run_io_tests(program, "12", "12") == 1.0
    assert run_io_tests(program, "12", "13") == 0.0  # one test, not one of each character
    assert run_io_tests(program, json.dumps({"inputs": ["1"], "outputs": ["2"]})) == 0.0
    assert run_io_tests("while True: pass", ["1"], ["1"], timeout=0.3) == 0.0
    with pytest.raises(ValueError):
        run_io_tests(program, ["1"], ["1", "2"])


def test_run_io_tests_does_not_disguise_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "START_PAUSES", ())
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    client.discard()  # a fork server that runs would go on working
    with pytest.raises(RuntimeError, match="/nowhere/python"):
        run_io_tests("print(1)", ["1"], ["1"])


# --- run as a script ---


def test_self_check_without_any_package(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "CODE_REWARD_REWARD": "binary", "CODE_REWARD_LOG_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-S", str(ROOT / "code_reward.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "Correct code -> score=1.00 pass_rate=1.00 format=1",
        "Wrong code   -> score=0.00 pass_rate=0.00 format=1",
        "No code      -> score=0.00 pass_rate=0.00 format=0",
    ]
    assert len(lines) >= 14
    assert all(line.endswith(" -> ok") for line in lines[3:]), done.stdout
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])


@pytest.mark.parametrize("arguments, environ, sentence", [
    ([], {"CODE_REWARD_CONCURRENCY": "x"}, "code_reward.py: CODE_REWARD_CONCURRENCY must be a whole number"),
    ([], {"CODE_REWARD_BACKEND": "cloud"}, "code_reward.py: code_reward's option backend must be one of"),
    ([], {"CODE_REWARD_TIMOUT": "3"}, "code_reward.py: code_reward has no option CODE_REWARD_TIMOUT"),
    (["--isolation"], {"CODE_REWARD_ISOLATION": "jail"}, "code_reward.py: CODE_REWARD_ISOLATION=jail is unknown"),
    (["--isolate"], {}, "usage: python3 code_reward.py [--isolation]"),
])  # fmt: skip
def test_the_script_says_in_one_sentence_what_is_wrong(
    arguments: list[str], environ: dict, sentence: str, tmp_path: Path
) -> None:
    command = [sys.executable, str(ROOT / "code_reward.py"), *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | environ, capture_output=True, text=True, timeout=60)
    assert done.stderr.startswith(sentence) and done.stderr.count("\n") == 1
    assert (done.returncode, done.stdout) == (1, "")


def test_the_script_shows_its_usage(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "code_reward.py"), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "usage: python3 code_reward.py [--isolation]\n", "")


def test_the_scripts_reader_may_have_seen_enough() -> None:
    command = f"{sys.executable} {ROOT / 'code_reward.py'} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("Correct code -> score=1.00 pass_rate=1.00 format=1\n", "")


@pytest.mark.parametrize("name, value", [("time_limit", 0.0), ("score", 1.0), ("internal_error", 1.0)])
def test_self_check_fails_where_a_number_is_off(name: str, value: float, capsys: pytest.CaptureFixture) -> None:
    def broken(*arguments: object, **keywords: object) -> dict[str, float]:
        return {**compute_score(*arguments, **keywords), name: value}

    assert self_check.main(broken) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any("-> FAILED: expected" in line for line in lines) or lines[1] != lines[1].replace("score=0.00", "")


def test_the_self_check_sees_what_is_left_behind() -> None:
    executions = executor.run_tests("print(1)", [b"", b""])
    next(executions)
    assert "1 processes" in self_check.left_behind()  # the second test has not been asked for
    executions.close()
    assert self_check.left_behind() == ""


def test_the_module_holds_nothing_that_breaks_outside_sys_modules() -> None:
    """A dataclass or a pickled function in the file itself fails where veRL keeps it out of sys.modules."""
    spec = importlib.util.spec_from_file_location("elsewhere", code_reward.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == "elsewhere"]
