"""A server that speaks what vLLM speaks of OpenAI's interface, for tests: a GPU and vLLM are not to be had there.

In a test: `with serve(answer) as (url, requests)`. As a script, `python openai_stub.py PORT`, it answers "ok" to everything.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def make(port: int, answer: Callable[[dict[str, Any]], str], requests: list[dict[str, Any]]) -> ThreadingHTTPServer:
    """answer(request) -> text; a LookupError becomes an error of the server, a ValueError a refusal."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

        def reply(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.reply(200, {})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(request)
            try:
                text = answer(request)
            except LookupError as error:
                return self.reply(500, {"error": {"message": str(error), "code": 500}})
            except ValueError as error:
                return self.reply(400, {"error": {"message": str(error), "code": 400, "type": "BadRequestError"}})
            choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
            if self.path.endswith("/chat/completions"):
                choice["message"] = {"role": "assistant", "content": text}
            else:
                choice["text"] = text
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            whole = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"]}
            self.reply(200, {**whole, "choices": [choice], "usage": usage})

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


@contextlib.contextmanager
def serve(answer: Callable[[dict[str, Any]], str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of the interface, and the list that every request is added to."""
    requests: list[dict[str, Any]] = []
    server = make(0, answer, requests)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    make(int(sys.argv[1]), lambda request: "ok", []).serve_forever()
