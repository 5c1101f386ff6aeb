"""
The score of a run: under-provisioned time, unserved load, and pod-hours.

Under-provisioned at an instant: load > ready pods x capacity of one. The load is linear between two changes, so times
and areas are exact, not counted in ticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from math import isnan

from msgspec import Struct

from cronhpa.core.model.decision import Decision, Rule, SourceRef
from cronhpa.core.model.instant import HOUR, MINUTE, Nanoseconds
from cronhpa.core.model.spec import Span


class Score(Struct, frozen=True):
    span: Nanoseconds
    """The simulated time."""
    unknown: Nanoseconds
    """The part of it without a known load, in which none is short, unserved or demanded; its pods count."""
    under_provisioned: float
    """Nanoseconds with too few pods, in `stretches`."""
    unserved: float
    demand: float
    """Load x nanoseconds: unserved, and in all."""
    pod_time: Nanoseconds
    """Nanoseconds of all pods from creation to deletion."""
    actions: int
    """How often the scale was written."""
    most_replicas: int
    """The largest count."""
    reconciliations_by: Mapping[SourceRef | None, int]
    actions_by: Mapping[SourceRef | None, int]
    """
    The number of reconciliations and of writes that each source decided; None: reconciliations without a deciding
    source.
    """
    reconciliations_changed: Mapping[Rule, int]
    """The number of reconciliations in which each rule changed what the sources asked for."""
    stretches: tuple[Span, ...]

    @property
    def under_provisioned_minutes(self) -> float:
        return self.under_provisioned / MINUTE

    @property
    def unserved_hours(self) -> float:
        """Load-hours that no ready pod could carry, in the load's unit times hours."""
        return self.unserved / HOUR

    @property
    def unserved_percent(self) -> float:
        """unserved / demand, percent; 0 without demand."""
        return 100 * self.unserved / self.demand if self.demand else 0.0

    @property
    def pod_hours(self) -> float:
        return self.pod_time / HOUR


class ScoreAccumulator:
    """Sums up a Score, piece by piece, in order of time."""

    def __init__(self, capacity: float) -> None:
        """capacity: the load that one ready pod can carry."""
        self._capacity = capacity
        self._span = self._unknown = self._pod_time = 0
        self._short = self._unserved = self._demand = 0.0
        self._actions = self._most = 0
        self._reconciliations_by: dict[SourceRef | None, int] = {}
        self._actions_by: dict[SourceRef | None, int] = {}
        self._changed: dict[Rule, int] = {}
        self._stretches: list[Span] = []

    @property
    def under_provisioned_minutes(self) -> float:
        return self._short / MINUTE

    @property
    def pod_hours(self) -> float:
        return self._pod_time / HOUR

    def fork(self) -> ScoreAccumulator:
        """An independent copy."""
        other = copy(self)
        # Copies of what is mutated in place; the other attributes are replaced, never mutated.
        other.__dict__ |= {
            "_reconciliations_by": dict(self._reconciliations_by),
            "_actions_by": dict(self._actions_by),
            "_changed": dict(self._changed),
            "_stretches": list(self._stretches),
        }
        return other

    def book(self, begin: Nanoseconds, end: Nanoseconds, value: float, slope: float, ready: int, pods: int) -> None:
        """Add [begin, end], with a load of `value` at its begin that rises by `slope` per nanosecond."""
        length = end - begin
        self._span += length
        self._pod_time += pods * length
        self._most = max(self._most, pods)
        if isnan(value):
            self._unknown += length
            return
        last = value + slope * length
        self._demand += (value + last) / 2 * length
        carried = ready * self._capacity
        if value <= carried and last <= carried:
            return
        # The load exceeds what the ready pods carry from `since` to `until`, counted from `begin`.
        since, until = 0.0, float(length)
        if value <= carried:
            since = (carried - value) / slope
        elif last < carried:
            until = (carried - value) / slope
        above = (max(value - carried, 0.0) + max(last - carried, 0.0)) / 2
        self._short += until - since
        self._unserved += above * (until - since)
        self._stretch(begin + round(since), begin + round(until))

    def reconciled(self, decision: Decision) -> None:
        """Add one decision, which was written if it rescales."""
        decided_by = decision.decided_by
        self._reconciliations_by[decided_by] = self._reconciliations_by.get(decided_by, 0) + 1
        for step in decision.steps:
            self._changed[step.rule] = self._changed.get(step.rule, 0) + 1
        if decision.rescales:
            self._actions += 1
            self._actions_by[decided_by] = self._actions_by.get(decided_by, 0) + 1

    def score(self) -> Score:
        return Score(
            span=self._span,
            unknown=self._unknown,
            under_provisioned=self._short,
            unserved=self._unserved,
            demand=self._demand,
            pod_time=self._pod_time,
            actions=self._actions,
            most_replicas=self._most,
            reconciliations_by=self._reconciliations_by,
            actions_by=self._actions_by,
            reconciliations_changed=self._changed,
            stretches=tuple(self._stretches),
        )

    def _stretch(self, begin: Nanoseconds, end: Nanoseconds) -> None:
        if self._stretches and self._stretches[-1].end == begin:
            begin = self._stretches.pop().begin
        self._stretches.append(Span(begin, end))
