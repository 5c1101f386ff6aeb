"""
The forecasts that the operator would have had at every instant of a recorded history, each from what was known then.

It plays the history into a store of its own, step by step, and asks the worker that the operator asks, when the
operator would. Imports no pandas itself; the worker does, in the process that calls.
"""

from __future__ import annotations

import importlib.util
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.spec import Span
from cronhpa.learning.forecaster import WORKER_NEEDS
from cronhpa.learning.plan import due
from cronhpa.learning.store import STEP, STEPS_KEPT, Fault, Learnt, Series, Store
from cronhpa.learning.subject import Ask, Subject, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Answer = Forecast | Absent


class NotInstalledError(Exception):
    """What the worker needs is not there."""


class Hindsight:
    """Answers in the order of their issue; called with an instant, the newest one issued at or before it."""

    def __init__(self, answers: Sequence[tuple[Nanoseconds, Answer]]) -> None:
        self.answers = tuple(answers)
        self._issued = [at for at, _ in self.answers]

    def __call__(self, now: Nanoseconds) -> Answer:
        newest = bisect_right(self._issued, now)
        return self.answers[newest - 1][1] if newest else Absent("Learning", "no forecast had been made by then")

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


def hindsight(
    points: Sequence[tuple[Nanoseconds, float]],
    subject: Subject,
    span: Span,
    *,
    delay: Nanoseconds = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Hindsight:
    """
    A forecast for every step of five minutes in `span`, made `delay` after its start.

    points: the load as it was recorded, in order; also from before the span: that is what is learnt from.
    delay: how long it takes until a load is measured; nothing younger is known to a forecast.
    progress: called after each step with steps done and steps in all.
    Raises NotInstalledError without pandas, StoreError and OSError where there is no room for a store of a few MB.
    """
    missing = [name for name in WORKER_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalledError(f"{' and '.join(missing)} are not installed: pip install 'cronhpa[forecast]'")
    from cronhpa.learning import worker  # noqa: PLC0415 - imports pandas: only where forecasts are made

    maxima = _maxima(points)
    first = span.begin - span.begin % STEP
    starts = range(first, span.end, STEP)
    answers: list[tuple[Nanoseconds, Answer]] = []
    learnt: dict[Series, Learnt] = {}
    series = subject.series
    wanted = {series: digest(subject.spec)}
    with TemporaryDirectory(prefix="cronhpa-") as folder:
        path = Path(folder) / "history.db"
        store = Store(path)
        try:
            past = [at for at in maxima if first - STEPS_KEPT <= at < first]
            _keep(store, series, [(at, maxima[at]) for at in past])
            for number, start in enumerate(starts, start=1):
                now = start + delay
                ask = Ask(str(path), [subject], now)
                if due(wanted, learnt, now):
                    studied = worker.study(ask)
                    learnt.update(studied.learnt)
                    _raise(studied.fault)
                    answers += [(now, absent) for _, absent in studied.absent]
                if series in learnt:
                    found = worker.forecast(ask)
                    _raise(found.fault)
                    answers += [(now, answer) for _, answer in found.answers]
                if start in maxima:
                    _keep(store, series, [(start, maxima[start])])
                progress(number, len(starts))
        finally:
            store.close()
    return Hindsight(answers)


def _maxima(points: Sequence[tuple[Nanoseconds, float]]) -> dict[Nanoseconds, float]:
    """The largest load of each step, by its start."""
    found: dict[Nanoseconds, float] = {}
    for at, value in points:
        start = at - at % STEP
        found[start] = max(value, found.get(start, 0.0))
    return found


def _keep(store: Store, series: Series, maxima: Sequence[tuple[Nanoseconds, float]]) -> None:
    outcome = store.backfill(series, maxima)
    _raise(outcome if isinstance(outcome, Fault) else None)


def _raise(fault: Fault | None) -> None:
    if fault is not None:
        raise OSError(fault.message)
