"""A load over time: the demand on all pods of a target together, given at points, with straight lines between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import isfinite

from msgspec import Struct

from cronhpa.core.model.instant import MINUTE, Nanoseconds

# As for forecasts: a longer gap makes the load unknown.
GAP_MAX: Nanoseconds = 15 * MINUTE


class Shape(StrEnum):
    """The load between two points."""

    LINEAR = "Linear"
    STEPS = "Steps"


class Piece(Struct, frozen=True, gc=False):
    """A straight piece of a load: `value` at its begin, `slope` per nanosecond, until `end`; NaN while unknown."""

    value: float
    slope: float
    end: Nanoseconds


_NAN = float("nan")
_FOR_EVER = 2**63


class Load:
    """
    points: instants in ascending order; values finite and not negative, in the metric's own unit.

    Before the first point the load is the first value, after the last point the last one. Between points further apart
    than `gap_max` it is unknown, with either shape. Raises ValueError for other points.
    """

    def __init__(
        self,
        points: Iterable[tuple[Nanoseconds, float]],
        *,
        shape: Shape = Shape.LINEAR,
        gap_max: Nanoseconds = GAP_MAX,
    ) -> None:
        pairs = list(points)
        if not pairs:
            raise ValueError("a load without a point: at least one is needed")
        self.instants: Sequence[Nanoseconds] = [at for at, _ in pairs]
        self.values: Sequence[float] = [value for _, value in pairs]
        self.shape = shape
        self.gap_max = gap_max
        absurd = next((value for value in self.values if not isfinite(value) or value < 0), None)
        if absurd is not None:
            raise ValueError(f"a load of {absurd}: finite numbers, not negative, are accepted")
        if any(later <= earlier for earlier, later in zip(self.instants, self.instants[1:], strict=False)):
            raise ValueError("the points of a load must be in order, each instant once")

    @property
    def begin(self) -> Nanoseconds:
        return self.instants[0]

    @property
    def end(self) -> Nanoseconds:
        return self.instants[-1]

    def piece(self, at: Nanoseconds) -> Piece:
        """The straight piece that begins at `at`."""
        right = bisect_right(self.instants, at)
        if right == 0:
            return Piece(self.values[0], 0.0, self.instants[0])
        if right == len(self.instants):
            return Piece(self.values[-1], 0.0, _FOR_EVER)
        before, after = self.instants[right - 1], self.instants[right]
        if after - before > self.gap_max:
            return Piece(_NAN, 0.0, after)
        value = self.values[right - 1]
        if self.shape is Shape.STEPS:
            return Piece(value, 0.0, after)
        slope = (self.values[right] - value) / (after - before)
        return Piece(value + slope * (at - before), slope, after)

    def at(self, instant: Nanoseconds) -> float:
        """The load at an instant, NaN where it is unknown."""
        return self.piece(instant).value
