"""Downloads from the hub: a connection that breaks goes on where it was, what is there is not fetched again.

The hub cannot be reached from the tests, so a server on this machine answers in its place, with the few requests that the
real client (huggingface_hub, in a process of its own) makes for a data set's files.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from raw_rows import MATH, good_rows, raw_row, snapshot, source_folder, written

ROOT = Path(__file__).resolve().parent.parent
NAME, COMMIT = "someone/code-problems", "a" * 40
BYTES = 10 << 20  # the client writes to disk in pieces of this size


@dataclass
class Hub:
    files: dict[str, bytes]
    address: str = ""
    breaks: list[int] = field(default_factory=list)  # at which byte of train.parquet a connection ends, one after another
    stalls: bool = False  # a connection that would end stays open instead, and silent
    ignores_ranges: bool = False
    ranges: list[tuple[str, str | None]] = field(default_factory=list)  # (file, Range header) of each download


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def head(self, code: int, length: int, **headers: str) -> None:
            self.send_response(code)
            for name, value in {"Content-Length": str(length), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            name = path.rpartition("/")[2]
            if path in (f"/api/datasets/{NAME}", f"/api/datasets/{NAME}/revision/main"):
                siblings = [
                    {"rfilename": k, "size": len(v), "lfs": {"size": len(v), "sha256": sha256(v), "pointerSize": 134}}
                    for k, v in hub.files.items()
                ]
                self.send_json({"id": NAME, "sha": COMMIT, "siblings": siblings})
            elif path.startswith(f"/api/datasets/{NAME}/tree/"):
                files = hub.files.items()
                self.send_json([{"type": "file", "path": k, "size": len(v), "oid": "0" * 40} for k, v in files])
            elif path == f"/datasets/{NAME}/resolve/{COMMIT}/{name}" and name in hub.files:
                self.send_file(name, hub.files[name])
            else:
                self.head(404, 0)

        def send_json(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.head(200, len(body), Content_Type="application/json")
            self.wfile.write(body)

        def send_file(self, name: str, data: bytes) -> None:
            etag = f'"{sha256(data)}"'
            asked = self.headers.get("Range")
            wanted = None if hub.ignores_ranges else asked
            start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
            more = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if wanted else {}
            code = 206 if wanted else 200
            self.head(code, len(data) - start, ETag=etag, X_Repo_Commit=COMMIT, Accept_Ranges="bytes", **more)
            if self.command == "HEAD":
                return
            hub.ranges.append((name, asked))
            end = hub.breaks.pop(0) if name == "train.parquet" and hub.breaks else len(data)
            self.wfile.write(data[start:end])
            if hub.stalls and end < len(data):
                self.connection.recv(1)  # until the client is gone
            self.close_connection = end < len(data)

    return Handler


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    digits = np.random.default_rng(0).integers(0, 10, BYTES * 5 // 4) + ord("0")
    long = raw_row("Print 1.", {"inputs": [digits.astype("u1").tobytes().decode()], "outputs": ["1"]})
    raw = source_folder(tmp_path / "raw", [MATH, *good_rows(400), long])
    served = Hub({path.name: path.read_bytes() for path in raw.iterdir()} | {"README.md": b"nobody asks for it"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(served))
    served.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


def start(hub: Hub, tmp_path: Path, out: str) -> subprocess.Popen:
    environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "prepare_data.py", "--source", NAME, "--out", str(tmp_path / out), "--max-test-mb", "20"]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    stdout, stderr = process.communicate(timeout=180)
    return process.returncode, stdout, stderr


def test_a_download_goes_on_where_it_broke_and_is_made_once(hub: Hub, tmp_path: Path) -> None:
    hub.breaks = [BYTES + 1000, BYTES + 5000]
    assert len(hub.files["train.parquet"]) > max(hub.breaks)
    code, stdout, stderr = finish(start(hub, tmp_path, "out"))
    assert code == 0 and f"train from train.parquet of {NAME}" in stdout, stderr
    asked = [int((wanted or "bytes=0-")[6:-1]) for name, wanted in hub.ranges if name == "train.parquet"]
    assert len(asked) == 3 and 0 == asked[0] < BYTES <= asked[1] <= asked[2]
    assert "README.md" not in dict(hub.ranges)
    assert len(written(tmp_path / "out")) == 401

    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["source"]["train"] == [{"file": "train.parquet", "hub": NAME, "revision": COMMIT, "rows": 402}]
    downloads = len(hub.ranges)
    assert finish(start(hub, tmp_path, "again"))[0] == 0
    assert len(hub.ranges) == downloads
    assert snapshot(tmp_path / "again") == snapshot(tmp_path / "out")


@pytest.mark.parametrize("ignores_ranges", [False, True])
def test_a_download_goes_on_where_the_process_was_killed(ignores_ranges: bool, hub: Hub, tmp_path: Path) -> None:
    hub.breaks, hub.stalls = [BYTES + 1000], True
    killed = start(hub, tmp_path, "out")
    for _ in range(1200):
        if sum(path.stat().st_size for path in tmp_path.glob("cache/hub/*/blobs/*.incomplete")) >= BYTES:
            break
        time.sleep(0.1)
    killed.kill()
    killed.communicate()
    hub.ignores_ranges = ignores_ranges
    code, _, stderr = finish(start(hub, tmp_path, "out"))
    assert code == 0, stderr
    asked = [wanted for name, wanted in hub.ranges if name == "train.parquet"]
    assert asked == [None, f"bytes={BYTES}-"]
    assert len(written(tmp_path / "out")) == 401
    assert not list(tmp_path.rglob("*.incomplete"))


def test_a_download_that_arrives_damaged_is_begun_anew(hub: Hub, tmp_path: Path) -> None:
    assert finish(start(hub, tmp_path, "out"))[0] == 0
    (blob,) = (path for path in tmp_path.glob("cache/hub/*/blobs/*") if path.stat().st_size > BYTES)
    blob.rename(blob.with_name(f"{blob.name}.incomplete"))
    data = bytearray(blob.with_name(f"{blob.name}.incomplete").read_bytes())
    data[BYTES // 2] ^= 1
    blob.with_name(f"{blob.name}.incomplete").write_bytes(data[:-1000])
    code, _, stderr = finish(start(hub, tmp_path, "again"))
    assert code == 1 and "train.parquet did not arrive as it was sent" in stderr and "Traceback" not in stderr, stderr
    assert not (tmp_path / "again").exists()
    assert finish(start(hub, tmp_path, "again"))[0] == 0
    assert snapshot(tmp_path / "again") == snapshot(tmp_path / "out")


def test_without_a_network_the_cache_answers(hub: Hub, tmp_path: Path) -> None:
    assert finish(start(hub, tmp_path, "first"))[0] == 0
    hub.address = "http://127.0.0.1:9"  # nobody listens there
    code, _, stderr = finish(start(hub, tmp_path, "second"))
    assert code == 0, stderr
    assert snapshot(tmp_path / "second") == snapshot(tmp_path / "first")


def test_a_data_set_that_is_not_there(hub: Hub, tmp_path: Path) -> None:
    hub.files.clear()
    environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "0"}
    for source, words in ((NAME, "holds no parquet file"), ("nobody/nothing", "cannot be loaded from the hub")):
        command = [sys.executable, "prepare_data.py", "--source", source, "--out", str(tmp_path / "out")]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, done.stderr
        assert not (tmp_path / "out").exists()
