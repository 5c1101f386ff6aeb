"""Reconciles one object: observes it (`observer`) and decides, unless its decision stands (`standing_decisions`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from cronhpa.core.behavior import resume
from cronhpa.core.decide import Decide
from cronhpa.core.decide import decide as decide_with
from cronhpa.core.model.decision import Decision, DecisionKind, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.model.observation import Absent, Observation, Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record, encode
from cronhpa.core.model.spec import CronWindow, Mode, PodSelection, Spec
from cronhpa.core.schedules.bounds import quiet_until
from cronhpa.core.schedules.conflicts import Conflict, conflicts
from cronhpa.core.schedules.leads import urgent_edge
from cronhpa.core.sync_grid import remembered_at, resumed_at
from cronhpa.history.database.series import Series
from cronhpa.kube.scale import is_watched
from cronhpa.operator.loop.budget_trackers import BudgetTrackers
from cronhpa.operator.loop.crowds import Crowds
from cronhpa.operator.loop.metric_apis import MetricQueries, are_all_listed
from cronhpa.operator.loop.minute_loads import MinuteLoads
from cronhpa.operator.loop.observer import Cluster, Observer
from cronhpa.operator.loop.standing_decisions import StandingDecisions
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.objects.owners import former_problem
from cronhpa.operator.objects.replica_conflict import ReplicaConflict
from cronhpa.operator.writes.writer import Writer
from cronhpa.ports.fair_places import FairPlaces

R = TypeVar("R")

LOG = logging.getLogger(__name__)

# The windows of an object with many schedules, and the first import of public holidays, take long to compute. Several
# such objects in a row would block the event loop for seconds, so more windows than this, and all holidays, are
# computed in a thread. For fewer windows a thread costs more than it saves.
_WINDOWS_IN_LOOP_MAX = 16
# Threads for long decisions, and those of one namespace; other work has the rest of the executor's threads.
_THREADS, _THREADS_OF_ONE = 4, 2


class WaitsFor(Enum):
    """What a reconciliation waits for. Objects that wait for different answers are reconciled in different tasks."""

    NOTHING = "no metric"
    POD_METRICS = "the LIST of the namespace's pod metrics"
    OWN_REQUEST = "an answer of its own: of a metrics API, about its target or spec, of a write in doubt, of a thread"


class LatestForecasts(Protocol):
    """The forecasts of all series, in memory."""

    def latest(self, series: Series) -> Forecast | Absent: ...

    def forget(self, series: Series) -> None: ...


class Reconciler:
    def __init__(
        self,
        cluster: Cluster,
        inventory: Inventory,
        writer: Writer,
        forecasts: LatestForecasts,
        decide: Decide = decide_with,
        *,
        check_standing: bool = False,
    ) -> None:
        self.loads = MinuteLoads()
        self.budgets = BudgetTrackers()
        """The pod-seconds that forecasts add."""
        self.crowds = Crowds()
        """The objects that start together."""
        self.standing = StandingDecisions(self.loads, self.crowds, decide, checks=check_standing)
        self._observer = Observer(cluster, self.crowds, self._is_current)
        self._cluster = cluster
        self._inventory = inventory
        self._writer = writer
        self._forecasts = forecasts
        self._decide = decide
        self._threads = FairPlaces(_THREADS, _THREADS_OF_ONE)

    def waits_for(self, state: ObjectState, now: Nanoseconds, *, is_decided: bool = False) -> WaitsFor:
        """
        What the next reconciliation of an object waits for. is_decided: whether it is known that its decision does not
        stand.
        """
        spec = state.served.spec
        if spec is None or not are_all_listed(spec):  # an unreadable spec: a write of its problems
            return WaitsFor.OWN_REQUEST
        # A decision that stands needs no more than its metrics.
        may_stand = state.local.may_stand and not is_decided
        if not may_stand and self._asks_alone(state, spec, now):
            return WaitsFor.OWN_REQUEST
        return WaitsFor.POD_METRICS if spec.metrics else WaitsFor.NOTHING

    def _asks_alone(self, state: ObjectState, spec: Spec, now: Nanoseconds) -> bool:
        """Whether a decision waits for an answer besides its metrics, for which other objects must not wait."""
        # A target is read by a request until its kind is listed.
        target = None if state.target is None else self._cluster.targets.watched(state.target)
        return (
            state.writes.scale_unknown
            or state.writes.status_unknown
            or not is_watched(spec.target)
            or target is None
            or not target.is_current
            or _takes_long(state, spec, now)
            or spec.pod_selection is PodSelection.OWNED
        )

    def follow_installation(self, state: ObjectState, now: Nanoseconds) -> bool:
        """
        Leaves an object to another installation that its status names, or takes it over once that one is gone. Returns
        whether this installation serves it.
        """
        problem = self._cluster.installations.problem(state.served.operator, state.namespace) or ""
        if problem == state.local.other_operator:
            return not problem
        if problem:
            # What was decided here last is told no longer: the other one decides.
            self.forget(state)
            state.local.latest = state.local.standing = None
            self._writer.report_other_operator(state, problem, now)
        else:
            LOG.info("%s/%s is taken over: the operator that served it is gone", *state.key)
            self._inventory.resume(state)
            state.writes.status_unknown = True  # a watch may have lost what the other one wrote last
        state.local.other_operator = problem
        return not problem

    def is_rejected(self, state: ObjectState) -> bool:
        """Whether this installation serves an object whose spec cannot be read."""
        is_ours = self._inventory.items.get(state.key) is state and not state.local.other_operator
        return is_ours and state.served.spec is None

    def forget(self, state: ObjectState) -> None:
        """An object is gone, or somebody else decides on it, who does not know the load of this minute."""
        self.loads.flush(state)
        self.crowds.forget(state.key)

    async def reconcile(
        self, state: ObjectState, queries: MetricQueries, clock: Callable[[], Nanoseconds]
    ) -> Reconciliation | None:
        """
        What is to be written of an object; None if its decision stands, or if there is nothing to decide.

        clock: read once all is observed: memories follow a clock that was set before they are read.
        """
        served, local = state.served, state.local
        if state.writes.status_unknown:
            # Nothing was decided here yet, so the status in doubt has what another process remembered last.
            is_first = local.latest is None
            is_read = await self._writer.refresh(state)
            if is_first and not is_read:
                state.due.next_edge = None  # it may lie in the past, and would make the object due all the time
                state.due.retry(1)  # a period may be an hour, and an edge may lie in it
                LOG.warning("%s/%s: nothing is decided on it before it could be read", *state.key)
                return None
            if is_first:
                self._inventory.resume(state)
                state.due.refusals = 0
        if not self.follow_installation(state, clock()):
            return None
        spec = served.spec
        if spec is None:
            # Without readable schedules there are no edges: an edge in the past would make the object due all the time.
            state.due.next_edge = None
            return None
        was_changed, local.changed = local.changed, False
        observation, now, inputs = await self._observer.observe(state, spec, queries, clock)
        local.clock_step = 0
        if not self._is_current(state, spec):
            return None  # its load is not that of the new spec
        if local.resumed:  # a new process believes the remembered crowd
            observation = replace(observation, crowd=self.crowds.crowd_of(state.key, now))
        if not was_changed and await self.standing.note_if_stands_after(state, observation, inputs, queries, now):
            return None
        if local.clock_step:
            return None  # it is due again, by the clock that was set meanwhile
        local.remember(local.memory)  # with the periods for which the decision stood, which ends here
        local.inputs = inputs
        assumed_until = self._resume(state, spec, observation, now)
        self.loads.observed(state, spec, observation, now)
        forecast, limited = self._forecast(state, spec, now)
        record = Record(spec, observation, limited, local.memory, now)
        decision = await self._decided(state, record, assumed_until)
        contradictions = await self._contradictions(state, spec, decision, now)
        if not self._is_current(state, spec):
            return None
        return self._conclude(state, record, decision, forecast, contradictions)

    def _conclude(
        self,
        state: ObjectState,
        record: Record,
        decision: Decision,
        forecast: Forecast | None,
        contradictions: tuple[Conflict, ...],
    ) -> Reconciliation:
        """Remembers a decision, unless it scales: then the writer does, once the outcome is known."""
        spec, now, local, target = record.spec, record.now, state.local, state.target
        assert target is not None
        local.ownership = self._cluster.owners.ownership(target)
        owner_problem = self._cluster.owners.problem(state, self._inventory.rivals_on(target))
        if owner_problem is None and self._cluster.watches.hpas_unknown(state.namespace) is not None:
            owner_problem = former_problem(state.served.status, target)
        state.due.next_edge = urgent_edge(spec, decision)
        if decision.kind is DecisionKind.UNREACHABLE:
            state.due.retry()
        local.under_provisioned.note(record.observation, decision, now)
        self._writer.decisions.note_point(state, record, decision)
        reconciliation = Reconciliation(
            record=record,
            decision=decision,
            memory=record.memory,
            generation=state.served.generation,
            owner_problem=owner_problem,
            forecast=forecast,
            budget_used=self._count_budget(state, record, decision, forecast, owner_problem),
            conflicts=contradictions,
            zone=state.served.parsed.zone,
            contested=local.replica_conflict.problem,
            requests_changed=self._cluster.vertical_autoscalers.problem(target, spec),
            placeholder_problem=local.placeholder_problem,
        )
        self.crowds.note_decision(state.key, spec, decision, record.memory, scales=reconciliation.scales)
        if not reconciliation.scales:
            # Not that of the record: the clock may have been set during a decision in a thread.
            memory = state.memory_after(lambda before: before.after(decision, Withheld(), spec, record.observation))
            reconciliation = replace(reconciliation, memory=memory)
            local.remember(memory)
            local.standing = self.standing.begin(state, reconciliation)
        local.latest = reconciliation
        return reconciliation

    async def _decided(self, state: ObjectState, record: Record, assumed_until: Nanoseconds) -> Decision:
        """The decision, with the instant that the memory keeps, which is not before `assumed_until`."""
        given = (record.spec, record.observation, record.forecast, record.memory, record.now)
        try:
            is_long = _takes_long(state, record.spec, record.now)
            decided = await self._computed(self._decide, *given, namespace=state.namespace, in_thread=is_long)
        except Exception:
            # One line with all inputs: `cronhpa replay` decides them again, and a copy is a regression test.
            LOG.exception("this cannot be decided: %s", encode(record))
            raise
        at = remembered_at(record.memory, state.namespace, record.spec.options.sync_period, record.now)
        return replace(decided, at=max(at, assumed_until))

    async def _computed(self, work: Callable[..., R], *given: Any, namespace: str, in_thread: bool) -> R:
        if not in_thread:
            return work(*given)
        async with self._threads.place(namespace):
            return await asyncio.to_thread(work, *given)

    def _resume(self, state: ObjectState, spec: Spec, observation: Observation, now: Nanoseconds) -> Nanoseconds:
        """
        Brings the memory to the count that is found, and resumes that of the process before.

        Returns the instant until which the process before is assumed to have decided; 0 once the memory is resumed. A
        decision of an earlier instant would cause a status write for a small difference.
        """
        local, period = state.local, spec.options.sync_period
        assumed_until = 0 if local.resumed else resumed_at(local.memory, state.namespace, period, now)
        if not isinstance(observation.scale, Scale):
            return assumed_until
        current = observation.scale.spec_replicas
        if local.resumed:
            memory = local.memory.settled(current, now)
        else:
            self.crowds.remember(local.memory)
            local.replica_conflict = ReplicaConflict.resumed(state.served.status, now)
            memory = resume(local.memory, current, now, spec.behavior, assumed_until)
        local.replica_conflict.found(current, now)
        local.remember(memory)
        local.resumed, state.writes.scale_unknown = True, False
        return assumed_until

    async def _contradictions(
        self, state: ObjectState, spec: Spec, decision: Decision, now: Nanoseconds
    ) -> tuple[Conflict, ...]:
        """
        Schedules that contradict each other. They are looked for once for each generation, after each edge, and daily
        without an edge.
        """
        local = state.local
        if local.latest is not None and not _conflicts_are_due(state, spec, now):
            return local.latest.conflicts
        is_heavy = _has_heavy_schedules(spec)
        found = await self._computed(conflicts, spec, now, namespace=state.namespace, in_thread=is_heavy)
        local.conflicts_until = now + DAY if decision.next_edge is None else decision.next_edge.at
        return found

    def _forecast(
        self, state: ObjectState, spec: Spec, now: Nanoseconds
    ) -> tuple[Forecast | None, Forecast | Absent | None]:
        """(newest forecast, forecast within its budget for the decision)."""
        series = None if spec.forecast is None else state.load_series
        if series is None:
            return None, None
        newest = self._forecasts.latest(series)
        if isinstance(newest, Absent):
            return None, newest
        return newest, self.budgets.limit(series, spec, newest, now)

    def _count_budget(
        self,
        state: ObjectState,
        record: Record,
        decision: Decision,
        forecast: Forecast | None,
        owner_problem: str | None,
    ) -> int | None:
        """The part of its budget that an active forecast has used, with this reconciliation; None without one."""
        series = None if forecast is None else state.load_series
        if series is None or owner_problem is not None or record.spec.mode is not Mode.ACTIVE:
            return None
        self.budgets.count(series, record.spec, record.observation, record.memory, decision, record.now)
        return self.budgets.used_permille(series)

    def _is_current(self, state: ObjectState, spec: Spec) -> bool:
        """Whether the spec is the object's; an edit of it, or of a planned event, causes its own reconciliation."""
        return self._inventory.items.get(state.key) is state and state.served.spec is spec


def _takes_long(state: ObjectState, spec: Spec, now: Nanoseconds) -> bool:
    """Whether a reconciliation may block the loop for long: not if all results of its schedules are cached."""
    if not _has_heavy_schedules(spec):
        return False
    newest = state.local.latest
    if newest is None or _conflicts_are_due(state, spec, now):
        return True
    edge = newest.decision.next_edge
    return now >= quiet_until(spec, None if edge is None else edge.at, newest.record.now)


def _conflicts_are_due(state: ObjectState, spec: Spec, now: Nanoseconds) -> bool:
    """Whether contradictions are looked for: a period after an edge, since other objects may share it."""
    newest = state.local.latest
    if newest is None or newest.spec is not spec:
        return True
    return state.local.conflicts_until + spec.options.sync_period <= now


def _has_heavy_schedules(spec: Spec) -> bool:
    """Whether the schedules must be computed in a thread."""
    return len(spec.schedules) > _WINDOWS_IN_LOOP_MAX or any(
        isinstance(schedule.window, CronWindow)
        and any(days is not None and days.holidays for days in (schedule.window.exclude, schedule.window.only))
        for schedule in spec.schedules
    )
