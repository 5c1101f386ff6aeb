"""
What runs in a worker process: fit what is asked for, forecast from the fits, and write both to the store.

The only module here that imports the methods; the controller never imports it. Neither pandas nor statsmodels is
imported before a method that needs it is fitted.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.forecast import Forecast, TrackRecord, in_days
from cronhpa.core.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds, format_instant
from cronhpa.core.memory import lead_time
from cronhpa.core.observation import Absent
from cronhpa.core.predictive.budget import DAY_FACTOR
from cronhpa.core.predictive.floor import GUARD_PERCENT, forecast_source, pod_capacity, target_load
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Counts, Floats
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
from cronhpa.forecasting.selection import (
    CANDIDATES,
    CEILING,
    RUN_UP,
    CandidateScores,
    Choice,
    Day,
    Jumps,
    NothingToGain,
    WorkloadModel,
    budget_correction,
    candidate_floors,
    choose,
    far_steps,
    fit_jumps,
    is_slow,
    jumps_since,
    reactive_pods,
    screen,
    stated,
    together,
)
from cronhpa.forecasting.selection import DAYS as SELECTION_DAYS
from cronhpa.forecasting.validation import effect_of_choice
from cronhpa.history.database import STEP, Fit, FitInfo, Series, Store
from cronhpa.simulation.forecast_effect import ForecastEffect
from cronhpa_models import spike_hazard
from cronhpa_models.error_mixture import ErrorMixture
from cronhpa_models.method import LAGS, Origins, on_grid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

HISTORY_MIN: Nanoseconds = 2 * DAY
# A fit is made anew every day; one that could not be is used for two days more.
FIT_AGE_MAX: Nanoseconds = 3 * DAY
# What a floor without a method is called: a constant, or jumps by their clock beside it.
LEAST = "Least"
JUMP_CLOCK = "JumpClock"

# A task of a cluster should take longer than sending it: ten histories are 650 kB and take a second or more.
_PASTS_PER_TASK = 10
_RECENT: Nanoseconds = 6 * HOUR
_CEILING_SPAN: Nanoseconds = 7 * DAY
# Two days with a day of gaps in them show no rhythm: a day's worth of steps must be known.
_STEPS_MIN = DAY // STEP
# Coverage of 0.95 counted on fewer outcomes would be off by more than four percent, two standard errors.
_OUTCOMES_MIN = 100
_STEPS_PER_DAY = DAY // STEP
_MINUTES_PER_DAY = DAY // MINUTE
# A day with more minutes missing than this is tried by its five-minute maxima.
_MINUTES_MISSED_MAX = 200
# A daily turn comes when a worker is free: a day tried an hour off is the same day.
_TURN_SLACK: Nanoseconds = HOUR
_START_UP_SLACK_SECONDS = 20
# A load unseen for longer than this many steps is not extrapolated.
_UNSEEN_STEPS_MAX = 3
# A fit is kept with 24 bits: a load that never moves must not count as uncovered by its last digit.
_ROUNDED = 1 + 1e-6


class BacktestDay(Struct, frozen=True):
    """
    What every candidate did on the day from `begin` on; minutes, pods, actions: little-endian floats of 32 bits.

    expected: percent of pod-hours that the choice in force was to add; None where none was. confirmed: what the choice
    first made after it comes to by the decisions themselves; None while nothing was worth choosing.
    """

    begin: Nanoseconds
    minutes: bytes
    pods: bytes
    actions: bytes
    expected: float | None = None
    confirmed: ForecastEffect | None = None

    @classmethod
    def of(cls, begin: Nanoseconds, screened: CandidateScores, expected: float | None) -> BacktestDay:
        each = (screened.minutes, screened.pods, screened.actions)
        minutes, pods, actions = (values[:, 0].astype("<f4").tobytes() for values in each)
        return cls(begin, minutes, pods, actions, expected)

    def screened(self) -> CandidateScores:
        each = (self.minutes, self.pods, self.actions)
        return CandidateScores(*(np.frombuffer(values, "<f4").astype(np.float64)[:, None] for values in each))


class Rejected(Struct, frozen=True, tag=True):
    """A choice that the decisions themselves do not bear out: what they come to."""

    found: ForecastEffect


class FittedState(Struct, frozen=True):
    """
    Of one series: its fit, what it was made for, what suits it and why.

    expected: percent more pod-hours. spec: digest of the spec that the days were confirmed with. jumps: the jump clock,
    empty where there is none. ignored: the spans that were a gap to all of this, as JSON: they may end after 2262.
    """

    fitted: bytes
    settings: WorkloadModel
    choice: Choice | NothingToGain | Rejected
    tried: list[BacktestDay]
    expected: float
    spec: str = ""
    confirmed: ForecastEffect | None = None
    jumps: bytes = b""
    ignored: bytes = b"[]"


class _Day(NamedTuple):
    """A day that was tried, what was known before it, and the floors of all candidates, where they are at hand."""

    tried: BacktestDay
    known: Floats
    day: Day
    floors: Counts | None


_JSON = msgspec.json.Encoder()
_STATES = msgspec.msgpack.Encoder()
_STATES_DECODER = msgspec.msgpack.Decoder(dict[str, FittedState])


def study(ask: WorkerRequest) -> FitResponse:
    """
    Learn from what the store holds and write it back.

    Raises StoreError where the store cannot be read, OSError where the cluster cannot be reached.
    """
    store = Store(Path(ask.store))
    try:
        pasts = gather(store, ask.subjects, ask.now)
        if ask.cluster is None:
            return keep(store, learn(pasts, ask.now))
        from cronhpa.forecasting import dask as cluster  # noqa: PLC0415 - dask, for those who have a cluster alone

        with cluster.connected(ask.cluster) as executor:
            return keep(store, learn_on(executor, pasts, ask.now))
    finally:
        store.close()


def learn_on(executor: Executor, pasts: Sequence[TrainingData], now: Nanoseconds) -> FitResult:
    """As `learn`, a few at a time, wherever the executor computes. Raises what the first of them raises."""
    parts = [pasts[i : i + _PASTS_PER_TASK] for i in range(0, len(pasts), _PASTS_PER_TASK)]
    lessons = [future.result() for future in [executor.submit(learn, part, now) for part in parts]]
    return FitResult([fit for each in lessons for fit in each.fits], [none for each in lessons for none in each.absent])


def learn(pasts: Sequence[TrainingData], now: Nanoseconds) -> FitResult:
    """
    What suits each series with two days of history, and its fit; absences for the others.

    Touches no store: it runs anywhere.
    """
    absent: list[tuple[Series, Absent]] = []
    known: dict[Series, FittedState] = {}
    learnt: list[tuple[Series, FitInfo]] = []
    end = now - now % STEP
    for past in pasts:
        series = past.subject.series
        found = _study(past, now, end)
        if isinstance(found, Absent):
            absent.append((series, found))
        else:
            known[series] = found
            choice = _JSON.encode(found.choice)
            learnt.append((series, FitInfo(now, digest(past.subject.spec), choice)))
    if not known:
        return FitResult([], absent)
    state = _STATES.encode({str(series): each for series, each in known.items()})
    return FitResult([(Fit(MODEL, now, end, state), learnt)], absent)


def _study(past: TrainingData, now: Nanoseconds, end: Nanoseconds) -> FittedState | Absent:
    """Try the days that were not tried yet, choose from all of them, and fit."""
    highs = np.frombuffer(past.highs, dtype="<f8")
    measured = int(np.count_nonzero(~np.isnan(highs)))
    if measured < _STEPS_MIN or now - past.first < HISTORY_MIN:
        return _learning(past, measured, now)
    settings = settings_of(past.subject)
    if settings is None:
        return Absent(
            "NoPodLoad",
            f"what one pod may carry of {past.subject.series.metric} is not known: it needs a "
            "Utilization or AverageValue target, and for Utilization a request",
        )
    # A history that ended before now did so with a gap.
    steps = np.concatenate([highs, np.full((end - past.first) // STEP - len(highs), np.nan)])
    before = _known_before(past)
    days = _days(past, steps, settings, before, end)
    choice: Choice | NothingToGain | Rejected = NothingToGain(0.0, 0)
    confirmed = None
    if days:
        planned = [each.tried.expected for each in days if each.tried.expected is not None]
        correction = budget_correction(planned, [past.spent_percent]) if planned else 1.0
        corrected = replace(settings, budget_percent=settings.budget_percent * correction)
        screened = together([each.tried.screened() for each in days])
        choice = choose(screened, corrected, steps[-len(days) * _STEPS_PER_DAY :])
        if isinstance(choice, Choice):
            days, confirmed = _confirmed(days, choice, past.subject, settings)
            if not confirmed.pays(_affordable(settings)):
                choice = Rejected(confirmed)
    fitted = ErrorMixture().fit(steps, steps_per_day=_STEPS_PER_DAY, windows=(1, far_steps(settings)))
    if fitted is None:
        metric = past.subject.series.metric
        return Absent("Learning", f"too little of {metric} was measured in the last seven days to learn from")
    minutes = np.frombuffer(past.minutes, dtype="<f4").astype(np.float64)
    clock = fit_jumps(minutes, settings) if isinstance(choice, Choice) and not math.isinf(choice.price) else None
    return FittedState(
        fitted=fitted.encode(),
        settings=settings,
        choice=choice,
        tried=[each.tried for each in days],
        expected=choice.extra_percent if isinstance(choice, Choice) else 0.0,
        spec=digest(past.subject.spec),
        confirmed=confirmed,
        jumps=b"" if clock is None else clock.encode(),
        ignored=_JSON.encode(past.subject.ignored),
    )


def _days(
    past: TrainingData, steps: np.ndarray, settings: WorkloadModel, before: FittedState | None, end: Nanoseconds
) -> list[_Day]:
    """The last seven days, each as every candidate would have spent it; fewer while there are fewer."""
    kept = before.tried if before is not None and _same_world(before.settings, settings) else []
    if before is not None and before.ignored != _JSON.encode(past.subject.ignored):
        kept = []
    kept = [each for each in kept if len(each.minutes) == 4 * (1 + len(CANDIDATES))]  # of another release are others
    is_same_spec = before is not None and before.spec == digest(past.subject.spec)
    days: list[_Day] = []
    for back in range(min(SELECTION_DAYS, len(steps) // _STEPS_PER_DAY - 1), 0, -1):
        begin = end - back * DAY
        row = len(steps) - back * _STEPS_PER_DAY - RUN_UP
        day = _day(steps[row : row + RUN_UP + _STEPS_PER_DAY], past, back)
        tried = next((each for each in kept if abs(each.begin - begin) < _TURN_SLACK), None)
        floors = None
        if tried is None:
            floors = candidate_floors(steps[:row], day, settings, _STEPS_PER_DAY)
            expected = before.expected if before is not None and back == 1 else None
            tried = BacktestDay.of(begin, screen([day], floors, settings, _STEPS_PER_DAY), expected)
        elif not is_same_spec:
            tried = replace(tried, confirmed=None)
        days.append(_Day(tried, steps[:row], day, floors))
    return days


def _day(steps: Floats, past: TrainingData, back: int) -> Day:
    """The day that began so many days ago, by the minute where its minutes are known."""
    minutes = np.frombuffer(past.minutes, dtype="<f4").astype(np.float64)
    end = len(minutes) - (back - 1) * _MINUTES_PER_DAY
    begin = end - (len(steps) + LAGS) * MINUTES_PER_STEP
    if begin < 0 or np.count_nonzero(np.isnan(minutes[begin:end])) > _MINUTES_MISSED_MAX:
        return Day(steps, run_up=RUN_UP)
    return Day(steps, minutes[begin:end], RUN_UP, minutes[: begin + LAGS * MINUTES_PER_STEP])


def _confirmed(
    days: list[_Day], choice: Choice, subject: ForecastTarget, settings: WorkloadModel
) -> tuple[list[_Day], ForecastEffect]:
    """
    The days with what the choice comes to on the newest of them by the decisions themselves, and the sum.

    Earlier days keep what was found then. Those of which nothing was found are asked, the newest first, only until it
    is seen that the choice pays: a week costs a second of CPU.
    """
    known = [each.tried.confirmed for each in days if each.tried.confirmed is not None]
    total = sum(known, start=ForecastEffect(0, 0.0, 0.0, 0.0, 0.0))
    asked = list(days)
    for place in reversed(range(len(days))):
        each = days[place]
        if each.tried.confirmed is None:
            floors = each.floors
            if floors is None:
                floors = candidate_floors(each.known, each.day, settings, _STEPS_PER_DAY)
            found = effect_of_choice(subject, settings, choice, each.day, each.tried.begin, floors)
            total = total if found is None else total + found
            asked[place] = each._replace(tried=replace(each.tried, confirmed=found))
        if total.pays(_affordable(settings)):
            break
    return asked, total


def _affordable(settings: WorkloadModel) -> float:
    """
    Percent of pod-hours up to which a choice pays: what the meter allows on any one day.

    The meter keeps the budget itself. Who spent too little plans with up to half as much again, and of a plan for 5 %
    the decisions made 7 %: to take no more than 6.25 % cost k8s_app12 half of what it gained.
    """
    return settings.budget_percent * DAY_FACTOR


def _same_world(one: WorkloadModel, other: WorkloadModel) -> bool:
    """Whether days tried under one say something under the other: only the budget may differ, start-up by a little."""
    if abs(one.start_up_seconds - other.start_up_seconds) > _START_UP_SLACK_SECONDS:
        return False
    return replace(one, budget_percent=0.0, start_up_seconds=0) == replace(
        other, budget_percent=0.0, start_up_seconds=0
    )


def _known_before(past: TrainingData) -> FittedState | None:
    """What the last round kept; None where there was none, or one of another release."""
    try:
        return _STATES_DECODER.decode(past.before).get(str(past.subject.series)) if past.before else None
    except msgspec.MsgspecError:
        return None


def settings_of(subject: ForecastTarget) -> WorkloadModel | None:
    """What the object's spec makes of its load; None where it does not say what a pod carries."""
    spec = subject.spec
    metric = forecast_source(spec)
    if metric is None or metric.name != subject.series.metric or spec.forecast is None:
        return None
    target = target_load(metric, subject.request)
    capacity = pod_capacity(metric, subject.request, spec.forecast.pod_capacity_percent)
    if target is None or capacity is None or target <= 0:
        return None
    return WorkloadModel(
        target=target,
        carried=max(target, capacity * GUARD_PERCENT / 100),
        capacity=max(target, capacity),
        start_up_seconds=lead_time(subject.start_up, spec.tuning) // SECOND,
        budget_percent=float(spec.forecast.budget_percent),
    )


def forecast(ask: WorkerRequest) -> ForecastResponse:
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
            if fit.model == MODEL and 0 <= ask.now - fit.fitted_at < FIT_AGE_MAX:
                known = _STATES_DECODER.decode(fit.state)
                for series in members:
                    made = _forecast(store, fit, subjects[series], known[str(series)], ask.now)
                    answers[series] = made
        unsaved = store.save_forecasts([(s, value) for s, value in answers.items() if isinstance(value, Forecast)])
    finally:
        store.close()
    return ForecastResponse(list(answers.items()), unsaved)


def _learning(past: TrainingData, measured: int, now: Nanoseconds) -> Absent:
    hours = (now - past.first) // HOUR if measured else 0
    known = measured * STEP // HOUR
    return Absent(
        "Learning",
        f"{known} h of {past.subject.series.metric} measured over {hours} h: "
        f"forecasts begin with {HISTORY_MIN // HOUR} h of history, {_STEPS_MIN * STEP // HOUR} h of it measured",
    )


def _forecast(
    store: Store, fit: Fit, subject: ForecastTarget, known: FittedState, now: Nanoseconds
) -> Forecast | Absent:
    """What the choice says now, from the newest complete minutes, or steps where there are no minutes."""
    series, choice, settings = subject.series, known.choice, known.settings
    if not isinstance(choice, Choice):
        return Absent(NOTHING_TO_GAIN, _nothing_to_gain(choice, settings))
    start = now - now % STEP
    fitted = ErrorMixture().decode(known.fitted)
    first = fit.trained_until - len(fitted.load) * STEP
    later = _later(store, subject, fit.trained_until, start)
    origin = _minute_origin(store, series, first, now)
    by_minute = origin is not None
    if origin is None:
        whole = np.concatenate([fitted.load, later])
        seen = np.flatnonzero(~np.isnan(whole))
        if not len(seen) or len(whole) - 1 - seen[-1] > _UNSEEN_STEPS_MAX:
            return _stale(store, series, start)
        origin = on_grid(fitted.load, later, seen[-1:])
    steps = np.concatenate([fitted.load, later])
    recent_hits = _over_or_under(store, series, steps, first, start)
    highest = np.concatenate([steps[-_CEILING_SPAN // STEP :], origin.recent[0, :2]])
    ceiling = CEILING * float(np.nanmax(highest))
    running = float(reactive_pods(origin.recent[:, 0], settings)[0])
    # By the minute the window behind the next matters to slow pods alone.
    found = fitted.distribution(later, origin, 1 if by_minute and not is_slow(settings) else None)
    jumps = _jumps(store, fit, subject, known, now) if by_minute else None
    said = stated(choice, found, running, settings.carried, ceiling, jumps)
    if said is None:
        return _stale(store, series, start)
    near, far = said.load[0], said.load[-1]
    # By the minute the first window ends within the next step; by the step it is the one that runs.
    load = (near, near, far, far) if by_minute else (near, far, far, far)
    level = said.level[0]
    return Forecast(
        metric=series.metric,
        issued_at=now,
        start=start,
        step=STEP,
        load=load + load[-1:] * far_steps(settings),
        ceiling=ceiling,
        model=choice.method or (LEAST if math.isinf(choice.price) else JUMP_CLOCK),
        quantile_percent=round(100 * level),
        trained_until=fit.trained_until,
        coverage_percent=None if recent_hits is None else round(100 * min(max(level + recent_hits, 0.0), 1.0)),
        track_record=_track_record(known, choice),
    )


def _track_record(known: FittedState, choice: Choice) -> TrackRecord:
    """What the decisions themselves came to; of a release that did not ask them, what the columns did."""
    if known.confirmed is not None:
        return known.confirmed.track_record
    return TrackRecord(choice.avoided, choice.of, choice.extra_percent, choice.days)


def _nothing_to_gain(found: NothingToGain | Rejected, settings: WorkloadModel) -> str:
    budget = f"{settings.budget_percent:g} % more pod-hours"
    if isinstance(found, NothingToGain):
        days = in_days(found.days)
        return f"of {found.of:.0f} under-provisioned minutes in {days} too few could be avoided within {budget}"
    record = found.found.track_record
    return (
        f"with this object's bounds, behavior and schedules {record.avoided:.0f} of {record.of:.0f} under-provisioned "
        f"minutes in {in_days(record.days)} would be avoided at {record.extra_percent:+.1f} % pod-hours: "
        f"some are needed, at no more than {_affordable(settings):g} %"
    )


def _later(store: Store, subject: ForecastTarget, since: Nanoseconds, until: Nanoseconds) -> np.ndarray:
    """The complete steps since the fit, NaN for a gap."""
    out = np.full(max((until - since) // STEP, 0), np.nan)
    first, highs = store.history(subject.series, since, until)
    values = np.asarray(masked(first, highs, subject.ignored))
    row = (first - since) // STEP
    out[row : row + len(values)] = values[: len(out) - row] if len(values) else values
    return out


def _minute_origin(store: Store, series: Series, first: Nanoseconds, now: Nanoseconds) -> Origins | None:
    """The newest complete minute as an origin; None where one of the last two was not measured."""
    end = now - now % MINUTE
    known = store.newest_minutes(series, end - LAGS * STEP, end)
    if len(known) < 2 or known[-2][0] < end - 2 * MINUTE:  # noqa: PLR2004 - two minutes, as above
        return None
    minutes = np.full(LAGS * MINUTES_PER_STEP, np.nan)
    minutes[[(end - MINUTE - at) // MINUTE for at, _ in known]] = [high for _, high in known]
    recent = np.fmax.reduce(minutes.reshape(LAGS, MINUTES_PER_STEP), axis=1)
    return Origins(np.array([(end - first) / STEP - 1]), recent[None])


def _jumps(store: Store, fit: Fit, subject: ForecastTarget, known: FittedState, now: Nanoseconds) -> Jumps | None:
    """What the jump clock tells now, from the newest complete minute; None where there is none."""
    if not known.jumps:
        return None
    minutes = np.full((now - fit.trained_until) // MINUTE, np.nan)
    first, highs = store.minute_history(subject.series, fit.trained_until, fit.trained_until + len(minutes) * MINUTE)
    row = (first - fit.trained_until) // MINUTE
    minutes[row : row + len(highs)] = masked(first, highs, subject.ignored, MINUTE)
    return jumps_since(spike_hazard.decode(known.jumps), minutes, np.array([len(minutes)]), known.settings)


def _stale(store: Store, series: Series, start: Nanoseconds) -> Absent:
    steps = store.steps(series, start - _RECENT, start + STEP)
    seen = f"last measured before {format_instant(steps[-1][0] + STEP)}" if steps else "not measured for six hours"
    return Absent("Stale", f"{series.metric} was {seen}: a forecast needs a load from the last 15 minutes")


def _over_or_under(
    store: Store, series: Series, steps: np.ndarray, first: Nanoseconds, start: Nanoseconds
) -> float | None:
    """
    The share of outcomes that stayed below what was stated, less the share that was stated, as known at `start`.

    Counted on the second step of the last day's forecasts. Levels differ from forecast to forecast, so that only what
    they are over or under can be added up; None while too few are known.
    """
    newest = store.latest_forecast(series)
    if newest is not None and newest.start == start and newest.coverage_percent is not None:
        # The same step's forecast of a minute ago has counted already.
        return (newest.coverage_percent - newest.quantile_percent) / 100
    hits = []
    for each in store.stated(series, start - DAY + STEP, start):
        row = (each.start - first) // STEP
        if 0 <= row < len(steps) and not np.isnan(steps[row]):
            hits.append((steps[row] <= each.load * _ROUNDED) - each.percent / 100)
    return float(sum(hits)) / len(hits) if len(hits) >= _OUTCOMES_MIN else None
