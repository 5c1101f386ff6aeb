"""
Last value: what is, will be.

Card
  What for   The baseline that any forecast of the next minutes has to beat, and all there is below two days of history.
  Formula    z[t+h] = z[t], and conformal quantiles of how it moved.
  Source     Hyndman & Athanasopoulos, Forecasting: Principles and Practice (2021), section 5.2, "naive".
  Cost, scores   docs/forecasting.md; `make bench-methods TRACES=DIR` prints them.
  Weak at    Every rise is a surprise, at whatever clock it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cronhpa_models.conformal import Calibrated, offset_of
from cronhpa_models.method import Floats, steps_per_day

if TYPE_CHECKING:
    from pandas import Series

    from cronhpa_models.method import Fitted


@dataclass(frozen=True)
class LastValue:
    def fit(self, history: Series[float], *, horizon: int) -> Fitted | None:
        """See cronhpa_models.method.Method."""
        steps_per_day(history.index)
        offset = offset_of(history)
        return None if offset is None else Calibrated(history, offset, horizon, expected)


def expected(load: Floats, horizon: int) -> Floats:
    """(rows, horizon)"""
    return np.repeat(load[:, None], horizon, axis=1)
