"""Counters and times of the control loop, for /metrics and /healthz."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from cronhpa.core.instant import Nanoseconds
from cronhpa.operator.lag import LagHistogram
from cronhpa.operator.object_state import ObjectState


class LoopMetrics(Struct):
    """
    reconciles, errors: counters for /metrics. last_tick: when the loop ran last, for /healthz.
    tick_duration: of the last group of reconciliations. lag, write_lag: from the instant at which an object was due to
    its decision, and to the end of its writes. duration: of a decision, including the answers for which it waits.
    """

    reconciles: int = 0
    errors: int = 0
    last_tick: Nanoseconds = 0
    tick_duration: Nanoseconds = 0
    lag: LagHistogram = field(default_factory=LagHistogram)
    write_lag: LagHistogram = field(default_factory=LagHistogram)
    duration: LagHistogram = field(default_factory=LagHistogram)


def note_lags(histogram: LagHistogram, states: Sequence[ObjectState], now: Nanoseconds) -> None:
    """Counts the lags of these objects at `now`; objects that were due at the same instant are counted together."""
    for due_at, times in Counter(state.due.at for state in states).items():
        histogram.note(now - due_at, times)
