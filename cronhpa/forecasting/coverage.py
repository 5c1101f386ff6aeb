"""
The coverage of issued quantiles: the share of outcomes at or below them, compared with their stated level.

Levels differ from forecast to forecast, so only the excess over the stated level can be averaged. Imports numpy: for
workers and benchmarks only.
"""

from __future__ import annotations

import numpy as np

from cronhpa.forecasting.columns import Floats
from cronhpa.history.load.packing import STEPS_PER_DAY

# With fewer outcomes the standard error of a coverage of 0.95 is above two percent.
OUTCOMES_MIN = 100
# A fit keeps loads with 24 bits: a constant load must not count as uncovered by its last digit.
_ROUNDING = 1 + 1e-6


def excess_coverage(outcomes: Floats, issued: Floats, levels: Floats) -> float | None:
    """
    (share of outcomes at or below their issued quantile) - (mean of the stated levels).

    (n,) each, NaN for unknown values. None for fewer than OUTCOMES_MIN known pairs.
    """
    is_known = ~np.isnan(outcomes) & ~np.isnan(issued)
    if is_known.sum() < OUTCOMES_MIN:
        return None
    return float(((outcomes[is_known] <= issued[is_known] * _ROUNDING) - levels[is_known]).mean())


def coverage_percent(level: float, excess: float | None) -> int | None:
    """level + excess of the last day, in percent; None while the excess is unknown."""
    return None if excess is None else round(100 * min(max(level + excess, 0.0), 1.0))


def rolling_excess(outcomes: Floats, issued: Floats, levels: Floats, steps_per_day: int) -> Floats:
    """
    (steps + 1,): `excess_coverage` of the day before the begin of each step, NaN where it is None.

    outcomes, issued, levels: (steps,), the load of each step, the quantile issued for it, and its level.
    """
    is_known = ~np.isnan(outcomes) & ~np.isnan(issued)
    hits = np.where(is_known, (outcomes <= issued * _ROUNDING) - levels, 0.0)
    total, count = (np.concatenate([[0.0], np.cumsum(per_step)]) for per_step in (hits, is_known))
    end = np.arange(len(outcomes) + 1)
    begin = np.maximum(end - steps_per_day + 1, 0)
    pairs = count[end] - count[begin]
    least = OUTCOMES_MIN * steps_per_day / STEPS_PER_DAY
    mean: Floats = np.divide(total[end] - total[begin], pairs, out=np.full(len(end), np.nan), where=pairs >= least)
    return mean
