"""
One list of pod metrics at a time for each namespace.

A turn that waits for the processor holds the list that it reads: a megabyte for a thousand pods. At an edge that all
objects share, turns begin faster than they end, and thousands of them held a thousand lists of the same pods. So an
object that becomes due while turns of its namespace hold a list waits for their end, and then shares the next list with
all others that have waited.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cronhpa.core.instant import Nanoseconds
from cronhpa.operator.delaying_queue import Key

# A list may hang. Objects that wait for it begin after this time all the same: an edge must not wait for the deadlines
# of two requests.
_WAIT_SECONDS = 5.0


class HeldLists:
    """put(key, due_at) makes a key due that has waited since `due_at`; has_new() is called after the last of them."""

    def __init__(self, put: Callable[[Key, Nanoseconds], None], has_new: Callable[[], None]) -> None:
        self._put = put
        self._has_new = has_new
        self._turns: Counter[str] = Counter()
        # When the newest of these turns began, by the event loop's clock.
        self._since: dict[str, float] = {}
        self._waiting: dict[str, dict[Key, Nanoseconds]] = {}
        # When each namespace in which a key waits is let go at the latest.
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @contextmanager
    def holding(self, namespace: str) -> Iterator[None]:
        """Around turns that hold a list of a namespace's pod metrics."""
        self._turns[namespace] += 1
        self._since[namespace] = asyncio.get_running_loop().time()
        try:
            yield
        finally:
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
        """What is due in a namespace, with what has waited if it need not wait any more: it would wait for these."""
        if namespace not in self._waiting or self.is_held(namespace):
            return due
        return {**due, **self._taken(namespace)}

    def drop(self, key: Key) -> None:
        """A key that waits, if it does, is gone or begins in another way."""
        self._waiting.get(key[0], {}).pop(key, None)

    def clear(self) -> None:
        """No key waits any more: all of them are due, by a clock that was set."""
        for namespace in [*self._waiting]:
            self._taken(namespace)

    def _let_go(self, namespace: str) -> None:
        if waiting := self._taken(namespace):
            for key, due_at in waiting.items():
                self._put(key, due_at)
            self._has_new()

    def _taken(self, namespace: str) -> dict[Key, Nanoseconds]:
        """The keys that have waited, which do not wait any more."""
        timer = self._timers.pop(namespace, None)
        if timer is not None:
            timer.cancel()
        return self._waiting.pop(namespace, {})
