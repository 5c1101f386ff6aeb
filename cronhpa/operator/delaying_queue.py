"""
When each object is due. Each object has its own period; the objects of a namespace share a phase, so that one LIST of
pod metrics serves all of them.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from heapq import heapify, heappop, heappush

from cronhpa.core.instant import Nanoseconds

Key = tuple[str, str]

_IDLE_ENTRIES = 1000


class DelayingQueue:
    """A heap of (instant, key) in which only each key's earliest entry counts."""

    def __init__(self) -> None:
        self._heap: list[tuple[Nanoseconds, Key]] = []
        self._at: dict[Key, Nanoseconds] = {}

    def put(self, key: Key, at: Nanoseconds) -> None:
        """Makes a key due at `at`, unless it is due earlier already."""
        due_at = self._at.get(key)
        if due_at is not None and due_at <= at:
            return
        self._at[key] = at
        heappush(self._heap, (at, key))
        # The entry of a key that is dropped, or made due earlier, stays in the heap until its instant.
        if len(self._heap) > _IDLE_ENTRIES + 2 * len(self._at):
            self._heap = [(at, key) for key, at in self._at.items()]
            heapify(self._heap)

    @property
    def entries(self) -> int:
        """Number of entries in the heap, with the outdated ones."""
        return len(self._heap)

    def clear(self) -> None:
        self._heap.clear()
        self._at.clear()

    def drop(self, key: Key) -> None:
        self._at.pop(key, None)

    def next_at(self) -> Nanoseconds | None:
        """The instant at which the next key is due."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self, now: Nanoseconds) -> dict[str, dict[Key, Nanoseconds]]:
        """Takes out the keys that are due, by namespace, each with the instant at which it was due."""
        out: dict[str, dict[Key, Nanoseconds]] = defaultdict(dict)
        while (at := self.next_at()) is not None and at <= now:
            _, key = heappop(self._heap)
            del self._at[key]
            out[key[0]][key] = at
        return out


def following(name: str, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """The first instant after `now` on the grid of this period that belongs to a name, such as a namespace's."""
    # Spread over the whole period: of 100 namespaces, 12 would share one of its 15 full seconds.
    phase = zlib.crc32(name.encode()) * period >> 32
    return now - (now - phase) % period + period
