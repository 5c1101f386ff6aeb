"""
Points of an object's past, one every five minutes, and a day of them as one blob.

A blob begins with a byte for its form; zlib packs the rest: columns of differences, then the loads as floats of 32 bits
of which 20 are kept: to a 2,000th of the load.

Pure: no database, no clock.
"""

from __future__ import annotations

import math
import zlib
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from cronhpa.core.instant import HOUR, MINUTE, Nanoseconds
from cronhpa.history.packing import little_endian

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

POINT_STEP: Nanoseconds = 5 * MINUTE

_FORM = b"\1"
_COLUMNS = 6
_NONE = -1
_WIDTH = 4
_KEPT_BITS = 0xFFFFF000
# A day has 288 points of 52 bytes.
_BYTES_MAX = 2**16


class Point(Struct, frozen=True):
    """
    The state of an object at an instant.

    replicas: those of the target before the decision. ready: running and ready pods, None if no metric counted them.
    load: of the forecast's metric, else of the first metric that has one, in its own unit. floor, cap: the bounds in
    force. forecast: the replicas that the forecast asked for, None if it asked for none.
    """

    at: Nanoseconds
    replicas: int
    ready: int | None
    load: float | None
    floor: int
    cap: int
    forecast: int | None


def pack_points(points: Sequence[Point]) -> bytes:
    """One blob of points in order; their instants are rounded down to steps."""
    rows = [
        (point.at // POINT_STEP, point.replicas, _number(point.ready), point.floor, point.cap, _number(point.forecast))
        for point in points
    ]
    numbers = array("q")
    for column in zip(*rows, strict=True):
        numbers.extend(later - before for before, later in zip((0, *column), column, strict=False))
    loads = array("f", (math.nan if point.load is None else point.load for point in points))
    words = array("I", loads.tobytes())
    short = little_endian(array("I", (word & _KEPT_BITS for word in words))).tobytes()
    # Bytes of equal weight stand beside each other: loads have like signs and exponents, and unlike last bits.
    planes = b"".join(short[place::_WIDTH] for place in range(_WIDTH))
    return _FORM + zlib.compress(little_endian(numbers).tobytes() + planes)


def unpack_points(blob: bytes) -> list[Point]:
    """The points of a blob. Raises ValueError for a blob of another form, damaged or too long."""
    if blob[:1] != _FORM:
        raise ValueError(f"points are written in form {blob[:1]!r}: this release reads {_FORM!r}")
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(blob[1:], _BYTES_MAX)
    except zlib.error as problem:
        raise ValueError(f"points are damaged: {problem}") from None
    count, rest = divmod(len(plain), 8 * _COLUMNS + _WIDTH)
    if rest or not unpacking.eof:
        raise ValueError(f"points are damaged: {len(plain)} bytes are no number of points")
    numbers = array("q", plain[: 8 * _COLUMNS * count])
    numbers = little_endian(numbers)
    columns = [list(accumulate(numbers[i * count : (i + 1) * count])) for i in range(_COLUMNS)]
    planes = plain[8 * _COLUMNS * count :]
    short = bytearray(_WIDTH * count)
    for place in range(_WIDTH):
        short[place::_WIDTH] = planes[place * count : (place + 1) * count]
    loads = array("f", little_endian(array("I", bytes(short))).tobytes())
    return [
        Point(
            slot * POINT_STEP,
            replicas,
            _or_none(ready),
            None if math.isnan(load) else load,
            floor,
            cap,
            _or_none(forecast),
        )
        for slot, replicas, ready, floor, cap, forecast, load in zip(*columns, loads, strict=True)
    ]


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


def _number(value: int | None) -> int:
    return _NONE if value is None else value


def _or_none(value: int) -> int | None:
    return None if value == _NONE else value
