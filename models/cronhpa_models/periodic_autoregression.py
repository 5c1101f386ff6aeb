"""
Periodic autoregression: the usual course of the day, plus as much of today's deviation from it as usually lasts.

Card
  What for   Load with a daily rhythm. It follows the level where deviations last and forgets it where they do not:
             before a job that starts every day at 06:00 the load of 05:55 says nothing about 06:05, yesterday does.
             Useless, though calibrated, where there is no rhythm and no memory (news bursts, request noise).
  Formula    z = log(load + c), c = 5 % of the mean load, so that nights at zero have a logarithm.
             z[t+h] = profile[t+h] + persistence[clock(t), h] * level(z - profile)[t] + margin[level, h] * scale[t, h]
             profile: mean of z at the same clock of earlier days, a day counting half as much every 4 days.
             persistence: least squares at the same clock (neighbours of one step pooled, half-life 7 days), drawn
             towards the value for the whole day with the weight of one average slot.
             level: the last deviation, or its exponential mean (0.5); whichever erred less over the history.
             scale: half the usual error at this clock, half the errors of the last half hour, plus a tenth of the
             overall error, so that a quiet hour cannot make it zero.
             margin: the quantile of error / scale over the last seven days (split conformal). Each error in the
             calibration is of a forecast made with earlier days only.
  Source     Periodic models: Pagano (1978), Annals of Statistics 6(6); Franses & Paap (2004), Periodic Time Series
             Models. One-sided split conformal: Lei et al. (2018), JASA 113(523), section 2.
  Cost       28 days of five minutes, one core: 27 ms a fit, 0.1 ms a forecast in frames of 50 objects (1.7 ms alone),
             34 kB of state an object.
  Scores     `OPENBLAS_NUM_THREADS=1 python -m cronhpa_models.evaluation SERIES.csv.gz ...`, nine permissively licensed
             production series (aws_elb, k8s_app01/08/09/11/12, ms_data_ingress, ms_mongo_app/_machine), fitted daily,
             forecast at every step after a week of warm-up, steps one and two (up to ten minutes ahead), pinball loss
             in percent of the mean load, median of the series:
             0.9: loss 1.42, coverage 0.900 (0.88 to 0.95). 0.95: loss 1.03, coverage 0.950 (0.94 to 0.98). MASE 0.35.
             k8s_app11, whose load rises from 1.2 to 10 cores at 06:00 every day: loss 3.2 and 2.1, coverage 0.898 and
             0.950. At 05:55 its 0.95 quantile for 06:05 lay 6 to 53 % above what came on each of nine days, its 0.9
             quantile 7 % below to 33 % above.
             Throw-away prototypes of others on the same series and tweets_aapl, 0.9, step two, median loss (coverage):
             this 2.6 (0.90), ridge on lags with clock-scaled conformal margins 2.8 (0.90), STL with jumps and an
             online level 3.3 (0.87), quantile of increments at the same clock 3.4 (0.89), last value 4.3 (0.89),
             time-of-day quantile plain 4.3 (0.84) and level-corrected 4.3 (0.92).
             On k8s_app11: 3.8, 4.2, 5.1, 5.2, 8.5, 7.0, 6.0. Ridge is better where there is only noise (aws_elb).
  Weak at    Clocks are UTC: a load that follows local time is an hour off for some days after a clock change.
             Weekends are told from weekdays by the deviation only. A first occurrence is never foreseen.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from pandas import DataFrame, Timedelta, date_range

from cronhpa_models.method import Floats, Quantiles, nanoseconds_per_step

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "PeriodicAutoregression"
HORIZON = 12  # steps; an hour of five-minute steps

_DAY_NS = 86_400 * 10**9
_PROFILE_HALF_LIFE_DAYS = 4
_PERSISTENCE_HALF_LIFE_DAYS = 7
_SCALE_HALF_LIFE_DAYS = 5
_RECENT_HALF_LIFE_STEPS = 6
_CALIBRATION_DAYS = 7
_SMOOTHINGS = (1.0, 0.5)
# An autoregression above one would let a deviation explode over a day; slightly above one lets it grow at a ramp.
_PERSISTENCE_MAX = 1.2
_GRID = np.round(np.arange(1, 100) / 100, 2)
# Calibrated on fewer errors than this, the 0.95 quantile would rest on two or three of them.
_ERRORS_MIN = 50
# A load unseen for longer than this many steps is not extrapolated.
_UNSEEN_STEPS_MAX = 3


@dataclass(frozen=True)
class _State:
    """
    What was learnt, objects first.

    columns (n,): their names. step_ns (): the grid. offset, smoothing (n,). profile (n, slots).
    persistence, clock_scale (n, slots, horizon). overall_scale (n, horizon). margins (n, levels of _GRID, horizon).
    Slot 0 begins at midnight UTC. An object without enough history is NaN throughout.
    """

    columns: np.ndarray
    step_ns: np.ndarray
    offset: Floats
    smoothing: Floats
    profile: Floats
    persistence: Floats
    clock_scale: Floats
    overall_scale: Floats
    margins: Floats


@dataclass(frozen=True)
class _Rolled:
    """
    Forecasts of every past day made with the days before it, and what the last day leaves for tomorrow.

    errors, scales: (days, slots, horizon). overall: (horizon,).
    profile (slots,), persistence and clock_scale (slots, horizon) hold for the day after the last.
    """

    errors: Floats
    scales: Floats
    overall: Floats
    profile: Floats
    persistence: Floats
    clock_scale: Floats


def fit(history: DataFrame) -> bytes:
    """See cronhpa_models.method. Two days are the least that gives a forecast; 28 days are useful."""
    step_ns = nanoseconds_per_step(history.index)
    if _DAY_NS % step_ns:
        raise ValueError(f"a step of {step_ns} ns does not divide a day: steps such as 5 min are accepted")
    slots = _DAY_NS // step_ns
    days = -(-len(history) // slots)
    # Days end where the history ends, whatever the clock says then: no part of the newest day is lost.
    padded = np.full((days * slots, history.shape[1]), np.nan)
    padded[len(padded) - len(history) :] = history.to_numpy(dtype=np.float64)
    first_slot = (int(history.index.as_unit("ns").asi8[-1]) // step_ns + 1) % slots  # type: ignore[attr-defined]  # checked above
    states = [_fit_one(padded[:, i].reshape(days, slots), first_slot) for i in range(history.shape[1])]
    return _encode(
        _State(
            columns=np.array([str(column) for column in history.columns], dtype=np.str_),
            step_ns=np.array(step_ns),
            **{name: np.stack([state[name] for state in states]) for name in states[0]},
        )
    )


def forecast(fitted: bytes, recent: DataFrame, levels: Sequence[float]) -> Quantiles:
    """See cronhpa_models.method. Six hours of `recent` are enough; an object unseen for 15 minutes gets NaN."""
    outside = [level for level in levels if not _GRID[0] <= level <= _GRID[-1]]
    if outside:
        raise ValueError(f"level {outside[0]} cannot be stated: levels from {_GRID[0]} to {_GRID[-1]} are accepted")
    state = _select(_decode(fitted), [str(column) for column in recent.columns])
    step_ns = int(state.step_ns)
    slots = state.profile.shape[1]
    starts = recent.index.as_unit("ns").asi8  # type: ignore[attr-defined]  # a DatetimeIndex, checked when fitting
    load = recent.to_numpy(dtype=np.float64).T
    rows = load.shape[1]
    clock = starts // step_ns % slots
    ahead = (clock[:, None] + 1 + np.arange(HORIZON)) % slots

    seen = ~np.isnan(load)
    newest = rows - 1 - np.argmax(seen[:, ::-1], axis=1)  # the last row with a value; the last of all where none has
    unseen = np.where(seen.any(axis=1), rows - 1 - newest, rows)

    z = np.log(load + state.offset[:, None])
    level = _levels(z - state.profile[:, clock], state.smoothing)
    predicted = state.profile[:, ahead] + state.persistence[:, clock] * level[:, :, None]
    recent_scale = _recent_error(_ahead(z) - predicted)
    objects = np.arange(len(load))[:, None]
    # A load last seen two steps ago is forecast from there: what was its third step is now the first.
    horizon = np.minimum(np.arange(HORIZON) + unseen[:, None], HORIZON - 1)
    origin = clock[newest][:, None]
    clock_scale = state.clock_scale[objects, origin, horizon]
    overall = state.overall_scale[objects, horizon]
    scale = _blend(clock_scale, recent_scale[objects, horizon], overall)
    centre = state.profile[:, ahead[-1]] + state.persistence[objects, origin, horizon] * level[objects, newest[:, None]]
    values = np.full((len(levels), HORIZON, len(load)), np.nan)
    for i, wanted in enumerate(levels):
        margin = _interpolate(state.margins, wanted)[objects, horizon]
        # 700 keeps the exponential finite; the caller's ceiling makes it sane.
        upper = np.exp(np.minimum(centre + margin * scale, 700.0)) - state.offset[:, None]
        values[i] = np.where(unseen[:, None] <= _UNSEEN_STEPS_MAX, np.maximum(upper, 0.0), np.nan).T
    step = Timedelta(step_ns, unit="ns")
    return Quantiles(
        levels=tuple(levels),
        steps=date_range(recent.index[-1] + step, periods=HORIZON, freq=step),
        objects=recent.columns,
        load=values,
    )


def _fit_one(load: Floats, first_slot: int) -> dict[str, Floats]:
    """The state of one object from (days, slots); slot 0 of `load` is the clock's `first_slot`."""
    mean = np.nanmean(load) if np.isfinite(load).any() else np.nan
    # 1e-9 stands in where nothing was ever measured above zero.
    offset = max(0.05 * mean, 1e-9)
    z = np.log(load + offset)
    rolled = [_roll(z, smoothing) for smoothing in _SMOOTHINGS]
    best = int(np.argmin([_mean_or_inf(np.abs(each.errors)) for each in rolled]))
    chosen = rolled[best]
    calibration = (chosen.errors / chosen.scales)[-_CALIBRATION_DAYS:].reshape(-1, HORIZON)
    return {
        "offset": np.array(offset),
        "smoothing": np.array(_SMOOTHINGS[best]),
        "profile": np.roll(chosen.profile, first_slot),
        "persistence": np.roll(chosen.persistence, first_slot, axis=0),
        "clock_scale": np.roll(chosen.clock_scale, first_slot, axis=0),
        "overall_scale": chosen.overall,
        "margins": _quantiles(calibration),
    }


def _roll(z: Floats, smoothing: float) -> _Rolled:
    """Go through the days of z (days, slots) once; each is forecast before it is learnt from."""
    days, slots = z.shape
    target = (np.arange(slots)[:, None] + 1 + np.arange(HORIZON)) % slots
    profile_sum, profile_weight = np.zeros(slots), np.zeros(slots)
    square, product = np.zeros((slots, HORIZON)), np.zeros((slots, HORIZON))
    error_sum, error_weight = np.zeros((slots, HORIZON)), np.zeros((slots, HORIZON))
    outcome = _ahead(z.reshape(1, -1)).reshape(days, slots, HORIZON)
    profiles = np.full((days + 1, slots), np.nan)
    for day in range(days + 1):
        profiles[day] = _ratio(profile_sum, profile_weight)
        if day < days:
            profile_sum = _fade(profile_sum, z[day], _PROFILE_HALF_LIFE_DAYS)
            profile_weight = _fade(profile_weight, ~np.isnan(z[day]) * 1.0, _PROFILE_HALF_LIFE_DAYS)
    level = _levels((z - profiles[:-1]).reshape(1, -1), np.array([smoothing])).reshape(days, slots)
    errors = np.full((days, slots, HORIZON), np.nan)
    clock_scales = np.full((days, slots, HORIZON), np.nan)
    for day in range(days):
        deviation = level[day][:, None]
        wanted = outcome[day] - profiles[day][target]
        errors[day] = wanted - _persistence(square, product) * deviation
        clock_scales[day] = _ratio(_pool(error_sum), _pool(error_weight))
        square = _fade(square, np.where(np.isnan(wanted), np.nan, deviation**2), _PERSISTENCE_HALF_LIFE_DAYS)
        product = _fade(product, deviation * wanted, _PERSISTENCE_HALF_LIFE_DAYS)
        error_sum = _fade(error_sum, np.abs(errors[day]), _SCALE_HALF_LIFE_DAYS)
        error_weight = _fade(error_weight, ~np.isnan(errors[day]) * 1.0, _SCALE_HALF_LIFE_DAYS)
    size = np.abs(errors)
    known = ~np.isnan(size)
    overall = _ratio(np.where(known, size, 0.0).sum(axis=(0, 1)), known.sum(axis=(0, 1)) * 1.0)
    recent = _recent_errors(size.reshape(-1, HORIZON)).reshape(errors.shape)
    return _Rolled(
        errors=errors,
        scales=_blend(clock_scales, recent, overall),
        overall=overall,
        profile=profiles[-1],
        persistence=_persistence(square, product),
        clock_scale=_ratio(_pool(error_sum), _pool(error_weight)),
    )


def _persistence(square: Floats, product: Floats) -> Floats:
    """The share of a deviation that lasts, (slots, horizon); one while nothing is known: a level lasts."""
    all_square = square.sum(axis=0)
    whole_day = np.where(all_square > 0, product.sum(axis=0) / np.maximum(all_square, 1e-300), 1.0)
    prior = all_square / len(square)
    pooled = _pool(square) + prior
    share = np.where(pooled > 0, (_pool(product) + prior * whole_day) / np.maximum(pooled, 1e-300), whole_day)
    return np.clip(share, 0.0, _PERSISTENCE_MAX)


def _blend(clock_scale: Floats, recent: Floats, overall: Floats) -> Floats:
    """The scale of the coming error: the usual one at this clock and that of the last half hour, in equal parts."""
    usual = np.where(np.isnan(clock_scale), overall, clock_scale)
    now = np.where(np.isnan(recent), overall, recent)
    # 1e-12 keeps a load that never moved from dividing zero by zero.
    return 0.5 * usual + 0.5 * now + 0.1 * overall + 1e-12


def _levels(deviation: Floats, smoothing: Floats) -> Floats:
    """Exponential means along time of (objects, steps); where nothing was measured the level is unknown."""
    smooth = np.array(deviation)
    for value in np.unique(smoothing[smoothing < 1.0]):
        chosen = smoothing == value
        smooth[chosen] = DataFrame(deviation[chosen].T).ewm(alpha=value).mean().to_numpy().T
    return np.where(np.isnan(deviation), np.nan, smooth)


def _ahead(z: Floats) -> Floats:
    """(objects, steps) to (objects, steps, horizon): what came one, two, ... steps later, NaN beyond the end."""
    padded = np.concatenate([z, np.full((len(z), HORIZON), np.nan)], axis=1)
    return np.lib.stride_tricks.sliding_window_view(padded, HORIZON, axis=1)[:, 1:].astype(np.float64)


def _recent_errors(size: Floats) -> Floats:
    """
    At every step the exponential mean of the errors that were known by then.

    size: (steps, horizon), |error| of the forecast made at that step. One made h steps ahead is known h steps later.
    """
    mean = DataFrame(size).ewm(halflife=_RECENT_HALF_LIFE_STEPS).mean().to_numpy()
    known = np.full_like(mean, np.nan)
    for h in range(HORIZON):
        known[h + 1 :, h] = mean[: -h - 1, h]
    return known


def _recent_error(errors: Floats) -> Floats:
    """(objects, steps, horizon) to (objects, horizon): the last row of `_recent_errors` for many objects at once."""
    age = np.arange(errors.shape[1])[::-1]
    weight = 0.5 ** (age / _RECENT_HALF_LIFE_STEPS)[None, :, None] * ~np.isnan(errors)
    return _ratio((weight * np.nan_to_num(np.abs(errors))).sum(axis=1), weight.sum(axis=1))


def _pool(sums: Floats) -> Floats:
    """Each slot with its neighbours: a job that starts a step earlier or later is still the same job."""
    return sums + np.roll(sums, 1, axis=0) + np.roll(sums, -1, axis=0)


def _fade(total: Floats, new: Floats, half_life_days: float) -> Floats:
    """A running sum over days in which a day counts half after `half_life_days`; an unknown adds nothing."""
    faded: Floats = total * 0.5 ** (1 / half_life_days) + np.nan_to_num(new)
    return faded


def _ratio(total: Floats, weight: Floats) -> Floats:
    """The mean that a sum and its weight stand for, NaN where nothing was weighed."""
    mean: Floats = np.divide(total, weight, out=np.full(np.shape(total), np.nan), where=weight > 0)
    return mean


def _mean_or_inf(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("inf")


def _quantiles(errors: Floats) -> Floats:
    """The quantiles of _GRID down each column of (n, horizon), NaN where too few errors are known."""
    margins = np.full((len(_GRID), errors.shape[1]), np.nan)
    for h in range(errors.shape[1]):
        known = errors[~np.isnan(errors[:, h]), h]
        if len(known) >= _ERRORS_MIN:
            margins[:, h] = np.quantile(known, _GRID)
    return margins


def _interpolate(margins: Floats, level: float) -> Floats:
    """Margins (objects, _GRID, horizon) at one level between those of the grid, (objects, horizon)."""
    above = min(int(np.searchsorted(_GRID, level)), len(_GRID) - 1)
    below = max(above - 1, 0)
    width = _GRID[above] - _GRID[below]
    part = (level - _GRID[below]) / width if width > 0 else 0.0
    between: Floats = margins[:, below] * (1 - part) + margins[:, above] * part
    return between


def _select(state: _State, wanted: list[str]) -> _State:
    """The rows of the wanted objects. Raises KeyError for one that was not fitted."""
    position = {str(name): i for i, name in enumerate(state.columns)}
    missing = [name for name in wanted if name not in position]
    if missing:
        raise KeyError(f"{missing[0]} was not fitted: this state is of {', '.join(position)}")
    rows = [position[name] for name in wanted]
    shared = {"step_ns"}
    return _State(**{f.name: getattr(state, f.name)[() if f.name in shared else rows] for f in fields(state)})


def _encode(state: _State) -> bytes:
    """
    An .npz of plain arrays.

    Floats are kept with 24 bits: an error of 1e-7 in a logarithm is one of 1e-7 of the load.
    """
    out = io.BytesIO()
    arrays = {f.name: getattr(state, f.name) for f in fields(state)}
    np.savez(out, **{k: a.astype(np.float32) if a.dtype == np.float64 else a for k, a in arrays.items()})
    return out.getvalue()


def _decode(fitted: bytes) -> _State:
    """The state that `_encode` wrote. Pickled objects are refused: bytes from a file must not execute code."""
    with np.load(io.BytesIO(fitted), allow_pickle=False) as arrays:
        loaded = {f.name: arrays[f.name] for f in fields(_State)}
    return _State(**{k: a.astype(np.float64) if a.dtype == np.float32 else a for k, a in loaded.items()})
