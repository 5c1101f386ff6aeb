"""
Last value: the load stays as it is.

Card
  What for   The baseline of any forecast of the next minutes, and the only one below two days of history.
  Formula    z[t+h] = z[t], and conformal quantiles of its errors.
  Source     Hyndman & Athanasopoulos, Forecasting: Principles and Practice (2021), section 5.2, "naive".
  Cost, scores   docs/engineering/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Every rise, even one that comes every day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cronhpa_models.conformal import Calibrated, calibrated, decoded, kept
from cronhpa_models.method import Floats, Rows


class LastValue:
    """See cronhpa_models.method.Method."""

    name = "LastValue"
    variants = ("LastValue",)
    needs = ()

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> Calibrated | None:
        """None if nothing was measured."""
        return calibrated(kept(load, steps_per_day), steps_per_day, windows, _Repeated())

    def decode(self, state: bytes) -> Calibrated:
        return decoded(state, lambda _: _Repeated())


@dataclass(frozen=True)
class _Repeated:
    """See cronhpa_models.conformal.Expectation."""

    def __call__(self, z: Floats, horizon: int) -> Floats:
        return np.repeat(z[:, None], horizon, axis=1)

    def gain(self, rows: Rows, horizon: int) -> Floats:
        return np.ones((len(rows), horizon))

    def parameters(self) -> dict[str, Floats]:
        return {}
