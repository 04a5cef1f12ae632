"""veRL's reward function for programs: run the model's answer on the problem's tests, score = pass rate.

    custom_reward_function.path=code_reward.py custom_reward_function.name=compute_score

`python3 code_reward.py` checks that it works on this machine, `--isolation` shows what stands around the programs that it
runs; nothing but Python is needed. The engine is in verifier/.
"""

from __future__ import annotations

import sys
from pathlib import Path

# veRL loads this file by its path, on every node, and does not put its folder on sys.path. First, for the folder that a run is
# started from comes before PYTHONPATH and may have a verifier.py of its own.
if sys.path[:1] != [str(Path(__file__).resolve().parent)]:
    sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    from verifier import extraction, ground_truth, options, scoring
    from verifier.verdict import Verdict
except ValueError as error:  # CODE_REWARD_CONCURRENCY
    if __name__ != "__main__":
        raise
    sys.exit(f"code_reward.py: {error}")


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs) -> dict[str, float]:
    """Return the reward of one response and what became of it: always the same keys, all floats.

    score        PPO's reward: the pass rate (or, with reward="binary", acc), and shares for format and compiling where
                 format_weight and compile_weight are set
    pass_rate    share of the tests passed
    format       1 when the answer is in a Python code block
    acc          1 when every test passed
    compile_error, runtime_error, wrong_answer, time_limit, memory_limit, output_limit
                 share of the tests that ended so; with pass_rate and the next two they add up to 1
    data_error   1 when the row has no usable tests, or names an unknown checker
    internal_error  1 when the verifier itself or the row's checker failed (after further tries; also said on stderr)

    `ground_truth` is the dict or JSON of the data set: inputs, outputs and, for call-based tests, fn_name. A row whose
    output is to be judged in a way of its own says so in `extra_info["checker"]` (verifier/checkers.py). `kwargs` are the
    options of verifier/options.py. Raises ValueError for a wrong option, never for what a model wrote. Safe to call
    from threads and from several processes.
    """
    return scoring.score(data_source, solution_str, ground_truth, extra_info, kwargs)


def extract_code(text: str) -> str:
    """Return the program in a model's answer: its last Python block, or all of it where there is none."""
    return extraction.extract(text).code


def run_io_tests(code: str, inputs, outputs=None, timeout: float = 10.0) -> float:
    """Return the share of the tests that `code` passes; `timeout` is CPU seconds a test.

    `inputs` and `outputs` are lists of the same length, or the texts of a single test, or `inputs` is a whole ground truth
    (dict or JSON). Raises GroundTruthError for tests that cannot be read, RuntimeError when the verifier itself fails.
    """
    if outputs is not None:
        inputs, outputs = ([side] if isinstance(side, str) else list(side) for side in (inputs, outputs))
        inputs = {"inputs": inputs, "outputs": outputs}
    truth = ground_truth.parse(inputs)
    _, results = scoring.judge_program(code, truth, options.read({"timeout": timeout}))
    if results[0].verdict is Verdict.IE:
        raise RuntimeError(results[0].detail)
    return sum(result.verdict is Verdict.AC for result in results) / len(results)


if __name__ == "__main__":
    from verifier import self_check

    sys.exit(self_check.command(sys.argv[1:], compute_score))
