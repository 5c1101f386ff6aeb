"""
Clock increments: from now on the load changes as it changed at this clock on earlier days.

Card
  What for   Rises at a fixed time of day, whatever the level of the day is.
  Formula    z[t] + quantile of z[t-d*m+h] - z[t-d*m] over d = 1..14 days and one step beside it (weights: clock.py);
             z = log(load + c), c = 5 % of the mean load.
  Source     Empirical quantiles of a seasonal random walk: Hyndman & Athanasopoulos (2021), section 5.5.
  Cost, scores   docs/engineering/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    A jump to a fixed level from a varying base: it is forecast as a factor. Noise in z[t] remains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cronhpa_models import state as states
from cronhpa_models.clock import quantiles_at_clock
from cronhpa_models.conformal import kept, offset_of
from cronhpa_models.method import Distribution, Floats, Origins, largest_ahead
from cronhpa_models.whole_steps import LEVELS, mixed, split

_DAYS_BACK = 14


class ClockIncrements:
    """See cronhpa_models.method.Method."""

    name = "ClockIncrements"
    variants = ("ClockIncrements",)
    needs = ()

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> _Moves | None:
        """Keeps the days themselves. None with less than a day, or if nothing was measured."""
        load = kept(load, steps_per_day)
        offset = offset_of(load)
        if offset is None or len(load) <= steps_per_day:
            return None
        return _Moves(load, offset, steps_per_day, tuple(windows))

    def decode(self, state: bytes) -> _Moves:
        head, arrays = states.unpack(state)
        return _Moves(arrays["load"].astype(np.float64), head["offset"], head["steps_per_day"], tuple(head["windows"]))


@dataclass(frozen=True)
class _Moves:
    """See cronhpa_models.method.Fitted."""

    load: Floats
    offset: float
    steps_per_day: int
    windows: tuple[int, ...]

    def distribution(self, later: Floats, origins: Origins, windows: int | None = None) -> Distribution:
        """See cronhpa_models.method.Fitted."""
        reaches = self.windows[:windows]
        whole, part = split(origins.position)
        z = np.log(np.concatenate([self.load, later]) + self.offset)
        moves = largest_ahead(z, reaches[-1]) - z[:, None]
        newest = np.log(origins.recent[:, 0] + self.offset)[:, None]
        ended, under_way = (
            np.stack(
                [
                    quantiles_at_clock(moves[:, reach - 1], rows, LEVELS, day=self.steps_per_day, days=_DAYS_BACK).T
                    for reach in reaches
                ]
            )
            for rows in (whole, whole + 1)
        )
        return mixed(np.exp(newest + ended) - self.offset, np.exp(newest + under_way) - self.offset, part)

    def encode(self) -> bytes:
        """Loads with 24 bits, an error of 1e-7."""
        head = {"offset": self.offset, "steps_per_day": self.steps_per_day, "windows": self.windows}
        return states.pack(head, {"load": self.load.astype("<f4")})
