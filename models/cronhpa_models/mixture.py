"""Error mixtures, the operator's own method, as quantiles like those of the others: the card is in error_mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cronhpa_models import error_mixture
from cronhpa_models.method import Quantiles, joined, stated, steps_per_day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import Series

    from cronhpa_models.method import Fitted


@dataclass(frozen=True)
class Mixture:
    """weights: one of error_mixture.METHODS."""

    weights: str

    def fit(self, history: Series[float], *, horizon: int) -> Fitted | None:
        """See cronhpa_models.method.Method. Half a day is the least."""
        day = steps_per_day(history.index)
        windows = tuple(range(1, horizon + 1))
        fitted = error_mixture.fit(np.asarray(history, dtype=np.float64), steps_per_day=day, windows=windows)
        return None if fitted is None else _Mixed(history, fitted, self.weights)


@dataclass(frozen=True)
class _Mixed:
    history: Series[float]
    fitted: error_mixture.Fitted
    weights: str

    def quantiles(self, later: Series[float], levels: Sequence[float]) -> Quantiles:
        """See cronhpa_models.method.Fitted."""
        came = joined(self.history, later)[len(self.history) :]
        rows = len(self.fitted.load) - 1 + np.arange(len(came) + 1)
        found = error_mixture.chances(self.fitted, came, error_mixture.on_grid(self.fitted, came, rows))
        windows = range(len(self.fitted.windows))
        load = [[found.quantile(self.weights, window, level) for window in windows] for level in levels]
        return stated(self.history, later, levels, np.moveaxis(np.array(load), 1, 2))
