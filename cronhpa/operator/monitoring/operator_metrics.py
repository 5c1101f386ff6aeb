"""The families of the operator itself, read from its counters at a scrape."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from cronhpa.calendars.feeds import CalendarFeeds
from cronhpa.core.model.instant import SECOND
from cronhpa.forecasting.work_counts import WorkCounts
from cronhpa.kube.client import Client
from cronhpa.operator.controller import Controller
from cronhpa.operator.monitoring import families as of
from cronhpa.operator.monitoring.event_metrics import event_families
from cronhpa.operator.monitoring.listener import Listener
from cronhpa.operator.writes.decision_recorder import RELEASE
from cronhpa.sources.metric_sources import MetricSources


class OperatorMetrics(Collector):
    """
    listeners: the ports while they are open. work: counters of the forecasting workers. store: the SQLite file, None
    for a database server.
    """

    def __init__(
        self,
        controller: Controller,
        client: Client,
        listeners: Sequence[Listener],
        work: WorkCounts,
        store: Path | None,
        commit: str,
    ) -> None:
        self._controller, self._client, self._listeners = controller, client, listeners
        self._work, self._store, self._commit = work, store, commit

    def collect(self) -> Iterator[Metric]:
        controller = self._controller
        python = ".".join(str(part) for part in sys.version_info[:3])
        yield of.BUILD_INFO.samples([((RELEASE, self._commit, python), 1)])
        yield of.LEADER.of(int(controller.replica.term > 0))
        yield of.SHARDS.of(controller.handover.shards)
        yield of.SHARDS_SERVED.of(controller.handover.shards_served)
        yield of.OBJECTS.of(len(controller.inventory.items))
        yield of.OBJECTS_OF_OTHERS.of(sum(bool(state.local.other_operator) for state in controller.inventory))
        yield from self._reconciliations()
        yield from self._writes()
        yield from self._api()
        yield from source_families(controller.sources)
        yield from calendar_families(controller.calendars)
        yield from event_families(controller.event_statuses.served() if controller.replica.term else ())
        yield from self._learning()

    def _reconciliations(self) -> Iterator[Metric]:
        control_loop = self._controller.control_loop
        loop = control_loop.metrics
        yield of.RECONCILIATIONS.of(loop.reconciles)
        yield of.RECONCILIATION_ERRORS.of(loop.errors)
        yield of.DECISION_DURATION.histogram(loop.duration)
        yield of.DECISION_LAG.histogram(loop.lag)
        yield of.WRITE_LAG.histogram(loop.write_lag)
        yield of.TICK_DURATION.of(loop.tick_duration / SECOND)
        yield of.OLDEST_RECONCILIATION.of(control_loop.oldest_seconds)
        yield of.POD_METRICS_LISTS.of(self._controller.metric_apis.lists_sent)

    def _writes(self) -> Iterator[Metric]:
        writer = self._controller.writer
        yield of.STATUS_WRITES.of(writer.status_writes)
        yield of.SCALE_WRITES.samples([((direction,), count) for direction, count in writer.scaled.items()])
        yield of.SCALE_FAILURES.of(writer.failed)
        yield of.EVENTS_DROPPED.of(self._controller.events.dropped)
        yield of.DECISIONS_KEPT.of(writer.decisions.kept)
        yield of.DECISIONS_DROPPED.samples([((cause,), count) for cause, count in writer.decisions.dropped.items()])

    def _api(self) -> Iterator[Metric]:
        controller = self._controller
        informers = controller.informers
        yield of.API_REQUESTS.samples([*self._client.requests.items()])
        yield of.API_UNANSWERED.of(controller.unanswered_seconds)
        yield of.WATCH_SILENT.samples([((informer.path,), informer.silent_seconds) for informer in informers])
        yield of.WATCH_UP.samples([((informer.path,), int(informer.is_current)) for informer in informers])
        restarts = [("cronhpas", controller.object_watch.restarts)]
        restarts += [(informer.path, informer.restarts) for informer in informers]
        yield of.WATCH_RESTARTS.samples([((resource,), count) for resource, count in restarts])
        yield of.CONNECTIONS_DROPPED.samples(
            [((str(listener.address[1]),), listener.dropped) for listener in self._listeners]
        )

    def _learning(self) -> Iterator[Metric]:
        work = self._work
        yield of.FITS.of(work.fits)
        yield of.FIT_FAILURES.of(work.fit_failures)
        yield of.FIT_SECONDS.of(work.fit_seconds)
        yield of.FIT_QUEUE.of(work.waiting)
        yield of.FORECASTS.of(work.forecasts)
        yield of.FORECAST_FAILURES.of(work.forecast_failures)
        yield of.FORECAST_SECONDS.of(work.forecast_seconds)
        if self._store is not None:
            yield of.STORE_BYTES.of(_size(self._store))


def source_families(sources: MetricSources) -> Iterator[Metric]:
    """Requests to each source, and whether the file of sources is valid."""
    yield of.SOURCE_REQUESTS.samples([((name,), count) for name, count in sources.requests.items()])
    yield of.SOURCES_BROKEN.of(int(bool(sources.problem)))


def calendar_families(feeds: CalendarFeeds | None) -> Iterator[Metric]:
    """Which calendars are as they are now, when each was read, and whether their file is valid."""
    calendars = {} if feeds is None else feeds.calendars
    up = [((name,), int(one.events is not None and not one.problem)) for name, one in sorted(calendars.items())]
    read_at = {} if feeds is None else feeds.read_at
    yield of.CALENDAR_UP.samples(up)
    yield of.CALENDAR_READ.samples([((name,), at / SECOND) for name, at in sorted(read_at.items())])
    yield of.CALENDARS_BROKEN.of(int(feeds is not None and bool(feeds.problem)))


def _size(store: Path) -> int:
    """The bytes of the file and its write-ahead log; 0 if there is no file."""
    size = 0
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            size += store.with_name(store.name + suffix).stat().st_size
    return size
