"""
Limits the requests to a metrics API that hangs: few are under way, the others fail at once.

A metrics API that hangs keeps each request until its deadline of 15 s. Of a thousand objects the last one would be
decided minutes late, windows included. So only a few requests are under way at a time

- of queries whose own last request has hung; no namespace has all of these places;
- of the other queries of a namespace, once several of them in a row have hung, until one is answered;
- of all other queries, once several in a row have hung, of several namespaces, until any is answered.

Those that hang thus leave the places of those that are answered, and a namespace whose queries hang has none of
another namespace's refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

from cronhpa.core.model.observation import Absent
from cronhpa.ports.fair_places import FairPlaces

T = TypeVar("T")

# A request that takes longer and ends without metrics has hung.
_HANGS_SECONDS = 5.0
# So many in a row mean that not some queries hang, but all of a namespace; or the API, for which no namespace counts
# more than three times.
_HUNG_MAX, _HUNG_OF_ONE = 8, 3
# The requests of each kind that are under way then: enough to notice an answer in each period.
PROBES = 8
_PROBES_OF_ONE = 6
# For so long a query that hung waits for one of these places, if one may become free.
_PROBE_WAIT_SECONDS = 5.0
# Bounds what is kept of queries that are gone.
_QUERIES_KEPT = 10_000


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
        # The queries whose own last request has hung.
        self._hanging: set[tuple[str, Hashable]] = set()
        # How many came to them, by namespace: since any answer, until they say that the API hangs; and since an answer
        # of the namespace.
        self._hung_since_any: Counter[str] = Counter()
        self._hung_in_a_row: Counter[str] = Counter()
        self._api_hangs = False
        # The requests under way of other queries, by namespace.
        self._under_way: Counter[str] = Counter()
        self._probes = FairPlaces(PROBES, _PROBES_OF_ONE, _HANGS_SECONDS)
        # The namespaces all of whose queries hang, or whose last probe hung or found no place: probes do not wait.
        self._in_vain: set[str] = set()

    async def ask(
        self,
        namespace: str,
        query: Hashable,
        place: AbstractAsyncContextManager[None],
        send: Callable[[], Awaitable[T]],
    ) -> T | Absent:
        """
        The answer of a request, or at once why none is sent.

        query: of all that the namespace asks. place: what the request waits for, and holds while it is under way;
        whoever waits there is refused once the requests before have hung. A query that hung when it was sent last
        waits for a place of its kind instead.
        """
        if (namespace, query) in self._hanging:
            return await self._probe(namespace, query, send)
        async with place:
            is_full = self._under_way[namespace] >= PROBES and self._hung_in_a_row[namespace] >= _HUNG_MAX
            is_full |= self._api_hangs and self._under_way.total() >= PROBES
            if is_full or (namespace, query) in self._hanging:
                return self._refusal
            self._under_way[namespace] += 1
            try:
                return await self._send(namespace, query, send)
            finally:
                self._under_way[namespace] -= 1
                if not self._under_way[namespace]:
                    del self._under_way[namespace]

    async def _probe(self, namespace: str, query: Hashable, send: Callable[[], Awaitable[T]]) -> T | Absent:
        """The answer to a query that hung when it was sent last. Once one is answered, the others wait for a place."""
        wait_seconds = 0.0 if self._api_hangs or namespace in self._in_vain else _PROBE_WAIT_SECONDS
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._probes.place(namespace, wait_seconds))
            except TimeoutError:
                self._in_vain.add(namespace)
                return self._refusal
            return await self._send(namespace, query, send)

    async def _send(self, namespace: str, query: Hashable, send: Callable[[], Awaitable[T]]) -> T | Absent:
        self.sent += 1
        begun = asyncio.get_running_loop().time()
        answer = await send()
        if not isinstance(answer, Absent) or asyncio.get_running_loop().time() - begun < _HANGS_SECONDS:
            self._api_hangs = False
            self._hung_since_any.clear()
            self._hung_in_a_row.pop(namespace, None)
            if (namespace, query) in self._hanging:
                self._hanging.remove((namespace, query))
                self._in_vain.discard(namespace)
        elif (namespace, query) in self._hanging:
            self._in_vain.add(namespace)
        else:
            if len(self._hanging) >= _QUERIES_KEPT:
                self._hanging.clear()
                self._hung_in_a_row.clear()
                self._in_vain.clear()
            self._hanging.add((namespace, query))
            self._hung_in_a_row[namespace] += 1
            if self._hung_in_a_row[namespace] >= _HUNG_MAX:
                self._in_vain.add(namespace)
            if not self._api_hangs:
                self._hung_since_any[namespace] += 1
                counted = sum(min(count, _HUNG_OF_ONE) for count in self._hung_since_any.values())
                self._api_hangs = counted >= _HUNG_MAX
        return answer
