"""plot_metrics.py as it is called."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import made_runs
import pytest

from monitoring.follow import follow
from monitoring.run import open_run

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "tests" / "cases" / "runs"


def plot(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "plot_metrics.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


@pytest.mark.parametrize("runs", [["learning"], ["learning", "not_learning"]])
def test_a_picture_and_a_page(runs: list[str], tmp_path: Path) -> None:
    done = plot(*(RUNS / f"metrics_{name}.jsonl" for name in runs), "--out", tmp_path / "new" / "folder")
    assert done.returncode == 0, done.stderr
    picture, page = (tmp_path / "new" / "folder" / name for name in ("curves.png", "curves.html"))
    assert sorted(path.name for path in picture.parent.iterdir()) == ["curves.html", "curves.png"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.count("<svg") > 8 and "KL to the reference" in text
    assert "No warning" in text


class Page(HTMLParser):
    """The tags of a page, and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [f"{n}={v}" for n, v in attributes if n in ("src", "href", "xlink:href") and not str(v).startswith("#")]
        assert not [name for name, _ in attributes if name.startswith("on")]


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    run = made_runs.make(tmp_path / "run")
    assert plot(run).returncode == 0
    page = Page()
    page.feed((run / "curves.html").read_text())
    assert page.loads == []
    assert "script" not in page.tags and "link" not in page.tags and "img" not in page.tags


def test_check_says_what_is_wrong_and_exits_with_1(tmp_path: Path) -> None:
    for healthy in (RUNS / "metrics_learning.jsonl", made_runs.make(tmp_path)):
        done = plot(healthy, "--check")
        assert (done.returncode, done.stdout) == (0, "")
    cut = made_runs.make(tmp_path / "cut", 40, {"response_length/clip_ratio": lambda step: 0.95 if step > 20 else 0.1})
    done = plot(cut, "--check")
    assert done.returncode == 1
    assert done.stdout == "steps 25-40: answers cut: 95% of the answers reach the length limit. Raise MAX_RESPONSE_LENGTH.\n"
    healed = made_runs.make(tmp_path / "healed", 40, {"response_length/clip_ratio": lambda step: 0.95 if step < 20 else 0.1})
    done = plot(healed, "--check")
    assert done.returncode == 0 and "over" in done.stdout


def test_neither_torch_nor_verl_is_imported(tmp_path: Path) -> None:
    run = made_runs.make(tmp_path / "run", 3)
    code = (
        "import sys, plot_metrics; plot_metrics.main(sys.argv[1:]);"
        "print(sorted({'torch', 'verl', 'ray', 'transformers'} & set(sys.modules)))"
    )
    for option in ([], ["--check"]):
        command = [sys.executable, "-c", code, str(run), *option]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_following_prints_a_line_a_step(tmp_path: Path) -> None:
    run = made_runs.make(tmp_path, 9)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:  # step 10 is judged and written, step 11 under way
            with (run / "reward_log" / "host-1.jsonl").open("a") as log:
                log.write("\n".join(made_runs.log_lines(10) + made_runs.log_lines(11)) + "\n")
            with (run / "metrics.jsonl").open("a") as file:
                file.write(made_runs.metrics_lines(range(10, 11))[0] + "\n" + made_runs.metrics_lines(range(11, 12))[0][:50])
        if len(waits) == 3:
            raise KeyboardInterrupt

    lines = []
    with pytest.raises(KeyboardInterrupt):
        for line in follow(open_run(run), wait):
            lines.append(line)
    assert lines[7].startswith(
        "[Step 6]  train | reward/score=0.23 | reward/pass_rate=0.23 | reward/acc=0.00 | reward/format=0.70"
    )
    assert [line[:16] for line in lines[4:8]] == ["[Step 5]  train ", *["[Step 5]  val   "] * 2, "[Step 6]  train "]
    assert [line[:16] for line in lines[-3:]] == ["[Step 10] train ", "[Step 10] val   ", "[Step 10] val   "]
    assert lines[-1].endswith("| reward/pass_rate=0.35 | reward/acc=0.17 | data_source=taco")


def test_following_prints_the_steps_of_a_resumed_run_again(tmp_path: Path) -> None:
    path = made_runs.write(tmp_path / "metrics.jsonl", made_runs.metrics_lines(range(1, 8)))
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            again = made_runs.metrics_lines(range(6, 8), {"critic/score/mean": lambda step: 0.9})
            with path.open("a") as file:
                file.write("".join(f"{line}\n" for line in again))
        if len(waits) == 2:
            raise KeyboardInterrupt

    lines = []
    with pytest.raises(KeyboardInterrupt):
        for line in follow(open_run(tmp_path), wait):
            lines.append(line)
    train = [line[:35] for line in lines if " train " in line]
    assert train[-3:] == [
        f"[Step {step}]  train | reward/score={score}" for step, score in ((7, 0.26), (6, "0.90"), (7, "0.90"))
    ]


def test_a_reader_that_has_seen_enough_ends_it_and_is_no_error(tmp_path: Path) -> None:
    run = made_runs.make(tmp_path, 3)
    command = f"set -o pipefail; {sys.executable} {ROOT / 'plot_metrics.py'} {run} --follow | head -n 3"  # all that there is
    done = subprocess.run(["timeout", "60", "bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("[Step 1]") and done.stderr == ""


def test_the_steps_so_far_are_printed_once(tmp_path: Path) -> None:
    assert plot(tmp_path, "--steps").returncode == 2  # nothing so far
    done = plot(RUNS / "metrics_learning.jsonl", "--steps")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("[Step 0]  val") and lines[-2].startswith("[Step 17] train")
    assert lines[-1] == "[Steps 2-17] | 8.7s a step | gen=4.1s"


def test_the_summary_says_where_the_time_went(tmp_path: Path) -> None:
    seconds = {1: 60.0, 2: 10.0, 3: 8.0, 4: 12.0}
    rows = [{"step": step, "data": {"timing_s/step": s, "timing_s/gen": s / 4}} for step, s in seconds.items()]
    made_runs.write(tmp_path / "metrics.jsonl", [json.dumps(row) for row in rows])
    log = [{"step": step, "time": 100.0 * step, "wall_seconds": step / 2, "tests": 10 * step} for step in seconds]
    made_runs.write(tmp_path / "reward_log" / "host-1.jsonl", [json.dumps(line) for line in log])
    done = plot(tmp_path, "--steps")  # the first step, which warms up, counts for nothing; 10 tests in each half second
    assert done.stdout.splitlines()[-1] == (
        "[Steps 2-4] | 10.0s a step | gen=2.5s | reward_wait=1.5s, 15.0% of the time | 20 tests judged a second"
    )


def test_following_ends_at_the_first_warning_with_check(tmp_path: Path) -> None:
    cut = made_runs.make(tmp_path / "cut", 40, {"response_length/clip_ratio": lambda step: 0.95})
    done = plot(cut, "--follow", "--check")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("[warning] steps 5-40: answers cut")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing_there"], "does not exist"),
        ([RUNS / "metrics_learning.jsonl", "--samples"], "has no samples"),
        ([RUNS / "metrics_learning.jsonl", RUNS / "metrics_learning.jsonl", "--follow"], "name only one"),
        ([Path(__file__)], "file logger"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(arguments: list, sentence: str) -> None:
    done = plot(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert sentence in done.stderr and len(done.stderr.splitlines()) == 1


def test_nothing_is_half_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made_runs.write(run / "metrics.jsonl", [json.dumps({"step": 1, "data": {"unknown": 1.0}})])
    done = plot(run)
    assert done.returncode == 2 and "no step yet" in done.stderr
    assert [path.name for path in run.iterdir()] == ["metrics.jsonl"]
