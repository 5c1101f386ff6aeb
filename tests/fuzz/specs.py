"""Specs, memories and metrics answers that are right, made of bytes; and slips that make them wrong in some place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuzz.draw import Draw

Json = dict[str, Any]
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Havana",
    "Africa/Casablanca",
    "Asia/Tokyo",
)
CRONS = (
    "0 8 * * *", "0 18 * * *", "*/5 * * * mon-fri", "0 9,17 * * 1-5", "30 2 * * sun", "0 0 l * *", "0 0 1-7 * sun#1",
    "@daily", "59 23 29 2 *", "* * * * *", "0 0 30 2 *", "0 10 23 11 *", "1 1 1 1 mon",
)  # fmt: skip
LOCAL = (
    "2026-11-23T09:00",
    "2026-11-23T10:00",
    "2026-11-23T10:30",
    "2026-03-29T02:30",
    "2027-01-01T00:00",
    "9998-12-31T00:00",
)
DATES = ("2026-11-23", "2026-11-24", "2026-12-24", "2027-02-28", "0002-01-01", "9998-12-31")
TIMES = (
    "2026-11-23T10:00:00Z",
    "2026-11-23T09:55:00Z",
    "2026-11-23T09:59:59.5Z",
    "2026-11-23T10:00:01Z",
    "2026-11-24T08:00:00Z",
)
RECENT = TIMES[:4]
QUANTITIES = ("1", "10", "500m", "1Gi", "1e3", "0.1", "3k", "9E", "1n")


def with_slips(draw: Draw, text: Any) -> Any:
    """The text with none to three of its parts left out or replaced by any JSON."""
    for _ in range((0, 0, 0, 1, 1, 2, 3)[draw.byte() % 7]):
        place = text
        while isinstance(place, dict | list) and place:
            key = draw.of(sorted(place)) if isinstance(place, dict) else draw.byte() % len(place)
            inner = place[key]
            if isinstance(inner, dict | list) and inner and draw.byte() % 4:
                place = inner
                continue
            if draw.byte() % 3:
                place[key] = draw.json()
            else:
                del place[key]
            break
    return text


def some(draw: Draw, most: int, make: Callable[[], Any]) -> list[Any]:
    return [make() for _ in range(draw.byte() % (most + 1))]


def chosen(draw: Draw, fields: dict[str, Callable[[], Any]]) -> Json:
    """Some of the fields."""
    return {name: make() for name, make in fields.items() if draw.byte() % 3 == 1}


def spec(draw: Draw) -> Json:
    low = draw.number(0, 20)
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": draw.of(("Deployment", "StatefulSet")), "name": "shop"},
        "minReplicas": low,
        "maxReplicas": max(1, low + draw.number(0, 2**31 - 1 - low if draw.one_in(16) else 100)),
        **chosen(
            draw,
            {
                "metrics": lambda: some(draw, 3, lambda: metric(draw)),
                "behavior": lambda: chosen(draw, {"scaleUp": lambda: rules(draw), "scaleDown": lambda: rules(draw)}),
                "timeZone": lambda: draw.of(ZONES),
                "schedules": lambda: [{**schedule(draw), "name": f"s{index}"} for index in range(draw.byte() % 5)],
                "override": lambda: {**bounds(draw), "until": draw.of(TIMES), "reason": draw.text()},
                "forecast": lambda: chosen(draw, {"maxFloorReplicas": lambda: draw.number(1, 50)}),
                "mode": lambda: draw.of(("Active", "Preview")),
                "syncPeriodSeconds": lambda: draw.number(1, 3600),
                "cpuInitializationPeriodSeconds": lambda: draw.number(0, 86_400),
                "initialReadinessDelaySeconds": lambda: draw.number(0, 86_400),
                "metricMaxAgeSeconds": lambda: draw.number(1, 86_400),
            },
        ),
    }


def metric(draw: Draw) -> Json:
    kind = draw.of(("Resource", "ContainerResource", "Pods", "Object", "External"))
    value = {"type": "AverageValue", "averageValue": draw.of(QUANTITIES)}
    name = {"name": "queue", **chosen(draw, {"selector": lambda: {"matchLabels": {"a": "b"}}})}
    if kind in {"Resource", "ContainerResource"}:
        usage = value if draw.byte() % 2 else {"type": "Utilization", "averageUtilization": draw.number(1, 1000)}
        source: Json = {"name": draw.of(("cpu", "memory")), "target": usage}
        if kind == "ContainerResource":
            return {"type": kind, "containerResource": {**source, "container": "app"}}
        return {"type": kind, "resource": source}
    if kind == "Pods":
        return {"type": kind, "pods": {"metric": name, "target": value}}
    total = value if draw.byte() % 2 else {"type": "Value", "value": draw.of(QUANTITIES)}
    if kind == "External":
        return {"type": kind, "external": {"metric": name, "target": total}}
    described = {"apiVersion": "v1", "kind": "Service", "name": "shop"}
    return {"type": kind, "object": {"metric": name, "target": total, "describedObject": described}}


def rules(draw: Draw) -> Json:
    def policy() -> Json:
        kind, value = draw.of(("Pods", "Percent")), draw.number(1, 200)
        return {"type": kind, "value": value, "periodSeconds": draw.number(1, 1800)}

    return chosen(
        draw,
        {
            "policies": lambda: [policy() for _ in range(1 + draw.byte() % 3)],
            "selectPolicy": lambda: draw.of(("Max", "Min", "Disabled")),
            "stabilizationWindowSeconds": lambda: draw.number(0, 3600),
            "tolerance": lambda: draw.of(("0", "0.1", "500m")),
        },
    )


def bounds(draw: Draw) -> Json:
    if draw.one_in(3):
        return {"replicas": draw.number(0, 50)}
    low = draw.number(0, 50)
    return (
        {"minReplicas": low},
        {"maxReplicas": low + 1},
        {"minReplicas": low, "maxReplicas": low + draw.number(1, 50)},
    )[draw.byte() % 3]


def schedule(draw: Draw) -> Json:
    def days() -> Json:
        first, last = sorted((draw.of(DATES), draw.of(DATES)))
        return {"dates": [{"from": first, "to": last}]}

    text = bounds(draw)
    if draw.one_in(4):
        opens, closes = sorted((draw.of(LOCAL), draw.of(LOCAL)))
        text |= {"from": opens, "to": closes}
    else:
        text["start"] = draw.of(CRONS)
        text |= {"end": draw.of(CRONS)} if draw.byte() % 2 else {"durationMinutes": draw.number(1, 10_080)}
        text |= chosen(draw, {"exclude": days, "only": days})
    return text | chosen(
        draw,
        {
            "timeZone": lambda: draw.of(ZONES),
            "priority": lambda: draw.number(-1000, 1000),
            "leadTimeSeconds": lambda: draw.number(0, 86_400),
            "headroomPercent": lambda: draw.number(1, 100),
            "suspend": lambda: bool(draw.byte() % 2),
        },
    )


def memory(draw: Draw) -> Json:
    def count(low: int) -> int:
        return draw.number(low, 2**31 - 1 if draw.one_in(4) else 50)

    def event() -> Json:
        return {
            "change": count(1),
            "time": draw.of(RECENT),
            **chosen(draw, {"outdated": lambda: bool(draw.byte() % 2)}),
        }

    def lead() -> Json:
        return {"schedule": draw.of(("day", "a")), "start": draw.of(TIMES), "seconds": draw.number(0, 97_200)}

    return {
        "version": 1,
        "recommendations": some(draw, 6, lambda: {"replicas": count(0), "time": draw.of(RECENT)}),
        "scaleUpEvents": some(draw, 4, event),
        "scaleDownEvents": some(draw, 4, event),
        **chosen(
            draw,
            {
                "zero": lambda: bool(draw.byte() % 2),
                "scheduledZero": lambda: bool(draw.byte() % 2),
                "startUpSeconds": lambda: draw.number(0, 3605),
                "requestPerPod": lambda: {draw.of(("cpu", "memory", "a/b")): draw.of(QUANTITIES)},
                "intent": lambda: {"from": count(0), "to": count(0), "time": draw.of(TIMES)},
                "leads": lambda: some(draw, 3, lead),
            },
        ),
    }


def answer(draw: Draw) -> Json:
    """Of any of the metrics APIs: each reads the fields that it knows."""

    def item() -> Json:
        usage = {name: draw.of(QUANTITIES) for name in ("cpu", "memory")}
        return {
            "metadata": {"name": f"shop-{draw.byte() % 4}"},
            "timestamp": draw.of(TIMES),
            "window": draw.of(("30s", "1m0s", "15.5s")),
            "containers": [{"name": name, "usage": usage} for name in ("app", "side")[: draw.byte() % 3]],
            "describedObject": {"name": f"shop-{draw.byte() % 4}"},
            "windowSeconds": draw.number(0, 600) if draw.byte() % 2 else None,
            "value": draw.of(QUANTITIES),
        }

    return {"items": some(draw, 3, item)}
