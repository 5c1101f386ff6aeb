"""
The usual load of a window: what `expectedLoadPercent` of a planned event is a percentage of.

The same hours of the same weekday in each of the last four weeks are looked at. Of each hour the 90th percentile of its
steps, over all weeks together, is its usual load; the usual load of a window is that of its busiest hour. Steps are
maxima of five minutes. A week counts if at least half of its steps are known and the event did not hold in it: a load
that an event made is not usual.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from cronhpa.core.model.instant import DAY, HOUR, Nanoseconds, from_datetime, to_datetime
from cronhpa.core.model.spec import CronWindow, OnceWindow
from cronhpa.core.schedules import windows
from cronhpa.history.database.series import STEP

WEEKS = 4
WEEKS_MIN = 2
QUANTILE_PERCENT = 90
# Of a longer window its first day counts.
_SPAN_MAX = DAY

# The steps of [since, until): (start, maximum) of each that is known.
ReadSteps = Callable[[Nanoseconds, Nanoseconds], Sequence[tuple[Nanoseconds, float]]]


def usual_load(read: ReadSteps, window: CronWindow | OnceWindow, start: Nanoseconds, end: Nanoseconds) -> float | None:
    """
    The usual load in [start, end), in the load's own unit; None while fewer than two weeks are known.

    window: that of the event. 9:00 is 9:00 on the clock of its zone, also over a clock change.
    """
    end = min(end, start + _SPAN_MAX)
    by_hour: dict[int, list[float]] = {}
    known = 0
    for week in range(1, WEEKS + 1):
        begin = _weeks_before(start, week, window.zone)
        state = windows.state(window, begin)
        if state.is_open or (state.until is not None and state.until < begin + end - start):
            continue
        # A window may begin within a step, and end before the next one.
        first = begin - begin % STEP
        steps = read(first, begin + end - start)
        # Half of the steps of a window below five minutes are none.
        if not steps or 2 * len(steps) < (end - start) // STEP:
            continue
        known += 1
        for hour, of_hour in groupby(steps, key=lambda step: (step[0] - first) // HOUR):
            by_hour.setdefault(hour, []).extend(load for _, load in of_hour)
    if known < WEEKS_MIN:
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


def _weeks_before(at: Nanoseconds, weeks: int, zone: str) -> Nanoseconds:
    local = to_datetime(at).astimezone(ZoneInfo(zone))
    return from_datetime(local - timedelta(weeks=weeks))  # on the local clock


def _quantile(loads: list[float]) -> float:
    """The smallest load that so many percent of the loads do not exceed."""
    return sorted(loads)[-(-len(loads) * QUANTILE_PERCENT // 100) - 1]
