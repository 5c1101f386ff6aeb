"""
The choice of the candidate for the coming day: the fewest under-provisioned minutes within the budget.

Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cronhpa.forecasting.candidates import CONSTANTS, Candidate
from cronhpa.forecasting.columns import Floats
from cronhpa.forecasting.evaluation import CandidateScores

# Candidates within this factor of the fewest minutes count as equal: the cheapest one is chosen.
_NEAR_BEST = 1.01
# Factor by which a step to a lower pod price may raise the remaining minutes.
_MARGIN_LOSS = 1.02
# A candidate that avoids fewer minutes a week is not chosen.
_MINUTES_PER_WEEK_MIN = 1.0
# Worth of one avoided minute a day, in percent of pod-hours.
WORTH_PERCENT = 12.0
# Candidates that change replicas more often than this multiple of reactive scaling are the last resort.
_ACTIONS_MAX = 1.1
_WEEK_DAYS = 7
_CORRECTION_MIN, _CORRECTION_MAX = 0.5, 1.5
_MARGIN_SHARE = 1.0


class Choice(Struct, frozen=True, tag=True):
    """The candidate in use until the next fit, and its backtest."""

    candidate: Candidate
    avoided: float
    """Those minutes of `of` that the candidate avoids."""
    of: float
    """Under-provisioned minutes of reactive scaling in `days`."""
    extra_percent: float
    """Added pod-hours, percent."""
    days: int


class NothingToGain(Struct, frozen=True, tag=True):
    """No candidate within the budget avoids enough."""

    of: float
    """Under-provisioned minutes of reactive scaling in `days`."""
    days: int


def choose(
    scores: CandidateScores, candidates: Sequence[Candidate], budget_percent: float, usable: NDArray[np.bool_]
) -> Choice | NothingToGain:
    """
    The cheapest of the allowed candidates within 1 % of the fewest under-provisioned minutes over all days.

    Allowed: extra pod-hours <= min(budget_percent, WORTH_PERCENT x avoided minutes a day). Candidates that are not calm
    are allowed only if no calm one is. usable: (1 + candidates,), whether the candidate's method is available today.
    """
    minutes, pods = scores.minutes.sum(axis=1), scores.pods.sum(axis=1)
    days = scores.minutes.shape[1]
    extra = pods / pods[0] - 1
    affordable = np.minimum(budget_percent, WORTH_PERCENT * (minutes[0] - minutes) / days) / 100
    allowed = usable & (extra <= affordable) & (minutes <= minutes[0] - _MINUTES_PER_WEEK_MIN * days / _WEEK_DAYS)
    calm = _is_calm(scores)
    affordable = np.where(usable, affordable, -np.inf)
    if (allowed & calm).any():
        allowed &= calm
        affordable = np.where(calm, affordable, -np.inf)
    if not allowed.any():
        return NothingToGain(float(minutes[0]), days)
    near = allowed & (minutes <= minutes[allowed].min() * _NEAR_BEST + 1e-9)
    row = int(np.flatnonzero(near)[np.argmin(pods[near])])
    row = _with_margin(row, candidates, minutes, extra, affordable * _MARGIN_SHARE)
    return Choice(
        candidate=candidates[row - 1],
        avoided=float(minutes[0] - minutes[row]),
        of=float(minutes[0]),
        extra_percent=100 * float(extra[row]),
        days=days,
    )


def budget_correction(expected: Sequence[float], spent: Sequence[float]) -> float:
    """
    Factor for the budget of the next choice: (expected cost of earlier choices) / (their actual cost).

    expected, spent: extra pod-hours of each of the last days, percent. A backtest does not foresee the next day: after
    choices that cost more than expected, the next one gets a smaller budget.
    """
    if not expected:
        return 1.0
    # Two percent on both sides dampen the ratio of small numbers.
    ratio = (sum(expected) / len(expected) + 2) / (max(sum(spent), 0.0) / len(spent) + 2)
    return min(max(ratio, _CORRECTION_MIN), _CORRECTION_MAX)


def _is_calm(scores: CandidateScores) -> NDArray[np.bool_]:
    """(1 + candidates,): actions <= 1.1 x reactive actions + 2 a day, one change up and one down."""
    actions = scores.actions.sum(axis=1)
    once = 2 * scores.actions.shape[1]
    calm: NDArray[np.bool_] = actions <= actions[0] * _ACTIONS_MAX + once
    return calm


def _with_margin(row: int, candidates: Sequence[Candidate], minutes: Floats, extra: Floats, affordable: Floats) -> int:
    """
    Spend the rest of the allowed cost on safety margin: step to lower pod prices while minutes rise by at most 2 %.

    The next days may need pods that the last ones did not: the cheapest of equal candidates has no margin.
    """
    while row + len(CONSTANTS) < len(candidates):
        lower = row + len(CONSTANTS)
        if candidates[lower - 1].cost >= candidates[row - 1].cost:
            break
        if minutes[lower] > minutes[row] * _MARGIN_LOSS + 1e-9 or extra[lower] > affordable[lower]:
            break
        row = lower
    return row
