"""The lag of decisions: a histogram whose buckets grow by half, fine enough to estimate percentiles."""

from __future__ import annotations

from bisect import bisect_left

from cronhpa.core.instant import MILLISECOND, Nanoseconds

# 5 ms, 7.5 ms and so on up to 56 s.
BOUNDS = tuple(round(5 * MILLISECOND * 1.5**power) for power in range(24))


class LagHistogram:
    """counts: by bucket, the lags above the former bound and up to this one of BOUNDS; last, all longer lags."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total: Nanoseconds = 0

    def note(self, lag: Nanoseconds, times: int = 1) -> None:
        """Counts a lag `times` times; a negative lag (the clock stepped back) counts as 0."""
        lag = max(lag, 0)
        self.counts[bisect_left(BOUNDS, lag)] += times
        self.total += lag * times
