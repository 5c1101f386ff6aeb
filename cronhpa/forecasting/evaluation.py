"""
The daily evaluation: a backtest of every candidate on one past day, fitted on the history before that day.

Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from dataclasses import replace as replace_field

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.forecasting.candidates import Candidate
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Counts, Floats, simulate
from cronhpa.forecasting.fitted_models import (
    RUN_UP_MINUTES,
    Attempt,
    KnownLoad,
    RecentLoad,
    by_minute,
    fit_models,
    without_gaps,
)
from cronhpa.forecasting.predictions import PredictionsRequest, predict
from cronhpa.forecasting.provisioning import provisioned_by_candidate
from cronhpa.forecasting.workload import WorkloadModel
from cronhpa.history.load.packing import STEPS_PER_DAY
from cronhpa.simulation.forecast_effect import ForecastEffect
from cronhpa_models.catalog import ChosenMethod

# Steps before a day that are replayed but not scored: a load at the begin of the day may need a floor from them.
RUN_UP_STEPS = 12
# Run-up and day in three spans side by side: half of the ticks, run-ups of the spans included.
_SPAN_SECONDS = 30_000
# A day with more missing minutes is evaluated by its five-minute maxima.
_MINUTES_MISSED_MAX = 200


@dataclass(frozen=True)
class PastDay:
    """A day to evaluate candidates on."""

    before: KnownLoad
    """The history up to the run-up."""
    load: RecentLoad
    """The load of the run-up and the day, as since a fit."""
    are_points: bool = False
    """Whether steps are points five minutes apart instead of maxima, because the history has no minutes."""

    @property
    def minutes(self) -> Floats | None:
        """The single minutes of run-up and day."""
        return self.load.minutes_since_fit


class DayScores(Struct, frozen=True):
    """
    The scores of every candidate on one day: little-endian 32-bit floats, plain reactive scaling first, compressed.
    """

    begin: Nanoseconds
    """Begin of the day."""
    table: bytes
    expected_percent: float | None = None
    """Extra pod-hours that the policy active on that day predicted; None if there was none."""
    effect: ForecastEffect | None = None
    """Effect of the choice made after the day, by `decide`; None if there was no choice."""

    @classmethod
    def of(cls, begin: Nanoseconds, scores: CandidateScores, expected_percent: float | None) -> DayScores:
        table = np.stack([getattr(scores, name)[:, 0] for name in SCORES]).astype("<f4")
        return cls(begin, zlib.compress(table.tobytes(), 1), expected_percent)

    @property
    def candidates(self) -> int:
        """The number of evaluated candidates."""
        return len(zlib.decompress(self.table)) // (4 * len(SCORES)) - 1

    def scores(self) -> CandidateScores:
        table = np.frombuffer(zlib.decompress(self.table), "<f4").astype(np.float64)
        return CandidateScores(*table.reshape(len(SCORES), -1, 1))


@dataclass(frozen=True)
class CandidateScores:
    """(1 + candidates, days) each; the first row is plain reactive scaling."""

    minutes: Floats
    """Under-provisioned minutes."""
    pods: Floats
    """Mean replicas x steps."""
    actions: Floats
    """Changes of the replica count."""
    lowest: Floats
    highest: Floats
    """The largest count of replicas."""

    @classmethod
    def together(cls, days: Sequence[CandidateScores]) -> CandidateScores:
        return cls(*(np.concatenate([getattr(day, name) for day in days], axis=1) for name in SCORES))


SCORES = tuple(field.name for field in fields(CandidateScores))


def past_day(history: KnownLoad, days_back: int) -> PastDay:
    """The day that began `days_back` days before the end of the history, by the minute if its minutes are known."""
    after = (days_back - 1) * history.steps_per_day
    length = RUN_UP_STEPS + history.steps_per_day
    before = history.until(after + length)
    steps = history.steps[len(before.steps) : len(history.steps) - after]
    if history.minutes is None:
        return PastDay(before, RecentLoad(steps), are_points=True)
    end = len(history.minutes) - after * MINUTES_PER_STEP
    begin = end - length * MINUTES_PER_STEP - RUN_UP_MINUTES
    missing_max = _MINUTES_MISSED_MAX * history.steps_per_day / STEPS_PER_DAY
    if begin < 0 or np.count_nonzero(np.isnan(history.minutes[begin:end])) > missing_max:
        return PastDay(replace_field(before, minutes=None), RecentLoad(steps))
    return PastDay(before, RecentLoad(steps, history.minutes[begin:end]))


def provisioned_on_day(
    day: PastDay,
    workload: WorkloadModel,
    catalog: Sequence[ChosenMethod],
    candidates: Sequence[Candidate],
    attempt: Attempt,
) -> Counts:
    """(1 + candidates, minutes): the floor of each candidate in run-up and day; the first row is without one."""
    windows = workload.windows(by_minute=day.minutes is not None)
    methods = {candidate.method for candidate in candidates}
    used = [chosen for chosen in catalog if methods.intersection(chosen.variants)]
    models = fit_models(day.before, workload, used, attempt, windows)
    cost = min(map(models.cost, candidates))
    predictions = predict(PredictionsRequest(models, day.load, day.load.origins, methods, attempt, cost))
    floors = provisioned_by_candidate(models, predictions, candidates)
    length = len(day.load.steps) * MINUTES_PER_STEP
    return np.concatenate([np.zeros((1, length), np.int16), by_minute(floors, workload, length)])


def score(day: PastDay, floors: Counts, workload: WorkloadModel) -> CandidateScores:
    """Replay a day in the vectorized autoscaler, a tick a minute, with each row of floors."""
    minutes = day.minutes
    load = _replayed(day) if minutes is None else without_gaps(minutes)
    # Many candidates have the same floors all day: replay one of them.
    numbers: dict[bytes, int] = {}
    same = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in floors])
    first = np.unique(same, return_index=True)[1]
    autoscaler = replace_field(workload.autoscaler(), tick_seconds=60, is_linear=False)
    outcomes = simulate(load / workload.capacity, floors[first], autoscaler, span_seconds=_SPAN_SECONDS)

    def over_day(together: np.ufunc, values: NDArray[np.float32]) -> Floats:
        return np.asarray(together.reduce(values[:, RUN_UP_STEPS:], axis=1, keepdims=True)[same], dtype=np.float64)

    return CandidateScores(
        over_day(np.add, outcomes.under) / 60,
        over_day(np.add, outcomes.pods),
        over_day(np.add, outcomes.actions),
        over_day(np.minimum, outcomes.lowest),
        over_day(np.maximum, outcomes.highest),
    )


def _replayed(day: PastDay) -> Floats:
    """
    A load for each minute, through gaps too.

    Maxima: a step's maximum is known at the end of the step; a rise within a step is assumed in its first minute.
    Points: the load is linear from one to the next.
    """
    full = without_gaps(day.load.steps)
    if day.are_points:
        # A point lies at the end of its step.
        minutes = np.arange(len(full) * MINUTES_PER_STEP) / MINUTES_PER_STEP - 1
        return np.asarray(np.interp(minutes, np.arange(len(full)), full), dtype=np.float64)
    under_way = np.concatenate([full[1:], full[-1:]])
    rising = np.where(np.arange(MINUTES_PER_STEP) == 0, full[:, None], under_way[:, None])
    return np.asarray(rising.ravel(), dtype=np.float64)
