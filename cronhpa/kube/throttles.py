"""
Requests that the API server wants later: it answered 429 (priority and fairness), or 503 with Retry-After.

Each method and path is throttled by itself, so that one that has to wait delays no other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from msgspec import Struct

from cronhpa.kube.errors import ClusterError

# A server that asks for no pause must not be queried in a busy loop.
_LEAST_SECONDS = 0.5
# The first pause if the server does not say how long; each later one is twice as long.
_FIRST_SECONDS = 1.0
_DOUBLINGS = 5
_KEPT = 4096

_Key = tuple[str, str]


class _Throttle(Struct):
    until: float
    times: int
    error: ClusterError


class Throttles:
    """
    path: with its query, where others ask for something else at the same path, as for a metric of another selector.

    seconds_max: the longest pause of a path, whatever the server says: a broken server must not silence the operator.

    `now` is in seconds of the event loop's clock.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._throttled: dict[_Key, _Throttle] = {}

    def __len__(self) -> int:
        return len(self._throttled)

    def seconds(self, method: str, path: str, now: float) -> float:
        """For how long this request must wait; 0 for one that may be sent."""
        throttle = self._throttled.get((method, path))
        return 0.0 if throttle is None else max(throttle.until - now, 0.0)

    @contextmanager
    def request(self, method: str, path: str) -> Iterator[None]:
        """
        Around a request. Raises ClusterError for one that must wait; a refusal states how long the next one must wait.

        Nothing waits here: what was decided would be old when it is sent, and whoever waits holds a place that others
        need. The next reconciliation decides anew.
        """
        clock = asyncio.get_running_loop().time
        if seconds := self.seconds(method, path, clock()):
            error = self._throttled[method, path].error
            # As it was refused: another text would be another status.
            raise ClusterError(error.status, error.reason, error.message, retry_after=seconds)
        try:
            yield
        except ClusterError as error:
            self.note(method, path, error, clock())
            # Also where the server does not say how long.
            error.retry_after = self.seconds(method, path, clock()) or None
            raise
        self._throttled.pop((method, path), None)

    def note(self, method: str, path: str, error: ClusterError, now: float) -> None:
        """Notes a request that failed."""
        key = (method, path)
        before = self._throttled.pop(key, None)
        if error.status != HTTPStatus.TOO_MANY_REQUESTS and error.retry_after is None:
            return
        times = 0 if before is None else before.times
        seconds = error.retry_after
        if seconds is None:
            jitter = 0.5 + random.random() / 2  # noqa: S311 - jitter, no secret
            seconds = _FIRST_SECONDS * 2 ** min(times, _DOUBLINGS) * jitter
        self._make_room(now)
        seconds = max(_LEAST_SECONDS, min(seconds, self._seconds_max))
        # Another one that is never raised: a traceback keeps what each caller held.
        kept = ClusterError(error.status, error.reason, error.message)
        self._throttled[key] = _Throttle(now + seconds, times + 1, kept)

    def _make_room(self, now: float) -> None:
        if len(self._throttled) < _KEPT:
            return
        for key in [key for key, throttle in self._throttled.items() if throttle.until <= now]:
            del self._throttled[key]
        while len(self._throttled) >= _KEPT:
            del self._throttled[next(iter(self._throttled))]


def retry_after(status: int, header: str | None) -> float | None:
    """The seconds of a Retry-After header; None without one, and with a status other than 429 and 503."""
    if status not in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE} or header is None:
        return None
    # The API server writes seconds, never a date.
    return float(header) if header.isascii() and header.isdecimal() and len(header) < 10 else None  # noqa: PLR2004 - digits
