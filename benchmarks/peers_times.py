"""Seconds from an instant to what the watch saw: replicas written, pods Ready, replicas taken away again."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Key = str
"""NAMESPACE/NAME of a Deployment."""


@dataclass
class Seen:
    """What the watch saw of each Deployment: (seconds since 1970, number), the oldest first."""

    replicas: dict[Key, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    ready: dict[Key, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    lost: int = 0
    """Watches that ended early: what happened meanwhile was seen late."""


def read(path: Path) -> Seen:
    """The lines that peers_watch.py wrote; a line that is not whole yet is left out."""
    seen = Seen()
    with path.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                break
            event = json.loads(line)
            if event["kind"] == "lost":
                seen.lost += 1
            else:
                of = seen.replicas if event["kind"] == "replicas" else seen.ready
                of[event["key"]].append((event["at"], event["number"]))
    return seen


def first(
    events: Sequence[tuple[float, int]], since: float, until: float, accept: Callable[[int], bool]
) -> float | None:
    """When a number was first accepted within [since, until]; None: never. What held before counts from `since` on."""
    held = None
    for at, number in events:
        if at <= since:
            held = number
        elif held is not None and accept(held):
            return since
        elif at > until:
            return None
        elif accept(number):
            return at
    return since if held is not None and accept(held) else None


def spread(seconds: Iterable[float | None], of: int) -> dict[str, Any]:
    """
    min, p50, p99 and max of `of` objects, in seconds; one that never came is later than all others (None).

    count: how many came.
    """
    came = sorted(second for second in seconds if second is not None)
    ranked = [*came, *[math.inf] * (of - len(came))]

    def at(percent: int) -> float | None:
        second = ranked[max(-(-of * percent // 100) - 1, 0)] if ranked else math.inf
        return None if second == math.inf else round(second, 2)

    return {"count": len(came), "of": of, "min": at(0), "p50": at(50), "p99": at(99), "max": at(100)}


def edge(seen: Seen, keys: Sequence[Key], at: float, since: float, until: float, up: int) -> dict[str, Any]:
    """How far from an edge the replicas were written and the pods Ready, and how many objects had them at the edge."""
    written = [first(seen.replicas[key], since, until, up.__le__) for key in keys]
    ready = [first(seen.ready[key], since, until, up.__le__) for key in keys]
    return {
        "written": spread((one and one - at for one in written), len(keys)),
        "ready": spread((one and one - at for one in ready), len(keys)),
        "late": spread((None if one is None else max(0.0, one - at) for one in ready), len(keys)),
        "ready_at_edge": sum(one is not None and one <= at for one in ready),
    }


def down(seen: Seen, keys: Sequence[Key], at: float, until: float, low: int) -> dict[str, Any]:
    """How long after the end of a window the replicas were taken away."""
    came = [first(seen.replicas[key], at - 1, until, low.__ge__) for key in keys]
    return spread((one and one - at for one in came), len(keys))


def step(seen: Seen, keys: Sequence[Key], at: float, until: float, wanted: int) -> dict[str, Any]:
    """How long after a step of the load the first scale write came, and the count that the load asks for."""
    firsts, wholes = [], []
    for key in keys:
        before = next((number for when, number in reversed(seen.replicas[key]) if when <= at), 0)
        firsts.append(first(seen.replicas[key], at, until, before.__lt__))
        wholes.append(first(seen.replicas[key], at, until, wanted.__le__))
    return {
        "first": spread((one and one - at for one in firsts), len(keys)),
        "whole": spread((one and one - at for one in wholes), len(keys)),
    }


def writes(seen: Seen, keys: Sequence[Key], since: float, until: float) -> int:
    """How many changes of replicas there were."""
    return sum(since < at <= until for key in keys for at, _ in seen.replicas[key])
