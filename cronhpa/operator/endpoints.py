"""
/healthz, /readyz and /metrics.

Health is progress: a control loop without a recent tick is stuck, whatever its process does. A broken watch alone
restarts nothing. Per-object series are written as text by hand: a client library would stop the event loop for long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from cronhpa.core.instant import SECOND
from cronhpa.kube.client import Client
from cronhpa.operator.clock import Clock
from cronhpa.operator.controller import Controller
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.lag import BOUNDS, LagHistogram
from cronhpa.operator.listener import Listener, Route, response
from cronhpa.operator.source_metrics import SourceMetrics

STUCK_SECONDS = 30.0
# Every request of a reconciliation has a deadline; one this old waits for something without a deadline.
_RECONCILE_STUCK_SECONDS = 180.0
# Reads and watches go on all the time. An outage of the API server is no reason to start again; certificates or
# addresses that this process cannot follow are.
_UNANSWERED_SECONDS = 600.0
_METRICS_SECONDS = 1.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Progress(Collector):
    """The counters of the operator as Prometheus metrics."""

    def __init__(self, controller: Controller, client: Client, listeners: Sequence[Listener]) -> None:
        self._controller, self._client, self._listeners = controller, client, listeners

    def collect(self) -> Iterator[Metric]:
        controller = self._controller
        loop, writer = controller.control_loop.metrics, controller.writer
        yield GaugeMetricFamily("cronhpa_leader", "1 on the replica that decides.", int(controller.replica.term > 0))
        yield GaugeMetricFamily(
            "cronhpa_objects_of_other_operators",
            "CronHPA objects that another installation serves.",
            sum(bool(state.other_operator) for state in controller.inventory),
        )
        yield GaugeMetricFamily("cronhpa_objects", "CronHPA objects known.", len(controller.inventory.items))
        yield CounterMetricFamily("cronhpa_turns", "Decisions taken.", loop.reconciles)
        yield CounterMetricFamily("cronhpa_turn_errors", "Turns that ended with an error of ours.", loop.errors)
        yield GaugeMetricFamily(
            "cronhpa_tick_duration_seconds", "Length of the last tick of a namespace.", loop.tick_duration / SECOND
        )
        yield lag_family(loop.lag)
        yield CounterMetricFamily("cronhpa_pod_metrics_lists", "Lists asked of metrics.k8s.io.", loop.lists)
        yield CounterMetricFamily("cronhpa_status_writes", "Writes of a status.", writer.status_writes)
        yield CounterMetricFamily("cronhpa_scale_failures", "Scale writes that the API refused.", writer.failed)
        yield CounterMetricFamily(
            "cronhpa_events_dropped", "Events over an object's budget.", controller.events.dropped
        )
        scaled = CounterMetricFamily("cronhpa_scale_writes", "Scale writes done.", labels=["direction"])
        for direction, count in writer.scaled.items():
            scaled.add_metric([direction], count)
        yield scaled
        requests = CounterMetricFamily("cronhpa_api_requests", "Requests to the API server.", labels=["verb"])
        for verb, count in self._client.requests.items():
            requests.add_metric([verb], count)
        yield requests
        yield GaugeMetricFamily(
            "cronhpa_api_unanswered_seconds", "Since the API server answered a request.", controller.unanswered_seconds
        )
        silent = GaugeMetricFamily("cronhpa_watch_silent_seconds", "Since a watch heard anything.", labels=["resource"])
        restarts = CounterMetricFamily(
            "cronhpa_watch_restarts", "Times a watch was started again.", labels=["resource"]
        )
        restarts.add_metric(["cronhpas"], controller.watch.restarts)
        for informer in controller.informers:
            silent.add_metric([informer.path], informer.silent_seconds)
            restarts.add_metric([informer.path], informer.restarts)
        yield silent
        yield restarts
        dropped = CounterMetricFamily(
            "cronhpa_connections_dropped", "Connections to a port of ours closed without an answer.", labels=["port"]
        )
        for listener in self._listeners:
            dropped.add_metric([str(listener.address[1])], listener.dropped)
        yield dropped
        oldest = controller.control_loop.oldest_reconcile() / SECOND
        decisions = controller.writer.decisions
        yield CounterMetricFamily(
            "cronhpa_decisions_kept", "Changes of decisions written to the store.", decisions.kept
        )
        lost = CounterMetricFamily(
            "cronhpa_decisions_dropped", "Changes and points of decisions not kept.", labels=["cause"]
        )
        for cause, count in decisions.dropped.items():
            lost.add_metric([cause], count)
        yield lost
        yield GaugeMetricFamily("cronhpa_oldest_turn_seconds", "Length of the longest turn under way.", oldest)


class Endpoints:
    """The routes of both ports. all: with /metrics. probes: those of the kubelet's own port."""

    def __init__(self, progress: Progress, controller: Controller, clock: Clock) -> None:
        self._controller, self._clock = controller, clock
        self._registry = CollectorRegistry()
        self._registry.register(progress)
        self._registry.register(SourceMetrics(controller.sources))
        ProcessCollector(registry=self._registry)
        self._metrics, self._metrics_until = b"", -math.inf
        self.probes: dict[str, Route] = {"/healthz": self._healthz, "/readyz": self._readyz}
        self.all: dict[str, Route] = {**self.probes, "/metrics": self._metrics_text}

    def _healthz(self) -> bytes:
        loop = self._controller.control_loop
        silent = (self._clock.now() - loop.metrics.last_tick) / SECOND
        if silent > STUCK_SECONDS:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, f"no tick for {silent:.0f} s\n")
        oldest = loop.oldest_reconcile() / SECOND
        if oldest > _RECONCILE_STUCK_SECONDS:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, f"a turn takes {oldest:.0f} s already\n")
        unanswered = self._controller.unanswered_seconds
        if unanswered > _UNANSWERED_SECONDS:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, f"the API server has not answered for {unanswered:.0f} s\n")
        return response(HTTPStatus.OK, "ok\n")

    def _readyz(self) -> bytes:
        if self._controller.is_ready():
            replica = self._controller.replica
            # A replica that waits is ready too: it would decide at once.
            text = "ok, leading" if replica.term else f"ok, waiting: {replica.holder or 'nobody'} leads"
            return response(HTTPStatus.OK, f"{text}\n")
        return response(HTTPStatus.SERVICE_UNAVAILABLE, "the first lists are not there yet\n")

    def _metrics_text(self) -> bytes:
        """The exposition, computed once a second at most: with many objects it costs time, and anybody may ask."""
        now = self._clock.monotonic()
        if now >= self._metrics_until:
            # From the replica that decides alone: of two answers one would be old.
            objects = objects_text(self._controller.inventory) if self._controller.replica.term else ""
            body = generate_latest(self._registry) + objects.encode()
            self._metrics = response(HTTPStatus.OK, body, _TEXT)
            self._metrics_until = now + _METRICS_SECONDS
        return self._metrics


def lag_family(lag: LagHistogram) -> Metric:
    bounds = (*(f"{bound / SECOND:g}" for bound in BOUNDS), "+Inf")
    return HistogramMetricFamily(
        "cronhpa_decision_lag_seconds",
        "From the instant at which an object was due to its decision.",
        buckets=list(zip(bounds, accumulate(lag.counts), strict=True)),
        sum_value=lag.total / SECOND,
    )


def objects_text(inventory: Inventory) -> str:
    """The per-object gauges, from the last written statuses."""
    lines: list[str] = []
    for name, key, about in (
        ("cronhpa_current_replicas", "currentReplicas", "Replicas found."),
        ("cronhpa_desired_replicas", "desiredReplicas", "Replicas decided upon."),
    ):
        lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
        lines += [
            f'{name}{{namespace="{state.namespace}",name="{state.name}"}} {state.status[key]}'
            for state in inventory
            if key in state.status
        ]
    return "\n".join(lines) + "\n"
