"""When a status is worth a write: what a person acts on, what a restart needs, and what only drifts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cronhpa.api.turn import Status

# Fields that change with every sample and that nobody acts on: written from time to time.
_DRIFTING = ("currentMetrics", "podStartupSeconds", "forecast")
# Texts that follow from the other fields. One that is new is written like a number that drifts: after an upgrade.
_DERIVED = "columns"
_DRIFTING_MEMORY = ("startUpSeconds", "requestPerPod")


def is_worth_writing(before: Status, after: Status) -> bool:
    """Whether anything changed that a person acts on, or that a restart needs."""
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}.difference(_DRIFTING, (_DERIVED,))
    if not before or changed.difference(_PARTS):
        return True
    return any(_of(_PARTS[key], before) != _PARTS[key](after) for key in changed)


def has_drifted(before: Status, after: Status) -> bool:
    """Whether anything changed apart from what the passing of time changes."""
    return before != after and _of(_enduring, before) != _enduring(after)


def _of(part: Callable[[Status], object], before: Status) -> object:
    """That part of a status; None for one that no operator has written: its memory may be any JSON."""
    try:
        return part(before)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None


def _enduring(status: Status) -> dict[str, Any]:
    return {**status, "memory": _lasting(status), _DERIVED: sorted(status.get(_DERIVED, {}))}


def _lasting(status: Status) -> dict[str, Any]:
    """The memory with its newest recommendation without a time: a restart assumes that it held until then."""
    memory = dict(status.get("memory", {}))
    recommendations = memory.get("recommendations", [])
    memory["recommendations"] = [
        *recommendations[:-1],
        *((newest["replicas"], newest.get("merged")) for newest in recommendations[-1:]),
    ]
    return memory


def _holding(recommendations: list[Any]) -> Iterator[Any]:
    """
    Without those of the metrics under a floor: a count that a later recommendation exceeds holds nothing.

    A restart that does not find it loses a rise at most, which the metrics ask for anew.
    """
    if not recommendations:
        return
    *earlier, newest = recommendations
    yield newest
    highest = newest[0]
    for item in reversed(earlier):
        replicas = item["replicas"]
        if replicas > highest:
            highest = replicas
        elif "metrics" in item:
            continue
        yield item


def _conditions(status: Status) -> object:
    return [
        # A forecast's message has a number that always changes; other people's conditions may have no message at all.
        (*map(entry.get, ("type", "status", "reason")), entry["type"] != "ForecastActive" and entry.get("message"))
        for entry in status.get("conditions", [])
    ]


def _decision(status: Status) -> object:
    decision = status.get("decision", {})
    return decision.get("decidedBy"), [step["rule"] for step in decision.get("steps", [])]


def _memory(status: Status) -> object:
    memory = _lasting(status)
    memory["recommendations"] = [*_holding(memory["recommendations"])]
    for key in (*_DRIFTING_MEMORY, "version"):
        memory.pop(key, None)
    return memory


# What is worth a write of a field of which not everything is.
_PARTS = {"conditions": _conditions, "decision": _decision, "memory": _memory}
