"""When the bounds of objects change next, for the calendar of the fleet. Runs in a worker process."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from cronhpa.api.parse import SpecError, parse_spec
from cronhpa.api.status_memory import parse_memory
from cronhpa.core.model.decision import Lead
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Crowd
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.timeline import BoundsInterval, timeline
from cronhpa.page.questions import BoundsEdge, EdgesAnswer, EdgesQuestion, ScheduledObject

# Edges of one object. The calendar shows no more of an object that changes more often.
EDGES_MAX = 400


def edges_of(asked: EdgesQuestion) -> EdgesAnswer:
    edges: list[BoundsEdge] = []
    minimums: list[int] = []
    unread = cut = 0
    # Objects of one chart share a spec: its timeline is walked once.
    edges_by_spec: dict[
        tuple[bytes, Nanoseconds | None, tuple[Lead, ...], Crowd | None], tuple[int, list[BoundsEdge]] | None
    ] = {}
    for place, scheduled in enumerate(asked.objects):
        memory = parse_memory({"memory": scheduled.memory} if scheduled.memory else {})
        key = (scheduled.spec, memory.start_up, memory.leads, memory.crowd)
        if key not in edges_by_spec:
            edges_by_spec[key] = _edges(scheduled, memory, asked.now, asked.until)
        found = edges_by_spec[key]
        if found is None:
            minimums.append(0)
            unread += 1
            continue
        minimum, of_object = found
        minimums.append(minimum)
        if len(of_object) > EDGES_MAX:
            cut += 1
        edges += [replace(edge, object=place) for edge in of_object[:EDGES_MAX]]
    return EdgesAnswer(edges, minimums, unread, cut)


def _edges(
    scheduled: ScheduledObject, memory: Memory, now: Nanoseconds, until: Nanoseconds
) -> tuple[int, list[BoundsEdge]] | None:
    """The minimum now and the edges of an object; None for a spec that cannot be read."""
    try:
        text = msgspec.json.decode(zlib.decompress(scheduled.spec))
        spec = parse_spec(text, scheduled.namespace, ControllerOptions())
    except (SpecError, ValueError, TypeError, zlib.error):
        return None
    if not spec.is_timed:
        return spec.min_replicas, []
    line = timeline(spec, now, until, start_up=memory.start_up, leads=memory.leads, crowd=memory.crowd)
    return line.segments[0].minimum, [
        BoundsEdge(
            after.start, 0, before.minimum, after.minimum, before.maximum, after.maximum, tuple(_what(before, after))
        )
        for before, after in pairwise(line.segments)
    ]


def _what(before: BoundsInterval, after: BoundsInterval) -> Iterator[str]:
    yield from (f"{name} opens" for name in after.open if name not in before.open)
    yield from (f"{name} closes" for name in before.open if name not in after.open)
    yield from (f"{name} is asked for" for name in after.leading if name not in (*before.leading, *before.open))
