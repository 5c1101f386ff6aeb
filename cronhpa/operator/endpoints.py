"""
/healthz, /readyz and /metrics.

Health is progress: a loop that has not ticked for a while is stuck, whatever its process does. A broken watch alone
restarts nothing. Per-object series are written as text by hand: a client library takes 250 ms for 10,000 of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from cronhpa.core.instant import SECOND
from cronhpa.kube.client import Client
from cronhpa.kube.informer import Informer
from cronhpa.operator.cycle import Cycle
from cronhpa.operator.event_recorder import EventRecorder
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.listener import Listener, Route, response
from cronhpa.operator.writer import Writer

STUCK_SECONDS = 30.0
# Every request in a turn has a deadline; a turn this old waits for something that has none.
_TURN_STUCK_SECONDS = 180.0
_METRICS_SECONDS = 1.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Progress(Collector):
    """The loop's counters in Prometheus' terms."""

    def __init__(
        self,
        cycle: Cycle,
        inventory: Inventory,
        writer: Writer,
        recorder: EventRecorder,
        client: Client,
        informers: Callable[[], Sequence[Informer[Any]]],
        listeners: Sequence[Listener],
    ) -> None:
        self._cycle, self._inventory, self._writer = cycle, inventory, writer
        self._events, self._client, self._informers = recorder, client, informers
        self._listeners = listeners

    def collect(self) -> Iterator[Metric]:
        pulse, writer = self._cycle.pulse, self._writer
        yield GaugeMetricFamily("cronhpa_objects", "CronHPA objects known.", len(self._inventory.items))
        yield CounterMetricFamily("cronhpa_turns", "Decisions taken.", pulse.turns)
        yield CounterMetricFamily("cronhpa_turn_errors", "Turns that ended with an error of ours.", pulse.errors)
        yield GaugeMetricFamily(
            "cronhpa_tick_duration_seconds", "Length of the last tick of a namespace.", pulse.lag / SECOND
        )
        yield CounterMetricFamily("cronhpa_pod_metrics_lists", "Lists asked of metrics.k8s.io.", pulse.lists)
        yield CounterMetricFamily("cronhpa_status_writes", "Writes of a status.", writer.status_writes)
        yield CounterMetricFamily("cronhpa_scale_failures", "Scale writes that the API refused.", writer.failed)
        yield CounterMetricFamily("cronhpa_events_dropped", "Events over an object's budget.", self._events.dropped)
        scaled = CounterMetricFamily("cronhpa_scale_writes", "Scale writes done.", labels=["direction"])
        for direction, count in writer.scaled.items():
            scaled.add_metric([direction], count)
        yield scaled
        requests = CounterMetricFamily("cronhpa_api_requests", "Requests to the API server.", labels=["verb"])
        for verb, count in self._client.requests.items():
            requests.add_metric([verb], count)
        yield requests
        silent = GaugeMetricFamily("cronhpa_watch_silent_seconds", "Since a watch heard anything.", labels=["resource"])
        restarts = CounterMetricFamily(
            "cronhpa_watch_restarts", "Times a watch was started again.", labels=["resource"]
        )
        restarts.add_metric(["cronhpas"], self._inventory.restarts)
        for informer in self._informers():
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
        oldest = self._cycle.oldest_turn() / SECOND
        yield GaugeMetricFamily("cronhpa_oldest_turn_seconds", "Length of the longest turn under way.", oldest)


class Endpoints:
    """What is answered at each path; `probes` are those that the kubelet asks, at a port of their own."""

    def __init__(self, progress: Progress, cycle: Cycle, inventory: Inventory, is_ready: Callable[[], bool]) -> None:
        self._cycle, self._inventory, self._is_ready = cycle, inventory, is_ready
        self._registry = CollectorRegistry()
        self._registry.register(progress)
        ProcessCollector(registry=self._registry)
        self._metrics, self._metrics_until = b"", 0.0
        self.probes: dict[str, Route] = {"/healthz": self._healthz, "/readyz": self._readyz}
        self.all: dict[str, Route] = {**self.probes, "/metrics": self._metrics_text}

    def _healthz(self) -> bytes:
        silent = (time.time_ns() - self._cycle.pulse.last_tick) / SECOND
        if silent > STUCK_SECONDS:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, f"no tick for {silent:.0f} s\n")
        turning = self._cycle.oldest_turn() / SECOND
        if turning > _TURN_STUCK_SECONDS:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, f"a turn takes {turning:.0f} s already\n")
        return response(HTTPStatus.OK, "ok\n")

    def _readyz(self) -> bytes:
        if self._is_ready():
            return response(HTTPStatus.OK, "ok\n")
        return response(HTTPStatus.SERVICE_UNAVAILABLE, "the first lists are not there yet\n")

    def _metrics_text(self) -> bytes:
        """Made once a second at most: with many objects it holds the loop, and anybody may ask for it."""
        now = time.monotonic()
        if now >= self._metrics_until:
            body = generate_latest(self._registry) + objects_text(self._inventory).encode()
            self._metrics = response(HTTPStatus.OK, body, _TEXT)
            self._metrics_until = now + _METRICS_SECONDS
        return self._metrics


def objects_text(inventory: Inventory) -> str:
    """The per-object gauges, from the statuses as last written."""
    lines: list[str] = []
    for name, key, about in (
        ("cronhpa_current_replicas", "currentReplicas", "Replicas found."),
        ("cronhpa_desired_replicas", "desiredReplicas", "Replicas decided upon."),
    ):
        lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
        lines += [
            f'{name}{{namespace="{item.namespace}",name="{item.name}"}} {item.status[key]}'
            for item in inventory
            if key in item.status
        ]
    return "\n".join(lines) + "\n"
