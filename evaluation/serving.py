"""A vLLM server for one model, started and stopped here.

Everything that is evaluated of a model on a GPU goes through one server, so the engine starts once and is the same for all.
Without a GPU or without vLLM there is none, and the model is run by transformers.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from evaluation.results import EvaluationError

START_SECONDS = 1800  # a 7B model from a slow disk, with CUDA graphs
STOP_SECONDS = 30
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)  # opened here: nothing should be loaded between fork and exec
LOG_TAIL = 2000  # characters
# What vLLM puts before the lines of a traceback: (EngineCore pid=7) ERROR 11-29 12:00:00 [core.py:1]. A warning's is left
# standing, so an error that one merely mentions does not begin its line.
PREFIX = re.compile(r"^(?:\([^()\n]*\) )*(?:(?:ERROR|CRITICAL) [-\d]+ [:.\d]+ \[[^]\n]*\] ?)?", re.MULTILINE)
# The end of a traceback, with the indented lines in which pydantic says what is wrong; not the frames of another process.
RAISED = re.compile(r"^[\w.]*(?:Error|Exception)(?:: .*)?$(?:\n[ \t]+(?!File )\S.*)*", re.MULTILINE)


def available() -> bool:
    """Whether there is a GPU and a vLLM to serve with."""
    try:
        gpu = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    return gpu and importlib.util.find_spec("vllm") is not None


def command(model: str, name: str, port: int, seed: int) -> list[str]:
    """The server's command. VLLM_ARGS adds to it and wins, e.g. "--gpu-memory-utilization 0.5 --enforce-eager"."""
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", model, "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "bfloat16", "--seed", str(seed)),
        # A model's generation_config.json would set Qwen's repetition penalty where a request names none.
        *("--generation-config", "vllm"),
        *shlex.split(os.environ.get("VLLM_ARGS", "")),
    ]


def direct_environment() -> dict[str, str]:
    """This process's environment, with no proxy between the server and those that ask it."""
    hosts = ",".join(filter(None, ("127.0.0.1", os.environ.get("no_proxy") or os.environ.get("NO_PROXY"))))
    return {**os.environ, "NO_PROXY": hosts, "no_proxy": hosts}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def die_with_parent() -> None:
    """In a child, before it becomes the server or a stage: a parent that is killed outright cannot stop it."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def server(model: str, name: str, log: Path, seed: int = 0, argv: list[str] | None = None) -> Iterator[str]:
    """Serve `model` as `name` while the block runs; gives the API's address. `argv` is another command than vLLM's.

    The server's output goes to `log`, which is written anew. It is stopped with all its processes, however the block ends.

    Raises:
        EvaluationError: it ended before it was ready, or is not ready after START_SECONDS.
    """
    port = free_port()
    environment = {**direct_environment(), "VLLM_NO_USAGE_STATS": "1"}
    environment.pop("VLLM_ARGS", None)  # vLLM would warn of it as of a misspelt setting of its own
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [word.format(port=port) for word in argv] if argv else command(model, name, port, seed),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # a process group of its own, to be stopped as one
            preexec_fn=die_with_parent,
        )
    try:
        wait(process, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        stop(process)


def wait(process: subprocess.Popen, address: str, log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    started = time.monotonic()
    while True:
        if process.poll() is not None:
            raise EvaluationError(f"The vLLM server ended before it was ready. {log} says:\n{last_words(log)}")
        if time.monotonic() - started > START_SECONDS:
            raise EvaluationError(f"The vLLM server was not ready after {START_SECONDS} s: see {log}.")
        with contextlib.suppress(OSError), direct.open(address, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(1)


def last_words(log: Path) -> str:
    """What ended the server: the last exceptions in the log, the cause before its consequences; without any, the log's end."""
    text = log.read_text(errors="replace")
    return "\n".join(list(dict.fromkeys(RAISED.findall(PREFIX.sub("", text))))[-5:]) or text[-LOG_TAIL:]


def stop(process: subprocess.Popen) -> None:
    """End the server and whatever it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    process.wait()
