"""Counters and times of the control loop, for /metrics and /healthz."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from cronhpa.core.model.instant import MILLISECOND, Nanoseconds
from cronhpa.operator.objects.object_state import ObjectState

# 5 ms, 7.5 ms and so on up to 56 s.
BOUNDS = tuple(round(5 * MILLISECOND * 1.5**power) for power in range(24))


class LagHistogram:
    """How late decisions are: buckets that grow by half are fine enough to estimate percentiles."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """By bucket, the lags above the former bound and up to this one of BOUNDS; last, all longer lags."""
        self.total: Nanoseconds = 0

    def note(self, lag: Nanoseconds, times: int = 1) -> None:
        """Counts a lag `times` times; a negative lag (the clock stepped back) counts as 0."""
        lag = max(lag, 0)
        self.counts[bisect_left(BOUNDS, lag)] += times
        self.total += lag * times


class LoopMetrics(Struct):
    """What the loop counts of itself."""

    reconciles: int = 0
    errors: int = 0
    """Counters for /metrics."""
    last_tick: Nanoseconds | None = None
    """When the loop ran last, for /healthz; None while it does not run, as in a replica that waits for the Lease."""
    tick_duration: Nanoseconds = 0
    """Duration of the last group of reconciliations."""
    lag: LagHistogram = field(default_factory=LagHistogram)
    """From the instant at which an object was due to its decision."""
    write_lag: LagHistogram = field(default_factory=LagHistogram)
    """From the instant at which an object was due to the end of its writes."""
    duration: LagHistogram = field(default_factory=LagHistogram)
    """Duration of a decision, including the answers for which it waits."""


def note_lags(histogram: LagHistogram, states: Sequence[ObjectState], now: Nanoseconds) -> None:
    """Counts the lags of these objects at `now`; objects that were due at the same instant are counted together."""
    for due_at, times in Counter(state.due.at for state in states).items():
        histogram.note(now - due_at, times)
