"""
What fitted models say at some origins, from what was known at each; of one object or of many in one pass.

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
from cronhpa.forecasting.workload import HELD_MINUTES, WorkloadModel, held_replicas, reactive_replicas, shortages
from cronhpa_models import spike_hazard
from cronhpa_models.catalog import Chosen
from cronhpa_models.method import LAGS, BatchMethod, Distribution, Fitted, Origins, fault
from cronhpa_models.spike_hazard import Spikes

MINUTES_PER_HOUR = 60


@dataclass(frozen=True)
class Outlook:
    """
    What fitted models say at some origins, from what was known at each.

    distributions: by variant, load and cdf, (windows, origins, bins) each. spikes: of the spike hazard, and the
    replicas that stabilization holds at each origin; None without one. running: (origins,), replicas without a
    forecast. ceiling: (origins,), the largest load that is believed. hours: (origins,), since the fit. windows: of the
    distributions.
    """

    distributions: dict[str, tuple[Floats, Floats]]
    spikes: tuple[Spikes, Floats] | None
    running: Floats
    ceiling: Floats
    hours: Minutes
    windows: int


@dataclass(frozen=True)
class Asked:
    """
    What an outlook is asked for.

    origins: counts of the minutes, or steps, of `recent` that are known; see RecentLoad.origins. variants: those that
    are asked; one whose method is not among the models, or fails, is left out.
    """

    models: FittedModels
    recent: RecentLoad
    origins: Minutes
    variants: Collection[str]
    attempt: Attempt

    @property
    def hours(self) -> Minutes:
        """(origins,): whole hours since the fit."""
        if self.recent.minutes is not None:
            return self.origins // MINUTES_PER_HOUR
        return self.origins * HOURS // self.models.steps_per_day

    @property
    def windows(self) -> int:
        return len(self.models.workload.windows(by_minute=self.recent.minutes is not None))


def outlook_of(
    models: FittedModels, recent: RecentLoad, origins: Minutes, variants: Collection[str], attempt: Attempt
) -> Outlook:
    """The outlook at some origins; nothing of `recent` behind an origin is looked at. See Asked."""
    return outlooks([Asked(models, recent, origins, variants, attempt)])[0]


def outlooks(asked: Sequence[Asked]) -> list[Outlook]:
    """The outlook of each, as if it were asked alone: methods and spike hazards forecast many in one pass."""
    newest = [_newest_steps(each) for each in asked]
    distributions = _distributions(asked, newest)
    spikes = _spikes_at(asked)
    found = []
    for place, each in enumerate(asked):
        trusted = each.recent.minutes_since_fit
        seen = each.recent.steps if trusted is None else trusted
        highest = np.fmax.accumulate(np.concatenate([[each.models.week_max], seen]))
        found.append(
            Outlook(
                distributions[place],
                spikes.get(place),
                reactive_replicas(newest[place][:, 0], each.models.workload),
                CEILING * highest[each.origins],
                each.hours,
                each.windows,
            )
        )
    return found


def _newest_steps(asked: Asked) -> Floats:
    """(origins, LAGS): see Origins.recent."""
    recent, origins = asked.recent, asked.origins
    if recent.minutes is None:
        steps = np.concatenate([asked.models.tail, recent.steps])
        return np.asarray(np.lib.stride_tricks.sliding_window_view(steps, LAGS)[origins, ::-1])
    rows = (origins + RUN_UP_MINUTES - 1)[:, None] - np.arange(RUN_UP_MINUTES)
    return np.asarray(np.fmax.reduce(recent.minutes[rows].reshape(-1, LAGS, MINUTES_PER_STEP), axis=-1))


def _distributions(asked: Sequence[Asked], newest: Sequence[Floats]) -> list[dict[str, tuple[Floats, Floats]]]:
    """By variant, for each that asks: load and cdf. newest: of each, see Origins.recent."""
    found: list[dict[str, tuple[Floats, Floats]]] = [{} for _ in asked]
    questions: dict[tuple[str, int], list[_Question]] = {}
    for place, each in enumerate(asked):
        since = each.origins / (1 if each.recent.minutes is None else MINUTES_PER_STEP)
        for chosen, fitted in each.models.methods:
            if any(variant in each.variants for variant in chosen.variants):
                question = _Question(place, chosen, fitted, each.recent.steps, since, newest[place], each.windows)
                questions.setdefault((chosen.method.name, each.windows), []).append(question)
    for together in questions.values():
        answers: Sequence[Distribution | None] = _sound_together(together) or [
            asked[question.place].attempt(question.chosen.method.name, partial(_sound, question))
            for question in together
        ]
        for question, answer in zip(together, answers, strict=True):
            if answer is not None:
                numbers = {variant: number for number, variant in enumerate(question.chosen.method.variants)}
                found[question.place] |= {
                    variant: (answer.load, answer.cdf[numbers[variant]])
                    for variant in question.chosen.variants
                    if variant in asked[question.place].variants
                }
    return found


@dataclass(frozen=True)
class _Question:
    """
    What a method is asked for the object at a place among those that ask.

    later: the steps since the fit. since: (origins,), steps from the fit to each origin. newest: see Origins.recent.
    """

    place: int
    chosen: Chosen
    fitted: Fitted
    later: Floats
    since: Floats
    newest: Floats
    windows: int

    @property
    def origins(self) -> Origins:
        return Origins(len(self.fitted.load) + self.since - 1, self.newest)


def _sound_together(questions: Sequence[_Question]) -> list[Distribution] | None:
    """The answers of a method that forecasts many at once; None where it cannot, or where one answer is unsound."""
    first = questions[0]
    method = first.chosen.method
    if len(questions) == 1 or not isinstance(method, BatchMethod):
        return None
    try:
        answers = method.distributions(
            [each.fitted for each in questions],
            [each.later for each in questions],
            [each.origins for each in questions],
            first.windows,
        )
        load, cdf = (np.concatenate([getattr(each, name) for each in answers], axis=-2) for name in ("load", "cdf"))
    except Exception:  # noqa: BLE001 - each is asked alone then, and says what is wrong
        return None
    count = sum(len(each.since) for each in questions)
    problem = fault(Distribution(load, cdf), variants=len(method.variants), windows=first.windows, origins=count)
    return answers if problem is None else None


def _sound(question: _Question) -> Distribution:
    """A method's answer. Raises ValueError for one that is no distribution, and what the method raises."""
    answer = question.fitted.distribution(question.later, question.origins, question.windows)
    variants, origins = len(question.chosen.method.variants), len(question.since)
    problem = fault(answer, variants=variants, windows=question.windows, origins=origins)
    if problem is not None:
        raise ValueError(problem)
    return Distribution(np.asarray(answer.load, np.float64), np.asarray(answer.cdf, np.float64))


@dataclass(frozen=True)
class SpikesAsked:
    """
    What a spike hazard is asked.

    later, exceeded: (minutes,), the loads since the fit, without gaps, and whether pods were too few. held: (origins,),
    the replicas that stabilization holds at each origin. enough: (origins,), the load that those carry.
    """

    later: Floats
    exceeded: NDArray[np.bool_]
    held: Floats
    enough: Floats

    @classmethod
    def of(
        cls, fitted: spike_hazard.FittedHazard, later: Floats, origins: Minutes, workload: WorkloadModel
    ) -> SpikesAsked:
        """later: see RecentLoad.minutes_since_fit. origins: minutes since the fit."""
        # The first minutes that `shortages` looks at have no shortage: it starts as early before the fit.
        before = min(HELD_MINUTES + workload.metric_lag_minutes, fitted.minutes)
        load = np.concatenate([fitted.load(slice(fitted.minutes - before, None)), later])
        # A gap holds the newest known load: a line through the gap would tell the load behind it.
        load = load[np.maximum.accumulate(np.where(np.isnan(load), 0, np.arange(len(load))))]
        held = held_replicas(reactive_replicas(load, workload), 0)[before + origins - 1]
        return cls(load[before:], shortages(load, workload)[before:], held, (held + 1e-9) * workload.carried)


def _spikes_at(asked: Sequence[Asked]) -> dict[int, tuple[Spikes, Floats]]:
    """
    What the spike hazard says at each origin, and the replicas that stabilization holds there.

    By the place of the one who asks; nothing for those without a spike hazard.
    """
    places, fits, inputs = [], [], []
    for place, each in enumerate(asked):
        fitted, later = each.models.spikes, each.recent.minutes_since_fit
        if fitted is not None and later is not None:
            places.append(place)
            fits.append(fitted)
            inputs.append(SpikesAsked.of(fitted, later, each.origins, each.models.workload))
    if not places:
        return {}
    said = spike_hazard.spikes(
        fits,
        [each.later for each in inputs],
        [each.exceeded for each in inputs],
        [asked[place].origins for place in places],
        np.concatenate([each.enough for each in inputs]),
    )
    load = np.broadcast_to(said.load, said.cdf.shape)
    found = {}
    end = 0
    for place, of_each in zip(places, inputs, strict=True):
        mine = slice(end, end + len(of_each.held))
        found[place] = (Spikes(said.chance[mine], load[mine], said.cdf[mine]), of_each.held)
        end = mine.stop
    return found
