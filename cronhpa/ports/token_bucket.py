"""Token buckets: so many requests at once after a pause, and so many a second from then on."""

from __future__ import annotations

from msgspec import Struct

# Buckets that are remembered. A bucket that is forgotten is full again.
_BUCKETS_MAX = 4096


class Pace(Struct, frozen=True):
    """The pace of requests."""

    per_second: float
    burst: float
    """Requests at once after a pause."""


class TokenBucket:
    """One bucket. `now` is in seconds of a monotonic clock."""

    __slots__ = ("_at", "_pace", "_tokens")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._tokens, self._at = pace.burst, 0.0

    def left(self, now: float) -> float:
        """The requests that may be sent now."""
        if now > self._at:
            self._tokens = min(self._tokens + (now - self._at) * self._pace.per_second, self._pace.burst)
            self._at = now
        return self._tokens

    def take(self, now: float) -> bool:
        """Whether a request may be sent now; it counts if so."""
        if self.left(now) < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float) -> float:
        """Counts a request, and returns in how many seconds it may be sent."""
        self._tokens = self.left(now) - 1
        return max(-self._tokens / self._pace.per_second, 0.0)


class TokenBuckets:
    """A bucket for each key, all of one pace."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        # The one that was used last stands last.
        self._buckets: dict[str, TokenBucket] = {}

    def left(self, key: str, now: float) -> float:
        return self._of(key).left(now)

    def take(self, key: str, now: float) -> bool:
        return self._of(key).take(now)

    def _of(self, key: str) -> TokenBucket:
        bucket = self._buckets.pop(key, None) or TokenBucket(self._pace)
        self._buckets[key] = bucket
        while len(self._buckets) > _BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
        return bucket
