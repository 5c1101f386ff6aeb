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
    What held at an instant.

    replicas: found. ready: running and ready pods, None where no metric counted them. load: of the metric that a
    forecast is of, else of the first that has one, in its own unit. floor, cap: the bounds in force. forecast: what the
    forecast asked for, None where it asked for nothing.
    """

    at: Nanoseconds
    replicas: int
    ready: int | None
    load: float | None
    floor: int
    cap: int
    forecast: int | None


def pack_points(points: Sequence[Point]) -> bytes:
    """One blob of points in order; their instants are kept by the step."""
    rows = [
        (each.at // POINT_STEP, each.replicas, _number(each.ready), each.floor, each.cap, _number(each.forecast))
        for each in points
    ]
    numbers = array("q")
    for column in zip(*rows, strict=True):
        numbers.extend(later - before for before, later in zip((0, *column), column, strict=False))
    loads = array("f", (math.nan if each.load is None else each.load for each in points))
    bits = array("I", loads.tobytes())
    short = little_endian(array("I", (each & _KEPT_BITS for each in bits))).tobytes()
    # The bytes of equal weight beside each other: the signs and exponents of loads are alike, their last bits are not.
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
        Point(slot * POINT_STEP, replicas, _known(ready), None if math.isnan(load) else load, floor, cap, _known(asked))
        for slot, replicas, ready, floor, cap, asked, load in zip(*columns, loads, strict=True)
    ]


def thinned(points: Iterable[Point]) -> list[Point]:
    """Of each hour one point: the one with the most replicas, of several of these the one with the largest load."""
    of_hour: dict[int, Point] = {}
    for each in points:
        hour = each.at // HOUR
        if hour not in of_hour or _weight(each) > _weight(of_hour[hour]):
            of_hour[hour] = each
    return list(of_hour.values())


def _weight(point: Point) -> tuple[int, float]:
    return point.replicas, point.load or 0.0


def _number(value: int | None) -> int:
    return _NONE if value is None else value


def _known(value: int) -> int | None:
    return None if value == _NONE else value
