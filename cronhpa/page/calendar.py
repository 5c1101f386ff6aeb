"""
The calendar of the fleet: what opens and closes when, how many edges fall together, what is asked for at each.

The edges of all objects are worked out in a worker process, and anew where objects changed or a quarter of an hour has
passed. Each caller is told those of the objects that they may get.
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

from cronhpa.core.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.page.objects import LiveObject, Objects
from cronhpa.page.questions import ENCODER, SPAN, BoundsEdge, EdgesAnswer, EdgesQuestion, ScheduledObject, coming_edges
from cronhpa.page.rights import Scope
from cronhpa.page.worker_pools import PageWorker

_FRESH: Nanoseconds = 15 * MINUTE
# Edges of one minute fall together: their pods are asked for within a sync period or two.
_TOGETHER: Nanoseconds = MINUTE
# Longer than that nobody waits without a word.
_PATIENCE_SECONDS = 3.0
_AT_ONCE = 1_000
_INSTANTS_MAX = 2_000
_OBJECTS_TOLD = 200
_ANSWERS = msgspec.msgpack.Decoder(EdgesAnswer)
_ENCODER = msgspec.json.Encoder()


class _Known(Struct, frozen=True):
    """The edges of objects as they were at an instant. digest: of the objects and their generations."""

    digest: bytes
    at: Nanoseconds
    objects: list[ScheduledObject]
    answer: EdgesAnswer


class FleetCalendar:
    def __init__(self, objects: Objects, worker: PageWorker, now: Callable[[], Nanoseconds]) -> None:
        self._objects, self._worker, self._now = objects, worker, now
        self._known: _Known | None = None
        self._work: asyncio.Task[_Known] | None = None
        self._done = 0.0

    async def answer(self, scope: Scope) -> bytes:
        """JSON of the coming week; {"done": share} while it is worked out. Raises BusyError, UnavailableError."""
        live = sorted(self._objects.all(), key=lambda each: each.key)
        digest = hashlib.blake2b(repr([(each.key, each.uid, each.generation) for each in live]).encode()).digest()
        now, known = self._now(), self._known
        if known is None or known.digest != digest or not 0 <= now - known.at < _FRESH:
            if self._work is None or self._work.done():
                self._work = asyncio.create_task(self._edges(live, digest, now), name="calendar")
            await asyncio.wait((self._work,), timeout=_PATIENCE_SECONDS)
            if not self._work.done():
                return _ENCODER.encode({"done": self._done})
            known = self._known = self._work.result()
        return await asyncio.to_thread(_told, known.objects, known.answer, scope, known.at)

    async def _edges(self, live: Sequence[LiveObject], digest: bytes, now: Nanoseconds) -> _Known:
        """A thousand objects at a time, so that views of single objects come in between."""
        asked = [scheduled(each) for each in live if each.spec]
        edges: list[BoundsEdge] = []
        unread = cut = 0
        for first in range(0, len(asked), _AT_ONCE):
            self._done = first / len(asked)
            question = EdgesQuestion(asked[first : first + _AT_ONCE], now, now + SPAN)
            part = _ANSWERS.decode(await self._worker.run(coming_edges, ENCODER.encode(question)))
            edges += [replace(edge, object=edge.object + first) for edge in part.edges]
            unread, cut = unread + part.unread, cut + part.cut
        return _Known(digest, now, asked, EdgesAnswer(edges, unread, cut))

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)


def scheduled(live: LiveObject) -> ScheduledObject:
    memory = live.status.get("memory")
    return ScheduledObject(live.namespace, live.name, live.spec, memory if isinstance(memory, dict) else {})


def _told(asked: Sequence[ScheduledObject], found: EdgesAnswer, scope: Scope, now: Nanoseconds) -> bytes:
    by_instant: dict[Nanoseconds, list[BoundsEdge]] = {}
    for edge in found.edges:
        if asked[edge.object].namespace in scope:
            by_instant.setdefault(edge.at - edge.at % _TOGETHER, []).append(edge)
    instants = sorted(by_instant)
    return _ENCODER.encode(
        {
            "from": now / SECOND,
            "until": (now + SPAN) / SECOND,
            "objects": sum(each.namespace in scope for each in asked),
            "cut": len(instants) > _INSTANTS_MAX,
            "unread": found.unread if scope.namespaces is None else None,
            "pending": scope.pending,
            "instants": [_instant(at, by_instant[at], asked) for at in instants[:_INSTANTS_MAX]],
        }
    )


def _instant(at: Nanoseconds, edges: Sequence[BoundsEdge], asked: Sequence[ScheduledObject]) -> dict[str, Any]:
    """
    more: pods that minimums ask for in addition; fewer: pods that they stop to ask for. A target may run more already.
    """
    rises = sum(max(each.after - each.before, 0) for each in edges)
    falls = sum(max(each.before - each.after, 0) for each in edges)
    words = Counter(_kind(what) for each in edges for what in each.what)
    largest = sorted(edges, key=lambda each: -abs(each.after - each.before))[:_OBJECTS_TOLD]
    return {
        "at": at / SECOND,
        "objects": len({each.object for each in edges}),
        "more": rises,
        "fewer": falls,
        "caps": sum(each.cap_before != each.cap_after for each in edges),
        "opens": words["opens"],
        "closes": words["closes"],
        "leads": words["leads"],
        "of": [
            [
                asked[each.object].namespace,
                asked[each.object].name,
                each.before,
                each.after,
                each.cap_before,
                each.cap_after,
                ", ".join(each.what),
            ]
            for each in largest
        ],
    }


def _kind(what: str) -> str:
    last = what.rpartition(" ")[2]
    return last if last in {"opens", "closes"} else "leads"
