"""The one place that wires the operator together, and starts and stops it."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cronhpa.core.instant import SECOND, Nanoseconds, parse_duration
from cronhpa.core.observation import Absent
from cronhpa.core.predictive.floor import forecast_metric
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.pool import ProcessPool
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.backfill import Backfills
from cronhpa.history.database import Fault, StoreError
from cronhpa.history.prometheus import Prometheus
from cronhpa.history.series import Series
from cronhpa.history.spend import SPEND_KEPT
from cronhpa.history.store import Store
from cronhpa.kube.client import Client, load_configuration, path_of
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.informer import Informer
from cronhpa.kube.pod_indexer import PodIndexer
from cronhpa.kube.pods import RawPod, excess, pod_from
from cronhpa.kube.scale import Targets
from cronhpa.operator.cycle import Cluster, Cycle
from cronhpa.operator.delaying_queue import DelayingQueue, Key
from cronhpa.operator.endpoints import Endpoints, Progress
from cronhpa.operator.event_recorder import EventRecorder
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.listener import Budget, Listener
from cronhpa.operator.object_state import ObjectState
from cronhpa.operator.open_files import open_files, raise_open_files
from cronhpa.operator.owners import Hpa, Owners
from cronhpa.operator.settings import Settings
from cronhpa.operator.writer import Writer

LOG = logging.getLogger(__name__)

_FLUSH_SECONDS = 5.0
_COMPACT_SECONDS = 3600.0
_BACKFILL_SECONDS = 10.0
# Between two looks at who is to be fitted.
_STUDY_SECONDS = 5.0
# The loop is given back after so many: a millisecond or so.
_SUBJECTS_PER_BREATH = 500
_SYNC_SECONDS = 60.0
# Below the 30 s after which a pod is killed.
_GRACE_SECONDS = 15.0
_EVENTS_SECONDS = 3.0


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT, or until a part that must never end does."""
    raise_open_files()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    configuration = load_configuration(settings.kubeconfig, settings.context)
    async with Client(configuration) as client:
        await Operator(settings, client).run(stop)


class Operator:
    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._queue = DelayingQueue()
        self._pods = PodIndexer()
        # Pods that are too large to be read: each is told once.
        self._unread: set[Key] = set()
        self._owners = Owners()
        self._inventory = Inventory(settings.controller_options, self._on_object, self._on_gone)
        discovery = Discovery(client)
        self._targets = Targets(client, discovery, self._on_target, settings.namespace_names)
        self._events = EventRecorder(client)
        self._writer = Writer(client, self._targets, self._events, self._inventory)
        self._forecaster = ForecastService(
            settings.store,
            workers=ProcessPool(settings.forecast_workers),
            cluster=settings.dask,
            share_percent=settings.learning_share_percent,
            on_first=self._on_first_forecast,
        )
        self._store: Store | None = None
        self._history_problem = ""
        cluster = Cluster(client, discovery, self._pods, self._targets, self._owners, self._is_seen, self._blindness)
        self._cycle = Cycle(cluster, self._inventory, self._queue, self._writer, self._forecaster)
        # By namespace; by "" where one informer is of all.
        self._informers: dict[str, tuple[Informer[RawPod], Informer[Hpa]]] = {}
        for namespace in settings.namespace_names or ("",):
            scope = ("namespaces", namespace) if namespace else ()
            hpas = path_of("apis", "autoscaling", "v2", *scope, "horizontalpodautoscalers")
            self._informers[namespace] = (
                Informer(client, path_of("api", "v1", *scope, "pods"), RawPod, self._on_pod, keep=False),
                Informer(client, hpas, Hpa, self._on_hpa, keep=False),
            )

    async def run(self, stop: asyncio.Event) -> None:
        listeners = self._listen()
        tasks: list[asyncio.Task[None]] = [
            asyncio.create_task(informer.run(), name=f"watch {informer.path}")
            for informers in self._informers.values()
            for informer in informers
        ]
        tasks += [asyncio.create_task(each.run(), name=f"port {each.address[1]}") for each in listeners]
        namespaces = self._settings.namespace_names
        tasks.append(asyncio.create_task(self._inventory.sweep(self._client, namespaces), name="sweep"))
        tasks.append(asyncio.create_task(self._inventory.watch(self._client.configuration, namespaces), name="kopf"))
        tasks.append(asyncio.create_task(self._supervised(self._keep_history), name="history"))
        tasks.append(asyncio.create_task(self._supervised(self._keep_fits), name="fits"))
        tasks.append(asyncio.create_task(self._supervised(self._keep_forecasts), name="forecasts"))
        if self._settings.prometheus_url is not None:
            tasks.append(asyncio.create_task(self._supervised(self._keep_backfilled), name="backfill"))
        tasks.append(asyncio.create_task(self._events.run(), name="events"))
        tasks.append(asyncio.create_task(self._act(), name="turns"))
        ended = asyncio.create_task(_wait_for(stop), name="stop")
        try:
            await asyncio.wait((ended, *tasks), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    raise task.exception() or AssertionError
        finally:
            # First no new turns, then the end of those under way and of their events, and last all the rest.
            turns = tasks.pop()
            turns.cancel()
            await asyncio.gather(turns, return_exceptions=True)
            await self._cycle.close(_GRACE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVENTS_SECONDS):
                    await self._events.flushed()
            await self._flush_loads()
            for task in (ended, *tasks):
                task.cancel()
            await asyncio.gather(ended, *tasks, return_exceptions=True)
            await self._targets.close()
            await self._forecaster.close()
            LOG.info("stopped")

    async def _act(self) -> None:
        """Turns begin when the first lists are there: a pod that is not seen yet must not count as gone."""
        started = time.monotonic()
        while not self._is_ready():
            self._cycle.pulse.last_tick = time.time_ns()
            await asyncio.sleep(0.05)
            if time.monotonic() - started > _SYNC_SECONDS:
                LOG.warning("the first lists are still not there after %d s", _SYNC_SECONDS)
                started = time.monotonic()
        # What is there at the start stays: the collector need not look at it again at every turn. A higher threshold
        # saves a little more CPU and lets kopf's copies of the first statuses pile up to 200 MB.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        LOG.info("ready: %d CronHPA objects, %d pods", len(self._inventory.items), self._pods.count())
        await self._cycle.run()

    def _is_ready(self) -> bool:
        """Where some namespaces cannot be read, the others are not kept waiting."""
        return self._inventory.seen.is_set() and any(self._is_seen(namespace) for namespace in self._informers)

    def _is_seen(self, namespace: str) -> bool:
        """Whether the pods and HorizontalPodAutoscalers of a namespace are known."""
        informers = self._informers.get(namespace) or self._informers.get("")
        return informers is not None and all(informer.synced.is_set() for informer in informers)

    def _blindness(self, namespace: str) -> Absent | None:
        """Why the pods of a namespace are not known any more; None while they are."""
        informers = self._informers.get(namespace) or self._informers.get("")
        if informers is None or informers[0].is_current:
            return None
        # Without a number of seconds: words that change at every turn would be a status write at every turn.
        return Absent("PodsUnknown", f"the pods cannot be listed or watched any more: {informers[0].problem}")

    def _all_informers(self) -> list[Informer[Any]]:
        return [
            *(informer for informers in self._informers.values() for informer in informers),
            *self._targets.informers,
        ]

    def _listen(self) -> list[Listener]:
        """One port for Prometheus, one for the kubelet, each with a budget: who holds one cannot take the other."""
        settings, listeners = self._settings, list[Listener]()
        progress = Progress(
            self._cycle, self._inventory, self._writer, self._events, self._client, self._all_informers, listeners
        )
        endpoints = Endpoints(progress, self._cycle, self._inventory, self._is_ready)
        budget = Budget.within(open_files())
        for port, routes in ((settings.listen_port, endpoints.all), (settings.probe_port, endpoints.probes)):
            listeners.append(Listener(settings.listen_host, port, routes, budget))
            LOG.info("serving %s on %s:%s", ", ".join(routes), *listeners[-1].address)
        return listeners

    async def _supervised(self, work: Callable[[], Awaitable[None]]) -> None:
        """Learning is a side job: whatever happens to it, decisions go on."""
        while True:
            try:
                await work()
            except (OSError, StoreError) as error:
                LOG.warning("history in %s: %s", self._settings.store, error)
            except Exception:
                LOG.exception("learning failed; it is started again")
            await asyncio.sleep(60)

    async def _keep_history(self) -> None:
        store = await asyncio.to_thread(Store, self._settings.store)
        if self._store is None:
            self._cycle.budgets.load(await asyncio.to_thread(store.spend.since, time.time_ns() - SPEND_KEPT))
        self._store = store
        file = _identity(self._settings.store)
        compacted = time.monotonic()
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            if _identity(self._settings.store) != file:
                # An open connection goes on writing to a file that has no name any more, and workers read another.
                raise StoreError("the file was removed or replaced while it was open; it is opened anew in a minute")
            await self._flush_loads()
            if time.monotonic() - compacted > _COMPACT_SECONDS:
                compacted = time.monotonic()
                await asyncio.to_thread(store.compact, time.time_ns())

    async def _keep_backfilled(self) -> None:
        """Takes the past of each object from Prometheus: once for each, and again after a restart."""
        settings = self._settings
        assert settings.prometheus_url is not None
        async with Prometheus(
            settings.prometheus_url, settings.prometheus_queries, settings.prometheus_token_file
        ) as prometheus:
            backfills = Backfills(prometheus)
            while True:
                await asyncio.sleep(_BACKFILL_SECONDS)
                wanted = [subject for state in self._inventory if (subject := subject_of(state)) is not None]
                if self._store is not None:
                    targets = ((each.series, each.spec.target) for each in wanted)
                    await backfills.run_round(self._store.loads, targets, time.time_ns)

    async def _flush_loads(self) -> None:
        """What was seen and spent goes to the store; where it cannot be written, what was seen is lost."""
        if self._store is None:
            return
        batch, spend = list(self._cycle.loads), self._cycle.budgets.drain()
        self._cycle.loads.clear()
        recorded = await asyncio.to_thread(self._store.loads.record, batch) if batch else None
        fault = await asyncio.to_thread(self._store.spend.add, spend) if spend else None
        if fault is not None:
            self._cycle.budgets.restore(spend)
        problem = recorded if isinstance(recorded, Fault) else fault
        told, self._history_problem = self._history_problem, "" if problem is None else problem.message
        # Once, not every five seconds for as long as a disk is full.
        if problem is not None and problem.message != told:
            LOG.warning("history in %s: %s", self._settings.store, problem.message)

    async def _keep_forecasts(self) -> None:
        interval = parse_duration(self._settings.forecast_interval) / SECOND
        await self._keep_learning(self._forecaster.refresh, interval)

    async def _keep_fits(self) -> None:
        await self._keep_learning(self._forecaster.study, _STUDY_SECONDS)

    async def _keep_learning(
        self, work: Callable[[Iterable[ForecastTarget], Nanoseconds], Awaitable[None]], interval: float
    ) -> None:
        told: tuple[str, ...] = ()
        while True:
            subjects: list[ForecastTarget] = []
            for count, state in enumerate(list(self._inventory)):
                subject = subject_of(state)
                if subject is not None:
                    subjects.append(subject)
                if count % _SUBJECTS_PER_BREATH == 0:
                    await asyncio.sleep(0)
            if subjects:
                await work(subjects, time.time_ns())
            for problem in self._forecaster.problems:
                if problem not in told:
                    LOG.warning("forecasts: %s", problem)
            told = self._forecaster.problems
            await asyncio.sleep(interval if subjects else min(interval, 2.0))

    def _on_first_forecast(self, series: Series) -> None:
        """A first forecast is worth a turn at once; a newer one waits, for rates count turns."""
        self._cycle.poke((series.namespace, series.name))

    def _on_object(self, key: Key) -> None:
        state = self._inventory.items[key]
        subject = subject_of(state)
        if state.forecast is not None and (subject is None or subject.series != state.forecast):
            self._forget_series(state.forecast)
        state.forecast = None if subject is None else subject.series
        self._cycle.poke(key)

    def _on_gone(self, state: ObjectState) -> None:
        self._queue.drop(state.key)
        self._events.forget(state)
        if state.forecast is not None:
            self._forget_series(state.forecast)

    def _forget_series(self, series: Series) -> None:
        self._cycle.budgets.forget(series)
        self._forecaster.forget(series)

    def _on_target(self, namespace: str, group: str, kind: str, name: str) -> None:
        for state in self._inventory.on_target((namespace, group, kind, name)):
            self._cycle.poke(state.key)

    def _on_hpa(self, namespace: str, name: str, hpa: Hpa | None) -> None:
        for target in self._owners.note_hpa(namespace, name, hpa):
            for state in self._inventory.on_target(target):
                self._cycle.poke(state.key)

    def _on_pod(self, namespace: str, name: str, raw: RawPod | None) -> None:
        problem = None if raw is None else excess(raw)
        if problem is not None and (namespace, name) not in self._unread:
            LOG.warning("pod %s/%s is not counted: it has %s", namespace, name, problem)
            self._unread.add((namespace, name))
        if problem is None:
            self._unread.discard((namespace, name))
        if raw is None or problem is not None:
            self._pods.drop(namespace, name)
        else:
            self._pods.put(namespace, raw.metadata.labels or {}, pod_from(raw))


def subject_of(state: ObjectState) -> ForecastTarget | None:
    """What a forecast for an object is made of; None where it asks for none."""
    if state.spec is None or state.spec.forecast is None or (name := forecast_metric(state.spec)) is None:
        return None
    memory = state.memory
    return ForecastTarget(
        Series(state.namespace, state.name, name), state.spec, memory.start_up, memory.request_per_pod.get(name)
    )


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names; None where it names none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


async def _wait_for(stop: asyncio.Event) -> None:
    await stop.wait()


def main(settings: Settings) -> int:
    """Runs the operator; the exit code for the shell."""
    with suppress(KeyboardInterrupt):
        asyncio.run(run(settings))
    return 0
