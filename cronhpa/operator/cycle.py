"""
The loop: who is due, what is seen, what is decided, what is written.

Each namespace takes its turns apart from the others, so a slow one delays only itself, and an object whose turn fails
costs only its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from msgspec import Struct

from cronhpa.core.decide import decide
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent, Observation, Scale, Tally
from cronhpa.core.observe import Measurement, observe
from cronhpa.core.predictive.floor import forecast_metric, load_of
from cronhpa.core.record import Record, encode
from cronhpa.core.spec import ExternalMetric, Metric, ObjectMetric, PodsMetric, ResourceMetric, Spec, UnknownMetric
from cronhpa.kube.client import Client
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.membership import PodIndex, select
from cronhpa.kube.metrics import MetricReader, PodMetricsByName, list_pod_metrics, samples_of
from cronhpa.kube.scale import Targets
from cronhpa.learning.forecaster import Forecaster
from cronhpa.learning.store import Sample, Series
from cronhpa.operator.due import Due, Key, following
from cronhpa.operator.inventory import Inventory, Item
from cronhpa.operator.owners import Owners, Target, claims
from cronhpa.operator.writer import Judged, Writer

LOG = logging.getLogger(__name__)

# The loop is given back after so many turns: half a millisecond of work or so.
_BREATH = 25


class Pulse(Struct):
    """What the loop has done so far: counters for /metrics, instants for /healthz."""

    turns: int = 0
    errors: int = 0
    lists: int = 0
    last_tick: Nanoseconds = 0
    lag: Nanoseconds = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is seen of the cluster, and by whom."""

    client: Client
    discovery: Discovery
    pods: PodIndex
    targets: Targets
    owners: Owners


class Cycle:
    def __init__(
        self,
        cluster: Cluster,
        inventory: Inventory,
        due: Due,
        writer: Writer,
        forecaster: Forecaster,
        clock: Callable[[], Nanoseconds] = time.time_ns,
    ) -> None:
        self.pulse = Pulse()
        self.loads: list[Sample] = []
        self._cluster = cluster
        self._inventory = inventory
        self._due = due
        self._writer = writer
        self._forecaster = forecaster
        self._clock = clock
        self._poked = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, set[Key]] = defaultdict(set)

    def poke(self, key: Key) -> None:
        """Makes an object due now."""
        self._due.put(key, self._clock())
        self._poked.set()

    async def run(self) -> None:
        """Takes turns until cancelled."""
        while True:
            now = self._clock()
            self.pulse.last_tick = now
            for namespace, keys in self._due.pop(now).items():
                self._waiting[namespace].update(keys)
            for namespace in [name for name in self._waiting if name not in self._running]:
                keys = list(self._waiting.pop(namespace))
                task = asyncio.create_task(self._take_turns(namespace, keys), name=f"turns of {namespace}")
                self._running[namespace] = task
                task.add_done_callback(partial(self._done, namespace))
            at = self._due.next_at()
            wait = 1.0 if at is None else min(1.0, max(0.0, (at - self._clock()) / SECOND))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._poked.wait(), timeout=wait)
            self._poked.clear()

    def _done(self, namespace: str, _: asyncio.Task[None]) -> None:
        del self._running[namespace]
        if self._waiting.get(namespace):
            self._poked.set()

    async def _take_turns(self, namespace: str, keys: Sequence[Key]) -> None:
        items = [item for key in keys if (item := self._inventory.items.get(key)) is not None]
        try:
            await self._turns_of(namespace, items)
        except Exception:
            self.pulse.errors += 1
            LOG.exception("the turns of namespace %s failed", namespace)
        finally:
            now = self._clock()
            for item in items:
                self._schedule(item, now)

    def _schedule(self, item: Item, now: Nanoseconds) -> None:
        if item.key not in self._inventory.items:
            return
        period = item.spec.tuning.sync_period if item.spec is not None else 60 * SECOND
        at = following(item.namespace, period, now)
        if item.next_edge is not None and now < item.next_edge < at:
            at = item.next_edge
        self._due.put(item.key, at)

    async def _turns_of(self, namespace: str, items: Sequence[Item]) -> None:
        begun = self._clock()
        listed: PodMetricsByName | Absent = {}
        if any(isinstance(metric, ResourceMetric) for item in items if item.spec for metric in item.spec.metrics):
            self.pulse.lists += 1
            listed = await list_pod_metrics(self._cluster.client, namespace)
        answers = Answers(listed, MetricReader(self._cluster.client, self._cluster.discovery))
        owned = claims(item for item in self._inventory if item.namespace == namespace)
        alone: list[Item] = []
        together: list[Item] = []
        for item in items:
            (together if asks_nobody_else(item) else alone).append(item)
        # An object that asks a metrics API of its own waits for that API alone.
        waiting = [asyncio.create_task(self._take_turn(item, answers, owned)) for item in alone]
        batch = []
        for count, item in enumerate(together, start=1):
            judged = await self._judge(item, answers, owned)
            if judged is not None:
                batch.append(judged)
            if count % _BREATH == 0:
                await asyncio.sleep(0)
        await self._writer.flush(batch)
        await asyncio.gather(*waiting)
        self.pulse.turns += len(items)
        self.pulse.lag = self._clock() - begun

    async def _take_turn(self, item: Item, answers: Answers, owned: Mapping[Target, Sequence[Item]]) -> None:
        judged = await self._judge(item, answers, owned)
        if judged is not None:
            await self._writer.flush([judged])

    async def _judge(self, item: Item, answers: Answers, owned: Mapping[Target, Sequence[Item]]) -> Judged | None:
        """The decision on one object; None where there is nothing to decide. A turn that fails ends here."""
        try:
            if item.spec is None:
                await self._writer.reject(item, self._clock())
                return None
            return await self._decide(item, item.spec, answers, self._cluster.owners.problem(item, owned))
        except Exception:
            self.pulse.errors += 1
            LOG.exception("the turn of %s/%s failed", *item.key)
            return None

    async def _decide(self, item: Item, spec: Spec, answers: Answers, owner_problem: str | None) -> Judged:
        observation, now = await self._observe(item, spec, answers)
        if not item.resumed and isinstance(observation.scale, Scale):
            item.memory = item.memory.resumed(observation.scale.spec_replicas, now)
            item.resumed = True
        forecast = self._forecast(item, spec, observation, now)
        try:
            decision = decide(spec, observation, forecast, item.memory, now)
        except Exception:
            # A record is a regression test by copying it: what was to be decided upon, in one line.
            LOG.exception("this cannot be decided: %s", encode(Record(spec, observation, forecast, item.memory, now)))
            raise
        item.next_edge = None if decision.next_edge is None else decision.next_edge.at
        known = forecast if isinstance(forecast, Forecast) else None
        return Judged(item, spec, observation, decision, known, owner_problem)

    async def _observe(self, item: Item, spec: Spec, answers: Answers) -> tuple[Observation, Nanoseconds]:
        """What is seen of an object's target, and the instant at which it was."""
        scale = await self._cluster.targets.read(item.namespace, spec.target)
        if isinstance(scale, Absent):
            now = self._clock()
            return observe(spec, scale, (), (), now), now
        selector = select(scale.selector)
        if isinstance(selector, Absent):
            now = self._clock()
            unknown: Measurement = selector
            return observe(spec, scale, (), [unknown] * len(spec.metrics), now, selector_problem=selector), now
        pods = self._cluster.pods.matching(spec.namespace, selector)
        names = [pod.name for pod in pods]
        measured = [await answers.to(metric, spec.namespace, scale.selector, names) for metric in spec.metrics]
        now = self._clock()
        return observe(spec, scale, pods, measured, now), now

    def _forecast(self, item: Item, spec: Spec, observation: Observation, now: Nanoseconds) -> Forecast | Absent | None:
        """The newest forecast; on the way, the load that was seen goes to the recorder."""
        name = forecast_metric(spec)
        if name is None:
            return None
        series = Series(item.namespace, item.name, name)
        for metric, reading in zip(spec.metrics, observation.readings, strict=False):
            if getattr(metric, "name", None) == name and isinstance(reading, Tally):
                self.loads.append(Sample(series, now, load_of(reading)))
                break
        return self._forecaster.latest(series) if spec.forecast is not None else None


class Answers:
    """What the metrics APIs say in one tick of a namespace: the one list of pod metrics, and a reader for the rest."""

    def __init__(self, listed: PodMetricsByName | Absent, reader: MetricReader) -> None:
        self._listed = listed
        self._reader = reader

    async def to(self, metric: Metric, namespace: str, selector: str, names: Sequence[str]) -> Measurement:
        """What was measured of a metric over the pods of these names."""
        match metric:
            case ResourceMetric():
                if isinstance(self._listed, Absent):
                    return self._listed
                return samples_of(metric, [self._listed[name] for name in names if name in self._listed])
            case PodsMetric():
                return await self._reader.pods(namespace, metric, selector)
            case ObjectMetric():
                return await self._reader.object(namespace, metric)
            case ExternalMetric():
                return await self._reader.external(namespace, metric)
            case UnknownMetric():
                return Absent("UnknownMetric", metric.given)


def asks_nobody_else(item: Item) -> bool:
    """Whether the one list of pod metrics is all that an object needs."""
    return item.spec is None or all(isinstance(metric, ResourceMetric) for metric in item.spec.metrics)
