"""
What runs in a worker process: fit the policies that are asked for, forecast from them, and write both to the store.

Imports numpy and the methods; the controller never imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, MINUTE, Nanoseconds, format_instant
from cronhpa.core.observation import Absent
from cronhpa.core.predictive.floor import unknown_pod_load
from cronhpa.forecasting import policy
from cronhpa.forecasting.choice import Choice
from cronhpa.forecasting.columns import Floats
from cronhpa.forecasting.coverage import excess_coverage
from cronhpa.forecasting.deadline import Deadlines, alarmed
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
)
from cronhpa.forecasting.named_methods import find_methods, methods_of, noted, unusable
from cronhpa.forecasting.policy import Attempts, FittedPolicy
from cronhpa.forecasting.recent import Loads
from cronhpa.forecasting.workload import workload_of
from cronhpa.history.database import Fault, StoreError
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
# Twice as many take a fiftieth less each, and 50 MB more of the worker's memory.
_FORECASTS_AT_ONCE = 120


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
    A store that cannot be opened is a fault, and no fit is made. Raises StoreError where the store cannot be read,
    OSError where the cluster cannot be reached.
    """
    try:
        store = Store(request.store)
    except StoreError as problem:
        return FitResponse([], [], Fault(str(problem)))
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
    A store that cannot be opened is a fault without an answer. Raises StoreError where the store cannot be read.
    """
    try:
        store = Store(request.store)
    except StoreError as problem:
        return ForecastResponse([], Fault(str(problem)))
    try:
        targets = {target.series: target for target in request.subjects}
        deadlines = Deadlines(method_seconds)
        answers: dict[Series, Forecast | Absent] = {
            series: Absent("Learning", f"{series.metric} waits to be fitted") for series in targets
        }
        asked = []
        for fit, members in store.fits.newest(list(targets)):
            if fit.model == MODEL and 0 <= request.now - fit.fitted_at < FIT_AGE_MAX:
                fitted = _STATES_DECODER.decode(fit.state)
                asked += [_Asked(targets[series], fitted[str(series)], fit.trained_until) for series in members]
        with alarmed():
            for i in range(0, len(asked), _FORECASTS_AT_ONCE):
                answers |= _forecasts(store, asked[i : i + _FORECASTS_AT_ONCE], request.now, deadlines)
        unsaved = store.forecasts.save([(s, value) for s, value in answers.items() if isinstance(value, Forecast)])
    finally:
        store.close()
    return ForecastResponse(list(answers.items()), unsaved)


class _Asked(NamedTuple):
    """A series, and the policy and the end of the history that it was fitted to."""

    target: ForecastTarget
    fitted: FittedPolicy
    trained_until: Nanoseconds


def _forecasts(
    store: Store, asked: Sequence[_Asked], now: Nanoseconds, deadlines: Deadlines
) -> dict[Series, Forecast | Absent]:
    """What the policies say now, from the newest complete minutes, or steps where the minutes are not known."""
    start = now - now % STEP
    answers: dict[Series, Forecast | Absent] = {
        each.target.series: noted(
            Absent(NOTHING_TO_GAIN, each.fitted.why_nothing()),
            unusable(find_methods(each.fitted.variants), each.fitted.failures),
        )
        for each in asked
        if not isinstance(each.fitted.choice, Choice)
    }
    with_choice = [each for each in asked if isinstance(each.fitted.choice, Choice)]
    if not with_choice:
        return answers
    begin = min(each.trained_until for each in with_choice) - RUN_UP_MINUTES * MINUTE
    loads = Loads(store.loads.packed([each.target.series for each in with_choice], begin, now), begin, now)
    questions = []
    for each in with_choice:
        # The methods of the fit: the spec may name others by now, and is then fitted anew.
        attempt = deadlines.attempts()
        models = policy.models_of(each.fitted, find_methods(each.fitted.variants).chosen, attempt)
        recent = loads.since(each.target.series, each.trained_until, now, each.target.ignored)
        origin = _newest_origin(recent, models.tail)
        if origin is None:
            answers[each.target.series] = _stale(store, each.target.series, start)
        else:
            questions.append((each, models, recent, np.array([origin]), attempt))
    excess = _excess_coverage(store, [each.target.series for each, *_ in questions], start)
    floors = policy.floors_together(
        [(each.fitted, models, recent, at, attempt) for each, models, recent, at, attempt in questions]
    )
    for (each, _, recent, _, attempt), of_each in zip(questions, floors, strict=True):
        assert of_each is not None, "there is a choice"
        series, named = each.target.series, find_methods(each.fitted.variants)
        made = forecast_of(
            series.metric,
            each.fitted,
            of_each,
            0,
            issued_at=now,
            trained_until=each.trained_until,
            by_minute=recent.minutes is not None,
            excess=excess[series],
            unusable=unusable(named, each.fitted.failures | attempt.failures | named.unavailable),
        )
        answers[series] = made or _stale(store, series, start)
    return answers


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


def _excess_coverage(store: Store, several: Sequence[Series], start: Nanoseconds) -> dict[Series, float | None]:
    """
    Of each, `excess_coverage` of the last day's forecasts, each for the step after the one it was made in.

    Counted once a step: later forecasts of the step keep what the first one counted, also that too little is known.
    """
    excess: dict[Series, float | None] = dict.fromkeys(several)
    counted = set()
    for series, newest in store.forecasts.newest_coverages(several).items():
        if newest.start == start:
            counted.add(series)
            if newest.coverage_percent is not None:
                excess[series] = (newest.coverage_percent - newest.quantile_percent) / 100
    uncounted = [series for series in several if series not in counted]
    if not uncounted:
        return excess
    begin = start - DAY + STEP
    loads = Loads(store.loads.packed(uncounted, begin, start, minutes=False), begin, start)
    for series, issued in store.forecasts.issued_quantiles(uncounted, begin, start).items():
        if issued:
            outcomes = loads.steps(series, begin, (start - begin) // STEP)
            starts, issued_loads, percents = (np.array(values) for values in zip(*issued, strict=True))
            excess[series] = excess_coverage(outcomes[(starts - begin) // STEP], issued_loads, percents / 100)
    return excess
