"""
Error mixtures: how likely each load is in the coming steps, by a ridge forecast and the errors that it used to make.

Card
  What for   Floors that buy minutes: not one quantile but the whole distribution of the largest load ahead, so that a
             caller can weigh each pod against the chance that it is needed.
  Formula    z = log(load + c), c = 5 % of the mean load. For each window of 1 to h steps ahead
             log(max load + c) = z[t] + b' x[t] + error, b by ridge, a day counting half as much after 7 days.
             x: differences from z[t] of six lags, two exponential means, the same clock of yesterday and of last week,
             the mean of earlier days at that clock, and their moves. An unknown difference is zero.
             The distribution of the error is a mixture of empirical ones, weights by VARIANTS:
             near, clock   errors at the same clock of the last 14 days, within a step, within a quarter of an hour
             load          loads (not errors) at the same clock: a jump goes to a level, whatever is there before it
             moves         errors of the last week after moves of two steps that were like the present one
             recent        errors of the last two hours, half-life 10 steps
             all           every error of the last seven days
             A day counts half after five days; the same weekday counts double.
  Source     Direct multi-step forecasts: Marcellino, Stock & Watson (2006). Conditional empirical errors: split
             conformal with localised weights, Guan (2023), Biometrika 110(1).
  Cost       printed by `make bench-forecast`.
  Scores     docs/forecasting.md: coverage of the 0.9 quantile, MASE and pinball loss on each series.
  Weak at    Clocks are UTC. A first occurrence is never foreseen. What is rarer than once in a few days is seen as
             rarely as it came.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.method import LAGS, Distribution, Floats, Origins, Rows, lagged, largest_ahead, shifted

SOURCES = ("near", "clock", "load", "moves", "recent", "all")
# The weight of each source; what a source cannot say (no day before, no move like it) counts for nothing.
VARIANTS: dict[str, dict[str, float]] = {
    "Clock": {"clock": 0.6, "recent": 0.2, "all": 0.2},
    "NearClock": {"near": 0.7, "recent": 0.2, "all": 0.1},
    "ClockAndLoad": {"near": 0.3, "load": 0.3, "moves": 0.2, "recent": 0.1, "all": 0.1},
}
# Columns of what a forecast looks at.
FEATURES = 18

_DAYS_KEPT = 28
_SHORT_LAGS = (1, 2, 3, 5, 8, 12)
_DAYS_BACK = 14
_RECENT = 24
_ALIKE = 40
_ERRORS_MIN = 50
_BACK = np.arange(1, _DAYS_BACK + 1)
_BY_DAY = 0.5 ** (_BACK / 5.0) * np.where(_BACK % 7 == 0, 2.0, 1.0)
_OF_LATE = np.arange(_RECENT)
_BY_STEP = 0.5 ** (_OF_LATE / 10)
_SPREAD = np.linspace(-1, 1, _ALIKE)
# Of a day.
_KNOWN_SHARE = 0.5
_RIDGE = 0.003
_SEEN_SHARE = 0.05
# Upper edges of the bins of errors: closer where most of them lie, even over the tail where jumps lie.
_LEVELS = np.array(
    [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998]
)
_TAIL_BINS = 32
# Fractions of a step below this are noise of the arithmetic.
_WHOLE = 1e-6


class ErrorMixture:
    """See cronhpa_models.method.Method. The variants weigh the sources of errors differently; they share a fit."""

    name = "ErrorMixture"
    variants = tuple(VARIANTS)
    needs = ()

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...] = (1, 2)) -> Fitted | None:
        """None where less than half a day is known, or fewer than fifty errors."""
        kept = np.asarray(load[-_DAYS_KEPT * steps_per_day :], dtype=np.float64)
        known = ~np.isnan(kept)
        if known.sum() < steps_per_day * _KNOWN_SHARE:
            return None
        offset = max(0.05 * float(kept[known].mean()), 1e-9)
        z = np.log(kept + offset)
        rows = np.arange(len(z))
        of_z, of_profile = (_Rows.of([values]) for values in (z, _profile(z, steps_per_day, 0)))
        raw = _features(
            of_z, of_profile, np.zeros(1, np.int64), steps_per_day, rows.astype(np.float64), lagged(z, rows)
        )
        x = _or_zero(raw)
        age = (len(z) - rows) / steps_per_day
        coefficients, errors = [], []
        for reach in windows:
            came = largest_ahead(z, reach)[:, -1]
            moved = came - z
            good = ~np.isnan(moved)
            week = slice(max(0, len(z) - reach - 7 * steps_per_day), len(z) - reach)
            if good.sum() < _ERRORS_MIN or not good[week].any():
                return None
            b = _ridge(raw[good], moved[good], 0.5 ** (age[good] / 7))
            wrong = moved - (x @ b[:-1] + b[-1])
            edges = _edges(wrong[week][good[week]], came, z)
            bin_of = _bins(edges, wrong)
            coefficients.append(b)
            errors.append(Errors(edges, bin_of, _by_move(z[week], bin_of[week])))
        return Fitted(kept, offset, steps_per_day, tuple(windows), np.stack(coefficients), tuple(errors))

    def distributions(
        self, several: Sequence[Fitted], later: Sequence[Floats], origins: Sequence[Origins], windows: int
    ) -> list[Distribution]:
        """See cronhpa_models.method.BatchMethod. Fits of the same windows share a pass."""
        alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for place, each in enumerate(several):
            alike.setdefault((each.steps_per_day, each.windows[:windows]), []).append(place)
        answers: dict[int, Distribution] = {}
        for places in alike.values():
            together = distributions(
                [several[place] for place in places],
                [later[place] for place in places],
                [origins[place] for place in places],
                windows,
            )
            answers.update(zip(places, together, strict=True))
        return [answers[place] for place in range(len(several))]

    def decode(self, state: bytes) -> Fitted:
        """What Fitted.encode wrote. Ten times as fast as .npz, which is read at every forecast."""
        line, _, numbers = state.partition(b"\n")
        head = json.loads(line)
        place = 0

        def take(kind: str, count: int) -> NDArray[Any]:
            nonlocal place
            found = np.frombuffer(numbers, kind, count, place)
            place += found.nbytes
            return found

        windows, rows = tuple(head["windows"]), head["rows"]
        coefficients = take("<f8", len(windows) * (FEATURES + 1)).reshape(len(windows), -1)
        load = take("<f4", rows).astype(np.float64)
        errors = []
        for count in head["moves"]:
            edges, by_move = take("<f8", len(_LEVELS) + _TAIL_BINS), take("<i2", count)
            bin_of = np.full(rows, -1, np.int8)
            kept = min(_looked_at(head["steps_per_day"]), rows)
            bin_of[-kept:] = take("<i1", kept)
            errors.append(Errors(edges, bin_of, by_move))
        return Fitted(load, head["offset"], head["steps_per_day"], windows, coefficients, tuple(errors))


@dataclass(frozen=True)
class Fitted:
    """
    See cronhpa_models.method.Fitted.

    load: (rows,), up to 28 days. coefficients: (windows, features + 1). errors: of the regression in the history, for
    each window.
    """

    load: Floats
    offset: float
    steps_per_day: int
    windows: tuple[int, ...]
    coefficients: Floats
    errors: tuple[Errors, ...]

    def distribution(self, later: Floats, origins: Origins, windows: int | None = None) -> Distribution:
        """See cronhpa_models.method.Fitted."""
        return distributions([self], [later], [origins], windows)[0]

    def encode(self) -> bytes:
        """
        A line of JSON, then plain numbers: loads with 24 bits, an error of 1e-7, and the bins of the days looked back
        at.
        """
        head = {
            "offset": self.offset,
            "steps_per_day": self.steps_per_day,
            "windows": list(self.windows),
            "rows": len(self.load),
            "moves": [len(each.by_move) for each in self.errors],
        }
        looked_at = _looked_at(self.steps_per_day)
        parts = [self.coefficients.astype("<f8"), self.load.astype("<f4")]
        for each in self.errors:
            parts += [each.edges.astype("<f8"), each.by_move.astype("<i2"), each.bin_of[-looked_at:]]
        return json.dumps(head).encode() + b"\n" + b"".join(part.tobytes() for part in parts)


@dataclass(frozen=True)
class Errors:
    """
    edges: (bins,), the upper edge of each bin of errors, rising. bin_of: (rows,), the bin of the error that a forecast
    at each row made; -1 where it is not known. by_move: of the last week the places whose error is known, sorted by
    the move that led there.
    """

    edges: Floats
    bin_of: NDArray[np.int8]
    by_move: NDArray[np.int16]


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
    z: _Rows
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
        profiles = [_profile(values, day, begin) for values, begin in zip(z, begins, strict=True)]
        joined = _Rows.of(z)
        before = np.concatenate(since)[:, None] - np.arange(LAGS)
        lagging = joined.asked_by(everyone[: len(before), None]).take(before)
        x = _or_zero(
            _features(
                joined.asked_by(everyone),
                _Rows.of(profiles).asked_by(everyone),
                np.array(begins)[everyone] * day,
                day,
                positions,
                np.concatenate([lagging, *recent]),
            )
        )
        mine = sum(rows_since)
        return cls(several, reaches, joined, counts, owner, position, np.concatenate(recent), x[mine:], since, x[:mine])


@dataclass(frozen=True)
class _Rows:
    """Rows of several series, one behind the other. begin, count: of each series, or of the one that each row asks."""

    values: NDArray[Any]
    begin: Rows
    count: Rows

    @classmethod
    def of(cls, several: Sequence[NDArray[Any]]) -> _Rows:
        count = np.array([len(values) for values in several])
        return cls(np.concatenate(several), np.cumsum(count) - count, count)

    def asked_by(self, owner: Rows) -> _Rows:
        """Rows of the series with these numbers."""
        return _Rows(self.values, self.begin[owner], self.count[owner])

    def take(self, rows: Rows) -> Floats:
        """(..., n): rows of the series, NaN outside."""
        inside = (rows >= 0) & (rows < self.count)
        return np.where(inside, self.values.take(self.places(rows), mode="clip"), np.nan)

    def places(self, rows: Rows) -> Rows:
        """Where rows of the series are among the values; of a single series there is nothing to add."""
        return rows + self.begin if self.begin.any() else rows


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
    asked = _Rows(bin_of.values, bin_of.begin[owner, None], bin_of.count[owner, None])

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
        moved.append(_alike(_moves(known.z.values[week])[by_move], of_week[by_move], known.recent[mine]))
        counts[SOURCES.index("all"), mine] = np.bincount(of_week[of_week >= 0], minlength=bins)
    alike = np.concatenate(moved)
    counts[SOURCES.index("moves")] = _histogram(alike, np.ones(_ALIKE), bins)
    total = counts.sum(axis=-1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    cdf = np.cumsum(_mixed(shares), axis=-1)
    offset = np.array([each.offset for each in several])[owner, None]
    load = np.exp(np.minimum(centre[:, None] + edges[owner], 700.0)) - offset
    return np.maximum(load, 0.0), cdf / np.maximum(cdf[..., -1:], 1e-300)


def _bins_since(known: _Known, number: int, b: Floats) -> _Rows:
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
        found[begin + since[new]] = _bins(errors.edges, wrong[end - len(since) : end][new])
    return _Rows(found, known.z.begin, known.z.count)


def _came(z: _Rows, rows: Rows, reach: int) -> Floats:
    """(n, samples): the largest z of the `reach` rows after each, NaN from a gap or the end on."""
    z = _Rows(z.values, z.begin[:, None], z.count[:, None])
    came = z.take(rows + 1)
    for ahead in range(2, reach + 1):
        came = np.maximum(came, z.take(rows + ahead))
    return came


def _bins_by_fit(edges: Floats, values: Floats, counts: Sequence[int]) -> NDArray[np.int8]:
    """The bins of (origins, samples) values, those of so many origins by the edges of each fit."""
    parts = np.split(values, np.cumsum(counts)[:-1])
    return np.concatenate([_bins(of_fit, part) for of_fit, part in zip(edges, parts, strict=True)])


def _mixed(shares: Floats) -> Floats:
    """(sources, origins, bins) to (variants, origins, bins)"""
    mixed = np.zeros((len(VARIANTS), *shares.shape[1:]))
    for place, weights in enumerate(VARIANTS.values()):
        for source, weight in weights.items():
            mixed[place] += weight * shares[SOURCES.index(source)]
    return mixed


def _edges(errors: Floats, came: Floats, z: Floats) -> Floats:
    """Upper edges of the bins, rising: quantiles of the errors, then even steps up to the largest that may be seen."""
    body = np.quantile(errors, _LEVELS)
    highest = max(float(errors.max()), float(np.nanmax(came)) - float(np.nanmin(z)), body[-1])
    start = float(np.quantile(errors, 0.9))
    tail = start + (highest - start) * np.arange(1, _TAIL_BINS + 1) / _TAIL_BINS
    return np.sort(np.concatenate([body, tail])) + 1e-9


def _bins(edges: Floats, values: Floats) -> NDArray[np.int8]:
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


def _moves(z: Floats) -> Floats:
    """How far each step lies above the lower of the two before it."""
    return np.asarray(z - np.fmin(shifted(z, 1), shifted(z, 2)))


def _by_move(z: Floats, bin_of: NDArray[np.int8]) -> NDArray[np.int16]:
    moves = _moves(z)
    good = np.flatnonzero(~np.isnan(moves) & (bin_of >= 0))
    return good[np.argsort(moves[good], kind="stable")].astype(np.int16)


def _alike(moves: Floats, bin_of: NDArray[np.int8], recent: Floats) -> NDArray[np.int8]:
    """(origins, samples): the bins of errors after moves like the present one; moves: those that led there, rising."""
    if not len(moves):
        return np.full((len(recent), _ALIKE), -1, np.int8)
    now = recent[:, 0] - np.fmin(recent[:, 1], recent[:, 2])
    place = np.searchsorted(moves, _or_zero(now))
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


def _features(z: _Rows, profile: _Rows, first: Rows, day: int, position: Floats, recent: Floats) -> Floats:
    """
    (n, features) at positions of z whose last steps were `recent`, NaN for what is unknown.

    profile: of z, from row `first` on. Nothing later is looked at.
    """
    now = recent[:, :1]
    lags = np.asarray(recent[:, _SHORT_LAGS])
    yesterday, last_week, *ahead = _between(z, position, (-day, -7 * day, 1 - day, 1 - 7 * day, 2 - day, 2 - 7 * day))
    usual, usual_1, usual_2 = _between(profile, position - first, (0, 1, 2))
    levels = np.stack([ahead[0], ahead[1], usual_1, ahead[2], ahead[3], usual_2], axis=1)
    moves = np.stack([ahead[0] - yesterday, usual_1 - usual], axis=1)
    behind = np.stack([yesterday, last_week], axis=1)
    columns = [lags - now, _fading(recent) - now, levels - now, moves, behind - now]
    return np.asarray(np.concatenate(columns, axis=1))


def _or_zero(x: Floats) -> Floats:
    """An unknown difference is none."""
    return np.where(np.isnan(x), 0.0, x)


def _profile(z: Floats, day: int, first: int) -> Floats:
    """From the first day to two rows beyond the last, the mean of earlier days at each clock, half-life four days."""
    days = -(-(len(z) + 2) // day)
    padded = np.full(days * day, np.nan)
    padded[: len(z)] = z
    values = padded.reshape(days, day)
    known = ~np.isnan(values)
    back = np.arange(first, days)[:, None] - np.arange(days) - 1
    fading = np.where(back >= 0, 0.5 ** (back / 4), 0.0)
    weight = fading @ known
    total = fading @ np.where(known, values, 0.0)
    profile: Floats = np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)
    return profile.ravel()


def _fading(recent: Floats) -> Floats:
    """(n, 2): exponential means of the last steps, the newest first; NaN where none is known."""
    known = ~np.isnan(recent)
    weights = (1 - np.array([[0.4], [0.1]])) ** np.arange(LAGS)
    total = np.einsum("nl,kl->nk", known.astype(np.float64), weights)
    summed = np.einsum("nl,kl->nk", np.where(known, recent, 0.0), weights)
    mean: Floats = np.divide(summed, total, out=np.full(total.shape, np.nan), where=total > 0)
    return mean


def _between(values: _Rows, position: Floats, shifts: Sequence[int]) -> Floats:
    """(shifts, n): values so many rows from fractional positions, linear between whole ones, NaN outside."""
    low = np.floor(position + 1e-9).astype(np.int64)
    part = np.where(position - low > _WHOLE, position - low, 0.0)
    rows = low + np.array(shifts)[:, None]
    at_low = values.take(rows)
    if not part.any():
        return at_low
    return np.where(part == 0, at_low, at_low * (1 - part) + values.take(rows + 1) * part)


def _ridge(x: Floats, y: Floats, weight: Floats) -> Floats:
    """
    Coefficients of weighted ridge regression on scaled features, the constant last and unpenalised.

    What is known in few rows counts for nothing: in a history of seven days one row knows the load of a week ago, and
    would set its coefficient alone.
    """
    x = np.where(np.isnan(x).mean(axis=0) > 1 - _SEEN_SHARE, 0.0, _or_zero(x))
    scale = np.sqrt((weight[:, None] * x**2).sum(axis=0) / weight.sum()) + 1e-9
    full = np.column_stack([x / scale, np.ones(len(x))])
    gram = full.T @ (full * weight[:, None])
    gram[np.diag_indices(len(scale))] += _RIDGE * weight.sum()
    gram[np.diag_indices(len(gram))] += 1e-9
    found = np.linalg.solve(gram, full.T @ (weight * y))
    return np.concatenate([found[:-1] / scale, found[-1:]])


def _looked_at(day: int) -> int:
    """How many rows before the end of the history any source looks at, when origins lie behind it."""
    return _DAYS_BACK * day + LAGS
