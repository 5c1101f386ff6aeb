"""
The budget of a forecast: budgetPercent over seven days, and DAY_FACTOR x budgetPercent over one day.

Near its budget a forecast asks only for what is worth a dearer pod (`thrift`); past it, it abstains.

The limit of a day keeps a bad forecast from spending the week's budget in hours. Hours without data count as ordinary
hours, so that the first hour is not compared with an empty week.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.instant import HOUR, SECOND, Nanoseconds
from cronhpa.core.observation import Absent

WEEK_HOURS = 168
DAY_HOURS = 24
DAY_FACTOR = 2
# Parts of the budget from which on a pod counts as dearer, and from which on the forecast abstains. A forecast that
# stopped at its budget would leave the rest of the week without any floor, the cheapest ones included; one that became
# dearer only at its budget would spend more than it.
THRIFT_FROM = (0.9, 1.0)
EXHAUSTED_AT = 1.1


class Hour(Struct, frozen=True, gc=False):
    """Pod-seconds within an hour of the clock. extra: added by the forecast. base: without the forecast."""

    extra: float = 0.0
    base: float = 0.0

    def __add__(self, other: Hour) -> Hour:
        return Hour(self.extra + other.extra, self.base + other.base)


def share(hours: Mapping[int, Hour], now: Nanoseconds, span: int, replicas: int) -> float:
    """
    sum(extra) / sum(base) over the last `span` hours.

    hours: by hours since the epoch, the current one included. replicas: the current count without the forecast; until a
    whole hour is known, an ordinary hour has this count.
    """
    current = now // HOUR
    counted = [hours[hour] for hour in range(current - span + 1, current + 1) if hour in hours]
    whole = [hours[hour].base for hour in range(current - span + 1, current) if hour in hours]
    ordinary = sum(whole) / len(whole) if whole else replicas * HOUR / SECOND
    # The current hour is incomplete: its base is that of an ordinary hour.
    base = sum(whole) + (span - len(whole)) * ordinary
    extra = sum(hour.extra for hour in counted)
    # Every pod is of the forecast's making: more than any budget.
    return extra / base if base else EXHAUSTED_AT * (extra > 0)


def thrift(hours: Mapping[int, Hour], now: Nanoseconds, replicas: int, budget_percent: int) -> int | Absent:
    """
    How dear a pod must be for the forecast: 0 within the budget, then a level for each of THRIFT_FROM that is passed.

    Absent, with what was used, from EXHAUSTED_AT on: the forecast abstains.
    """
    week = 100 * share(hours, now, WEEK_HOURS, replicas)
    if week >= EXHAUSTED_AT * budget_percent:
        return Absent(
            "BudgetSpent",
            f"the forecast added {week:.1f} % pod-hours over the last seven days, "
            f"budgetPercent allows {budget_percent} %",
        )
    day = 100 * share(hours, now, DAY_HOURS, replicas)
    if day >= DAY_FACTOR * EXHAUSTED_AT * budget_percent:
        return Absent(
            "BudgetSpent",
            f"the forecast added {day:.1f} % pod-hours over the last day, "
            f"{DAY_FACTOR} x the {budget_percent} % of budgetPercent are allowed",
        )
    used = max(week, day / DAY_FACTOR)
    return sum(used >= part * budget_percent for part in THRIFT_FROM)
