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
from cronhpa_models.method import LAGS, Distribution, Floats, Origins, Rows, shifted
from cronhpa_models.step_features import features, or_zero, profile_of

if TYPE_CHECKING:
    from cronhpa_models.error_mixture import Fitted

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
    several: Sequence[Fitted], later: Sequence[Floats], origins: Sequence[Origins], windows: int | None = None
) -> list[Distribution]:
    """
    Fitted.distribution of each, to the last bit, in one pass over all of their origins.

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

    several: Sequence[Fitted]
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
        several: Sequence[Fitted],
        later: Sequence[Floats],
        origins: Sequence[Origins],
        reaches: tuple[int, ...],
    ) -> _Known:
        day = several[0].steps_per_day
        z = [np.log(np.concatenate([each.load, came]) + each.offset) for each, came in zip(several, later, strict=True)]
        recent = [np.log(at.recent + each.offset) for each, at in zip(several, origins, strict=True)]
        since = [
            np.arange(_looked_at_since(each, at.position, max(reaches)), len(values))
            for each, at, values in zip(several, origins, z, strict=True)
        ]
        counts, rows_since = [len(at.position) for at in origins], [len(rows) for rows in since]
        owner = np.repeat(np.arange(len(several)), counts)
        position = np.concatenate([at.position for at in origins])
        everyone = np.concatenate([np.repeat(np.arange(len(several)), rows_since), owner])
        positions = np.concatenate([*since, position]).astype(np.float64)
        # The profile of a fit begins with the day of the first row that is asked of it.
        begins = [
            max(int(min(rows[0] if len(rows) else np.inf, at.position.min())) // day, 0)
            for rows, at in zip(since, origins, strict=True)
        ]
        profiles = [profile_of(values, day, begin) for values, begin in zip(z, begins, strict=True)]
        joined = JoinedRows.of(z)
        before = np.concatenate(since)[:, None] - np.arange(LAGS)
        lagging = joined.asked_by(everyone[: len(before), None]).take(before)
        x = or_zero(
            features(
                joined.asked_by(everyone),
                JoinedRows.of(profiles).asked_by(everyone),
                np.array(begins)[everyone] * day,
                day,
                positions,
                np.concatenate([lagging, *recent]),
            )
        )
        mine = sum(rows_since)
        return cls(several, reaches, joined, counts, owner, position, np.concatenate(recent), x[mine:], since, x[:mine])


def _looked_at_since(fitted: Fitted, position: Floats, reach: int) -> int:
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
    asked = JoinedRows(bin_of.values, bin_of.begin[owner, None], bin_of.count[owner, None])

    def take(source: str, rows: Rows, weights: Floats) -> None:
        """Count the errors of these rows that are known at each origin."""
        good = (rows >= 0) & (rows < ended)
        chosen = np.where(good, bin_of.values.take(asked.places(rows), mode="clip"), -1)
        counts[SOURCES.index(source)] = _histogram(chosen, weights, bins)

    ended = (whole - reach + 1)[:, None]
    take("clock", *_around(whole, part, _BACK * day, _BY_DAY, 2.5))
    rows, weights = _around(whole, part, _BACK * day, _BY_DAY, 0.6)
    take("near", rows, weights)
    came = _came(known.z.asked_by(owner), rows, reach)
    levels = np.where((rows >= 0) & (rows < ended), came, np.nan) - centre[:, None]
    counts[SOURCES.index("load")] = _histogram(_bins_by_fit(edges, levels, known.counts), weights, bins)
    take("recent", whole[:, None] - reach - _OF_LATE, _BY_STEP)
    moved: list[NDArray[np.int8]] = []
    for place, (each, end) in enumerate(zip(several, np.cumsum(known.counts).tolist(), strict=True)):
        mine = slice(end - known.counts[place], end)
        learnt = len(each.load) - reach
        week = slice(bin_of.begin[place] + max(0, learnt - 7 * day), bin_of.begin[place] + learnt)
        of_week, by_move = bin_of.values[week], each.errors[number].by_move
        moved.append(_alike(moves_of(known.z.values[week])[by_move], of_week[by_move], known.recent[mine]))
        counts[SOURCES.index("all"), mine] = np.bincount(of_week[of_week >= 0], minlength=bins)
    alike = np.concatenate(moved)
    counts[SOURCES.index("moves")] = _histogram(alike, np.ones(_ALIKE), bins)
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
    wrong = _came(z, rows[:, None], reach)[:, 0] - z.take(rows) - expected
    found = np.full(len(known.z.values), -1, np.int8)
    end = 0
    for each, begin, since in zip(known.several, known.z.begin.tolist(), known.since, strict=True):
        learnt, errors = len(each.load) - reach, each.errors[number]
        found[begin : begin + learnt] = errors.bin_of[:learnt]
        end += len(since)
        new = since >= learnt
        found[begin + since[new]] = bins_of(errors.edges, wrong[end - len(since) : end][new])
    return JoinedRows(found, known.z.begin, known.z.count)


def _came(z: JoinedRows, rows: Rows, reach: int) -> Floats:
    """(n, samples): the largest z of the `reach` rows after each, NaN from a gap or the end on."""
    z = JoinedRows(z.values, z.begin[:, None], z.count[:, None])
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


def moves_of(z: Floats) -> Floats:
    """How far each step lies above the lower of the two before it."""
    return np.asarray(z - np.fmin(shifted(z, 1), shifted(z, 2)))


def _alike(moves: Floats, bin_of: NDArray[np.int8], recent: Floats) -> NDArray[np.int8]:
    """(origins, samples): the bins of errors after moves like the present one; moves: those that led there, rising."""
    if not len(moves):
        return np.full((len(recent), _ALIKE), -1, np.int8)
    now = recent[:, 0] - np.fmin(recent[:, 1], recent[:, 2])
    place = np.searchsorted(moves, or_zero(now))
    # In the middle of the moves there are many like it; at the ends the nearest forty must do.
    width = np.clip(np.minimum(place, len(moves) - place), _ALIKE, max(_ALIKE, len(moves) // 50))
    spread = (place[:, None] + _SPREAD * width[:, None]).astype(np.int64)
    return np.asarray(bin_of.take(spread, mode="clip"))


def _histogram(chosen: NDArray[np.signedinteger[Any]], weights: Floats, bins: int) -> Floats:
    """(origins, samples) of bins, -1 for none, and weights of samples, or of each by origin, to (origins, bins)."""
    origins = len(chosen)
    place = np.where(chosen >= 0, chosen, 0) + np.arange(origins)[:, None] * bins
    weight = np.where(chosen >= 0, weights, 0.0)
    counted = np.bincount(place.ravel(), weights=weight.ravel(), minlength=origins * bins)
    return counted.astype(np.float64).reshape(origins, bins)
