"""
Limits the requests to a metrics API that hangs: few are under way, the others fail at once.

A metrics API that hangs keeps each request until its deadline of 15 s. Of a thousand objects the last one would be
decided minutes late, windows included. So only a few requests are under way at a time

- of keys whose own last request has hung;
- of the others, once several requests in a row have hung, until one is answered.

Those that hang thus leave the places of those that are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from cronhpa.core.model.observation import Absent
from cronhpa.kube.client import METRIC_READS_AT_ONCE

T = TypeVar("T")

# A request that takes longer and ends without metrics has hung.
_HANGS_SECONDS = 5.0
# So many in a row mean that the API hangs, and not some keys alone.
_HUNG_MAX = 8
# The requests of each of the two kinds that are under way then: enough to notice an answer in each period.
_PROBES = 8
# Bounds what is kept of keys that are gone.
_KEYS_KEPT = 10_000


class HangLimiter:
    """api: resource, custom or external. sent: the number of requests sent."""

    def __init__(self, api: str) -> None:
        self.sent = 0
        # Without the names of other namespaces: tenants read it in their objects' conditions.
        self._refusal = Absent(
            "Unreachable",
            f"unable to fetch metrics from {api} metrics API: "
            f"the last requests were not answered within {_HANGS_SECONDS:.0f} s",
        )
        # Those of the client, but whoever waits here is refused once the requests before it have hung.
        self._places = asyncio.Semaphore(METRIC_READS_AT_ONCE)
        # The requests that have hung since the last answer, and the keys whose own last one has.
        self._hung = 0
        self._hanging: set[Hashable] = set()
        # The requests under way, by whether they are of such a key.
        self._under_way = [0, 0]

    async def ask(self, key: Hashable, send: Callable[[], Awaitable[T]]) -> T | Absent:
        """The answer of a request, or at once why none is sent."""
        async with self._places:
            hangs = key in self._hanging
            if self._under_way[hangs] >= _PROBES and (hangs or self._hung >= _HUNG_MAX):
                return self._refusal
            self.sent += 1
            self._under_way[hangs] += 1
            begun = asyncio.get_running_loop().time()
            try:
                answer = await send()
            finally:
                self._under_way[hangs] -= 1
            if isinstance(answer, Absent) and asyncio.get_running_loop().time() - begun >= _HANGS_SECONDS:
                self._hung += 1
                if len(self._hanging) >= _KEYS_KEPT:
                    self._hanging.clear()
                self._hanging.add(key)
            else:
                self._hung = 0
                self._hanging.discard(key)
            return answer
