"""Tracks the pod-seconds that an object's forecast adds per hour, and tells when its budget is exhausted."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from cronhpa.core.forecasts.budget import WEEK_HOURS, PodHour, budget_level, share
from cronhpa.core.forecasts.counterfactual import Counterfactual, Pods, follow, start_up_of
from cronhpa.core.model.decision import Decision
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, Scale
from cronhpa.core.model.spec import Spec

# A gap longer than this many periods (a restart, failed reconciliations) is not counted.
_PERIODS_MAX = 4
# Summing a week takes as long as a decision, and a minute changes the sum very little.
_CHECKED_FOR = MINUTE


class BudgetTracker:
    """
    hours: the last week, by hours since the epoch.

    used_permille: 1000 x sum(extra) / sum(base) over seven days, never negative, at the last check.
    """

    __slots__ = ("_at", "_checked_at", "_counterfactual", "_level", "_pods", "_replicas", "hours", "used_permille")

    def __init__(self) -> None:
        self.hours: dict[int, PodHour] = {}
        self.used_permille = 0
        self._at: Nanoseconds | None = None
        self._counterfactual: Counterfactual | None = None
        self._pods: Pods | None = None
        self._replicas = 0
        self._checked_at: Nanoseconds | None = None
        self._level: int | Absent = 0

    @property
    def is_met(self) -> bool:
        """Whether the target is as it would be without its forecast."""
        return self._counterfactual is None

    def add(self, hour: int, counted: PodHour) -> None:
        """Add to an hour. Hours must come in order."""
        self.hours[hour] = self.hours.get(hour, PodHour()) + counted
        # The oldest hours come first.
        while next(iter(self.hours)) <= hour - WEEK_HOURS:
            del self.hours[next(iter(self.hours))]

    def restate(self, totals: Mapping[int, PodHour]) -> None:
        """Replace hours by the totals that all processes together counted, in any order; a week of hours is kept."""
        # By their number, not their distance from the newest: that may be of a clock which was months ahead.
        self.hours = dict(sorted((self.hours | dict(totals)).items())[-WEEK_HOURS:])

    def count(
        self, spec: Spec, observation: Observation, memory: Memory, decision: Decision, now: Nanoseconds
    ) -> PodHour | None:
        """
        Count the pods since the last reconciliation, and update the counterfactual.

        memory: at the begin of the reconciliation. Returns the amount added to the hour of `now`, None if nothing was
        added.
        """
        scale = observation.scale
        if isinstance(scale, Absent):
            return None
        start_up = start_up_of(memory, observation)
        # If the count differs from that of the last reconciliation, that one changed it. Before the first count all
        # pods are taken for old.
        pods = Pods(((now - HOUR, scale.spec_replicas),)) if self._pods is None else self._pods
        pods = pods.scaled(scale.spec_replicas, now if self._at is None else self._at, start_up)
        self._pods = pods
        self._replicas = scale.spec_replicas if self._counterfactual is None else self._counterfactual.replicas
        counted = None
        if self._at is not None and 0 < now - self._at <= _PERIODS_MAX * spec.options.sync_period:
            seconds = (now - self._at) / SECOND
            counted = PodHour(_extra(scale, self._counterfactual) * seconds, self._replicas * seconds)
            self.add(now // HOUR, counted)
        self._at = now
        self._counterfactual = follow(self._counterfactual, spec, observation, memory, decision, pods, now)
        return counted

    def limit(self, spec: Spec, forecast: Forecast, now: Nanoseconds) -> Forecast | Absent:
        """The forecast within the budget: unchanged, with its loads at a higher pod price, or why it abstains."""
        if spec.forecast is None:
            return forecast
        if self._checked_at is None or abs(now - self._checked_at) >= _CHECKED_FOR:
            self._checked_at = now
            self._level = budget_level(self.hours, now, self._replicas, spec.forecast.budget_percent)
            self.used_permille = max(round(1000 * share(self.hours, now, WEEK_HOURS, self._replicas)), 0)
        if isinstance(self._level, Absent):
            return self._level
        level = min(self._level, len(forecast.loads_by_budget_level))
        if level == 0:
            return forecast
        return replace(forecast, provisioned_load=forecast.loads_by_budget_level[level - 1], budget_level=level)


def _extra(scale: Scale, counterfactual: Counterfactual | None) -> int:
    """
    The target's replicas minus those of the counterfactual.

    Negative if pods that were Ready in time spare the surplus that metrics request while too few pods carry the load.
    """
    return 0 if counterfactual is None else scale.spec_replicas - counterfactual.replicas
