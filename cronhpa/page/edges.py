"""When the bounds of objects change next, for the calendar of the fleet. Runs in a worker process."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import msgspec

from cronhpa.api.parse import parse_spec
from cronhpa.api.status_memory import parse_memory
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.scheduled.timeline import BoundsInterval, timeline
from cronhpa.core.spec import ControllerOptions, Spec
from cronhpa.page.questions import Edge, EdgesAnswer, EdgesQuestion, ScheduledObject

# Of one object. What changes more often is no calendar.
_EDGES_MAX = 400


def edges_of(asked: EdgesQuestion) -> EdgesAnswer:
    edges: list[Edge] = []
    unread = cut = 0
    for place, each in enumerate(asked.objects):
        try:
            found = list(_edges(each, place, asked.now, asked.until))
        except (ValueError, KeyError, TypeError, ArithmeticError, zlib.error):
            unread += 1
            continue
        if len(found) > _EDGES_MAX:
            cut += 1
        edges += found[:_EDGES_MAX]
    return EdgesAnswer(edges, unread, cut)


def _edges(item: ScheduledObject, place: int, now: Nanoseconds, until: Nanoseconds) -> Iterator[Edge]:
    spec = _spec(item.spec, item.namespace)
    if not spec.is_timed:
        return
    memory = parse_memory({"memory": item.memory} if item.memory else {})
    line = timeline(spec, now, until, start_up=memory.start_up, leads=memory.leads)
    for before, after in pairwise(line.segments):
        yield Edge(
            after.start, place, before.minimum, after.minimum, before.maximum, after.maximum, (*_what(before, after),)
        )


# Objects of one chart have one spec: it is read once.
@lru_cache(maxsize=4096)
def _spec(packed: bytes, namespace: str) -> Spec:
    return parse_spec(msgspec.json.decode(zlib.decompress(packed)), namespace, ControllerOptions())


def _what(before: BoundsInterval, after: BoundsInterval) -> Iterator[str]:
    yield from (f"{name} opens" for name in after.open if name not in before.open)
    yield from (f"{name} closes" for name in before.open if name not in after.open)
    yield from (f"{name} is asked for" for name in after.leading if name not in (*before.leading, *before.open))
