"""Rows of several series, concatenated, so that one look-up serves all series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.method import Floats, Rows


@dataclass(frozen=True)
class JoinedRows:
    """The kept rows of several series; `begin`, `first` and `end` are by series, after `asked_by` by requested row."""

    values: NDArray[Any]
    """The kept rows of all series."""
    begin: Rows
    """The place of row 0 among the values, whether that row is kept or not."""
    first: Rows
    """The first kept row."""
    end: Rows
    """The row after the last one."""

    @classmethod
    def of(cls, several: Sequence[NDArray[Any]], first: Sequence[int] | Rows | None = None) -> JoinedRows:
        """first: the number of the first row of each array; None: 0."""
        return cls.of_parts([(values,) for values in several], first)

    @classmethod
    def of_parts(
        cls, several: Sequence[tuple[NDArray[Any], ...]], first: Sequence[int] | Rows | None = None
    ) -> JoinedRows:
        """As `of`, each series in parts that follow one another."""
        counts = np.array([sum(map(len, parts)) for parts in several])
        return cls.joined(np.concatenate([part for parts in several for part in parts]), counts, first)

    @classmethod
    def joined(cls, values: NDArray[Any], counts: Rows, first: Sequence[int] | Rows | None = None) -> JoinedRows:
        """As `of`, for series that are concatenated already. counts: the number of rows of each."""
        first_rows = np.zeros(len(counts), np.int64) if first is None else np.asarray(first)
        return cls(values, np.cumsum(counts) - counts - first_rows, first_rows, first_rows + counts)

    def asked_by(self, owner: Rows) -> JoinedRows:
        """Rows of the series with these numbers."""
        return JoinedRows(self.values, self.begin[owner], self.first[owner], self.end[owner])

    def take(self, rows: Rows) -> Floats:
        """(..., n): rows of the series, NaN outside."""
        if not len(self.values):
            return np.full(np.broadcast_shapes(rows.shape, self.first.shape), np.nan)
        inside = (rows >= self.first) & (rows < self.end)
        # Kept values may have 32 bits or fewer; computations take 64.
        return np.where(inside, self.values.take(self.places(rows), mode="clip").astype(np.float64, copy=False), np.nan)

    def places(self, rows: Rows) -> Rows:
        """The places of rows of the series among the values; for a single whole series the rows themselves."""
        return rows + self.begin if self.begin.any() else rows


@dataclass(frozen=True)
class LoggedRows:
    """log(row + offset of its series), computed only for the rows that are looked up."""

    rows: JoinedRows
    offset: Floats

    def asked_by(self, owner: Rows) -> LoggedRows:
        """Rows of the series with these numbers."""
        return LoggedRows(self.rows.asked_by(owner), self.offset[owner])

    def take(self, rows: Rows) -> Floats:
        """(..., n): NaN outside."""
        return np.asarray(np.log(self.rows.take(rows) + self.offset))


@dataclass(frozen=True)
class Spans:
    """Rows [first, end) of each of several series, concatenated."""

    owner: Rows
    """The number of the series of each row."""
    rows: Rows
    """The number of each row within its series."""
    first: Rows
    """The first row of each series."""
    counts: Rows
    """The number of rows of each series."""

    @classmethod
    def of(cls, first: Rows, end: Rows) -> Spans:
        counts = np.maximum(end - first, 0)
        owner = np.arange(len(first)).repeat(counts)
        rows = np.arange(len(owner)) + (first - np.cumsum(counts) + counts)[owner]
        return cls(owner, rows, first, counts)
