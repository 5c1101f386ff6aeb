"""
Reconciles one object: observes its target and decides, unless the decision of the period before still stands.

A decision stands until something that it rests on changes (`core/standing`): spec, status, memory, target, pods and
owners are compared by identity here, usage by its band. Every five minutes each object is decided in any case: that
writes numbers that have drifted, records a point of its past, and bounds what a mistake in here can do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from cronhpa.core.behavior import resume
from cronhpa.core.decide import Decide
from cronhpa.core.decide import decide as decide_with
from cronhpa.core.forecasts.floor import MILLI, forecast_metric, forecast_source, load_of
from cronhpa.core.metrics.observe import Measurement, active, observe, samples_of
from cronhpa.core.model.decision import Decision, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent, Observation, Pod, Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record, encode
from cronhpa.core.model.spec import CronWindow, Mode, PodSelection, ResourceMetric, Spec
from cronhpa.core.schedules.bounds import quiet_until
from cronhpa.core.schedules.conflicts import conflicts
from cronhpa.core.standing import Standing, standing
from cronhpa.core.sync_grid import caused_at, following, latest, remembered_at, resumed_at
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.kube.client import Client
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.metrics import PodMetricsByName
from cronhpa.kube.pod_indexer import MatchedPods, PodIndexer
from cronhpa.kube.pod_owners import PodOwners
from cronhpa.kube.scale import Targets, is_watched
from cronhpa.operator.loop.budget_trackers import BudgetTrackers
from cronhpa.operator.loop.crowds import Crowds
from cronhpa.operator.loop.metric_queries import MetricQueries
from cronhpa.operator.objects.installations import Installations
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_state import Basis, ObjectState
from cronhpa.operator.objects.owners import Owners
from cronhpa.operator.objects.replica_conflict import ReplicaConflict
from cronhpa.operator.objects.vertical_autoscalers import VerticalAutoscalers
from cronhpa.operator.writes.writer import Writer
from cronhpa.sources.metric_sources import MetricSources
from cronhpa.sources.source import MeasuredObject

R = TypeVar("R")

LOG = logging.getLogger(__name__)

# Each object is decided at least this often, whatever stands.
_FULL_PERIOD = 5 * MINUTE
# Normally watch events of a workload's pods arrive within a second, and its status follows them.
_UNSEEN = 30 * SECOND
# Without counts: each change of the text would be a status write.
UNSEEN = Absent(
    "PodsUnknown",
    "fewer pods are seen than the target says it has, as if a watch had lost some: they are listed again, and the"
    " metrics scale nothing down meanwhile",
)
# Loads wait here for the store. While the store cannot be written, the oldest are dropped.
_LOADS_KEPT = 200_000
# The windows of an object with many schedules, and the first import of public holidays, take long to compute. Several
# such objects in a row would block the event loop for seconds, so more windows than this, and all holidays, are
# computed in a thread. For fewer windows a thread costs more than it saves.
_WINDOWS_IN_LOOP_MAX = 16


class Input(Enum):
    """What a reconciliation waits for. Objects that wait for different answers are reconciled in different tasks."""

    NOTHING = "no metric"
    POD_METRICS = "the LIST of the namespace's pod metrics"
    OWN_REQUEST = "an answer of its own: of a metrics API, about its target, of a write in doubt, of a thread"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The operator's view of the cluster."""

    client: Client
    discovery: Discovery
    pods: PodIndexer
    targets: Targets
    owners: Owners
    is_synced: Callable[[str], bool]
    """Whether the pods and HorizontalPodAutoscalers of a namespace have been listed."""
    pods_unknown: Callable[[str], Absent | None]
    """Why the pods of a namespace are no longer known; None while they are."""
    relist: Callable[[str], None]
    """Lists the pods of a namespace, and the targets, again."""
    is_counted: Callable[[str], bool]
    """Whether no pod of a namespace is too large to be counted."""
    installations: Installations
    sources: MetricSources
    pod_owners: PodOwners
    vertical_autoscalers: VerticalAutoscalers


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
        clock: Callable[[], Nanoseconds],
        decide: Decide = decide_with,
        *,
        check_standing: bool = False,
    ) -> None:
        self.loads: deque[LoadSample] = deque(maxlen=_LOADS_KEPT)
        """Observed loads that are not stored yet: the highest of each minute."""
        self.budgets = BudgetTrackers()
        """The pod-seconds that forecasts add."""
        self.crowds = Crowds()
        """The objects that start together."""
        self.stood = 0
        """The periods for which a decision stood."""
        self.differed = 0
        """Those of them, where each is decided as well, for which another decision would have been made."""
        self._cluster = cluster
        self._inventory = inventory
        self._writer = writer
        self._forecasts = forecasts
        self._clock = clock
        self._decide = decide
        self._check_standing = check_standing
        self._reported_at: Nanoseconds = 0

    def input_of(self, state: ObjectState, now: Nanoseconds, *, is_decided: bool = False) -> Input:
        """What the next reconciliation of an object waits for. is_decided: whether its decision does not stand."""
        spec, local = state.served.spec, state.local
        if spec is None:
            return Input.NOTHING
        if local.standing is not None and local.basis is not None and not local.changed and not is_decided:
            is_of_pods, is_own = local.basis.is_listed and bool(spec.metrics), not local.basis.is_listed
        else:
            # A target is read by a request until its kind is listed. Others must not wait for the answer.
            target = None if state.target is None else self._cluster.targets.watched(state.target)
            is_own = (
                state.writes.scale_unknown
                or state.served.status_unknown
                or not is_watched(spec.target)
                or target is None
                or not target.is_current
                or _takes_long(state, spec, now)
                or spec.pod_selection is PodSelection.OWNED
                or not all(isinstance(metric, ResourceMetric) for metric in spec.metrics)
            )
            is_of_pods = bool(spec.metrics)
        if is_own:
            return Input.OWN_REQUEST
        return Input.POD_METRICS if is_of_pods else Input.NOTHING

    def serves(self, state: ObjectState) -> bool:
        """Whether no other installation serves this object; records another one, and logs it once."""
        problem = self._cluster.installations.problem(state.served.operator, state.namespace) or ""
        if problem == state.local.other_operator:
            return not problem
        if problem:
            self._writer.report_other_operator(state, problem, self._clock())
        else:
            LOG.info("%s/%s is taken over: the operator that served it is gone", *state.key)
            self._inventory.resume(state)
        state.local.other_operator = problem
        return not problem

    def stands(self, state: ObjectState, pod_metrics: PodMetricsByName | Absent | None, now: Nanoseconds) -> bool:
        """
        Whether the decision on an object stands in this period, as far as the namespace's pod metrics tell.

        pod_metrics: None for objects without metrics.
        """
        local = state.local
        basis, stands = local.basis, local.standing
        if stands is None or basis is None or local.changed or not basis.is_listed or self._check_standing:
            return False
        if now >= stands.until or not basis.is_current:
            return False
        usages = _usages(stands, basis, pod_metrics, now)
        if usages is None or not stands.covers(usages, now):
            return False
        self._stand(state, stands, basis, usages, now)
        return True

    async def reconcile(self, state: ObjectState, queries: MetricQueries) -> Reconciliation | None:
        """What is to be written of an object; None if its decision stands, or if there is nothing to decide."""
        served, local = state.served, state.local
        claim = self._cluster.installations.claim(served.operator, state.namespace)
        if served.status_unknown:
            await self._writer.refresh(state)
        if claim is not None and not self.serves(state):
            return None
        spec, generation = served.spec, served.generation
        if spec is None:
            # Without readable schedules there are no edges: an edge in the past would make the object due all the time.
            state.due.next_edge = None
            await self._writer.reject(state, self._clock())
            return None
        was_changed, local.changed = local.changed, False
        observation, now, basis = await self._observe(state, spec, queries)
        if (
            not was_changed
            and claim is None
            and await self._stands_after(state, spec, observation, basis, queries, now)
        ):
            return None
        if local.resumed:  # a new process believes the remembered crowd
            observation = replace(observation, crowd=self.crowds.crowd_of(state.key, now))
        held_until = self._resume(state, spec, observation, now)
        self._record_load(state, spec, observation, now)
        forecast, limited = self._forecast(state, spec, now)
        record = Record(spec, observation, limited, local.memory, now)
        decision = await self._decided(state, record, held_until)
        await self._find_conflicts(state, spec, decision, now)
        if not self._is_current(state, generation) or served.spec is not spec:
            return None  # the edit, of the object or of a planned event, causes its own reconciliation
        return self._conclude(state, record, decision, forecast, basis)

    def _conclude(
        self, state: ObjectState, record: Record, decision: Decision, forecast: Forecast | None, basis: Basis | None
    ) -> Reconciliation:
        """Remembers a decision, unless it scales: then the writer does, once the outcome is known."""
        spec, now, local = record.spec, record.now, state.local
        assert state.target is not None
        owner_problem = self._cluster.owners.problem(state, self._inventory.rivals_on(state.target))
        state.due.next_edge = None if decision.next_edge is None else decision.next_edge.at
        local.bounds_until = quiet_until(spec, state.due.next_edge, now)
        local.under_provisioned.note(record.observation, decision, now)
        self._writer.decisions.note_point(state, record, decision)
        reconciliation = Reconciliation(
            record=record,
            decision=decision,
            memory=record.memory,
            generation=state.served.generation,
            owner_problem=owner_problem,
            spec_problems=state.served.problems,
            forecast=forecast,
            budget_used=self._count_budget(state, record, decision, forecast, owner_problem),
            conflicts=local.conflicts,
            zone=state.served.zone,
            contested="" if local.replica_conflict is None else local.replica_conflict.problem,
            requests_changed=self._cluster.vertical_autoscalers.problem(state.target, spec),
        )
        self.crowds.decided(state.key, spec, decision, record.memory, scales=reconciliation.scales)
        local.standing, local.basis = None, basis
        if not reconciliation.scales:
            # Not that of the record: the clock may have been set during a decision in a thread.
            memory = local.kept_memory.after(decision, Withheld(), spec, record.observation)
            reconciliation = replace(reconciliation, memory=memory)
            local.kept_memory = memory
            local.standing = self._standing(state, reconciliation)
        local.latest = reconciliation
        return reconciliation

    def _standing(self, state: ObjectState, reconciliation: Reconciliation) -> Standing | None:
        """How long a decision stands whose reconciliation is remembered."""
        local, basis = state.local, state.local.basis
        if (
            basis is None
            or not basis.is_current
            or (local.replica_conflict is not None and local.replica_conflict.is_open)
        ):
            return None
        if state.served.status_unknown:  # it is read again first
            return None
        record, now = reconciliation.record, reconciliation.record.now
        stands = standing(record, basis.pods, reconciliation.decision, reconciliation.memory)
        if stands is not None:
            period = record.spec.options.sync_period
            # Contradictions are looked for a period late: other objects may share the edge.
            stands.until = min(stands.until, following(state.uid, _FULL_PERIOD, now), local.conflicts_until + period)
        return stands

    def _stand(
        self, state: ObjectState, stands: Standing, basis: Basis, usages: tuple[int, ...], now: Nanoseconds
    ) -> None:
        """Notes a period for which a decision stands."""
        period = stands.spec.options.sync_period
        at = caused_at(latest(state.namespace, period, now), period, now)
        stands.stand(usages, now, max(at, stands.remembered_at))
        self.stood += 1
        if basis.load_index is not None and basis.load_series is not None:
            self._record_minute(state, basis.load_series, now, usages[basis.load_index] / MILLI)

    async def _stands_after(
        self,
        state: ObjectState,
        spec: Spec,
        observation: Observation,
        basis: Basis | None,
        queries: MetricQueries,
        now: Nanoseconds,
    ) -> bool:
        """Whether the decision on an object stands after its target, pods and metrics were observed."""
        local = state.local
        stands, held = local.standing, local.basis
        if stands is None or held is None or basis is None or not held.is_current or held.match is not basis.match:
            return False
        if held.pod_names != basis.pod_names:  # of the same pods the target may own others by now
            return False
        usages = stands.usages_of(observation.readings)
        if self._check_standing and held.is_listed:
            usages = _usages(stands, held, await queries.list_pod_metrics(None) if spec.metrics else None, now)
        if usages is None or not stands.covers(usages, now):
            return False
        memory = local.memory
        self._stand(state, stands, held, usages, now)
        if self._check_standing:
            self._compare(state, stands, Record(spec, observation, None, memory, now))
        return True

    def _compare(self, state: ObjectState, stands: Standing, record: Record) -> None:
        """Compares a decision that stands with the one that would be made."""
        decided = self._decide(record.spec, record.observation, record.forecast, record.memory, record.now)
        decision = replace(decided, at=stands.remembered_at)
        memory = record.memory.after(decision, Withheld(), record.spec, record.observation)
        made = (decision, record.observation.readings, memory, False)
        stood = (stands.newest_decision, stands.newest_readings, state.local.memory, decision.rescales)
        if made != stood:
            self.differed += 1
            LOG.error("the decision that stands differs from what is decided: %s; it is %r", encode(record), stood)
        if record.now - self._reported_at >= MINUTE:
            self._reported_at = record.now
            LOG.info("%d decisions that stood were compared, %d differ", self.stood, self.differed)

    async def _decided(self, state: ObjectState, record: Record, held_until: Nanoseconds) -> Decision:
        """The decision, with the instant that the memory keeps, which is not before `held_until`."""
        given = (record.spec, record.observation, record.forecast, record.memory, record.now)
        try:
            decided = await _computed(self._decide, *given, in_thread=_takes_long(state, record.spec, record.now))
        except Exception:
            # One line with all inputs: `cronhpa replay` decides them again, and a copy is a regression test.
            LOG.exception("this cannot be decided: %s", encode(record))
            raise
        period = record.spec.options.sync_period
        at = remembered_at(record.memory, latest(state.namespace, period, record.now), period, record.now)
        return replace(decided, at=max(at, held_until))

    def _resume(self, state: ObjectState, spec: Spec, observation: Observation, now: Nanoseconds) -> Nanoseconds:
        """
        Brings the memory to the count that is found, and resumes that of the process before.

        Returns the instant until which the process before is assumed to have decided; 0 once the memory is resumed. A
        decision of an earlier instant would cause a status write for a small difference.
        """
        local, period = state.local, spec.options.sync_period
        grid = latest(state.namespace, period, now)
        held_until = 0 if local.resumed else resumed_at(local.memory, grid, period, now)
        if not isinstance(observation.scale, Scale):
            return held_until
        current = observation.scale.spec_replicas
        if local.resumed:
            memory = local.memory.settled(current, now)
        else:
            self.crowds.remember(local.memory)
            local.replica_conflict = ReplicaConflict.resumed(state.served.status, now)
            memory = resume(local.memory, current, now, spec.behavior, held_until)
        if local.replica_conflict is not None:
            local.replica_conflict.found(current, now)
        local.kept_memory = memory
        local.resumed, state.writes.scale_unknown = True, False
        return held_until

    async def _find_conflicts(self, state: ObjectState, spec: Spec, decision: Decision, now: Nanoseconds) -> None:
        """Looks for contradicting schedules: once for each generation, after each edge, and daily without an edge."""
        local = state.local
        # One period late: other objects may share the edge, and their scale-ups come first.
        if local.conflicts_until == 0 or local.conflicts_until + spec.options.sync_period <= now:
            local.conflicts = await _computed(conflicts, spec, now, in_thread=_has_heavy_schedules(spec))
            local.conflicts_until = now + DAY if decision.next_edge is None else decision.next_edge.at

    async def _observe(
        self, state: ObjectState, spec: Spec, queries: MetricQueries
    ) -> tuple[Observation, Nanoseconds, Basis | None]:
        """The observation of an object's target, its instant, and what it rests on, if that is watched."""
        target = await self._cluster.targets.read(state.namespace, spec.target, fresh=state.writes.scale_unknown)
        if isinstance(target, Absent):
            now = self._clock()
            return observe(spec, target, (), (), now), now, None
        scale, selector = target.scale, target.selector
        if isinstance(selector, Absent):
            now = self._clock()
            unknown: Measurement = selector
            return observe(spec, scale, (), [unknown] * len(spec.metrics), now, selector_problem=selector), now, None
        match = self._cluster.pods.matching(spec.namespace, selector)
        pods = match.pods
        pods_unknown = self._cluster.pods_unknown(state.namespace)
        if pods_unknown is not None:
            # With outdated pods the load would be measured over the wrong number of pods.
            now = self._clock()
            return observe(spec, scale, pods, [pods_unknown] * len(spec.metrics), now), now, None
        is_owned = spec.pod_selection is PodSelection.OWNED
        if is_owned:
            owned = await self._cluster.pod_owners.owned(spec.namespace, spec.target, pods)
            if isinstance(owned, Absent):
                now = self._clock()
                return observe(spec, scale, (), [owned] * len(spec.metrics), now, selector_problem=owned), now, None
            pods = owned
        measured_object = MeasuredObject(spec.namespace, state.name, spec.target, pods, spec.options.sync_period)
        measurements = (queries.measure(metric, measured_object, scale.selector) for metric in spec.metrics)
        if len(spec.metrics) == 1 or all(isinstance(metric, ResourceMetric) for metric in spec.metrics):
            # At most one answer is outstanding, the shared LIST: tasks would only add overhead.
            measured = [await measurement for measurement in measurements]
        else:
            measured = list(await asyncio.gather(*measurements))
        if is_owned:
            measured = [samples_of(measurement, pods) for measurement in measured]
        now = self._clock()
        unseen = self._unseen(state, spec, scale, pods, now)
        basis = self._basis(state, spec, scale, match, pods)
        self.crowds.seen(state.key, pods, now)
        return observe(spec, scale, pods, measured, now, unseen=unseen), now, basis

    def _basis(
        self, state: ObjectState, spec: Spec, scale: Scale, match: MatchedPods, pods: tuple[Pod, ...]
    ) -> Basis | None:
        """The values on which a decision rests; None if one is not watched, or newer than the observation."""
        key = state.target
        target = None if key is None else self._cluster.targets.watched(key)
        if key is None or target is None or target.read().scale is not scale:
            return None
        source = forecast_source(spec)
        load_index = next((index for index, metric in enumerate(spec.metrics) if metric is source), None)
        return Basis(
            target=target,
            match=match,
            ownership=self._cluster.owners.ownership(key),
            pods=pods,
            pod_names=tuple(pod.name for pod in pods),
            is_listed=all(isinstance(metric, ResourceMetric) for metric in spec.metrics),
            load_index=load_index,
            load_series=None if source is None else Series(state.namespace, state.name, source.name),
        )

    def _unseen(
        self, state: ObjectState, spec: Spec, scale: Scale, pods: Sequence[Pod], now: Nanoseconds
    ) -> Absent | None:
        """
        Why fewer pods are seen than the target's status states; None if no pod is missing.

        A watch can be frozen, or lose an event, and look alive. The status needs some time to follow deleted pods. Only
        some kinds are checked: others may count something else in their status.
        """
        # A StatefulSet counts the pods that are being deleted until they are gone.
        seen = len(pods) if spec.target.kind == "StatefulSet" else active(pods)
        local = state.local
        if (
            not is_watched(spec.target)
            or seen >= scale.status_replicas
            or not self._cluster.is_counted(state.namespace)
        ):
            local.unseen_since = None
            return None
        if local.unseen_since is None or now < local.unseen_since:
            local.unseen_since = now
        is_old = now - local.unseen_since >= _UNSEEN
        if is_old:
            self._cluster.relist(state.namespace)
        return UNSEEN if is_old or seen < scale.spec_replicas else None

    def _record_load(self, state: ObjectState, spec: Spec, observation: Observation, now: Nanoseconds) -> None:
        """Records the observed load of the metric that is the object's load."""
        source = forecast_source(spec)
        if source is None:
            return
        for metric, reading in zip(spec.metrics, observation.readings, strict=False):
            if metric is source and (load := load_of(reading)) is not None:
                self._record_minute(state, Series(state.namespace, state.name, source.name), now, load)

    def _record_minute(self, state: ObjectState, series: Series, now: Nanoseconds, load: float) -> None:
        """Keeps the highest load of a minute: the store does so, too, and gets one sample a minute."""
        highest = state.local.minute_load
        if highest is not None and (highest.at // MINUTE != now // MINUTE or highest.series != series):
            self.loads.append(highest)
            highest = None
        if highest is None or load > highest.value:
            state.local.minute_load = LoadSample(series, now, load)

    def flush_load(self, state: ObjectState) -> None:
        """Queues the load of the minute under way: somebody else may decide on the object from now on."""
        if state.local.minute_load is not None:
            self.loads.append(state.local.minute_load)
            state.local.minute_load = None

    def _forecast(
        self, state: ObjectState, spec: Spec, now: Nanoseconds
    ) -> tuple[Forecast | None, Forecast | Absent | None]:
        """(newest forecast, forecast within its budget for the decision)."""
        name = forecast_metric(spec)
        if spec.forecast is None or name is None:
            return None, None
        series = Series(state.namespace, state.name, name)
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
        if forecast is None or owner_problem is not None or record.spec.mode is not Mode.ACTIVE:
            return None
        series = Series(state.namespace, state.name, forecast.metric)
        self.budgets.count(series, record.spec, record.observation, record.memory, decision, record.now)
        return self.budgets.used_permille(series)

    def _is_current(self, state: ObjectState, generation: int) -> bool:
        return state.served.generation == generation and self._inventory.items.get(state.key) is state


def _usages(
    stands: Standing, basis: Basis, pod_metrics: PodMetricsByName | Absent | None, now: Nanoseconds
) -> tuple[int, ...] | None:
    """The usage of an object's pods by each metric, milli-units; None if one has no sample that counts."""
    if not stands.spec.metrics:
        return ()
    if pod_metrics is None or isinstance(pod_metrics, Absent):
        return None
    usages: list[int] = []
    for metric in stands.spec.metrics:
        if not isinstance(metric, ResourceMetric) or (usage := pod_metrics.usage(metric, basis.pod_names)) is None:
            return None
        is_starting = now < stands.started and metric.name == "cpu"
        if is_starting and not stands.trusts(pod_metrics.samples(metric, [pod.name for pod in stands.starting])):
            return None
        usages.append(usage)
    return (*usages,)


def _takes_long(state: ObjectState, spec: Spec, now: Nanoseconds) -> bool:
    """Whether a decision may block the loop for long: not if all results of its schedules are cached."""
    return _has_heavy_schedules(spec) and now >= state.local.bounds_until


def _has_heavy_schedules(spec: Spec) -> bool:
    """Whether the schedules must be computed in a thread."""
    return len(spec.schedules) > _WINDOWS_IN_LOOP_MAX or any(
        isinstance(schedule.window, CronWindow)
        and any(days is not None and days.holidays for days in (schedule.window.exclude, schedule.window.only))
        for schedule in spec.schedules
    )


async def _computed(work: Callable[..., R], *given: Any, in_thread: bool) -> R:
    return await asyncio.to_thread(work, *given) if in_thread else work(*given)
