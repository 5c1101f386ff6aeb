"""
Places for concurrent writes, by urgency over all namespaces: at a shared edge scale writes come before reports.

An API server has no priorities: a scale write behind 60 status writes waits for all of them. So reports get few places
while there are scale writes, and events wait for a moment without one. If scale writes never end, reports get all
places from time to time, until no report waits.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from math import inf

# Concurrent writes in total, and in one namespace, so that hanging writes of one namespace leave room for others.
_CONCURRENT = 64
_CONCURRENT_IN_NAMESPACE = 16
# Objects of one period have ten or more phases: after this time without a scale write, a shared step is over.
_BUSY_SECONDS = 1.0
# Concurrent reports during scale writes: in total, and of one namespace, whose writes may hang.
_BESIDE = 8
_BESIDE_IN_NAMESPACE = 2
# In a large fleet there is always some scale write, so reports must not wait for its end: to the liveness probe, a
# status that waits for three minutes looks like a hanging process.
_HELD_BACK_SECONDS = 10.0


class Urgency(IntEnum):
    """The purpose of a write; a lower number is more urgent."""

    SCALE_UP = 0
    SCALE_DOWN = 1
    SCALED_STATUS = 2
    """A restart needs to know of a step."""
    STATUS = 3


class WritePlaces:
    """
    A bounded number of places in total and for each namespace, so that hanging writes of one leave room for others.

    A free place goes to the most urgent waiting write whose namespace has room; among equals to the first.
    """

    def __init__(self, total: int = _CONCURRENT, in_namespace: int = _CONCURRENT_IN_NAMESPACE) -> None:
        self._free = total
        self._in_namespace = in_namespace
        self._numbers = count()
        self._taken: dict[str, int] = defaultdict(int)
        # The places that reports have taken.
        self._reports: dict[str, int] = defaultdict(int)
        # The waiting writes by namespace: (urgency, number, future).
        self._waiting: dict[str, list[tuple[int, int, asyncio.Future[None]]]] = {}
        # (urgency, number, namespace): the first in line of each namespace that has room, and outdated entries.
        self._next: list[tuple[int, int, str]] = []
        # When the last scale write got its place, and the timer after which it holds reports back no longer.
        self._scaled_at = -inf
        self._waiting_reports = 0
        # Since when reports have been held back, None once none waits.
        self._held_back_since: float | None = None
        self._call: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def place(
        self, namespace: str, urgency: Urgency, on_wait: Callable[[], None] = lambda: None
    ) -> AsyncIterator[None]:
        """A place among the writes. on_wait: called before a wait, and not where there is a place at once."""
        await self._take(namespace, urgency, on_wait)
        try:
            yield
        finally:
            self._give_back(namespace, urgency)

    async def calm(self, within: float) -> None:
        """Returns in a moment without scale writes, at the latest after `within` seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        while (now := loop.time()) < min(until, self._busy_until):  # noqa: ASYNC110 - the end moves with each write
            await asyncio.sleep(min(until, self._busy_until) - now)

    async def _take(self, namespace: str, urgency: Urgency, on_wait: Callable[[], None]) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting.setdefault(namespace, []), (urgency, next(self._numbers), granted))
        if _is_report(urgency):
            self._waiting_reports += 1
        self._line_up(namespace)
        self._grant()
        try:
            if not granted.done():
                on_wait()
            await granted
        except BaseException:
            granted.cancel()
            if granted.cancelled():
                if _is_report(urgency):
                    self._note_report_went()
                self._line_up(namespace)
                self._grant()
            else:
                self._give_back(namespace, urgency)
            raise

    def _give_back(self, namespace: str, urgency: int) -> None:
        self._free += 1
        for taken in (self._taken, self._reports) if _is_report(urgency) else (self._taken,):
            taken[namespace] -= 1
            if not taken[namespace]:
                del taken[namespace]
        self._line_up(namespace)
        self._grant()

    def _line_up(self, namespace: str) -> None:
        """Queues the first waiting write of a namespace, if the namespace has room."""
        waiting = self._waiting.get(namespace, [])
        while waiting and waiting[0][2].done():  # cancelled
            heappop(waiting)
        if not waiting:
            self._waiting.pop(namespace, None)
        elif self._taken.get(namespace, 0) < self._in_namespace:
            heappush(self._next, (*waiting[0][:2], namespace))

    def _grant(self) -> None:
        held_back: list[tuple[int, int, str]] = []
        while self._free and self._next:
            urgency, number, namespace = heappop(self._next)
            if held_back and held_back[-1] == (urgency, number, namespace):
                continue  # a duplicate: the first write is queued again with each later one of its namespace
            waiting = self._waiting.get(namespace)
            is_first = waiting and waiting[0][:2] == (urgency, number) and not waiting[0][2].done()
            if not waiting or not is_first or self._taken.get(namespace, 0) >= self._in_namespace:
                continue  # outdated: the namespace's first write is queued when the namespace has room
            if self._holds_back(urgency, namespace):
                held_back.append((urgency, number, namespace))
                if sum(self._reports.values()) >= _BESIDE:
                    break  # the others are reports, too
                continue
            heappop(waiting)[2].set_result(None)
            self._free -= 1
            self._taken[namespace] += 1
            if _is_report(urgency):
                self._reports[namespace] += 1
                self._note_report_went()
            else:
                self._scaled_at = asyncio.get_running_loop().time()
            self._line_up(namespace)
        for entry in held_back:
            heappush(self._next, entry)
        if held_back and self._held_back_since is None:
            self._held_back_since = asyncio.get_running_loop().time()
        if held_back and self._call is None:
            self._call = asyncio.get_running_loop().call_at(self._busy_until, self._go_on)

    def _note_report_went(self) -> None:
        self._waiting_reports -= 1
        if not self._waiting_reports:
            self._held_back_since = None

    def _holds_back(self, urgency: int, namespace: str) -> bool:
        """Whether a report has to wait for scale writes, although there is a free place."""
        now = asyncio.get_running_loop().time()
        if not _is_report(urgency) or now >= self._busy_until:
            return False
        if self._held_back_since is not None and now - self._held_back_since >= _HELD_BACK_SECONDS:
            return False
        return sum(self._reports.values()) >= _BESIDE or self._reports.get(namespace, 0) >= _BESIDE_IN_NAMESPACE

    @property
    def is_busy(self) -> bool:
        """Whether scale writes hold reports back."""
        return asyncio.get_running_loop().time() < self._busy_until

    @property
    def _busy_until(self) -> float:
        """Until when scale writes hold reports back; a scale write that hangs does so no longer than this."""
        return self._scaled_at + _BUSY_SECONDS

    def _go_on(self) -> None:
        self._call = None
        self._grant()


def _is_report(urgency: int) -> bool:
    return urgency >= Urgency.SCALED_STATUS
