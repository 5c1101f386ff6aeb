"""A calendar that people keep, as it was read: its events around now, each occurrence by itself."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds


class CalendarEvent(Struct, frozen=True, cache_hash=True):
    """One occurrence of an event. Times are local `YYYY-MM-DDTHH:MM`, the end not included."""

    title: str
    opens: str
    closes: str
    zone: str = ""
    """UTC; "" for an event without a zone, such as one of whole days: it has the zone of whoever asks."""
    floor: int | None = None
    """A lower bound that its description states."""
    headroom_percent: int = 0
    """Headroom that its description states."""


class Calendar(Struct, frozen=True, cache_hash=True):
    """A named calendar as it was last read."""

    name: str
    events: tuple[CalendarEvent, ...] | None = None
    """By their beginnings; None: it was never read."""
    problem: str = ""
    """Why it could not be read the last time: the events are those of the last good one."""
    since: Nanoseconds | None = None
    """Since when it cannot be read."""
    begin: Nanoseconds = 0
    """Events that ended before are over. 00:00 UTC of the day on which it was read."""


Calendars = Mapping[str, Calendar]
"""The calendars by their names."""
