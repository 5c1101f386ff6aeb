"""
The usual load of a window: what `expectedLoadPercent` of a planned event is a percentage of.

The same hours of the days of the last four weeks that are usual for it are looked at (`core/schedules/usual_days`). Of
each hour the 90th percentile of its steps, over all days together, is its usual load; the usual load of a window is
that of its busiest hour. Steps are maxima of five minutes. A day counts if at least half of its steps are known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby

from cronhpa.core.model.instant import HOUR, Nanoseconds
from cronhpa.core.model.spec import CronWindow, OnceWindow
from cronhpa.core.schedules.usual_days import DAYS_MIN, SPAN_MAX, usual_days
from cronhpa.history.database.series import STEP

QUANTILE_PERCENT = 90

# The steps of [since, until): (start, maximum) of each that is known.
ReadSteps = Callable[[Nanoseconds, Nanoseconds], Sequence[tuple[Nanoseconds, float]]]


def usual_load(read: ReadSteps, window: CronWindow | OnceWindow, start: Nanoseconds, end: Nanoseconds) -> float | None:
    """
    The usual load in [start, end), in the load's own unit; None while fewer than two usual days are known.

    window: that of the event. 9:00 is 9:00 on the clock of its zone, also over a clock change.
    """
    end = min(end, start + SPAN_MAX)
    by_hour: dict[int, list[float]] = {}
    known = 0
    for begin in usual_days(window, start, end):
        # A window may begin within a step, and end before the next one.
        first = begin - begin % STEP
        steps = read(first, begin + end - start)
        # Half of the steps of a window below five minutes are none.
        if not steps or 2 * len(steps) < (end - start) // STEP:
            continue
        known += 1
        for hour, of_hour in groupby(steps, key=lambda step: (step[0] - first) // HOUR):
            by_hour.setdefault(hour, []).extend(load for _, load in of_hour)
    if known < DAYS_MIN:
        return None
    return max(_quantile(loads) for loads in by_hour.values())


def steps_of(
    maxima: Sequence[tuple[Nanoseconds, float]], since: Nanoseconds, until: Nanoseconds
) -> list[tuple[Nanoseconds, float]]:
    """The steps of [since, until) from (end, maximum) of minutes or steps, in order of time."""
    first = bisect_right(maxima, since, key=lambda one: one[0])
    last = bisect_right(maxima, until, key=lambda one: one[0])
    steps: dict[Nanoseconds, float] = {}
    for end, value in maxima[first:last]:
        step = (end - 1) - (end - 1) % STEP
        steps[step] = max(steps.get(step, value), value)
    return sorted(steps.items())


def _quantile(loads: list[float]) -> float:
    """The smallest load that so many percent of the loads do not exceed."""
    return sorted(loads)[-(-len(loads) * QUANTILE_PERCENT // 100) - 1]
