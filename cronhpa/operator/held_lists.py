"""
The lists of pod metrics that turns hold: one at a time for each namespace, and those of a thousand turns in all.

A turn that waits for the processor holds the list that it reads: a megabyte for a thousand pods. At an edge that all
objects share, turns begin faster than they end, and thousands of them held a thousand lists. So

- an object that becomes due while turns of its namespace hold a list waits for their end, and then shares the next list
  with all others that have waited;
- turns of more namespaces wait before their list is sent, first come first served.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.kube.metrics import PodMetricsByName
from cronhpa.operator.delaying_queue import Key

# A list may hang. Objects that wait for it begin after this time all the same: an edge must not wait for the deadlines
# of two requests.
_WAIT_SECONDS = 5.0
# The turns that hold lists at a time, of more than one namespace: so many are decided in a second or two.
_TURNS_MAX = 1_000
# A list that takes longer than this to come keeps nobody out: a metrics server that hangs must not delay windows. Where
# the processor is busy, a list takes a second.
_COMES_SECONDS = 3.0


class HeldLists:
    """put(key, due_at) makes a key due that has waited since `due_at`; has_new() is called after the last of them."""

    def __init__(self, put: Callable[[Key, Nanoseconds], None], has_new: Callable[[], None]) -> None:
        self._put = put
        self._has_new = has_new
        self._room = _Room(_TURNS_MAX)
        self._turns: Counter[str] = Counter()
        # When the newest of these turns began, by the event loop's clock.
        self._since: dict[str, float] = {}
        self._waiting: dict[str, dict[Key, Nanoseconds]] = {}
        # When each namespace in which a key waits is let go at the latest.
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @asynccontextmanager
    async def place(self, namespace: str, turns: int) -> AsyncIterator[HeldList]:
        """Around so many turns of a namespace that read one list of its pod metrics; waits for room for them."""
        with self._holding(namespace):
            await self._room.enter(turns)
            held = HeldList(self._room, turns)
            try:
                self._since[namespace] = asyncio.get_running_loop().time()
                yield held
            finally:
                held.leave()

    @contextmanager
    def _holding(self, namespace: str) -> Iterator[None]:
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
        """`due`, with the keys that wait, unless the list is held: the turns of `due` would make them wait again."""
        if namespace not in self._waiting or self.is_held(namespace):
            return due
        return {**due, **self._taken(namespace)}

    def drop(self, key: Key) -> None:
        """Forgets a waiting key, which was deleted or whose turn begins in another way."""
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


class HeldList:
    """The place of turns that read one list, from before it is sent to the last of them."""

    def __init__(self, room: _Room, turns: int) -> None:
        self._room = room
        self._turns = turns
        self._has_room = True

    async def listed(self, listing: Awaitable[PodMetricsByName | Absent]) -> PodMetricsByName | Absent:
        """The list, once it has come. The place is free for others while it hangs, and where there is none."""
        coming = asyncio.ensure_future(listing)
        try:
            done, _ = await asyncio.wait({coming}, timeout=_COMES_SECONDS)
            if not done:
                self.leave()
            listed = await coming
        finally:
            coming.cancel()
        if isinstance(listed, Absent):
            self.leave()
        elif not self._has_room:
            self._room.take(self._turns)
            self._has_room = True
        return listed

    def leave(self) -> None:
        if self._has_room:
            self._has_room = False
            self._room.leave(self._turns)


class _Room:
    """Room for so many turns at a time; one group of turns always has room."""

    def __init__(self, turns_max: int) -> None:
        self._turns_max = turns_max
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, turns: int) -> None:
        """Takes room for so many turns, after those that wait already."""
        if not self._waiting and self._fits(turns):
            self.take(turns)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turns, granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._grant()  # it may have been the first, and too large
            else:
                self.leave(turns)
            raise

    def take(self, turns: int) -> None:
        """Takes room for so many turns, whether there is any or not."""
        self._taken += turns

    def leave(self, turns: int) -> None:
        self._taken -= turns
        self._grant()

    def _fits(self, turns: int) -> bool:
        return not self._taken or self._taken + turns <= self._turns_max

    def _grant(self) -> None:
        while self._waiting:
            turns, granted = self._waiting[0]
            if not granted.done():
                if not self._fits(turns):
                    return
                self.take(turns)
                granted.set_result(None)
            self._waiting.popleft()
