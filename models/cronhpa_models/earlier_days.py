"""
Point forecasts from earlier days alone, as methods.

Imports numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cronhpa_models.conformal import Calibrated, calibrated, decoded, kept
from cronhpa_models.method import Floats, Rows

# (load, steps ahead, steps a day) to (rows, steps ahead), NaN where nothing is expected.
Expected = Callable[[Floats, int, int], Floats]


@dataclass(frozen=True)
class EarlierDays:
    """See cronhpa_models.method.Method."""

    name: str
    expected: Expected
    """The next steps at each row, computed from the days before it."""
    needs: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        return (self.name,)

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> Calibrated | None:
        """None if nothing was measured."""
        of_days = _OfDays(steps_per_day, self.expected)
        return calibrated(kept(load, steps_per_day), steps_per_day, windows, of_days)

    def decode(self, state: bytes) -> Calibrated:
        return decoded(state, lambda stored: _OfDays(stored.steps_per_day, self.expected))


@dataclass(frozen=True)
class _OfDays:
    """See cronhpa_models.conformal.Expectation."""

    steps_per_day: int
    expected: Expected

    def __call__(self, z: Floats, horizon: int) -> Floats:
        return self.expected(z, horizon, self.steps_per_day)

    def gain(self, rows: Rows, horizon: int) -> Floats:
        """Zero: today's load does not change the expectation."""
        return np.zeros((len(rows), horizon))

    def parameters(self) -> dict[str, Floats]:
        return {}
