"""The days whose loads are usual for a window of an event: those on which it does not hold."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from cronhpa.core.model.instant import DAY, Nanoseconds, to_datetime
from cronhpa.core.model.spec import CronWindow, OnceWindow
from cronhpa.core.schedules import calendars, windows
from cronhpa.core.schedules.wall_clock import to_instant

_WEEKS = 4
DAYS_MIN = 2
"""The fewest days that make a load usual."""
SPAN_MAX = DAY
"""Of a longer window the first day counts."""
_WEEKDAYS = tuple(range(7, 7 * _WEEKS + 1, 7))
_OTHER_DAYS = tuple(day for day in range(1, 7 * _WEEKS + 1) if day not in _WEEKDAYS)


def has_usual_weekdays(window: CronWindow | OnceWindow, start: Nanoseconds, end: Nanoseconds) -> bool:
    """Whether at least two of the last four weekdays of [start, end), an occurrence of the window, are usual."""
    return len(_usual(_WEEKDAYS, window, start, end)) >= DAYS_MIN


def usual_days(window: CronWindow | OnceWindow, start: Nanoseconds, end: Nanoseconds) -> tuple[Nanoseconds, ...]:
    """
    The hour of `start` on each of the last four weeks' days that are usual for [start, end), on the clock of the zone.

    Those of its weekday; all others for a window that leaves fewer than two of these, such as one of each Friday. A day
    on which the window holds is not usual, because its load is that of the event; nor is one that `exclude` names.
    """
    same = _usual(_WEEKDAYS, window, start, end)
    return same if len(same) >= DAYS_MIN else _usual(_OTHER_DAYS, window, start, end)


def _usual(
    days: tuple[int, ...], window: CronWindow | OnceWindow, start: Nanoseconds, end: Nanoseconds
) -> tuple[Nanoseconds, ...]:
    begins = []
    span = min(end - start, SPAN_MAX)
    local = to_datetime(start).astimezone(ZoneInfo(window.zone))
    excluded = window.exclude if isinstance(window, CronWindow) else None
    for day in days:
        before = local - timedelta(days=day)  # on the local clock
        begin = to_instant(before, window.zone, is_end=False)
        state = windows.state(window, begin)
        is_held = state.is_open or (state.until is not None and state.until < begin + span)
        if not is_held and (excluded is None or not calendars.contains(excluded, before.date())):
            begins.append(begin)
    return tuple(begins)
