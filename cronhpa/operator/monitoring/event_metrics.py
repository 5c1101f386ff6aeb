"""The families of planned events, read from their statuses at a scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import Metric

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.core.model.quantity import MILLI, parse_milli
from cronhpa.operator.monitoring import families as of
from cronhpa.operator.objects.planned_events import SeenEvent

_NUMBERS = {"objects": of.EVENT_OBJECTS, "pods": of.EVENT_REPLICAS, "short": of.EVENT_SHORT, "ready": of.EVENT_READY}

_ADDED = {"cpu": of.EVENT_CPU, "memory": of.EVENT_MEMORY}


def event_families(events: Iterable[SeenEvent]) -> Iterator[Metric]:
    """The numbers of the newest status of each event; of one without a status there are none."""
    statuses = [(seen.event.key, seen.status) for seen in events if isinstance(seen.status.get("objects"), int)]
    for key, family in _NUMBERS.items():
        yield family.samples([(labels, status[key]) for labels, status in statuses if isinstance(status.get(key), int)])
    for resource, family in _ADDED.items():
        amounts = [(labels, _amount(status.get("addedRequests"), resource)) for labels, status in statuses]
        yield family.samples([(labels, amount) for labels, amount in amounts if amount is not None])
    yield of.EVENT_ACTIVE.samples([(labels, int(status.get("state") == "Active")) for labels, status in statuses])
    edges = [(labels, edge) for labels, status in statuses if (edge := _edge(status.get("nextEdge"))) is not None]
    yield of.EVENT_EDGE.samples([((*labels, state), seconds) for labels, (state, seconds) in edges])


def _amount(amounts: Any, resource: str) -> float | None:
    """An amount of a status; None if it has none that can be read."""
    try:
        return parse_milli(amounts[resource]) / MILLI
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


def _edge(edge: Any) -> tuple[str, float] | None:
    """The state after an edge, and its instant in seconds; None if the status has none that can be read."""
    try:
        return str(edge["state"]), parse_instant(edge["time"]) / SECOND
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
