"""
Seasonal naive: what came at this clock yesterday comes again.

Card
  What for   The baseline of everything that claims to know a rhythm; MASE is measured against it.
  Formula    z[t+h] = z[t+h-m], m the steps of a day, and conformal quantiles of what one day differs from the next.
  Source     Hyndman & Athanasopoulos (2021), section 5.2, "seasonal naive".
  Cost, scores   docs/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Today's level: a day that is twice as busy is forecast at half. Mondays are forecast as Sundays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cronhpa_models.conformal import Calibrated, calibrated, decoded, kept
from cronhpa_models.method import Floats, Rows, shifted


class SeasonalNaive:
    """See cronhpa_models.method.Method."""

    name = "SeasonalNaive"
    variants = ("SeasonalNaive",)
    needs = ()

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> Calibrated | None:
        """None where nothing was measured."""
        return calibrated(kept(load, steps_per_day), steps_per_day, windows, _Expected(steps_per_day))

    def decode(self, state: bytes) -> Calibrated:
        return decoded(state, lambda found: _Expected(found.steps_per_day))


@dataclass(frozen=True)
class _Expected:
    """See cronhpa_models.conformal.Expectation."""

    steps_per_day: int

    def __call__(self, z: Floats, horizon: int) -> Floats:
        return expected(z, horizon, day=self.steps_per_day)

    def gain(self, rows: Rows, horizon: int) -> Floats:
        """None: the load of today says nothing."""
        return np.zeros((len(rows), horizon))

    def parameters(self) -> dict[str, Floats]:
        return {}


def expected(load: Floats, horizon: int, *, day: int) -> Floats:
    """(rows, horizon), NaN on the first day."""
    return np.stack([shifted(load, day - ahead) for ahead in range(1, horizon + 1)], axis=1)
