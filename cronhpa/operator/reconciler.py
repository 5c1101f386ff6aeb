"""Reconciles one object: observes its target, decides, and prepares the writes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from cronhpa.core.behavior import resume
from cronhpa.core.decide import decide as decide_with
from cronhpa.core.decision import Decision
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, SECOND, Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Absent, Observation, Pod, PodCounts, ScalarReading, Scale
from cronhpa.core.observe import Measurement, active, observe
from cronhpa.core.predictive.floor import forecast_metric, forecast_source, load_of
from cronhpa.core.record import Record, encode
from cronhpa.core.scheduled.bounds import quiet_until
from cronhpa.core.scheduled.conflicts import conflicts
from cronhpa.core.spec import Mode, ResourceMetric, Spec
from cronhpa.history.series import LoadSample, Series
from cronhpa.kube.client import Client
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.pod_indexer import PodIndexer
from cronhpa.kube.scale import ScaleTarget, Targets, is_watched
from cronhpa.operator.budget_trackers import BudgetTrackers
from cronhpa.operator.contest import Contest
from cronhpa.operator.fast_path import FastPath
from cronhpa.operator.grid import latest, remembered_at, resumed_at
from cronhpa.operator.installations import Claim, Installations
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.metric_queries import MetricQueries
from cronhpa.operator.needs import has_heavy_schedules, takes_long
from cronhpa.operator.newest import Newest
from cronhpa.operator.object_state import ObjectState
from cronhpa.operator.owners import Owners
from cronhpa.operator.pending_write import PendingWrite
from cronhpa.operator.repeatable import Seen, surplus
from cronhpa.operator.writer import Writer
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.metric_sources import MetricSources

R = TypeVar("R")

LOG = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    The operator's view of the cluster.

    is_synced: whether the pods and HorizontalPodAutoscalers of a namespace have been listed. blindness: why the pods of
    a namespace are no longer known. distrust: lists the pods of a namespace again.
    is_counted: whether no pod of a namespace is too large to be counted.
    """

    client: Client
    discovery: Discovery
    pods: PodIndexer
    targets: Targets
    owners: Owners
    is_synced: Callable[[str], bool]
    blindness: Callable[[str], Absent | None]
    distrust: Callable[[str], None]
    is_counted: Callable[[str], bool]
    installations: Installations
    sources: MetricSources


class LatestForecasts(Protocol):
    """The forecasts of all series, in memory."""

    def latest(self, series: Series) -> Forecast | Absent: ...

    def forget(self, series: Series) -> None: ...


class Decide(Protocol):
    """`core.decide.decide`, or a test's wrapper around it."""

    def __call__(
        self, spec: Spec, observation: Observation, forecast: Forecast | Absent | None, memory: Memory, now: Nanoseconds
    ) -> Decision: ...


class Reconciler:
    """`loads`: observed loads that are not stored yet. `budgets`: the pod-seconds that forecasts add."""

    def __init__(
        self,
        cluster: Cluster,
        inventory: Inventory,
        writer: Writer,
        forecasts: LatestForecasts,
        clock: Callable[[], Nanoseconds],
        decide: Decide = decide_with,
        *,
        checks_fast_path: bool = False,
    ) -> None:
        self.loads: deque[LoadSample] = deque(maxlen=_LOADS_KEPT)
        self.budgets = BudgetTrackers()
        self._cluster = cluster
        self._inventory = inventory
        self._writer = writer
        self._forecasts = forecasts
        self._clock = clock
        self._decide = decide
        self.fast_path = FastPath(cluster, inventory, writer, self.loads, clock, checks=checks_fast_path)

    async def reconcile(self, state: ObjectState, queries: MetricQueries) -> PendingWrite | None:
        """The decision on an object, to be written; None if there is nothing to decide."""
        claim = self._cluster.installations.claim(state.operator, state.namespace)
        if claim is not None:
            if state.in_doubt:
                await self._writer.refresh(state)
                claim = self._cluster.installations.claim(state.operator, state.namespace)
            if not self.serves(state):
                return None
        if state.spec is None:
            # Without readable schedules there are no edges: an edge in the past would make the object due all the time.
            state.next_edge = None
            await self._writer.reject(state, self._clock(), claim)
            return None
        if claim is None and (drifted := self.fast_path.drifted(state)) is not None:
            return drifted
        return await self._reconcile(state, state.spec, queries, claim)

    def serves(self, state: ObjectState) -> bool:
        """Whether no other installation serves this object; records another one, and logs it once."""
        problem = self._cluster.installations.problem(state.operator, state.namespace) or ""
        if problem and problem != state.other_operator:
            self._writer.tell_other_operator(state, problem, self._clock())
        if state.other_operator and not problem:
            LOG.info("%s/%s is taken over: the operator that served it is gone", *state.key)
            self._inventory.resume(state)
        state.other_operator = problem
        return not problem

    async def _reconcile(
        self, state: ObjectState, spec: Spec, queries: MetricQueries, claim: Claim | None
    ) -> PendingWrite | None:
        generation = state.generation
        if state.in_doubt:
            await self._writer.refresh(state)
        observed = await self._observe(state, spec, queries, claim)
        if observed is None:
            return self.fast_path.drifted(state)
        self.fast_path.tell_loads((state,))
        observation, now, seen = observed
        period = spec.options.sync_period
        grid = latest(state.namespace, period, now)
        held_until = None if state.resumed else resumed_at(state.memory, grid, period, now)
        if isinstance(observation.scale, Scale):
            current = observation.scale.spec_replicas
            memory = state.memory
            if not state.resumed:
                state.contest = Contest.resumed(state.status, now)
            if state.contest is not None:
                state.contest.found(current, now)
            state.memory = (
                memory.settled(current, now)
                if held_until is None
                else resume(memory, current, now, spec.behavior, held_until)
            )
            state.resumed, state.uncertain = True, False
        self._note_load(state, spec, observation, now)
        forecast, forecast_or_reason = self._forecast(state, spec, now)
        turn = Record(spec, observation, forecast_or_reason, state.memory, now)
        decided = await self._decided(state, turn)
        at = remembered_at(state.memory, grid, period, now)
        if held_until is not None:  # not before the assumed instant: a small difference would cause a status write
            at = max(at, held_until)
        decision = replace(decided, at=at)
        self._writer.decisions.note_point(state, turn, decision)
        state.next_edge = None if decision.next_edge is None else decision.next_edge.at
        state.quiet = (generation, quiet_until(spec, state.next_edge, now))
        await self._check_conflicts(state, spec, generation, now)
        target = state.target
        if target is None:
            return None  # an edit made the spec unreadable meanwhile; the edit causes its own reconciliation
        owner_problem = self._cluster.owners.problem(state, self._inventory.rivals_on(target))
        budget_used = None
        is_current = state.generation == generation and self._inventory.items.get(state.key) is state
        if forecast is not None and owner_problem is None and spec.mode is Mode.ACTIVE and is_current:
            series = Series(state.namespace, state.name, forecast.metric)
            self.budgets.count(series, spec, observation, state.memory, decision, now)
            budget_used = self.budgets.used_permille(series)
        thrift = forecast_or_reason.budget_level if isinstance(forecast_or_reason, Forecast) else 0
        is_preview = spec.mode is Mode.PREVIEW
        state.newest = Newest(decision, forecast, budget_used, thrift, owner_problem, is_preview)
        state.shortage.note(observation, decision, now)
        return PendingWrite(
            state,
            generation,
            turn,
            decision,
            owner_problem,
            forecast=forecast,
            budget_used=budget_used,
            seen=seen,
            claim=claim,
        )

    async def _decided(self, state: ObjectState, turn: Record) -> Decision:
        given = (turn.spec, turn.observation, turn.forecast, turn.memory, turn.now)
        try:
            return await _computed(self._decide, *given, in_thread=takes_long(state, turn.spec, turn.now))
        except Exception:
            # One line with all inputs: `cronhpa replay` decides them again, and a copy is a regression test.
            LOG.exception("this cannot be decided: %s", encode(turn))
            raise

    async def _check_conflicts(self, state: ObjectState, spec: Spec, generation: int, now: Nanoseconds) -> None:
        """Checks for contradicting schedules: once for each generation, after each edge, and daily without an edge."""
        # One period late: other objects may share the edge, and their scale-ups come first.
        if (
            state.checked is None
            or state.checked[0] != generation
            or state.checked[1] + spec.options.sync_period <= now
        ):
            state.conflicts = await _computed(conflicts, spec, now, in_thread=has_heavy_schedules(spec))
            state.checked = (generation, now + DAY if state.next_edge is None else state.next_edge)

    async def _observe(
        self, state: ObjectState, spec: Spec, queries: MetricQueries, claim: Claim | None
    ) -> tuple[Observation, Nanoseconds, Seen | None] | None:
        """
        The observation of an object's target, its instant, and the target with its pods if they are known.

        None if these metrics show that the turn repeats the last one; the turn is done then.
        """
        target = await self._cluster.targets.read(state.namespace, spec.target, fresh=state.uncertain)
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
        blindness = self._cluster.blindness(state.namespace)
        if blindness is not None:
            # With outdated pods the load would be measured over the wrong number of pods.
            now = self._clock()
            return observe(spec, scale, pods, [blindness] * len(spec.metrics), now), now, None
        measured_object = MeasuredObject(spec.namespace, state.name, spec.target, pods, spec.options.sync_period)
        asked = (queries.measure(metric, measured_object, scale.selector) for metric in spec.metrics)
        if len(spec.metrics) == 1 or all(isinstance(metric, ResourceMetric) for metric in spec.metrics):
            # At most one answer is outstanding, the shared LIST: tasks would only add overhead.
            measured = [await measurement for measurement in asked]
        else:
            measured = list(await asyncio.gather(*asked))
        if claim is None and self.fast_path.take_measured(state, spec, measured):
            return None
        now = self._clock()
        unseen = self._unseen(state, spec, scale, pods, now)
        observation = observe(spec, scale, pods, measured, now, unseen=unseen)
        self._compare_ready(state, target, pods, observation)
        await self._compare_replicas(state, spec, scale, pods)
        return observation, now, Seen(target, match)

    def _compare_ready(
        self, state: ObjectState, target: ScaleTarget, pods: Sequence[Pod], observation: Observation
    ) -> None:
        """
        Lists the pods again if the Ready pods seen here have differed from the target's status for a while.

        A watch that lost events leaves pods that are gone, or that never become Ready: they count as idle pods and hold
        back a scale-up. Foreign pods with the same labels are no reason to list again if every pod counts.
        """
        counts = [reading for reading in observation.readings if not isinstance(reading, ScalarReading)]
        is_whole = all(isinstance(reading, PodCounts) and not reading.missing + reading.unready for reading in counts)
        ready = sum(pod.ready == "True" and not pod.deleting for pod in pods)
        now = asyncio.get_running_loop().time()
        if is_whole or target.ready is None or ready == target.ready:
            state.misseen_since = None
        elif state.misseen_since is None:
            state.misseen_since = now
        elif now - state.misseen_since >= _UNSEEN / SECOND:
            self._cluster.distrust(state.namespace)

    async def _compare_replicas(self, state: ObjectState, spec: Spec, scale: Scale, pods: Sequence[Pod]) -> None:
        """
        Reads a target from the API server if for a while more pods are seen than the target's status states.

        A watch that lost a change of the target, or its replacement, leaves the former replicas. If foreign pods have
        the same labels, as those of a canary, each change of their number costs a request.
        """
        seen = surplus(scale.spec_replicas, scale.status_replicas, pods)
        if not is_watched(spec.target) or seen is None or seen == state.surplus:
            state.surplus_since = None
            return
        now = asyncio.get_running_loop().time()
        if state.surplus_since is None:
            state.surplus_since = now
        elif now - state.surplus_since >= _UNSEEN / SECOND:
            state.surplus_since = now
            with suppress(ClusterError):  # the next turn tries again
                if await self._cluster.targets.compare(state.namespace, spec.target, scale):
                    state.surplus = seen

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
        if (
            not is_watched(spec.target)
            or seen >= scale.status_replicas
            or not self._cluster.is_counted(state.namespace)
        ):
            state.unseen_since = None
            return None
        if state.unseen_since is None or now < state.unseen_since:
            state.unseen_since = now
        is_old = now - state.unseen_since >= _UNSEEN
        if is_old:
            self._cluster.distrust(state.namespace)
        return UNSEEN if is_old or seen < scale.spec_replicas else None

    def _note_load(self, state: ObjectState, spec: Spec, observation: Observation, now: Nanoseconds) -> None:
        """Queues the observed load for the store."""
        source = forecast_source(spec)
        for metric, reading in zip(spec.metrics, observation.readings, strict=False):
            if source is not None and metric is source and (load := load_of(reading)) is not None:
                self.loads.append(LoadSample(Series(state.namespace, state.name, source.name), now, load))
                return

    def _forecast(
        self, state: ObjectState, spec: Spec, now: Nanoseconds
    ) -> tuple[Forecast | None, Forecast | Absent | None]:
        """(newest forecast, forecast within its budget for the decision)."""
        name = forecast_metric(spec)
        if spec.forecast is None or name is None:
            return None, None
        series = Series(state.namespace, state.name, name)
        latest = self._forecasts.latest(series)
        if isinstance(latest, Absent):
            return None, latest
        return latest, self.budgets.limit(series, spec, latest, now)


async def _computed(work: Callable[..., R], *given: Any, in_thread: bool) -> R:
    return await asyncio.to_thread(work, *given) if in_thread else work(*given)
