"""
What runs in a worker process: read the store, fit where the fit is older than a day, forecast, write both back.

The only module here that imports pandas and the methods; the controller never imports it. Frames are made and used up
on this side of the process border.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pandas import DataFrame, to_datetime, to_timedelta

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, Nanoseconds, format_instant
from cronhpa.core.observation import Absent
from cronhpa.learning.store import STEP, STEPS_KEPT, Fault, Fit, Series, Store
from cronhpa_models import periodic_autoregression as method

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HISTORY_MIN: Nanoseconds = 2 * DAY
REFIT_AFTER: Nanoseconds = DAY

_RECENT: Nanoseconds = 6 * HOUR
_CEILING_SPAN: Nanoseconds = 7 * DAY
_CEILING_FACTOR = 1.1
# Two days with a day of gaps in them show no rhythm: a day's worth of steps must be known.
_STEPS_MIN = DAY // STEP
# Coverage of 0.95 counted on fewer outcomes would be off by more than four percent, two standard errors.
_OUTCOMES_MIN = 100
# A fit is kept with 24 bits: a load that never moves must not count as uncovered by its last digit.
_ROUNDED = 1 + 1e-6

Answer = tuple[Series, Forecast | Absent]


def refresh(
    path: Path, series: Sequence[Series], now: Nanoseconds, quantile_percent: int
) -> tuple[list[Answer], Fault | None]:
    """
    A forecast for each series, or why there is none, from what was known at `now`; and why it could not be kept.

    Raises StoreError where the store cannot be read.
    """
    store = Store(path)
    try:
        fits, absent, fault = _fits(store, series, now)
        answers: list[Answer] = list(absent.items())
        for fit, members in fits:
            answers += _forecast(store, fit, members, now, quantile_percent)
        unsaved = store.save_forecasts([(each, value) for each, value in answers if isinstance(value, Forecast)])
    finally:
        store.close()
    return answers, fault or unsaved


def _fits(
    store: Store, series: Sequence[Series], now: Nanoseconds
) -> tuple[list[tuple[Fit, list[Series]]], dict[Series, Absent], Fault | None]:
    """A fit no older than a day for every series with two days of history, and absences for the others."""
    fresh = [(fit, members) for fit, members in store.fits(series) if _is_fresh(fit, now)]
    fitted = {each for _, members in fresh for each in members}
    histories: dict[Series, list[tuple[Nanoseconds, float]]] = {}
    absent: dict[Series, Absent] = {}
    end = now - now % STEP
    for each in series:
        if each in fitted:
            continue
        steps = store.steps(each, end - STEPS_KEPT, end)
        if steps and now - steps[0][0] >= HISTORY_MIN and len(steps) >= _STEPS_MIN:
            histories[each] = steps
        else:
            absent[each] = _learning(each, steps, now)
    if not histories:
        return fresh, absent, None
    first = min(steps[0][0] for steps in histories.values())
    fit = Fit(
        model=method.NAME,
        fitted_at=now,
        trained_until=end,
        state=method.fit(_frame(histories, first, end)),
    )
    fault = store.save_fit(fit, list(histories))
    return [*fresh, (fit, list(histories))], absent, fault


def _is_fresh(fit: Fit, now: Nanoseconds) -> bool:
    """Of this release's model, and from the last day; one from the future (a clock was set back) is not believed."""
    return fit.model == method.NAME and 0 <= now - fit.fitted_at < REFIT_AFTER


def _learning(series: Series, steps: list[tuple[Nanoseconds, float]], now: Nanoseconds) -> Absent:
    hours = (now - steps[0][0]) // HOUR if steps else 0
    known = len(steps) * STEP // HOUR
    return Absent(
        "Learning",
        f"{known} h of {series.metric} measured over {hours} h: "
        f"forecasts begin with {HISTORY_MIN // HOUR} h of history, {_STEPS_MIN * STEP // HOUR} h of it measured",
    )


def _forecast(store: Store, fit: Fit, series: list[Series], now: Nanoseconds, quantile_percent: int) -> list[Answer]:
    """Forecasts from one fit, made with the complete steps before the one that contains `now`."""
    start = now - now % STEP
    recent = {each: store.steps(each, start - _RECENT, start + STEP) for each in series}
    level = quantile_percent / 100
    upper = method.forecast(fit.state, _frame(recent, start - _RECENT, start), [level]).at(level).to_numpy()
    answers: list[Answer] = []
    for i, each in enumerate(series):
        load = upper[:, i]
        if np.isnan(load).any():
            answers.append((each, _stale(each, recent[each])))
            continue
        # What has been measured within the running step is the least that its maximum can be.
        so_far = recent[each][-1][1] if recent[each] and recent[each][-1][0] == start else 0.0
        ceiling, coverage = _track_record(store, each, start, quantile_percent)
        forecast = Forecast(
            metric=each.metric,
            issued_at=now,
            start=start,
            step=STEP,
            load=(max(float(load[0]), so_far), *(float(value) for value in load[1:])),
            ceiling=max(ceiling, _CEILING_FACTOR * so_far),
            model=fit.model,
            quantile_percent=quantile_percent,
            trained_until=fit.trained_until,
            coverage_percent=coverage,
        )
        answers.append((each, forecast))
    return answers


def _stale(series: Series, steps: list[tuple[Nanoseconds, float]]) -> Absent:
    seen = f"last measured before {format_instant(steps[-1][0] + STEP)}" if steps else "not measured for six hours"
    return Absent("Stale", f"{series.metric} was {seen}: a forecast needs a load from the last 15 minutes")


def _track_record(store: Store, series: Series, start: Nanoseconds, quantile_percent: int) -> tuple[float, int | None]:
    """
    (ceiling, coverage in percent or None) as known at `start`.

    Coverage is counted on the second step of the last day's forecasts: that is five to ten minutes ahead.
    """
    earlier = store.forecasts(series, start - DAY, start + STEP)
    if earlier and earlier[-1].start == start and earlier[-1].quantile_percent == quantile_percent:
        # The same step's forecast of a minute ago has counted already.
        return earlier[-1].ceiling, earlier[-1].coverage_percent
    outcomes = dict(store.steps(series, start - _CEILING_SPAN, start))
    hits = [
        outcomes[forecast.start + STEP] <= forecast.load[1] * _ROUNDED
        for forecast in earlier
        if forecast.model == method.NAME
        and forecast.quantile_percent == quantile_percent
        and forecast.start + STEP in outcomes
    ]
    coverage = round(100 * sum(hits) / len(hits)) if len(hits) >= _OUTCOMES_MIN else None
    return _CEILING_FACTOR * max(outcomes.values(), default=0.0), coverage


def _frame(histories: dict[Series, list[tuple[Nanoseconds, float]]], first: Nanoseconds, end: Nanoseconds) -> DataFrame:
    """A wide frame on the five-minute grid from `first` to `end`, NaN where nothing is known."""
    rows = (end - first) // STEP
    load = np.full((rows, len(histories)), np.nan)
    for i, steps in enumerate(histories.values()):
        for at, high in steps:
            if at < end:
                load[(at - first) // STEP, i] = high
    index = to_datetime(first, unit="ns", utc=True) + to_timedelta(np.arange(rows) * STEP, unit="ns")
    return DataFrame(load, index=index, columns=[str(each) for each in histories])
