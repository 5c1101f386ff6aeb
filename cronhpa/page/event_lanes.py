"""The planned events of the coming week, as lanes over all objects of the calendar."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from cronhpa.core.model.decision import CLUSTER_EVENT_PREFIX, EVENT_PREFIX
from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.page.questions import SPAN, EdgesAnswer, ScheduledObject
from cronhpa.page.rights import Scope

_OBJECTS_SHOWN = 200
# The namespace, "" for an event of the cluster, and the name of the schedule: namespaces may share names of events.
_Lane = tuple[str, str]


def event_lanes(
    scheduled_objects: Sequence[ScheduledObject], answer: EdgesAnswer, scope: Scope, now: Nanoseconds
) -> list[dict[str, Any]]:
    """A lane for each schedule of a planned event: when it holds, and in which of the objects of the caller."""
    spans: defaultdict[_Lane, dict[Nanoseconds, Nanoseconds]] = defaultdict(dict)
    objects: defaultdict[_Lane, set[int]] = defaultdict(set)
    begun: dict[tuple[str, int], Nanoseconds] = {}

    def note(place: int, title: str, begin: Nanoseconds, end: Nanoseconds) -> None:
        lane = ("" if title.startswith(CLUSTER_EVENT_PREFIX) else scheduled_objects[place].namespace, title)
        objects[lane].add(place)
        spans[lane][begin] = end

    is_visible = [one.namespace in scope for one in scheduled_objects]
    for place, titles in enumerate(answer.open_now):
        for title in titles:
            if is_visible[place] and title.startswith(EVENT_PREFIX):
                begun[title, place] = now
                note(place, title, now, now + SPAN)
    for edge in answer.edges:
        for what in edge.what if is_visible[edge.object] else ():
            title, _, kind = what.rpartition(" ")
            if title.startswith(EVENT_PREFIX) and kind == "opens":
                begun[title, edge.object] = edge.at
                note(edge.object, title, edge.at, now + SPAN)
            elif title.startswith(EVENT_PREFIX) and kind == "closes":
                note(edge.object, title, begun.pop((title, edge.object), now), edge.at)
    lanes = sorted(spans, key=lambda lane: (min(spans[lane]), lane))
    return [
        {
            "namespace": namespace,
            "name": title.removeprefix(CLUSTER_EVENT_PREFIX).removeprefix(EVENT_PREFIX),
            "spans": [[begin / SECOND, end / SECOND] for begin, end in sorted(spans[namespace, title].items())],
            "objects": len(objects[namespace, title]),
            "of": [
                [scheduled_objects[place].namespace, scheduled_objects[place].name]
                for place in sorted(objects[namespace, title])[:_OBJECTS_SHOWN]
            ],
        }
        for namespace, title in lanes
    ]
