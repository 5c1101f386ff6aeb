"""
/healthz, /readyz and /metrics.

Health is progress: a control loop without a recent tick is stuck. A broken watch alone causes no restart.
"""

from __future__ import annotations

import asyncio
import math
from http import HTTPStatus

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector

from cronhpa.core.model.instant import SECOND
from cronhpa.kube.clock import Clock
from cronhpa.operator.controller import Controller
from cronhpa.operator.monitoring.listener import Answer, Route, response
from cronhpa.operator.monitoring.object_metrics import ObjectMetrics
from cronhpa.operator.monitoring.operator_metrics import OperatorMetrics

STUCK_SECONDS = 30.0
# Every request of a reconciliation has a deadline; a reconciliation this old waits for something else.
_RECONCILE_STUCK_SECONDS = 180.0
# Reads and watches go on all the time. An outage of the API server is no reason for a restart; changed certificates or
# addresses that this process does not follow are one.
_UNANSWERED_SECONDS = 600.0
_METRICS_SECONDS = 1.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Endpoints:
    """The routes of both ports. all: with /metrics. probes: those of the kubelet's own port."""

    def __init__(self, progress: OperatorMetrics, objects: ObjectMetrics, controller: Controller, clock: Clock) -> None:
        self._controller, self._clock = controller, clock
        self._objects = objects
        self._rendering = asyncio.Lock()
        self._registry = CollectorRegistry()
        self._registry.register(progress)
        ProcessCollector(registry=self._registry)
        self._metrics: Answer | None = None
        self._metrics_until = -math.inf
        self.probes: dict[str, Route] = {"/healthz": self._healthz, "/readyz": self._readyz}
        self.all: dict[str, Route] = {**self.probes, "/metrics": self._metrics_text}

    def _healthz(self) -> Answer:
        loop = self._controller.control_loop
        tick = loop.metrics.last_tick
        silent = 0.0 if tick is None else (self._clock.now() - tick) / SECOND
        if silent > STUCK_SECONDS:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, f"no tick for {silent:.0f} s\n")
        oldest = loop.oldest_seconds
        if oldest > _RECONCILE_STUCK_SECONDS:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, f"a reconciliation takes {oldest:.0f} s already\n")
        unanswered = self._controller.unanswered_seconds
        if unanswered > _UNANSWERED_SECONDS:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, f"the API server has not answered for {unanswered:.0f} s\n")
        return response(HTTPStatus.OK, "ok\n")

    def _readyz(self) -> Answer:
        handover = self._controller.handover
        if handover.is_ready:
            # A waiting replica is ready, too: it could decide at once.
            return response(HTTPStatus.OK, f"ok, {handover.state}\n")
        return response(HTTPStatus.SERVICE_UNAVAILABLE, "the first lists are not there yet\n")

    async def _metrics_text(self) -> Answer:
        """The exposition, computed at most once a second: with many objects it is expensive."""
        async with self._rendering:
            if self._metrics is None or self._clock.monotonic() >= self._metrics_until:
                # Only from a replica that decides: those of another one, or of a former term, would be outdated.
                decides = self._controller.handover.shards_served > 0
                objects = await self._objects.parts(self._clock.now()) if decides else []
                body = [generate_latest(self._registry), *objects]
                self._metrics = Answer(HTTPStatus.OK, body, _TEXT)
                self._metrics_until = self._clock.monotonic() + _METRICS_SECONDS
                asyncio.get_running_loop().call_later(_METRICS_SECONDS, self._forget_metrics)
            return self._metrics

    def _forget_metrics(self) -> None:
        """Drops the cached exposition, which is large for many objects."""
        self._metrics, self._metrics_until = None, -math.inf
