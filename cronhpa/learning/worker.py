"""
What runs in a worker process: fit what is asked for, forecast from the fits, and write both to the store.

The only module here that imports pandas and the methods; the controller never imports it. Frames are made and used up
on this side of the process border.
"""

from __future__ import annotations

import math
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pandas import DataFrame, to_datetime, to_timedelta

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, Nanoseconds, format_instant
from cronhpa.core.observation import Absent
from cronhpa.learning.store import STEP, Fit, Learnt, Series, Store
from cronhpa.learning.subject import Answers, Ask, Lessons, Past, Studied, Subject, digest, gather, keep, masked
from cronhpa_models import periodic_autoregression as method

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

HISTORY_MIN: Nanoseconds = 2 * DAY
# A fit is made anew every day; one that could not be is used for two days more.
FIT_AGE_MAX: Nanoseconds = 3 * DAY
# With floors of load / (0.9 x request) the 0.95 quantile left a seventh of reactive scaling's uncovered five-minute
# steps on k8s_app11 for 7 % more capacity, the 0.9 quantile a quarter for 5 %. On pure noise both are dear: an object
# without a rhythm should not forecast.
QUANTILE_PERCENT = 95

# A task of a cluster should take longer than sending it: ten histories are 650 kB and take a second or more.
_PASTS_PER_TASK = 10
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


def study(ask: Ask) -> Studied:
    """
    Learn from what the store holds and write it back.

    Raises StoreError where the store cannot be read, OSError where the cluster cannot be reached.
    """
    store = Store(Path(ask.store))
    try:
        pasts = gather(store, ask.subjects, ask.now)
        if ask.cluster is None:
            return keep(store, learn(pasts, ask.now))
        from cronhpa.learning import cluster  # noqa: PLC0415 - dask, for those who have a cluster alone

        with cluster.connected(ask.cluster) as executor:
            return keep(store, learn_on(executor, pasts, ask.now))
    finally:
        store.close()


def learn_on(executor: Executor, pasts: Sequence[Past], now: Nanoseconds) -> Lessons:
    """As `learn`, a few at a time, wherever the executor computes. Raises what the first of them raises."""
    parts = [pasts[i : i + _PASTS_PER_TASK] for i in range(0, len(pasts), _PASTS_PER_TASK)]
    lessons = [future.result() for future in [executor.submit(learn, part, now) for part in parts]]
    return Lessons([fit for each in lessons for fit in each.fits], [none for each in lessons for none in each.absent])


def learn(pasts: Sequence[Past], now: Nanoseconds) -> Lessons:
    """A fit of each series with two days of history, absences for the others. Touches no store: it runs anywhere."""
    absent: list[tuple[Series, Absent]] = []
    known: list[tuple[Past, np.ndarray]] = []
    for past in pasts:
        highs = np.frombuffer(past.highs, dtype="<f8")
        measured = int(np.count_nonzero(~np.isnan(highs)))
        if measured >= _STEPS_MIN and now - past.first >= HISTORY_MIN:
            known.append((past, highs))
        else:
            absent.append((past.subject.series, _learning(past, measured, now)))
    if not known:
        return Lessons([], absent)
    end = now - now % STEP
    fit = Fit(model=method.NAME, fitted_at=now, trained_until=end, state=method.fit(_wide(known, end)))
    members = [(past.subject.series, Learnt(now, digest(past.subject.spec))) for past, _ in known]
    return Lessons([(fit, members)], absent)


def forecast(ask: Ask) -> Answers:
    """
    A forecast of each series from its newest fit, or why there is none.

    Raises StoreError where the store cannot be read.
    """
    store = Store(Path(ask.store))
    try:
        subjects = {subject.series: subject for subject in ask.subjects}
        answers: dict[Series, Forecast | Absent] = {
            each: Absent("Learning", f"{each.metric} waits to be fitted") for each in subjects
        }
        for fit, members in store.fits(list(subjects)):
            if fit.model == method.NAME and 0 <= ask.now - fit.fitted_at < FIT_AGE_MAX:
                answers |= dict(_forecast(store, fit, [subjects[each] for each in members], ask.now))
        unsaved = store.save_forecasts([(s, value) for s, value in answers.items() if isinstance(value, Forecast)])
    finally:
        store.close()
    return Answers(list(answers.items()), unsaved)


def _learning(past: Past, measured: int, now: Nanoseconds) -> Absent:
    hours = (now - past.first) // HOUR if measured else 0
    known = measured * STEP // HOUR
    return Absent(
        "Learning",
        f"{known} h of {past.subject.series.metric} measured over {hours} h: "
        f"forecasts begin with {HISTORY_MIN // HOUR} h of history, {_STEPS_MIN * STEP // HOUR} h of it measured",
    )


def _forecast(store: Store, fit: Fit, subjects: list[Subject], now: Nanoseconds) -> list[Answer]:
    """Forecasts from one fit, made with the complete steps before the one that contains `now`."""
    start = now - now % STEP
    recent = {each.series: store.steps(each.series, start - _RECENT, start + STEP) for each in subjects}
    level = QUANTILE_PERCENT / 100
    upper = method.forecast(fit.state, _frame(recent, start - _RECENT, start), [level]).at(level).to_numpy()
    answers: list[Answer] = []
    for i, subject in enumerate(subjects):
        series, load = subject.series, upper[:, i]
        if np.isnan(load).any():
            answers.append((series, _stale(series, recent[series])))
            continue
        # What has been measured within the running step is the least that its maximum can be.
        so_far = recent[series][-1][1] if recent[series] and recent[series][-1][0] == start else 0.0
        ceiling, coverage = _track_record(store, subject, start, QUANTILE_PERCENT)
        made = Forecast(
            metric=series.metric,
            issued_at=now,
            start=start,
            step=STEP,
            load=(max(float(load[0]), so_far), *(float(value) for value in load[1:])),
            ceiling=max(ceiling, _CEILING_FACTOR * so_far),
            model=fit.model,
            quantile_percent=QUANTILE_PERCENT,
            trained_until=fit.trained_until,
            coverage_percent=coverage,
        )
        answers.append((series, made))
    return answers


def _stale(series: Series, steps: list[tuple[Nanoseconds, float]]) -> Absent:
    seen = f"last measured before {format_instant(steps[-1][0] + STEP)}" if steps else "not measured for six hours"
    return Absent("Stale", f"{series.metric} was {seen}: a forecast needs a load from the last 15 minutes")


def _track_record(
    store: Store, subject: Subject, start: Nanoseconds, quantile_percent: int
) -> tuple[float, int | None]:
    """
    (ceiling, coverage in percent or None) as known at `start`.

    Coverage is counted on the second step of the last day's forecasts: that is five to ten minutes ahead.
    """
    earlier = store.forecasts(subject.series, start - DAY, start + STEP)
    if earlier and earlier[-1].start == start and earlier[-1].quantile_percent == quantile_percent:
        # The same step's forecast of a minute ago has counted already.
        return earlier[-1].ceiling, earlier[-1].coverage_percent
    first, highs = store.history(subject.series, start - _CEILING_SPAN, start)
    outcomes = masked(first, highs, subject.ignored)
    hits = [
        outcome <= each.load[1] * _ROUNDED
        for each in earlier
        if each.model == method.NAME
        and each.quantile_percent == quantile_percent
        and not math.isnan(outcome := _at(first, outcomes, each.start + STEP))
    ]
    coverage = round(100 * sum(hits) / len(hits)) if len(hits) >= _OUTCOMES_MIN else None
    return _CEILING_FACTOR * max((high for high in outcomes if not math.isnan(high)), default=0.0), coverage


def _at(first: Nanoseconds, highs: array[float], start: Nanoseconds) -> float:
    """The maximum of the step at `start`, NaN where it is not known."""
    index = (start - first) // STEP
    return highs[index] if 0 <= index < len(highs) else math.nan


def _wide(known: Sequence[tuple[Past, np.ndarray]], end: Nanoseconds) -> DataFrame:
    """The histories beside each other on the five-minute grid up to `end`."""
    first = min(past.first for past, _ in known)
    load = np.full(((end - first) // STEP, len(known)), np.nan)
    for i, (past, highs) in enumerate(known):
        row = (past.first - first) // STEP
        load[row : row + len(highs), i] = highs
    return _indexed(load, first, [str(past.subject.series) for past, _ in known])


def _frame(histories: dict[Series, list[tuple[Nanoseconds, float]]], first: Nanoseconds, end: Nanoseconds) -> DataFrame:
    """A wide frame on the five-minute grid from `first` to `end`, NaN where nothing is known."""
    load = np.full(((end - first) // STEP, len(histories)), np.nan)
    for i, steps in enumerate(histories.values()):
        for at, high in steps:
            if at < end:
                load[(at - first) // STEP, i] = high
    return _indexed(load, first, [str(each) for each in histories])


def _indexed(load: np.ndarray, first: Nanoseconds, columns: list[str]) -> DataFrame:
    index = to_datetime(first, unit="ns", utc=True) + to_timedelta(np.arange(len(load)) * STEP, unit="ns")
    return DataFrame(load, index=index, columns=columns)
