"""The named sources of the operator: which metric is answered by which of them, and which by the metrics APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent, Sample
from cronhpa.core.observe import INVALID_METRIC_SELECTOR
from cronhpa.core.spec import ExternalMetric, PodsMetric
from cronhpa.sources.definition import Definition, PrometheusSource
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.prometheus_value import PrometheusValues
from cronhpa.sources.scraping import PodScrapes

T = TypeVar("T", int, dict[str, Sample])


class MetricSources:
    """
    problem: why the file of sources is not in force, "" while it is. Until a first file is, nothing is a source.

    A name that is a source is answered by it alone; None says that a metric is no source's.
    """

    def __init__(self, clock: Callable[[], Nanoseconds]) -> None:
        self.problem = ""
        self._clock = clock
        # With a digest of the certificates that they were opened with.
        self._definitions: dict[str, tuple[Definition, bytes]] = {}
        self._values: dict[str, PrometheusValues] = {}
        self._scrapes: dict[str, PodScrapes] = {}
        # Replaced ones end their requests; they are closed at the next replacement.
        self._former: list[PrometheusValues | PodScrapes] = []
        self._requests_before: dict[str, int] = {}

    @property
    def requests(self) -> dict[str, int]:
        """Requests sent, by source."""
        now = {name: source.requests for name, source in self._values.items()}
        now |= {name: source.requests for name, source in self._scrapes.items()}
        return {name: now.get(name, 0) + self._requests_before.get(name, 0) for name in {*now, *self._requests_before}}

    def queries_at(self, url: str) -> dict[str, str]:
        """The queries that a Prometheus answers for one object each, by source: its past can be asked by them, too."""
        stated = {name: definition for name, (definition, _) in self._definitions.items()}
        return {
            name: definition.query
            for name, definition in stated.items()
            if isinstance(definition, PrometheusSource) and definition.url == url.rstrip("/") and not definition.join
        }

    async def replace(self, definitions: Mapping[str, Definition], certificates: Mapping[str, bytes]) -> None:
        """These sources and no others from now on. One that is as before keeps its connections and its counters."""
        former, self._former = self._former, []
        wanted = {name: (definition, certificates.get(name, b"")) for name, definition in definitions.items()}
        for name in [name for name, stated in self._definitions.items() if wanted.get(name) != stated]:
            source = self._values.pop(name, None) or self._scrapes.pop(name)
            self._requests_before[name] = self._requests_before.get(name, 0) + source.requests
            self._former.append(source)
        for name, definition in definitions.items():
            if name in self._values or name in self._scrapes:
                continue
            if isinstance(definition, PrometheusSource):
                self._values[name] = PrometheusValues(name, definition, self._clock)
            else:
                self._scrapes[name] = PodScrapes(name, definition, self._clock)
        self._definitions = wanted
        await asyncio.gather(*(source.close() for source in former))

    async def close(self) -> None:
        await asyncio.gather(
            *(source.close() for source in (*self._former, *self._values.values(), *self._scrapes.values()))
        )

    async def external(self, metric: ExternalMetric, measured: MeasuredObject) -> int | Absent | None:
        """The number of an External metric in milli-units; None where it is no source's."""
        if metric.name in self._scrapes:
            return _wrong(metric.name, "it reads pods: ask for it by type: Pods")
        source = self._values.get(metric.name)
        if source is None:
            return None
        if metric.selector is not None:
            return _selected(metric.name)
        return _named(metric.name, await source.value(measured))

    async def pods(self, metric: PodsMetric, measured: MeasuredObject) -> dict[str, Sample] | Absent | None:
        """The samples of a Pods metric by pod name; None where it is no source's."""
        if metric.name in self._values:
            return _wrong(metric.name, "it asks a Prometheus: ask for it by type: External")
        source = self._scrapes.get(metric.name)
        if source is None:
            return None
        if metric.selector is not None:
            return _selected(metric.name)
        return _named(metric.name, await source.samples(measured))

    def explained(self, absent: Absent) -> Absent:
        """Why the metrics API has no such metric, where it may have been meant for a file that is not in force."""
        if not self.problem:
            return absent
        told = f"{absent.message}; and the operator's file of sources cannot be used: its log says why"
        return Absent(absent.reason, told)


def _named(name: str, found: T | Absent) -> T | Absent:
    return Absent(found.reason, f"source {name}: {found.message}") if isinstance(found, Absent) else found


def _wrong(name: str, message: str) -> Absent:
    return Absent("WrongType", f"source {name}: {message}")


def _selected(name: str) -> Absent:
    """No series is chosen by what a tenant writes: a selector that were ignored would look as if it chose."""
    return Absent(
        INVALID_METRIC_SELECTOR,
        f"source {name} takes no selector: which series count is in the operator's file of sources; leave selector out",
    )
