"""When the bounds of objects change next, for the calendar of the fleet. Runs in a worker process."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from cronhpa.api.parse import SpecError
from cronhpa.api.status_memory import parse_memory
from cronhpa.core.model.decision import Lead
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Crowd, NodeStart
from cronhpa.core.schedules.timeline import BoundsInterval, timeline
from cronhpa.page.effective_spec import effective_spec
from cronhpa.page.questions import BoundsEdge, EdgesAnswer, EdgesQuestion, ScheduledObject

# Edges of one object. The calendar shows no more of an object that changes more often.
EDGES_MAX = 400


_ObjectEdges = tuple[int, list[BoundsEdge], tuple[str, ...]]


def edges_of(question: EdgesQuestion) -> EdgesAnswer:
    edges: list[BoundsEdge] = []
    minimums: list[int] = []
    open_now: list[tuple[str, ...]] = []
    unread = cut = 0
    # Objects of one chart share a spec: its timeline is walked once.
    edges_by_spec: dict[
        tuple[bytes, bytes, Nanoseconds | None, NodeStart | None, tuple[Lead, ...], Crowd | None], _ObjectEdges | None
    ] = {}
    for place, scheduled in enumerate(question.objects):
        memory = parse_memory({"memory": scheduled.memory} if scheduled.memory else {})
        key = (scheduled.spec, scheduled.events, memory.start_up, memory.node_start, memory.leads, memory.crowd)
        if key not in edges_by_spec:
            edges_by_spec[key] = _edges(scheduled, memory, question)
        found = edges_by_spec[key]
        if found is None:
            minimums.append(0)
            open_now.append(())
            unread += 1
            continue
        minimum, of_object, open_schedules = found
        minimums.append(minimum)
        open_now.append(open_schedules)
        if len(of_object) > EDGES_MAX:
            cut += 1
        edges += [replace(edge, object=place) for edge in of_object[:EDGES_MAX]]
    return EdgesAnswer(edges, minimums, open_now, unread, cut)


def _edges(scheduled: ScheduledObject, memory: Memory, question: EdgesQuestion) -> _ObjectEdges | None:
    """The minimum now, the edges and the schedules open now of an object; None for a spec that cannot be read."""
    try:
        text = msgspec.json.decode(zlib.decompress(scheduled.spec))
        spec = effective_spec(text, scheduled.namespace, question.options, scheduled.events, question.calendars)
    except (SpecError, ValueError, TypeError, zlib.error):
        return None
    if not spec.is_timed:
        return spec.min_replicas, [], ()
    line = timeline(
        spec, question.now, question.until, start_up=memory.lead_start_up(spec), leads=memory.leads, crowd=memory.crowd
    )
    edges = [
        BoundsEdge(
            after.start, 0, before.minimum, after.minimum, before.maximum, after.maximum, tuple(_what(before, after))
        )
        for before, after in pairwise(line.segments)
    ]
    return line.segments[0].minimum, edges, tuple(line.segments[0].open)


def _what(before: BoundsInterval, after: BoundsInterval) -> Iterator[str]:
    yield from (f"{name} opens" for name in after.open if name not in before.open)
    yield from (f"{name} closes" for name in before.open if name not in after.open)
    yield from (f"{name} is asked for" for name in after.leading if name not in (*before.leading, *before.open))
