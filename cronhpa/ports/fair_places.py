"""
Places and turns that keys share: namespaces at a server, callers at the API server, addresses at a port.

- A free place goes to the waiting key that has fewest places; among equals to the key that has waited longest for its
  turn. So a key with a thousand waiting requests delays the first request of another key by one place at most.
- One key has at most `of_one` places, so that another key finds a place at once.
- A key is slow once a request of it keeps its place for `slow_seconds`, until one is quick that ends a minute or more
  after the last slow one. All slow keys together have at most `of_slow` places, so that any number of keys that hang
  leave places for those that are answered.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count

from cronhpa.ports.token_bucket import Pace, TokenBucket

# A key some of whose requests hang must not pass for a fast one in between.
_SLOW_FOR_SECONDS = 60.0
# Slow keys that are remembered.
_SLOW_MAX = 10_000

_Line = tuple[int, deque[asyncio.Future[None]]]


class FairPlaces:
    """A bounded number of concurrent requests, shared out by key. of_one, of_slow: None for `total`, for `of_one`."""

    def __init__(
        self, total: int, of_one: int | None = None, slow_seconds: float = math.inf, of_slow: int | None = None
    ) -> None:
        self._free = total
        self._of_one = total if of_one is None else of_one
        self._of_slow = self._of_one if of_slow is None else of_slow
        self._slow_seconds = slow_seconds
        self._taken: Counter[str] = Counter()
        self._turns = count()
        # The waiting requests by key, each with the number of its turn, in the order of turns: fast keys, slow keys.
        self._fast: dict[str, _Line] = {}
        self._slow: dict[str, _Line] = {}
        # When the last slow request of each slow key ended; the key that was slow last stands last.
        self._slow_at: dict[str, float] = {}

    def waiting(self, key: str) -> int:
        """The number of requests of a key that wait for a place."""
        line = self._fast.get(key) or self._slow.get(key)
        return 0 if line is None else len(line[1])

    @asynccontextmanager
    async def place(self, key: str, wait_seconds: float | None = None) -> AsyncIterator[None]:
        """A place. Raises TimeoutError if none was free for `wait_seconds`; None waits without a limit."""
        async with asyncio.timeout(wait_seconds):
            await self._take(key)
        begun = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._record_speed(key, begun, asyncio.get_running_loop().time())
            self._give_back(key)

    async def _take(self, key: str) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lines = self._lines(key)
        if key not in lines:
            lines[key] = (next(self._turns), deque())
        lines[key][1].append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._leave(key, granted)
            else:
                self._give_back(key)
            raise

    def _lines(self, key: str) -> dict[str, _Line]:
        """Where a key waits, or would wait."""
        if key in self._fast:
            return self._fast
        return self._slow if key in self._slow or key in self._slow_at else self._fast

    def _leave(self, key: str, granted: asyncio.Future[None]) -> None:
        lines = self._lines(key)
        if key in lines:
            requests = lines[key][1]
            with suppress(ValueError):
                requests.remove(granted)
            if not requests:
                del lines[key]

    def _give_back(self, key: str) -> None:
        self._free += 1
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]
        self._grant()

    def _record_speed(self, key: str, begun: float, now: float) -> None:
        if now - begun >= self._slow_seconds:
            self._slow_at.pop(key, None)
            self._slow_at[key] = now
            while len(self._slow_at) > _SLOW_MAX:
                del self._slow_at[next(iter(self._slow_at))]
            if (line := self._fast.pop(key, None)) is not None:
                self._slow[key] = (next(self._turns), line[1])
        elif key in self._slow_at and now - self._slow_at[key] >= _SLOW_FOR_SECONDS:
            del self._slow_at[key]
            if (line := self._slow.pop(key, None)) is not None:
                self._fast[key] = (next(self._turns), line[1])

    def _grant(self) -> None:
        while self._free and (key := self._next()) is not None:
            lines = self._lines(key)
            _, requests = lines.pop(key)
            granted = requests.popleft()
            if requests:
                lines[key] = (next(self._turns), requests)
            if not granted.done():
                self._free -= 1
                self._taken[key] += 1
                granted.set_result(None)

    def _next(self) -> str | None:
        """The key that gets the next free place."""
        first = self._first(self._fast)
        if self._slow and sum(taken for key, taken in self._taken.items() if key in self._slow_at) < self._of_slow:
            first = min(first, self._first(self._slow))
        return first[2] if first[0] < self._of_one else None

    def _first(self, lines: dict[str, _Line]) -> tuple[float, int, str]:
        """(places that it has, turn, key) of the first key; without a key, infinitely many places."""
        first = (math.inf, 0, "")
        for key, (turn, _) in lines.items():
            first = min(first, (self._taken[key], turn, key))
            if not first[0]:
                break  # later keys have a later turn; at most `total` keys have a place
        return first


class FairPace:
    """A bounded number of turns a second, and at once, shared out by key. No turn is refused: it waits."""

    def __init__(self, pace: Pace, at_once: int = 1) -> None:
        self._bucket = TokenBucket(pace)
        self._places = FairPlaces(at_once)

    def waiting(self, key: str) -> int:
        """The number of a key's turns that wait, without those that wait for the pace alone."""
        return self._places.waiting(key)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """A turn; what happens within it counts to those at once."""
        async with self._places.place(key):
            await asyncio.sleep(self._bucket.reserve(asyncio.get_running_loop().time()))
            yield
