"""
What a forecast may cost: at most its budget over seven days, and at most twice that over any one.

The week is what the user stated; the day keeps a forecast that went wrong from spending the week's in hours. Hours of
which nothing is known count as ordinary ones, so that a first hour is not held against a whole budget.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.instant import HOUR, SECOND, Nanoseconds
from cronhpa.core.observation import Absent

WEEK_HOURS = 168
DAY_HOURS = 24
DAY_FACTOR = 2


class Hour(Struct, frozen=True, gc=False):
    """Pod-seconds within an hour of the clock: extra were added by the forecast, base would be there without it."""

    extra: float = 0.0
    base: float = 0.0

    def __add__(self, other: Hour) -> Hour:
        return Hour(self.extra + other.extra, self.base + other.base)


def share(hours: Mapping[int, Hour], now: Nanoseconds, span: int, replicas: int) -> float:
    """
    Pod-seconds added over the last `span` hours as a share of those that there would be without the forecast.

    hours: by hours since the epoch; the one that runs counts. replicas: what there would be now, of which a whole hour
    is ordinary while no whole hour is known.
    """
    current = now // HOUR
    known = [hours[hour] for hour in range(current - span + 1, current + 1) if hour in hours]
    whole = [hours[hour].base for hour in range(current - span + 1, current) if hour in hours]
    ordinary = sum(whole) / len(whole) if whole else replicas * HOUR / SECOND
    # The running hour is over in part only: as a base it counts as a whole one.
    base = sum(whole) + (span - len(whole)) * ordinary
    extra = sum(item.extra for item in known)
    return extra / base if base else float(extra > 0)


def exhausted(hours: Mapping[int, Hour], now: Nanoseconds, replicas: int, budget_percent: int) -> Absent | None:
    """Why the forecast must wait; None while its budget lasts."""
    week = 100 * share(hours, now, WEEK_HOURS, replicas)
    if week >= budget_percent:
        return Absent(
            "BudgetSpent",
            f"the forecast added {week:.1f} % pod-hours over the last seven days, "
            f"budgetPercent allows {budget_percent} %",
        )
    day = 100 * share(hours, now, DAY_HOURS, replicas)
    if day >= DAY_FACTOR * budget_percent:
        return Absent(
            "BudgetSpent",
            f"the forecast added {day:.1f} % pod-hours over the last day, "
            f"{DAY_FACTOR} x the {budget_percent} % of budgetPercent are allowed",
        )
    return None
