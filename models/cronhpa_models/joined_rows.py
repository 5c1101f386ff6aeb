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
    """
    values: the kept rows of each series. begin, first, end: of each series, or of the series that each row asks, where
    its row 0 lies or would lie among the values, its first kept row, and the row after its last.
    """

    values: NDArray[Any]
    begin: Rows
    first: Rows
    end: Rows

    @classmethod
    def of(cls, several: Sequence[NDArray[Any]], first: Sequence[int] | Rows | None = None) -> JoinedRows:
        """first: the row that each of the arrays begins with; None: row 0."""
        first_rows = np.zeros(len(several), np.int64) if first is None else np.array(first)
        count = np.array([len(values) for values in several])
        return cls(np.concatenate(several), np.cumsum(count) - count - first_rows, first_rows, first_rows + count)

    def asked_by(self, owner: Rows) -> JoinedRows:
        """Rows of the series with these numbers."""
        return JoinedRows(self.values, self.begin[owner], self.first[owner], self.end[owner])

    def holding(self, values: NDArray[Any]) -> JoinedRows:
        """Other values of the same rows."""
        return JoinedRows(values, self.begin, self.first, self.end)

    def take(self, rows: Rows) -> Floats:
        """(..., n): rows of the series, NaN outside."""
        if not len(self.values):
            return np.full(np.broadcast_shapes(rows.shape, self.first.shape), np.nan)
        inside = (rows >= self.first) & (rows < self.end)
        return np.where(inside, self.values.take(self.places(rows), mode="clip"), np.nan)

    def places(self, rows: Rows) -> Rows:
        """Where rows of the series are among the values; of a single whole series there is nothing to add."""
        return rows + self.begin if self.begin.any() else rows
