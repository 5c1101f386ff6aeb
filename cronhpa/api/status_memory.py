"""`status.memory`: written and read here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cronhpa.core.decision import Lead
from cronhpa.core.instant import SECOND, format_instant_exact, parse_instant
from cronhpa.core.memory import Intent, Memory, Recommendation, ScaleEvent
from cronhpa.core.quantity import format_milli, parse_milli

MEMORY_VERSION = 1


def render_memory(memory: Memory) -> dict[str, Any]:
    """The memory as the status stores it."""
    text: dict[str, Any] = {"version": MEMORY_VERSION}
    text["recommendations"] = [
        {"replicas": item.replicas, "time": format_instant_exact(item.at)} for item in memory.recommendations
    ]
    for key, events in (("scaleUpEvents", memory.scale_ups), ("scaleDownEvents", memory.scale_downs)):
        text[key] = [
            {
                "change": item.change,
                "time": format_instant_exact(item.at),
                **({"outdated": True} if item.outdated else {}),
            }
            for item in events
        ]
    if memory.zero is not None:
        text["zero"] = memory.zero
    if memory.scheduled_zero:
        text["scheduledZero"] = True
    if memory.start_up is not None:
        text["startUpSeconds"] = memory.start_up // SECOND
    if memory.request_per_pod:
        text["requestPerPod"] = {name: format_milli(milli) for name, milli in sorted(memory.request_per_pod.items())}
    if memory.intent is not None:
        text["intent"] = {
            "from": memory.intent.before,
            "to": memory.intent.after,
            "time": format_instant_exact(memory.intent.at),
            **({"fromScheduledZero": True} if memory.intent.from_scheduled_zero else {}),
        }
    if memory.leads:
        text["leads"] = [
            {
                "schedule": item.schedule,
                "start": format_instant_exact(item.start),
                "seconds": item.length // SECOND,
            }
            for item in memory.leads
        ]
    return text


def parse_memory(status: Mapping[str, Any]) -> Memory:
    """
    The memory of a status. An absent or damaged memory, or one of another version, becomes an empty one.

    An empty memory is seeded with the current count: its loss can delay a scale-down and never hasten it.
    """
    text = status.get("memory")
    if not isinstance(text, Mapping) or text.get("version") != MEMORY_VERSION:
        return _damaged(status)
    try:
        intent = text.get("intent")
        start_up = text.get("startUpSeconds")
        return Memory(
            recommendations=tuple(
                Recommendation(int(item["replicas"]), parse_instant(item["time"])) for item in text["recommendations"]
            ),
            scale_ups=_scale_events(text["scaleUpEvents"]),
            scale_downs=_scale_events(text["scaleDownEvents"]),
            zero=text.get("zero"),
            scheduled_zero=bool(text.get("scheduledZero", False)),
            start_up=None if start_up is None else int(start_up) * SECOND,
            request_per_pod={name: parse_milli(str(item)) for name, item in text.get("requestPerPod", {}).items()},
            intent=None if intent is None else _intent(intent),
            leads=tuple(
                Lead(str(item["schedule"]), parse_instant(item["start"]), int(item["seconds"]) * SECOND)
                for item in text.get("leads", [])
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return _damaged(status)


def _damaged(status: Mapping[str, Any]) -> Memory:
    """
    An empty memory that keeps who made a zero: an object observed before must not take a zero for a scheduled one.
    """
    conditions = status.get("conditions")
    if not isinstance(conditions, list) or not conditions:
        return Memory()
    kinds = {item.get("type"): item.get("status") for item in conditions if isinstance(item, Mapping)}
    return Memory(zero=kinds.get("ScaledToZero") == "True")


def _intent(text: Mapping[str, Any]) -> Intent:
    at = parse_instant(text["time"])
    return Intent(int(text["from"]), int(text["to"]), at, bool(text.get("fromScheduledZero", False)))


def _scale_events(items: Iterable[Mapping[str, Any]]) -> tuple[ScaleEvent, ...]:
    return tuple(
        ScaleEvent(int(item["change"]), parse_instant(item["time"]), bool(item.get("outdated", False)))
        for item in items
    )
