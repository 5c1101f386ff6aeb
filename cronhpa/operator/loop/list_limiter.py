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
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.kube.client import METRIC_READS_AT_ONCE
from cronhpa.operator.objects.object_state import Key

# A list may hang. Objects that wait for it begin after this time all the same: an edge must not wait for the deadlines
# of two requests.
_WAIT_SECONDS = 5.0
# What reconciliations with room wait for may hang, too: others begin after this time all the same.
_ROOM_SECONDS = 5.0


class ListLimiter:
    """put(key, due_at) makes a key due that has waited since `due_at`; has_new() is called after the last of them."""

    def __init__(self, put: Callable[[Key, Nanoseconds], None], has_new: Callable[[], None]) -> None:
        self._put = put
        self._has_new = has_new
        # Nobody waits for room whose list could be sent.
        self._room = asyncio.Semaphore(METRIC_READS_AT_ONCE)
        self._turns: Counter[str] = Counter()
        # When the newest of these reconciliations began, by the event loop's clock.
        self._since: dict[str, float] = {}
        self._waiting: dict[str, dict[Key, Nanoseconds]] = {}
        # When each namespace in which a key waits is let go at the latest.
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @asynccontextmanager
    async def holding(self, namespace: str) -> AsyncIterator[None]:
        """
        Around reconciliations that read a list of a namespace's pod metrics, from before it is sent; waits for room.
        """
        self._turns[namespace] += 1
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
            self._turns[namespace] -= 1
            if not self._turns[namespace]:
                del self._turns[namespace], self._since[namespace]
                self._let_go(namespace)

    def is_held(self, namespace: str) -> bool:
        """Whether an object of a namespace that needs its pod metrics has to wait."""
        since = self._since.get(namespace)
        return since is not None and asyncio.get_running_loop().time() < since + _WAIT_SECONDS

    def wait(self, namespace: str, key: Key, due_at: Nanoseconds) -> None:
        """Puts off a key that was due at an instant, while `is_held`."""
        self._waiting.setdefault(namespace, {}).setdefault(key, due_at)
        if namespace not in self._timers:
            at = self._since[namespace] + _WAIT_SECONDS
            self._timers[namespace] = asyncio.get_running_loop().call_at(at, self._let_go, namespace)

    def with_waiting(self, namespace: str, due: Mapping[Key, Nanoseconds]) -> Mapping[Key, Nanoseconds]:
        """
        `due`, with the keys that wait, unless the list is held: the reconciliations of `due` would make them wait
        again.
        """
        if namespace not in self._waiting or self.is_held(namespace):
            return due
        return {**due, **self._taken(namespace)}

    def drop(self, key: Key) -> None:
        """Forgets a waiting key, which was deleted or whose reconciliation begins in another way."""
        self._waiting.get(key[0], {}).pop(key, None)

    def clear(self) -> None:
        """Forgets all waiting keys: the clock was set, and all of them are due."""
        for namespace in [*self._waiting]:
            self._taken(namespace)

    def _let_go(self, namespace: str) -> None:
        if waiting := self._taken(namespace):
            for key, due_at in waiting.items():
                self._put(key, due_at)
            self._has_new()

    def _taken(self, namespace: str) -> dict[Key, Nanoseconds]:
        """The waiting keys of a namespace, which from now on wait no more."""
        timer = self._timers.pop(namespace, None)
        if timer is not None:
            timer.cancel()
        return self._waiting.pop(namespace, {})
