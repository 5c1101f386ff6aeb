"""
Which forecast is worth its pod-hours: a shadow run of every candidate over an object's own last days.

A candidate is a method, the price of a pod, and the least that runs at any time. At each origin it takes the load whose
chance of being needed, less the price of the pods above what runs anyway, is largest. So it spends where minutes are
cheap: a quantile for all hours would pay as much for a minute at noon as for twenty at night.

Kept is who leaves the fewest under-provisioned minutes within the budget; nobody where nothing is gained. Imports
numpy: for workers and benchmarks only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cronhpa.forecasting.columns import (
    MINUTES_PER_STEP,
    AutoscalerModel,
    Counts,
    Floats,
    simulate,
)
from cronhpa_models import spike_hazard
from cronhpa_models.error_mixture import VARIANTS, ErrorMixture, Fitted
from cronhpa_models.method import LAGS, Distribution, Origins, on_grid
from cronhpa_models.spike_hazard import Spikes

DAYS = 7
STEPS_PER_DAY = 288
RUN_UP = 12
# Chance of a minute too few, for as many pods as run on average: at 1, doubling the pods must be sure to help.
PRICES = (6.0, 2.4, 1.2, 0.8, 0.6, 0.45, 0.35, 0.25, 0.15, 0.07, 0.03, 0.012)
# What the least that runs at any time adds to the pod-hours by itself.
LEASTS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1)
# A floor is no larger than this times what the largest load of the last seven days needed.
CEILING = 1.1

_NEAR_BEST = 1.01
# What a lower price may cost of the minutes that are left.
_MARGIN_LOSS = 1.02
# Whose distribution tells the level of a floor that no method asked for.
_PLAIN = "Clock"
_CORRECTION_MIN, _CORRECTION_MAX = 0.5, 1.5
_STEP_SECONDS = 60 * MINUTES_PER_STEP
_FLOOR_MAX = 14_000
# Less than a minute in a week is not worth a mention.
_MINUTES_MIN = 1.0
# What a minute a day is worth, in percent of pod-hours: with less than a quarter of a minute to gain, no more than one.
_WORTH = 4.0
# Where minutes can be avoided without it, pods do not come and go more than this times as often as without a forecast.
_ACTIONS_MAX = 1.1
# How long the upstream's default stabilization keeps what was asked for.
_HELD_MINUTES = 5
# Of minutes: a history of one point in five minutes tells no minute.
_GAPS_MAX = 0.5


class WorkloadModel(Struct, frozen=True):
    """
    What an object's spec makes of a load.

    target, carried: the load that a pod is scaled for, and the one that it is planned to carry at most, both in units
    of the load. capacity: what it can carry before it counts as under-provisioned. are_points: history is of single
    points five minutes apart, not of maxima.
    """

    target: float
    carried: float
    capacity: float
    start_up_seconds: int
    budget_percent: float
    tolerance: float = 0.1
    delay_seconds: int = 30
    are_points: bool = False

    def world(self) -> AutoscalerModel:
        """In units of what a pod can carry."""
        return AutoscalerModel(
            target=self.target / self.capacity,
            start_up_seconds=self.start_up_seconds,
            delay_seconds=self.delay_seconds,
            tolerance=self.tolerance,
        )


class Choice(Struct, frozen=True, tag=True):
    """
    What is used until the next selection, and what it did in the shadow run.

    least: replicas. usual: mean replicas of reactive scaling, which prices refer to. avoided, of: under-provisioned
    minutes in `days`. extra_percent: pod-hours that it added.
    """

    method: str
    price: float
    least: int
    usual: float
    avoided: float
    of: float
    extra_percent: float
    days: int


class NothingToGain(Struct, frozen=True, tag=True):
    """of: under-provisioned minutes of reactive scaling in `days`; nothing within the budget avoids enough of them."""

    of: float
    days: int


class Candidate(Struct, frozen=True):
    """
    share: what the least that runs adds by itself. Without a price there is nothing but that; without a method there
    are that and the jump clock.
    """

    method: str
    price: float
    share: float


CANDIDATES = (
    *(Candidate(method, price, share) for method in (*VARIANTS, "") for price in PRICES for share in LEASTS),
    *(Candidate("", math.inf, share) for share in LEASTS[1:]),
)


@dataclass(frozen=True)
class Day:
    """
    A day to try candidates on.

    steps: its five-minute maxima. minutes: its single minutes with LAGS steps before them, or None where they are no
    longer known. NaN for a gap. run_up: steps at its front that are played but not scored: what is asked for in them
    may be needed first thing. past: the single minutes before it, as far as they are known.
    """

    steps: Floats
    minutes: Floats | None = None
    run_up: int = 0
    past: Floats | None = None

    @property
    def own_minutes(self) -> Floats | None:
        return None if self.minutes is None else self.minutes[LAGS * MINUTES_PER_STEP :]


@dataclass(frozen=True)
class CandidateScores:
    """
    Days of the shadow run; each (1 + candidates, days), the first row is plain reactive scaling.

    minutes: under-provisioned. pods: mean replicas times steps. actions: changes of the replicas.
    """

    minutes: Floats
    pods: Floats
    actions: Floats


def select(steps: Floats, settings: WorkloadModel, *, days: int = DAYS) -> Choice | NothingToGain:
    """
    What to use for the coming day, from nothing but five-minute maxima up to now, NaN for a gap.

    Two days are the least: one is tried with what is known of the other.
    """
    known = min(days, len(steps) // STEPS_PER_DAY - 1)
    if known < 1:
        return NothingToGain(0.0, 0)
    first = len(steps) - known * STEPS_PER_DAY
    screened = [
        screen_day(steps[: row - RUN_UP], Day(steps[row - RUN_UP : row + STEPS_PER_DAY], run_up=RUN_UP), settings)
        for row in range(first, len(steps), STEPS_PER_DAY)
    ]
    return choose(together(screened), settings, steps[first:])


def together(days: Sequence[CandidateScores]) -> CandidateScores:
    return CandidateScores(
        *(np.concatenate([getattr(day, name) for day in days], axis=1) for name in ("minutes", "pods", "actions"))
    )


def screen_day(known: Floats, day: Day, settings: WorkloadModel) -> CandidateScores:
    """What each candidate does on a day, fitted on what was known before it."""
    return screen([day], candidate_floors(known, day, settings, STEPS_PER_DAY), settings, STEPS_PER_DAY)


def choose(screened: CandidateScores, settings: WorkloadModel, steps: Floats) -> Choice | NothingToGain:
    """
    Who leaves the fewest minutes within the budget over all of these days; the cheapest of those hardly worse.

    A minute that is avoided may cost no more than it is worth, however large the budget. Who makes pods come and go
    much more often is left for where nobody else avoids any.
    """
    minutes, pods = screened.minutes.sum(axis=1), screened.pods.sum(axis=1)
    extra = pods / pods[0] - 1
    days = screened.minutes.shape[1]
    worth = np.minimum(settings.budget_percent, _WORTH * (minutes[0] - minutes) * STEPS_PER_DAY / len(steps)) / 100
    allowed = (extra <= worth) & (minutes <= minutes[0] - _MINUTES_MIN * days / DAYS)
    calm = _is_calm(screened)
    if (allowed & calm).any():
        allowed &= calm
        worth = np.where(calm, worth, -np.inf)
    if not allowed.any():
        return NothingToGain(float(minutes[0]), days)
    near = allowed & (minutes <= minutes[allowed].min() * _NEAR_BEST + 1e-9)
    row = int(np.flatnonzero(near)[np.argmin(pods[near])])
    row = _with_margin(row, minutes, extra, worth / 2)
    chosen = CANDIDATES[row - 1]
    reactive = reactive_pods(steps, settings)
    return Choice(
        method=chosen.method,
        price=chosen.price,
        least=least_replicas(_held(reactive))[LEASTS.index(chosen.share)],
        usual=float(reactive.mean()),
        avoided=float(minutes[0] - minutes[row]),
        of=float(minutes[0]),
        extra_percent=100 * float(extra[row]),
        days=days,
    )


def _is_calm(screened: CandidateScores) -> NDArray[np.bool_]:
    """(1 + candidates,): whether replicas change a tenth more often than without a forecast at most, or once a day."""
    actions = screened.actions.sum(axis=1)
    once = 2 * screened.actions.shape[1]
    found: NDArray[np.bool_] = actions <= actions[0] * _ACTIONS_MAX + once
    return found


def budget_correction(expected: Sequence[float], spent: Sequence[float]) -> float:
    """
    What a budget is multiplied by before it is planned with.

    expected, spent: percent of pod-hours that each of the last days was to add, and what it added. A shadow run knows a
    load by its five-minute maxima only, and days differ: a plan that came out half as dear again plans with less.
    """
    if not expected:
        return 1.0
    # Two percent on both sides keep small numbers from shouting.
    ratio = (sum(expected) / len(expected) + 2) / (max(sum(spent), 0.0) / len(spent) + 2)
    return min(max(ratio, _CORRECTION_MIN), _CORRECTION_MAX)


def _with_margin(row: int, minutes: Floats, extra: Floats, most: Floats) -> int:
    """
    The row of the lowest price down to which no minutes are lost, for at most half of what they may cost.

    What a week happened not to need the next one may: the cheapest of equals has no margin.
    """
    while row + len(LEASTS) < len(CANDIDATES):
        lower = row + len(LEASTS)
        if CANDIDATES[lower - 1].price >= CANDIDATES[row - 1].price:
            break
        if minutes[lower] > minutes[row] * _MARGIN_LOSS + 1e-9 or extra[lower] > most[lower]:
            break
        row = lower
    return row


def candidate_floors(known: Floats, day: Day, settings: WorkloadModel, steps_per_day: int) -> Counts:
    """(1 + candidates, minutes of the day): the floors of each on a day, fitted on what was known before it."""
    week = known[-DAYS * steps_per_day :]
    reactive = reactive_pods(week, settings)
    leasts = np.array(least_replicas(_held(reactive)), np.int16)
    length = len(day.steps) * MINUTES_PER_STEP
    priced = np.zeros((len(VARIANTS) + 1, len(PRICES), length), np.int16)
    fitted = ErrorMixture().fit(known, steps_per_day=steps_per_day, windows=windows_of(day, settings))
    if fitted is not None:
        origins = origins_of(fitted, day)
        found = fitted.distribution(day.steps, origins)
        running = np.broadcast_to(reactive_pods(origins.recent[:, 0], settings), found.load.shape[:2])
        ceiling = CEILING * float(np.nanmax(week))
        floors = priced_floors(found, running, settings.carried, ceiling, float(reactive.mean()))
        priced[:-1] = by_minute(floors, settings, length)
        jumps = jumps_of(day, settings)
        if jumps is not None:
            np.maximum(priced, jumps.floors(PRICES, float(reactive.mean()), ceiling, settings.carried), out=priced)
    rows = np.maximum(priced[:, :, None], leasts[:, None]).reshape(-1, length)
    return np.concatenate([np.zeros((1, length), np.int16), rows, np.repeat(leasts[1:, None], length, axis=1)])


@dataclass(frozen=True)
class Jumps:
    """
    The spikes that may come at some minutes.

    spikes: of those higher than what runs anyway. running: (minutes,), replicas without a forecast.
    """

    spikes: Spikes
    running: Floats

    def floors(self, prices: Sequence[float], usual: float, ceiling: float, carried: float) -> Counts:
        """(prices, minutes) replicas that are worth their price, zero where what runs anyway is enough."""
        every = np.ceil(np.minimum(self.spikes.load, ceiling) / carried - 1e-9)
        # Of spikes that the same pods carry the highest has the sum of their probabilities.
        highest = np.flatnonzero(np.diff(every, append=np.inf))
        pods = every[highest]
        needed = self.spikes.chance[:, None] * self.spikes.cdf[:, highest]
        more = np.maximum(pods - self.running[:, None], 0.0)
        found = np.zeros((len(prices), len(self.running)), np.int16)
        for number, price in enumerate(prices):
            worth = needed - price / usual * more
            best = worth.argmax(axis=1)
            is_worth = np.take_along_axis(worth, best[:, None], axis=1)[:, 0] > 0
            found[number] = np.where(is_worth & (pods[best] > self.running), np.clip(pods[best], 0, _FLOOR_MAX), 0)
        return found


def jumps_of(day: Day, settings: WorkloadModel) -> Jumps | None:
    """What the jump clock tells at each minute of a day, learnt from the minutes before it; None without them."""
    own = day.own_minutes
    if day.past is None or own is None:
        return None
    fitted = fit_jumps(day.past, settings)
    return None if fitted is None else jumps_since(fitted, own, np.arange(1, len(own) + 1), settings)


def fit_jumps(past: Floats, settings: WorkloadModel) -> spike_hazard.Fitted | None:
    """
    The jump clock of single minutes, NaN for a gap; None where half are gaps, or pods were hardly ever too few.

    What came before the first that is known is no gap: a younger history is a shorter one.
    """
    past = past[-spike_hazard.DAYS * spike_hazard.DAY :]
    past = past[np.argmax(~np.isnan(past)) :] if len(past) else past
    if not len(past) or np.isnan(past).mean() > _GAPS_MAX:
        return None
    load = _filled(past)
    return spike_hazard.fit(load, shortages(load, settings), lead=lead_minutes(settings))


def jumps_since(
    fitted: spike_hazard.Fitted, minutes: Floats, origins: NDArray[np.int64], settings: WorkloadModel
) -> Jumps:
    """What a fit tells at some minutes after it. minutes: those that followed it, NaN for a gap."""
    # A gap holds what was known last: a line through it would tell what came after it.
    known = fitted.load
    is_known = np.concatenate([np.ones(len(known), bool), ~np.isnan(minutes)])
    newest = np.maximum.accumulate(np.where(is_known, np.arange(len(is_known)), 0))
    load = np.concatenate([known, minutes])[newest]
    # Of so many minutes at the front of what it looks at it cannot say anything.
    begin = len(known) - _HELD_MINUTES - _late_minutes(settings)
    short = shortages(load[begin:], settings)[len(known) - begin :]
    running = _held_replicas(reactive_pods(load, settings), 0)[len(known) + origins - 1]
    # A hair more than those pods carry, as in `floors`.
    enough = (running + 1e-9) * settings.carried
    return Jumps(fitted.spikes(load[len(known) :], short, origins, enough), running)


def shortages(load: Floats, settings: WorkloadModel) -> NDArray[np.bool_]:
    """(minutes,): whether the pods that the metric asks for are too few for a minute, as they come too late."""
    late = _late_minutes(settings)
    ready = _held_replicas(reactive_pods(load, settings), late)
    # Within its tolerance the metric asks for nothing: on average half of it is missing.
    needed = np.ceil(load / settings.capacity * (1 + settings.tolerance / 2) - 1e-9)
    found: NDArray[np.bool_] = needed > ready
    found[: late + _HELD_MINUTES] = False
    return found


def _late_minutes(settings: WorkloadModel) -> int:
    """How much later than a load the pods that the metric asks for are ready: it is the mean of a minute, and old."""
    return round((settings.delay_seconds + 30 + settings.start_up_seconds) / 60)


def _held_replicas(wanted: Floats, late: int) -> Floats:
    """(minutes,): what was asked for `late` minutes before each, or within the stabilization before that."""
    padded = np.concatenate([np.full(late + _HELD_MINUTES, wanted[0]), wanted])
    held: Floats = np.lib.stride_tricks.sliding_window_view(padded, _HELD_MINUTES + 1)[: len(wanted)].max(axis=1)
    return held


def lead_minutes(settings: WorkloadModel) -> int:
    """The minute that a pod is ready for, which is asked for when a minute is known."""
    return -(-(settings.delay_seconds + settings.start_up_seconds) // 60)


def windows_of(day: Day, settings: WorkloadModel) -> tuple[int, ...]:
    """How many steps ahead is looked: by the minute one is enough unless pods are slow."""
    return (1, far_steps(settings)) if day.minutes is None or is_slow(settings) else (1,)


def far_steps(settings: WorkloadModel) -> int:
    """How many steps ahead a pod that is asked for now, and by the step not again for five minutes, has to be ready."""
    return max(2, -(-(settings.delay_seconds + _STEP_SECONDS + settings.start_up_seconds) // _STEP_SECONDS))


def origins_of(fitted: Fitted, day: Day) -> Origins:
    """Every minute of the day that follows the fit, where single minutes are known, else every step."""
    first = len(fitted.load)
    if day.minutes is None:
        return on_grid(fitted.load, day.steps, np.arange(first, first + len(day.steps)))
    at = np.arange(len(day.steps) * MINUTES_PER_STEP) + LAGS * MINUTES_PER_STEP
    known = np.nan_to_num(day.minutes, nan=-np.inf)
    padded = np.concatenate([np.full(MINUTES_PER_STEP - 1, -np.inf), known])
    maxima = np.lib.stride_tricks.sliding_window_view(padded, MINUTES_PER_STEP).max(axis=1)
    recent = maxima[at[:, None] - MINUTES_PER_STEP * np.arange(LAGS)]
    ended = (at - LAGS * MINUTES_PER_STEP + 1) / MINUTES_PER_STEP - 1
    return Origins(first + ended, np.where(np.isfinite(recent), recent, np.nan))


def by_minute(floors: Counts, settings: WorkloadModel, length: int) -> Counts:
    """
    (..., windows, origins) to (..., minutes).

    The floor of the step after the newest holds at once, that of the one behind it as soon as a pod asked for now would
    be ready for it alone.
    """
    near, both = floors[..., 0, :], floors.max(axis=-2)
    if floors.shape[-1] == length:
        return both if is_slow(settings) else near
    of_minute = [both if needs_far(minute, settings) else near for minute in range(MINUTES_PER_STEP)]
    return np.stack(of_minute, axis=-1).reshape(*floors.shape[:-2], length)


def needs_far(minute: int, settings: WorkloadModel) -> bool:
    """Whether a pod asked for this late in a step, a tick included, would only be ready for the step after the next."""
    ready = settings.delay_seconds + 60 * (minute + 1) + settings.start_up_seconds
    return ready >= _STEP_SECONDS + settings.delay_seconds


def is_slow(settings: WorkloadModel) -> bool:
    """Whether a pod asked for now, and not again for a minute, is ready later than the step that begins now ends."""
    return settings.delay_seconds + 60 + settings.start_up_seconds > _STEP_SECONDS + 60


def screen(days: Sequence[Day], floors: Counts, settings: WorkloadModel, steps_per_day: int) -> CandidateScores:
    """Replay consecutive days, a tick a minute, with each row of floors."""
    world = replace(settings.world(), tick_seconds=60)
    if any(day.minutes is None for day in days):
        load = _replayed(np.concatenate([day.steps for day in days]), settings)
    else:
        own = [day.minutes[-len(day.steps) * MINUTES_PER_STEP :] for day in days if day.minutes is not None]
        load = _filled(np.concatenate(own))
    # Many prices are worth no pod all day: of equal floors one is tried.
    numbers: dict[bytes, int] = {}
    same = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in floors])
    first = np.unique(same, return_index=True)[1]
    outcomes = simulate(load / settings.capacity, floors[first], world)

    def by_day(values: NDArray[np.float32]) -> Floats:
        scored = values[:, days[0].run_up :]
        return np.asarray(scored.reshape(len(values), -1, steps_per_day).sum(axis=2)[same], dtype=np.float64)

    return CandidateScores(by_day(outcomes.under) / 60, by_day(outcomes.pods), by_day(outcomes.actions))


def _filled(load: Floats) -> Floats:
    """Without gaps: linear through them, zero where nothing is known."""
    return np.asarray(np.interp(np.arange(len(load)), *_seen(load, 0.0)), dtype=np.float64)


def _seen(load: Floats, otherwise: float) -> tuple[NDArray[np.int64], Floats]:
    """Where something is known, and what."""
    known = np.flatnonzero(~np.isnan(load))
    return (known, load[known]) if len(known) else (np.zeros(1, np.int64), np.array([otherwise]))


def _replayed(steps: Floats, settings: WorkloadModel) -> Floats:
    """
    A load for each minute, through gaps too.

    Maxima of minutes: a step's maximum is known at its end, when the next step is under way; whatever rises within a
    step is taken to rise in its first minute. Points: the load is linear from one to the next.
    """
    full = _filled(steps)
    if settings.are_points:
        minutes = np.arange(len(steps) * MINUTES_PER_STEP) / MINUTES_PER_STEP
        return np.asarray(np.interp(minutes, np.arange(len(steps)), full), dtype=np.float64)
    under_way = np.concatenate([full[1:], full[-1:]])
    rising = np.where(np.arange(MINUTES_PER_STEP) == 0, full[:, None], under_way[:, None])
    return np.asarray(rising.ravel(), dtype=np.float64)


def reactive_pods(steps: Floats, settings: WorkloadModel) -> Floats:
    """What the metric asks for at each maximum, one where it is not known."""
    return np.maximum(np.ceil(np.nan_to_num(steps) / settings.target - 1e-9), 1.0)


def _held(pods: Floats) -> Floats:
    """What runs where stabilization keeps each step's replicas for one step more."""
    held: Floats = np.maximum(pods, np.concatenate([pods[:1], pods[:-1]]))
    return held


def priced_floors(distribution: Distribution, running: Floats, carried: float, ceiling: float, usual: float) -> Counts:
    """
    (methods, prices, windows, origins) replicas that are worth their price, zero where what runs anyway is enough.

    running: (windows, origins), replicas without a forecast. ceiling: the largest load that is believed.
    usual: mean replicas, which prices refer to.
    """
    found = np.zeros((len(VARIANTS), len(PRICES), *running.shape), np.int16)
    for number, price in enumerate(PRICES):
        found[:, number] = _priced(distribution.load, distribution.cdf, running, carried, ceiling, price / usual)
    return found


def _priced(
    load: Floats, cdf: Floats, running: Floats, carried: float, ceiling: float, price: float
) -> NDArray[np.int16]:
    """cdf: (..., windows, origins, bins). price: of one pod above those that run, as a probability."""
    pods = np.ceil(np.minimum(load, ceiling) / carried - 1e-9)
    cost = price * np.maximum(pods - running[..., None], 0.0)
    best = np.argmax(cdf - cost, axis=-1)
    chosen = np.take_along_axis(np.broadcast_to(pods, cdf.shape), best[..., None], axis=-1)[..., 0]
    return np.where(chosen > running, np.clip(np.nan_to_num(chosen), 0, _FLOOR_MAX), 0).astype(np.int16)


def least_replicas(reactive: Floats) -> list[int]:
    """The constant floors that would have added LEASTS to these replicas."""
    # A target of a thousandth and one spike ask for billions of pods: no floor is that high.
    counts = np.arange(int(min(reactive.max(), _FLOOR_MAX)) + 1)
    order = np.sort(reactive)
    below = np.searchsorted(order, counts, side="right")
    cost = counts * below - np.concatenate([[0.0], np.cumsum(order)])[below]
    return [int(np.searchsorted(cost, share * reactive.sum(), side="right")) - 1 if share else 0 for share in LEASTS]


def chosen_floors(
    choice: Choice, distribution: Distribution, running: Floats, carried: float, ceiling: float
) -> Counts:
    """(windows, origins): the floors of a choice."""
    if not choice.method:
        return np.full(running.shape, choice.least, np.int16)
    cdf = distribution.cdf[list(VARIANTS).index(choice.method)]
    priced = _priced(distribution.load, cdf, running, carried, ceiling, choice.price / choice.usual)
    floors: Counts = np.maximum(priced, np.int16(choice.least))
    return floors


@dataclass(frozen=True)
class FloorQuantile:
    """
    What a choice says at one origin, for each window.

    load: what pods should be there for; where none are worth their price, what those that run anyway carry, at most.
    level: the chance that the largest load of the window is no larger.
    """

    load: tuple[float, ...]
    level: tuple[float, ...]


def stated(
    choice: Choice,
    distribution: Distribution,
    running: float,
    carried: float,
    ceiling: float,
    jumps: Jumps | None = None,
) -> FloorQuantile | None:
    """
    The load that a choice stands for at the first origin of the distribution. None where nothing can be said.

    jumps: of one minute, what the jump clock tells at it.
    """
    if np.isnan(distribution.load[:, 0]).any():
        return None
    of_each = np.full((len(distribution.load), 1), running)
    floors = chosen_floors(choice, distribution, of_each, carried, ceiling)[:, 0]
    if jumps is not None:
        floors[0] = max(floors[0], jumps.floors([choice.price], choice.usual, ceiling, carried)[0, 0])
    method = list(VARIANTS).index(choice.method or _PLAIN)
    loads, levels = [], []
    for window, floor in enumerate(floors):
        edges, cdf = distribution.load[window, 0], distribution.cdf[method, window, 0]
        median = float(edges[min(int(np.searchsorted(cdf, 0.5)), len(edges) - 1)])
        # A hair less than what so many pods carry, so that dividing and rounding up gives them back.
        load = (float(floor) - 1e-6) * carried if floor > 0 else min(median, running * carried, ceiling)
        covered = int(np.searchsorted(edges, load, side="right"))
        loads.append(load)
        levels.append(float(cdf[covered - 1]) if covered else 0.0)
    return FloorQuantile(tuple(loads), tuple(levels))
