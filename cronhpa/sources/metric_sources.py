"""The named sources of the operator: which source answers a metric, and which metrics are left to the metrics APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct

from cronhpa.core.metrics.observe import INVALID_METRIC_SELECTOR, Measurement
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ExternalMetric, PodsMetric
from cronhpa.sources.page_process import PageProcess
from cronhpa.sources.source import Definition, MeasuredObject, MetricSource, SourceContext


class _InForce(Struct, frozen=True):
    definition: Definition
    digest: bytes
    """A digest of the files that its connections were opened with."""
    source: MetricSource


class MetricSources:
    """A metric with the name of a source is answered by that source alone. Before the first file there is no source."""

    def __init__(self, clock: Callable[[], Nanoseconds]) -> None:
        self.problem = ""
        """Why the file of sources is not in force, "" while it is."""
        self._context = SourceContext(clock, PageProcess())
        self._sources: dict[str, _InForce] = {}
        # Replaced sources, which may end their requests; they are closed at the next replacement.
        self._former: list[MetricSource] = []
        self._requests_before: dict[str, int] = {}

    @property
    def requests(self) -> dict[str, int]:
        """Requests sent, by source."""
        now = {name: in_force.source.requests for name, in_force in self._sources.items()}
        return {name: now.get(name, 0) + self._requests_before.get(name, 0) for name in {*now, *self._requests_before}}

    def queries_at(self, url: str) -> dict[str, str]:
        """The queries for one object, by source, of the Prometheus at a URL: the past can be queried by them, too."""
        queries = {name: in_force.definition.past_query(url) for name, in_force in self._sources.items()}
        return {name: query for name, query in queries.items() if query is not None}

    async def replace(self, definitions: Mapping[str, Definition], digests: Mapping[str, bytes]) -> None:
        """Replaces all sources by these. An unchanged source keeps its connections and its counters."""
        former, self._former = self._former, []
        sources: dict[str, _InForce] = {}
        for name, definition in definitions.items():
            digest = digests.get(name, b"")
            present = self._sources.get(name)
            if present is not None and (present.definition, present.digest) == (definition, digest):
                sources[name] = present
            else:
                sources[name] = _InForce(definition, digest, definition.open(name, self._context))
        for name, replaced in self._sources.items():
            if sources.get(name) is not replaced:
                self._former.append(replaced.source)
                self._requests_before[name] = self._requests_before.get(name, 0) + replaced.source.requests
        self._sources = sources
        await asyncio.gather(*(source.close() for source in former))

    async def close(self) -> None:
        present = [in_force.source for in_force in self._sources.values()]
        await asyncio.gather(
            self._context.page_process.close(), *(source.close() for source in (*self._former, *present))
        )

    async def value(self, metric: ExternalMetric | PodsMetric, measured: MeasuredObject) -> Measurement | None:
        """The measurement of a metric; None for a metric that no source serves."""
        in_force = self._sources.get(metric.name)
        if in_force is None:
            return None
        answers = in_force.definition.metric_type
        if answers != ("Pods" if isinstance(metric, PodsMetric) else "External"):
            message = f"it {in_force.definition.action}: ask for it by type: {answers}"
            return Absent("WrongType", f"source {metric.name}: {message}")
        if metric.selector is not None:
            return _selected(metric.name)
        value = await in_force.source.value(measured)
        return Absent(value.reason, f"source {metric.name}: {value.message}") if isinstance(value, Absent) else value

    def explained(self, absent: Absent) -> Absent:
        """The reason for an absent metric; while the file of sources is unusable, a sentence that says so is added."""
        if not self.problem:
            return absent
        message = f"{absent.message}; and the operator's file of sources cannot be used: its log says why"
        return Absent(absent.reason, message)


def _selected(name: str) -> Absent:
    """A tenant's text chooses no series; a selector that was ignored silently would look as if it did."""
    return Absent(
        INVALID_METRIC_SELECTOR,
        f"source {name} takes no selector: which series count is in the operator's file of sources; leave selector out",
    )
