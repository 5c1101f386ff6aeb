"""
The loop: who is due, what is seen, what is decided, what is written.

A turn that hangs delays only those that wait for the same answer, and one that fails costs only its own object.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.decide import decide
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, SECOND, Nanoseconds
from cronhpa.core.observation import Absent, Observation, Scale
from cronhpa.core.observe import Measurement, observe
from cronhpa.core.predictive.floor import forecast_metric, forecast_source, load_of
from cronhpa.core.record import Record, encode
from cronhpa.core.scheduled.bounds import quiet_until
from cronhpa.core.scheduled.conflicts import conflicts
from cronhpa.core.spec import (
    CronWindow,
    ExternalMetric,
    Metric,
    Mode,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    UnknownMetric,
)
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.series import LoadSample, Series
from cronhpa.kube.client import Client
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.metrics import MetricReader, PodMetricsByName, list_pod_metrics, samples_of
from cronhpa.kube.pod_indexer import PodIndexer
from cronhpa.kube.scale import Targets, is_watched
from cronhpa.operator.budget_trackers import BudgetTrackers
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.delaying_queue import DelayingQueue, Key, following
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.object_state import ObjectState
from cronhpa.operator.owners import Owners
from cronhpa.operator.writer import PendingWrite, Writer

R = TypeVar("R")

LOG = logging.getLogger(__name__)

# A turn that takes longer is given up, and the next one tries again: every request in it has a shorter deadline.
_TURN_SECONDS = 40
# 50 windows with an edge a minute take 0.1 to 0.3 s to work out, once a day, and the first holidays as long to be
# imported. A few such objects after each other would be seconds in which nobody else has a turn: what is to be worked
# out of more windows than this, or of holidays, is in a thread. The usual handful is not: a thread costs more.
_WINDOWS_AT_ONCE = 16
# A spec that cannot be read waits for its edit; its condition is looked after now and then.
_UNREADABLE_PERIOD = 60 * SECOND
_CLOCK_STEP = 5 * SECOND
# A turn is one of the grid while it decides within this part of its period: 1.5 s for the metrics of one of 15 s.
_LATE = 10
# Loads wait here for the recorder. Where it cannot write, the oldest are dropped.
_LOADS_KEPT = 200_000


class Pulse(Struct):
    """What the loop has done so far: counters for /metrics, instants for /healthz."""

    turns: int = 0
    errors: int = 0
    lists: int = 0
    last_tick: Nanoseconds = 0
    lag: Nanoseconds = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    What is seen of the cluster, and by whom.

    is_seen: whether what there is in a namespace is known already. blindness: why its pods are not known any more.
    """

    client: Client
    discovery: Discovery
    pods: PodIndexer
    targets: Targets
    owners: Owners
    is_seen: Callable[[str], bool]
    blindness: Callable[[str], Absent | None]


class Cycle:
    """
    Objects that are due take their turns, in tasks apart from each other:

    - those of a namespace that need its pod metrics together, after the one LIST;
    - those that need no metric together, at once;
    - each one that asks something of its own alone.

    So what hangs delays only those that asked it. An object is never in two turns at once.
    """

    def __init__(
        self,
        cluster: Cluster,
        inventory: Inventory,
        due: DelayingQueue,
        writer: Writer,
        forecaster: ForecastService,
        clock: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        self.pulse = Pulse()
        self.loads: deque[LoadSample] = deque(maxlen=_LOADS_KEPT)
        self._cluster = cluster
        self._inventory = inventory
        self._queue = due
        self._writer = writer
        self._forecaster = forecaster
        self.budgets = BudgetTrackers()
        self._clock = clock
        self._yield = CooperativeYield()
        self._poked = asyncio.Event()
        self._turning: dict[Key, Nanoseconds] = {}
        self._again: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def poke(self, key: Key) -> None:
        """Makes an object due now; one whose turn is under way, once it is over."""
        if key in self._turning:
            self._again.add(key)
            return
        self._queue.put(key, self._clock())
        self._poked.set()

    def oldest_turn(self) -> Nanoseconds:
        """How long the longest turn under way takes already."""
        return self._clock() - min(self._turning.values()) if self._turning else 0

    async def run(self) -> None:
        """Takes turns until cancelled."""
        while True:
            now = self._clock()
            if now < self.pulse.last_tick - _CLOCK_STEP:
                LOG.warning(
                    "the clock stepped back by %d s: every object is due", (self.pulse.last_tick - now) // SECOND
                )
                self._queue.clear()
                for state in self._inventory:
                    self._queue.put(state.key, now)
            self.pulse.last_tick = now
            for namespace, keys in self._queue.pop(now).items():
                self._begin(namespace, keys, now)
            at = self._queue.next_at()
            wait = 1.0 if at is None else min(1.0, max(0.0, (at - self._clock()) / SECOND))
            # Not wait_for: cancelled in the moment in which it is poked, the one of Python 3.11 forgets that it was.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._poked.wait()
            self._poked.clear()

    async def close(self, seconds: float) -> None:
        """Lets the turns under way end, for so long at most: half a turn is a scale without its status."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _begin(self, namespace: str, keys: Sequence[Key], now: Nanoseconds) -> None:
        if not self._cluster.is_seen(namespace):
            for key in keys:
                self._queue.put(key, now + SECOND)
            return
        self._again.update(key for key in keys if key in self._turning)
        known = (self._inventory.items.get(key) for key in keys if key not in self._turning)
        items = [state for state in known if state is not None]
        for state in items:
            self._turning[state.key] = now
        answers = Answers(self._list(namespace), MetricReader(self._cluster.client, self._cluster.discovery))
        groups: dict[Need, list[ObjectState]] = defaultdict(list)
        for state in items:
            groups[need(state, now)].append(state)
        for state in groups.pop(Need.OTHERS, ()):
            self._spawn(self._take_turns([state], answers), namespace)
        for group in groups.values():
            self._spawn(self._take_turns(group, answers), namespace)

    def _spawn(self, turns: Coroutine[Any, Any, None], namespace: str) -> None:
        task = asyncio.create_task(turns, name=f"turns in {namespace}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _list(self, namespace: str) -> Callable[[], Awaitable[PodMetricsByName | Absent]]:
        """The LIST of a namespace's pod metrics: asked when it is first needed, and once."""
        asked: list[asyncio.Task[PodMetricsByName | Absent]] = []

        async def ask() -> PodMetricsByName | Absent:
            if not asked:
                self.pulse.lists += 1
                asked.append(asyncio.create_task(list_pod_metrics(self._cluster.client, namespace)))
            return await asyncio.shield(asked[0])

        return ask

    async def _take_turns(self, items: Sequence[ObjectState], answers: Answers) -> None:
        begun = self._clock()
        batch = []
        for state in items:
            await self._yield.take()
            pending = await self._judge(state, answers)
            if pending is None:
                self._end(state)
            else:
                batch.append(pending)
        await self._writer.flush(batch, self._end)
        self.pulse.lag = max(self._clock() - begun, 0)

    def _end(self, state: ObjectState) -> None:
        """An object's turn is over: it is due again one period later, at its next edge, or at once where it changed."""
        self.pulse.turns += 1
        self._turning.pop(state.key, None)
        poked = state.key in self._again
        self._again.discard(state.key)
        if self._inventory.items.get(state.key) is None:
            return
        now = self._clock()
        period = state.spec.options.sync_period if state.spec is not None else _UNREADABLE_PERIOD
        at = now if poked else following(state.namespace, period, now)
        if state.next_edge is not None:
            # An edge that passed while the turn was under way has not been seen yet.
            at = min(at, max(now, state.next_edge))
        self._queue.put(state.key, at)
        self._poked.set()

    async def _judge(self, state: ObjectState, answers: Answers) -> PendingWrite | None:
        """The decision on one object; None where there is nothing to decide. A turn that fails ends here."""
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                if state.spec is None:
                    # Its edges went with its schedules: one that has passed would bring turn after turn.
                    state.next_edge = None
                    await self._writer.reject(state, self._clock())
                    return None
                return await self._decide(state, state.spec, answers)
        except TimeoutError:
            LOG.warning("the turn of %s/%s took longer than %d s and is given up", *state.key, _TURN_SECONDS)
        except Exception:
            LOG.exception("the turn of %s/%s failed", *state.key)
        self.pulse.errors += 1
        if state.next_edge is not None and state.next_edge <= self._clock():
            state.next_edge = None  # it brought this turn; the next period tries again
        return None

    async def _decide(self, state: ObjectState, spec: Spec, answers: Answers) -> PendingWrite | None:
        generation = state.generation
        if state.in_doubt:
            await self._writer.refresh(state)
        observation, now = await self._observe(state, spec, answers)
        if isinstance(observation.scale, Scale):
            current = observation.scale.spec_replicas
            state.memory = state.memory.settled(current, now) if state.resumed else state.memory.resumed(current, now)
            state.resumed, state.uncertain = True, False
        self._remember_load(state, spec, observation, now)
        known, forecast = self._forecast(state, spec, now)
        try:
            decided = await _worked_out(
                decide, spec, observation, forecast, state.memory, now, apart=_takes_long(state, spec, now)
            )
        except Exception:
            # A record is a regression test by copying it: what was to be decided upon, in one line.
            LOG.exception("this cannot be decided: %s", encode(Record(spec, observation, forecast, state.memory, now)))
            raise
        decision = replace(decided, at=remembered_at(state, spec.options.sync_period, now))
        state.next_edge = None if decision.next_edge is None else decision.next_edge.at
        state.quiet = (generation, quiet_until(spec, state.next_edge, now))
        # Not in the turn of an edge: others may have the same one, and their scale-ups are waiting for theirs.
        if (
            state.checked is None
            or state.checked[0] != generation
            or state.checked[1] + spec.options.sync_period <= now
        ):
            state.conflicts = await _worked_out(conflicts, spec, now, apart=_is_heavy(spec))
            state.checked = (generation, now + DAY if state.next_edge is None else state.next_edge)
        target = state.target
        if target is None:
            return None  # edited into what cannot be read while this turn waited: the edit brings a turn of its own
        owner_problem = self._cluster.owners.problem(state, self._inventory.on_target(target))
        used = None
        is_current = state.generation == generation and self._inventory.items.get(state.key) is state
        if known is not None and owner_problem is None and spec.mode is Mode.ACTIVE and is_current:
            series = Series(state.namespace, state.name, known.metric)
            self.budgets.count(series, spec, observation, state.memory, decision, now)
            used = self.budgets.used_permille(series)
        return PendingWrite(state, generation, spec, observation, decision, owner_problem, known, used)

    async def _observe(self, state: ObjectState, spec: Spec, answers: Answers) -> tuple[Observation, Nanoseconds]:
        """What is seen of an object's target, and the instant at which it was."""
        target = await self._cluster.targets.read(state.namespace, spec.target, fresh=state.uncertain)
        if isinstance(target, Absent):
            now = self._clock()
            return observe(spec, target, (), (), now), now
        scale, selector = target.scale, target.selector
        if isinstance(selector, Absent):
            now = self._clock()
            unknown: Measurement = selector
            return observe(spec, scale, (), [unknown] * len(spec.metrics), now, selector_problem=selector), now
        pods = self._cluster.pods.matching(spec.namespace, selector)
        blindness = self._cluster.blindness(state.namespace)
        if blindness is not None:
            # Over the pods of a minute ago a load looks like that of few pods, and their count like the target's.
            now = self._clock()
            return observe(spec, scale, pods, [blindness] * len(spec.metrics), now), now
        names = [pod.name for pod in pods]
        if all(isinstance(metric, ResourceMetric) for metric in spec.metrics):
            measured = [await answers.to(metric, spec.namespace, scale.selector, names) for metric in spec.metrics]
        else:
            asked = (answers.to(metric, spec.namespace, scale.selector, names) for metric in spec.metrics)
            measured = list(await asyncio.gather(*asked))
        now = self._clock()
        return observe(spec, scale, pods, measured, now), now

    def _remember_load(self, state: ObjectState, spec: Spec, observation: Observation, now: Nanoseconds) -> None:
        """The load that was seen goes to the recorder."""
        source = forecast_source(spec)
        for metric, reading in zip(spec.metrics, observation.readings, strict=False):
            if source is not None and metric is source and (load := load_of(reading)) is not None:
                self.loads.append(LoadSample(Series(state.namespace, state.name, source.name), now, load))
                return

    def _forecast(
        self, state: ObjectState, spec: Spec, now: Nanoseconds
    ) -> tuple[Forecast | None, Forecast | Absent | None]:
        """The newest forecast, where one is asked for; and what the decision is given, where the budget is spent."""
        name = forecast_metric(spec)
        if spec.forecast is None or name is None:
            return None, None
        series = Series(state.namespace, state.name, name)
        latest = self._forecaster.latest(series)
        if isinstance(latest, Absent):
            return None, latest
        return latest, self.budgets.exhausted(series, spec, now) or latest


class Answers:
    """What the metrics APIs say in one tick of a namespace: the one list of pod metrics, and a reader for the rest."""

    def __init__(self, listed: Callable[[], Awaitable[PodMetricsByName | Absent]], reader: MetricReader) -> None:
        self._listed = listed
        self._reader = reader

    async def to(self, metric: Metric, namespace: str, selector: str, names: Sequence[str]) -> Measurement:
        """What was measured of a metric over the pods of these names."""
        match metric:
            case ResourceMetric():
                listed = await self._listed()
                if isinstance(listed, Absent):
                    return listed
                return samples_of(metric, [listed[name] for name in names if name in listed])
            case PodsMetric():
                return await self._reader.pods(namespace, metric, selector)
            case ObjectMetric():
                return await self._reader.object(namespace, metric)
            case ExternalMetric():
                return await self._reader.external(namespace, metric)
            case UnknownMetric():
                return Absent("UnknownMetric", metric.given)


class Need(Enum):
    """What an object has to wait for."""

    NOTHING = "no metric"
    POD_METRICS = "the namespace's pod metrics"
    OTHERS = "an answer of its own: of a metrics API, of a target that is not watched, of a write in doubt, of a thread"


def need(state: ObjectState, now: Nanoseconds) -> Need:
    if state.spec is None:
        return Need.NOTHING
    if state.uncertain or state.in_doubt or not is_watched(state.spec.target) or _takes_long(state, state.spec, now):
        return Need.OTHERS
    if not state.spec.metrics:
        return Need.NOTHING
    if all(isinstance(metric, ResourceMetric) for metric in state.spec.metrics):
        return Need.POD_METRICS
    return Need.OTHERS


def remembered_at(state: ObjectState, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """
    The instant that what a turn does is remembered by: that of the grid which brought it, where it is of the grid.

    A policy's period is often a whole number of turns, 15 s of 15 s by default. Remembered by the instant at which its
    metrics had come, a step is a millisecond too young for every next turn whose metrics come faster, and that one
    waits a turn more: half of all steps, where the upstream, which rests between turns, never does.
    """
    grid = following(state.namespace, period, now) - period
    is_alone = all(event.at < grid for event in (*state.memory.scale_ups, *state.memory.scale_downs))
    return grid if is_alone and now - grid <= period // _LATE else now


async def _worked_out(work: Callable[..., R], *given: Any, apart: bool) -> R:
    """What the work on an object comes to; apart: in a thread."""
    return await asyncio.to_thread(work, *given) if apart else work(*given)


def _takes_long(state: ObjectState, spec: Spec, now: Nanoseconds) -> bool:
    """Whether a decision may take long enough for others to notice: not while all that it needs was worked out."""
    generation, until = state.quiet
    return _is_heavy(spec) and (generation != state.generation or now >= until)


def _is_heavy(spec: Spec) -> bool:
    return len(spec.schedules) > _WINDOWS_AT_ONCE or any(
        isinstance(state.window, CronWindow)
        and any(days is not None and days.holidays for days in (state.window.exclude, state.window.only))
        for state in spec.schedules
    )
