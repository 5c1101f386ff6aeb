"""
The methods of a policy, fitted to one history.

Imports numpy: for workers and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cronhpa.forecasting.candidates import BY_HOUR, CONSTANT_SHARES, COSTS, Candidate
from cronhpa.forecasting.columns import MINUTES_PER_STEP, Counts, Floats
from cronhpa.forecasting.pricing import HOURS, constant_replicas, hourly_replicas
from cronhpa.forecasting.workload import WorkloadModel, reactive_replicas, shortages
from cronhpa.history.load.packing import STEPS_PER_DAY
from cronhpa_models import spike_features, spike_hazard
from cronhpa_models.catalog import ChosenMethod
from cronhpa_models.method import LAGS, Fitted

WEEK_DAYS = 7
# The largest plausible load, as a multiple of the largest of the last week.
CEILING = 1.1
# Minutes before an origin that its forecast uses.
RUN_UP_MINUTES = LAGS * MINUTES_PER_STEP

# With a larger share of gaps, a history of minutes holds points five minutes apart.
_GAPS_MAX = 0.5

Minutes = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True)
class KnownLoad:
    """The load measured up to an instant, oldest first, NaN for a gap."""

    steps: Floats
    """Maxima of five minutes."""
    minutes: Floats | None = None
    """Maxima of single minutes, for fewer days, up to the end of the last step; None if they are not known."""
    steps_per_day: int = STEPS_PER_DAY
    """Steps of the recorded calendar; benchmarks replay an hourly recording with 24 steps a day."""

    @property
    def week(self) -> Floats:
        return self.steps[-WEEK_DAYS * self.steps_per_day :]

    def until(self, steps: int) -> KnownLoad:
        """The history as it was `steps` steps before its end."""
        minutes = None if self.minutes is None else self.minutes[: max(len(self.minutes) - steps * MINUTES_PER_STEP, 0)]
        return replace(self, steps=self.steps[: len(self.steps) - steps], minutes=minutes)


@dataclass(frozen=True)
class RecentLoad:
    """The load measured since a fit, oldest first, NaN for a gap."""

    steps: Floats
    """The complete steps since the fit."""
    minutes: Floats | None = None
    """
    Single minutes, beginning RUN_UP_MINUTES before the fit; None: the origins are steps, and a floor is renewed every
    five minutes.
    """
    is_ignored: NDArray[np.bool_] | None = None
    """True for minutes on which nothing may be fitted; a forecast at such a minute still uses its load."""

    @property
    def minutes_since_fit(self) -> Floats | None:
        """The minutes since the fit, with a gap in place of each ignored minute; None without minutes."""
        if self.minutes is None:
            return None
        trusted = self.minutes if self.is_ignored is None else np.where(self.is_ignored, np.nan, self.minutes)
        return trusted[RUN_UP_MINUTES:]

    @property
    def origins(self) -> Minutes:
        """Every origin after the fit, as the number of minutes, or of steps, that are known at the origin."""
        count = len(self.steps) if self.minutes is None else len(self.minutes) - RUN_UP_MINUTES
        return np.arange(1, count + 1)


class ModelStates(Struct, frozen=True):
    """The encoded form of fitted models: bytes by the name of the method, and those of the spike hazard."""

    methods: dict[str, bytes]
    # A view of the store's answer, without a copy: a forecast reads it each minute.
    spikes: memoryview


@dataclass(frozen=True)
class FittedModels:
    workload: WorkloadModel
    methods: tuple[tuple[ChosenMethod, Fitted], ...]
    """The methods that could be fitted, with the variants that are candidates."""
    spikes: spike_hazard.FittedHazard | None
    """The spike hazard of single minutes; None if it was not fitted."""
    constants: tuple[int, ...]
    """Replicas of the constant floors, by CONSTANT_SHARES."""
    by_hour: tuple[tuple[int, ...], ...]
    """See `hourly_replicas`."""
    mean_replicas: float
    """Mean replicas of reactive scaling; the cost of a pod is relative to them."""
    week_max: float
    """The largest load of the last week."""
    tail: Floats
    """The last LAGS steps before the fit."""
    steps_per_day: int = STEPS_PER_DAY

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(variant for chosen, _ in self.methods for variant in chosen.variants)

    def cost(self, candidate: Candidate) -> float:
        """The cost of a pod, as a probability."""
        return candidate.cost / self.mean_replicas

    def constant(self, candidate: Candidate) -> tuple[int, ...]:
        """(HOURS,): the constant floor of a candidate, by hour since the fit."""
        if candidate.constant_share == BY_HOUR:
            return self.by_hour[COSTS.index(candidate.cost)]
        return (self.constants[CONSTANT_SHARES.index(candidate.constant_share)],) * HOURS

    def only(self, variants: Collection[str], *, spikes: bool) -> FittedModels:
        """These models reduced to the methods of these variants; spikes: whether the spike hazard stays."""
        methods = tuple(pair for pair in self.methods if any(variant in variants for variant in pair[0].variants))
        return replace(self, methods=methods, spikes=self.spikes if spikes else None)

    def without(self, names: Collection[str]) -> FittedModels:
        """These models without the methods of these names."""
        return replace(self, methods=tuple(pair for pair in self.methods if pair[0].method.name not in names))

    def states(self, attempt: Attempt) -> ModelStates:
        """The models in their encoded form. A method that cannot be encoded as bytes is left out."""
        states = {}
        for chosen, fitted in self.methods:
            state = attempt(chosen.method.name, partial(_encoded, fitted))
            if state is not None:
                states[chosen.method.name] = state
        return ModelStates(states, memoryview(b"" if self.spikes is None else self.spikes.encode()))


class Attempt(Protocol):
    """Runs work of the method of this name; None if it fails, so that other methods go on."""

    def __call__(self, name: str, work: Callable[[], T], /) -> T | None: ...


def fit_models(
    history: KnownLoad,
    workload: WorkloadModel,
    catalog: Sequence[ChosenMethod],
    attempt: Attempt,
    windows: tuple[int, ...],
) -> FittedModels:
    """Every method fitted to a history that has at least one known step. windows: steps ahead, the nearest first."""
    fitted: list[tuple[ChosenMethod, Fitted]] = []
    for chosen in catalog:
        fit = partial(chosen.method.fit, history.steps, steps_per_day=history.steps_per_day, windows=windows)
        model = attempt(chosen.method.name, fit)
        if model is not None:
            fitted.append((chosen, model))
    reactive = reactive_replicas(history.week, workload)
    held = _held_a_step(reactive)
    mean = float(reactive.mean())
    return FittedModels(
        workload,
        tuple(fitted),
        None if history.minutes is None else fit_spikes(history.minutes, workload),
        constant_replicas(held),
        hourly_replicas(history.week, held, workload.carried, mean, history.steps_per_day),
        mean,
        float(np.nanmax(history.week)),
        _tail(history.steps),
        history.steps_per_day,
    )


def fit_spikes(minutes: Floats, workload: WorkloadModel) -> spike_hazard.FittedHazard | None:
    """
    The spike hazard of single minutes; None if half of them are gaps, or if pods were hardly ever too few.

    Minutes before the first known one are not gaps: they are not part of the history.
    """
    minutes = minutes[-spike_features.DAYS * spike_features.DAY :]
    minutes = minutes[np.argmax(~np.isnan(minutes)) :] if len(minutes) else minutes
    if not len(minutes) or np.isnan(minutes).mean() > _GAPS_MAX:
        return None
    load = without_gaps(minutes)
    return spike_hazard.fit(load, shortages(load, workload), lead=workload.lead_minutes)


def _encoded(fitted: Fitted) -> bytes:
    """Raises TypeError for anything but bytes: it would make encoding fail for all fits of the task."""
    return bytes(memoryview(fitted.encode()))


def by_minute(floors: Counts, workload: WorkloadModel, minutes: int) -> Counts:
    """
    (..., windows, origins) to (..., minutes): the floor in force in each minute.

    The floor of the next step is in force at once. The floor of the step after that is in force as soon as a pod that
    is requested now becomes Ready only in that step.
    """
    near, both = floors[..., 0, :], floors.max(axis=-2)
    if floors.shape[-1] == minutes:
        return both if workload.is_slow else near
    of_minute = [both if workload.needs_far(minute) else near for minute in range(MINUTES_PER_STEP)]
    return np.stack(of_minute, axis=-1).reshape(*floors.shape[:-2], minutes)


def without_gaps(load: Floats) -> Floats:
    """The load with gaps interpolated linearly; zero if no value is known."""
    at_known = np.flatnonzero(~np.isnan(load))
    if not len(at_known):
        return np.zeros(len(load))
    return np.asarray(np.interp(np.arange(len(load)), at_known, load[at_known]), dtype=np.float64)


def _held_a_step(replicas: Floats) -> Floats:
    """The replicas if stabilization holds each step's count for one more step."""
    return np.asarray(np.maximum(replicas, np.concatenate([replicas[:1], replicas[:-1]])))


def _tail(steps: Floats) -> Floats:
    """The last LAGS steps, NaN before the first."""
    return np.concatenate([np.full(LAGS, np.nan), steps])[-LAGS:]
