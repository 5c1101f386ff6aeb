"""
The predictive distributions of error mixtures, of many fits in one pass; the card is in error_mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.joined_rows import JoinedRows
from cronhpa_models.method import LAGS, Distribution, Floats, Origins, Rows
from cronhpa_models.step_features import PROFILE_AHEAD, features, or_zero, profile_at

if TYPE_CHECKING:
    from cronhpa_models.error_mixture import FittedMixture

SOURCES = ("near", "clock", "load", "moves", "recent", "all")
# The weight of each source; what a source cannot say (no day before, no move like it) counts for nothing.
VARIANTS: dict[str, dict[str, float]] = {
    "Clock": {"clock": 0.6, "recent": 0.2, "all": 0.2},
    "NearClock": {"near": 0.7, "recent": 0.2, "all": 0.1},
    "ClockAndLoad": {"near": 0.3, "load": 0.3, "moves": 0.2, "recent": 0.1, "all": 0.1},
}
# Days that sources look back at.
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
    FittedMixture.distribution of each, to the last bit, in one pass over all of their origins.

    Fits that differ in these windows or steps a day are a caller's bug (asserted). No sum over an origin's samples is
    left to BLAS, whose rounding depends on how many origins there are.
    """
    reaches, day = several[0].windows[:windows], several[0].steps_per_day
    assert all((each.windows[:windows], each.steps_per_day) == (reaches, day) for each in several)
    known = _Known.of(several, later, origins, reaches)
    made = [_window(known, number) for number in range(len(known.reaches))]
    ends = np.cumsum(known.counts)
    return [
        Distribution(
            np.stack([load[end - count : end] for load, _ in made]),
            np.stack([cdf[:, end - count : end] for _, cdf in made], axis=1),
        )
        for end, count in zip(ends.tolist(), known.counts, strict=True)
    ]


@dataclass(frozen=True)
class _Known:
    """
    What is known at the origins of several fits, one behind the other.

    reaches: of the windows that are forecast. z: of the fits, logarithms of history and what came later. counts: how
    many origins each fit has. owner, position, recent, x: (origins,), the number of the fit that each belongs to, and
    as in Origins, the latter as logarithms, with its features. since: of each fit, the rows whose errors are not known
    from the fit and that an origin looks at, to the last; since_x: their features, of all fits.
    """

    several: Sequence[FittedMixture]
    reaches: tuple[int, ...]
    z: JoinedRows
    counts: list[int]
    owner: Rows
    position: Floats
    recent: Floats
    x: Floats
    since: list[Rows]
    since_x: Floats

    @classmethod
    def of(
        cls,
        several: Sequence[FittedMixture],
        later: Sequence[Floats],
        origins: Sequence[Origins],
        reaches: tuple[int, ...],
    ) -> _Known:
        day = several[0].steps_per_day
        # Rows before the first day that a source looks back at count in the profile alone.
        first = [max(int(at.position.min()) - DAYS_BACK * day - LAGS, 0) for at in origins]
        z = [
            np.log(np.concatenate([each.load[begin:], came]) + each.offset)
            for each, came, begin in zip(several, later, first, strict=True)
        ]
        recent = [np.log(at.recent + each.offset) for each, at in zip(several, origins, strict=True)]
        since = [
            np.arange(_looked_at_since(each, at.position, max(reaches)), len(each.load) + len(came))
            for each, at, came in zip(several, origins, later, strict=True)
        ]
        counts, rows_since = [len(at.position) for at in origins], [len(rows) for rows in since]
        owner = np.repeat(np.arange(len(several)), counts)
        position = np.concatenate([at.position for at in origins])
        everyone = np.concatenate([np.repeat(np.arange(len(several)), rows_since), owner])
        positions = np.concatenate([*since, position]).astype(np.float64)
        joined = JoinedRows.of(z, first)
        before = np.concatenate(since)[:, None] - np.arange(LAGS)
        lagging = joined.asked_by(everyone[: len(before), None]).take(before)
        x = or_zero(
            features(
                joined.asked_by(everyone),
                _profiles(several, later, origins, since).asked_by(everyone),
                day,
                positions,
                np.concatenate([lagging, *recent]),
            )
        )
        mine = sum(rows_since)
        return cls(several, reaches, joined, counts, owner, position, np.concatenate(recent), x[mine:], since, x[:mine])


def _profiles(
    several: Sequence[FittedMixture], later: Sequence[Floats], origins: Sequence[Origins], since: Sequence[Rows]
) -> JoinedRows:
    """Of each fit the profile of the rows that its origins, and the rows since the fit, look at."""
    day = several[0].steps_per_day
    firsts = [min(int(at.position.min()), *rows[:1].tolist()) for at, rows in zip(origins, since, strict=True)]
    ends = [
        max(int(at.position.max() + 1e-9), *rows[-1:].tolist()) + PROFILE_AHEAD + 1
        for at, rows in zip(origins, since, strict=True)
    ]
    splits = np.cumsum([end - first for first, end in zip(firsts, ends, strict=True)])
    at_clock = np.full((1 + (max(ends) - 1) // day, splits[-1]), np.nan)
    for each, came, first, end, split in zip(several, later, firsts, ends, splits.tolist(), strict=True):
        # Days are counted back from the asked rows, the oldest of them in part before the history.
        count = 1 + (end - 1) // day
        before = [np.full(count * day - first, np.nan), each.load]
        load = np.concatenate([*before, came] if end - day > len(each.load) else before)
        by_day = np.lib.stride_tricks.sliding_window_view(load, end - first)[: (count - 1) * day + 1 : day]
        at_clock[len(at_clock) - count :, split - (end - first) : split] = by_day + each.offset
    return JoinedRows.of(np.split(profile_at(np.log(at_clock)), splits[:-1]), firsts)


def _looked_at_since(fitted: FittedMixture, position: Floats, reach: int) -> int:
    """The first row whose error an origin looks at and the fit does not know."""
    learnt = len(fitted.load) - reach
    # A fit that is older than a day: the same clock of yesterday, and four steps behind it, lies after its end.
    newest, oldest = (int(np.floor(row + 1e-9)) for row in (position.max(), position.min()))
    if newest - fitted.steps_per_day + 4 >= learnt:
        return learnt
    return max(learnt, oldest - reach - _RECENT + 1)


def _window(known: _Known, number: int) -> tuple[Floats, Floats]:
    """(origins, bins) loads and (variants, origins, bins) cdf of one window."""
    several, owner, reach = known.several, known.owner, known.reaches[number]
    day = several[0].steps_per_day
    b = np.stack([each.coefficients[number] for each in several])
    edges = np.stack([each.errors[number].edges for each in several])
    bins = edges.shape[1]
    bin_of = _bins_since(known, number, b)
    centre = known.recent[:, 0] + np.einsum("nf,nf->n", known.x, b[owner, :-1]) + b[owner, -1]
    counts = np.zeros((len(SOURCES), len(centre), bins))
    whole = np.floor(known.position + 1e-9).astype(np.int64)
    part = known.position - whole
    asked = bin_of.asked_by(owner[:, None])

    def take(source: str, rows: Rows, weights: Floats) -> None:
        """Count the errors of these rows that are known at each origin."""
        good = (rows >= 0) & (rows < ended)
        chosen = np.where(good, bin_of.values.take(asked.places(rows), mode="clip"), -1)
        counts[SOURCES.index(source)] = _histogram(chosen, weights, bins)

    ended = (whole - reach + 1)[:, None]
    take("clock", *_around(whole, part, _BACK * day, _BY_DAY, 2.5))
    rows, weights = _around(whole, part, _BACK * day, _BY_DAY, 0.6)
    take("near", rows, weights)
    came = _came(known.z.asked_by(owner[:, None]), rows, reach)
    levels = np.where((rows >= 0) & (rows < ended), came, np.nan) - centre[:, None]
    counts[SOURCES.index("load")] = _histogram(_bins_by_fit(edges, levels, known.counts), weights, bins)
    take("recent", whole[:, None] - reach - _OF_LATE, _BY_STEP)
    counts[SOURCES.index("all")] = np.stack([each.errors[number].of_week for each in several])[owner]
    now = or_zero(known.recent[:, 0] - np.fmin(known.recent[:, 1], known.recent[:, 2]))
    moved = [
        _alike(each, number, of_each)
        for each, of_each in zip(several, np.split(now, np.cumsum(known.counts)[:-1]), strict=True)
    ]
    counts[SOURCES.index("moves")] = _histogram(np.concatenate(moved), np.ones(_ALIKE), bins)
    total = counts.sum(axis=-1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    cdf = np.cumsum(_mixed(shares), axis=-1)
    offset = np.array([each.offset for each in several])[owner, None]
    load = np.exp(np.minimum(centre[:, None] + edges[owner], 700.0)) - offset
    return np.maximum(load, 0.0), cdf / np.maximum(cdf[..., -1:], 1e-300)


def _bins_since(known: _Known, number: int, b: Floats) -> JoinedRows:
    """The bin of the error of each row of each fit, -1 where it is not known or no origin looks at it."""
    reach = known.reaches[number]
    owner = np.repeat(np.arange(len(known.several)), [len(rows) for rows in known.since])
    rows = np.concatenate(known.since)
    z = known.z.asked_by(owner)
    expected = np.einsum("nf,nf->n", known.since_x, b[owner, :-1]) + b[owner, -1]
    wrong = _came(z, rows, reach) - z.take(rows) - expected
    found = np.full(len(known.z.values), -1, np.int8)
    end = 0
    for each, begin, first, since in zip(
        known.several, known.z.begin.tolist(), known.z.first.tolist(), known.since, strict=True
    ):
        learnt, errors = len(each.load) - reach, each.errors[number]
        found[begin + first : begin + learnt] = errors.bin_of[first:learnt]
        end += len(since)
        new = since >= learnt
        found[begin + since[new]] = bins_of(errors.edges, wrong[end - len(since) : end][new])
    return known.z.holding(found)


def _came(z: JoinedRows, rows: Rows, reach: int) -> Floats:
    """The largest z of the `reach` rows after each, NaN from a gap or the end on."""
    came = z.take(rows + 1)
    for ahead in range(2, reach + 1):
        came = np.maximum(came, z.take(rows + ahead))
    return came


def _bins_by_fit(edges: Floats, values: Floats, counts: Sequence[int]) -> NDArray[np.int8]:
    """The bins of (origins, samples) values, those of so many origins by the edges of each fit."""
    parts = np.split(values, np.cumsum(counts)[:-1])
    return np.concatenate([bins_of(of_fit, part) for of_fit, part in zip(edges, parts, strict=True)])


def _mixed(shares: Floats) -> Floats:
    """(sources, origins, bins) to (variants, origins, bins)"""
    mixed = np.zeros((len(VARIANTS), *shares.shape[1:]))
    for place, weights in enumerate(VARIANTS.values()):
        for source, weight in weights.items():
            mixed[place] += weight * shares[SOURCES.index(source)]
    return mixed


def bins_of(edges: Floats, values: Floats) -> NDArray[np.int8]:
    """The bin that each value lies in, -1 for NaN."""
    found = np.minimum(np.searchsorted(edges, values), len(edges) - 1)
    return np.where(np.isnan(values), -1, found).astype(np.int8)


def _around(whole: Rows, part: Floats, offsets: Rows, weights: Floats, width: float) -> tuple[Rows, Floats]:
    """Rows so many steps before each origin with their neighbours, (origins, samples), and their weights."""
    reach = int(np.ceil(width))
    beside = np.arange(-reach, reach + 2)
    rows = whole[:, None, None] - offsets[None, :, None] + beside
    near = np.maximum(1 - np.abs(beside - part[:, None]) / (width + 0.5), 0.0)
    weight = weights[None, :, None] * near[:, None, :]
    return rows.reshape(len(whole), -1), weight.reshape(len(whole), -1)


def _alike(fitted: FittedMixture, number: int, now: Floats) -> NDArray[np.int8]:
    """(origins, samples): the bins of errors after moves like the present ones, in one of the windows."""
    errors = fitted.errors[number]
    count = len(errors.moves)
    if not count:
        return np.full((len(now), _ALIKE), -1, np.int8)
    # Rounded as the kept moves are: counts have many equal moves, and the place among them is before the first.
    place = np.searchsorted(errors.moves, now.astype(np.float32).astype(np.float64))
    # In the middle of the moves there are many like it; at the ends the nearest forty must do.
    width = np.clip(np.minimum(place, count - place), _ALIKE, max(_ALIKE, count // 50))
    spread = (place[:, None] + _SPREAD * width[:, None]).astype(np.int64)
    learnt = len(fitted.load) - fitted.windows[number]
    week = errors.bin_of[max(0, learnt - 7 * fitted.steps_per_day) : learnt]
    return np.asarray(week.take(errors.by_move.take(spread, mode="clip")))


def _histogram(chosen: NDArray[np.signedinteger[Any]], weights: Floats, bins: int) -> Floats:
    """(origins, samples) of bins, -1 for none, and weights of samples, or of each by origin, to (origins, bins)."""
    origins = len(chosen)
    place = np.where(chosen >= 0, chosen, 0) + np.arange(origins)[:, None] * bins
    weight = np.where(chosen >= 0, weights, 0.0)
    counted = np.bincount(place.ravel(), weights=weight.ravel(), minlength=origins * bins)
    return counted.astype(np.float64).reshape(origins, bins)
