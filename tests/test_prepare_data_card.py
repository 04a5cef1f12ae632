"""The card beside the parquet, lengths, and a look at single rows."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from leftovers import wait_until
from raw_rows import MATH, good_rows, raw_row, run, snapshot, source_folder, write_parquet, written

from preparation import card, lengths
from preparation.prompts import build_prompt
from preparation.reading import DataError

ROOT = Path(__file__).resolve().parent.parent
CALL = {"fn_name": "twice", "inputs": [[3], [4]], "outputs": [[6], [8]]}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    others = [raw_row("Return twice n.", CALL, data_source="apps"), raw_row("No tests.", {"inputs": [], "outputs": []})]
    return source_folder(tmp_path / "raw", [*good_rows(4), MATH, *others, raw_row("word " * 3000)])


def test_the_card_adds_up(raw: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("--source", raw, "--out", out, "--num-train", 3, "--seed", 7) == 0
    made = json.loads((out / "card.json").read_text())
    for split in ("train", "validation"):
        (file,) = made["source"][split]
        raw_bytes = (raw / f"{split}.parquet").read_bytes()
        assert file["sha256"] == hashlib.sha256(raw_bytes).hexdigest() and file["file"] == f"{split}.parquet"
    assert made["options"]["seed"] == 7 and made["options"]["max-prompt-tokens"] == 512
    for name, file in made["files"].items():
        data = (out / name).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert file["rows"] == len(written(out, name.removesuffix(".parquet")))
    train = made["splits"]["train"]
    assert train["rows read"] == 8 and train["kept"] == 5 and made["files"]["train3.parquet"]["rows"] == 3
    assert train["dropped"] == {"not code": 1, "no tests": 1, "prompt over 512 tokens": 1}
    assert train["data sources"] == {
        "apps": {"code rows read": 1, "kept": 1},
        "taco": {"code rows read": 6, "kept": 4},
    }
    assert train["tests"]["tests a problem"] == {"0%": 2, "50%": 2, "90%": 2, "99%": 2, "100%": 2}
    assert train["tests"]["call-based problems"] == 1 and train["tests"]["bytes a test"]["0%"] == 4
    tokens = train["prompt tokens"]
    assert sum(tokens["histogram"].values()) == 6 and tokens["histogram"]["2048 or more"] == 1
    assert tokens["share over"] == {"512": 0.1667, "1024": 0.1667, "2048": 0.1667}
    assert len(made["samples"]) == 3 and all(sample["tests"] == 2 for sample in made["samples"])


def test_the_card_can_be_read_and_names_no_place(raw: Path, tmp_path: Path) -> None:
    assert run("--source", raw, "--out", tmp_path / "out") == 0
    text = (tmp_path / "out" / "card.md").read_text()
    for heading in ("# Data card", "## Source", "## Options", "## Files", "## Rows", "## Tests", "## Prompt lengths"):
        assert f"\n{heading}\n" in f"\n{text}"
    assert text.count("\n### taco, index") + text.count("\n### apps, index") == 3
    assert str(tmp_path) not in text + (tmp_path / "out" / "card.json").read_text()


def test_every_file_is_the_same_in_another_place(raw: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        source_folder(tmp_path / name / "raw", good_rows(30))
        assert run("--source", tmp_path / name / "raw", "--out", tmp_path / name / "out", "--num-train", 9) == 0
    assert snapshot(tmp_path / "a" / "out") == snapshot(tmp_path / "b" / "out")
    assert len(snapshot(tmp_path / "a" / "out")) == 6


def test_a_fence_in_a_statement_does_not_end_the_cards() -> None:
    assert card.fenced("a\n```\nb\n````") == ["`````", "a\n```\nb\n````", "`````"]


def test_tenths() -> None:
    counted = {name: number for name, number in card.tenths([0, 0.04, 0.1, 0.99, 1, 1]).items() if number}
    assert counted == {"0": 1, "0.0-0.1": 1, "0.1-0.2": 1, "0.9-1.0": 1, "1": 2}


# ---- lengths


def test_histogram_and_shares() -> None:
    values = [0, 127, 128, 512, 513, 2048, 9999]
    assert lengths.histogram(values) == {"0-127": 2, "128-255": 1, "512-639": 2, "2048 or more": 2}
    shares = {limit: round(share * 7) for limit, share in lengths.shares_over(values).items()}
    assert shares == {512: 3, 1024: 2, 2048: 1}
    assert lengths.quantiles(range(101)) == {"0%": 0, "50%": 50, "90%": 90, "99%": 99, "100%": 100}
    assert lengths.quantiles([]) == {} and lengths.shares_over([]) == {512: 0, 1024: 0, 2048: 0}
    assert list(lengths.bars({"0-127": 80, "128-255": 1}))[1].endswith(" #")


def test_exact_lengths_are_the_tokens_of_each_prompt_alone(tiny_model: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    prompts = [build_prompt("Add it. " * k, "f" if k % 3 == 0 else None) for k in range(1, 60)]
    single = [
        len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False))
        for prompt in prompts
    ]
    assert lengths.token_counter(str(tiny_model))(prompts) == single


def test_a_batch_is_encoded_by_other_threads_than_this_one(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what makes it parallel; CPU time, so a busy machine does not matter."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")  # what veRL switches off where other tests have imported it
    count = lengths.token_counter(str(tiny_model))
    prompts = [build_prompt("Add the numbers. " * 200, None)] * 64
    count(prompts[:1])
    in_all, in_this_one = time.process_time(), time.thread_time()
    count(prompts)
    assert time.thread_time() - in_this_one < (time.process_time() - in_all) / 2


def test_a_process_of_its_own_counts_the_same(tiny_model: Path) -> None:
    prompts = [build_prompt("Add it. " * k, None) for k in range(1, 40)]
    for tokenizer in (str(tiny_model), None):
        with lengths.counting_process(tokenizer) as count:
            assert count(prompts) == lengths.token_counter(tokenizer)(prompts)
            assert len(multiprocessing.active_children()) == (tokenizer is not None)
        assert not multiprocessing.active_children()


def test_the_counting_process_ends_in_a_sentence(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be used"), lengths.counting_process(str(tmp_path)):
        pass
    with lengths.counting_process(str(tiny_model)) as count:
        (process,) = multiprocessing.active_children()
        process.kill()
        with pytest.raises(DataError, match="has ended with code -9"):
            count([build_prompt("Add it.", None)])


def test_the_counting_process_does_not_outlive_its_owner(tiny_model: Path) -> None:
    code = """if __name__ == "__main__":
    import multiprocessing, os, signal
    from preparation import lengths
    with lengths.counting_process({!r}):
        print(multiprocessing.active_children()[0].pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""
    owner = subprocess.run([sys.executable, "-c", code.format(str(tiny_model))], cwd=ROOT, capture_output=True, text=True)
    assert owner.returncode == -signal.SIGKILL
    assert wait_until(lambda: not Path(f"/proc/{int(owner.stdout)}").exists())


# ---- a look at a row


def view(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run("--inspect", *arguments) == 0
    return capsys.readouterr().out


def test_a_row_as_a_person_reads_it(raw: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--source", raw, "--out", tmp_path / "out") == 0
    capsys.readouterr()
    text = view(capsys, tmp_path / "out" / "train.parquet", "--tokenizer", tiny_model)
    assert "row 1 of 5" in text and "data source taco" in text and "index 0" in text and "Judged by 2 runs" in text
    for part in ("---- system", "---- user", "test 1 of 2, input\n3\n", "test 2 of 2, expected\n-8\n"):
        assert part in text
    rendered = text.partition("what the chat template of")[2]
    assert "<|im_start|>system" in rendered and "<|im_start|>assistant" in rendered
    assert "Double the number, variant 0." in rendered


def test_a_row_is_found_by_its_index(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--source", raw, "--out", tmp_path / "out") == 0
    capsys.readouterr()
    text = view(capsys, tmp_path / "out" / "train.parquet", "--index", 5)
    assert "row 5 of 5" in text and "2 calls of twice" in text and "test 1 of 2, expected\n[6]\n" in text
    assert run("--inspect", tmp_path / "out" / "train.parquet", "--index", 4) == 1
    assert "has no row of index 4; the indices in it are from 0 to 5, not all of them" in capsys.readouterr().err


@pytest.mark.parametrize("index", ["-1", "99999999999999999999"])
def test_an_index_that_no_row_can_have(index: str, raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--inspect", raw / "train.parquet", "--index", index) == 1
    assert f"has no row of index {index}" in capsys.readouterr().err


def test_an_index_of_text_is_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_parquet(tmp_path / "train.parquet", [raw_row("Double it.", extra_info={"index": "a"})])
    assert run("--inspect", path, "--index", 0) == 1
    assert "has no row of index 0" in capsys.readouterr().err


def test_what_a_terminal_would_obey_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = raw_row("\x1b[2J题目\r\nb\u202ec\x07", {"inputs": ["\x00\t"], "outputs": ["\x9b1m"]})
    text = view(capsys, write_parquet(tmp_path / "train.parquet", [row]))
    assert "\\x1b[2J题目\\r\nb\\u202ec\\x07" in text and "\\x00\t" in text and "\\x9b1m" in text


def test_a_reader_that_has_seen_enough(raw: Path) -> None:
    command = f"{sys.executable} prepare_data.py --inspect {raw / 'train.parquet'} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "0\n" and done.stderr == ""


@pytest.mark.parametrize(("name", "words"), [("ISOLATION", "CODE_REWARD_ISOLATION=none such"), ("TIMEOUT", "option timeout")])
def test_a_reward_that_cannot_work(name: str, words: str, raw: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("print(1)")
    command = [sys.executable, "prepare_data.py", "--inspect", raw / "train.parquet", "--program", tmp_path / "mine.py"]
    environment = {**os.environ, f"CODE_REWARD_{name}": "none such"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1


def test_rows_without_an_index_are_not_found_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_parquet(tmp_path / "train.parquet", [raw_row("Double it.", extra_info={"split": "train"})])
    assert "Double it." in view(capsys, path)
    assert run("--inspect", path, "--index", 0) == 1
    assert "has no column extra_info.index" in capsys.readouterr().err


def test_rows_of_every_row_group_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [raw_row(f"Problem {k}.", extra_info={"index": 100 + k, "split": "train"}) for k in range(10)]
    path = write_parquet(tmp_path / "train.parquet", rows, row_group_size=3)
    for k in range(10):
        assert f"Problem {k}." in view(capsys, path, "--index", 100 + k)


@pytest.mark.parametrize("column", ["prompt", "reward_model", "extra_info"])
@pytest.mark.parametrize("value", [None, "text", 7, ["text", None], [{"name": "text"}]])
def test_any_row_can_be_looked_at(column: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_parquet(tmp_path / "train.parquet", [{**raw_row("Double it."), column: value}])
    assert ("Its tests cannot be used" if column == "reward_model" else "Judged by 2 runs") in view(capsys, path)


@pytest.mark.parametrize(
    ("program", "verdicts", "rate"),
    [
        ("print(2 * int(input()))", ["AC", "AC"], "1.000"),
        ("print(2 * abs(int(input())))", ["AC", "WA"], "0.500"),
        ("print(", ["CE", "CE"], "0.000"),
    ],
)
def test_a_program_is_judged_on_the_row(
    program: str, verdicts: list[str], rate: str, raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--source", raw, "--out", tmp_path / "out") == 0
    (tmp_path / "mine.py").write_text(program)
    capsys.readouterr()
    text = view(capsys, tmp_path / "out" / "train.parquet", "--program", tmp_path / "mine.py")
    judged = text.partition("mine.py judged\n")[2].splitlines()
    assert [line.split()[1] for line in judged[:-1]] == verdicts
    assert judged[-1].endswith(f"pass rate {rate}")


def test_the_rows_own_checker_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checker = "def check(input, expected, output):\n    return output.split() == expected.split()[::-1]\n"
    row = raw_row("Print them backwards.", {"inputs": ["x"], "outputs": ["1 2"]}, extra_info={"index": 3, "checker": checker})
    path = write_parquet(tmp_path / "train.parquet", [row])
    (tmp_path / "mine.py").write_text("print(2, 1)")
    text = view(capsys, path, "--program", tmp_path / "mine.py")
    assert "def check(" in text and "passed 1 of 1" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.parquet"], "is not a file"),
        (["card.md"], "is not a parquet file with the columns"),
        (["train.parquet", "--program", "nowhere.py"], "nowhere.py cannot be read"),
        (["train.parquet", "--tokenizer", "nowhere"], "--tokenizer nowhere cannot be used"),
    ],
)
def test_what_cannot_be_shown(
    arguments: list[str], words: str, raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    assert run("--source", raw, "--out", tmp_path / "out") == 0
    monkeypatch.chdir(tmp_path / "out")
    capsys.readouterr()
    assert run("--inspect", *arguments) == 1
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1 and "nothing in" not in error


@pytest.mark.parametrize("arguments", [["--index", "3"], ["--program", "x.py"]])
def test_options_of_a_look_without_a_look(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2 and "--inspect" in capsys.readouterr().err
