"""What is wrong with a run, as checks on its curves: each names the step, the figure and what to do.

A check looks at several steps, so that one freak value (the first step, a NaN that is gone in the next) is no warning, and
reports one warning however long it holds. A warning that no longer holds at the end of its curve is over.

Left out on purpose: the often quoted healthy band of 0.5 to 1.0 for the actor loss. veRL's `actor/pg_loss` is the mean of
-advantage * ratio, and the advantages are whitened to mean 0 while the ratio starts at 1: the loss of a healthy run lies around
0 (between -0.02 and 0.04 in a run whose reward went from 0.13 to 0.95) and says nothing about progress. Only a loss that is not
finite or far from 0 does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from monitoring.curves import Curve, Curves, Name, pick

Found = Iterator[tuple[int, str | None]]  # for each step that can be judged, what is wrong there


class Rule(NamedTuple):
    name: str
    check: Callable[[Curves], Found]
    advice: str


class Finding(NamedTuple):
    """A rule that holds, or has held; of several stretches of steps the last."""

    rule: str
    step: int  # the first of the stretch in which it holds
    last: int  # the last of it
    over: bool
    figure: str  # as it was at the last
    advice: str

    def line(self) -> str:
        when = f"step {self.step}" if self.step == self.last else f"steps {self.step}-{self.last}"
        return f"{when}{', over' if self.over else ''}: {self.rule}: {self.figure}. {self.advice}"


def findings(curves: Curves) -> list[Finding]:
    """One for each rule that holds or has held, those that hold now first."""
    found = [finding for rule in RULES if (finding := _latest(rule, curves))]
    return sorted(found, key=lambda finding: (finding.over, finding.step))


def _latest(rule: Rule, curves: Curves) -> Finding | None:
    found: Finding | None = None
    for step, figure in rule.check(curves):
        if figure is not None:
            first = found.step if found and not found.over else step
            found = Finding(rule.name, first, step, False, figure, rule.advice)
        elif found:
            found = found._replace(over=True)
    return found


def windows(curve: Curve, size: int) -> Iterator[tuple[int, list[float]]]:
    """(step, the last `size` values) from the first step that has as many; values that are not finite are left out."""
    points = [(step, value) for step, value in zip(curve.steps, curve.values, strict=True) if math.isfinite(value)]
    for end in range(size, len(points) + 1):
        yield points[end - 1][0], [value for _, value in points[end - size : end]]


def pass_rate_zero(curves: Curves) -> Found:
    """Under 0.01 in the mean of twenty steps: of a hundred responses hardly one earns anything, so there is nothing to tell
    good from bad by. Twenty, as a model that first has to learn the format earns nothing for a while either."""
    for step, last in windows(pick(curves, "pass_rate", "score"), 20):
        yield step, f"pass rate {fmean(last):.3f} over {len(last)} steps" if fmean(last) < 0.01 else None


def pass_rate_jumping(curves: Curves) -> Found:
    """Over 0.2 from step to step in the median of ten changes, less the trend. By chance alone the median change is at most
    0.06 with 64 responses a batch and 0.12 with 16."""
    for step, last in windows(pick(curves, "pass_rate", "score"), 11):
        changes = [abs(b - a) for a, b in pairwise(last)]
        jump = median(changes) - abs(last[-1] - last[0]) / len(changes)
        yield step, f"pass rate changes by {jump:.2f} a step over {len(changes)} steps" if jump > 0.2 else None


def format_low(curves: Curves) -> Found:
    """Under half in twenty steps, and not 0.05 higher in the second ten than in the first: low at the start is what the
    first phase of a run looks like, low and not rising is not."""
    for step, last in windows(pick(curves, "format"), 20):
        low = fmean(last) < 0.5 and fmean(last[10:]) - fmean(last[:10]) < 0.05
        yield step, f"format {fmean(last):.2f} over {len(last)} steps" if low else None


def kl_shooting_up(curves: Curves) -> Found:
    """Mean KL a token, median of three steps: above 1 the policy has little left of the reference (runs that were
    seen to learn went up to 0.2), or above 0.4 and five times the lowest of the twenty steps before."""
    medians: list[float] = []
    for step, last in windows(pick(curves, "kl"), 3):
        now, before = median(last), medians[-20:]
        medians.append(now)
        if now > 1.0:
            yield step, f"KL {now:.2f} a token"
        elif len(before) >= 10 and now > max(0.4, 5 * min(before)):
            yield step, f"KL {now:.2f} a token, at the lowest {min(before):.3f} in the {len(before)} steps before"
        else:
            yield step, None


def actor_loss(curves: Curves) -> Found:
    """Above 10 in size or not finite, in two steps running: veRL skips an update whose gradient is not finite, so once may
    be nothing."""
    curve = curves.get(Name("actor_loss"), Curve((), ()))
    wrong = [not abs(value) <= 10.0 for value in curve.values]
    for i in range(1, len(wrong)):
        yield curve.steps[i], f"actor loss {curve.values[i]:.3g}" if wrong[i - 1] and wrong[i] else None


def length_with_reward(curves: Curves) -> Found:
    """Over twenty steps the length follows the reward (correlation above 0.9) and has grown by 30%: longer answers, not better
    programs, may be what is rewarded. Solutions of harder problems are longer too, hence the 30%."""
    length, score = curves.get(Name("length")), curves.get(Name("score"))
    if length is None or score is None:
        return
    rewards = dict(zip(score.steps, score.values, strict=True))
    pairs = {step: (value, rewards[step]) for step, value in zip(length.steps, length.values, strict=True) if step in rewards}
    steps = [step for step, pair in pairs.items() if all(map(math.isfinite, pair))]
    for end in range(20, len(steps) + 1):
        lengths, scores = zip(*(pairs[step] for step in steps[end - 20 : end]), strict=True)
        grown = fmean(lengths[-5:]) / max(fmean(lengths[:5]), 1e-9) - 1.0
        together = _correlation(lengths, scores)
        text = f"length grew by {grown:.0%} in 20 steps, correlation with the reward {together:.2f}"
        yield steps[end - 1], text if grown > 0.3 and together > 0.9 else None


def clip_ratio(curves: Curves) -> Found:
    """Nine of ten answers cut by the length limit, in the mean of five steps: the program is rarely complete."""
    for step, last in windows(pick(curves, "clip_ratio"), 5):
        yield step, f"{fmean(last):.0%} of the answers reach the length limit" if fmean(last) >= 0.9 else None


def entropy_collapse(curves: Curves) -> Found:
    """Under a tenth of the first five steps' entropy, in the mean of five, while the pass rate is below 0.9: a policy that
    has stopped trying other answers. One that solves the problems may be sure of itself."""
    rate = {step: fmean(last) for step, last in windows(pick(curves, "pass_rate", "score"), 5)}
    start: float | None = None
    for step, last in windows(pick(curves, "entropy"), 5):
        start = fmean(last) if start is None else start
        collapsed = fmean(last) < start / 10 and rate.get(step, 0.0) < 0.9
        yield step, f"entropy {fmean(last):.3g}, {start:.3g} at the start" if collapsed else None


def groups_alike(curves: Curves) -> Found:
    """In nine of ten groups all responses have the same score, in the mean of five steps: with GRPO those groups have
    advantage 0, and nine tenths of the batch teach nothing."""
    for step, last in windows(pick(curves, "groups_alike"), 5):
        yield step, f"{fmean(last):.0%} of the groups have one score for all responses" if fmean(last) >= 0.9 else None


def internal_errors(curves: Curves) -> Found:
    """Over 1% in the median of three steps. It should be 0; a single bad step has passed before anyone could stop the run."""
    for step, last in windows(pick(curves, "share/IE"), 3):
        yield step, f"{median(last):.1%} of the responses could not be judged (IE)" if median(last) > 0.01 else None


def data_errors(curves: Curves) -> Found:
    """As internal_errors; here each is a row of the data."""
    for step, last in windows(pick(curves, "share/DE"), 3):
        yield step, f"{median(last):.1%} of the responses belong to rows without usable tests" if median(last) > 0.01 else None


def timeouts_rising(curves: Curves) -> Found:
    """Over 10% of the tests and twice the first five steps' share, in the median of five. Such tests cost ten seconds of CPU
    each, so they are also what makes a step slow."""
    start: float | None = None
    for step, last in windows(pick(curves, "share/TLE"), 5):
        start = median(last) if start is None else start
        rising = median(last) > max(0.1, 2 * start)
        yield step, f"{median(last):.0%} of the tests over time, {start:.0%} at the start" if rising else None


def _correlation(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    mean_a, mean_b = fmean(a), fmean(b)
    together = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    spread = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return together / spread if spread > 0 else 0.0


RULES = (
    Rule("pass rate 0", pass_rate_zero, "Look at --samples: easier problems, a warm-up or a larger model."),
    Rule("pass rate jumps", pass_rate_jumping, "Lower ACTOR_LR, or raise TRAIN_BATCH_SIZE."),
    Rule("format low", format_low, "Look at --samples: is the prompt the one that asks for a Python block, is the answer cut?"),
    Rule("KL shoots up", kl_shooting_up, "Lower ACTOR_LR or raise KL_COEF, and go on from an earlier checkpoint."),
    Rule("actor loss", actor_loss, "Stop, lower ACTOR_LR and go on from an earlier checkpoint."),
    Rule("length follows the reward", length_with_reward, "Look at --samples for padding that is rewarded."),
    Rule("answers cut", clip_ratio, "Raise MAX_RESPONSE_LENGTH."),
    Rule("entropy collapse", entropy_collapse, "Lower ACTOR_LR, or raise TEMPERATURE or KL_COEF."),
    Rule("groups alike", groups_alike, "Raise ROLLOUT_N, or choose problems that the model solves sometimes."),
    Rule("internal errors", internal_errors, "The verifier cannot work: run python3 code_reward.py on that machine."),
    Rule("data errors", data_errors, "Prepare the data again: prepare_data.py drops such rows."),
    Rule("timeouts rise", timeouts_rising, "Look at --samples for programs that loop; lower CODE_REWARD_TIMEOUT."),
)
