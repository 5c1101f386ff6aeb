"""
Time of week: the quantile of what came at this clock, the same weekday first.

Card
  What for   Jumps that come at a clock whatever was before them: openings, batch starts. Plain, it knows nothing of
             today; corrected, it is scaled by how today compares with what is usual.
  Formula    quantile of load[t+h-d*m] over d = 1..28 days and one step beside it (weights: clock.py), times, if
             corrected, the mean load of the last three steps over what the median expected of them, within 0.5 to 2.
  Source     Empirical quantiles; Kubernetes' VPA recommender fades its histograms the same way.
  Cost, scores   docs/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Calibration: it states what happened, not how sure that is; noise around a level is taken for events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cronhpa_models.clock import quantiles_at_clock
from cronhpa_models.method import Floats, Quantiles, Rows, joined, largest_ahead, stated, steps_per_day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import Series

    from cronhpa_models.method import Fitted

_DAYS_BACK = 28
_LEVEL_STEPS = 3
_RATIO_MIN, _RATIO_MAX = 0.5, 2.0


@dataclass(frozen=True)
class TimeOfWeek:
    corrected: bool

    def fit(self, history: Series[float], *, horizon: int) -> Fitted | None:
        """See cronhpa_models.method.Method. There is nothing to learn but the days themselves."""
        day = steps_per_day(history.index)
        return _Days(history, day, horizon, self.corrected) if len(history) > day else None


@dataclass(frozen=True)
class _Days:
    history: Series[float]
    day: int
    horizon: int
    corrected: bool

    def quantiles(self, later: Series[float], levels: Sequence[float]) -> Quantiles:
        """See cronhpa_models.method.Fitted."""
        load = joined(self.history, later)
        came = largest_ahead(load, self.horizon)
        rows = np.arange(len(self.history) - 1, len(load))
        found = [
            quantiles_at_clock(came[:, i], rows, levels, day=self.day, days=_DAYS_BACK) for i in range(self.horizon)
        ]
        usual = np.stack(found, axis=2)
        if self.corrected:
            usual = usual * self._ratio(load, came[:, 0], rows)[:, None]
        return stated(self.history, later, levels, usual)

    def _ratio(self, load: Floats, came: Floats, rows: Rows) -> Floats:
        """How the last steps compare with what was expected of them; one where that is not known."""
        before = np.arange(rows[0] - _LEVEL_STEPS, rows[-1])
        now = load[before + 1]
        usual = quantiles_at_clock(came, before, [0.5], day=self.day, days=_DAYS_BACK)[0]
        known = ~np.isnan(now) & ~np.isnan(usual)
        total = [np.convolve(np.where(known, each, 0.0), np.ones(_LEVEL_STEPS), "valid") for each in (now, usual)]
        ratio = np.divide(total[0], total[1], out=np.ones(len(rows)), where=total[1] > 0)
        clipped: Floats = np.clip(ratio, _RATIO_MIN, _RATIO_MAX)
        return clipped
