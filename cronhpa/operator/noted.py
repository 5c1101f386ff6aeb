"""The last recorded change of an object, for comparison, and the number of changes that may be recorded."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds

# Enough for a quarter of an hour in which every turn of 15 s is a change.
BURST = 60


class Noted(Struct):
    """
    key: of the last recorded change. step: of the last point. allowed: changes that may be recorded at once;
    counted_at: when `allowed` was computed. left_out: changes since the last recorded one.
    """

    key: tuple[object, ...] = ()
    step: int = -1
    allowed: float = BURST
    counted_at: Nanoseconds = 0
    left_out: int = 0
