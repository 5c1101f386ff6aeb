"""
A recorded load on the operator's grid, and the part of it that was known at any step.

A point belongs to the minute that ends at or after it: the point of 12:00 belongs to the minute before noon and is
known at noon. Imports numpy: for workers, backtests and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Floats
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, KnownLoad, RecentLoad
from cronhpa.history.database.series import MINUTES_KEPT, STEP, STEPS_KEPT
from cronhpa.history.load.packing import STEPS_PER_DAY

# The share of a span's minutes that must be known; with fewer, most forecasts would lack their newest minute.
_MINUTES_KNOWN = 0.9


@dataclass(frozen=True)
class Recording:
    """A load on a grid that begins at `begin`, NaN for a gap."""

    begin: Nanoseconds
    steps: Floats
    """Maxima of five minutes."""
    minutes: Floats | None = None
    """Maxima of single minutes; None if too few were recorded."""
    steps_per_day: int = STEPS_PER_DAY
    """Steps of the recorded calendar."""
    left_out: tuple[Span, ...] = ()
    """Spans of the recorded calendar that no history has; the newest loads have them."""

    @classmethod
    def of(
        cls,
        points: Sequence[tuple[Nanoseconds, float]],
        span: Span,
        ignored: Sequence[Span] = (),
        left_out: Sequence[Span] = (),
    ) -> Recording:
        """
        The recording of points in order; by the minute if almost every minute of the span was recorded.

        ignored: spans that nothing has.
        """
        begin = (points[0][0] - 1 if points else span.begin) // STEP * STEP
        count = -(-(max(span.end, points[-1][0] if points else begin) - begin) // STEP)
        minutes = np.full(count * MINUTES_PER_STEP, np.nan)
        rows = np.array([(at - 1 - begin) // MINUTE for at, _ in points], np.int64)
        np.fmax.at(minutes, rows, np.array([value for _, value in points]))
        for gap in ignored:
            minutes[max((gap.begin - begin) // MINUTE, 0) : max(-(-(gap.end - begin) // MINUTE), 0)] = np.nan
        # Of several points in a minute one counts.
        recorded = len({(at - 1) // MINUTE for at, _ in points if span.begin <= at < span.end})
        is_by_minute = recorded >= _MINUTES_KNOWN * (span.end - span.begin) // MINUTE
        steps = np.fmax.reduce(minutes.reshape(-1, MINUTES_PER_STEP), axis=1)
        return cls(begin, steps, minutes if is_by_minute else None, left_out=tuple(left_out))

    def row(self, at: Nanoseconds) -> int:
        """The number of the step that begins at or after an instant."""
        return -(-(at - self.begin) // STEP)

    def calendar(self, row: int) -> Nanoseconds:
        """The begin of a step on the recorded calendar, which a benchmark may replay faster."""
        return self.begin + row * DAY // self.steps_per_day

    def history(self, row: int) -> KnownLoad:
        """The history that the operator would have at the begin of a step: 28 days of steps, nine days of minutes."""
        first_step = max(row - _kept(STEPS_KEPT, self.steps_per_day), 0)
        steps = self._learnt(self.steps[first_step:row], first_step, 1)
        steps = steps[np.argmax(~np.isnan(steps)) :] if len(steps) else steps
        if self.minutes is None:
            return KnownLoad(steps, None, self.steps_per_day)
        end = row * MINUTES_PER_STEP
        first = max(end - _kept(MINUTES_KEPT, self.steps_per_day) * MINUTES_PER_STEP, 0)
        minutes = self._learnt(self.minutes[first:end], first, MINUTES_PER_STEP)
        return KnownLoad(steps, minutes, self.steps_per_day)

    def _learnt(self, values: Floats, first: int, per_step: int) -> Floats:
        """Values from the place `first` on, of which a step has `per_step`, with a gap in place of what is left out."""
        if not self.left_out:
            return values
        out, length = values.copy(), DAY // self.steps_per_day // per_step
        for span in self.left_out:
            begin, end = ((at - self.begin) // length - first for at in (span.begin, span.end + length - 1))
            out[max(begin, 0) : max(end, 0)] = np.nan
        return out

    def since(self, row: int, until: int) -> RecentLoad:
        """The load from the begin of step `row` to the begin of step `until`, for a fit at the begin of `row`."""
        steps = self.steps[row:until]
        if self.minutes is None:
            return RecentLoad(steps)
        first = row * MINUTES_PER_STEP - RUN_UP_MINUTES
        minutes = self.minutes[max(first, 0) : until * MINUTES_PER_STEP]
        return RecentLoad(steps, np.concatenate([np.full(max(-first, 0), np.nan), minutes]))


def _kept(span: Nanoseconds, steps_per_day: int) -> int:
    return span // DAY * steps_per_day
