"""
The forecast policy of an object: `fit` evaluates, chooses and validates once a day, `provision` gives the replicas.

Both are pure: arrays in, values out. The worker, the backtest and the benchmarks call them, and nothing else provisions
pods. Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.forecasts.budget import DAY_FACTOR
from cronhpa.core.model.forecast import TrackRecord, in_days
from cronhpa.core.model.instant import DAY, HOUR, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.printable import printable
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.candidates import NO_METHOD, Candidate, candidates_of
from cronhpa.forecasting.choice import Choice, NothingToGain, budget_correction, choose
from cronhpa.forecasting.columns import Counts
from cronhpa.forecasting.evaluation import CandidateScores, DayScores, PastDay, past_day, provisioned_on_day, score
from cronhpa.forecasting.fitted_models import (
    FittedModels,
    KnownLoad,
    Minutes,
    ModelStates,
    RecentLoad,
    fit_models,
)
from cronhpa.forecasting.messages import ForecastTarget, digest
from cronhpa.forecasting.provisioning import Provisioned, ProvisioningRequest, provision_all
from cronhpa.forecasting.validation import effect_by_columns, validate
from cronhpa.forecasting.workload import WorkloadModel, backtests_agree
from cronhpa.history.database.series import STEP, STEPS_KEPT
from cronhpa.history.load.packing import STEPS_PER_DAY
from cronhpa.simulation.forecast_effect import ForecastEffect
from cronhpa_models import spike_hazard
from cronhpa_models.catalog import ChosenMethod

# Days that candidates are evaluated on.
EVALUATED_DAYS = 14
# A fit needs two days of history, one of them measured.
HISTORY_DAYS_MIN = 2
# The names of floors that no method asked for.
CONSTANT = "ConstantFloor"
SPIKES_ALONE = "SpikeHazard"

# A daily fit waits for a free worker: days that begin less than this apart are the same day.
_DAY_SLACK: Nanoseconds = HOUR
# A fit needs an hour of the last week measured: 1/24 of a day's steps.
_HOURS_A_DAY = 24
_FAILURE_LENGTH_MAX = 300
_JSON = msgspec.json.Encoder()
_DAYS = msgspec.msgpack.Encoder()
_DAYS_DECODER = msgspec.msgpack.Decoder(list[DayScores])

T = TypeVar("T")


class Rejected(Struct, frozen=True, tag=True):
    """A choice that does not pay when `decide` runs it with the object's own spec."""

    effect: ForecastEffect


class FittedPolicy(Struct, frozen=True):
    """The result of a fit, used until the next one: the store holds it as it is."""

    workload: WorkloadModel
    choice: Choice | NothingToGain | Rejected
    """The candidate in use, or why there is none."""
    models: ModelStates
    """Models of the methods that the choice uses."""
    constants: tuple[int, ...]
    by_hour: tuple[tuple[int, ...], ...]
    mean_replicas: float
    week_max: float
    tail: bytes
    days: memoryview
    """The evaluated days, encoded, because only the next fit reads them."""
    variants: tuple[str, ...]
    """Variants of the methods of all candidates on those days."""
    expected_percent: float | None
    """Extra pod-hours that the choice predicts; None without a choice."""
    spec: str
    ignored: bytes
    """Digest of the spec, and the ignored spans, at the fit."""
    effect: ForecastEffect | None = None
    """Effect of the choice on the evaluated days, by `decide`."""
    failures: dict[str, str] = {}
    """Methods that could not be used, with reasons."""
    left_out: tuple[Span, ...] = ()
    """What was left out of the fit."""
    steps_per_day: int = STEPS_PER_DAY
    """As in FittedModels; tail as little-endian doubles."""

    @property
    def track_record(self) -> TrackRecord | None:
        """The backtest of the choice by `decide`; by the vectorized autoscaler if no day was validated."""
        if self.effect is not None:
            return self.effect.track_record
        if not isinstance(self.choice, Choice):
            return None
        return TrackRecord(self.choice.avoided, self.choice.of, self.choice.extra_percent, self.choice.days)

    @property
    def model_name(self) -> str:
        """The method of the choice, as the status names it."""
        if not isinstance(self.choice, Choice):
            return ""
        candidate = self.choice.candidate
        return candidate.method or (SPIKES_ALONE if self.models.spikes and not candidate.is_constant else CONSTANT)

    def why_nothing(self) -> str:
        """A sentence that says why there is no floor."""
        budget = self.workload.budget_percent
        if isinstance(self.choice, NothingToGain):
            if round(self.choice.of) == 0:
                return f"no minute in {in_days(self.choice.days)} was under-provisioned"
            return (
                f"of {self.choice.of:.0f} under-provisioned minutes in {in_days(self.choice.days)} too few could be "
                f"avoided within {budget:g} % more pod-hours"
            )
        assert isinstance(self.choice, Rejected), "a choice is something"
        record = self.choice.effect.track_record
        return (
            f"with this object's bounds, behavior and schedules {record.avoided:.0f} of {record.of:.0f} "
            f"under-provisioned minutes in {in_days(record.days)} would be avoided at {record.extra_percent:+.1f} % "
            f"pod-hours: some are needed, at no more than {affordable_percent(self.workload):g} %"
        )


class Attempts:
    """Runs methods so that others go on if one raises. failures: reasons by the method's name."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}

    def __call__(self, name: str, work: Callable[[], T], /) -> T | None:
        try:
            return work()
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - other people's methods may raise anything
            self.failures[name] = _described(problem)
            return None


def fit(  # noqa: PLR0913 - the history, its object, the methods, and the last fit
    history: KnownLoad,
    target: ForecastTarget,
    workload: WorkloadModel,
    catalog: Sequence[ChosenMethod],
    now: Nanoseconds,
    *,
    previous: FittedPolicy | None = None,
    spent_percent: float | None = None,
    attempt: Attempts | None = None,
    evaluate: Callable[[Nanoseconds, Callable[[], CandidateScores]], CandidateScores] = lambda _begin, work: work(),
) -> FittedPolicy | Absent:
    """
    Evaluate the days that were not evaluated yet, choose a candidate by all days, validate it, and fit its methods.

    history: up to `now`; its first step must be known. catalog: the methods to choose from. previous: the last fit of
    the same series. spent_percent: extra pod-hours of the last seven days; None if nothing was counted. evaluate: may
    cache the scores of a day for callers that fit the same history several times. Absent("Learning") with less than two
    days of history, or less than one day measured.
    """
    attempt = attempt or Attempts()
    too_short = why_too_short(history, target)
    if too_short is not None:
        return Absent("Learning", too_short)
    models = fit_models(history, workload, catalog, attempt, workload.windows(by_minute=False))
    for chosen in catalog:
        if not any(usable is chosen for usable, _ in models.methods):
            attempt.failures.setdefault(chosen.method.name, "too little was measured for it")
    candidates = candidates_of([variant for chosen in catalog for variant in chosen.variants])
    round_ = _Round(history, target, workload, catalog, candidates, now - now % STEP, attempt)
    days = round_.evaluated(previous, evaluate)
    choice: Choice | NothingToGain | Rejected = NothingToGain(0.0, 0)
    effect = None
    if days:
        expected = [day.expected_percent for day in days if day.expected_percent is not None]
        correction = 1.0 if spent_percent is None else budget_correction(expected, [spent_percent])
        scores = CandidateScores.together([day.scores() for day in days])
        # A method that failed on one of the days may fail on the next.
        models = models.without(attempt.failures)
        usable = np.array([True, *(candidate.method in (NO_METHOD, *models.variants) for candidate in candidates)])
        choice = choose(scores, candidates, workload.budget_percent * correction, usable)
        if isinstance(choice, Choice):
            days, effect = round_.validated(days, choice)
            if not effect.pays(affordable_percent(workload)):
                choice = Rejected(effect)
    kept = models.only((), spikes=False)
    if isinstance(choice, Choice):
        candidate = choice.candidate
        kept = models.only(
            [candidate.method or next(iter(models.variants), NO_METHOD)], spikes=not candidate.is_constant
        )
    return FittedPolicy(
        workload=workload,
        choice=choice,
        models=kept.states(attempt),
        constants=models.constants,
        by_hour=models.by_hour,
        mean_replicas=models.mean_replicas,
        week_max=models.week_max,
        tail=models.tail.astype("<f8").tobytes(),
        days=memoryview(_DAYS.encode(days)),
        variants=tuple(variant for chosen in catalog for variant in chosen.variants),
        expected_percent=choice.extra_percent if isinstance(choice, Choice) else None,
        spec=digest(target.spec),
        ignored=_JSON.encode(target.ignored),
        effect=effect,
        failures=dict(attempt.failures),
        left_out=target.left_out,
        steps_per_day=history.steps_per_day,
    )


def provision(
    fitted: FittedPolicy,
    models: FittedModels,
    recent: RecentLoad,
    origins: Minutes,
    attempt: Attempts | None = None,
) -> Provisioned | None:
    """
    What the policy provisions at some origins, from the loads before each; None if the fit found no choice.

    models: `models_of(fitted, ...)`, decoded once for many origins. origins: see RecentLoad.origins.
    """
    return provision_together([(fitted, models, recent, origins, attempt or Attempts())])[0]


def provision_together(
    several: Sequence[tuple[FittedPolicy, FittedModels, RecentLoad, Minutes, Attempts]],
) -> list[Provisioned | None]:
    """`provision` for several objects, in one pass over all of their origins."""
    requests = [
        ProvisioningRequest(fitted.choice.candidate, models, recent, origins, attempt)
        for fitted, models, recent, origins, attempt in several
        if isinstance(fitted.choice, Choice)
    ]
    answers = iter(provision_all(requests))
    return [next(answers) if isinstance(fitted.choice, Choice) else None for fitted, *_ in several]


def models_of(fitted: FittedPolicy, catalog: Sequence[ChosenMethod], attempt: Attempts | None = None) -> FittedModels:
    """The models that the policy's choice uses. A method that is not in the catalog is left out."""
    attempt = attempt or Attempts()
    methods = []
    for chosen in catalog:
        state = fitted.models.methods.get(chosen.method.name)
        model = None if state is None else attempt(chosen.method.name, partial(chosen.method.decode, state))
        if model is not None:
            methods.append((chosen, model))
    for name in fitted.models.methods.keys() - {chosen.method.name for chosen in catalog}:
        attempt.failures[name] = "the choice asks this method, and it is not in the catalog"
    return FittedModels(
        fitted.workload,
        tuple(methods),
        spike_hazard.decode(fitted.models.spikes) if fitted.models.spikes else None,
        fitted.constants,
        fitted.by_hour,
        fitted.mean_replicas,
        fitted.week_max,
        np.frombuffer(fitted.tail, "<f8"),
        fitted.steps_per_day,
    )


def affordable_percent(workload: WorkloadModel) -> float:
    """
    The largest accepted extra pod-hours of a choice, percent: twice the budget.

    The budget itself is enforced at run time. After choices that spent too little, the next one may plan up to 1.5
    times the budget, and days differ.
    """
    return workload.budget_percent * DAY_FACTOR


@dataclass(frozen=True)
class _Round:
    """The values that the steps of one fit share."""

    history: KnownLoad
    target: ForecastTarget
    workload: WorkloadModel
    catalog: Sequence[ChosenMethod]
    candidates: Sequence[Candidate]
    end: Nanoseconds
    attempt: Attempts
    newest: list[Counts] = field(default_factory=list)
    """The floors of every candidate on the newest day, if known."""

    def evaluated(
        self,
        previous: FittedPolicy | None,
        evaluate: Callable[[Nanoseconds, Callable[[], CandidateScores]], CandidateScores],
    ) -> list[DayScores]:
        """The last days, the oldest first, with the scores of every candidate on each."""
        kept = self._kept(previous)
        is_same_spec = previous is not None and previous.spec == digest(self.target.spec)
        count = min(EVALUATED_DAYS, len(self.history.steps) // self.history.steps_per_day - 1)
        days = []
        for back in range(count, 0, -1):
            begin = self.end - back * DAY
            day = next((evaluated for evaluated in kept if abs(evaluated.begin - begin) < _DAY_SLACK), None)
            if day is None:
                expected = previous.expected_percent if previous is not None and back == 1 else None
                day = DayScores.of(begin, evaluate(begin, partial(self._scores, back)), expected)
            elif not is_same_spec:
                day = replace(day, effect=None)
            days.append(day)
        return days

    def validated(self, days: list[DayScores], choice: Choice) -> tuple[list[DayScores], ForecastEffect]:
        """
        The days with the effect of the choice on the newest of them, and the sum of all effects.

        Days that were validated before keep the effect of their own choice. The other days are validated, the newest
        first, until the choice pays.
        """
        effects = [day.effect for day in days if day.effect is not None]
        total = sum(effects, start=ForecastEffect(0, 0.0, 0.0, 0.0, 0.0))
        days = list(days)
        for place in reversed(range(len(days))):
            if days[place].effect is None:
                effect = self._effect(len(days) - place, days[place], choice)
                total = total if effect is None else total + effect
                days[place] = replace(days[place], effect=effect)
            if total.pays(affordable_percent(self.workload)):
                break
        return days, total

    def _kept(self, previous: FittedPolicy | None) -> list[DayScores]:
        """The evaluated days of the last fit that are valid for this one."""
        if previous is None or not backtests_agree(previous.workload, self.workload):
            return []
        if previous.ignored != _JSON.encode(self.target.ignored):
            return []
        if previous.variants != tuple(variant for chosen in self.catalog for variant in chosen.variants):
            return []
        days = _DAYS_DECODER.decode(previous.days)
        # Days of a release with other candidates are evaluated again.
        return [
            day
            for day in days
            if day.candidates == len(self.candidates)
            and _seen_by(day, previous.left_out) == _seen_by(day, self.target.left_out)
        ]

    def _scores(self, back: int) -> CandidateScores:
        day = past_day(self.history, back)
        floors = self._floors(day, self.candidates)
        if back == 1:
            self.newest.append(floors)
        return score(day, floors, self.workload)

    def _effect(self, back: int, scored: DayScores, choice: Choice) -> ForecastEffect | None:
        day = past_day(self.history, back)
        row = 1 + self.candidates.index(choice.candidate)
        effect = effect_by_columns(self.target, day, scored.scores(), row)
        if effect is not None:
            return effect
        floors = self.newest[0][row] if back == 1 and self.newest else self._floors(day, [choice.candidate])[1]
        return validate(self.target, self.workload, day, scored.begin, floors)

    def _floors(self, day: PastDay, candidates: Sequence[Candidate]) -> Counts:
        return provisioned_on_day(day, self.workload, self.catalog, candidates, self.attempt)


def _described(problem: BaseException) -> str:
    try:
        text = str(problem)
    except Exception:  # noqa: BLE001 - as above
        text = "an error without a text"
    return printable(f"{type(problem).__name__}: {text}"[:_FAILURE_LENGTH_MAX])


def _seen_by(day: DayScores, spans: Sequence[Span]) -> list[Span]:
    """Those of the spans that change the evaluation of a day. What comes after it does not: an event costs no day."""
    end = day.begin + DAY
    return [
        Span(max(span.begin, end - STEPS_KEPT), min(span.end, end))
        for span in spans
        if span.begin < end and span.end > end - STEPS_KEPT
    ]


def why_too_short(history: KnownLoad, target: ForecastTarget) -> str | None:
    """Why nothing can be learnt from a history; None if it is long enough."""
    metric, measured = target.series.metric, int(np.count_nonzero(~np.isnan(history.steps)))
    if measured < history.steps_per_day or len(history.steps) < HISTORY_DAYS_MIN * history.steps_per_day:
        # Without a known step the length of the array is that of the whole storage time, not of the history.
        measured_so_far = f"no load of {metric} to learn from yet"
        if measured:
            measured_so_far = (
                f"{_span(measured, history)} of {metric} measured over {_span(len(history.steps), history)}"
            )
        if target.left_out or target.ignored:
            measured_so_far += ", without days and hours that are left out"
        return f"{measured_so_far}: forecasts begin with {HISTORY_DAYS_MIN * 24} h of history, 24 h of it measured"
    # A history that ended before the last week does not predict the next day.
    if np.count_nonzero(~np.isnan(history.week)) * _HOURS_A_DAY < history.steps_per_day:
        return f"too little of {metric} was measured in the last seven days to learn from"
    return None


def _span(steps: int, history: KnownLoad) -> str:
    hours, minutes = divmod(steps * 24 * 60 // history.steps_per_day, 60)
    return f"{hours} h" if hours else f"{minutes} min"
