"""
The objects by the time at which each is due, and those whose reconciliation is under way, as in client-go's workqueue:
an object that becomes due while it is reconciled is due again at the end.

Each object has its own period. The objects of a namespace share a phase, so that one LIST of pod metrics serves all.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.operator.objects.object_state import Key

_IDLE_ENTRIES = 1000


class DelayingQueue:
    """
    A heap of (instant, namespace), with the keys of each entry: the objects of a namespace are mostly due together.

    Only the earliest instant of each key counts. entries: the number of keys in the heap, including outdated ones.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._heap: list[tuple[Nanoseconds, str]] = []
        self._keys: dict[tuple[Nanoseconds, str], list[Key]] = {}
        self._at: dict[Key, Nanoseconds] = {}
        self.entries = 0
        self.under_way: dict[Key, float] = {}
        """When each reconciliation under way began, or got the place for which it waited; monotonic seconds."""
        # Those of them that are due again at their end.
        self._dirty: set[Key] = set()
        # By namespace, since when each key is due that was postponed.
        self._postponed: dict[str, dict[Key, Nanoseconds]] = {}
        self._has_new = asyncio.Event()

    def put(self, key: Key, at: Nanoseconds) -> None:
        """Makes a key due at `at`, unless it is due earlier already; at its end if it is under way."""
        if key in self.under_way:
            self._dirty.add(key)
        else:
            self.put_together((key,), at)

    def put_together(self, keys: Sequence[Key], at: Nanoseconds) -> None:
        """`put` of keys of one namespace, none of which is under way."""
        due = self._at
        new = [key for key in keys if due.get(key, inf) > at]
        if not new:
            return
        due.update(dict.fromkeys(new, at))
        self._enter(new, at)
        # The entry of a key that was dropped, or made due earlier, stays until its instant.
        if self.entries > _IDLE_ENTRIES + 2 * len(due):
            self._drop_outdated()

    def _enter(self, keys: Sequence[Key], at: Nanoseconds) -> None:
        together = (at, keys[0][0])
        if together not in self._keys:
            self._keys[together] = []
            heappush(self._heap, together)
        self._keys[together] += keys
        self.entries += len(keys)
        self._has_new.set()

    def _drop_outdated(self) -> None:
        self._heap.clear()
        self._keys.clear()
        self.entries = 0
        for key, at in self._at.items():
            self._enter((key,), at)

    def postpone(self, key: Key, due_at: Nanoseconds, until: Nanoseconds) -> None:
        """Lets a key wait that was due at `due_at`: it is due, since then, at `until`, or at `resume`."""
        self._postponed.setdefault(key[0], {})[key] = due_at
        self.put(key, until)

    def resume(self, namespace: str) -> None:
        """Makes the postponed keys of a namespace due."""
        for key, due_at in self._postponed.get(namespace, {}).items():
            self.put(key, due_at)

    def observes(self, key: Key) -> None:
        """Whatever made a key due that is under way is observed from here on."""
        self._dirty.discard(key)

    def begin(self, key: Key) -> None:
        self.under_way[key] = self._monotonic()

    def pause(self, key: Key) -> None:
        """What is under way waits for a place: however long that is, it does not hang."""
        if key in self.under_way:
            self.under_way[key] = inf

    def go_on(self, key: Key) -> None:
        """What is under way has its place, if it waited for one."""
        if self.under_way.get(key) == inf:
            self.begin(key)

    @property
    def oldest_seconds(self) -> float:
        """How long the longest reconciliation under way has taken, without its waits for a place; 0 without one."""
        return max(self._monotonic() - min(self.under_way.values(), default=inf), 0.0)

    def end(self, key: Key) -> bool:
        """Ends what is under way. Returns whether the key became due meanwhile."""
        self.under_way.pop(key, None)
        if key in self._dirty:
            self._dirty.discard(key)
            return True
        return False

    def clear(self) -> None:
        """Forgets what is due; what is under way goes on."""
        self._heap.clear()
        self._keys.clear()
        self._at.clear()
        self._postponed.clear()
        self.entries = 0

    def drop(self, key: Key) -> None:
        self._at.pop(key, None)
        self._postponed.get(key[0], {}).pop(key, None)

    async def wait_until_due(self, now: Nanoseconds, seconds_max: float) -> None:
        """Waits until a key is due, or put, and `seconds_max` at most. An outdated entry ends the wait, too."""
        self._has_new.clear()
        seconds = max(0.0, (self._heap[0][0] - now) / SECOND) if self._heap else seconds_max
        # A timer of its own rather than a timeout: this is done every second of a quiet life.
        timer = asyncio.get_running_loop().call_later(min(seconds, seconds_max), self._has_new.set)
        try:
            await self._has_new.wait()
        finally:
            timer.cancel()

    def pop(self, now: Nanoseconds) -> dict[str, dict[Key, Nanoseconds]]:
        """Removes and returns the keys that are due, by namespace, each with the instant at which it was due."""
        out: dict[str, dict[Key, Nanoseconds]] = defaultdict(dict)
        while self._heap and self._heap[0][0] <= now:
            at, namespace = together = heappop(self._heap)
            keys = self._keys.pop(together)
            self.entries -= len(keys)
            due_since = self._postponed.get(namespace, {})
            for key in keys:
                if self._at.get(key) == at:
                    del self._at[key]
                    out[namespace][key] = due_since.pop(key, at)
            if not due_since:
                self._postponed.pop(namespace, None)
        return out
