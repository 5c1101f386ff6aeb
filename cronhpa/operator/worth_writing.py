"""When a status is worth a write: what a person acts on, what a restart needs, and what only drifts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cronhpa.api.turn import Status

# Fields that change with every sample and that nobody acts on: written from time to time.
_DRIFTING = ("currentMetrics", "podStartupSeconds", "forecast")
# Texts that follow from the other fields. One that is new is written like a number that drifts: after an upgrade.
_DERIVED = "columns"
_DRIFTING_MEMORY = ("startUpSeconds", "requestPerPod")


def is_worth_writing(before: Status, after: Status) -> bool:
    """Whether anything changed that a person acts on, or that a restart needs."""
    return _substance(before) != _substance(after)


def has_drifted(before: Status, after: Status) -> bool:
    """Whether anything changed apart from what the passing of time changes."""
    return before != after and _enduring(before) != _enduring(after)


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


def _substance(status: Status) -> dict[str, Any]:
    out = {key: value for key, value in status.items() if key not in {*_DRIFTING, _DERIVED}}
    out["conditions"] = [
        # A forecast's message has a number that always changes; other people's conditions may have no message at all.
        (*map(entry.get, ("type", "status", "reason")), entry["type"] != "ForecastActive" and entry.get("message"))
        for entry in status.get("conditions", [])
    ]
    decision = status.get("decision", {})
    out["decision"] = {
        "decidedBy": decision.get("decidedBy"),
        "steps": [step["rule"] for step in decision.get("steps", [])],
    }
    memory = _lasting(status)
    memory["recommendations"] = [*_holding(memory["recommendations"])]
    for key in (*_DRIFTING_MEMORY, "version"):
        memory.pop(key, None)
    out["memory"] = memory
    return out
