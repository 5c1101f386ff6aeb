"""
A walk forward through a recorded load: each day a policy is fitted to the history of that day, and gives its floors.

`backtest` and the benchmarks use it; the operator's worker does the same minute by minute, and a test holds the floors
of both equal. Numpy is imported inside functions: the command line loads it only if it is needed.
"""

from __future__ import annotations

import importlib.util
from collections import Counter, deque
from typing import TYPE_CHECKING

from cronhpa.core.forecasts.budget import spent_percent
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.service import WORKER_NEEDS
from cronhpa.history.database.series import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpa.core.forecasts.budget_tracker import BudgetTracker
    from cronhpa.forecasting.daily import Evaluate
    from cronhpa.forecasting.messages import ForecastTarget

Answer = Forecast | Absent


class NotInstalledError(Exception):
    """A package that forecasts need is not installed."""


class WalkForward:
    """
    A call with an instant returns the newest answer issued at or before it; the instants come in order.

    answers: all answers that were issued so far.
    """

    def __init__(
        self,
        points: Sequence[tuple[Nanoseconds, float]],
        target: ForecastTarget,
        span: Span,
        *,
        delay: Nanoseconds = 0,
        tracker: BudgetTracker | None = None,
        evaluate: Evaluate | None = None,
    ) -> None:
        """
        A forecast for every minute in `span`, `delay` after the minute's start, as from an operator that has run for a
        week. With less than a point each minute: for every step of five minutes.

        points: the load as it was recorded, in order; also from before the span. delay: the time until a load is
        measured; forecasts use no younger loads. tracker: counts the pod-hours that forecasts add, for the next choice.
        evaluate: see `policy.fit`; None: every day is evaluated here.
        Raises NotInstalledError without numpy.
        """
        missing = [name for name in WORKER_NEEDS if importlib.util.find_spec(name) is None]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise NotInstalledError(f"{' and '.join(missing)} {verb} not installed: pip install 'cronhpa[forecast]'")
        from cronhpa.forecasting.daily import DailyWalk  # noqa: PLC0415 - numpy: only where forecasts are made
        from cronhpa.forecasting.recording import Recording  # noqa: PLC0415 - as above

        self.answers: list[tuple[Nanoseconds, Answer]] = []
        self._delay = delay
        self._tracker = tracker
        self._recording = Recording.of(points, span, target.ignored, target.left_out)
        self._walk = DailyWalk(self._recording, target, evaluate=evaluate)
        self._day = span.begin - span.begin % STEP
        self._end = span.end
        self._coming: deque[tuple[Nanoseconds, Answer]] = deque()

    def __call__(self, now: Nanoseconds) -> Answer:
        while self._day < self._end and self._day + self._delay <= now:
            self._begin_day()
        while self._coming and self._coming[0][0] <= now:
            self.answers.append(self._coming.popleft())
        if self.answers:
            return self.answers[-1][1]
        return Absent("Learning", "no forecast had been made by then")

    @property
    def summary(self) -> str:
        """A sentence about the answers: the number of forecasts by model, and why others were not made."""
        forecasts = [answer for _, answer in self.answers if isinstance(answer, Forecast)]
        made = Counter(forecast.model for forecast in forecasts)
        absent = [answer for _, answer in self.answers if isinstance(answer, Absent)]
        newest = {answer.reason: answer.message for answer in absent}
        parts = [f"{count:,} by {model}" for model, count in made.most_common()]
        parts += [
            f"{count:,} times none ({reason}, at last: {newest[reason]})"
            for reason, count in Counter(answer.reason for answer in absent).most_common()
        ]
        parts += [forecast.unusable for forecast in forecasts[-1:] if forecast.unusable]
        return ", ".join(parts) or "none was made"

    def _begin_day(self) -> None:
        """Fits at the begin of a day, and queues the answers of that day."""
        # The same number as in the operator's store.
        spent = None if self._tracker is None else spent_percent(self._tracker.hours, self._day)
        day = self._walk.day(self._recording.row(self._day), spent)
        self._coming.extend(day.answers(self._delay, self._end))
        self._day += DAY
