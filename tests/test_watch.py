"""The run script's last line: what ends a training, with which words and exit code, and that nothing is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import ROOT

from training import disk
from training.reward_share import ENOUGH, SOON, WINDOW, RewardShare

HANG = 120  # seconds
LONG = "import time\nprint('training', flush=True)\ntime.sleep(600)\n"
OK = {"verdicts": {"AC": 2}, "first_failure": None}
FAILED = {"verdicts": {"IE": 1}, "first_failure": {"index": 0, "verdict": "IE", "detail": "no sandbox"}}
WRONG = {"verdicts": {"WA": 2}, "first_failure": {"index": 0, "verdict": "WA", "detail": "expected 7, got IE"}}


def start(run_dir: Path, *command: str, options: Sequence[str] = (), before: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, "-m", "training.watch", str(run_dir), *options, "--", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def watch(run_dir: Path, *command: str, options: Sequence[str] = (), before: Sequence[str] = ()) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    process = start(run_dir, *command, options=options, before=before)
    try:
        output, errors = process.communicate(timeout=HANG)
    finally:
        process.kill()
    return process.returncode, output, errors


def python(program: str) -> tuple[str, str, str]:
    return sys.executable, "-c", program


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def append(file: Path, *rows: dict) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as log:
        log.writelines(json.dumps(row) + "\n" for row in rows)


# What passes through.


@pytest.mark.parametrize("ending,code", (("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)))
def test_the_exit_code_and_the_output_pass_through(tmp_path, ending, code):
    program = f"import os, sys\nprint('out', flush=True)\nprint('err', file=sys.stderr, flush=True)\n{ending}"
    (tmp_path / "train.log").write_text("of an earlier start\n")
    returned, output, errors = watch(tmp_path, *python(program))
    assert (returned, output, errors) == (code, "out\nerr\n", "")
    assert (tmp_path / "train.log").read_text() == "of an earlier start\nout\nerr\n"


def test_options_of_the_command_are_its_own(tmp_path):
    assert watch(tmp_path, *python("import sys; print(sys.argv[1:])"), "--max-internal-errors", "+a=[b c]", "~x")[1] == (
        "['--max-internal-errors', '+a=[b c]', '~x']\n"
    )


@pytest.mark.parametrize("value", ("-0.1", "1.1", "nan", "many"))
def test_a_share_that_is_none(tmp_path, value):
    code, output, errors = watch(tmp_path, *python("print('ran')"), options=(f"--max-internal-errors={value}",))
    assert code == 2 and output == "" and "invalid share value" in errors and "Traceback" not in errors


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path):
    program = "for i in range(100_000): print('line', i)"
    process = start(tmp_path, *python(program))
    process.stdout.close()
    assert process.wait(HANG) == 0
    assert (tmp_path / "train.log").read_text().endswith("line 99999\n")


def test_one_run_in_a_folder(tmp_path):
    first = start(tmp_path, *python(LONG))
    try:
        assert first.stdout.readline() == "training\n"
        code, output, errors = watch(tmp_path, *python("print('ran')"))
        assert (code, output) == (1, "") and errors.startswith("watch: another run writes to") and errors.count("\n") == 1
    finally:
        first.terminate()
        first.wait(HANG)
    assert watch(tmp_path, *python("print('ran')"))[:2] == (0, "ran\n")


# What ends it.


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
def test_a_signal_ends_the_training(tmp_path, number):
    process = start(tmp_path, *python(f"import os\nprint(os.getpid(), flush=True)\n{LONG}"))
    try:
        pid = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(HANG) == -number  # ended as by the signal itself, so a calling shell stops as well
    finally:
        process.kill()
    assert not running(pid)
    assert "KeyboardInterrupt" in (tmp_path / "train.log").read_text()  # as by Ctrl-C: it could put things in order


def test_a_training_that_ignores_signals_is_killed(tmp_path):
    ignoring = "import os, signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nprint(os.getpid(), flush=True)\n"
    process = start(tmp_path, *python(ignoring + LONG))
    try:
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        process.send_signal(signal.SIGINT)  # twice: at once
        assert process.wait(15) == -signal.SIGINT
    finally:
        process.kill()
    assert not running(pid)


def test_nothing_is_left_behind(tmp_path):
    """Children in sessions of their own, orphaned or not, that ignore signals and hold the output open."""
    program = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    os._exit(0)
os.wait()
time.sleep(1.5)
print("done", flush=True)
"""
    code, output, _ = watch(tmp_path, *python(program))
    pids = [int(line) for line in output.split() if line != "done"]
    assert code == 0 and len(pids) == 2
    assert not any(running(pid) for pid in pids)


def test_killed_itself_it_takes_the_training_along(tmp_path):
    process = start(tmp_path, *python(f"import os\nprint(os.getpid(), flush=True)\n{LONG}"))
    pid = int(process.stdout.readline())
    process.kill()
    process.wait(HANG)
    until = time.monotonic() + HANG
    while running(pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not running(pid)


def test_a_verifier_that_fails_ends_the_run(tmp_path):
    append(tmp_path / "reward_log" / "host-1.jsonl", *[FAILED] * 500)  # of an earlier start: do not count
    program = f"""
import json, time
time.sleep(3)
with open({str(tmp_path / "reward_log" / "host-1.jsonl")!r}, "a") as log:
    for row in {[OK] * 90 + [FAILED] * 10}:
        log.write(json.dumps(row) + chr(10))
{LONG}"""
    code, _, errors = watch(tmp_path, *python(program))
    assert code == 1
    assert errors.count("\n") == 1 and "Traceback" not in errors
    assert "10 of the last 100 responses got no verdict" in errors and "no sandbox" in errors
    assert (tmp_path / "train.log").read_text().endswith(errors)


def test_a_run_that_ends_by_itself_is_checked_too(tmp_path):
    append(tmp_path / "reward_log" / "host-1.jsonl", {})
    program = f"""
import json
with open({str(tmp_path / "reward_log" / "host-2.jsonl")!r}, "a") as log:
    log.write(json.dumps({FAILED}) + chr(10))
"""
    code, _, errors = watch(tmp_path, *python(program))
    assert code == 1 and "1 of the last 1 responses got no verdict" in errors
    assert watch(tmp_path, *python(program), options=("--max-internal-errors=1",))[0] == 0


def test_a_log_that_workers_cannot_write_ends_the_run(tmp_path):
    """By a real worker: it cannot make the folder, and says so on stderr."""
    (tmp_path / "file").write_text("")
    program = f"""
import os
os.environ.pop("REWARD_LOG", None)
os.environ["CODE_REWARD_LOG_DIR"] = {str(tmp_path / "file" / "reward_log")!r}
from code_reward import compute_score
assert compute_score("x", "print(1)", {{"inputs": [""], "outputs": ["1"]}})["score"] == 1.0
{LONG}"""
    code, _, errors = watch(tmp_path, *python(program))
    assert code == 1 and errors.count("\n") == 1
    assert "a worker cannot write the reward log in" in errors and "NotADirectoryError" in errors and "REWARD_LOG=0" in errors


def test_a_full_disk_ends_the_run(tmp_path):
    (tmp_path / "train.log").symlink_to("/dev/full")  # the kernel's own "No space left on device"
    code, _, errors = watch(tmp_path, *python(LONG))
    assert code == 1 and errors.count("\n") == 1
    assert "train.log cannot be written (No space left on device)" in errors and disk.REMEDY in errors


def test_a_disk_that_fills_up_ends_the_run(small_disk):
    """A real one of 40 MiB, filled after the first response; all of them keep their score."""
    enter, folder, _ = small_disk("size=40m")
    program = f"""
import os, time
os.environ["CODE_REWARD_LOG_DIR"] = {str(folder / "run" / "reward_log")!r}
from code_reward import compute_score
disk = open({str(folder / "data")!r}, "wb", 0)
for index in range(1000):
    assert compute_score("x", "print(1)", {{"inputs": [""], "outputs": ["1"]}})["score"] == 1.0
    while not disk.closed:
        try:
            disk.write(bytes(4096))
        except OSError:
            disk.close()
    print("judged", flush=True)
    time.sleep(0.1)
"""
    code, output, errors = watch(folder / "run", *python(program), before=enter)
    assert code == 1 and "AssertionError" not in output
    assert errors.startswith("watch: the run has ended: ") and errors.count("\n") == 1
    # Whichever is first: the worker's log, train.log, or a look at the disk while it fills.
    assert "no space left" in errors.lower() and errors.endswith(f": {disk.REMEDY}.\n")


def test_a_disk_that_takes_no_more_files_ends_the_run(small_disk):
    enter, folder, seen = small_disk("size=100m,nr_inodes=20")
    program = f"""
for number in range(100):
    try:
        open({str(folder)!r} + f"/{{number}}", "w").close()
    except OSError:
        break
{LONG}"""
    code, _, errors = watch(folder / "run", *python(program), before=enter)
    assert code == 1 and errors.count("\n") == 1
    assert f"no space left on the disk of {folder}/run (all its 20 inodes are in use" in errors
    assert errors.endswith(f": {disk.REMEDY}.\n") and (seen / "run" / "train.log").read_text().endswith(errors)


@pytest.mark.parametrize(
    "write,told",
    (
        ("open('/dev/full', 'wb', 0).write(b'x')", "OSError: [Errno 28] No space left on device"),
        ("import torch; torch.save(torch.zeros(1_000_000), '/dev/full')", "unexpected pos"),
        ("raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), '/data/x')", "Disk quota exceeded: '/data/x'"),  # as if
    ),
)
def test_a_training_that_fails_because_it_cannot_write(tmp_path, write, told):
    """On a disk, or under a quota, that the free space of RUN_DIR does not show."""
    program = f"import errno, os, sys\nprint('\x1b[36m(Worker pid=7)\x1b[0m at work', flush=True)\n{write}"
    code, _, errors = watch(tmp_path, *python(program))
    assert code == 1 and errors.count("\n") == 1
    assert errors.startswith("watch: the run has ended: the training could not write") and told in errors
    assert errors.endswith(f": {disk.REMEDY}.\n") and (tmp_path / "train.log").read_text().endswith(errors)


def test_words_of_a_full_disk_alone_end_nothing(tmp_path):
    """They may stand in a response, or tell of something that went well at the next try."""
    words = "print('[response] OSError: No space left on device')"
    assert watch(tmp_path, *python(words))[0] == 0
    then_long_output_and_failure = f"{words}\nfor i in range(30_000): print('line', i)\nraise SystemExit(7)"
    code, _, errors = watch(tmp_path, *python(then_long_output_and_failure))
    assert (code, errors) == (7, "")


def test_what_ray_puts_around_a_line_is_left_out():
    line = "\x1b[36m(TaskRunner pid=42, ip=192.0.2.1)\x1b[0m OSError: [Errno 122] Disk quota exceeded: 'x'"
    line += "\x1b[32m [repeated 2x across cluster] (Ray deduplicates logs by default)\x1b[0m\n"
    assert disk.last_met(f"before\n{line}after\n".encode()) == "OSError: [Errno 122] Disk quota exceeded: 'x'"


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    code, output, errors = watch(tmp_path / "file" / "run", *python("print('ran')"))
    assert (code, output) == (1, "") and errors.startswith("watch: the run has not started: ") and errors.count("\n") == 1
    (tmp_path / "train.log").mkdir()
    code, output, errors = watch(tmp_path, *python("print('ran')"))
    assert (code, output) == (1, "") and "train.log cannot be written (Is a directory)." in errors and errors.count("\n") == 1


def test_a_folder_that_goes_away_ends_the_run(tmp_path):
    run_dir = tmp_path / "run"
    code, _, errors = watch(run_dir, *python(f"import shutil\nshutil.rmtree({str(run_dir)!r})\n{LONG}"))
    assert code == 1 and f"{run_dir} cannot be reached (No such file or directory)" in errors and errors.count("\n") == 1


# The share of responses without a verdict.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "reward_log"


def test_no_log_no_problem(folder):
    assert RewardShare(folder).problem(0.0, 0.0, at_the_end=True) == ""


def test_wrong_answers_are_no_failures(folder):
    share = RewardShare(folder)
    append(folder / "a.jsonl", *[OK, WRONG] * WINDOW)
    assert share.problem(0.0, 0.0, at_the_end=True) == ""


def test_as_many_as_may_fail(folder):
    share = RewardShare(folder)
    append(folder / "a.jsonl", *[OK] * 95, *[FAILED] * 5)
    assert share.problem(0.05, 0.0) == ""
    append(folder / "b.jsonl", FAILED)
    assert "6 of the last 101" in share.problem(0.05, 0.0)


def test_few_responses_are_waited_for(folder):
    share = RewardShare(folder)
    append(folder / "a.jsonl", *[FAILED] * (ENOUGH - 1))
    assert share.problem(0.05, 100.0) == ""
    assert share.problem(0.05, 100.0 + SOON - 1) == ""
    assert share.problem(0.05, 100.0 + SOON) != ""


def test_old_responses_are_forgotten(folder):
    share = RewardShare(folder)
    append(folder / "a.jsonl", *[FAILED] * 40, *[OK] * 960)
    assert share.problem(0.05, 0.0) == ""
    append(folder / "a.jsonl", *[OK] * 40)
    assert share.problem(0.0, 0.0) == ""


def test_lines_that_are_broken_or_unfinished(folder):
    share = RewardShare(folder)
    append(folder / "a.jsonl", *[OK] * ENOUGH)
    with (folder / "a.jsonl").open("a") as log:
        log.write('{"verdicts": {"IE\nnull\n[]\n{}\n' + json.dumps(FAILED)[:-4])
    assert share.problem(0.0, 0.0, at_the_end=True) == ""
    with (folder / "a.jsonl").open("a") as log:
        log.write(json.dumps(FAILED)[-4:] + "\n")
    assert f"1 of the last {ENOUGH + 1}" in share.problem(0.0, 0.0, at_the_end=True)


def test_what_verl_dropped_counts(folder):
    share = RewardShare(folder)
    append(folder / "a.jsonl", *[OK] * 2)
    append(folder / "dropped" / "a.jsonl", {"error": "RuntimeError: no sandbox"})
    words = share.problem(0.05, 0.0, at_the_end=True)
    assert "1 of the last 3" in words and "veRL dropped them (RuntimeError: no sandbox)" in words


VLLM_FAILS = "(EngineCore pid=7) ERROR 11-30 06:11:27 [core.py:1449] RuntimeError: Worker failed with error 'boom', see above"


@pytest.mark.parametrize(
    "line,ending,code",
    (
        (VLLM_FAILS, "time.sleep(5)", 1),
        (VLLM_FAILS, "sys.exit(5)", 5),  # it ends by itself, and has said why
        (VLLM_FAILS.replace("ERROR", "RESPONSE"), "time.sleep(5)", 0),
    ),
)
def test_a_training_that_waits_for_a_vllm_that_failed(tmp_path, line, ending, code):
    """It is ended after a minute, here a second."""
    program = f"import sys, time\nprint({line!r}, flush=True)\n{ending}"
    sooner = "import sys\nfrom training import watch\nwatch.VLLM_SECONDS = 1.0\nsys.exit(watch.main(sys.argv[1:]))"
    command = [sys.executable, "-c", sooner, str(tmp_path), "--", *python(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG)
    sentence = "vLLM has failed, and the training waits for it (Worker failed with error 'boom', see above)"
    assert (done.returncode, sentence in done.stderr) == (code, code == 1)
