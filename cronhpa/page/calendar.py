"""
The calendar of the fleet: when windows open and close, how many edges fall together, how many pods each asks for.

The edges of all objects are computed in a worker process, again when objects changed or a quarter of an hour passed.
Each caller sees the edges of the objects that they may get.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.page.event_lanes import event_lanes
from cronhpa.page.objects import LiveObject, Objects
from cronhpa.page.questions import ENCODER, SPAN, BoundsEdge, EdgesAnswer, EdgesQuestion, ScheduledObject, coming_edges
from cronhpa.page.rights import Scope
from cronhpa.page.worker_pools import PageWorker

_FRESH: Nanoseconds = 15 * MINUTE
# Edges of one minute fall together: their pods are asked for within a sync period or two.
_TOGETHER: Nanoseconds = MINUTE
# A caller waits no longer than this before it is told the progress.
_PATIENCE_SECONDS = 3.0
_AT_ONCE = 1_000
_INSTANTS_MAX = 2_000
_OBJECTS_SHOWN = 200
_ANSWERS = msgspec.msgpack.Decoder(EdgesAnswer)
_ENCODER = msgspec.json.Encoder()


class _FleetEdges(Struct, frozen=True):
    """The edges of the objects, computed at an instant."""

    digest: bytes
    """Digest of the objects and their generations."""
    at: Nanoseconds
    objects: list[ScheduledObject]
    answer: EdgesAnswer


class FleetCalendar:
    """options: by which the operator decides."""

    def __init__(
        self,
        objects: Objects,
        worker: PageWorker,
        now: Callable[[], Nanoseconds],
        options: ControllerOptions,
    ) -> None:
        self._objects, self._worker, self._now = objects, worker, now
        self._options = options
        self._newest: _FleetEdges | None = None
        self._work: asyncio.Task[_FleetEdges] | None = None
        self._done = 0.0

    async def answer(self, scope: Scope) -> bytes:
        """JSON of the coming week; {"done": share} while it is computed. Raises BusyError, UnavailableError."""
        live = sorted(self._objects.all(), key=lambda one: one.key)
        digest = hashlib.blake2b(
            repr([(one.key, one.uid, one.generation, one.events, *map(hash, one.calendars)) for one in live]).encode()
        ).digest()
        now, newest = self._now(), self._newest
        if newest is None or newest.digest != digest or not 0 <= now - newest.at < _FRESH:
            if self._work is None or self._work.done():
                self._work = asyncio.create_task(self._edges(live, digest, now), name="calendar")
            await asyncio.wait((self._work,), timeout=_PATIENCE_SECONDS)
            if not self._work.done():
                return _ENCODER.encode({"done": self._done})
            newest = self._newest = self._work.result()
        return await asyncio.to_thread(_encoded, newest.objects, newest.answer, scope, newest.at)

    async def _edges(self, live: Sequence[LiveObject], digest: bytes, now: Nanoseconds) -> _FleetEdges:
        """Computes the edges of a thousand objects at a time, so that views of single objects come in between."""
        objects = [scheduled(one) for one in live if one.spec]
        calendars = tuple({calendar.name: calendar for one in live for calendar in one.calendars}.values())
        edges: list[BoundsEdge] = []
        minimums: list[int] = []
        open_now: list[tuple[str, ...]] = []
        unread = cut = 0
        for first in range(0, len(objects), _AT_ONCE):
            self._done = first / len(objects)
            question = EdgesQuestion(objects[first : first + _AT_ONCE], now, now + SPAN, self._options, calendars)
            part = _ANSWERS.decode(await self._worker.run(coming_edges, ENCODER.encode(question)))
            edges += [replace(edge, object=edge.object + first) for edge in part.edges]
            minimums += part.minimums
            open_now += part.open_now
            unread, cut = unread + part.unread, cut + part.cut
        return _FleetEdges(digest, now, objects, EdgesAnswer(edges, minimums, open_now, unread, cut))

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)


def scheduled(live: LiveObject) -> ScheduledObject:
    memory = live.status.get("memory")
    return ScheduledObject(
        live.namespace, live.name, live.spec, memory if isinstance(memory, dict) else {}, live.events
    )


def _encoded(objects: Sequence[ScheduledObject], answer: EdgesAnswer, scope: Scope, now: Nanoseconds) -> bytes:
    by_instant: dict[Nanoseconds, list[BoundsEdge]] = {}
    for edge in answer.edges:
        if objects[edge.object].namespace in scope:
            by_instant.setdefault(edge.at - edge.at % _TOGETHER, []).append(edge)
    instants = sorted(by_instant)[: _INSTANTS_MAX + 1]
    total = sum(minimum for one, minimum in zip(objects, answer.minimums, strict=True) if one.namespace in scope)
    rows = []
    for at in instants[:_INSTANTS_MAX]:
        instant = _instant(at, by_instant[at], objects)
        total += instant["more"] - instant["fewer"]
        rows.append({**instant, "sum": total})
    return _ENCODER.encode(
        {
            "from": now / SECOND,
            "until": (now + SPAN) / SECOND,
            "objects": sum(one.namespace in scope for one in objects),
            "cut": len(instants) > _INSTANTS_MAX,
            "unread": answer.unread if scope.namespaces is None else None,
            "pending": scope.pending,
            "events": event_lanes(objects, answer, scope, now),
            "instants": rows,
        }
    )


def _instant(at: Nanoseconds, edges: Sequence[BoundsEdge], objects: Sequence[ScheduledObject]) -> dict[str, Any]:
    """
    The sums of the edges of one instant. more, fewer: pods that minimums ask for in addition, and no longer ask for; a
    target may run more already. The caller adds sum: pods that all minimums ask for from then on.
    """
    rises = sum(max(edge.after - edge.before, 0) for edge in edges)
    falls = sum(max(edge.before - edge.after, 0) for edge in edges)
    words = Counter(_kind(what) for edge in edges for what in edge.what)
    largest = sorted(edges, key=lambda edge: -abs(edge.after - edge.before))[:_OBJECTS_SHOWN]
    return {
        "at": at / SECOND,
        "objects": len({edge.object for edge in edges}),
        "more": rises,
        "fewer": falls,
        "caps": sum(edge.cap_before != edge.cap_after for edge in edges),
        "opens": words["opens"],
        "closes": words["closes"],
        "leads": words["leads"],
        "of": [
            [
                objects[edge.object].namespace,
                objects[edge.object].name,
                edge.before,
                edge.after,
                edge.cap_before,
                edge.cap_after,
                ", ".join(edge.what),
            ]
            for edge in largest
        ],
    }


def _kind(what: str) -> str:
    last = what.rpartition(" ")[2]
    return last if last in {"opens", "closes"} else "leads"
