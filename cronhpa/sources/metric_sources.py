"""The named sources of the operator: which source answers a metric, and which metrics are left to the metrics APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent, Sample
from cronhpa.core.observe import INVALID_METRIC_SELECTOR
from cronhpa.core.spec import ExternalMetric, PodsMetric
from cronhpa.sources.definition import Definition, PodsSource, PrometheusSource
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.page_process import PageProcess
from cronhpa.sources.prometheus_value import PrometheusValues
from cronhpa.sources.scraping import PodScrapes
from cronhpa.sources.url_value import UrlValues

T = TypeVar("T", int, dict[str, Sample])


class MetricSources:
    """
    problem: why the file of sources is not in force, "" while it is. Before the first file there is no source.

    A metric with the name of a source is answered by that source alone. None says that no source serves a metric.
    """

    def __init__(self, clock: Callable[[], Nanoseconds]) -> None:
        self.problem = ""
        self._clock = clock
        # Each with a digest of the certificates that its connections were opened with.
        self._definitions: dict[str, tuple[Definition, bytes]] = {}
        self._values: dict[str, PrometheusValues | UrlValues] = {}
        self._scrapes: dict[str, PodScrapes] = {}
        self._process = PageProcess()
        # Replaced sources, which may end their requests; they are closed at the next replacement.
        self._former: list[PrometheusValues | UrlValues] = []
        self._requests_before: dict[str, int] = {}

    @property
    def requests(self) -> dict[str, int]:
        """Requests sent, by source."""
        now = {name: source.requests for name, source in self._values.items()}
        now |= {name: source.requests for name, source in self._scrapes.items()}
        return {name: now.get(name, 0) + self._requests_before.get(name, 0) for name in {*now, *self._requests_before}}

    def queries_at(self, url: str) -> dict[str, str]:
        """The queries for one object, by source, of the Prometheus at a URL: the past can be queried by them, too."""
        stated = {name: definition for name, (definition, _) in self._definitions.items()}
        return {
            name: definition.query
            for name, definition in stated.items()
            if isinstance(definition, PrometheusSource) and definition.url == url.rstrip("/") and not definition.join
        }

    async def replace(self, definitions: Mapping[str, Definition], certificates: Mapping[str, bytes]) -> None:
        """Replaces all sources by these. An unchanged source keeps its connections and its counters."""
        former, self._former = self._former, []
        wanted = {name: (definition, certificates.get(name, b"")) for name, definition in definitions.items()}
        for name in [name for name, stated in self._definitions.items() if wanted.get(name) != stated]:
            server = self._values.pop(name, None)
            if server is not None:
                self._former.append(server)
            requests = (server or self._scrapes.pop(name)).requests
            self._requests_before[name] = self._requests_before.get(name, 0) + requests
        for name, definition in definitions.items():
            if name in self._values or name in self._scrapes:
                continue
            if isinstance(definition, PrometheusSource):
                self._values[name] = PrometheusValues(name, definition, self._clock)
            elif isinstance(definition, PodsSource):
                self._scrapes[name] = PodScrapes(name, definition, self._clock, self._process)
            else:
                self._values[name] = UrlValues(name, definition, self._clock)
        self._definitions = wanted
        await asyncio.gather(*(source.close() for source in former))

    async def close(self) -> None:
        await asyncio.gather(
            self._process.close(), *(source.close() for source in (*self._former, *self._values.values()))
        )

    async def external(self, metric: ExternalMetric, measured: MeasuredObject) -> int | Absent | None:
        """The number of an External metric in milli-units; None for a metric that no source serves."""
        if metric.name in self._scrapes:
            return _wrong(metric.name, "it reads pods: ask for it by type: Pods")
        source = self._values.get(metric.name)
        if source is None:
            return None
        if metric.selector is not None:
            return _selected(metric.name)
        return _named(metric.name, await source.value(measured))

    async def pods(self, metric: PodsMetric, measured: MeasuredObject) -> dict[str, Sample] | Absent | None:
        """The samples of a Pods metric by pod name; None for a metric that no source serves."""
        if metric.name in self._values:
            server = "a URL" if isinstance(self._values[metric.name], UrlValues) else "a Prometheus"
            return _wrong(metric.name, f"it asks {server}: ask for it by type: External")
        source = self._scrapes.get(metric.name)
        if source is None:
            return None
        if metric.selector is not None:
            return _selected(metric.name)
        return _named(metric.name, await source.samples(measured))

    def explained(self, absent: Absent) -> Absent:
        """The reason for an absent metric; while the file of sources is unusable, a sentence that says so is added."""
        if not self.problem:
            return absent
        told = f"{absent.message}; and the operator's file of sources cannot be used: its log says why"
        return Absent(absent.reason, told)


def _named(name: str, value: T | Absent) -> T | Absent:
    return Absent(value.reason, f"source {name}: {value.message}") if isinstance(value, Absent) else value


def _wrong(name: str, message: str) -> Absent:
    return Absent("WrongType", f"source {name}: {message}")


def _selected(name: str) -> Absent:
    """A tenant's text chooses no series; a selector that was ignored silently would look as if it did."""
    return Absent(
        INVALID_METRIC_SELECTOR,
        f"source {name} takes no selector: which series count is in the operator's file of sources; leave selector out",
    )
