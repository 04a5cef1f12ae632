"""How many cores judging needs so that it hides behind generation: the arithmetic of docs/sizing.md.

python3 benchmarks/sizing.py                                    the page's table
python3 benchmarks/sizing.py --ms-per-test 3 --tokens 600 --tokens-per-second 4000 --gpus 16
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from verifier.cores import SHARE
from verifier.verdict import Limits

LOOPING = (0.0, 0.01, 0.05)  # shares of the responses


def loop_seconds(timeout: float) -> float:
    """CPU of a response that loops on ten tests or more: the full limit, then the short one, then nothing."""
    limits = Limits()
    short = min(limits.short_cpu_seconds, timeout / 10)
    return limits.full_limit_timeouts * timeout + (limits.max_timeouts - limits.full_limit_timeouts) * short


def response_seconds(ms_per_test: float, tests: float, looping: float, timeout: float) -> float:
    """Mean CPU of judging one response."""
    return (1 - looping) * tests * ms_per_test / 1000 + looping * loop_seconds(timeout)


def cores(gpus: float, tokens_per_second: float, tokens: float, seconds_per_response: float) -> float:
    """Cores of the machines together, of which the verifier takes three quarters."""
    return gpus * tokens_per_second / tokens * seconds_per_response / SHARE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ms-per-test", type=float, default=5.0, help="CPU; the measured one of docs/engine.md")
    parser.add_argument("--tests", type=float, default=13, help="of a problem")
    parser.add_argument("--tokens", type=float, default=290, help="of a response")
    parser.add_argument("--tokens-per-second", type=float, default=9280, help="of one GPU while it generates")
    parser.add_argument("--timeout", type=float, default=10, help="CPU seconds a test (CODE_REWARD_TIMEOUT)")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 1000])
    chosen = parser.parse_args()
    print(f"| GPUs | responses/s | {' | '.join(f'cores, {share:.0%} loop' for share in LOOPING)} |")
    print(f"|---|---|{'---|' * len(LOOPING)}")
    for gpus in chosen.gpus:
        seconds = [response_seconds(chosen.ms_per_test, chosen.tests, share, chosen.timeout) for share in LOOPING]
        needed = [cores(gpus, chosen.tokens_per_second, chosen.tokens, each) for each in seconds]
        rate = gpus * chosen.tokens_per_second / chosen.tokens
        print(f"| {gpus:,} | {rate:,.0f} | {' | '.join(f'{each:,.1f}' for each in needed)} |")


if __name__ == "__main__":
    main()
