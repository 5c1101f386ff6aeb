"""
Points of an object's past, one every five minutes, and days of them: JSON lines under gzip (`json_lines`).

A line is [step, replicas, ready, load, floor, cap, forecast]. Loads have four digits: they are right to a 2,000th.

Pure: no database, no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from cronhpa.core.model.instant import HOUR, MINUTE, Nanoseconds
from cronhpa.history.past.json_lines import packed_lines, unpacked_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

POINT_STEP: Nanoseconds = 5 * MINUTE


class Point(Struct, frozen=True):
    """The state of an object at an instant."""

    at: Nanoseconds
    replicas: int
    """Replicas of the target before the decision."""
    ready: int | None
    """Running and ready pods, None if no metric counted them."""
    load: float | None
    """Load of the forecast's metric, else of the first metric that has one, in its own unit."""
    floor: int
    """The lower bound in force."""
    cap: int
    """The upper bound in force."""
    forecast: int | None
    """The replicas that the forecast asked for, None if it asked for none."""


_Line = tuple[int, int, int | None, float | None, int, int, int | None]
_DECODER = msgspec.json.Decoder(_Line)


def pack_points(points: Sequence[Point]) -> bytes:
    """Points in order as one value; their instants are rounded down to steps."""
    return packed_lines(
        (p.at // POINT_STEP, p.replicas, p.ready, _four_digits(p.load), p.floor, p.cap, p.forecast) for p in points
    )


def unpack_points(packed: bytes) -> list[Point]:
    """The points of `pack_points`, one at least. Raises ValueError for a value that is damaged or too long."""
    return [Point(step * POINT_STEP, *state) for step, *state in unpacked_lines(packed, _DECODER, "points")]


def merged_points(own: bytes, other: bytes) -> bytes:
    """A value of points with those of another one at the instants that it has not. Raises as `unpack_points`."""
    points = {point.at: point for point in (*unpack_points(other), *unpack_points(own))}
    return pack_points([points[at] for at in sorted(points)])


def thinned(points: Iterable[Point]) -> list[Point]:
    """One point for each hour: that with the most replicas, and of several such points that with the largest load."""
    of_hour: dict[int, Point] = {}
    for point in points:
        hour = point.at // HOUR
        if hour not in of_hour or _weight(point) > _weight(of_hour[hour]):
            of_hour[hour] = point
    return list(of_hour.values())


def _weight(point: Point) -> tuple[int, float]:
    return point.replicas, point.load or 0.0


def _four_digits(load: float | None) -> float | None:
    return None if load is None else float(f"{load:.4g}")
