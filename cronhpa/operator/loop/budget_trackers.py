"""The budget trackers of all objects: the pod-seconds that hourly forecast adds, kept by the store over a restart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice

from cronhpa.core.forecasts.budget import PodHour
from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.model.decision import Decision
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import HOUR, Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation
from cronhpa.core.model.spec import Spec
from cronhpa.history.database.series import Series
from cronhpa.history.load.spend import Spend

# Spend waits here while the store cannot be written; beyond this number of hours the oldest are dropped.
_UNWRITTEN_MAX = 100_000


class BudgetTrackers:
    def __init__(self) -> None:
        self._trackers: dict[Series, BudgetTracker] = defaultdict(BudgetTracker)
        self._unwritten: dict[tuple[Series, int], PodHour] = {}
        # Objects that are counted, and of which the store may know more: one that is made anew under its name, or asks
        # for a forecast again, has what is left of its budget. In the order in which they came.
        self._unread: dict[Series, None] = {}

    def unread(self, most: int) -> list[Series]:
        """Series whose stored spend is to be loaded; no more than `most` at once."""
        return list(islice(self._unread, most))

    def load(self, spend: Iterable[Spend], read: Iterable[Series] = ()) -> None:
        """
        Load the stored spend of all processes, and add the spend that is not stored yet.

        read: the series of which this is everything that is stored.
        """
        for series in read:
            self._unread.pop(series, None)
        totals: defaultdict[Series, dict[int, PodHour]] = defaultdict(dict)
        for hourly in spend:
            unwritten = self._unwritten.get((hourly.series, hourly.hour), PodHour())
            totals[hourly.series][hourly.hour] = PodHour(hourly.extra, hourly.base) + unwritten
        for series, hours in totals.items():
            self._trackers[series].restate(hours)

    def count(
        self, series: Series, spec: Spec, observation: Observation, memory: Memory, decision: Decision, now: Nanoseconds
    ) -> None:
        """Count the pods of an object since its last reconciliation. memory: from the begin of this reconciliation."""
        if series not in self._trackers:
            self._unread[series] = None
        counted = self._trackers[series].count(spec, observation, memory, decision, now)
        if counted is not None:
            key = (series, now // HOUR)
            self._unwritten[key] = self._unwritten.get(key, PodHour()) + counted

    def limit(self, series: Series, spec: Spec, forecast: Forecast, now: Nanoseconds) -> Forecast | Absent:
        """The forecast of this object within its budget; unchanged while nothing was counted."""
        return self._trackers[series].limit(spec, forecast, now) if series in self._trackers else forecast

    def used_permille(self, series: Series) -> int | None:
        """The pod-hours that the forecast added over seven days, at the last check; None while nothing was counted."""
        tracker = self._trackers.get(series)
        return None if tracker is None else tracker.used_permille

    def hours(self, series: Series) -> int:
        """The number of hours for which the spend of a series is kept."""
        return len(self._trackers[series].hours) if series in self._trackers else 0

    def drain(self) -> list[Spend]:
        """The spend counted since the last call, for the store."""
        taken = [Spend(series, hour, spent.extra, spent.base) for (series, hour), spent in self._unwritten.items()]
        self._unwritten.clear()
        return taken

    def restore(self, spend: Iterable[Spend]) -> None:
        """Take back spend that the store could not write."""
        for hourly in spend:
            key = (hourly.series, hourly.hour)
            self._unwritten[key] = self._unwritten.get(key, PodHour()) + PodHour(hourly.extra, hourly.base)
        while len(self._unwritten) > _UNWRITTEN_MAX:
            del self._unwritten[next(iter(self._unwritten))]

    def forget(self, series: Series) -> None:
        self._trackers.pop(series, None)
        self._unread.pop(series, None)
