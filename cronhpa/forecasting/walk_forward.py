"""
The forecasts that the operator would have had at every instant of a recorded history, each from what was known then.

It plays the history into a store of its own, step by step, and asks the worker that the operator asks, when the
operator would. Imports no numpy itself; the worker does, in the process that calls.
"""

from __future__ import annotations

import importlib.util
from collections import Counter, deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, MINUTE, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.spec import Span
from cronhpa.forecasting.messages import ForecastTarget, WorkerRequest, digest
from cronhpa.forecasting.refit_schedule import due
from cronhpa.forecasting.service import WORKER_NEEDS
from cronhpa.history.database import (
    MINUTE_ROWS_KEPT,
    STEP,
    STEPS_KEPT,
    Fault,
    FitInfo,
    LoadSample,
    Series,
    Spend,
    Store,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpa.core.predictive.budget_tracker import BudgetTracker

Answer = Forecast | Absent
# Before the span it learns once a day, as an operator that has run for a while: each day is tried by its single minutes
# once it is over, while they are known. Who begins with the span knows a week by maxima of five minutes alone.
_WARM_UP: Nanoseconds = 7 * DAY
# Of the minutes of a span; fewer, and most forecasts would be made without a newest minute.
_MINUTES_KNOWN = 0.9


class NotInstalledError(Exception):
    """What the worker needs is not there."""


class WalkForward:
    """
    Called with an instant, the newest answer issued at or before it; the instants come in order.

    `with` keeps its store, which the past is played into as time goes on. answers: those issued so far.
    """

    def __init__(
        self,
        points: Sequence[tuple[Nanoseconds, float]],
        subject: ForecastTarget,
        span: Span,
        *,
        delay: Nanoseconds = 0,
        meter: BudgetTracker | None = None,
    ) -> None:
        """
        A forecast for every minute in `span`, as an operator makes one that has run for a week, `delay` after the
        minute's start; where fewer than a point a minute was recorded, for every step of five minutes.

        points: the load as it was recorded, in order; also from before the span: that is what is learnt from.
        delay: how long it takes until a load is measured; nothing younger is known to a forecast.
        meter: what the forecasts are found to cost, which the next selection takes into account.
        Raises NotInstalledError without numpy. Raised later: StoreError and OSError where there is no room for a
        store of a few MB.
        """
        missing = [name for name in WORKER_NEEDS if importlib.util.find_spec(name) is None]
        if missing:
            raise NotInstalledError(f"{' and '.join(missing)} is not installed: pip install 'cronhpa[forecast]'")
        self.answers: list[tuple[Nanoseconds, Answer]] = []
        self._subject = subject
        self._delay = delay
        self._meter = meter
        self._every = MINUTE if _is_by_minute(points, span) else STEP
        self._next = span.begin - span.begin % STEP
        self._warm_up = deque(range(self._next - _WARM_UP, self._next, HOUR))
        self._end = span.end
        self._coming = deque(points)
        self._learnt: dict[Series, FitInfo] = {}
        self._spent_until = 0
        self._folder: TemporaryDirectory[str] | None = None
        self._store: Store | None = None

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="cronhpa-")
        self._store = Store(Path(self._folder.name) / "history.db")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._store is not None
        assert self._folder is not None
        self._store.close()
        self._folder.cleanup()

    def __call__(self, now: Nanoseconds) -> Answer:
        while self._warm_up:
            self._learn(self._warm_up.popleft())
        while self._next < self._end and self._next + self._delay <= now:
            self._play(self._next)
            self._next += self._every
        if self.answers:
            return self.answers[-1][1]
        return Absent("Learning", "no forecast had been made by then")

    @property
    def summary(self) -> str:
        """What was answered, in a sentence: how many forecasts by which model, and why others were not made."""
        made = Counter(answer.model for _, answer in self.answers if isinstance(answer, Forecast))
        absent = [answer for _, answer in self.answers if isinstance(answer, Absent)]
        newest = {answer.reason: answer.message for answer in absent}
        said = [f"{count:,} by {model}" for model, count in made.most_common()]
        said += [
            f"{count:,} times none ({reason}, at last: {newest[reason]})"
            for reason, count in Counter(answer.reason for answer in absent).most_common()
        ]
        return ", ".join(said) or "none was made"

    def _play(self, start: Nanoseconds) -> None:
        """What the operator does `delay` after `start`: record what was measured, learn where it is due, forecast."""
        from cronhpa.forecasting import worker  # noqa: PLC0415 - imports numpy: only where forecasts are made

        now = start + self._delay
        self.answers += [(now, absent) for absent in self._learn(start)]
        if self._subject.series in self._learnt:
            found = worker.forecast(self._ask(now))
            _raise(found.fault)
            self.answers += [(now, answer) for _, answer in found.answers]

    def _learn(self, start: Nanoseconds) -> list[Absent]:
        """Record what was measured, and learn where it is due; why nothing could be learnt."""
        from cronhpa.forecasting import worker  # noqa: PLC0415 - as above

        store, series = self._opened, self._subject.series
        now = start + self._delay
        known: list[LoadSample] = []
        # A point at `start` has only just been measured: it belongs to what begins then.
        while self._coming and self._coming[0][0] < start:
            known.append(LoadSample(series, *self._coming.popleft()))
        _keep(store, known, now)
        absent: list[Absent] = []
        if due({series: digest(self._subject.spec)}, self._learnt, now):
            self._tell_spent(store, now)
            studied = worker.study(self._ask(now))
            self._learnt.update(studied.learnt)
            _raise(studied.fault)
            absent = [each for _, each in studied.absent]
        if start % HOUR == 0:
            _raise(store.compact(now))
        return absent

    @property
    def _opened(self) -> Store:
        assert self._store is not None, "opened by `with`"
        return self._store

    def _ask(self, now: Nanoseconds) -> WorkerRequest:
        return WorkerRequest(str(self._opened.path), [self._subject], now)

    def _tell_spent(self, store: Store, now: Nanoseconds) -> None:
        """What was counted in the hours that are over, once each."""
        hours = {} if self._meter is None else self._meter.hours
        over = [(hour, item) for hour, item in hours.items() if self._spent_until <= hour < now // HOUR]
        _raise(store.add_spend([Spend(self._subject.series, hour, item.extra, item.base) for hour, item in over]))
        self._spent_until = now // HOUR


def _is_by_minute(points: Sequence[tuple[Nanoseconds, float]], span: Span) -> bool:
    """Whether the history of the span has about a point a minute."""
    count = sum(span.begin <= at < span.end for at, _ in points)
    return count >= _MINUTES_KNOWN * (span.end - span.begin) // MINUTE


def _keep(store: Store, samples: Sequence[LoadSample], now: Nanoseconds) -> None:
    """Into the store: what is old as one piece, and what is young as the recorder writes it, minute by minute."""
    old = [(each.at, each.value) for each in samples if now - STEPS_KEPT <= each.at < now - MINUTE_ROWS_KEPT]
    young = [each for each in samples if each.at >= now - MINUTE_ROWS_KEPT]
    if old:
        outcome = store.backfill(samples[0].series, old)
        _raise(outcome if isinstance(outcome, Fault) else None)
    if young:
        recorded = store.record(young)
        _raise(recorded if isinstance(recorded, Fault) else None)


def _raise(fault: Fault | None) -> None:
    if fault is not None:
        raise OSError(fault.message)
