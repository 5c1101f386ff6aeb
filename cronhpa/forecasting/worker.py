"""
What runs in a worker process: fit the policies that are asked for, forecast from them, and write both to the store.

Imports numpy and the methods; the controller never imports this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, MINUTE, Nanoseconds, format_instant
from cronhpa.core.observation import Absent
from cronhpa.core.predictive.floor import unknown_pod_load
from cronhpa.forecasting import policy
from cronhpa.forecasting.choice import Choice
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Floats
from cronhpa.forecasting.coverage import excess_coverage
from cronhpa.forecasting.deadline import Deadlines
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, KnownLoad, RecentLoad
from cronhpa.forecasting.issue import forecast_of
from cronhpa.forecasting.messages import (
    MODEL,
    NOTHING_TO_GAIN,
    FitResponse,
    FitResult,
    ForecastResponse,
    ForecastTarget,
    TrainingData,
    WorkerRequest,
    digest,
    gather,
    keep,
    masked,
)
from cronhpa.forecasting.named_methods import find_methods, methods_of, noted, unusable
from cronhpa.forecasting.policy import Attempts, FittedPolicy
from cronhpa.forecasting.workload import workload_of
from cronhpa.history.fits import Fit, FitInfo
from cronhpa.history.series import STEP, Series
from cronhpa.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Executor

# A fit is made anew every day; one that could not be is used for two days more.
FIT_AGE_MAX: Nanoseconds = 3 * DAY

# Of one method for one object. An object alone in its task keeps the task's deadline even if all methods that its spec
# may name hang: 8 * 30 s of 300 s for a fit; 5 s of 60 s for a forecast, which asks one method.
FIT_SECONDS = 30.0
FORECAST_SECONDS = 5.0

# A task of a cluster should take longer than sending it.
_HISTORIES_PER_TASK = 10
# The fits of ten series take a few megabytes.
_RESULT_BYTES_MAX = 2**26
_RECENT: Nanoseconds = 6 * HOUR
# A load unseen for longer than this many steps is not extrapolated.
_UNSEEN_STEPS_MAX = 3


class FitTask(Struct, frozen=True):
    """What a cluster's worker is asked."""

    histories: list[TrainingData]
    now: Nanoseconds


_JSON = msgspec.json.Encoder()
_TASK_DECODER = msgspec.json.Decoder(FitTask)
_RESULT_DECODER = msgspec.msgpack.Decoder(FitResult)
_STATES = msgspec.msgpack.Encoder()
_STATES_DECODER = msgspec.msgpack.Decoder(dict[str, FittedPolicy])


def fit(request: WorkerRequest, method_seconds: float = FIT_SECONDS) -> FitResponse:
    """
    Fit a policy to each history of the store, and write the fits back.

    method_seconds: see `fit_all`; a cluster's workers have FIT_SECONDS.
    Raises StoreError where the store cannot be read, OSError where the cluster cannot be reached.
    """
    store = Store(Path(request.store))
    try:
        histories = gather(store, request.subjects, request.now)
        if request.cluster is None:
            return keep(store, fit_all(histories, request.now, method_seconds))
        from cronhpa.forecasting import dask  # noqa: PLC0415 - only for those who have a cluster

        with dask.connected(request.cluster) as executor:
            return keep(store, fit_on(executor, histories, request.now))
    finally:
        store.close()


def fit_on(executor: Executor, histories: Sequence[TrainingData], now: Nanoseconds) -> FitResult:
    """
    As `fit_all`, a few at a time, wherever the executor computes.

    Raises what the first task raises, and ValueError for an answer that is no answer to what was asked.
    """
    parts = [histories[i : i + _HISTORIES_PER_TASK] for i in range(0, len(histories), _HISTORIES_PER_TASK)]
    futures = [executor.submit(fit_packed, _JSON.encode(FitTask(list(part), now))) for part in parts]
    results = [_unpacked(future.result(), part) for future, part in zip(futures, parts, strict=True)]
    return FitResult([fit for each in results for fit in each.fits], [none for each in results for none in each.absent])


def fit_packed(task: bytes) -> bytes:
    """Runs in a cluster's worker: `fit_all` from an encoded FitTask to an encoded FitResult."""
    asked = _TASK_DECODER.decode(task)
    return _STATES.encode(fit_all(asked.histories, asked.now))


def _unpacked(answer: object, asked: Sequence[TrainingData]) -> FitResult:
    """The fits of a cluster's worker. Raises ValueError for an answer that is no answer to what was asked."""
    # A subclass of bytes is somebody's code.
    if type(answer) is not bytes or len(answer) > _RESULT_BYTES_MAX:
        size = f" of {len(answer)}" if isinstance(answer, bytes) else ""
        raise ValueError(
            f"the dask cluster answered {type(answer).__name__}{size}: at most {_RESULT_BYTES_MAX} bytes are accepted: "
            "its workers need cronhpa[forecast] of this version"
        )
    result = _RESULT_DECODER.decode(answer)
    series_asked = {data.subject.series for data in asked}
    answered = {series for _, members in result.fits for series, _ in members} | {s for s, _ in result.absent}
    if not answered <= series_asked:
        raise ValueError(
            f"the dask cluster answered about {min(answered - series_asked)}, which it was not asked about"
        )
    return result


def fit_all(histories: Sequence[TrainingData], now: Nanoseconds, method_seconds: float = FIT_SECONDS) -> FitResult:
    """
    The policy of each series with two days of history; absences for the others.

    method_seconds: for all that one method does for one series. Touches no store: it runs anywhere.
    """
    deadlines = Deadlines(method_seconds)
    absent: list[tuple[Series, Absent]] = []
    fitted: dict[Series, FittedPolicy] = {}
    for data in histories:
        answer = _fit(data, now, deadlines.attempts())
        if isinstance(answer, Absent):
            absent.append((data.subject.series, answer))
        else:
            fitted[data.subject.series] = answer
    if not fitted:
        return FitResult([], absent)
    state = encode_states(fitted)
    digests = {data.subject.series: digest(data.subject.spec) for data in histories}
    members = [(series, FitInfo(now, digests[series], _JSON.encode(each.choice))) for series, each in fitted.items()]
    return FitResult([(Fit(MODEL, now, now - now % STEP, state), members)], absent)


def encode_states(fitted: Mapping[Series, FittedPolicy]) -> bytes:
    """What the store keeps of policies that were fitted together."""
    return _STATES.encode({str(series): each for series, each in fitted.items()})


def _fit(data: TrainingData, now: Nanoseconds, attempt: Attempts) -> FittedPolicy | Absent:
    target = data.subject
    workload = workload_of(target)
    if workload is None:
        return unknown_pod_load(target.series.metric)
    found = methods_of(target.spec)
    attempt.failures.update(found.unavailable)
    answer = policy.fit(
        _history(data, now - now % STEP),
        target,
        workload,
        found.chosen,
        now,
        previous=_previous(data),
        spent_percent=data.spent_percent,
        attempt=attempt,
    )
    return noted(answer, unusable(found, attempt.failures)) if isinstance(answer, Absent) else answer


def _history(data: TrainingData, end: Nanoseconds) -> KnownLoad:
    """A history that ended before `end` did so with a gap."""
    steps = np.frombuffer(data.highs, dtype="<f8")
    steps = np.concatenate([steps, np.full((end - data.first) // STEP - len(steps), np.nan)])
    minutes = np.frombuffer(data.minutes, dtype="<f4").astype(np.float64)
    return KnownLoad(steps, None if np.isnan(minutes).all() else minutes)


def _previous(data: TrainingData) -> FittedPolicy | None:
    """What the last fit kept; None where there was none, or one of another release."""
    try:
        return _STATES_DECODER.decode(data.before).get(str(data.subject.series)) if data.before else None
    except msgspec.MsgspecError:
        return None


def forecast(request: WorkerRequest, method_seconds: float = FORECAST_SECONDS) -> ForecastResponse:
    """
    A forecast of each series from its newest fit, or why there is none.

    method_seconds: for all that one method does for one series.
    Raises StoreError where the store cannot be read.
    """
    store = Store(Path(request.store))
    try:
        targets = {target.series: target for target in request.subjects}
        deadlines = Deadlines(method_seconds)
        answers: dict[Series, Forecast | Absent] = {
            series: Absent("Learning", f"{series.metric} waits to be fitted") for series in targets
        }
        for fit, members in store.fits.newest(list(targets)):
            if fit.model == MODEL and 0 <= request.now - fit.fitted_at < FIT_AGE_MAX:
                fitted = _STATES_DECODER.decode(fit.state)
                for series in members:
                    answers[series] = _forecast(
                        store, fit, targets[series], fitted[str(series)], request.now, deadlines.attempts()
                    )
        unsaved = store.forecasts.save([(s, value) for s, value in answers.items() if isinstance(value, Forecast)])
    finally:
        store.close()
    return ForecastResponse(list(answers.items()), unsaved)


def _forecast(
    store: Store, fit: Fit, target: ForecastTarget, fitted: FittedPolicy, now: Nanoseconds, attempt: Attempts
) -> Forecast | Absent:
    """What the policy says now, from the newest complete minutes, or steps where the minutes are not known."""
    # Those of the fit: the spec may name others by now, and is then fitted anew.
    found = find_methods(fitted.variants)
    if not isinstance(fitted.choice, Choice):
        return noted(Absent(NOTHING_TO_GAIN, fitted.why_nothing()), unusable(found, fitted.failures))
    models = policy.models_of(fitted, found.chosen, attempt)
    start = now - now % STEP
    recent = _recent(store, target, fit.trained_until, now)
    origin = _newest_origin(recent, models.tail)
    if origin is None:
        return _stale(store, target.series, start)
    floors = policy.floors(fitted, models, recent, np.array([origin]), attempt)
    assert floors is not None, "there is a choice"
    excess = _excess_coverage(store, target.series, start)
    made = forecast_of(
        target.series.metric,
        fitted,
        floors,
        0,
        issued_at=now,
        trained_until=fit.trained_until,
        by_minute=recent.minutes is not None,
        excess=excess,
        unusable=unusable(found, fitted.failures | attempt.failures | found.unavailable),
    )
    return made or _stale(store, target.series, start)


def _recent(store: Store, target: ForecastTarget, since: Nanoseconds, now: Nanoseconds) -> RecentLoad:
    """The load since the fit; by the minute where one of the last five minutes is known."""
    first, highs = store.loads.history(target.series, since, now - now % STEP)
    steps = _laid(since, (now - since) // STEP, first, masked(first, highs, target.ignored), STEP)
    begin = since - RUN_UP_MINUTES * MINUTE
    count = (now - begin) // MINUTE
    first, highs = store.loads.minute_history(target.series, begin, begin + count * MINUTE)
    minutes = _laid(begin, count, first, highs, MINUTE)
    if np.isnan(minutes[-MINUTES_PER_STEP:]).all():
        return RecentLoad(steps)
    trusted = _laid(begin, count, first, masked(first, highs, target.ignored, MINUTE), MINUTE)
    return RecentLoad(steps, minutes, np.isnan(trusted))


def _laid(begin: Nanoseconds, count: int, first: Nanoseconds, values: Sequence[float], every: Nanoseconds) -> Floats:
    """(count,): the values from `first` on, laid on a grid that starts at `begin`; NaN where there are none."""
    grid = np.full(max(count, 0), np.nan)
    row = (first - begin) // every
    grid[row : row + len(values)] = np.asarray(values)[: len(grid) - row]
    return grid


def _newest_origin(recent: RecentLoad, tail: Floats) -> int | None:
    """The newest origin that knows its load; None where nothing was measured for too long."""
    if recent.minutes is not None:
        return len(recent.minutes) - RUN_UP_MINUTES
    steps = np.concatenate([tail, recent.steps])
    seen = np.flatnonzero(~np.isnan(steps))
    if not len(seen) or len(steps) - 1 - seen[-1] > _UNSEEN_STEPS_MAX:
        return None
    return max(int(seen[-1]) + 1 - len(tail), 0)


def _stale(store: Store, series: Series, start: Nanoseconds) -> Absent:
    steps = store.loads.steps(series, start - _RECENT, start + STEP)
    seen = f"last measured before {format_instant(steps[-1][0] + STEP)}" if steps else "not measured for six hours"
    return Absent("Stale", f"{series.metric} was {seen}: a forecast needs a load from the last 15 minutes")


def _excess_coverage(store: Store, series: Series, start: Nanoseconds) -> float | None:
    """`excess_coverage` of the last day's forecasts, each for the step after the one it was made in."""
    newest = store.forecasts.newest_of(series)
    if newest is not None and newest.start == start and newest.coverage_percent is not None:
        # The forecast that this step began with has counted already.
        return (newest.coverage_percent - newest.quantile_percent) / 100
    issued = store.forecasts.issued_quantiles(series, start - DAY + STEP, start)
    if not issued:
        return None
    begin = issued[0].start
    outcomes = _laid(begin, (start - begin) // STEP, *store.loads.history(series, begin, start), STEP)
    known = [
        (outcomes[(quantile.start - begin) // STEP], quantile.load, quantile.percent / 100)
        for quantile in issued
        if quantile.start < start
    ]
    return excess_coverage(*np.array(known).T) if known else None
