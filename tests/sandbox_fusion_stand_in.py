"""A stand-in for the SandboxFusion service, which cannot be had here: its POST /run_code, with real processes.

Requests and replies have the fields of SandboxFusion's own server, and so do its ways: a fresh folder a request, `python
FILE` under bash, wall time only, the environment passed on, the first megabyte of each stream, text that is not UTF-8
replaced by a message. It confines nothing, as SandboxFusion's isolation "none": what it runs must bring its own walls,
or be harmless.

`faults` are served first, one a request, in the order given; see FAULTS.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KEPT_BYTES = 1 << 20


def run_code(request: dict, interpreter: str) -> dict:
    """What the service answers; ends the program's process group, as it does."""
    with tempfile.TemporaryDirectory(prefix="stand-in-") as name:
        folder = Path(name)
        for path, content in request.get("files", {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(base64.b64decode(content))
        (folder / "tmpprogram.py").write_text(request["code"])
        os.chmod(folder, 0o777)
        started = time.monotonic()
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"{interpreter} {folder}/tmpprogram.py"], cwd=folder, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        status = "Finished"
        try:
            out, err = process.communicate((request.get("stdin") or "").encode(), timeout=request.get("run_timeout", 10))
        except subprocess.TimeoutExpired:
            status = "TimeLimitExceeded"
            os.killpg(process.pid, 9)
            out, err = process.communicate()
        result = {
            "status": status,
            "execution_time": time.monotonic() - started,
            "return_code": process.returncode if status == "Finished" else None,
            "stdout": decoded(out),
            "stderr": decoded(err),
        }
        fetched = [path for path in request.get("fetch_files", []) if (folder / path).is_file()]
        files = {path: base64.b64encode((folder / path).read_bytes()).decode() for path in fetched}
    success = status == "Finished" and process.returncode == 0
    return {
        "status": "Success" if success else "Failed",
        "message": "",
        "compile_result": None,
        "run_result": result,
        "executor_pod_name": None,
        "files": files,
    }


def decoded(output: bytes) -> str:
    try:
        return output[:KEPT_BYTES].decode()
    except UnicodeDecodeError as error:
        return f"[DecodeError] {error}"


def changed(**values: object) -> Callable[[Handler], None]:
    """A whole reply of the right form with other values: the program is run, and then this is said of it."""
    return lambda handler: handler.answer({**handler.run(), **values})


def cut(handler: Handler) -> None:
    """The connection ends in the middle of the reply."""
    body = json.dumps(handler.run()).encode()
    handler.start(200, len(body))
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def cut_by_a_proxy(handler: Handler) -> None:
    """Half a reply, sent as if it were all."""
    body = json.dumps(handler.run()).encode()
    handler.start(200, len(body) // 2)
    handler.wfile.write(body[: len(body) // 2])


def reset(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def hang(handler: Handler) -> None:
    handler.server.let_go.wait(60)
    handler.close_connection = True


def spoilt(change: Callable[[bytes], bytes]) -> Callable[[Handler], None]:
    """A reply whose report is damaged."""

    def fault(handler: Handler) -> None:
        reply = handler.run()
        files = {name: base64.b64encode(change(base64.b64decode(text))).decode() for name, text in reply["files"].items()}
        handler.answer({**reply, "files": files})

    return fault


def bare(status: int, **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.answer({"detail": "no"}, status, headers)


def text(body: bytes) -> Callable[[Handler], None]:
    def fault(handler: Handler) -> None:
        handler.start(200, len(body))
        handler.wfile.write(body)

    return fault


SANDBOX_ERROR = {"status": "SandboxError", "message": "exception on running command: cannot fork", "files": {}}
TIME_OVER = {"status": "TimeLimitExceeded", "execution_time": 200.0, "return_code": None, "stdout": "", "stderr": ""}
KILLED = {"status": "Finished", "execution_time": 1.0, "return_code": -9, "stdout": "", "stderr": ""}
FAULTS: dict[str, Callable[[Handler], None]] = {
    "too many requests": bare(429, **{"Retry-After": "7"}),
    "server error": bare(500),
    "bad gateway": bare(502),
    "gateway timeout": bare(504),
    "hang": hang,
    "reset": reset,
    "cut": cut,
    "cut by a proxy": cut_by_a_proxy,
    "no JSON": text(b"<html>504 Gateway Time-out</html>"),
    "other JSON": text(b'["Success"]'),
    "no fields": text(b"{}"),
    "sandbox error": changed(**SANDBOX_ERROR),
    "stopped by the service": changed(status="Failed", run_result=TIME_OVER, files={}),
    "killed by the service": changed(status="Failed", run_result=KILLED, files={}),
    "killed after its report": changed(status="Failed", run_result=KILLED),
    "no report": changed(files={}),
    "a report of another type": changed(files={"report": None}),
    "report that is no base64": changed(files={"report": "\u2014"}),
    "cut report": spoilt(lambda report: report[: len(report) // 2]),
    "damaged report": spoilt(lambda report: report[:20] + bytes([report[20] ^ 1]) + report[21:]),
    "empty report": spoilt(lambda report: b""),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_POST(self) -> None:
        self.request_body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(self.request_body)
            self.server.under_way += 1
            self.server.most_under_way = max(self.server.most_under_way, self.server.under_way)
            fault = self.server.faults.pop(0) if self.server.faults else None
        try:
            if self.path != "/run_code":
                self.answer({"detail": "Not Found"}, 404)
            elif fault:
                FAULTS[fault](self)
            else:
                self.answer(self.run())
        finally:
            with self.server.lock:
                self.server.under_way -= 1

    def run(self) -> dict:
        return run_code(self.request_body, self.server.interpreter)

    def start(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def answer(self, reply: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(reply).encode()
        self.start(status, len(body), headers)
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class StandIn(ThreadingHTTPServer):
    """`with StandIn() as server`: server.url, server.faults, server.requests."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, interpreter: str = sys.executable) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.interpreter = interpreter
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lock = threading.Lock()
        self.let_go = threading.Event()
        self.faults: list[str] = []
        self.requests: list[dict] = []
        self.under_way = self.most_under_way = 0

    def __enter__(self) -> StandIn:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """A caller that hung up is no news here."""
