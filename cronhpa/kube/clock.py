"""The two clocks of the operator, as a value: only `cronhpa run` reads the system's clocks."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds


class Clock(Struct, frozen=True):
    """
    now: wall-clock time, nanoseconds since 1970 in UTC; it can step. monotonic: seconds; it never goes back.

    Timeouts and pauses use the event loop's own clock.
    """

    now: Callable[[], Nanoseconds]
    monotonic: Callable[[], float]
