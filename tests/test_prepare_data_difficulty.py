"""Difficulty: responses sampled from a server of OpenAI's API, judged by the real verifier, kept by their pass rate.

No model can be served here, so a small server on this machine answers in its place with canned programs, some right, some
wrong; client, verifier and files are the real ones.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from raw_rows import raw_row, run, snapshot, source_folder, table, written

from preparation import difficulty

RIGHT, WRONG = "```python\nprint(2 * int(input()))\n```", "I cannot say.\n```python\nprint('?')\n```"
HALF = "```python\nprint(2 * abs(int(input())))\n```"  # right on one of the two tests


@dataclass
class Server:
    """`answers` maps the problem's number to the responses that it gets, in turn."""

    answers: dict[int, list[str]]
    address: str = ""
    one_at_a_time: bool = False  # as servers that know no `n`
    status: int = 200
    body: bytes = b""  # sent instead of an answer
    requests: list[dict] = field(default_factory=list)


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            number = int(re.search(r"variant (\d+)", asked["messages"][1]["content"])[1])
            before = sum(request["n"] for request in server.requests if request["number"] == number)
            wanted = 1 if server.one_at_a_time else asked["n"]
            server.requests.append({"path": self.path, "number": number, **asked, "n": wanted})
            answers = server.answers[number]
            texts = [answers[(before + k) % len(answers)] for k in range(wanted)]
            choices = [
                {"index": k, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
                for k, text in enumerate(texts)
            ]
            reply = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"], "choices": choices}
            body = json.dumps(reply if server.status == 200 else {"error": {"message": "no such model"}}).encode()
            body = server.body or body
            self.send_response(server.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    """Variant 0 is always solved, 1 half the time, 2 never, 3 on half of its tests, 4 in three of four tries."""
    answers = {0: [RIGHT], 1: [RIGHT, WRONG], 2: [WRONG], 3: [HALF], 4: [RIGHT, RIGHT, RIGHT, WRONG]}
    canned = Server(answers)
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler(canned))
    http.handle_error = lambda *_: None  # of a client that went away, as it does when another request was refused
    canned.address = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield canned
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return source_folder(tmp_path / "raw", [raw_row(f"Double the number, variant {k}.") for k in range(5)])


def options(raw: Path, out: Path, server: Server, *more: object) -> list[object]:
    sampling = ["--server", server.address, "--model", "canned", "--samples", 4, "--pass-rate", "0.05:0.95"]
    return ["--source", raw, "--out", out, *sampling, *more]


def kept(out: Path) -> list[int]:
    return [row["extra_info"]["index"] for row in written(out)]


def test_the_band_keeps_what_is_neither_solved_nor_hopeless(
    raw: Path, tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(*options(raw, out, server)) == 0
    assert kept(out) == [1, 3, 4] and len(written(out, "validation")) == 1
    counts = table(capsys.readouterr().out)
    assert counts["pass rate over 0.95"] == [1, 0] and counts["pass rate under 0.05"] == [1, 0]
    results = {record["index"]: record for record in map(json.loads, (out / "difficulty.jsonl").read_text().splitlines())}
    assert {index: sum(record["scores"]) / 4 for index, record in results.items()} == {0: 1, 1: 0.5, 2: 0, 3: 0.5, 4: 0.75}
    assert results[3]["scores"] == [0.5] * 4 and results[1]["model"] == "canned"
    card = json.loads((out / "card.json").read_text())
    rates = {name: number for name, number in card["pass rates"].items() if number}
    assert rates == {"0": 1, "0.5-0.6": 2, "0.7-0.8": 1, "1": 1}
    assert card["options"]["difficulty"]["model"] == "canned" and server.address not in json.dumps(card)
    assert "## Pass rates" in (out / "card.md").read_text()


def test_what_is_asked_is_what_training_will_ask(raw: Path, tmp_path: Path, server: Server) -> None:
    assert run(*options(raw, tmp_path / "out", server, "--temperature", "0.7", "--max-response-tokens", 99)) == 0
    prompts = {row["extra_info"]["index"]: row["prompt"] for row in written(tmp_path / "out")}
    assert len(server.requests) == 5
    for request in server.requests:
        assert request["path"] == "/v1/chat/completions" and request["n"] == 4 and request["model"] == "canned"
        assert request["temperature"] == 0.7 and request["max_tokens"] == 99
        assert request["messages"] == prompts.get(request["number"], request["messages"])


def test_a_server_that_gives_one_response_a_request(raw: Path, tmp_path: Path, server: Server) -> None:
    server.one_at_a_time = True
    assert run(*options(raw, tmp_path / "out", server)) == 0
    assert kept(tmp_path / "out") == [1, 3, 4] and len(server.requests) == 20


def test_a_second_run_asks_nothing_again(raw: Path, tmp_path: Path, server: Server) -> None:
    out = tmp_path / "out"
    assert run(*options(raw, out, server)) == 0
    asked, before = len(server.requests), snapshot(out)
    assert run(*options(raw, out, server)) == 0
    assert len(server.requests) == asked and snapshot(out) == before
    assert run(*options(raw, out, server, "--pass-rate", "0:1")) == 0  # another band of the same results
    assert len(server.requests) == asked and kept(out) == [0, 1, 2, 3, 4]
    assert run(*options(raw, out, server, "--samples", 2)) == 0  # another measurement
    assert len(server.requests) == 2 * asked


def test_an_interrupted_run_goes_on(
    raw: Path, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    real = difficulty.judge

    async def stop_at_the_third(client: object, question: difficulty.Question, sampling: difficulty.Sampling) -> list[float]:
        if question.problem.index == 3:
            raise KeyboardInterrupt
        return await real(client, question, sampling)

    monkeypatch.setattr(difficulty, "judge", stop_at_the_third)
    assert run(*options(raw, out, server, "--concurrency", 1)) == 130
    assert "interrupted" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["difficulty.jsonl"]  # nothing but what was paid for
    with (out / "difficulty.jsonl").open("a") as file:
        file.write('{"key": "cut off')
    monkeypatch.undo()
    assert run(*options(raw, out, server, "--concurrency", 1)) == 0
    assert kept(out) == [1, 3, 4] and len(server.requests) == 5
    assert len(difficulty.read_results(out / "difficulty.jsonl")) == 5


@pytest.mark.parametrize("status", [404, 400])
def test_a_server_that_refuses(
    status: int, raw: Path, tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status = status
    assert run(*options(raw, tmp_path / "out", server)) == 1
    error = capsys.readouterr().err
    assert f"the server at {server.address} failed" in error and "no such model" in error and error.count("\n") == 1


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'"text"', b'{"choices": 3}', b'{"choices": []}', b'{"choices": [{}]}'])
def test_a_server_that_answers_something_else(
    body: bytes, raw: Path, tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.body = body
    assert run(*options(raw, tmp_path / "out", server)) == 1
    assert f"the server at {server.address} answers without a response" in capsys.readouterr().err


def test_a_server_that_is_not_there(
    raw: Path, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(difficulty, "RETRIES", 0)
    server.address = "http://127.0.0.1:9/v1"
    assert run(*options(raw, tmp_path / "out", server)) == 1
    assert "the server at http://127.0.0.1:9/v1 failed" in capsys.readouterr().err


def test_a_verifier_that_fails_is_no_hard_problem(
    raw: Path, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(difficulty, "compute_score", lambda *_: {"internal_error": 1.0, "pass_rate": 0.0})
    assert run(*options(raw, tmp_path / "out", server)) == 1
    assert "the verifier could not judge" in capsys.readouterr().err
    assert difficulty.read_results(tmp_path / "out" / "difficulty.jsonl") == {}


def test_a_band_that_nothing_is_in(raw: Path, tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*options(raw, tmp_path / "out", server, "--pass-rate", "0.6:0.7")) == 1
    assert "no train row is left" in capsys.readouterr().err


@pytest.mark.parametrize("band", ["0.5", "0.9:0.1", "a:b", "-1:1", "0:2", ":"])
def test_bad_bands(band: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(f"--pass-rate={band}", "--model", "x")
    assert stopped.value.code == 2 and "0.05:0.95" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--pass-rate", "0.05:0.95"], ["--model", "x"]])
def test_a_band_needs_a_model_and_a_model_a_band(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*option)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and "--model" in error and "--pass-rate" in error
