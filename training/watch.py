"""Run the training, and stop it where going on would be a waste: the run script's last line.

    python3 -m training.watch RUN_DIR --max-internal-errors 0.05 -- COMMAND...

What COMMAND prints goes to stdout and to RUN_DIR/train.log. veRL asks for one score at a time and drops what raises, so a
reward cannot stop a run; this does, with one sentence and exit code 1, when

- more than the given share of the latest responses got no verdict, because the verifier failed (verdict IE in the reward
  log) or because veRL dropped the response, its reward having raised;
- the disk is full, by its free space and inodes or by the last words of a training that has failed, or the reward log
  cannot be written;
- vLLM says that it has failed, and a minute later the training still goes on: veRL may wait for it for ever.

Else the exit code is COMMAND's (128 and the number of the signal that ended it). Ctrl-C, SIGTERM and SIGHUP end the training
as well. Whatever ends it, no process of it is left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from training import disk, processes
from training.reward_share import RewardShare
from verifier.reward_log import CANNOT_WRITE

CHECK_SECONDS = 2.0
TICK_SECONDS = 0.5
PATIENCE = ((signal.SIGINT, 0.0), (signal.SIGTERM, 15.0), (signal.SIGKILL, 20.0))  # seconds after the decision
LEFTOVERS_SECONDS = 5.0  # what the training leaves behind has so long to end by itself
LONGEST_LINE = 4096
# As vLLM's own logger writes it: a response that is printed cannot look like it but on purpose.
VLLM_FAILED = re.compile(
    rb"ERROR \S+ \S+ \[core\.py:\d+\] .*?(Worker failed with error .*|EngineCore encountered a fatal error.*)"
)
VLLM_SECONDS = 60.0  # for veRL to end by itself, with the cause
LAST_WORDS = 1 << 16  # bytes of output: the traceback that a training ends with


class Watch:
    """One training: its output, its reward log, and why it is to be stopped ("" while it is not)."""

    def __init__(self, run_dir: Path, most_errors: float, process: subprocess.Popen[bytes], log: BinaryIO) -> None:
        self.run_dir, self.most_errors, self.process, self.log = run_dir, most_errors, process, log
        self.share = RewardShare(run_dir / "reward_log")
        self.problem = ""
        self.signal: signal.Signals | None = None
        self.line = b""  # the output's last, unfinished line
        self.last_words = b""
        self.next_check = 0.0
        self.vllm_failed, self.vllm_seconds = "", 0.0  # with which words, and when

    def on_signal(self, number: int, frame: object) -> None:
        if self.signal:  # asked twice
            self.process.kill()
        self.signal = signal.Signals(number)

    def follow(self) -> None:
        """Until the training has ended, by itself or because it was stopped."""
        decided, patience = 0.0, list(PATIENCE)
        while self.process.poll() is None:
            self.copy_output(TICK_SECONDS)
            now = time.monotonic()
            if now >= self.next_check and not self.problem:
                self.next_check = now + CHECK_SECONDS
                self.check()
            if self.problem or self.signal:
                decided = decided or now
                while patience and now - decided >= patience[0][1]:
                    self.process.send_signal(patience.pop(0)[0])

    def finish(self) -> None:
        """End what the training has left behind and take its last words."""
        until = time.monotonic() + LEFTOVERS_SECONDS
        while processes.below() and time.monotonic() < until and not (self.problem or self.signal):
            self.copy_output(TICK_SECONDS)
        processes.kill_all()
        while self.copy_output(0):
            pass
        if not (self.problem or self.signal):
            self.check(at_the_end=True)

    def check(self, at_the_end: bool = False) -> None:
        try:
            self.problem = disk.full(self.run_dir)
        except OSError as error:
            self.problem = f"{self.run_dir} cannot be reached ({error.strerror})"
        if at_the_end and self.process.returncode and not self.problem and (met := disk.last_met(self.last_words)):
            self.problem = f"the training could not write, as where a disk is full or a quota used up ({met})"
        now = time.monotonic()
        if self.vllm_failed and not at_the_end and now - self.vllm_seconds > VLLM_SECONDS and not self.problem:
            self.problem = f"vLLM has failed, and the training waits for it ({self.vllm_failed}); the cause stands in train.log"
        self.problem = self.problem or self.share.problem(self.most_errors, now, at_the_end)

    def copy_output(self, seconds: float) -> bool:
        """Pass on what is printed within so many seconds; False when that was nothing."""
        pipe = self.process.stdout.fileno()
        if not select.select([pipe], [], [], seconds)[0]:
            return False
        chunk = os.read(pipe, 1 << 16)
        if not chunk:  # closed, though the process may go on
            time.sleep(seconds)
            return False
        with contextlib.suppress(OSError):  # nobody reads it any more; the file still gets it
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        try:
            self.log.write(chunk)
        except OSError as error:
            self.problem = self.problem or f"{self.log.name} cannot be written ({error.strerror})"
        self.last_words = (self.last_words + chunk)[-LAST_WORDS:]
        *lines, self.line = (self.line + chunk).split(b"\n")
        self.line = self.line[-LONGEST_LINE:]
        for line in lines:
            if not self.problem and CANNOT_WRITE.encode() in line:
                told = line[line.index(CANNOT_WRITE.encode()) :].decode(errors="replace").removeprefix("code_reward: ")
                self.problem = f"a worker {told}" + ("" if disk.MET.search(told) else " (REWARD_LOG=0 runs without it)")
            if not self.vllm_failed and (met := VLLM_FAILED.search(line)):
                self.vllm_failed, self.vllm_seconds = met[1][:200].decode(errors="replace").strip(), time.monotonic()
        return True


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m training.watch", description="Run a training and stop it when it is in vain."
    )
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--max-internal-errors", type=share, default=0.05, help="share of responses without a verdict, 0 to 1")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    try:
        given.run_dir.mkdir(parents=True, exist_ok=True)
        train_log = (given.run_dir / "train.log").open("ab", buffering=0)
    except OSError as error:
        words = f"{given.run_dir}/train.log cannot be written ({error.strerror})"
        print(f"watch: the run has not started: {disk.with_remedy(words)}.", file=sys.stderr)
        return 1
    with train_log as log:
        if not processes.take(log):
            print(f"watch: another run writes to {given.run_dir}: end it, or set RUN_DIR.", file=sys.stderr)
            return 1
        process = processes.start(given.command)
        watch = Watch(given.run_dir, given.max_internal_errors, process, log)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background job
                signal.signal(number, watch.on_signal)
        watch.follow()
        watch.finish()
        if watch.problem:
            words = f"watch: the run has ended: {disk.with_remedy(watch.problem)}."
            with contextlib.suppress(OSError):
                log.write(f"{words}\n".encode())
    if watch.signal:  # as if it had not been caught: a shell that runs this script stops as well
        signal.signal(watch.signal, signal.SIG_DFL)
        os.kill(os.getpid(), watch.signal)
    if watch.problem:
        print(words, file=sys.stderr, flush=True)
        return 1
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
