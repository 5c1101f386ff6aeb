"""What one object's forecast really adds to its pods, counted turn by turn, and whether its budget lasts."""

from __future__ import annotations

from cronhpa.core.decision import Decision
from cronhpa.core.instant import HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Absent, Observation, Scale
from cronhpa.core.predictive.budget import WEEK_HOURS, Hour, share, exhausted
from cronhpa.core.predictive.counterfactual import Counterfactual, follow
from cronhpa.core.spec import Spec

# A pause longer than this many periods (a restart, a turn that failed) is nobody's pods.
_PERIODS_MAX = 4
# Adding up a week takes as long as a decision: a minute's spend cannot matter much.
_CHECKED_FOR = MINUTE


class BudgetTracker:
    """
    hours: what was counted, by hours since the epoch, of the last week.

    used_permille: what the forecast added to the pod-hours of seven days, when it was last judged.
    """

    __slots__ = ("_at", "_checked_at", "_replicas", "_counterfactual", "_exhausted", "hours", "used_permille")

    def __init__(self) -> None:
        self.hours: dict[int, Hour] = {}
        self.used_permille = 0
        self._at: Nanoseconds | None = None
        # What would be there without the forecast.
        self._counterfactual: Counterfactual | None = None
        self._replicas = 0
        self._checked_at: Nanoseconds | None = None
        self._exhausted: Absent | None = None

    def add(self, hour: int, counted: Hour) -> None:
        """Count what was spent within an hour; the hours come in order."""
        self.hours[hour] = self.hours.get(hour, Hour()) + counted
        # What is too old to count is at the front.
        while next(iter(self.hours)) <= hour - WEEK_HOURS:
            del self.hours[next(iter(self.hours))]

    def count(
        self, spec: Spec, observation: Observation, memory: Memory, decision: Decision, now: Nanoseconds
    ) -> Hour | None:
        """
        Count the pods since the last turn, and follow what would be without the forecast.

        memory: as the turn began with it. What was added to the hour of `now` is returned, None where nothing was.
        """
        scale = observation.scale
        if isinstance(scale, Absent):
            return None
        self._replicas = scale.spec_replicas if self._counterfactual is None else self._counterfactual.replicas
        counted = None
        if self._at is not None and 0 < now - self._at <= _PERIODS_MAX * spec.options.sync_period:
            seconds = (now - self._at) / SECOND
            counted = Hour(_extra(scale, self._counterfactual) * seconds, self._replicas * seconds)
            self.add(now // HOUR, counted)
        self._at = now
        self._counterfactual = follow(self._counterfactual, spec, observation, memory, decision, now)
        return counted

    def exhausted(self, spec: Spec, now: Nanoseconds) -> Absent | None:
        """Why the forecast must wait; None while its budget lasts."""
        if spec.forecast is None:
            return None
        if self._checked_at is None or abs(now - self._checked_at) >= _CHECKED_FOR:
            self._checked_at = now
            self._exhausted = exhausted(self.hours, now, self._replicas, spec.forecast.budget_percent)
            self.used_permille = round(1000 * share(self.hours, now, WEEK_HOURS, self._replicas))
        return self._exhausted


def _extra(scale: Scale, counterfactual: Counterfactual | None) -> int:
    return 0 if counterfactual is None else max(scale.spec_replicas - counterfactual.replicas, 0)
