"""How late decisions are: a histogram whose buckets grow by half, fine enough to read a percentile off it."""

from __future__ import annotations

from bisect import bisect_left

from cronhpa.core.instant import MILLISECOND, Nanoseconds

# 5 ms, 7.5 ms and so on up to 56 s.
BOUNDS = tuple(round(5 * MILLISECOND * 1.5**power) for power in range(24))


class LagHistogram:
    """counts: of the lags up to each of BOUNDS and above the one before; the last is of all longer ones."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total: Nanoseconds = 0

    def note(self, lag: Nanoseconds, times: int = 1) -> None:
        """Counts a lag that was seen so many times; one below 0 (the clock stepped back) counts as none."""
        lag = max(lag, 0)
        self.counts[bisect_left(BOUNDS, lag)] += times
        self.total += lag * times
