"""
Limits the LISTs of pod metrics in memory: one for each namespace, as many in all as the client sends at a time.

A reconciliation that waits for the processor holds the LIST that it reads: a megabyte for a thousand pods. At an edge
that all objects share, reconciliations begin faster than they end, and thousands of them held a thousand LISTs. So

- an object that becomes due while its namespace holds a LIST waits for its end, and then shares the next LIST with all
  others that have waited;
- namespaces beyond the limit wait before their LIST is sent, first come first served.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from cronhpa.kube.client import METRIC_READS_AT_ONCE

# A list may hang. Objects that wait for it begin after this time all the same: an edge must not wait for the deadlines
# of two requests.
_WAIT_SECONDS = 5.0
# What reconciliations with room wait for may hang, too: others begin after this time all the same.
_ROOM_SECONDS = 5.0


class ListLimiter:
    def __init__(self) -> None:
        # Nobody waits for room whose list could be sent.
        self._room = asyncio.Semaphore(METRIC_READS_AT_ONCE)
        self._holders: Counter[str] = Counter()
        # When the newest of them began, by the event loop's clock.
        self._since: dict[str, float] = {}

    @asynccontextmanager
    async def holding(self, namespace: str) -> AsyncIterator[None]:
        """
        Around reconciliations that read a list of a namespace's pod metrics, from before it is sent; waits for room.
        """
        self._holders[namespace] += 1
        self._since[namespace] = asyncio.get_running_loop().time()
        has_room = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROOM_SECONDS):
                    has_room = await self._room.acquire()
            yield
        finally:
            if has_room:
                self._room.release()
            self._holders[namespace] -= 1
            if not self._holders[namespace]:
                del self._holders[namespace], self._since[namespace]

    def wait_seconds(self, namespace: str) -> float:
        """For how long an object of a namespace that needs its pod metrics waits at most; 0 if no list is held."""
        since = self._since.get(namespace)
        return 0.0 if since is None else max(since + _WAIT_SECONDS - asyncio.get_running_loop().time(), 0.0)
