"""
The tasks of a worker process: fit policies, forecast from them, and write both to the store.

Imports numpy and the methods; the controller never imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from cronhpa.core.forecasts.floor import unknown_pod_load
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, Nanoseconds, format_instant
from cronhpa.core.model.observation import Absent
from cronhpa.forecasting import policy
from cronhpa.forecasting.choice import Choice
from cronhpa.forecasting.columns import Floats
from cronhpa.forecasting.coverage import excess_coverage
from cronhpa.forecasting.deadline import Deadlines, alarmed
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, KnownLoad, RecentLoad
from cronhpa.forecasting.forecast import forecast_of
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
from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Executor

# Every series is fitted once a day; if that fails, its last fit is used for two more days.
FIT_AGE_MAX: Nanoseconds = 3 * DAY

# The limit of one method for one object. A task with one object meets its deadline even if all eight methods that a
# spec may name hang: 8 * 30 s of 300 s for a fit; 5 s of 60 s for a forecast, which uses one method.
FIT_SECONDS = 30.0
FORECAST_SECONDS = 5.0

# A task of a cluster should take longer than sending it.
_HISTORIES_PER_TASK = 10
# Several times the size of the fits of ten series.
_RESULT_BYTES_MAX = 2**26
_RECENT: Nanoseconds = 6 * HOUR
# A load that was not measured for more steps than this is not extrapolated.
_UNSEEN_STEPS_MAX = 3
# Larger groups are hardly faster for each forecast and need more memory.
_FORECASTS_AT_ONCE = 120


class FitTask(Struct, frozen=True):
    """The input of a cluster's worker."""

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

    method_seconds: see `fit_all`; a cluster's workers use FIT_SECONDS.
    If the store cannot be opened, the response has a fault and no fits. Raises StoreError if the store cannot be read,
    OSError if the cluster cannot be reached.
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
    As `fit_all`, on an executor, with a few histories in each task.

    Raises the error of the first task that fails, and ValueError for an answer that does not match its task.
    """
    parts = [histories[i : i + _HISTORIES_PER_TASK] for i in range(0, len(histories), _HISTORIES_PER_TASK)]
    futures = [executor.submit(fit_packed, _JSON.encode(FitTask(list(part), now))) for part in parts]
    results = [_unpacked(future.result(), part) for future, part in zip(futures, parts, strict=True)]
    return FitResult(
        [fit for result in results for fit in result.fits], [none for result in results for none in result.absent]
    )


def fit_packed(task: bytes) -> bytes:
    """Runs in a cluster's worker: `fit_all` from an encoded FitTask to an encoded FitResult."""
    decoded = _TASK_DECODER.decode(task)
    return _STATES.encode(fit_all(decoded.histories, decoded.now))


def _unpacked(answer: object, targets: Sequence[TrainingData]) -> FitResult:
    """The fits of a cluster's worker. Raises ValueError for an answer that does not match its task."""
    # A subclass of bytes could run code.
    if type(answer) is not bytes or len(answer) > _RESULT_BYTES_MAX:
        size = f" of {len(answer)}" if isinstance(answer, bytes) else ""
        raise ValueError(
            f"the dask cluster answered {type(answer).__name__}{size}: at most {_RESULT_BYTES_MAX} bytes are accepted: "
            "its workers need cronhpa[forecast] of this version"
        )
    result = _RESULT_DECODER.decode(answer)
    series_asked = {data.subject.series for data in targets}
    answered = {series for _, members in result.fits for series, _ in members} | {s for s, _ in result.absent}
    if not answered <= series_asked:
        raise ValueError(
            f"the dask cluster answered about {min(answered - series_asked)}, which it was not asked about"
        )
    return result


def fit_all(histories: Sequence[TrainingData], now: Nanoseconds, method_seconds: float = FIT_SECONDS) -> FitResult:
    """
    The policy of each series with two days of history; absences for the others.

    method_seconds: the limit for all calls of one method for one series. Needs no store: it runs anywhere.
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
    members = [
        (series, FitInfo(now, digests[series], _JSON.encode(fitted_policy.choice)))
        for series, fitted_policy in fitted.items()
    ]
    return FitResult([(Fit(MODEL, now, now - now % STEP, state), members)], absent)


def encode_states(fitted: Mapping[Series, FittedPolicy]) -> bytes:
    """The stored form of policies that were fitted together."""
    return _STATES.encode({str(series): fitted_policy for series, fitted_policy in fitted.items()})


def _fit(data: TrainingData, now: Nanoseconds, attempt: Attempts) -> FittedPolicy | Absent:
    target = data.subject
    workload = workload_of(target)
    if workload is None:
        return unknown_pod_load(target.series.metric)
    methods = methods_of(target.spec)
    attempt.failures.update(methods.unavailable)
    answer = policy.fit(
        _history(data, now - now % STEP),
        target,
        workload,
        methods.chosen,
        now,
        previous=_previous(data),
        spent_percent=data.spent_percent,
        attempt=attempt,
    )
    return noted(answer, unusable(methods, attempt.failures)) if isinstance(answer, Absent) else answer


def _history(data: TrainingData, end: Nanoseconds) -> KnownLoad:
    """The history from its first known step up to `end`: if it ended earlier, the rest is a gap."""
    steps = np.frombuffer(data.highs, dtype="<f8")
    steps = np.concatenate([steps, np.full((end - data.first) // STEP - len(steps), np.nan)])
    steps = steps[np.argmax(~np.isnan(steps)) :] if len(steps) else steps
    minutes = np.frombuffer(data.minutes, dtype="<f4").astype(np.float64)
    return KnownLoad(steps, None if np.isnan(minutes).all() else minutes)


def _previous(data: TrainingData) -> FittedPolicy | None:
    """The last fit; None if there is none, or if another release wrote it."""
    try:
        return _STATES_DECODER.decode(data.before).get(str(data.subject.series)) if data.before else None
    except msgspec.MsgspecError:
        return None


def forecast(request: WorkerRequest, method_seconds: float = FORECAST_SECONDS) -> ForecastResponse:
    """
    A forecast of each series from its newest fit, or why there is none.

    method_seconds: the limit for all calls of one method for one series.
    If the store cannot be opened, the response has a fault and no answers. Raises StoreError if the store cannot be
    read.
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
        requests = []
        for fit, members in store.fits.newest(list(targets)):
            if fit.model == MODEL and 0 <= request.now - fit.fitted_at < FIT_AGE_MAX:
                fitted = _STATES_DECODER.decode(fit.state)
                requests += [_Asked(targets[series], fitted[str(series)], fit.trained_until) for series in members]
        with alarmed():
            for i in range(0, len(requests), _FORECASTS_AT_ONCE):
                answers |= _forecasts(store, requests[i : i + _FORECASTS_AT_ONCE], request.now, deadlines)
        unsaved = store.forecasts.save([(s, value) for s, value in answers.items() if isinstance(value, Forecast)])
    finally:
        store.close()
    return ForecastResponse(list(answers.items()), unsaved)


class _Asked(NamedTuple):
    """A series, its policy, and the end of the history to which the policy was fitted."""

    target: ForecastTarget
    fitted: FittedPolicy
    trained_until: Nanoseconds


def _forecasts(
    store: Store, requests: Sequence[_Asked], now: Nanoseconds, deadlines: Deadlines
) -> dict[Series, Forecast | Absent]:
    """The forecasts at `now`, from the newest complete minutes, or steps if the minutes are not known."""
    start = now - now % STEP
    answers: dict[Series, Forecast | Absent] = {
        question.target.series: noted(
            Absent(NOTHING_TO_GAIN, question.fitted.why_nothing()),
            unusable(find_methods(question.fitted.variants), question.fitted.failures),
        )
        for question in requests
        if not isinstance(question.fitted.choice, Choice)
    }
    with_choice = [question for question in requests if isinstance(question.fitted.choice, Choice)]
    if not with_choice:
        return answers
    begin = min(question.trained_until for question in with_choice) - RUN_UP_MINUTES * MINUTE
    loads = Loads(store.loads.packed([question.target.series for question in with_choice], begin, now), begin, now)
    questions = []
    for question in with_choice:
        # The methods of the fit: if the spec names others by now, a new fit is due.
        attempt = deadlines.attempts()
        models = policy.models_of(question.fitted, find_methods(question.fitted.variants).chosen, attempt)
        recent = loads.since(question.target.series, question.trained_until, now, question.target.ignored)
        origin = _newest_origin(recent, models.tail)
        if origin is None:
            answers[question.target.series] = _stale(store, question.target.series, start)
        else:
            questions.append((question, models, recent, np.array([origin]), attempt))
    excess = _excess_coverage(store, [question.target.series for question, *_ in questions], start)
    provisioned = policy.provision_together(
        [(question.fitted, models, recent, at, attempt) for question, models, recent, at, attempt in questions]
    )
    for (question, _, recent, _, attempt), of_series in zip(questions, provisioned, strict=True):
        assert of_series is not None, "there is a choice"
        series, named = question.target.series, find_methods(question.fitted.variants)
        made = forecast_of(
            series.metric,
            question.fitted,
            of_series,
            0,
            issued_at=now,
            trained_until=question.trained_until,
            by_minute=recent.minutes is not None,
            excess=excess[series],
            unusable=unusable(named, question.fitted.failures | attempt.failures | named.unavailable),
        )
        answers[series] = made or _stale(store, series, start)
    return answers


def _newest_origin(recent: RecentLoad, tail: Floats) -> int | None:
    """The newest origin with a known load; None if nothing was measured for too long."""
    if recent.minutes is not None:
        return len(recent.minutes) - RUN_UP_MINUTES
    steps = np.concatenate([tail, recent.steps])
    measured_steps = np.flatnonzero(~np.isnan(steps))
    if not len(measured_steps) or len(steps) - 1 - measured_steps[-1] > _UNSEEN_STEPS_MAX:
        return None
    return max(int(measured_steps[-1]) + 1 - len(tail), 0)


def _stale(store: Store, series: Series, start: Nanoseconds) -> Absent:
    steps = store.loads.steps(series, start - _RECENT, start + STEP)
    text = f"last measured before {format_instant(steps[-1][0] + STEP)}" if steps else "not measured for six hours"
    return Absent("Stale", f"{series.metric} was {text}: a forecast needs a load from the last 15 minutes")


def _excess_coverage(store: Store, several: Sequence[Series], start: Nanoseconds) -> dict[Series, float | None]:
    """
    By series: `excess_coverage` of the last day's forecasts, each for the step after the one in which it was made.

    Computed once in each step: later forecasts of a step use the result of the first one, also if it is unknown.
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
