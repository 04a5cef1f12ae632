"""prepare_data.py: from raw rows in the layouts of Eurus-2 to what veRL's own dataset class reads."""

from __future__ import annotations

import datetime
import decimal
import errno
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_rows import (
    CLOSING,
    DOUBLE,
    MATH,
    files_written,
    good_rows,
    raw_row,
    run,
    snapshot,
    source_folder,
    table,
    write_jsonl,
    write_parquet,
    written,
)

from preparation import lengths, writing
from preparation.cleaning import Rules, clean, is_cut_off
from preparation.prompts import (
    CODE_GEN_SYSTEM,
    CODE_GEN_USER_TEMPLATE,
    build_prompt,
    strip_closing_instruction,
    user_message,
)
from preparation.reading import DataError
from verifier import ground_truth

ROOT = Path(__file__).resolve().parent.parent
OUTPUTS = ["card.json", "card.md", "duplicates.jsonl", "train.parquet", "train1000.parquet", "validation.parquet"]
SQUARE_SUM = "Print the sum of the squares of n numbers.\n\n-----Input-----\nn, then n numbers.\n\n-----Output-----\nThe sum."


# ---- prompts


def test_prompt_is_one_system_and_one_user_message() -> None:
    messages = build_prompt(SQUARE_SUM, None)
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"] == CODE_GEN_SYSTEM == "You are a competitive programming assistant."
    assert messages[1]["content"] == CODE_GEN_USER_TEMPLATE.format(problem=SQUARE_SUM)
    assert messages[1]["content"].endswith("\n\n" + SQUARE_SUM)
    for words in ("stdin", "stdout", "only one Python code block", "no explanations"):
        assert words in messages[1]["content"]


def test_call_based_prompt_names_the_function_and_does_not_ask_for_stdin() -> None:
    user = build_prompt("Tell whether n is magic.", "isMagic")[1]["content"]
    assert "`isMagic`" in user and "return" in user and "must not read stdin" in user
    assert "reads from stdin" not in user and "writes to stdout" not in user


def test_braces_in_a_statement_stay() -> None:
    assert "print {x} and {{y}} {0}" in build_prompt("print {x} and {{y}} {0}", None)[1]["content"]
    assert "print {x} and {{y}} {0}" in build_prompt("print {x} and {{y}} {0}", "f")[1]["content"]


@pytest.mark.parametrize(
    "closing",
    [
        CLOSING,
        CLOSING + "\n",
        CLOSING.replace(" \n```", "\n```"),
        CLOSING.replace("\n", "\r\n"),
        CLOSING.replace("\n\n", "\n"),
        CLOSING.replace("\nat the end.", " at the end"),
        CLOSING.replace("```python\n", "```python \n\n"),
        "",
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        SQUARE_SUM,
        "Print what\n```\nis in this fence that never closes",
        "Your code is a number. Write Python code to solve the problem. Present the code in a letter.",
        f"Print this text:{CLOSING}\n\nNothing else.",
        "Example:\n```python\nprint(1)\n```",
    ],
)
def test_only_the_closing_instruction_goes(statement: str, closing: str) -> None:
    assert strip_closing_instruction(statement + closing) == statement


def test_stripping_a_hostile_text_takes_no_time() -> None:
    started = time.monotonic()
    text = ("Write Python code to solve the problem. Present the code in" + " " * 2000) * 100
    assert strip_closing_instruction(text) == text.strip()
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Double it.", "Double it."),
        ("5", "5"),
        (
            '{"role": "user", "content": "an object, not a conversation"}',
            '{"role": "user", "content": "an object, not a conversation"}',
        ),
        ('[{"role": "system", "content": "s"}, {"role": "user", "content": "Double it."}]', "Double it."),
        ([{"role": "user", "content": "Double it."}], "Double it."),
        (np.array([{"role": "system", "content": "s"}, {"role": "user", "content": "Double it."}]), "Double it."),
        ("[" * 100_000, "[" * 100_000),
        ("[1, 2]", None),
        ([], None),
        (None, None),
        (3, None),
        ([{"role": "system", "content": "s"}], None),
        ([{"role": "user", "content": None}], None),
        ([{"role": "user", "content": [{"type": "text", "text": "a part"}]}], None),
        ([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], None),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], None),
    ],
)
def test_user_message(prompt: object, expected: str | None) -> None:
    assert user_message(prompt) == expected


# ---- one row


def test_the_four_layouts(tmp_path: Path) -> None:
    truths = [
        json.dumps({"inputs": ["3", "4"], "outputs": ["6", "8"]}, separators=(",", ":")),
        json.dumps(DOUBLE, indent=1),
        json.dumps({"fn_name": "twice", "inputs": [[3], [4]], "outputs": [[6], [8]]}),
        json.dumps({"fn_name": "twice", "inputs": ["3", "4"], "outputs": ["6", "8"]}),
    ]
    rows = [raw_row(f"Problem {k}.", truth, data_source=f"source{k}") for k, truth in enumerate(truths)]
    source_folder(tmp_path / "raw", [MATH, *rows])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    out = written(tmp_path / "out")
    call = json.dumps({"fn_name": "twice", "inputs": ["3", "4"], "outputs": ["[6]", "[8]"]})  # 6 or [6], as before
    stored = [truths[0], truths[1], call, truths[3]]  # those on stdin letter by letter
    assert [row["reward_model"] for row in out] == [{"style": "rule", "ground_truth": truth} for truth in stored]
    assert [row["data_source"] for row in out] == ["source0", "source1", "source2", "source3"]
    assert [row["extra_info"] for row in out] == [
        {"index": k + 1, "split": "train", "fn_name": "twice" if k > 1 else "", "num_tests": 2, "checker": ""} for k in range(4)
    ]
    assert [row["prompt"] for row in out] == [build_prompt(f"Problem {k}.", "twice" if k > 1 else None) for k in range(4)]
    assert written(tmp_path / "out", "validation")[0]["extra_info"]["split"] == "validation"


LONG = "word " * 500
DROPPED = {
    "not code": MATH,
    "prompt is not one user message": raw_row("", prompt=[{"role": "system", "content": "alone"}]),
    "no problem statement": raw_row("\n "),
    "no tests": raw_row("a", {"inputs": [], "outputs": []}),
    "ground truth is not JSON": raw_row("b", '{"inputs": ["1"], "outp'),
    "ground truth is not inputs and outputs": raw_row("c", [["1"], ["2"]]),
    "inputs and outputs differ in number": raw_row("d", {"inputs": ["1", "2"], "outputs": ["1"]}),
    "tests cannot be read": raw_row("e", {"inputs": ["1"], "outputs": [None]}),
    "every expected output is empty": raw_row("f", {"inputs": ["1", "2"], "outputs": ["", "\n"]}),
    "every test is cut off ('...')": raw_row("g", {"inputs": ["1", "2 3 ..."], "outputs": ["1 2 ...", "5"]}),
    "prompt over 512 tokens": raw_row(LONG),
}


@pytest.mark.parametrize("reason", DROPPED)
def test_each_reason_to_drop(reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = good_rows(2)
    source_folder(tmp_path / "raw", [good[0], DROPPED[reason], good[1]])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert [row["extra_info"]["index"] for row in written(tmp_path / "out")] == [0, 2]
    counts = table(capsys.readouterr().out)
    assert counts["rows read"] == [3, 2] and counts["kept"] == [2, 1] and counts[reason][0] == 1


@pytest.mark.parametrize("missing", [None, "", "null", "{}"])
def test_a_row_without_ground_truth_is_dropped(missing: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = raw_row("a", reward_model={"ground_truth": missing, "style": "rule"})
    source_folder(tmp_path / "raw", [*good_rows(1), row])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert table(capsys.readouterr().out)["no tests"] == [1, 0]


@pytest.mark.parametrize("value", [decimal.Decimal("1.5"), datetime.date(2020, 1, 1), b"\xff"])
def test_a_ground_truth_that_json_cannot_hold_drops_its_row(value: object, tmp_path: Path) -> None:
    odd = raw_row("a", reward_model={"ground_truth": {"inputs": [value], "outputs": [value]}})
    first = write_parquet(tmp_path / "raw" / "train-0.parquet", good_rows(2))
    write_parquet(first.with_name("train-1.parquet"), [odd])
    write_parquet(first.with_name("validation.parquet"), [raw_row("Halve it.")])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert len(written(tmp_path / "out")) == 2


@pytest.mark.parametrize(
    ("stored", "num_tests"),
    [
        (DOUBLE, 2),
        (json.dumps(DOUBLE).encode(), 2),
        ({side: [text.encode() for text in DOUBLE[side]] for side in DOUBLE}, 2),
        ([{"input": "3", "output": "6"}], 1),
        ('[{"input": "3", "output": "6"}, {"input": "1 2 ...", "output": "1"}]', 1),
    ],
)
def test_ground_truth_of_other_types_becomes_a_json_string(stored: object, num_tests: int, tmp_path: Path) -> None:
    source_folder(tmp_path / "raw", [raw_row("a", reward_model={"ground_truth": stored})])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    (row,) = written(tmp_path / "out")
    parsed = ground_truth.parse(row["reward_model"]["ground_truth"])
    assert parsed.tests == ground_truth.parse(stored).tests[:num_tests]
    assert row["extra_info"]["num_tests"] == num_tests and row["reward_model"]["style"] == "rule"


def test_a_reward_model_that_is_no_struct_has_no_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "train.jsonl", [*good_rows(3), raw_row("a", reward_model="6")])
    assert run("--source", tmp_path / "train.jsonl", "--out", tmp_path / "out") == 0
    assert table(capsys.readouterr().out)["no tests"] == [1, 0]


def test_counts_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source_folder(tmp_path / "raw", [*good_rows(5), *DROPPED.values(), MATH], [*good_rows(7)[5:], *list(DROPPED.values())[:3]])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    counts = table(capsys.readouterr().out)
    assert set(DROPPED) < set(counts)
    for split, (read, kept) in enumerate([(17, 5), (5, 2)]):
        assert counts["rows read"][split] == read and counts["kept"][split] == kept
        assert sum(counts[reason][split] for reason in DROPPED) == read - kept


def test_a_string_prompt_becomes_messages(tmp_path: Path) -> None:
    source_folder(tmp_path / "raw", [{**row, "prompt": row["prompt"][1]["content"]} for row in good_rows(3)])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert [row["prompt"] for row in written(tmp_path / "out")] == [
        build_prompt(f"Double the number, variant {k}.", None) for k in range(3)
    ]


def test_text_that_is_not_unicode_is_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*good_rows(3), raw_row("half a pair \ud83d"), raw_row("x", '{"inputs": ["\ud83d"], "outputs": ["1"]}')]
    write_jsonl(tmp_path / "train.jsonl", rows)
    with (tmp_path / "train.jsonl").open("ab") as file:
        file.write(json.dumps(raw_row("Latin?")).replace("?", "\xe9").encode("latin-1") + b"\n")
    assert run("--source", tmp_path / "train.jsonl", "--out", tmp_path / "out") == 0
    counts = table(capsys.readouterr().out)
    assert counts["rows read"] == [6, 1] and counts["kept"] == [2, 1] and counts["text is not valid Unicode"] == [3, 0]


@pytest.mark.parametrize(
    "text",
    ["1 2 3 ...", "1\n2 3 4...\n", "1\n2\n...", "...", "y " * 200 + "...", "a" * 500 + "...", "3\n" + "ab" * 250 + "..."],
)
def test_cut_off(text: str) -> None:
    assert is_cut_off(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "1 2 3",
        "RL...",
        "3 3\n#.#\n...",
        "2 5\n.....\n.....",
        "1 5\n.....",
        "12 30\n" + "\n".join(["#" + "." * 29] * 12),
        "Loading... done",
        "1. 2. 3.",
    ],
)
def test_not_cut_off(text: str) -> None:
    assert not is_cut_off(text)


def test_only_the_cut_off_tests_of_a_row_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = {"inputs": ["1\n", "2 2 ...", ["3", "\u00fc"], "4"], "outputs": ["1\n", "4", ["9", "."], "1 2 ..."]}
    picture = {"inputs": ["2 3\n#.#\n..."], "outputs": ["...\n..."]}
    call = {"fn_name": "shorten", "inputs": ['"word 1 ..."'], "outputs": ['"w 1 ..."']}
    source_folder(tmp_path / "raw", [raw_row("a", tests), raw_row("b", picture), raw_row("c", call)])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    first, second, third = written(tmp_path / "out")
    kept = ground_truth.parse(first["reward_model"]["ground_truth"]).tests
    assert kept == tuple(ground_truth.parse(tests).tests[k] for k in (0, 2))
    assert first["extra_info"]["num_tests"] == 2
    assert second["reward_model"]["ground_truth"] == json.dumps(picture)
    assert third["reward_model"]["ground_truth"] == json.dumps(call)
    assert table(capsys.readouterr().out)["tests removed: cut off ('...')"] == [2, 0]

    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--keep-truncated") == 0
    assert written(tmp_path / "out")[0]["reward_model"]["ground_truth"] == json.dumps(tests)


@pytest.mark.parametrize(
    ("words", "several"),
    [
        ("If there are several\nsolutions, you may print any of them.", True),
        ("If there are multiple answers, print any.", True),
        ("Print any valid answer.", True),
        ("The indices may be printed in any order.", True),
        ("Print many lines. Any number may occur several times.", False),
        ("Is there any other company of them all?", False),
    ],
)
def test_several_answers_are_counted_and_dropped_only_on_demand(
    words: str, several: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source_folder(tmp_path / "raw", [*good_rows(1), raw_row(words)])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert table(capsys.readouterr().out).get("statement allows several answers (--drop-multi-answer)", [0])[0] == several
    assert len(written(tmp_path / "out")) == 2
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--drop-multi-answer") == 0
    assert len(written(tmp_path / "out")) == 2 - several


# ---- length


def test_estimated_length_is_four_characters_a_token(tmp_path: Path) -> None:
    statement = "x" * 300
    characters = sum(len(message["content"]) for message in build_prompt(statement, None))
    limit = -(-characters // 4)
    source_folder(tmp_path / "raw", [raw_row(statement), raw_row("short")])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--max-prompt-tokens", limit) == 0
    assert len(written(tmp_path / "out")) == 2
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--max-prompt-tokens", limit - 1) == 0
    assert len(written(tmp_path / "out")) == 1


@pytest.fixture(scope="module")
def chatml_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer with Qwen's chat markup, trained on a few words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([SQUARE_SUM, CODE_GEN_USER_TEMPLATE] * 20, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    fast.save_pretrained(folder)
    return folder


def verl_dataset(path: Path, tokenizer_folder: Path, max_prompt_length: int):
    from omegaconf import OmegaConf
    from verl.utils import hf_tokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    config = OmegaConf.create(
        {
            "prompt_key": "prompt",
            "max_prompt_length": max_prompt_length,
            "filter_overlong_prompts": True,
            "filter_overlong_prompts_workers": 1,
            "return_raw_chat": True,
        }
    )
    return RLHFDataset(data_files=str(path), tokenizer=hf_tokenizer(str(tokenizer_folder)), config=config)


def test_verl_reads_what_was_written(chatml_tokenizer: Path, tmp_path: Path) -> None:
    call = {"fn_name": "twice", "inputs": [[3]], "outputs": [[6]]}
    rows = [raw_row(SQUARE_SUM), MATH, raw_row("Return 2n.", call), *good_rows(3)]
    source_folder(tmp_path / "raw", [*rows, raw_row("Print ```\nYour code, unclosed")])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--tokenizer", chatml_tokenizer) == 0
    for name, size in (("train", 6), ("train1000", 6), ("validation", 1)):
        assert len(verl_dataset(tmp_path / "out" / f"{name}.parquet", chatml_tokenizer, 512)) == size
    dataset = verl_dataset(tmp_path / "out" / "train.parquet", chatml_tokenizer, 512)
    for item, row in zip(dataset, written(tmp_path / "out"), strict=True):
        assert item["raw_prompt"] == row["prompt"] and item["index"] == row["extra_info"]["index"]
        assert item["reward_model"]["ground_truth"] == row["reward_model"]["ground_truth"]
        tokens = dataset.tokenizer.apply_chat_template(item["raw_prompt"], add_generation_prompt=True, return_dict=True)
        text = dataset.tokenizer.decode(tokens["input_ids"])
        assert text.count("<|im_start|>") == 3 and text.count("<|im_end|>") == 2
        assert text.startswith(f"<|im_start|>system\n{CODE_GEN_SYSTEM}<|im_end|>\n<|im_start|>user\n")
        assert text.endswith("<|im_end|>\n<|im_start|>assistant\n") and row["prompt"][1]["content"] in text
        assert "[ASSESS]" not in text and "Present the code in" not in text
    assert SQUARE_SUM in dataset[0]["raw_prompt"][1]["content"]


def test_length_with_a_tokenizer_is_verls_own(chatml_tokenizer: Path, tmp_path: Path) -> None:
    rows = [raw_row("number " * k) for k in range(1, 40, 2)]
    source_folder(tmp_path / "raw", rows)
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "all", "--tokenizer", chatml_tokenizer) == 0
    count = lengths.token_counter(str(chatml_tokenizer))
    limit = sorted(count([row["prompt"] for row in written(tmp_path / "all")]))[10]
    options = ("--tokenizer", chatml_tokenizer, "--max-prompt-tokens", limit)
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "some", *options) == 0
    by_verl = verl_dataset(tmp_path / "all" / "train.parquet", chatml_tokenizer, limit)
    ours = [row["extra_info"]["index"] for row in written(tmp_path / "some")]
    assert ours == [row["index"] for row in by_verl] and len(ours) == 11


def test_prompt_lengths_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source_folder(tmp_path / "raw", [*good_rows(3), raw_row(LONG)])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("prompt tokens"))
    assert "estimated" in line and "over 512: 25.0%" in line and "over 1024: 0.0%" in line


# ---- sources


@pytest.mark.parametrize(
    "layout", ["parquet", "jsonl", "capitals", "data folder, shards", "named files", "two options", "both options"]
)
def test_sources(layout: str, tmp_path: Path) -> None:
    train, validation = [MATH, *good_rows(4)], [raw_row("Halve it."), MATH]
    raw = tmp_path / "raw"
    raw.mkdir()
    arguments: list[object] = ["--source", raw]
    if layout == "parquet":
        source_folder(raw, train, validation)
    elif layout == "jsonl":
        write_jsonl(raw / "train.jsonl", train)
        write_jsonl(raw / "validation.jsonl", validation)
    elif layout == "capitals":
        write_parquet(raw / "train.parquet", train).rename(raw / "TRAIN.PARQUET")
        write_parquet(raw / "val.parquet", validation).rename(raw / "VAL.Parquet")
    elif layout == "data folder, shards":
        write_parquet(raw / "data" / "train-00000-of-00002.parquet", train[:2])
        write_parquet(raw / "data" / "train-00001-of-00002.parquet", train[2:])
        write_parquet(raw / "data" / "validation-00000-of-00001.parquet", validation)
    elif layout == "named files":
        arguments = ["--source", write_parquet(raw / "my_train.parquet", train), write_jsonl(raw / "my_val.jsonl", validation)]
    elif layout == "two options":
        arguments = ["--source", write_parquet(raw / "a.parquet", train)]
        arguments += ["--validation-source", write_jsonl(raw / "b.jsonl", validation)]
    else:
        source_folder(raw, train, validation)
        arguments += ["--validation-source", raw]
    assert run(*arguments, "--out", tmp_path / "out") == 0
    assert files_written(tmp_path / "out") == OUTPUTS
    assert [row["extra_info"]["index"] for row in written(tmp_path / "out")] == [1, 2, 3, 4]
    assert [row["prompt"] for row in written(tmp_path / "out", "validation")] == [build_prompt("Halve it.", None)]


def test_a_source_without_validation_gives_up_a_tenth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_parquet(tmp_path / "rows.parquet", [MATH, *good_rows(40)])
    assert run("--source", source, "--out", tmp_path / "out", "--num-train", 10) == 0
    assert "4 train rows were held out" in capsys.readouterr().out
    train, validation = written(tmp_path / "out"), written(tmp_path / "out", "validation")
    assert len(train) == 36 and len(validation) == 4
    assert {row["extra_info"]["split"] for row in train} == {"train"}
    assert {row["extra_info"]["split"] for row in validation} == {"validation"}
    assert sorted(row["extra_info"]["index"] for row in train + validation) == list(range(1, 41))
    drawn = {row["extra_info"]["index"] for row in written(tmp_path / "out", "train10")}
    assert len(drawn) == 10 and drawn < {row["extra_info"]["index"] for row in train}


def test_a_validation_file_alone_can_be_the_source(tmp_path: Path) -> None:
    assert run("--source", write_parquet(tmp_path / "validation.parquet", good_rows(20)), "--out", tmp_path / "out") == 0
    assert len(written(tmp_path / "out")) == 18 and len(written(tmp_path / "out", "validation")) == 2


@pytest.mark.parametrize("row_group_size", [3, 1000])
def test_row_groups_do_not_shift_the_index(row_group_size: int, tmp_path: Path) -> None:
    rows = [MATH if k % 7 < 4 else raw_row(f"Problem {k}.") for k in range(700)]
    source_folder(tmp_path / "raw", rows)
    write_parquet(tmp_path / "raw" / "train.parquet", rows, row_group_size=row_group_size)
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    out = written(tmp_path / "out")
    assert len(out) == 300
    assert all(row["prompt"] == build_prompt(f"Problem {row['extra_info']['index']}.", None) for row in out)


def test_files_are_written_in_bounded_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 5)
    monkeypatch.setattr(writing, "BATCH_ROWS", 1)
    source_folder(tmp_path / "raw", good_rows(12))
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    groups = pq.ParquetFile(tmp_path / "out" / "train.parquet").metadata
    assert [groups.row_group(k).num_rows for k in range(groups.num_row_groups)] == [5, 5, 2]


# ---- sampling, determinism


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    source_folder(tmp_path / "raw", [*good_rows(60), *DROPPED.values()])
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run("--source", tmp_path / "raw", "--out", tmp_path / name, "--num-train", 20, "--seed", seed) == 0
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")
    drawn = {name: {row["extra_info"]["index"] for row in written(tmp_path / name, "train20")} for name in "ac"}
    assert all(len(indices) == 20 for indices in drawn.values()) and drawn["a"] != drawn["c"]
    assert (tmp_path / "a" / "train.parquet").read_bytes() == (tmp_path / "c" / "train.parquet").read_bytes()


def test_fewer_rows_than_asked_for_are_all_written_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source_folder(tmp_path / "raw", good_rows(5))
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--num-train", 6) == 0
    assert "only 5 train rows are left of the 6 asked for" in capsys.readouterr().out
    assert len(written(tmp_path / "out", "train6")) == 5
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--num-train", 5) == 0
    assert "asked for" not in capsys.readouterr().out


def test_schema_has_exactly_the_columns_of_verl(tmp_path: Path) -> None:
    source_folder(tmp_path / "raw", good_rows(3))
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    for path in (tmp_path / "out").glob("*.parquet"):
        schema = pq.read_schema(path)
        assert schema.names == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
        assert pa.types.is_list(schema.field("prompt").type)
        assert schema.field("extra_info").type.field("index").type == pa.int64()


# ---- bad input: one sentence, exit code 1, nothing half-written


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A folder of sources with something wrong in each, and a good one."""
    folder = tmp_path / "bad"
    good = source_folder(folder / "good", good_rows(3))
    (folder / "empty").mkdir()
    (folder / "cut.parquet").write_bytes((good / "train.parquet").read_bytes()[:-20])
    (folder / "zero.parquet").write_bytes(b"")
    (folder / "zero.jsonl").write_bytes(b"")
    (folder / "notes.txt").write_text("x")
    (folder / "array.json").write_text("[1]\n")
    (folder / "half.jsonl").write_text(json.dumps(good_rows(1)[0]) + '\n{"prompt": ')
    write_parquet(folder / "unnamed.parquet", [{"prompt": "a", "answer": "b"}])
    write_parquet(folder / "math.parquet", [MATH, MATH])
    write_parquet(folder / "one.parquet", good_rows(1))
    write_parquet(folder / "long.parquet", [raw_row(LONG), MATH])
    write_parquet(folder / "prepared.parquet", [raw_row("a", prompt=build_prompt("a", None))])
    return folder


BAD_SOURCES = {
    "nowhere.parquet": "nowhere.parquet does not exist",
    "nowhere": "nowhere does not exist",
    "empty": "empty holds no .parquet or .jsonl file",
    "notes.txt": "notes.txt is not a .parquet or .jsonl file",
    "cut.parquet": "cut.parquet cannot be read as parquet",
    "zero.parquet": "zero.parquet cannot be read as parquet",
    "zero.jsonl": "zero.jsonl lacks the columns data_source, prompt",
    "array.json": "array.json line 1 is not a JSON object",
    "half.jsonl": "half.jsonl line 2 is not JSON",
    "unnamed.parquet": "lacks the columns data_source, ability, reward_model (it has: prompt, answer)",
    "math.parquet": "no train row is left (2 not code)",
    "long.parquet": "no train row is left (1 not code, 1 prompt over 512 tokens)",
    "one.parquet": "only one usable row",
    "prepared.parquet": "prepared already",
    "good --validation-source math.parquet": "no validation row is left (2 not code)",
    "one.parquet --validation-source one.parquet": "is given for training and for validation",
    "good --tokenizer empty": "empty cannot be used",
}


@pytest.mark.parametrize("old_files", [False, True])
@pytest.mark.parametrize("case", BAD_SOURCES)
def test_bad_source(case: str, old_files: bool, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    if old_files:
        assert run("--source", bad / "good", "--out", out) == 0
        capsys.readouterr()
    before = snapshot(tmp_path)
    words = [word if word.startswith("--") else bad / word for word in case.split()]
    assert run("--source", *words, "--out", out) == 1
    captured = capsys.readouterr()
    assert BAD_SOURCES[case] in captured.err and captured.err.count("\n") == 1 and captured.out == ""
    assert snapshot(tmp_path) == before and out.exists() == old_files


def test_a_hub_that_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--source", "nobody/nothing", "--out", tmp_path / "out") == 1
    assert "nobody/nothing is no local path and cannot be loaded from the hub" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_source_is_never_overwritten(bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(tmp_path)
    (tmp_path / "link").symlink_to(bad / "good")
    for source, out in (("good", "good"), ("good", "../link"), ("good/train.parquet", "good")):
        assert run("--source", bad / source, "--out", bad / out) == 1
        assert "would be overwritten" in capsys.readouterr().err
    (tmp_path / "link").unlink()
    assert snapshot(tmp_path) == before


def test_a_folder_that_cannot_be_written(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in (bad / "notes.txt", bad / "notes.txt" / "below", Path("/proc/nothing")):
        assert run("--source", bad / "good", "--out", out) == 1
        assert f"cannot write to {out}" in capsys.readouterr().err


@pytest.mark.parametrize(("source", "words"), [("", "a source without a name"), ("~no-such-user/x.parquet", "does not exist")])
def test_a_source_that_names_nothing(source: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--source", source, "--out", tmp_path / "out") == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        ["--out", ""],
        ["--out", "~no-such-user/data"],
        ["--num-train", "0"],
        ["--max-prompt-tokens", "-1"],
        ["--seed", "x"],
        ["--sourse", "a"],
    ],
)
def test_bad_options(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*option)
    assert stopped.value.code == 2 and option[0] in capsys.readouterr().err


# ---- all or nothing


def start(*arguments: object, prelude: str = "", **options: object) -> subprocess.Popen:
    """prepare_data.py as a script, after some lines of Python."""
    code = f"import runpy, sys\nsys.argv[:] = sys.argv[1:]\n{prelude}\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", code, str(ROOT / "prepare_data.py"), *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


STOPS_BEFORE_THE_CHECK = "import time, preparation.writing as files; files.check_written = lambda *_: time.sleep(600)"


def wait_for(process: subprocess.Popen, out: Path) -> None:
    """Until a run with STOPS_BEFORE_THE_CHECK has written its first file."""
    deadline = time.monotonic() + 120
    while not list(out.glob(".prepare-*/train1000.parquet")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


def test_a_full_disk_leaves_the_old_files(tmp_path: Path) -> None:
    """A limit on the size of written files stands for the full disk."""
    digits = np.random.default_rng(0).integers(0, 10, (40, 2000))
    rows = [raw_row(f"n{k}", {"inputs": ["".join(map(str, digits[k]))], "outputs": ["1"]}) for k in range(40)]
    source_folder(tmp_path / "raw", rows)
    source_folder(tmp_path / "old", good_rows(5))
    assert run("--source", tmp_path / "old", "--out", tmp_path / "out") == 0
    before = snapshot(tmp_path)
    prelude = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))"
    process = start("--source", tmp_path / "raw", "--out", tmp_path / "out", prelude=prelude)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 1 and stdout == "", stderr
    assert "File too large" in stderr and "nothing in" in stderr and stderr.count("\n") == 1
    assert snapshot(tmp_path) == before
    assert files_written(tmp_path / "out") == OUTPUTS


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    words = f"the disk of {tmp_path / 'out'} is full"
    with pytest.raises(DataError, match=words), writing.output_folder(tmp_path / "out"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_a_killed_run_left_is_removed_and_a_running_one_left_alone(tmp_path: Path) -> None:
    raw, out = source_folder(tmp_path / "raw", good_rows(5)), tmp_path / "out"
    process = start("--source", raw, "--out", out, prelude=STOPS_BEFORE_THE_CHECK)
    try:
        wait_for(process, out)
        assert run("--source", raw, "--out", out) == 0
        assert len(list(out.glob(".prepare-*/train1000.parquet"))) == 1
    finally:
        process.kill()
        process.communicate()
    assert run("--source", raw, "--out", out) == 0
    assert files_written(out) == OUTPUTS


@pytest.mark.parametrize(("signal_sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_being_stopped_leaves_nothing(signal_sent: signal.Signals, code: int, tmp_path: Path) -> None:
    source_folder(tmp_path / "raw", good_rows(5))
    before = snapshot(tmp_path)
    process = start("--source", tmp_path / "raw", "--out", tmp_path / "out", prelude=STOPS_BEFORE_THE_CHECK)
    try:
        wait_for(process, tmp_path / "out")
        process.send_signal(signal_sent)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code and "Traceback" not in stderr
    assert snapshot(tmp_path) == before and not (tmp_path / "out").exists()


def spoil(row: dict, what: str) -> dict:
    if what == "prompt":
        row["prompt"][1]["content"] += " "
    elif what == "messages":
        del row["prompt"][0]
    elif what == "split":
        row["extra_info"]["split"] = "validation"
    elif what == "number of tests":
        row["extra_info"]["num_tests"] += 1
    elif what == "no tests":
        row["reward_model"]["ground_truth"] = None
    else:
        row["reward_model"]["ground_truth"] = row["reward_model"]["ground_truth"].replace("6", "7")
    return row


def test_reading_back_finds_a_spoilt_row(tmp_path: Path) -> None:
    cleaned = [clean(row, k, Rules()) for k, row in enumerate(good_rows(3))]
    problems = [problem for problem, _ in cleaned]
    rows = [problem.row("train", truth) for problem, truth in cleaned]
    writing.write_rows(tmp_path / "train.parquet", rows)
    writing.check_written(tmp_path / "train.parquet", "train", problems)
    with pytest.raises(DataError, match="3 rows instead of 4"):
        writing.check_written(tmp_path / "train.parquet", "train", [*problems, problems[0]])
    with pytest.raises(DataError, match="more rows than the 2"):
        writing.check_written(tmp_path / "train.parquet", "train", problems[:2])
    for what in ("prompt", "messages", "split", "number of tests", "no tests", "tests"):
        spoilt = spoil(json.loads(json.dumps(rows[1])), what)
        writing.write_rows(tmp_path / "spoilt.parquet", [rows[0], spoilt, rows[2]])
        with pytest.raises(DataError, match="row 2"):
            writing.check_written(tmp_path / "spoilt.parquet", "train", problems)
    with pytest.raises(DataError, match="wrong columns"):
        writing.check_written(write_parquet(tmp_path / "raw.parquet", good_rows(3)), "train", problems)


def test_a_failed_check_keeps_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source_folder(tmp_path / "raw", good_rows(3))
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    before = snapshot(tmp_path)
    real = writing.with_split
    monkeypatch.setattr(writing, "with_split", lambda batch, split: real(batch, "another"))
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--seed", 1) == 1
    assert "has another extra_info" in capsys.readouterr().err
    assert snapshot(tmp_path) == before


def test_no_progress_bar_where_nobody_watches(tmp_path: Path) -> None:
    source_folder(tmp_path / "raw", good_rows(3))
    process = start("--source", tmp_path / "raw", "--out", tmp_path / "out")
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0 and stderr == ""


# ---- the set that ships here


def test_the_small_set_is_prepared_as_it_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from data import generate

    sizes = {"train": 70, "validation": 30}
    kinds = generate.write(tmp_path / "raw", 42, sizes)
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", "--max-prompt-tokens", 2048) == 0
    counts = table(capsys.readouterr().out)
    for column, split in enumerate(("train", "validation")):
        expected = kinds[split]
        assert counts["rows read"][column] == sum(expected.values())
        assert counts["not code"][column] == expected["math"]
        assert counts["prompt over 2048 tokens"][column] == expected["too long"]
        assert counts["kept"][column] == sizes[split] + expected["one test cut"]
    assert counts["no tests"] == [kinds["train"]["no tests"], 0]
    assert counts["inputs and outputs differ in number"] == [kinds["train"]["unequal tests"], 0]
    assert counts["every test is cut off ('...')"] == [kinds["train"]["all tests cut"], 0]
    assert counts["tests removed: cut off ('...')"] == [kinds["train"]["one test cut"], 0]
    assert "no closing instruction found to remove" not in counts
    fn_names = {row["extra_info"]["fn_name"] for row in written(tmp_path / "out")}
    assert "" in fn_names and len(fn_names) > 1
