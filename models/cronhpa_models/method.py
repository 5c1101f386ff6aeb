"""
What a forecasting method is: two verbs over frames of load, and the quantiles that come out.

Frames are wide: a column per object, the total load of that object in its own unit; the index holds the starts of the
steps of a regular grid in UTC. A gap is NaN, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame, DatetimeIndex, Index

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quantiles:
    """
    Quantiles of the largest load within each coming step.

    levels: between 0 and 1, rising. steps: the starts of the steps, on the grid of the history.
    load: (levels, steps, objects), NaN where the method has nothing to say about an object.
    """

    levels: tuple[float, ...]
    steps: DatetimeIndex
    objects: Index
    load: Floats

    def at(self, level: float) -> DataFrame:
        """One level as a wide frame, a row per step. Raises ValueError for a level that was not asked for."""
        return DataFrame(self.load[self.levels.index(level)], index=self.steps, columns=self.objects)


class Method(Protocol):
    """
    A module with these two functions is a method.

    `fit` is daily and may take a while; `forecast` is made at every step, so that the level is corrected by what was
    measured since the fit.
    """

    def fit(self, history: DataFrame) -> bytes:
        """
        What was learnt from `history`, one state for all of its columns. Loading it back executes no code.

        Raises ValueError for an index that is no regular grid in UTC.
        """

    def forecast(self, fitted: bytes, recent: DataFrame, levels: Sequence[float]) -> Quantiles:
        """
        The steps that follow the last row of `recent`.

        recent: the last hours up to now, on the grid of the history, any of its columns.
        Raises KeyError for a column that was not fitted, ValueError for a level that cannot be stated.
        """


def nanoseconds_per_step(index: Index) -> int:
    """The step of a regular UTC grid. Raises ValueError, with what was found, for an index that is none."""
    if not isinstance(index, DatetimeIndex) or str(index.tz) != "UTC":
        found = getattr(index, "dtype", type(index))
        raise ValueError(f"index is {found}: a DatetimeIndex in UTC is needed")
    if len(index) < 2:  # noqa: PLR2004 - two points make a step
        raise ValueError(f"{len(index)} rows: at least two are needed to know the step")
    steps = np.unique(np.diff(index.as_unit("ns").asi8))
    if len(steps) != 1 or steps[0] <= 0:
        raise ValueError(f"rows are between {steps[0]} and {steps[-1]} ns apart: a regular rising grid is needed")
    return int(steps[0])
