"""
The budget of a forecast: budgetPercent over seven days, and DAY_FACTOR x budgetPercent over one day.

Near its budget a forecast asks only for pods that are worth a higher price (`budget_level`); past it, it abstains.

The limit of a day keeps a bad forecast from spending the week's budget in hours. Hours without data count as ordinary
hours, so that the first hour is not compared with an empty week.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.model.instant import HOUR, SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent

WEEK_HOURS = 168
DAY_HOURS = 24
DAY_FACTOR = 2
# (used part of the budget, steps up the scale of pod prices that apply from this part on). From EXHAUSTED_AT on the
# forecast abstains. Stopping at the budget itself would leave the rest of the week without even the cheapest floors;
# raising prices only at the budget would overspend it.
BUDGET_LEVELS = ((0.9, 1), (1.0, 2), (1.1, 4))
EXHAUSTED_AT = 1.2


class PodHour(Struct, frozen=True, gc=False):
    """Pod-seconds within an hour of the clock."""

    extra: float = 0.0
    """Pod-seconds that the forecast added."""
    base: float = 0.0
    """Pod-seconds without the forecast."""

    def __add__(self, other: PodHour) -> PodHour:
        return PodHour(self.extra + other.extra, self.base + other.base)


def share(hours: Mapping[int, PodHour], now: Nanoseconds, span: int, replicas: int) -> float:
    """
    sum(extra) / sum(base) over the last `span` hours.

    hours: by hours since the epoch, the current one included. replicas: the current count without the forecast; until a
    whole hour is known, an ordinary hour has this count.
    """
    current = now // HOUR
    past = [counted for hour, counted in hours.items() if current - span < hour < current]
    known, extra, whole = len(past), sum([hour.extra for hour in past]), sum([hour.base for hour in past])
    ordinary = whole / known if known else replicas * HOUR / SECOND
    # The current hour is incomplete: its base is that of an ordinary hour.
    base = whole + (span - known) * ordinary
    extra += hours[current].extra if current in hours else 0.0
    # Without base the forecast added every pod: the budget is exhausted.
    return extra / base if base else EXHAUSTED_AT * (extra > 0)


def spent_percent(hours: Mapping[int, PodHour], now: Nanoseconds) -> float | None:
    """Extra pod-hours of the last seven days, percent, without the current hour; None if nothing was counted."""
    current = now // HOUR
    past = [hour for at, hour in hours.items() if current - WEEK_HOURS <= at < current]
    base = sum(hour.base for hour in past)
    return 100 * sum(hour.extra for hour in past) / base if base else None


def budget_level(hours: Mapping[int, PodHour], now: Nanoseconds, replicas: int, budget_percent: int) -> int | Absent:
    """
    The budget level: the number of BUDGET_LEVELS whose part of the budget is used.

    Absent, with the used part, from EXHAUSTED_AT on: the forecast abstains.
    """
    week = 100 * share(hours, now, WEEK_HOURS, replicas)
    day = 100 * share(hours, now, DAY_HOURS, replicas)
    for added, over, factor in ((week, "seven days", 1), (day, "day", DAY_FACTOR)):
        # Rounded, because 1.2 x 5 and 6 differ in the last bit.
        limit = round(factor * EXHAUSTED_AT * budget_percent, 9)
        if round(added, 9) >= limit:
            return Absent(
                "BudgetSpent",
                f"the forecast added {added:.1f} % pod-hours over the last {over}: it pauses from {limit:g} % on, "
                f"{factor * EXHAUSTED_AT:g} x the {budget_percent} % of budgetPercent",
            )
    used = max(week, day / DAY_FACTOR)
    return sum(used >= part * budget_percent for part, _ in BUDGET_LEVELS)
