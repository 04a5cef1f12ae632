"""What a run left behind is read as it is: half written, appended to, in other releases' names, or in TensorBoard's files."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path

import made_runs
import pytest

from monitoring import metrics
from monitoring.curves import Curve, Name, curves, parts_of_step
from monitoring.follow import step_lines
from monitoring.reward_log import TRAIN, VALIDATION
from monitoring.run import RunError, names, open_run, read
from monitoring.tail import new_records


def line(step: int, **data: float) -> str:
    return json.dumps({"step": step, "data": data})


def history(path: Path, *lines: str, end: str = "\n") -> metrics.History:
    path.write_text("\n".join(lines) + end)
    return read(open_run(path)).metrics


def test_a_broken_last_line_is_still_being_written(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(line(1, a=1.0) + "\n" + line(2, a=2.0)[:-9])
    run = read(open_run(path), final=False)
    assert run.metrics == {1: {"a": 1.0}}
    path.write_text(line(1, a=1.0) + "\n" + line(2, a=2.0))
    assert read(run, final=False).metrics == {1: {"a": 1.0}}
    with path.open("a") as file:
        file.write("\n" + line(3, a=3.0) + "\n")
    assert read(run, final=False).metrics == {1: {"a": 1.0}, 2: {"a": 2.0}, 3: {"a": 3.0}}


def test_a_last_line_without_its_newline_counts_once_the_run_is_over(tmp_path: Path) -> None:
    assert history(tmp_path / "m.jsonl", line(1, a=1.0), line(2, a=2.0), end="") == {1: {"a": 1.0}, 2: {"a": 2.0}}
    assert history(tmp_path / "n.jsonl", line(1, a=1.0), line(2, a=2.0)[:-3], end="") == {1: {"a": 1.0}}


def test_the_torn_line_of_a_killed_run_does_not_hide_what_follows(tmp_path: Path) -> None:
    torn = line(7, a=7.0)[:20]
    assert history(tmp_path / "m.jsonl", line(6, a=6.0), torn + line(7, a=7.5)) == {6: {"a": 6.0}, 7: {"a": 7.5}}
    assert history(tmp_path / "n.jsonl", line(6, a=6.0), "\x00\x00garbage", "[]", "null", "3", line(7, a=7.5))[7] == {"a": 7.5}


def test_of_a_resumed_run_the_later_line_wins(tmp_path: Path) -> None:
    first = [line(step, a=1.0, b=1.0) for step in range(1, 10)]
    second = [line(5, val=2.0), *(line(step, a=2.0) for step in (6, 7))]
    found = history(tmp_path / "m.jsonl", *first, *second)
    assert list(found) == [1, 2, 3, 4, 5, 6, 7]
    assert found[5] == {"a": 1.0, "b": 1.0, "val": 2.0}  # validated again before it went on
    assert found[6] == {"a": 2.0}
    assert found[7] == {"a": 2.0}


def test_a_shorter_file_is_read_from_its_start(tmp_path: Path) -> None:
    """veRL's logger empties the file when a run is resumed."""
    path = made_runs.write(tmp_path / "m.jsonl", [line(step, a=1.0) for step in range(1, 10)])
    run = read(open_run(path))
    made_runs.write(path, [line(6, a=2.0)])
    assert read(run).metrics == {**{step: {"a": 1.0} for step in range(1, 6)}, 6: {"a": 2.0}}


def test_what_is_no_number_is_passed_over_and_null_is_nan(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(
        '{"step": 1, "data": {"a": null, "b": "x", "c": [1], "d": true, "e": NaN, "f": 1%s}}\n{"step": "2", "data": {"a": 1}}\n'
        % ("0" * 400)
    )
    (row,) = read(open_run(path)).metrics.values()
    assert math.isnan(row["a"]) and math.isnan(row["e"]) and row["d"] == 1.0 and set(row) == {"a", "d", "e"}


def test_verl_writes_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of veRL's own loggers, one run each: the same curves."""
    tracking = pytest.importorskip("verl.utils.tracking")
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / "a" / "metrics.jsonl"))
    monkeypatch.setenv("TENSORBOARD_DIR", str(tmp_path / "b" / "tensorboard"))
    (tmp_path / "a").mkdir()
    loggers = [tracking.FileLogger("p", "e"), tracking._TensorboardAdapter("p", "e")]
    for step in range(1, 8):
        data = {"critic/score/mean": step / 8, "actor/pg_loss": math.nan if step == 3 else 0.5}
        for logger in loggers:
            logger.log(data, step)
    for logger in loggers:
        logger.finish()
    resumed = tracking._TensorboardAdapter("p", "e")  # a second file, from step 6 on
    resumed.log({"critic/score/mean": 0.25, "actor/pg_loss": 0.5}, 6)
    resumed.finish()
    plain, events = (curves(read(open_run(tmp_path / name))) for name in "ab")
    assert plain[Name("score")] == Curve((1, 2, 3, 4, 5, 6, 7), tuple(step / 8 for step in range(1, 8)))
    assert events[Name("score")] == Curve((1, 2, 3, 4, 5, 6), (*(step / 8 for step in range(1, 6)), 0.25))
    assert math.isnan(plain[Name("actor_loss")].values[2]) and math.isnan(events[Name("actor_loss")].values[2])


def test_an_event_file_that_is_being_written(tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path / "tensorboard"))
    for step in (1, 2, 3):
        value = Summary.Value(tag="critic/score/mean", simple_value=step / 4)
        writer.add_event(Event(wall_time=float(step), step=step, summary=Summary(value=[value])))
    writer.close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    assert curves(read(open_run(tmp_path)))[Name("score")] == Curve((1, 2), (0.25, 0.5))
    assert curves(read(open_run(tmp_path / "tensorboard")))[Name("score")].steps == (1, 2)


RELEASE = """
import json, numpy, torch
from verl import DataProto
from verl.trainer.ppo import metric_utils
ones = torch.ones(4, 6, dtype=torch.int64)
tensors = {name: torch.rand(4, 6) for name in ("token_level_scores", "token_level_rewards", "advantages", "returns", "values")}
tensors |= {"prompts": ones, "responses": ones, "response_mask": ones, "attention_mask": torch.ones(4, 12, dtype=torch.int64)}
batch = DataProto.from_dict(tensors=tensors)
row = metric_utils.compute_data_metrics(batch, use_critic=True)
row |= metric_utils.compute_timing_metrics(batch, {"gen": 5.0, "update_actor": 2.0, "step": 9.0})
validation = metric_utils.process_validation_metrics(["a/b"] * 4, list("abcd"), {"pass_rate": [0.5] * 4, "acc": [0.0] * 4})
row |= {f"val-core/a/b/{name}/{k}": v for name, values in validation["a/b"].items() for k, v in values.items()}
print(json.dumps({"step": 1, "data": {name: float(value) for name, value in row.items()}}))
"""


@pytest.mark.parametrize("version", ["0.7.1", "0.8.0", "0.9.1"])
def test_the_names_of_verls_releases(version: str, verl_release, tmp_path: Path) -> None:
    """The release's own functions name the metrics; the losses and the KL are named in its workers, which need a GPU."""
    release = verl_release(version)
    done = subprocess.run(
        [sys.executable, "-c", RELEASE],
        env={"PYTHONPATH": str(release), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    made_runs.write(tmp_path / "metrics.jsonl", [done.stdout.splitlines()[-1]])
    found = curves(read(open_run(tmp_path)))
    train = {"score", "explained_variance", "length", "clip_ratio", "step_seconds", "seconds/gen"}
    assert train <= {name.figure for name in found if name.split == TRAIN}
    assert found[Name("pass_rate", VALIDATION, "a/b")].values == (0.5,)
    assert found[Name("seconds/other")].values == (2.0,)


def test_the_parts_of_a_step_add_up() -> None:
    inside = {"timing_s/gen": 4.0, "timing_s/update_actor": 3.0, "timing_s/testing": 2.0, "timing_s/step": 10.0}
    assert parts_of_step(inside) == {"gen": 4.0, "update_actor": 3.0, "testing": 2.0, "other": 1.0}
    outside = {**inside, "timing_s/step": 7.5}  # the step's timer of 0.9 stops before validation
    assert parts_of_step(outside) == {"gen": 4.0, "update_actor": 3.0, "testing": 2.0, "other": 0.5}


def test_the_reward_log_gives_what_verl_does_not_log(tmp_path: Path) -> None:
    found = curves(read(open_run(made_runs.make(tmp_path))))
    assert found[Name("pass_rate")].steps == tuple(range(1, 41))
    assert found[Name("format")].values[:3] == pytest.approx((0.45, 0.5, 0.55))
    assert found[Name("pass_rate", TRAIN, "taco")].values == pytest.approx(found[Name("pass_rate")].values)
    assert found[Name("share/TLE")].values[0] == pytest.approx(0.02)
    assert found[Name("tests_per_second")].values[0] == pytest.approx(20 * 10 / 1.95)  # from the first start to the last end
    assert found[Name("queue_seconds")].values[0] == pytest.approx(0.01)
    assert found[Name("reward_wait")].values[0] == pytest.approx(0.05)
    assert Name("groups_alike") not in found  # one response a prompt


def test_the_wait_for_the_reward_is_from_the_last_response_to_the_last_verdict(tmp_path: Path) -> None:
    times = [{"time": 100.0, "wall_seconds": 5.0}, {"time": 99.0, "wall_seconds": 0.5}, {"time": 97.0, "wall_seconds": 1.0}]
    for process, fields in enumerate(times):  # the second came last, at 98.5; the first ended last
        line = json.dumps({"step": 1, "data_source": "x", "score": 1.0, "tests": 1, **fields})
        made_runs.write(tmp_path / "reward_log" / f"host-{process}.jsonl", [line])
    found = curves(read(open_run(tmp_path)))
    assert found[Name("reward_wait")].values == pytest.approx((1.5,))
    assert step_lines(found, 1)[0].endswith("reward_wait=1.5s")


def test_a_log_that_counts_from_0_is_set_right(tmp_path: Path) -> None:
    """veRL 0.9 gives the reward the number of the weights that generated: one less than the step."""
    made_runs.write(tmp_path / "metrics.jsonl", made_runs.metrics_lines(range(1, 4)))
    log = [text for step in (1, 2, 3) for text in made_runs.log_lines(step - 1)]
    log += [json.dumps({"step": 0, "split": "validation", "data_source": "x", "pass_rate": 0.5, "score": 0.5})]
    made_runs.write(tmp_path / "reward_log" / "host-1.jsonl", log)
    found = curves(read(open_run(tmp_path)))
    assert found[Name("pass_rate")].steps == (1, 2, 3)
    assert found[Name("pass_rate", VALIDATION, "x")].steps == (0,)


def test_a_step_that_was_judged_again_after_a_resume_counts_once(tmp_path: Path) -> None:
    made_runs.write(tmp_path / "metrics.jsonl", made_runs.metrics_lines(range(1, 10)))
    log = tmp_path / "reward_log"
    for worker in (1, 2):  # killed in step 9, resumed after step 5
        made_runs.write(
            log / f"host-{worker}.jsonl", [t for step in range(1, 10) for t in made_runs.log_lines(step, pass_rate=0.0)]
        )
    late = 10_000.0
    for worker in (3, 4):
        again = [json.loads(t) for step in range(6, 10) for t in made_runs.log_lines(step, pass_rate=1.0)]
        made_runs.write(log / f"host-{worker}.jsonl", [json.dumps({**r, "time": r["time"] + late}) for r in again])
    found = curves(read(open_run(tmp_path)))
    assert found[Name("pass_rate")].values == (0.0,) * 5 + (1.0,) * 4


def test_the_step_under_way_is_not_drawn(tmp_path: Path) -> None:
    run = made_runs.make(tmp_path, 3)
    with (run / "reward_log" / "host-1.jsonl").open("a") as log:
        log.write(made_runs.log_lines(4)[0] + "\n")
    assert curves(read(open_run(run)))[Name("pass_rate")].steps == (1, 2, 3)


def test_without_a_log_verls_dump_of_the_samples_is_read(tmp_path: Path) -> None:
    """As veRL 0.8 writes it, with the reward's own numbers."""
    made_runs.write(tmp_path / "metrics.jsonl", made_runs.metrics_lines(range(1, 3)))
    for step in (1, 2):
        sample = {"input": "p", "output": "o", "gts": "{}", "score": 0.5, "step": step, "pass_rate": 0.5, "format": 1.0}
        other = {**sample, "score": 0.0, "pass_rate": 0.0, "wrong_answer": 1.0}
        made_runs.write(
            tmp_path / "rollouts" / f"{step}.jsonl", [json.dumps({**sample, "wrong_answer": 0.5}), json.dumps(other)]
        )
    found = curves(read(open_run(tmp_path)))
    assert found[Name("pass_rate")] == Curve((1, 2), (0.25, 0.25))
    assert found[Name("share/WA")].values == (0.75, 0.75)
    assert found[Name("groups_alike")].values == (0.0, 0.0)


def test_rotated_and_packed_logs_are_read(tmp_path: Path) -> None:
    made_runs.write(tmp_path / "reward_log" / "host-1.jsonl", made_runs.log_lines(1))
    with gzip.open(tmp_path / "reward_log" / "host-1.1.jsonl.gz", "wt") as file:
        file.write("\n".join(made_runs.log_lines(2)) + "\n")
    assert curves(read(open_run(tmp_path)))[Name("pass_rate")].steps == (1, 2)
    assert len(list(new_records(tmp_path / "reward_log" / "host-1.1.jsonl.gz", {}))) == made_runs.RESPONSES


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:-30] + b"x" * 30, lambda _: b"junk"])
def test_of_a_damaged_packed_log_what_can_be_read_is(damage, tmp_path: Path) -> None:
    made_runs.write(tmp_path / "reward_log" / "host-1.jsonl", made_runs.log_lines(1))
    packed = gzip.compress("".join(f"{line}\n" for line in made_runs.log_lines(2)).encode())
    (tmp_path / "reward_log" / "host-1.1.jsonl.gz").write_bytes(damage(packed))
    assert 1 in curves(read(open_run(tmp_path)))[Name("pass_rate")].steps


def test_a_reward_log_alone_is_a_run(tmp_path: Path) -> None:
    made_runs.write(tmp_path / "reward_log" / "host-1.jsonl", made_runs.log_lines(1) + made_runs.log_lines(2))
    assert curves(read(open_run(tmp_path)))[Name("score")].steps == (1, 2)


def test_strange_fields_in_the_log_are_no_error(tmp_path: Path) -> None:
    strange = [
        {"step": 1},
        {"step": None, "score": 1.0},
        {"step": True},
        {"step": 1, "verdicts": "AC", "tests": None, "time": "late", "score": "nan", "split": 3, "index": [1]},
        {"step": 1, "verdicts": {"AC": None, "XX": 1, "": -1}, "pass_rate": math.inf, "queue_seconds": None},
        {"step": 1, "verdicts": {"AC": 10**400}, "pass_rate": 10**400, "time": 10**400, "score": -(10**400)},
    ]
    made_runs.write(tmp_path / "reward_log" / "h-1.jsonl", [json.dumps(record) for record in strange])
    assert Name("pass_rate") not in curves(read(open_run(tmp_path)))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "nothing is logged yet"),
        (lambda path: path.touch(), "is empty"),
        (lambda path: made_runs.make(path / "one", 1), "some in it: name one or several of one,"),
        (lambda path: path.write_text("loss: 3\n"), "file logger"),
        (lambda path: path.write_bytes(b"\x89PNG\r\n\x00" * 50), "file logger"),
    ],
)
def test_what_is_no_run_is_said_in_one_sentence(make, word: str, tmp_path: Path) -> None:
    make(tmp_path / "run")
    with pytest.raises(RunError, match=word):
        read(open_run(tmp_path / "run"))


def test_runs_are_named_so_that_they_can_be_told_apart(tmp_path: Path) -> None:
    paths = [made_runs.make(tmp_path / name, 1) for name in ("a/run", "b/run")]
    assert names([open_run(path) for path in paths]) == ["a/run", "b/run"]
    assert names([open_run(paths[0])]) == ["run"]
