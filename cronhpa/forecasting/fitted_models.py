"""
The methods of a policy, fitted to one history, and the floor that each candidate takes from them.

The floors of one origin, of a day and of a whole recording come from `candidate_floors` and from nowhere else. Imports
numpy: for workers and benchmarks only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cronhpa.forecasting.candidates import CONSTANT_SHARES, Candidate
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Counts, Floats
from cronhpa.forecasting.pricing import constant_floors, priced_floors, spike_floors
from cronhpa.forecasting.workload import HELD_MINUTES, WorkloadModel, held_replicas, reactive_replicas, shortages
from cronhpa_models import spike_hazard
from cronhpa_models.catalog import Chosen
from cronhpa_models.method import LAGS, Distribution, Fitted, Origins, fault
from cronhpa_models.spike_hazard import Spikes

STEPS_PER_DAY = 288
WEEK_DAYS = 7
# No floor is higher than this multiple of what the largest load of the last week needed.
CEILING = 1.1
# Minutes that an origin looks back at.
RUN_UP_MINUTES = LAGS * MINUTES_PER_STEP

# A history with more gaps than this holds points five minutes apart, not single minutes.
_GAPS_MAX = 0.5

Minutes = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True)
class KnownLoad:
    """
    The load measured up to an instant, oldest first, NaN for a gap.

    steps: maxima of five minutes. minutes: maxima of the single minutes that end with the last step, fewer days of
    them; None where they are not known. steps_per_day: of the recorded calendar; benchmarks replay an hourly recording
    with 24 steps a day.
    """

    steps: Floats
    minutes: Floats | None = None
    steps_per_day: int = STEPS_PER_DAY

    @property
    def week(self) -> Floats:
        return self.steps[-WEEK_DAYS * self.steps_per_day :]

    def until(self, steps: int) -> KnownLoad:
        """The history as it was so many steps before its end."""
        minutes = None if self.minutes is None else self.minutes[: max(len(self.minutes) - steps * MINUTES_PER_STEP, 0)]
        return replace(self, steps=self.steps[: len(self.steps) - steps], minutes=minutes)


@dataclass(frozen=True)
class RecentLoad:
    """
    The load measured since a fit, oldest first, NaN for a gap.

    steps: the complete steps since the fit. minutes: single minutes, those of RUN_UP_MINUTES before the fit first.
    None: the origins are steps, and a floor is renewed every five minutes. is_ignored: minutes that nothing may be
    learned from; an origin that lies in them still knows its load.
    """

    steps: Floats
    minutes: Floats | None = None
    is_ignored: NDArray[np.bool_] | None = None

    @property
    def minutes_since_fit(self) -> Floats | None:
        """A gap where a minute is ignored."""
        if self.minutes is None:
            return None
        trusted = self.minutes if self.is_ignored is None else np.where(self.is_ignored, np.nan, self.minutes)
        return trusted[RUN_UP_MINUTES:]

    @property
    def origins(self) -> Minutes:
        """Every origin after the fit: the count of minutes, or of steps, that are known at it."""
        count = len(self.steps) if self.minutes is None else len(self.minutes) - RUN_UP_MINUTES
        return np.arange(1, count + 1)


class ModelStates(Struct, frozen=True):
    """What the store keeps of fitted models: the bytes of each method by its name, and of the spike hazard."""

    methods: dict[str, bytes]
    spikes: bytes


@dataclass(frozen=True)
class FittedModels:
    """
    methods: those that could be fitted, with the variants that are candidates. spikes: the spike hazard of single
    minutes; None without them. constants: replicas of the constant floors, by CONSTANT_SHARES. mean_replicas: of
    reactive scaling; the cost of a pod is relative to them. week_max: the largest load of the last week. tail: the last
    LAGS steps before the fit.
    """

    workload: WorkloadModel
    methods: tuple[tuple[Chosen, Fitted], ...]
    spikes: spike_hazard.Fitted | None
    constants: tuple[int, ...]
    mean_replicas: float
    week_max: float
    tail: Floats

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(variant for chosen, _ in self.methods for variant in chosen.variants)

    def only(self, variants: Collection[str], *, spikes: bool) -> FittedModels:
        """These models without the methods, and the spike hazard, that nobody asks."""
        methods = tuple(each for each in self.methods if any(variant in variants for variant in each[0].variants))
        return replace(self, methods=methods, spikes=self.spikes if spikes else None)

    def without(self, names: Collection[str]) -> FittedModels:
        """These models without the methods of these names."""
        return replace(self, methods=tuple(each for each in self.methods if each[0].method.name not in names))

    def states(self, attempt: Attempt) -> ModelStates:
        """What the store keeps; nothing of a method that cannot be encoded as bytes."""
        states = {}
        for chosen, fitted in self.methods:
            state = attempt(chosen.method.name, partial(_encoded, fitted))
            if state is not None:
                states[chosen.method.name] = state
        return ModelStates(states, b"" if self.spikes is None else self.spikes.encode())


class Attempt(Protocol):
    """Runs what a method of this name does; None where it fails, so that a method costs itself alone."""

    def __call__(self, name: str, work: Callable[[], T], /) -> T | None: ...


def fit_models(
    history: KnownLoad,
    workload: WorkloadModel,
    catalog: Sequence[Chosen],
    attempt: Attempt,
    windows: tuple[int, ...],
) -> FittedModels:
    """Every method fitted to a history that has at least one known step. windows: steps ahead, the nearest first."""
    fitted: list[tuple[Chosen, Fitted]] = []
    for chosen in catalog:
        fit = partial(chosen.method.fit, history.steps, steps_per_day=history.steps_per_day, windows=windows)
        model = attempt(chosen.method.name, fit)
        if model is not None:
            fitted.append((chosen, model))
    reactive = reactive_replicas(history.week, workload)
    return FittedModels(
        workload,
        tuple(fitted),
        None if history.minutes is None else fit_spikes(history.minutes, workload),
        constant_floors(_held_a_step(reactive)),
        float(reactive.mean()),
        float(np.nanmax(history.week)),
        _tail(history.steps),
    )


def fit_spikes(minutes: Floats, workload: WorkloadModel) -> spike_hazard.Fitted | None:
    """
    The spike hazard of single minutes; None where half of them are gaps, or pods were hardly ever too few.

    What lies before the first known minute is no gap: a younger history is a shorter one.
    """
    minutes = minutes[-spike_hazard.DAYS * spike_hazard.DAY :]
    minutes = minutes[np.argmax(~np.isnan(minutes)) :] if len(minutes) else minutes
    if not len(minutes) or np.isnan(minutes).mean() > _GAPS_MAX:
        return None
    load = without_gaps(minutes)
    return spike_hazard.fit(load, shortages(load, workload), lead=workload.lead_minutes)


@dataclass(frozen=True)
class Outlook:
    """
    What fitted models say at some origins, from what was known at each.

    distributions: by variant, load and cdf, (windows, origins, bins) each. spikes: of the spike hazard, and the
    replicas that stabilization holds at each origin; None without one. running: (origins,), replicas without a
    forecast. ceiling: (origins,), the largest load that is believed. windows: of the distributions.
    """

    distributions: dict[str, tuple[Floats, Floats]]
    spikes: tuple[Spikes, Floats] | None
    running: Floats
    ceiling: Floats
    windows: int


def outlook_of(
    models: FittedModels, recent: RecentLoad, origins: Minutes, variants: Collection[str], attempt: Attempt
) -> Outlook:
    """
    The outlook at some origins; nothing of `recent` behind an origin is looked at.

    origins: counts of the minutes, or steps, of `recent` that are known; see RecentLoad.origins. variants: those that
    are asked; one whose method is not among the models, or fails, is left out.
    """
    trusted = recent.minutes_since_fit
    if recent.minutes is None or trusted is None:
        seen, since = recent.steps, origins.astype(np.float64)
        newest = np.lib.stride_tricks.sliding_window_view(np.concatenate([models.tail, seen]), LAGS)[origins, ::-1]
    else:
        seen, since = trusted, origins / MINUTES_PER_STEP
        newest = _step_maxima(recent.minutes, origins)
    windows = len(models.workload.windows(by_minute=recent.minutes is not None))
    distributions: dict[str, tuple[Floats, Floats]] = {}
    for chosen, fitted in models.methods:
        asked = [variant for variant in chosen.variants if variant in variants]
        if asked:
            answer = attempt(chosen.method.name, partial(_sound, chosen, fitted, recent.steps, since, newest, windows))
            if answer is not None:
                numbers = [chosen.method.variants.index(variant) for variant in asked]
                distributions |= {v: (answer.load, answer.cdf[n]) for v, n in zip(asked, numbers, strict=True)}
    highest = np.fmax.accumulate(np.concatenate([[models.week_max], seen]))
    return Outlook(
        distributions,
        _spikes_at(models, recent, origins),
        reactive_replicas(newest[:, 0], models.workload),
        CEILING * highest[origins],
        windows,
    )


def candidate_floors(models: FittedModels, outlook: Outlook, candidates: Sequence[Candidate]) -> Counts:
    """
    (candidates, windows, origins): the floor of each candidate at each origin of the outlook.

    A candidate whose method says nothing has the rest of its floor: constant and spike hazard.
    """
    carried, mean = models.workload.carried, models.mean_replicas
    floors = np.zeros((len(candidates), outlook.windows, len(outlook.running)), np.int16)
    rows: dict[tuple[str, float], list[int]] = {}
    for row, candidate in enumerate(candidates):
        rows.setdefault((candidate.method, candidate.cost), []).append(row)
    for (method, cost), members in rows.items():
        if method in outlook.distributions:
            load, cdf = outlook.distributions[method]
            floors[members] = priced_floors(load, cdf, outlook.running, carried, outlook.ceiling, cost / mean)
    costs = sorted({cost for _, cost in rows if not math.isinf(cost)})
    if outlook.spikes is not None and costs:
        spikes, held = outlook.spikes
        against = spike_floors(spikes, held, carried, outlook.ceiling, [cost / mean for cost in costs])
        for (_, cost), members in rows.items():
            if not math.isinf(cost):
                floors[members, 0] = np.maximum(floors[members, 0], against[costs.index(cost)])
    constants = [models.constants[CONSTANT_SHARES.index(each.constant_share)] for each in candidates]
    return np.maximum(floors, np.array(constants, np.int16)[:, None, None])


def _encoded(fitted: Fitted) -> bytes:
    """Raises TypeError for what is no bytes: it could not be kept, nor what is kept beside it."""
    return bytes(memoryview(fitted.encode()))


def _sound(chosen: Chosen, fitted: Fitted, later: Floats, since: Floats, newest: Floats, windows: int) -> Distribution:
    """
    A method's answer. Raises ValueError for one that is no distribution, and what the method raises.

    since: (origins,), steps from the fit to each origin. newest: see Origins.recent.
    """
    answer = fitted.distribution(later, Origins(len(fitted.load) + since - 1, newest), windows)
    problem = fault(answer, variants=len(chosen.method.variants), windows=windows, origins=len(since))
    if problem is not None:
        raise ValueError(problem)
    return Distribution(np.asarray(answer.load, np.float64), np.asarray(answer.cdf, np.float64))


def _spikes_at(models: FittedModels, recent: RecentLoad, origins: Minutes) -> tuple[Spikes, Floats] | None:
    """What the spike hazard says at each origin, and the replicas that stabilization holds there; None without one."""
    later = recent.minutes_since_fit
    if models.spikes is None or later is None:
        return None
    past, workload = models.spikes.load, models.workload
    # A gap holds the newest known load: a line through the gap would tell the load behind it.
    is_known = np.concatenate([np.ones(len(past), bool), ~np.isnan(later)])
    newest = np.maximum.accumulate(np.where(is_known, np.arange(len(is_known)), 0))
    load = np.concatenate([past, later])[newest]
    # The first minutes that `shortages` looks at have no shortage: it starts as early before the fit.
    begin = len(past) - HELD_MINUTES - workload.metric_lag_minutes
    short = shortages(load[begin:], workload)[len(past) - begin :]
    held = held_replicas(reactive_replicas(load, workload), 0)[len(past) + origins - 1]
    return models.spikes.spikes(load[len(past) :], short, origins, (held + 1e-9) * workload.carried), held


def by_minute(floors: Counts, workload: WorkloadModel, minutes: int) -> Counts:
    """
    (..., windows, origins) to (..., minutes): the floor in force in each minute.

    The floor of the next step holds at once; that of the step behind it as soon as a pod requested now becomes Ready
    for that step alone.
    """
    near, both = floors[..., 0, :], floors.max(axis=-2)
    if floors.shape[-1] == minutes:
        return both if workload.is_slow else near
    of_minute = [both if workload.needs_far(minute) else near for minute in range(MINUTES_PER_STEP)]
    return np.stack(of_minute, axis=-1).reshape(*floors.shape[:-2], minutes)


def without_gaps(load: Floats) -> Floats:
    """Linear through gaps, zero where nothing is known."""
    known = np.flatnonzero(~np.isnan(load))
    if not len(known):
        return np.zeros(len(load))
    return np.asarray(np.interp(np.arange(len(load)), known, load[known]), dtype=np.float64)


def _step_maxima(minutes: Floats, origins: Minutes) -> Floats:
    """(origins, LAGS): the maxima of the five minutes before each origin, of the five before those, and so on."""
    padded = np.concatenate([np.full(MINUTES_PER_STEP - 1, -np.inf), np.nan_to_num(minutes, nan=-np.inf)])
    maxima = np.lib.stride_tricks.sliding_window_view(padded, MINUTES_PER_STEP).max(axis=1)
    newest = origins + RUN_UP_MINUTES - 1
    recent = maxima[newest[:, None] - MINUTES_PER_STEP * np.arange(LAGS)]
    return np.where(np.isfinite(recent), recent, np.nan)


def _held_a_step(replicas: Floats) -> Floats:
    """Replicas where stabilization holds each step's count for one step more."""
    return np.asarray(np.maximum(replicas, np.concatenate([replicas[:1], replicas[:-1]])))


def _tail(steps: Floats) -> Floats:
    """The last LAGS steps, NaN before the first."""
    return np.concatenate([np.full(LAGS, np.nan), steps])[-LAGS:]
