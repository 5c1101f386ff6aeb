"""
Time of week: the quantile of the loads at this clock on earlier days, the same weekday first.

Card
  What for   Jumps at a fixed time from any load before them: openings, batch starts. The plain variant ignores today;
             the corrected one is scaled by the ratio of today's load to the usual load.
  Formula    quantile of load[t+h-d*m] over d = 1..28 days and one step beside it (weights: clock.py), times, if
             corrected, the mean load of the last three steps over what the median expected of them, within 0.5 to 2.
  Source     Empirical quantiles; Kubernetes' VPA recommender fades its histograms the same way.
  Cost, scores   docs/engineering/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Calibration: past loads are stated without their uncertainty, and noise around a level counts as events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cronhpa_models import state as states
from cronhpa_models.clock import quantiles_at_clock
from cronhpa_models.conformal import kept
from cronhpa_models.method import Distribution, Floats, Origins, Rows, largest_ahead
from cronhpa_models.whole_steps import LEVELS, mixed, split

_DAYS_BACK = 28
_LEVEL_STEPS = 3
_RATIO_MIN, _RATIO_MAX = 0.5, 2.0


@dataclass(frozen=True)
class TimeOfWeek:
    """See cronhpa_models.method.Method."""

    is_corrected: bool
    """Whether the load is scaled by the ratio of today to the usual."""

    @property
    def name(self) -> str:
        return "TimeOfWeekCorrected" if self.is_corrected else "TimeOfWeek"

    @property
    def variants(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def needs(self) -> tuple[str, ...]:
        return ()

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> _Days | None:
        """Keeps the days themselves. None with less than one day."""
        load = kept(load, steps_per_day, _DAYS_BACK)
        return _Days(load, steps_per_day, tuple(windows), self.is_corrected) if len(load) > steps_per_day else None

    def decode(self, state: bytes) -> _Days:
        head, arrays = states.unpack(state)
        load = arrays["load"].astype(np.float64)
        return _Days(load, head["steps_per_day"], tuple(head["windows"]), self.is_corrected)


@dataclass(frozen=True)
class _Days:
    """See cronhpa_models.method.Fitted."""

    load: Floats
    steps_per_day: int
    windows: tuple[int, ...]
    is_corrected: bool

    def distribution(self, later: Floats, origins: Origins, windows: int | None = None) -> Distribution:
        """See cronhpa_models.method.Fitted."""
        reaches = self.windows[:windows]
        whole, part = split(origins.position)
        came = largest_ahead(np.concatenate([self.load, later]), reaches[-1])
        ended, under_way = (
            np.stack([self._at_clock(came[:, reach - 1], rows, LEVELS) for reach in reaches])
            for rows in (whole, whole + 1)
        )
        if self.is_corrected:
            ratio = self._ratio(came[:, 0], origins.recent, whole, part)[:, None]
            ended, under_way = ended * ratio, under_way * ratio
        return mixed(ended, under_way, part)

    def encode(self) -> bytes:
        """Loads with 24 bits, an error of 1e-7."""
        head = {"steps_per_day": self.steps_per_day, "windows": self.windows}
        return states.pack(head, {"load": self.load.astype("<f4")})

    def _at_clock(self, came: Floats, rows: Rows, levels: Floats) -> Floats:
        """(rows, levels)"""
        return quantiles_at_clock(came, rows, levels, day=self.steps_per_day, days=_DAYS_BACK).T

    def _ratio(self, came: Floats, recent: Floats, whole: Rows, part: Floats) -> Floats:
        """
        (origins,): mean of the last steps / mean of the medians at their clocks; one if that is unknown.

        came: (rows,), the load of the step after each row.
        """
        begins = whole[:, None] - 1 - np.arange(_LEVEL_STEPS)  # the row before each of the last steps
        rows, place = np.unique(np.concatenate([begins, begins + 1]), return_inverse=True)
        medians = self._at_clock(came, rows, np.array([0.5]))[place, 0].reshape(2, *begins.shape)
        # Between two steps the last steps lie between their clocks, too.
        usual = np.where(part[:, None] > 0, (1 - part[:, None]) * medians[0] + part[:, None] * medians[1], medians[0])
        now = recent[:, :_LEVEL_STEPS]
        is_known = ~np.isnan(now) & ~np.isnan(usual)
        was, expected = (np.where(is_known, load, 0.0).sum(axis=1) for load in (now, usual))
        ratio = np.divide(was, expected, out=np.ones(len(was)), where=expected > 0)
        return np.asarray(np.clip(ratio, _RATIO_MIN, _RATIO_MAX))
