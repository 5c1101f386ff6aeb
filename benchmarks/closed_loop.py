"""
Policies on recorded series in one closed loop, and the score of each: docs/engineering/forecasting.md has the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from decided import decided, is_decided
from policy_floors import replayed
from recorded import Recorded
from rivals import RIVALS

from cronhpa.forecasting.columns import (
    MINUTES_PER_STEP,
    AutoscalerModel,
    Counts,
    Floats,
    Utilization,
    simulate,
)
from cronhpa.forecasting.outcomes import Outcomes

REACTIVE = "reactive"
LOWER_TARGET = "reactive, lower target"
ORACLE = "oracle"
# Percent of pod-hours.
BUDGETS = (5, 8, 10)

# Stressed is where plain reactive scaling is short for at least this long a day.
STRESSED_MINUTES = 0.25
_LOWER_PERCENT = 10
_FLOOR_MAX = 14_000
_TICKS_PER_MINUTE = 4


@dataclass(frozen=True)
class ClosedLoopScore:
    """One policy on one series, a day of replay on average. unserved: of the load."""

    minutes: float
    unserved: float
    pod_hours: float
    actions: float


# By series, then by policy.
Scores = dict[str, dict[str, ClosedLoopScore]]


@dataclass(frozen=True)
class Summary:
    """
    One policy against plain reactive scaling, over all series.

    reduction: percent fewer minutes, unserved: percent less load unserved, means over the stressed series.
    extra, worst: percent more pod-hours, mean and most; smooth: the most on series that are not stressed.
    actions: times as many, mean; actions_most: the most on any. harm: percent more minutes where they are most.
    minutes: a day.
    """

    reduction: float
    unserved: float
    extra: float
    worst: float
    actions: float
    actions_most: float
    harm: float
    smooth: float
    minutes: float


def at_percent(autoscaler: AutoscalerModel, percent: int) -> AutoscalerModel:
    """The same autoscaler with another Utilization target, in percent of the request, which a pod can carry."""
    return replace(autoscaler, goal=Utilization(percent))


def ours(budget: int) -> str:
    return f"ours, budget {budget} %"


def run(
    series: Recorded, autoscaler: AutoscalerModel, rivals: Mapping[str, Callable[[Recorded], Floats]] = RIVALS
) -> dict[str, ClosedLoopScore]:
    """Every policy on one series."""
    plain = np.zeros(len(series.steps) * MINUTES_PER_STEP, np.int16)
    floors = {name: _laid(rival(series) / autoscaler.goal.load, autoscaler) for name, rival in rivals.items()}
    floors |= {ORACLE: _oracle(series, autoscaler)}
    others = simulate(series.load, np.stack(list(floors.values())), autoscaler)
    low = simulate(series.load, plain[None], at_percent(autoscaler, round(100 * autoscaler.goal.load) - _LOWER_PERCENT))
    kept = slice(series.first_step, None)
    scores = {name: _score(series, others, row, kept) for row, name in enumerate(floors)}
    own = run_ours(series, autoscaler, BUDGETS)
    oracle = scores.pop(ORACLE)
    return {REACTIVE: own.pop(REACTIVE), LOWER_TARGET: _score(series, low, 0, kept), **scores, **own, ORACLE: oracle}


def run_ours(series: Recorded, autoscaler: AutoscalerModel, budgets: tuple[int, ...]) -> dict[str, ClosedLoopScore]:
    """Reactive scaling and ours alone."""
    outcomes = replayed(series, autoscaler, budgets).outcomes
    return {name: _score(series, outcomes, row) for row, name in enumerate([REACTIVE, *map(ours, budgets)])}


def run_decided(
    series: Recorded, autoscaler: AutoscalerModel, budgets: tuple[int, ...]
) -> dict[str, ClosedLoopScore] | None:
    """Reactive scaling and ours by `decide` at every reconcile; None for a series replayed faster than its calendar."""
    if not is_decided(series):
        return None
    plain, own = decided(series, autoscaler, budgets)
    return {
        name: ClosedLoopScore(
            minutes=score.under_provisioned_minutes / series.days,
            unserved=score.unserved / score.demand,
            pod_hours=score.pod_hours / series.days,
            actions=score.actions / series.days,
        )
        for name, score in zip([REACTIVE, *map(ours, budgets)], [plain, *own], strict=True)
    }


def summary(scores: Scores, policy: str) -> Summary:
    pairs = [(by_policy[policy], by_policy[REACTIVE]) for by_policy in scores.values()]
    stressed = [(one, plain) for one, plain in pairs if plain.minutes >= STRESSED_MINUTES]
    smooth = [one.pod_hours / plain.pod_hours - 1 for one, plain in pairs if plain.minutes < STRESSED_MINUTES]
    extra = [one.pod_hours / plain.pod_hours - 1 for one, plain in pairs]
    actions = [one.actions / max(plain.actions, 1e-9) for one, plain in pairs]
    # Percents of a few seconds a day say nothing: they are taken of what is stressed at the least.
    harm = [(one.minutes - plain.minutes) / max(plain.minutes, STRESSED_MINUTES) for one, plain in pairs]
    return Summary(
        reduction=100 * _mean([1 - one.minutes / plain.minutes for one, plain in stressed]),
        unserved=100 * _mean([1 - one.unserved / plain.unserved for one, plain in stressed]),
        extra=100 * _mean(extra),
        worst=100 * max(extra),
        actions=_mean(actions),
        actions_most=max(actions),
        harm=100 * max(harm),
        smooth=100 * max(smooth, default=0.0),
        minutes=_mean([one.minutes for one, _ in pairs]),
    )


def traded(base: Scores, high: Scores, names: Sequence[str]) -> float | None:
    """
    Percent more pod-hours of a higher target, on a line between two budgets, where the mean minutes of these series are
    those of the lower target without a forecast; None where no budget reaches them.
    """
    plain = _mean([base[name][REACTIVE].minutes for name in names])
    points = [
        (
            _mean([high[name][policy].minutes for name in names]),
            100 * _mean([high[name][policy].pod_hours / base[name][REACTIVE].pod_hours - 1 for name in names]),
        )
        for policy in high[names[0]]
    ]
    if points[0][0] <= plain:
        return points[0][1]
    for (minutes, cheap), (fewer, dear) in pairwise(points):
        if fewer <= plain < minutes:
            return cheap + (minutes - plain) / (minutes - fewer) * (dear - cheap)
    return None


def halves(scores: Scores) -> tuple[Scores, Scores]:
    """The series of even and of odd places in alphabetical order."""
    names = sorted(scores)
    even, odd = ({name: scores[name] for name in names[first::2]} for first in (0, 1))
    return even, odd


def _mean(values: list[float]) -> float:
    return float(np.mean(values or [0.0]))


def _score(series: Recorded, outcomes: Outcomes, row: int, kept: slice = slice(None)) -> ClosedLoopScore:
    """kept: the steps of the test among those of the outcomes."""
    demand = series.load.reshape(len(series.steps), -1).mean(axis=1)[series.first_step :].sum()
    under, pods, unserved, actions = (
        float(getattr(outcomes, name)[row, kept].sum(dtype=np.float64))
        for name in ("under", "pods", "unserved", "actions")
    )
    return ClosedLoopScore(
        minutes=under / 60 / series.days,
        unserved=unserved / float(demand),
        pod_hours=pods * MINUTES_PER_STEP / 60 / series.days,
        actions=actions / series.days,
    )


def _laid(expected: Floats, autoscaler: AutoscalerModel) -> Counts:
    """
    Floors of each minute from (steps, 2) loads over what a pod may carry: the step after the newest known one, and the
    one behind it as soon as a pod asked for now would be ready for it alone.
    """
    begins = MINUTES_PER_STEP  # the minute that begins when the step is complete
    whole = np.clip(np.ceil(np.nan_to_num(expected) - 1e-9), 0, _FLOOR_MAX).astype(np.int16)
    floors = np.repeat(whole[:, 0], MINUTES_PER_STEP)
    both = np.repeat(whole.max(axis=1), MINUTES_PER_STEP)
    minute = np.arange(len(floors)) % MINUTES_PER_STEP
    reach = autoscaler.delay_seconds + 60 * (minute + 1) + autoscaler.start_up_seconds
    floors = np.where(reach > 60 * MINUTES_PER_STEP + 30, both, floors)
    return np.concatenate([np.zeros(begins, np.int16), floors])[: len(floors)]


def _oracle(series: Recorded, autoscaler: AutoscalerModel) -> Counts:
    """The largest load until a pod asked for a minute later would be ready, over 0.9 of what it carries."""
    reach = (autoscaler.delay_seconds + 60 + autoscaler.start_up_seconds) // 15 + 1
    padded = np.concatenate([series.load, np.full(reach, series.load[-1])])
    most = np.lib.stride_tricks.sliding_window_view(padded, reach + 1)[: len(series.load)].max(axis=1)
    return np.clip(np.ceil(most[::_TICKS_PER_MINUTE] / 0.9), 0, _FLOOR_MAX).astype(np.int16)
