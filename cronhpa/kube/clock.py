"""The two clocks of the operator, as a value: only `cronhpa run` reads the system's clocks."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds


class Clock(Struct, frozen=True):
    """Timeouts and pauses use the event loop's own clock."""

    now: Callable[[], Nanoseconds]
    """Wall-clock time, nanoseconds since 1970 in UTC; it can step."""
    monotonic: Callable[[], float]
    """Seconds of a clock that never goes back."""
