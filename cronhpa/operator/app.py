"""Wires the operator together, starts it and stops it; nothing else."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kubernetes.client import Configuration

from cronhpa.core.decide import decide
from cronhpa.core.model.instant import SECOND, parse_duration
from cronhpa.forecasting.pool import ProcessPool
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.database.address import file_of
from cronhpa.history.database.series import Series
from cronhpa.history.imports.prometheus import Prometheus
from cronhpa.kube.client import Client
from cronhpa.kube.clock import Clock
from cronhpa.kube.contexts import own_namespace
from cronhpa.kube.credentials import load_configuration
from cronhpa.kube.session import USER_AGENT
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.controller import Controller
from cronhpa.operator.leader.replica import ElectedReplica, LeaderElectionConfig, OnlyReplica, Replica
from cronhpa.operator.leader.sharded_replica import ShardedReplica
from cronhpa.operator.learning import Learning, LearningPauses
from cronhpa.operator.monitoring.endpoints import Endpoints
from cronhpa.operator.monitoring.listener import Listener, limits_within
from cronhpa.operator.monitoring.log import follow_signals
from cronhpa.operator.monitoring.object_metrics import ObjectMetrics
from cronhpa.operator.monitoring.operator_metrics import OperatorMetrics
from cronhpa.operator.objects.object_watch import InformerWatch, Watch
from cronhpa.operator.readers.access import AccessReviews
from cronhpa.operator.readers.past_endpoint import BELOW, PastEndpoint
from cronhpa.operator.settings import Settings
from cronhpa.operator.writes.placeholder_settings import NO_PLACEHOLDERS, PlaceholderSettings
from cronhpa.ports.connections import ConnectionLimits
from cronhpa.sources.sources_file import SourcesFile

if TYPE_CHECKING:
    from cronhpa.operator.monitoring.tracing import Tracing
    from cronhpa.page.server import PageServer

LOG = logging.getLogger(__name__)

# Their sum is below the 30 s after which Kubernetes kills a pod.
_GRACE_SECONDS = 15.0
_EVENTS_SECONDS = 3.0
_LOOPBACK = "127.0.0.1"
_TRACE_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
# Includes two reviews, the wait for a reader, and sending a large object over a slow connection.
_PAST_SECONDS = 35.0
# Thresholds of the garbage collector. Higher ones at run time would save little CPU and let garbage grow.
_STARTING = (200_000, 10, 10)
_RUNNING = (10_000, 10, 10)
# The first decision of each object allocates a status and a memory, within the first period or soon after it.
_FIRST_ROUND_SECONDS = 45.0


async def run(settings: Settings, clock: Clock, commit: str) -> None:
    """Runs until SIGTERM or SIGINT, or until an essential part fails."""
    _raise_open_files()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    follow_signals(loop, settings.log_level)
    configuration = load_configuration(settings.kubeconfig, settings.context)
    replica = _replica(settings, configuration, clock)
    tracing = open_tracing(os.environ)
    traces = () if tracing is None else (tracing.requests,)
    async with Client(configuration, fence=replica.fence, agent=_agent(settings), traces=traces) as client:
        await Operator(settings, client, clock, replica=replica, commit=commit, tracing=tracing).run(stop)
    if tracing is not None:
        await tracing.close()


class Operator:
    """
    controller: scales. learning: its side job. listeners: the ports while it runs, the one with the metrics first.
    page: the page while it runs, if there is one.

    watch: of the CronHPA objects; None for the one that the settings name. commit: of the build.
    tracing: of reconciliations, None if no OTLP endpoint is set.
    """

    def __init__(
        self,
        settings: Settings,
        client: Client,
        clock: Clock,
        *,
        watch: Watch | None = None,
        replica: Replica | None = None,
        commit: str = "unknown",
        tracing: Tracing | None = None,
    ) -> None:
        self._commit = commit
        self.replica = replica or OnlyReplica()
        self.listeners: list[Listener] = []
        self.page: PageServer | None = None
        self._settings = settings
        self._client = client
        self._clock = clock
        self._access = AccessReviews(client, clock.monotonic)
        self._forecasts = ForecastService(
            settings.store_address,
            clock.monotonic,
            workers=ProcessPool(settings.forecast_workers),
            cluster=settings.dask,
            share_percent=settings.learning_share_percent,
            on_first=self._on_first_forecast,
            by_whom=_by_whom(settings),
        )
        self.controller = Controller(
            client,
            clock,
            self._forecasts,
            options=settings.controller_options,
            namespaces=settings.namespace_names,
            watch=watch or _watch(settings, client),
            replica=self.replica,
            trace=tracing,
            decide=decide if tracing is None else tracing.traced(decide),
            calendars=settings.calendars,
            check_standing=settings.check_standing,
            placeholders=_placeholders(settings),
        )
        self._sources_file: SourcesFile | None = None
        if settings.sources is not None:
            self._sources_file = SourcesFile(
                settings.sources, self.controller.sources, default_url=settings.prometheus_url
            )
        self.learning = Learning(
            settings.store_address,
            clock,
            self._forecasts,
            objects=self.controller.forecast_objects.values(),
            loads=self.controller.reconciler.loads.unstored,
            budgets=self.controller.reconciler.budgets,
            decisions=self.controller.writer.decisions,
            reports=self.controller.event_statuses.ended,
            open_prometheus=None if settings.prometheus_url is None else self._open_prometheus,
            is_leading=lambda: self.replica.term > 0,
            pauses=LearningPauses(forecast=parse_duration(settings.forecast_interval) / SECOND),
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set. Raises the error that ended an essential part."""
        self.listeners = self._listen()
        self.page = self._open_page()
        election = asyncio.create_task(self.replica.run(), name="election")
        await self.replica.first_look()
        ports = [(f"port {listener.address[1]}", listener.run()) for listener in self.listeners]
        if self.page is not None:
            ports.append(("page", self.page.run()))
        usual = self.controller.usual_loads.keep(self.controller.planned_events, lambda: self.learning.store)
        parts = [*self.controller.watching(), *ports, *self.learning.working(), ("usual loads", usual)]
        if self._sources_file is not None:
            # Before the first decision: a metric with the name of a source must not be queried from the metrics APIs.
            await self._sources_file.look()
            parts.append(("file of sources", self._sources_file.follow()))
        tasks = [election, *(asyncio.create_task(part, name=name) for name, part in parts)]
        scaling = asyncio.create_task(self._scale(), name="control loop")
        stopped = asyncio.create_task(_wait_for(stop), name="stop")
        try:
            await asyncio.wait((stopped, scaling, *tasks), return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, scaling):
                if task.done() and not task.cancelled() and task.exception() is not None:
                    raise task.exception() or AssertionError
        finally:
            # Order: start no more reconciliations, finish the running ones and their events, then end everything else.
            scaling.cancel()
            await asyncio.gather(scaling, return_exceptions=True)
            await self.controller.control_loop.close(_GRACE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVENTS_SECONDS):
                    await self.controller.events.flushed()
            # After the last write: from now on another replica may lead.
            await self.replica.release()
            for state in self.controller.inventory:
                self.controller.reconciler.loads.flush(state)
            await self.learning.flush()
            for task in (stopped, *tasks):
                task.cancel()
            await asyncio.gather(stopped, *tasks, return_exceptions=True)
            await self.controller.targets.close()
            await self.controller.sources.close()
            await self._forecasts.close()
            LOG.info("stopped")

    async def _scale(self) -> None:
        # The first lists create little garbage and many objects that stay.
        gc.set_threshold(*_STARTING)
        await self.controller.handover.synced()
        await self.learning.first_look()
        _freeze()
        asyncio.get_running_loop().call_later(_FIRST_ROUND_SECONDS, _freeze)
        gc.set_threshold(*_RUNNING)
        await self.controller.handover.run(self.learning.read_again)

    def _listen(self) -> list[Listener]:
        """One port with its own limits for each of Prometheus, the kubelet, and readers of past decisions."""
        settings, listeners = self._settings, list[Listener]()
        endpoints = Endpoints(*self._metrics(listeners), self.controller, self._clock)
        limits = limits_within(_open_files())
        for port, routes in ((settings.listen_port, endpoints.all), (settings.probe_port, endpoints.probes)):
            listeners.append(Listener(settings.listen_address, port, routes, limits))
            LOG.info("serving %s on %s:%s", ", ".join(routes), *listeners[-1].address)
        if settings.history_port is not None:
            past = PastEndpoint(settings.store_address, self._access, self._clock.now)
            # All connections through port-forward come from one address.
            limits = ConnectionLimits(limits.connections, limits.connections, life_seconds=_PAST_SECONDS)
            # Tokens come here in clear text: through `kubectl port-forward` they cross no network.
            listeners.append(Listener(_LOOPBACK, settings.history_port, {}, limits, {BELOW: past.answer}))
            LOG.info("serving past decisions on %s:%s", *listeners[-1].address)
        return listeners

    def _metrics(self, listeners: Sequence[Listener]) -> tuple[OperatorMetrics, ObjectMetrics]:
        settings, controller = self._settings, self.controller
        file = file_of(settings.store_address)
        own = OperatorMetrics(controller, self._client, listeners, self._forecasts.work, file, self._commit)
        objects = ObjectMetrics(
            controller.inventory,
            controller.targets.ready,
            namespaces=settings.metrics_namespace_names,
            is_told=settings.metrics_objects,
        )
        return own, objects

    def _open_page(self) -> PageServer | None:
        if self._settings.page_port is None:
            return None
        # Needed only for the page.
        from cronhpa.operator.readers.page_service import InventoryObjects, page_server  # noqa: PLC0415 - see above

        objects = InventoryObjects(self.controller.inventory, self.replica)
        page = page_server(self._settings, objects, self._access, self._clock.now, _open_files())
        if page is not None:
            LOG.info("serving the page on %s:%s", *page.address)
        return page

    def _open_prometheus(self) -> Prometheus:
        settings = self._settings
        assert settings.prometheus_url is not None
        # A source's query also gives the past of its load, unless the settings have another query for that.
        queries = self.controller.sources.queries_at(settings.prometheus_url) | settings.prometheus_queries
        return Prometheus(settings.prometheus_url, queries, settings.prometheus_token_file)

    def _on_first_forecast(self, series: Series) -> None:
        self.controller.on_first_forecast(series)


def _raise_open_files() -> None:
    """Raises the soft limit to the hard one, as Go programs do: it protects programs that use select(2)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS refuses a soft limit of "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _open_files() -> int:
    """How many files may be open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _replica(settings: Settings, configuration: Configuration, clock: Clock) -> Replica:
    lease = settings.lease_name(own_namespace(settings.kubeconfig, settings.context))
    if lease is None:
        return OnlyReplica()
    timing = settings.lease_timing
    # A request that hangs must leave time for another one before the renew deadline.
    seconds = timing.renew_deadline / 2

    def connect() -> Client:
        return Client(configuration, timeout_seconds=seconds, agent=_agent(settings))

    config = LeaderElectionConfig(connect, lease, settings.lease_identity, timing, clock, settings.namespace_names)
    if settings.shards > 1:
        return ShardedReplica(config, ShardScope(settings.shards, by_server=settings.shard_selector))
    return ElectedReplica(config)


def _placeholders(settings: Settings) -> PlaceholderSettings:
    if settings.placeholders == "none":
        return NO_PLACEHOLDERS
    return settings.placeholder_settings(own_namespace(settings.kubeconfig, settings.context))


def _watch(settings: Settings, client: Client) -> Watch:
    """The watch of the CronHPA objects: kopf cannot ask for shards."""
    if settings.object_watch == "informer" or settings.shards > 1:
        return InformerWatch(client)
    from cronhpa.operator.objects.kopf_watch import KopfWatch  # noqa: PLC0415 - slow to import, needed only here

    return KopfWatch(client.configuration)


def _agent(settings: Settings) -> str:
    """The User-Agent, with the identity: replicas share a ServiceAccount, and must differ in the audit log."""
    return f"{USER_AGENT} ({settings.lease_identity})"


def open_tracing(environ: Mapping[str, str]) -> Tracing | None:
    """The tracing that OpenTelemetry's own variables configure; None if none of them names an endpoint."""
    if not any(environ.get(name) for name in _TRACE_ENDPOINTS):
        return None
    try:
        from cronhpa.operator.monitoring.tracing import Tracing  # noqa: PLC0415 - a large import, needed only here
    except ImportError as missing:
        LOG.warning("%s is set and nothing is traced: %s; install cronhpa[tracing]", _TRACE_ENDPOINTS[0], missing)
        return None
    return Tracing()


def _freeze() -> None:
    """Excludes the present objects from garbage collections: they stay."""
    gc.collect()
    gc.freeze()
    _give_back()


def _give_back() -> None:
    """Returns the memory of the first lists to the system, which the C library would keep."""
    with suppress(OSError, AttributeError):  # a C library other than GNU's
        ctypes.CDLL(None).malloc_trim(0)


def _by_whom(settings: Settings) -> str:
    """Why an object has no forecast, if another replica may have one that this replica cannot read."""
    if not settings.leader_elect or file_of(settings.store_address) is None:
        return ""
    return " by this replica, whose history is its own: CRONHPA_STORE names a file"


async def _wait_for(stop: asyncio.Event) -> None:
    await stop.wait()


def main(settings: Settings, clock: Clock, commit: str) -> int:
    """Runs the operator; the exit code for the shell."""
    with suppress(KeyboardInterrupt):
        asyncio.run(run(settings, clock, commit))
    return 0
