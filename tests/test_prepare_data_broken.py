"""Files with something wrong in them: one clear sentence, exit code 1, and the old output as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_rows import MATH, good_rows, raw_row, run, snapshot, source_folder, story, write_jsonl, write_parquet, written


def changed(rows: list[dict], **columns: object) -> list[dict]:
    return [{**row, **columns} for row in rows]


def damaged(path: Path) -> None:
    """A page in the middle is overwritten; the footer says that all is well."""
    rows = [raw_row(story(seed)) for seed in range(300)]
    write_parquet(path, rows, compression="zstd")
    data = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(2)
    assert column.path_in_schema.startswith("prompt")
    middle = column.data_page_offset + column.total_compressed_size // 2
    data[middle : middle + 200] = b"\xff" * 200
    path.write_bytes(data)


def no_rows(path: Path) -> None:
    pq.write_table(pq.read_table(write_parquet(path, good_rows(1))).slice(0, 0), path)


def only_mathematics(path: Path) -> None:
    write_parquet(path, [MATH] * 3)


def without(column: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        pq.write_table(pq.read_table(write_parquet(path, good_rows(3))).drop_columns([column]), path)

    return write


def holding(**columns: object) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        write_parquet(path, changed(good_rows(3), **columns))

    return write


def text(content: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(content)

    return write


def truncated(keep: float) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        data = write_parquet(path, good_rows(50)).read_bytes()
        path.write_bytes(data[: int(len(data) * keep)])

    return write


def twice(column: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        table = pq.read_table(write_parquet(path, good_rows(3)))
        pq.write_table(table.append_column(column, table[column]), path)

    return write


CASES = {
    "two prompts": (twice("prompt"), "{path} has two columns of one name"),
    "no prompt": (without("prompt"), "lacks the column prompt (it has: data_source, ability, reward_model, extra_info)"),
    "no ability": (without("ability"), "lacks the column ability"),
    "no reward_model": (without("reward_model"), "lacks the column reward_model"),
    "no data_source": (without("data_source"), "lacks the column data_source"),
    "ability of numbers": (holding(ability=1), "the column ability of {path} holds int64, and text is needed"),
    "data_source of numbers": (holding(data_source=0.5), "the column data_source of {path} holds double"),
    "prompt of numbers": (holding(prompt=7), "the column prompt of {path} holds int64, and text or a list is needed"),
    "reward_model of text": (
        holding(reward_model="{}"),
        "the column reward_model of {path} holds text, and a record is needed",
    ),
    "half of the file": (truncated(0.5), "{path} cannot be read as parquet"),
    "the last bytes missing": (truncated(0.99), "{path} cannot be read as parquet"),
    "the first bytes only": (truncated(0.01), "{path} cannot be read as parquet"),
    "a damaged page": (damaged, "{path} is damaged"),
    "not parquet": (text("<html>Please log in</html>" * 100), "{path} cannot be read as parquet"),
    "an LFS pointer": (text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "{path} cannot be read as parquet"),
    "no bytes": (text(""), "{path} cannot be read as parquet"),
    "no rows": (no_rows, "no train row"),
    "only mathematics": (only_mathematics, "no train row is left (3 not code)"),
    "no ground_truth": (holding(reward_model={"style": "rule"}), "no train row is left (3 no tests)"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broken_file_leaves_the_old_output(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write, words = CASES[case]
    good = source_folder(tmp_path / "good", good_rows(3))
    assert run("--source", good, "--out", tmp_path / "out") == 0
    path = tmp_path / "raw" / "train.parquet"
    path.parent.mkdir()
    write(path)
    before = snapshot(tmp_path)
    capsys.readouterr()
    assert run("--source", path, "--validation-source", good / "validation.parquet", "--out", tmp_path / "out") == 1
    captured = capsys.readouterr()
    assert words.format(path=path) in captured.err and captured.out == ""
    assert captured.err.count("\n") == 1 and "nothing in" in captured.err
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (changed(good_rows(3), prompt="Double the number."), "holds text in {second} but a list in {first}"),
        ([{"prompt": "x", "ability": "code"}], "lacks the columns data_source, reward_model"),
        (changed(good_rows(3), ability=2), "holds int64, and text is needed"),
    ],
)
def test_shards_of_different_schemas(
    second: list[dict], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_parquet(tmp_path / "raw" / "train-00000-of-00002.parquet", good_rows(3))
    other = write_parquet(tmp_path / "raw" / "train-00001-of-00002.parquet", second)
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert words.format(first=first, second=other) in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_shards_that_differ_in_nothing_that_matters(tmp_path: Path) -> None:
    """Columns in another order, one more, large strings, categories: still the same rows."""
    first = write_parquet(tmp_path / "raw" / "train-0.parquet", good_rows(3))
    table = pq.read_table(first).append_column("more", pa.array([1, 2, 3]))
    table = table.set_column(0, "data_source", table["data_source"].cast(pa.large_string()))
    position = table.schema.get_field_index("ability")
    table = table.set_column(position, "ability", table["ability"].dictionary_encode())
    prompts = table["prompt"].combine_chunks()
    position = table.schema.get_field_index("prompt")
    table = table.set_column(position, "prompt", pa.FixedSizeListArray.from_arrays(prompts.flatten(), 2))
    pq.write_table(table.select(table.column_names[::-1]), tmp_path / "raw" / "train-1.parquet")
    validation = write_parquet(tmp_path / "raw" / "validation.parquet", [raw_row("Halve it.")])
    options = ("--validation-source", validation, "--drop-duplicates", "none")
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out", *options) == 0
    out = written(tmp_path / "out")
    assert [row["extra_info"]["index"] for row in out] == list(range(6))
    assert [row["prompt"] for row in out[:3]] == [row["prompt"] for row in out[3:]]


def test_hidden_files_are_no_data(tmp_path: Path) -> None:
    source_folder(tmp_path / "raw", good_rows(3))
    (tmp_path / "raw" / "._train.parquet").write_bytes(b"what macOS knows of the file")
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert len(written(tmp_path / "out")) == 3


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "train.jsonl", good_rows(20))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert run("--source", path, "--out", tmp_path / "out") == 0


def test_text_in_parquet_that_is_not_utf8_drops_its_row(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "raw" / "train.parquet", [*good_rows(2), raw_row("Qxyz"), *good_rows(4)[2:]])
    data = path.read_bytes()
    pq.write_table(pq.read_table(path), path, compression="none", use_dictionary=False)
    data = path.read_bytes()
    assert data.count(b"Qxyz") >= 1
    path.write_bytes(data.replace(b"Qxyz", b"\xff\xfe\xfd\xfc"))
    validation = write_parquet(tmp_path / "validation.parquet", [raw_row("Halve it.")])
    assert run("--source", path, "--validation-source", validation, "--out", tmp_path / "out") == 0
    assert [row["extra_info"]["index"] for row in written(tmp_path / "out")] == [0, 1, 3, 4]


def test_rows_without_an_ability_are_not_code(tmp_path: Path) -> None:
    source_folder(tmp_path / "raw", [*good_rows(2), {**raw_row("What?"), "ability": None}])
    assert run("--source", tmp_path / "raw", "--out", tmp_path / "out") == 0
    assert len(written(tmp_path / "out")) == 2


def test_names_that_are_not_unicode_stop_nothing(tmp_path: Path) -> None:
    broken = "\ud83d"
    rows = [
        *good_rows(2),
        raw_row("Treble it.", data_source=broken),
        raw_row("", data_source=broken),
        raw_row("Quarter it.", extra_info={"checker": f"def check(a, b, c):\n    return {broken!r}\n{broken}"}),
    ]
    rows[2]["reward_model"]["style"] = broken
    path = write_jsonl(tmp_path / "train.jsonl", rows)
    validation = write_parquet(tmp_path / "validation.parquet", [raw_row("Halve it.")])
    assert run("--source", path, "--validation-source", validation, "--out", tmp_path / "out") == 0
    assert [row["data_source"] for row in written(tmp_path / "out")] == ["taco", "taco", "?"]
