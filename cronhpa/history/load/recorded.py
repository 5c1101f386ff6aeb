"""The recorded load of an object, for deciding the past again."""

from __future__ import annotations

from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import INSTANT_END, STEP, STEPS_KEPT, Series
from cronhpa.history.load.load_history import LoadHistory


def recorded_load(
    loads: LoadHistory, series: Series, now: Nanoseconds | None = None
) -> tuple[list[tuple[Nanoseconds, float]], list[Nanoseconds]]:
    """
    (end, maximum) of minutes where they are kept, of five minutes before that, in order; and the middles of the times.

    Both are empty for an unknown series. Raises StoreError.

    now: limits the search to the time for which loads are kept, and a day ahead. Without it, one row that a wrong clock
    has left in the year 2200 would make each minute until then be looked up. None reads everything, for a person.
    """
    since, until = (0, INSTANT_END) if now is None else (max(now - STEPS_KEPT - DAY, 0), now + DAY)
    steps = loads.steps(series, since, until)
    try:
        minutes = loads.minutes(series, since, until)
    except StoreError as problem:
        if "no such table" not in str(problem):  # a store of an earlier release has no minutes
            raise
        minutes = []
    by_minute = {start - start % STEP for start, _ in minutes}
    maxima = [(start, STEP, high) for start, high in steps if start not in by_minute]
    maxima = sorted([*maxima, *((start, MINUTE, high) for start, high in minutes)])
    # A maximum is known at the end of its time.
    points = [(start + length, high) for start, length, high in maxima]
    return points, [start + length // 2 for start, length, _ in maxima]
