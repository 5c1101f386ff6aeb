"""Rows of several series, one behind the other, so that one pass looks them up for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.method import Floats, Rows


@dataclass(frozen=True)
class JoinedRows:
    """begin, count: of each series, or of the series that each row asks."""

    values: NDArray[Any]
    begin: Rows
    count: Rows

    @classmethod
    def of(cls, several: Sequence[NDArray[Any]]) -> JoinedRows:
        count = np.array([len(values) for values in several])
        return cls(np.concatenate(several), np.cumsum(count) - count, count)

    def asked_by(self, owner: Rows) -> JoinedRows:
        """Rows of the series with these numbers."""
        return JoinedRows(self.values, self.begin[owner], self.count[owner])

    def take(self, rows: Rows) -> Floats:
        """(..., n): rows of the series, NaN outside."""
        inside = (rows >= 0) & (rows < self.count)
        return np.where(inside, self.values.take(self.places(rows), mode="clip"), np.nan)

    def places(self, rows: Rows) -> Rows:
        """Where rows of the series are among the values; of a single series there is nothing to add."""
        return rows + self.begin if self.begin.any() else rows
