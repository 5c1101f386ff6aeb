"""Which changes of a status are worth a write: those that matter to a person or a restart, not mere drift."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cronhpa.api.turn import Status

# Fields that change with every sample and do not matter to a person at once: written from time to time.
_DRIFTING = ("currentMetrics", "podStartupSeconds", "forecast")
# Texts derived from other fields. If only they differ, as after an upgrade, they are written as drifted numbers.
_DERIVED = "columns"
_DRIFTING_MEMORY = ("startUpSeconds", "requestPerPod")


def is_worth_writing(before: Status, after: Status) -> bool:
    """Whether anything changed that matters to a person or to a restart."""
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}.difference(_DRIFTING, (_DERIVED,))
    if not before or changed.difference(_PARTS):
        return True
    return any(_of(_PARTS[key], before) != _PARTS[key](after) for key in changed)


def has_drifted(before: Status, after: Status) -> bool:
    """Whether anything changed besides values that change with time alone."""
    return before != after and _of(_enduring, before) != _enduring(after)


def _of(part: Callable[[Status], object], before: Status) -> object:
    """A part of a status; None for a forged status, whose memory may be any JSON."""
    try:
        return part(before)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None


def _enduring(status: Status) -> dict[str, Any]:
    return {**status, "memory": _lasting(status), _DERIVED: sorted(status.get(_DERIVED, {}))}


def _lasting(status: Status) -> dict[str, Any]:
    """The memory without the time of its newest recommendation: a restart assumes that it held until the restart."""
    memory = dict(status.get("memory", {}))
    recommendations = memory.get("recommendations", [])
    memory["recommendations"] = [
        *recommendations[:-1],
        *((newest["replicas"], newest.get("merged")) for newest in recommendations[-1:]),
    ]
    return memory


def _holding(recommendations: list[Any]) -> Iterator[Any]:
    """
    The recommendations without those of the metrics that hold no pods, because a later one has at least their count.

    If a restart does not find these, at most a scale-up is lost, for which the metrics ask again.
    """
    if not recommendations:
        return
    *earlier, newest = recommendations
    yield newest
    highest = newest[0]
    for recommendation in reversed(earlier):
        replicas = recommendation["replicas"]
        if replicas > highest:
            highest = replicas
        elif "metrics" in recommendation:
            continue
        yield recommendation


def _conditions(status: Status) -> object:
    return [
        # The message of a forecast has a number that always changes; conditions of others may have no message.
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


# For fields of which only a part is worth a write: that part.
_PARTS = {"conditions": _conditions, "decision": _decision, "memory": _memory}
