"""
The predictions of fitted models at some origins, from the loads before each; for one object, or for many in one pass.

Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cronhpa.forecasting.columns import MINUTES_PER_STEP, Floats
from cronhpa.forecasting.fitted_models import CEILING, RUN_UP_MINUTES, Attempt, FittedModels, Minutes, RecentLoad
from cronhpa.forecasting.pricing import HOURS
from cronhpa.forecasting.workload import (
    HELD_MINUTES,
    WorkloadModel,
    reactive_replicas_of_several,
    shortages_of_several,
)
from cronhpa_models import spike_hazard
from cronhpa_models.catalog import ChosenMethod
from cronhpa_models.method import LAGS, BatchMethod, Distribution, Fitted, Origins, fault
from cronhpa_models.spike_hazard import Spikes

MINUTES_PER_HOUR = 60


@dataclass(frozen=True)
class Predictions:
    """Predictive distributions and spike probabilities at some origins, from the loads before each."""

    distributions: dict[str, tuple[Floats, Floats]]
    """Load and cdf by variant, (windows, origins, bins) each."""
    spikes: tuple[Spikes, Floats] | None
    """The spike hazard's spikes, and the replicas that stabilization holds at each origin; None without a hazard."""
    running: Floats
    """(origins,), replicas without a forecast."""
    ceiling: Floats
    """(origins,), the largest plausible load."""
    hours: Minutes
    """(origins,), whole hours since the fit."""
    windows: int
    """The number of windows of the distributions."""


@dataclass(frozen=True)
class PredictionsRequest:
    """The inputs of predictions."""

    models: FittedModels
    recent: RecentLoad
    origins: Minutes
    """See RecentLoad.origins."""
    variants: Collection[str]
    """The requested variants; those whose method is not among the models, or fails, are left out."""
    attempt: Attempt
    cost: float = 0.0
    """The lowest cost of a pod in use, as a probability; the heights of less likely spikes are not computed."""

    @property
    def hours(self) -> Minutes:
        """(origins,): whole hours since the fit."""
        if self.recent.minutes is not None:
            return self.origins // MINUTES_PER_HOUR
        return self.origins * HOURS // self.models.steps_per_day

    @property
    def windows(self) -> int:
        return len(self.models.workload.windows(by_minute=self.recent.minutes is not None))


def predict(request: PredictionsRequest) -> Predictions:
    """The predictions at some origins; loads of `recent` after an origin are not used for that origin."""
    return predict_all([request])[0]


def predict_all(requests: Sequence[PredictionsRequest]) -> list[Predictions]:
    """The predictions of each object, the same as alone. Methods and spike hazards compute many objects in one pass."""
    newest = [_newest_steps(request) for request in requests]
    windows = [request.windows for request in requests]
    distributions = _distributions(requests, newest, windows)
    spikes = _spikes_at(requests)
    running = reactive_replicas_of_several(
        [steps[:, 0] for steps in newest], [request.models.workload for request in requests]
    )
    return [
        Predictions(
            distributions[place], spikes.get(place), running[place], _ceiling(request), request.hours, windows[place]
        )
        for place, request in enumerate(requests)
    ]


def _ceiling(request: PredictionsRequest) -> Floats:
    """(origins,): see Predictions.ceiling."""
    trusted = request.recent.minutes_since_fit
    steps = request.recent.steps if trusted is None else trusted
    if len(request.origins) == 1:
        return np.array([CEILING * np.fmax.reduce(steps[: request.origins[0]], initial=request.models.week_max)])
    highest = np.fmax.accumulate(np.concatenate([[request.models.week_max], steps]))
    return np.asarray(CEILING * highest[request.origins])


def _newest_steps(request: PredictionsRequest) -> Floats:
    """(origins, LAGS): see Origins.recent."""
    recent, origins = request.recent, request.origins
    if recent.minutes is None:
        steps = np.concatenate([request.models.tail, recent.steps])
        return np.asarray(np.lib.stride_tricks.sliding_window_view(steps, LAGS)[origins, ::-1])
    rows = (origins + RUN_UP_MINUTES - 1)[:, None] - np.arange(RUN_UP_MINUTES)
    return np.asarray(np.fmax.reduce(recent.minutes[rows].reshape(-1, LAGS, MINUTES_PER_STEP), axis=-1))


def _distributions(
    requests: Sequence[PredictionsRequest], newest: Sequence[Floats], windows: Sequence[int]
) -> list[dict[str, tuple[Floats, Floats]]]:
    """For each object, by variant: load and cdf. newest: of each, see Origins.recent."""
    distributions: list[dict[str, tuple[Floats, Floats]]] = [{} for _ in requests]
    questions: dict[tuple[str, int], list[_Question]] = {}
    for place, request in enumerate(requests):
        since = request.origins / (1 if request.recent.minutes is None else MINUTES_PER_STEP)
        for chosen, fitted in request.models.methods:
            if any(variant in request.variants for variant in chosen.variants):
                question = _Question(place, chosen, fitted, request.recent.steps, since, newest[place], windows[place])
                questions.setdefault((chosen.method.name, windows[place]), []).append(question)
    for together in questions.values():
        answers: Sequence[Distribution | None] = _sound_together(together) or [
            requests[question.place].attempt(question.chosen.method.name, partial(_sound, question))
            for question in together
        ]
        for question, answer in zip(together, answers, strict=True):
            if answer is not None:
                numbers = {variant: number for number, variant in enumerate(question.chosen.method.variants)}
                distributions[question.place] |= {
                    variant: (answer.load, answer.cdf[numbers[variant]])
                    for variant in question.chosen.variants
                    if variant in requests[question.place].variants
                }
    return distributions


@dataclass(frozen=True)
class _Question:
    """The inputs of a method for the object at `place`."""

    place: int
    chosen: ChosenMethod
    fitted: Fitted
    later: Floats
    """The steps since the fit."""
    since: Floats
    """(origins,), steps from the fit to each origin."""
    newest: Floats
    """See Origins.recent."""
    windows: int

    @property
    def origins(self) -> Origins:
        return Origins(len(self.fitted.load) + self.since - 1, self.newest)


def _sound_together(questions: Sequence[_Question]) -> list[Distribution] | None:
    """The distributions of a method that forecasts many objects at once; None if it cannot, or if one is unsound."""
    first = questions[0]
    method = first.chosen.method
    if len(questions) == 1 or not isinstance(method, BatchMethod):
        return None
    try:
        answers = method.distributions(
            [question.fitted for question in questions],
            [question.later for question in questions],
            [question.origins for question in questions],
            first.windows,
        )
        load, cdf = (np.concatenate([getattr(answer, name) for answer in answers], axis=-2) for name in ("load", "cdf"))
    except Exception:  # noqa: BLE001 - then each object is forecast alone, and raises its own error
        return None
    count = sum(len(question.since) for question in questions)
    problem = fault(Distribution(load, cdf), variants=len(method.variants), windows=first.windows, origins=count)
    return answers if problem is None else None


def _sound(question: _Question) -> Distribution:
    """A method's distribution. Raises what the method raises, and ValueError for anything but a distribution."""
    answer = question.fitted.distribution(question.later, question.origins, question.windows)
    variants, origins = len(question.chosen.method.variants), len(question.since)
    problem = fault(answer, variants=variants, windows=question.windows, origins=origins)
    if problem is not None:
        raise ValueError(problem)
    return Distribution(np.asarray(answer.load, np.float64), np.asarray(answer.cdf, np.float64))


@dataclass(frozen=True)
class SpikesRequest:
    """The inputs of a spike hazard."""

    later: Floats
    exceeded: NDArray[np.bool_]
    """(minutes,), the loads since the fit, without gaps, and whether pods were too few."""
    held: Floats
    """(origins,), the replicas that stabilization holds at each origin."""
    enough: Floats
    """(origins,), the load that these replicas carry."""

    @classmethod
    def of(
        cls, fitted: spike_hazard.FittedHazard, later: Floats, origins: Minutes, workload: WorkloadModel
    ) -> SpikesRequest:
        """later: see RecentLoad.minutes_since_fit. origins: minutes since the fit."""
        return cls.of_several([fitted], [later], [origins], [workload])[0]

    @classmethod
    def of_several(
        cls,
        fits: Sequence[spike_hazard.FittedHazard],
        later: Sequence[Floats],
        origins: Sequence[Minutes],
        workloads: Sequence[WorkloadModel],
    ) -> list[SpikesRequest]:
        """For each object, the same as `of`."""
        # `shortages` needs a run-up to find any: pass that many minutes from before the fit.
        befores = [
            min(HELD_MINUTES + workload.metric_lag_minutes, fitted.minutes)
            for fitted, workload in zip(fits, workloads, strict=True)
        ]
        loads = [np.concatenate(parts) for parts in zip(spike_hazard.newest_loads(fits, befores), later, strict=True)]
        for place, load in enumerate(loads):
            gaps = np.isnan(load)
            if gaps.any():
                # In a gap the newest known load continues: interpolation would leak the load after the gap.
                loads[place] = load[np.maximum.accumulate(np.where(gaps, 0, np.arange(len(load))))]
        spikes = []
        shortages = shortages_of_several(loads, workloads)
        for before, load, at, workload, (short, all_held) in zip(
            befores, loads, origins, workloads, shortages, strict=True
        ):
            held = all_held[before + at - 1]
            spikes.append(cls(load[before:], short[before:], held, (held + 1e-9) * workload.carried))
        return spikes


def _spikes_at(requests: Sequence[PredictionsRequest]) -> dict[int, tuple[Spikes, Floats]]:
    """
    The spikes at each origin, and the replicas that stabilization holds there.

    By the object's place; objects without a spike hazard have no entry.
    """
    places, fits, loads = [], [], []
    for place, request in enumerate(requests):
        fitted, later = request.models.spikes, request.recent.minutes_since_fit
        if fitted is not None and later is not None:
            places.append(place)
            fits.append(fitted)
            loads.append(later)
    if not places:
        return {}
    inputs = SpikesRequest.of_several(
        fits,
        loads,
        [requests[place].origins for place in places],
        [requests[place].models.workload for place in places],
    )
    counts = [len(requests[place].origins) for place in places]
    of_all = spike_hazard.spikes(
        fits,
        [question.later for question in inputs],
        [question.exceeded for question in inputs],
        [requests[place].origins for place in places],
        np.concatenate([question.enough for question in inputs]),
        np.repeat([requests[place].cost for place in places], counts),
    )
    load = np.broadcast_to(of_all.load, of_all.cdf.shape)
    ends = np.cumsum(counts)
    rows = of_all.at.searchsorted(ends)
    spikes = {}
    for place, of_each, begin, end, low, high in zip(
        places, inputs, (ends - counts).tolist(), ends.tolist(), [0, *rows[:-1].tolist()], rows.tolist(), strict=True
    ):
        own = Spikes(of_all.chance[begin:end], of_all.at[low:high] - begin, load[low:high], of_all.cdf[low:high])
        spikes[place] = (own, of_each.held)
    return spikes
