"""
The calendar of the fleet: when windows open and close, how many edges fall together, how many pods each asks for.

The edges of all objects are computed in a worker process, again when objects changed or a quarter of an hour passed.
Each caller sees the edges of the objects that they may get.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.calendar import Calendar
from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.page.event_lanes import event_lanes
from cronhpa.page.loop_time import SharedWork, in_slices
from cronhpa.page.objects import LiveObject, ObjectMark, Objects
from cronhpa.page.questions import SPAN, BoundsEdge, EdgesAnswer, EdgesQuestion, ScheduledObject, coming_edges
from cronhpa.page.rights import Scope
from cronhpa.page.worker_pools import PageWorker
from cronhpa.ports.loop_share import LoopShare

_FRESH: Nanoseconds = 15 * MINUTE
# Edges of one minute fall together: their pods are asked for within a sync period or two.
_TOGETHER: Nanoseconds = MINUTE
# A caller waits no longer than this before it is told the progress.
_PATIENCE_SECONDS = 3.0
_AT_ONCE = 1_000
_INSTANTS_MAX = 2_000
_OBJECTS_SHOWN = 200
# An answer of 10,000 objects takes 4 MB. Callers of more scopes have theirs encoded anew.
_SCOPES_KEPT = 8
_ANSWERS = msgspec.msgpack.Decoder(EdgesAnswer)
_ENCODER = msgspec.json.Encoder()


class _FleetEdges(Struct, frozen=True):
    """The edges of the objects, computed at an instant."""

    schedules: list[tuple[Any, ...]]
    """The marks of the objects, without their versions."""
    at: Nanoseconds
    objects: list[ScheduledObject]
    answer: EdgesAnswer
    encoded: dict[Scope, bytes]
    """Answers to callers of some scopes."""


class FleetCalendar:
    """options: by which the operator decides. share: of the event loop."""

    def __init__(
        self,
        objects: Objects,
        worker: PageWorker,
        now: Callable[[], Nanoseconds],
        options: ControllerOptions,
        share: LoopShare,
    ) -> None:
        self._objects, self._worker, self._now = objects, worker, now
        self._options = options
        self._newest: _FleetEdges | None = None
        self._share, self._work = share, SharedWork(self._refresh, share)
        self._done = 0.0
        self._encoding = asyncio.Lock()

    async def answer(self, scope: Scope) -> bytes:
        """JSON of the coming week; {"done": share} while it is computed. Raises BusyError, UnavailableError."""
        if not await self._work.is_done(_PATIENCE_SECONDS) or self._newest is None:
            return _ENCODER.encode({"done": self._done})
        if scope in self._newest.encoded:
            return self._newest.encoded[scope]
        async with self._encoding:
            return await self._answer_of(self._newest, scope)

    async def _answer_of(self, newest: _FleetEdges, scope: Scope) -> bytes:
        if scope not in newest.encoded:  # nobody of this scope was before
            await self._share.available()
            # The thread takes the loop's time, too: both need the interpreter.
            encode = partial(_encoded, newest.objects, newest.answer, scope, newest.at)
            newest.encoded[scope] = await self._share.in_thread(encode)
            if len(newest.encoded) > _SCOPES_KEPT:
                del newest.encoded[next(iter(newest.encoded))]
        return newest.encoded[scope]

    async def _refresh(self) -> None:
        marks = sorted([mark async for mark in in_slices(self._objects.marks())], key=lambda mark: mark.key)
        schedules = [(mark.key, mark.uid, mark.generation, mark.schedules) for mark in marks]
        now, newest = self._now(), self._newest
        if newest is None or newest.schedules != schedules or not 0 <= now - newest.at < _FRESH:
            objects, answer = await self._edges(marks, now)
            self._newest = _FleetEdges(schedules, now, objects, answer, {})

    async def _edges(self, marks: Sequence[ObjectMark], now: Nanoseconds) -> tuple[list[ScheduledObject], EdgesAnswer]:
        """Computes the edges of a thousand objects at a time, so that views of single objects come in between."""
        objects: list[ScheduledObject] = []
        named: dict[str, Calendar] = {}
        async for mark in in_slices(marks):
            live = self._objects.get(*mark.key)
            if live is not None and live.spec:
                objects.append(scheduled(live))
                named.update((calendar.name, calendar) for calendar in live.calendars)
        calendars = tuple(named.values())
        edges: list[BoundsEdge] = []
        minimums: list[int] = []
        open_now: list[tuple[str, ...]] = []
        unread = cut = 0
        for first in range(0, len(objects), _AT_ONCE):
            self._done = first / len(objects)
            question = EdgesQuestion(objects[first : first + _AT_ONCE], now, now + SPAN, self._options, calendars)
            part = _ANSWERS.decode(await self._worker.run(coming_edges, question))
            edges += [replace(edge, object=edge.object + first) for edge in part.edges]
            minimums += part.minimums
            open_now += part.open_now
            unread, cut = unread + part.unread, cut + part.cut
        return objects, EdgesAnswer(edges, minimums, open_now, unread, cut)

    async def close(self) -> None:
        await self._work.close()


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
