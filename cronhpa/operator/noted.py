"""What was noted of an object's decisions last: what the next one is compared with, and how many may follow."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds

# Each change of a quarter of an hour in which every turn of 15 s changes something.
BURST = 60


class Noted(Struct):
    """
    What was noted of an object last.

    key: of the last change. step: of the last point. allowed: changes that may be noted at once; counted_at: when
    `allowed` was computed. left_out: changes since the last one that was noted.
    """

    key: tuple[object, ...] = ()
    step: int = -1
    allowed: float = BURST
    counted_at: Nanoseconds = 0
    left_out: int = 0
