"""A load as the store has it, for whoever decides the past again."""

from __future__ import annotations

from cronhpa.core.instant import MINUTE, Nanoseconds
from cronhpa.history.database import StoreError
from cronhpa.history.load_history import LoadHistory
from cronhpa.history.series import INSTANT_END, STEP, Series


def recorded_load(loads: LoadHistory, series: Series) -> tuple[list[tuple[Nanoseconds, float]], list[Nanoseconds]]:
    """
    Maxima of minutes where they are kept, of five minutes before that, in order; and the instants in their middle.

    Both empty for a series that is not known. Raises StoreError.
    """
    steps = loads.steps(series, 0, INSTANT_END)
    try:
        minutes = loads.minutes(series, 0, INSTANT_END)
    except StoreError as problem:
        if "no such table" not in str(problem):  # a store of an earlier release has no minutes
            raise
        minutes = []
    by_minute = {start - start % STEP for start, _ in minutes}
    maxima = [(start, STEP, high) for start, high in steps if start not in by_minute]
    maxima = sorted([*maxima, *((start, MINUTE, high) for start, high in minutes)])
    # A maximum is known when its time is over.
    points = [(start + length, high) for start, length, high in maxima]
    return points, [start + length // 2 for start, length, _ in maxima]
