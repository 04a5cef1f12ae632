"""Samples: found again in the reward log, worst and best first, and harmless whatever a model has written."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import made_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from code_reward import compute_score
from monitoring import page, rerun, samples, terminal
from monitoring.curves import curves
from monitoring.health import Finding
from monitoring.panels import panels
from monitoring.run import Run, RunError, open_run, read
from monitoring.text import cut, visible

TRUTH = json.dumps({"inputs": ["3 4\n", "5 5\n"], "outputs": ["7\n", "10\n"]})
CALL = json.dumps({"fn_name": "add", "inputs": [[3, 4], [5, 5]], "outputs": [[7], [10]]})


def fenced(code: str) -> str:
    return f"Here it is.\n```python\n{code}\n```"


def dumped(prompt: str, response: str, truth: str, score: float, step: int, number: int) -> dict[str, object]:
    """A line of veRL 0.9.1's rollouts/STEP.jsonl."""
    return {"input": prompt, "output": response, "gts": truth, "score": score, "step": step, "uid": f"{number}_0_0"}


ANSWERS = {
    "right": fenced("a, b = map(int, input().split())\nprint(a + b)"),
    "half": fenced("print(7)"),
    "wrong": fenced("print('nothing')"),
    "crash": fenced("raise SystemExit('no')"),
    "prose": "I would rather not.",
}


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose responses were judged by the real reward, logged by the real log and dumped in veRL 0.9.1's format."""
    monkeypatch.setenv("CODE_REWARD_LOG_DIR", str(tmp_path / "reward_log"))
    monkeypatch.delenv("REWARD_LOG", raising=False)
    rows = []
    for index, (name, response) in enumerate(ANSWERS.items()):
        info = {"global_steps": 3, "split": "train", "index": index}
        score = compute_score("taco", response, TRUTH, info)["score"]
        rows.append(
            {"input": f"prompt {name}", "output": response, "gts": TRUTH, "score": score, "step": 3, "uid": f"u{index}_0_0"}
        )
    method = fenced("def add(a, b):\n    return a * b")
    score = compute_score("taco", method, CALL, {"global_steps": 3, "split": "train", "index": 9})["score"]
    rows.append({"input": "prompt call", "output": method, "gts": CALL, "score": score, "step": 3, "uid": "u9_0_0"})
    made_runs.write(tmp_path / "rollouts" / "3.jsonl", [json.dumps(row) for row in rows])
    made_runs.write(tmp_path / "metrics.jsonl", made_runs.metrics_lines(range(1, 4)))
    return read(open_run(tmp_path))


def by_prompt(run: Run, step: int = 3) -> dict[str, samples.Sample]:
    return {sample.prompt.removeprefix("prompt "): sample for sample in samples.read_steps(run, [step])[step]}


def test_verdicts_and_the_first_failing_test_come_from_the_log(judged: Run) -> None:
    found = by_prompt(judged)
    assert found["right"].verdicts == {"AC": 2} and found["right"].failure is None
    assert found["right"].where == "taco, row 0"
    half = found["half"]
    assert half.verdicts == {"AC": 1, "WA": 1} and half.numbers == {"pass_rate": 0.5, "format": 1.0, "acc": 0.0}
    assert (half.failure.index, half.failure.verdict, half.failure.stdin, half.failure.expected) == (1, "WA", "5 5\n", "10\n")
    assert half.program == "print(7)" and half.block == "1/1 python"
    assert found["crash"].verdicts == {"RE": 2} and found["prose"].verdicts == {"CE": 2}
    assert (found["call"].failure.stdin, found["call"].failure.expected) == ("add(3, 4)", "[7]")


def test_a_program_that_is_run_again_shows_what_it_prints(judged: Run) -> None:
    again = {sample.prompt.removeprefix("prompt "): sample for sample in rerun.with_actual(by_prompt(judged).values())}
    assert again["half"].failure.actual == "7"
    assert again["wrong"].failure.actual == "nothing"
    assert again["call"].failure.actual == "12"
    assert again["right"].failure is None and again["prose"].failure.actual is None
    assert "no" in again["crash"].failure.actual


def test_worst_and_best_first(judged: Run) -> None:
    scores = [sample.score for sample in samples.read_steps(judged, [3])[3]]
    assert scores[:4] == [0.0, 1.0, 0.0, 0.5]


def test_the_page_shows_steps_from_the_first_to_the_last(tmp_path: Path) -> None:
    for folder, dumped_steps in (("rollouts", range(1, 24)), ("validation", range(0, 24, 5))):
        for step in dumped_steps:
            made_runs.write(tmp_path / folder / f"{step}.jsonl", [json.dumps(dumped("p", "o", TRUTH, 0.0, step, 1))])
    run = open_run(tmp_path)
    assert samples.milestones(run, 6) == [0, 5, 10, 15, 20, 23]
    assert samples.milestones(run, 3) == [0, 20, 23]
    assert samples.milestones(run, 2) == [0, 23]
    assert samples.milestones(run, 50) == list(range(24))
    for path in (tmp_path / "validation").iterdir():
        path.unlink()
    assert samples.milestones(run, 4) == [1, 8, 15, 23]


def test_without_a_log_the_dump_says_what_it_can(judged: Run) -> None:
    for path in (judged.folder / "reward_log").iterdir():
        path.unlink()
    half = by_prompt(read(open_run(judged.path)))["half"]
    assert (half.score, half.program, half.verdicts, half.failure) == (0.5, "print(7)", {}, None)


def test_the_log_knows_a_response_by_its_uid(judged: Run) -> None:
    """Two responses with the same program, to different rows."""
    rows = [json.loads(line) for line in (judged.folder / "rollouts" / "3.jsonl").read_text().splitlines()]
    rows = [{**rows[1], "uid": f"{name}_0_0", "input": f"prompt {name}"} for name in "ab"]
    made_runs.write(judged.folder / "rollouts" / "3.jsonl", [json.dumps(row) for row in rows])
    (log,) = (judged.folder / "reward_log").iterdir()
    logged = next(record for record in map(json.loads, log.read_text().splitlines()) if record["index"] == 1)
    made_runs.write(log, [json.dumps({**logged, "uid": f"{name}_0", "index": name}) for name in "ab"])
    found = by_prompt(read(open_run(judged.path)))
    assert [found[name].where for name in "ab"] == ["taco, row a", "taco, row b"]


def test_a_step_without_samples_is_named(judged: Run) -> None:
    with pytest.raises(RunError, match=r"no samples of step 9: there are 3\."):
        samples.read_steps(judged, [9])


# hostile text

HOSTILE = (
    "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m \x9b31m \x90q\x9c",
    "[bold red]markup[/bold red] [link=http://x]y[/link] [/]",
    "{{ 7 * 7 }} {% raw %} $\\frac{1}{0}$ _hidden &lt;b&gt; &#x1b;",
    "\u202eright to left\u2066 zero\u200bwidth \ud800 half \x00 null \U000e0041 tag",
    "a" * 5000 + "\r\rover\r\n",
    "<svg/onload=alert(1)> <style>*{display:none}</style> <!-- -->",
)


def hostile_run(folder: Path) -> Run:
    rows, log = [], []
    for i, text in enumerate(HOSTILE):
        gts = json.dumps({"inputs": [text], "outputs": [text]})
        rows.append(
            {
                "input": text,
                "output": fenced(f"print({text!r})  # {text}"),
                "gts": gts,
                "score": 0.0,
                "step": 1,
                "uid": f"{i}_0_0",
            }
        )
        failure = {"index": 0, "verdict": "WA", "detail": text}
        record = {"uid": f"{i}_0", "verdicts": {"WA": 1, text: 1}, "first_failure": failure, "data_source": text, "index": text}
        log.append({**json.loads(made_runs.log_lines(1)[0]), **record, "score": 0.0, "code_sha256": text, "split": "train"})
    data = {"critic/score/mean": 0.5}
    data |= {f"val-aux/{text}/pass_rate/mean@1": 0.5 for text in HOSTILE}
    made_runs.write(folder / "metrics.jsonl", [json.dumps({"step": step, "data": data}) for step in (1, 2)])
    made_runs.write(folder / "rollouts" / "1.jsonl", [json.dumps(row) for row in rows])
    made_runs.write(folder / "reward_log" / "h-1.jsonl", [json.dumps(record) for record in log])
    return read(open_run(folder))


class Strict(HTMLParser):
    """Every tag outside the charts is one of the page's own; no attribute runs anything."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        assert not [name for name, value in attributes if name.startswith("on") or "javascript" in str(value).lower()]


def test_hostile_text_stays_text_in_the_page(tmp_path: Path) -> None:
    run = hostile_run(tmp_path)
    found = [(HOSTILE[0], curves(run))]
    shown = samples.read_steps(run, [1])[1]
    assert all(sample.failure and sample.failure.detail for sample in shown)
    warning = Finding(HOSTILE[0], 1, 1, False, HOSTILE[0], HOSTILE[0])
    text = page.html(found, panels(found), [], [(HOSTILE[0], warning)], [(1, shown, len(shown))])
    parser = Strict()
    parser.feed(text)
    assert not parser.found & {"script", "img", "link", "iframe", "object", "b"}
    assert text.count("<style") == 1 + text.count("<svg")  # the page's, and matplotlib's in each chart
    assert "alert(1)" in text and "{{ 7 * 7 }}" in text
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\ud800]", text) is None
    text.encode("utf-8")


def test_hostile_text_commands_no_terminal() -> None:
    stream = io.StringIO()
    text = "".join(HOSTILE)
    failure = samples.Failure(0, text, text, text, text, text)
    sample = samples.Sample("train", 1, text, text, text, text, "", 0.0, {}, {text: 1.0}, text, failure)
    terminal.show_samples([sample], Console(file=stream, force_terminal=False, width=30_000))
    plain = stream.getvalue()
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\ud800]", plain) is None
    assert "[bold red]markup[/bold red]" in plain and "\\x1b[2J" in plain
    stream = io.StringIO()
    coloured = Console(file=stream, force_terminal=True, width=100, color_system="truecolor")
    terminal._print([sample], coloured)
    escapes = set(re.findall("\x1b.{0,2}", stream.getvalue()))
    assert escapes and all(re.fullmatch(r"\x1b\[[0-9m]", escape) for escape in escapes)  # colours and their end, nothing else


@given(st.text(st.characters()))
def test_what_is_made_visible_holds_nothing_that_acts(text: str) -> None:
    seen = visible(text)
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]", seen) is None
    seen.encode("utf-8")
    assert visible(seen) == seen


def test_what_is_cut_says_so() -> None:
    assert cut("x" * 100, 100) == "x" * 100
    shorter = cut("a" * 500 + "b" * 500, 100)
    assert shorter.startswith("a" * 66) and shorter.endswith("b" * 34) and "900 characters left out" in shorter
