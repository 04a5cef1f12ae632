"""README.md: the defaults in its tables are the scripts', what it shows is what the commands print, what it names is there."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from conftest import MULTI, ROOT, SINGLE

from evaluation import compare
from monitoring.run import open_run, read
from verifier import comparison, options
from verifier.verdict import Limits

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```\n(.*?)```", README, re.DOTALL)
DEFAULT = re.compile(r"^(?:export )?([A-Z_]+)=\$\{\1:-(.*?)\}(?:\s|$)", re.MULTILINE)

NO_SETTINGS = {"PYTHON", "DRY_RUN", "PYTHONWARNINGS", "RAY_USAGE_STATS_ENABLED"}


def cells_of(text: str) -> Iterator[list[str]]:
    """The cells of each row of its tables."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of each row of README's tables between this heading and the next."""
    yield from cells_of(README.partition(f"\n{heading}")[2].partition("\n## ")[0].partition("\n**6")[0])


def defaults(heading: str) -> dict[str, str]:
    """{variable: its default as README has it}; where one default stands for several variables it is each one's."""
    found = {}
    for names, values, *_ in rows(heading):
        variables = re.findall(r"`([A-Z_…]+)`", names)
        each = values.split(", ") if len(variables) > 1 and ", " in values else [values] * len(variables)
        assert len(each) == len(variables), names
        found |= {x.replace("…", "CODE_REWARD"): value.replace("`", "") for x, value in zip(variables, each, strict=True)}
    return found


def same(told: str, real: str) -> bool:
    """Whether README's word is the script's: the home folder is ~, and the beginning may be left out."""
    real = real.replace("$HOME", "~")
    return told == real or ((told.startswith("…") or told.endswith(".parquet")) and real.endswith(told.removeprefix("…")))


def test_settings_of_the_run_scripts() -> None:
    single, multi = (dict(DEFAULT.findall(script.read_text())) for script in (SINGLE, MULTI))
    told = defaults("## Settings")
    assert told.keys() == single.keys() - NO_SETTINGS | {"VERL_VERSION"}
    in_words = {x for x, value in single.items() if "$" in value.replace("$HOME/", "") or value == "null"}
    assert len(in_words) < 12
    for name, value in told.items():
        if name in in_words or name == "VERL_VERSION":
            continue
        first, _, second = value.partition(" / ")
        assert same(first, single[name]), name
        assert same(second or first, multi.get(name, single[name])), name


def test_settings_of_the_evaluation() -> None:
    script = dict(DEFAULT.findall((ROOT / "eval.sh").read_text()))
    told = defaults("**5. Evaluate.**")
    assert told.keys() == script.keys() - NO_SETTINGS
    assert all(told[name] == value for name, value in script.items() if name in told and value)
    assert told["EVAL_BATCH_SIZE"] == f"{compare.AT_ONCE[True]} with vLLM and {compare.AT_ONCE[False]} without"


def test_options_of_the_reward() -> None:
    told = defaults("## How the reward judges")
    own = {options.PREFIX + name.upper() for name in options.PARSERS if name != "sandbox_fusion_url"}
    elsewhere = {options.PREFIX + name for name in options.OTHER_VARIABLES if name != "LOG_DIR"}
    assert told.keys() == own | elsewhere | {"REWARD_LOG", "REWARD_LOG_MB"}
    limits, usual = Limits(), options.Options()
    for name, value in (
        ("TIMEOUT", limits.cpu_seconds),
        ("WALL_TIMEOUT", limits.wall_seconds),
        ("MEMORY_MB", limits.memory_bytes >> 20),
        ("FULL_TIMEOUTS", limits.full_limit_timeouts),
        ("MAX_TIMEOUTS", limits.max_timeouts),
        ("REWARD", usual.reward),
        ("FORMAT_WEIGHT", usual.format_weight),
        ("COMPILE_WEIGHT", usual.compile_weight),
        ("COMPARISON", usual.comparison),
        ("BLOCK", usual.block),
    ):
        assert told[options.PREFIX + name] == (value if isinstance(value, str) else f"{value:g}"), name
    [modes] = [cells[2] for cells in rows("## How the reward judges") if "CODE_REWARD_COMPARISON" in cells[0]]
    assert set(re.findall(r"`([\w-]+)`", modes.partition(";")[0])) == set(comparison.MODES) - {usual.comparison, "source"}


def test_metrics_are_those_that_verl_logs() -> None:
    logged = {name for row in read(open_run(ROOT / "docs/runs/cpu_learn")).metrics.values() for name in row}
    told = [name for cells in rows("## What the numbers mean") for name in re.findall(r"`([\w<>/@-]+/[\w<>/@…-]+)`", cells[0])]
    assert len(told) >= 10
    for name in told:
        pattern = re.escape(name).replace("<data_source>", ".+").replace("…", ".+")
        assert any(re.fullmatch(pattern, metric) for metric in logged), name


def test_lines_of_the_shown_runs() -> None:
    blocks = [block for block in BLOCKS if block.startswith("[Step")]
    for run, block in zip(("cpu_learn", "gpu_learn"), blocks, strict=True):
        command = [sys.executable, "plot_metrics.py", f"docs/runs/{run}", "--steps"]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
        assert [line for line in block.splitlines() if line not in said] == []


def test_commands_and_files_are_there() -> None:
    for line in "\n".join(BLOCKS).splitlines():
        for script, words in re.findall(r"(?:python3|bash) ([\w/]+\.(?:py|sh))((?: [^#&|]*)?)", line):
            assert (ROOT / script).is_file(), script
            named = set(re.findall(r"--[a-z-]+", words))
            if script.endswith(".py") and named:
                helped = subprocess.run(
                    [sys.executable, script, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=120
                )
                assert named <= set(re.findall(r"--[a-z-]+", helped.stdout)), line
    for cells in rows("## What is where"):
        for name in re.findall(r"`([\w./]+)`", cells[0]):
            assert (ROOT / name).exists(), name
    for link in re.findall(r"\]\((?!http)([\w./]+)\)", README):
        assert (ROOT / link).exists(), link
    targets = set(re.findall(r"^([\w-]+):", Path(ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", "\n".join(BLOCKS))) <= targets


def test_the_hardware_tables_have_what_was_measured() -> None:
    text = (ROOT / "docs/hardware.md").read_text()

    def measured(*names: str) -> tuple[list[dict], list[str], list[str], list[str]]:
        """The runs; then, as the tables show them, their peaks, seconds a step and numbers of steps."""
        runs = [json.loads((ROOT / f"docs/hardware/{name}.json").read_text()) for name in names]
        seconds = [f"{statistics.median(run['steps'][1:]):.1f}" for run in runs]
        return runs, [f"{run['peak_mib']:,}" for run in runs], seconds, [str(len(run["steps"])) for run in runs]

    runs, peaks, seconds, steps = measured("0.5B", "0.5B_flash_attn", "1.5B_lora", "7B")
    told = dict(
        [cells[0].strip("`"), cells[1:]]
        for cells in cells_of(text.partition("<!-- hardware -->")[2].partition("<!-- end -->")[0])
    )
    assert told.pop("MiB of the card, by phase") == ["0.5B", "0.5B, flash-attn", "1.5B, LoRA", "7B, flash-attn"]
    assert told.pop("steps seen") == steps
    assert told.pop("seconds a step, after the first") == seconds
    assert told.pop("peak") == peaks
    cards = told.pop("the card that was emulated")
    assert all(run["peak_mib"] < int(card.replace(",", "")) for run, card in zip(runs, cards, strict=True))
    assert len(told) == 8
    for phase, of_phase in told.items():
        assert of_phase == [f"{run['phases'][phase.partition(':')[0]]['peak_mib']:,}" for run in runs], phase

    short = [cells[4:6] for cells in rows("## From an empty GPU machine to a trained model")][1:4]
    assert short == [[f"{peaks[run]} MiB", seconds[run]] for run in (0, 2, 3)]

    avoided = [cells[3:] for cells in cells_of(text.partition("## What the defaults avoid")[2].partition("\n\n-")[0])][1:]
    _, *figures = measured("1.5B_lora_fsdp", "0.5B_padded", "0.5B_flash_attn_padded")
    assert avoided == [list(cells) for cells in zip(*figures, strict=True)]
