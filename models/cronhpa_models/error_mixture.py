"""
Error mixtures: the distribution of the load in the coming steps, by a ridge forecast and its past errors.

Card
  What for   Floors: the whole distribution of the largest load ahead instead of one quantile, so that a caller can
             compare the cost of each pod with the probability that it is needed.
  Formula    z = log(load + c), c = 5 % of the mean load. For each window of 1 to h steps ahead
             log(max load + c) = z[t] + b' x[t] + error, b by ridge, a day counting half as much after 7 days.
             x: differences from z[t] of six lags, two exponential means, the same clock of yesterday and of last week,
             the mean of earlier days at that clock, and their moves. An unknown difference is zero.
             The distribution of the error is a mixture of empirical ones, weights by mixture_forecast.VARIANTS:
             near, clock   errors at the same clock of the last 14 days, within a step, within a quarter of an hour
             load          loads (not errors) at the same clock, for jumps to a fixed level from any load
             moves         errors of the last week after two-step moves similar to the present one
             recent        errors of the last two hours, half-life 10 steps
             all           every error of the last seven days
             A day counts half after five days; the same weekday counts double.
  Source     Direct multi-step forecasts: Marcellino, Stock & Watson (2006). Conditional empirical errors: split
             conformal with localised weights, Guan (2023), Biometrika 110(1).
  Cost       printed by `make bench-forecast`.
  Scores     docs/engineering/forecasting.md: coverage of the 0.9 quantile, MASE and pinball loss on each series.
  Weak at    Clocks are UTC. A first occurrence is never predicted. A rare event has a probability of its frequency at
             most.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.joined_rows import JoinedRows
from cronhpa_models.method import LAGS, Distribution, Floats, Origins, lagged, largest_ahead, shifted
from cronhpa_models.mixture_forecast import DAYS_BACK, VARIANTS, bins_of, distributions
from cronhpa_models.step_features import FEATURES, features, or_zero, profile_of

_DAYS_KEPT = 28
_ERRORS_MIN = 50
# The share of a day's steps that must be known.
_KNOWN_SHARE = 0.5
_RIDGE = 0.003
_SEEN_SHARE = 0.05
# Levels of the bins' upper edges: closer in the middle of the distribution, even over the tail, which has the jumps.
_LEVELS = np.array(
    [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998]
)
_TAIL_BINS = 32
_BINS = len(_LEVELS) + _TAIL_BINS
# The head of an encoded fit: rows, steps a day, windows; offset. Numbers of eight bytes follow, then shorter ones.
_HEAD = struct.Struct("<IHHd")


class ErrorMixture:
    """See cronhpa_models.method.Method. The variants weigh the sources of errors differently; they share a fit."""

    name = "ErrorMixture"
    variants = tuple(VARIANTS)
    needs = ()

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...] = (1, 2)) -> FittedMixture | None:
        """None if less than half a day, or fewer than fifty errors, are known."""
        recent = np.asarray(load[-_DAYS_KEPT * steps_per_day :], dtype=np.float64)
        is_known = ~np.isnan(recent)
        if is_known.sum() < steps_per_day * _KNOWN_SHARE:
            return None
        offset = max(0.05 * float(recent[is_known].mean()), 1e-9)
        z = np.log(recent + offset)
        rows = np.arange(len(z))
        of_z, of_profile = (JoinedRows.of([values]) for values in (z, profile_of(z, steps_per_day)))
        raw = features(of_z, of_profile, steps_per_day, rows.astype(np.float64), lagged(z, rows))
        x = or_zero(raw)
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
            bin_of = bins_of(edges, wrong)
            coefficients.append(b)
            kept_bins = bin_of[-_looked_at(steps_per_day) :]
            errors.append(
                ErrorBins(edges, kept_bins, *_by_move(z[week], bin_of[week]), _counted(bin_of[week], len(edges)))
            )
        return FittedMixture(recent, offset, steps_per_day, tuple(windows), np.stack(coefficients), tuple(errors))

    def distributions(
        self, several: Sequence[FittedMixture], later: Sequence[Floats], origins: Sequence[Origins], windows: int
    ) -> list[Distribution]:
        """See cronhpa_models.method.BatchMethod. Fits of the same windows share a pass."""
        alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for place, fitted in enumerate(several):
            alike.setdefault((fitted.steps_per_day, fitted.windows[:windows]), []).append(place)
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

    def decode(self, state: bytes) -> FittedMixture:
        """The fit that FittedMixture.encode wrote, as views of its bytes, because every forecast reads it."""
        rows, steps_per_day, count, offset = _HEAD.unpack_from(state)
        place = _HEAD.size

        def take(kind: str, numbers: int) -> NDArray[Any]:
            nonlocal place
            column = np.frombuffer(state, kind, numbers, place)
            place += column.nbytes
            return column

        windows, moves = take("<i8", 2 * count).reshape(2, count).tolist()
        coefficients = take("<f8", count * (FEATURES + 1)).reshape(count, -1)
        edges = take("<f8", count * _BINS).reshape(count, -1)
        load = take("<f4", rows)
        rows_used = min(_looked_at(steps_per_day), rows)
        errors = []
        for of_window, known_moves in zip(edges, moves, strict=True):
            sorted_moves, of_week = take("<f4", known_moves), take("<i2", _BINS)
            errors.append(ErrorBins(of_window, take("<i1", rows_used), sorted_moves, take("<i1", known_moves), of_week))
        return FittedMixture(load, offset, steps_per_day, tuple(windows), coefficients, tuple(errors))


@dataclass(frozen=True)
class FittedMixture:
    """See cronhpa_models.method.Fitted."""

    load: NDArray[Any]
    """(rows,), up to 28 days, with 64 bits or as it was kept."""
    offset: float
    steps_per_day: int
    windows: tuple[int, ...]
    coefficients: Floats
    """(windows, features + 1)."""
    errors: tuple[ErrorBins, ...]
    """Errors of the regression in the history, for each window."""

    def distribution(self, later: Floats, origins: Origins, windows: int | None = None) -> Distribution:
        """See cronhpa_models.method.Fitted."""
        return distributions([self], [later], [origins], windows)[0]

    def encode(self) -> bytes:
        """Plain numbers: loads with 24 bits, an error of 1e-7."""
        head = _HEAD.pack(len(self.load), self.steps_per_day, len(self.windows), self.offset)
        windows = np.array([self.windows, [len(of_window.moves) for of_window in self.errors]], "<i8")
        edges = np.stack([of_window.edges for of_window in self.errors]).astype("<f8")
        parts = [windows, self.coefficients.astype("<f8"), edges, self.load.astype("<f4")]
        for of_window in self.errors:
            parts += [
                of_window.moves.astype("<f4"),
                of_window.of_week.astype("<i2"),
                of_window.bin_of,
                of_window.bin_by_move,
            ]
        return head + b"".join(part.tobytes() for part in parts)


@dataclass(frozen=True)
class ErrorBins:
    edges: Floats
    """(bins,), the upper edge of each bin of errors, rising."""
    bin_of: NDArray[np.int8]
    """For the last rows of the history, the bin of the error of the forecast at each row; -1 for an unknown error."""
    moves: NDArray[np.float32]
    bin_by_move: NDArray[np.int8]
    """The moves of the last week with known errors, rising, with 24 bits, and the bins of these errors."""
    of_week: NDArray[np.int16]
    """(bins,), the number of errors of the last week in each bin."""


def _edges(errors: Floats, came: Floats, z: Floats) -> Floats:
    """Upper edges of the bins, rising: quantiles of the errors, then even steps up to the largest possible error."""
    body = np.quantile(errors, _LEVELS)
    highest = max(float(errors.max()), float(np.nanmax(came)) - float(np.nanmin(z)), body[-1])
    start = float(np.quantile(errors, 0.9))
    tail = start + (highest - start) * np.arange(1, _TAIL_BINS + 1) / _TAIL_BINS
    return np.sort(np.concatenate([body, tail])) + 1e-9


def _by_move(z: Floats, bin_of: NDArray[np.int8]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """The moves z[t] - min(z[t-1], z[t-2]) in rising order, and the bins of the errors after them."""
    moves = z - np.fmin(shifted(z, 1), shifted(z, 2))
    good = np.flatnonzero(~np.isnan(moves) & (bin_of >= 0))
    order = good[np.argsort(moves[good], kind="stable")]
    return moves[order].astype(np.float32), bin_of[order]


def _counted(bin_of: NDArray[np.int8], bins: int) -> NDArray[np.int16]:
    return np.bincount(bin_of[bin_of >= 0], minlength=bins).astype(np.int16)


def _ridge(x: Floats, y: Floats, weight: Floats) -> Floats:
    """
    Coefficients of weighted ridge regression on scaled features, the constant last and unpenalised.

    A feature that is known for few rows is left out: in a history of seven days only one row has a load of a week ago,
    and it would determine the coefficient alone.
    """
    x = np.where(np.isnan(x).mean(axis=0) > 1 - _SEEN_SHARE, 0.0, or_zero(x))
    scale = np.sqrt((weight[:, None] * x**2).sum(axis=0) / weight.sum()) + 1e-9
    full = np.column_stack([x / scale, np.ones(len(x))])
    gram = full.T @ (full * weight[:, None])
    gram[np.diag_indices(len(scale))] += _RIDGE * weight.sum()
    gram[np.diag_indices(len(gram))] += 1e-9
    solution = np.linalg.solve(gram, full.T @ (weight * y))
    return np.concatenate([solution[:-1] / scale, solution[-1:]])


def _looked_at(day: int) -> int:
    """The number of rows at the end of the history that sources use for origins after the history."""
    return DAYS_BACK * day + LAGS
