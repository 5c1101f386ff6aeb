"""Places for concurrent writes, given by urgency over all namespaces: at a shared edge reports give way to scalings."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count


class WritePlaces:
    """
    So many places in all, and so many in one namespace, so that hanging writes of one leave room for the others.

    A place that becomes free goes to the most urgent of those who wait and whose namespace has room; among equals to
    the first. A lower number is more urgent.
    """

    def __init__(self, total: int, in_namespace: int) -> None:
        self._free = total
        self._in_namespace = in_namespace
        self._numbers = count()
        self._taken: dict[str, int] = defaultdict(int)
        # Who waits, by namespace: (urgency, number, future).
        self._waiting: dict[str, list[tuple[int, int, asyncio.Future[None]]]] = {}
        # (urgency, number, namespace): the first in line of each namespace that has room, and outdated entries.
        self._next: list[tuple[int, int, str]] = []

    @asynccontextmanager
    async def place(self, namespace: str, urgency: int) -> AsyncIterator[None]:
        """A place among the writes."""
        await self._take(namespace, urgency)
        try:
            yield
        finally:
            self._give_back(namespace)

    async def _take(self, namespace: str, urgency: int) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting.setdefault(namespace, []), (urgency, next(self._numbers), granted))
        self._line_up(namespace)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._line_up(namespace)
                self._grant()
            else:
                self._give_back(namespace)
            raise

    def _give_back(self, namespace: str) -> None:
        self._free += 1
        self._taken[namespace] -= 1
        if not self._taken[namespace]:
            del self._taken[namespace]
        self._line_up(namespace)
        self._grant()

    def _line_up(self, namespace: str) -> None:
        """Puts the first of a namespace in line with those of the others, if it has room."""
        waiting = self._waiting.get(namespace, [])
        while waiting and waiting[0][2].done():  # cancelled
            heappop(waiting)
        if not waiting:
            self._waiting.pop(namespace, None)
        elif self._taken.get(namespace, 0) < self._in_namespace:
            heappush(self._next, (*waiting[0][:2], namespace))

    def _grant(self) -> None:
        while self._free and self._next:
            urgency, number, namespace = heappop(self._next)
            waiting = self._waiting.get(namespace)
            is_first = waiting and waiting[0][:2] == (urgency, number) and not waiting[0][2].done()
            if not waiting or not is_first or self._taken.get(namespace, 0) >= self._in_namespace:
                continue  # outdated: the first of that namespace is lined up when it has room
            heappop(waiting)[2].set_result(None)
            self._free -= 1
            self._taken[namespace] += 1
            self._line_up(namespace)
