"""
The predictive distributions of error mixtures, for many fits in one pass; the card is in error_mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.joined_rows import JoinedRows, LoggedRows, Spans
from cronhpa_models.method import LAGS, Distribution, Floats, Origins, Rows
from cronhpa_models.step_features import PROFILE_AHEAD, features, or_zero, profile_at

if TYPE_CHECKING:
    from cronhpa_models.error_mixture import FittedMixture

SOURCES = ("near", "clock", "load", "moves", "recent", "all")
# The weight of each source; a source without samples (no earlier day, no similar move) has no weight.
VARIANTS: dict[str, dict[str, float]] = {
    "Clock": {"clock": 0.6, "recent": 0.2, "all": 0.2},
    "NearClock": {"near": 0.7, "recent": 0.2, "all": 0.1},
    "ClockAndLoad": {"near": 0.3, "load": 0.3, "moves": 0.2, "recent": 0.1, "all": 0.1},
}
# The number of earlier days that sources use.
DAYS_BACK = 14

_RECENT = 24
_ALIKE = 40
_BACK = np.arange(1, DAYS_BACK + 1)
_BY_DAY = 0.5 ** (_BACK / 5.0) * np.where(_BACK % 7 == 0, 2.0, 1.0)
_OF_LATE = np.arange(_RECENT)
_BY_STEP = 0.5 ** (_OF_LATE / 10)
_SPREAD = np.linspace(-1, 1, _ALIKE)


def distributions(
    several: Sequence[FittedMixture], later: Sequence[Floats], origins: Sequence[Origins], windows: int | None = None
) -> list[Distribution]:
    """
    FittedMixture.distribution of each fit, equal to the last bit, in one pass over all origins.

    Fits that differ in these windows or steps a day are a caller's bug (asserted). BLAS sums nothing over an origin's
    samples, because its rounding depends on the number of origins.
    """
    reaches, day = several[0].windows[:windows], several[0].steps_per_day
    assert all((fitted.windows[:windows], fitted.steps_per_day) == (reaches, day) for fitted in several)
    inputs = _ForecastInputs.of(several, later, origins, reaches)
    made = [_window(inputs, number) for number in range(len(inputs.reaches))]
    load, cdf = np.stack([load for load, _ in made]), np.stack([cdf for _, cdf in made], axis=1)
    ends = np.cumsum(inputs.counts)
    return [
        Distribution(load[:, end - count : end], cdf[:, :, end - count : end])
        for end, count in zip(ends.tolist(), inputs.counts, strict=True)
    ]


@dataclass(frozen=True)
class _ForecastInputs:
    """The data known at the origins of several fits, concatenated."""

    several: Sequence[FittedMixture]
    reaches: tuple[int, ...]
    """Reaches of the windows that are forecast."""
    fitted: Rows
    """The number of rows of each fit's history."""
    z: LoggedRows
    """Logarithms of each fit's history and of the loads since."""
    counts: list[int]
    """The number of origins of each fit."""
    owner: Rows
    position: Floats
    recent: Floats
    x: Floats
    """
    (origins, ...), the number of the fit; position and recent of `Origins`, the latter as logarithms; the features.
    """
    since: Spans
    """The rows of each fit that an origin uses and whose errors are not in the fit, up to the last row."""
    since_x: Floats
    """The features of `since`."""

    @classmethod
    def of(
        cls,
        several: Sequence[FittedMixture],
        later: Sequence[Floats],
        origins: Sequence[Origins],
        reaches: tuple[int, ...],
    ) -> _ForecastInputs:
        day = several[0].steps_per_day
        offset = np.array([one.offset for one in several])
        fitted, came = np.array([len(one.load) for one in several]), np.array([len(one) for one in later])
        parts = [part for one, new in zip(several, later, strict=True) for part in (one.load, new)]
        z = LoggedRows(JoinedRows.joined(np.concatenate(parts), fitted + came), offset)
        counts = [len(at.position) for at in origins]
        owner = np.arange(len(several)).repeat(counts)
        position = np.concatenate([at.position for at in origins])
        recent = np.log(np.concatenate([at.recent for at in origins]) + offset[owner, None])
        begins = np.cumsum([0, *counts[:-1]])
        oldest, newest = np.minimum.reduceat(position, begins), np.maximum.reduceat(position, begins)
        since = Spans.of(_looked_at_since(fitted, oldest, newest, day, max(reaches)), fitted + came)
        everyone = np.concatenate([since.owner, owner])
        positions = np.concatenate([since.rows, position])
        x = or_zero(
            features(
                z.asked_by(everyone),
                _profiles(z, day, oldest, newest, since).asked_by(everyone),
                day,
                positions,
                np.concatenate([_lagging(z, since), recent]),
            )
        )
        mine = len(since.rows)
        return cls(several, reaches, fitted, z, counts, owner, position, recent, x[mine:], since, x[:mine])


def _lagging(z: LoggedRows, since: Spans) -> Floats:
    """(rows, LAGS): z of each row and of those before it, the newest first; successive rows share most of them."""
    looked_at = Spans.of(since.first - LAGS + 1, since.first + since.counts)
    taken = JoinedRows.joined(z.asked_by(looked_at.owner).take(looked_at.rows), looked_at.counts, looked_at.first)
    places = taken.asked_by(since.owner).places(since.rows)
    return np.asarray(taken.values[places[:, None] - np.arange(LAGS)], dtype=np.float64)


def _profiles(z: LoggedRows, day: int, oldest: Floats, newest: Floats, since: Spans) -> JoinedRows:
    """For each fit the profile of the rows that its origins, and the rows since the fit, use."""
    first, last = _whole(oldest), _whole(newest)
    has_since = since.counts > 0
    first = np.where(has_since, np.minimum(first, since.first), first)
    last = np.where(has_since, np.maximum(last, since.first + since.counts - 1), last)
    looked_at = Spans.of(first, last + PROFILE_AHEAD + 1)
    days_back = np.arange(1 + int(looked_at.rows.max()) // day, 0, -1)
    at_clock = z.asked_by(looked_at.owner).take(looked_at.rows - days_back[:, None] * day)
    return JoinedRows.joined(profile_at(at_clock), looked_at.counts, first)


def _looked_at_since(fitted: Rows, oldest: Floats, newest: Floats, day: int, reach: int) -> Rows:
    """For each fit the first row whose error an origin uses and the fit does not have."""
    learnt = fitted - reach
    # A fit older than a day does not have yesterday's rows up to four steps after the same clock.
    is_old = _whole(newest) - day + 4 >= learnt
    return np.where(is_old, learnt, np.maximum(learnt, _whole(oldest) - reach - _RECENT + 1))


def _whole(position: Floats) -> Rows:
    return np.floor(position + 1e-9).astype(np.int64)


def _window(inputs: _ForecastInputs, number: int) -> tuple[Floats, Floats]:
    """(origins, bins) loads and (variants, origins, bins) cdf of one window."""
    several, owner, reach = inputs.several, inputs.owner, inputs.reaches[number]
    day = several[0].steps_per_day
    b = np.stack([fit.coefficients[number] for fit in several])
    edges = np.stack([fit.errors[number].edges for fit in several])
    bins = edges.shape[1]
    centre = inputs.recent[:, 0] + np.einsum("nf,nf->n", inputs.x, b[owner, :-1]) + b[owner, -1]
    counts = np.zeros((len(SOURCES), len(centre), bins))
    whole = _whole(inputs.position)
    part = inputs.position - whole
    bin_of = _bins_since(inputs, number, b, edges).asked_by(owner[:, None])

    def take(source: str, rows: Rows, weights: Floats) -> None:
        """Counts the errors of these rows, if they are known at the origin."""
        good = (rows >= bin_of.first) & (rows < ended)
        chosen = np.where(good, bin_of.values.take(bin_of.places(rows), mode="clip"), -1)
        counts[SOURCES.index(source)] = _histogram(chosen, weights, bins)

    ended = (whole - reach + 1)[:, None]
    take("clock", *_around(whole, part, _BACK * day, _BY_DAY, 2.5))
    rows, weights = _around(whole, part, _BACK * day, _BY_DAY, 0.6)
    take("near", rows, weights)
    came = _came(inputs.z.asked_by(owner[:, None]), rows, reach)
    levels = np.where((rows >= 0) & (rows < ended), came, np.nan) - centre[:, None]
    counts[SOURCES.index("load")] = _histogram(_bins_by_fit(edges, levels, inputs.counts), weights, bins)
    take("recent", whole[:, None] - reach - _OF_LATE, _BY_STEP)
    counts[SOURCES.index("all")] = np.stack([fit.errors[number].of_week for fit in several])[owner]
    now = or_zero(inputs.recent[:, 0] - np.fmin(inputs.recent[:, 1], inputs.recent[:, 2]))
    counts[SOURCES.index("moves")] = _histogram(_alike(inputs, number, now), np.ones(_ALIKE), bins)
    total = counts.sum(axis=-1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    cdf = np.cumsum(_mixed(shares), axis=-1)
    offset = inputs.z.offset[owner, None]
    load = np.exp(np.minimum(centre[:, None] + edges[owner], 700.0)) - offset
    return np.maximum(load, 0.0), cdf / np.maximum(cdf[..., -1:], 1e-300)


def _bins_since(inputs: _ForecastInputs, number: int, b: Floats, edges: Floats) -> JoinedRows:
    """The bin of the error of each row of each fit, -1 for an unknown or unused error."""
    reach, since = inputs.reaches[number], inputs.since
    z = inputs.z.asked_by(since.owner)
    expected = np.einsum("nf,nf->n", inputs.since_x, b[since.owner, :-1]) + b[since.owner, -1]
    moved = _came(z, since.rows, reach) - z.take(since.rows)
    wrong = _bins_by_fit(edges, moved - expected, since.counts)
    bin_numbers = [fit.errors[number].bin_of for fit in inputs.several]
    firsts = inputs.fitted - np.array([len(bins) for bins in bin_numbers])
    parts, end = [], 0
    for of_fit, first, learnt, looked_at, count in zip(
        bin_numbers,
        firsts.tolist(),
        (inputs.fitted - reach).tolist(),
        since.first.tolist(),
        since.counts.tolist(),
        strict=True,
    ):
        # Errors since the fit are used from the longest window on.
        new = wrong[end + max(learnt - looked_at, 0) : end + count]
        parts.append((of_fit[: learnt - first], np.full(max(looked_at - learnt, 0) if count else 0, -1, np.int8), new))
        end += count
    return JoinedRows.of_parts(parts, firsts)


def _came(z: LoggedRows, rows: Rows, reach: int) -> Floats:
    """The largest z of the `reach` rows after each, NaN from a gap or the end on."""
    came = z.take(rows + 1)
    for ahead in range(2, reach + 1):
        came = np.maximum(came, z.take(rows + ahead))
    return came


def _bins_by_fit(edges: Floats, values: Floats, counts: Sequence[int] | Rows) -> NDArray[np.int8]:
    """The bins of (rows, ...) values, -1 for NaN. counts: the number of successive rows for the edges of each fit."""
    bins = np.empty(values.shape, np.int64)
    end = 0
    for of_fit, count in zip(edges, counts, strict=True):
        rows = slice(end, end + count)
        bins[rows] = of_fit.searchsorted(values[rows])
        end += count
    return _as_bins(bins, values, edges.shape[1])


def _mixed(shares: Floats) -> Floats:
    """(sources, origins, bins) to (variants, origins, bins)"""
    mixed = np.zeros((len(VARIANTS), *shares.shape[1:]))
    for place, weights in enumerate(VARIANTS.values()):
        for source, weight in weights.items():
            mixed[place] += weight * shares[SOURCES.index(source)]
    return mixed


def bins_of(edges: Floats, values: Floats) -> NDArray[np.int8]:
    """The bin of each value, -1 for NaN."""
    return _as_bins(np.searchsorted(edges, values), values, len(edges))


def _as_bins(places: Rows, values: Floats, bins: int) -> NDArray[np.int8]:
    return np.where(np.isnan(values), -1, np.minimum(places, bins - 1)).astype(np.int8)


def _around(whole: Rows, part: Floats, offsets: Rows, weights: Floats, width: float) -> tuple[Rows, Floats]:
    """The rows `offsets` steps before each origin with their neighbours, (origins, samples), and their weights."""
    reach = int(np.ceil(width))
    beside = np.arange(-reach, reach + 2)
    rows = whole[:, None, None] - offsets[None, :, None] + beside
    near = np.maximum(1 - np.abs(beside - part[:, None]) / (width + 0.5), 0.0)
    weight = weights[None, :, None] * near[:, None, :]
    return rows.reshape(len(whole), -1), weight.reshape(len(whole), -1)


def _alike(inputs: _ForecastInputs, number: int, now: Floats) -> NDArray[np.int8]:
    """(origins, samples): for one window, the bins of errors after moves similar to the present ones."""
    errors = [fit.errors[number] for fit in inputs.several]
    # Rounded as the stored moves: many moves are equal, and the place must be before the first equal one.
    rounded = now.astype(np.float32)
    place = np.empty(len(now), np.int64)
    end = 0
    for of_fit, origins in zip(errors, inputs.counts, strict=True):
        place[end : end + origins] = of_fit.moves.searchsorted(rounded[end : end + origins])
        end += origins
    joined = JoinedRows.of([of_fit.bin_by_move for of_fit in errors])
    count = (joined.end - joined.first)[inputs.owner]
    # In the middle of the moves the nearest ones are close; near the ends the nearest forty include distant ones.
    width = np.clip(np.minimum(place, count - place), _ALIKE, np.maximum(_ALIKE, count // 50))
    spread = (place[:, None] + _SPREAD * width[:, None]).astype(np.int64)
    rows = np.clip(spread, 0, np.maximum(count - 1, 0)[:, None])
    if not len(joined.values):
        return np.full(rows.shape, -1, np.int8)
    bins = joined.values.take(joined.asked_by(inputs.owner[:, None]).places(rows), mode="clip")
    return np.where(count[:, None] > 0, bins, -1).astype(np.int8)


def _histogram(chosen: NDArray[np.signedinteger[Any]], weights: Floats, bins: int) -> Floats:
    """
    (origins, bins): the sum of the weights of each bin.

    chosen: (origins, samples), bins, -1 for none. weights: of the samples, or (origins, samples).
    """
    origins = len(chosen)
    place = np.where(chosen >= 0, chosen, 0) + np.arange(origins)[:, None] * bins
    weight = np.where(chosen >= 0, weights, 0.0)
    counted = np.bincount(place.ravel(), weights=weight.ravel(), minlength=origins * bins)
    return counted.astype(np.float64).reshape(origins, bins)
