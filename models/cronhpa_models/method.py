"""
The interface of a forecasting method: a fit to one series, and predictive distributions of its largest load ahead.

A series is the total load of one object in its own unit: the maximum of each step of a regular grid, the oldest first,
NaN for a gap, never zero. Imports numpy alone; cronhpa_models.frames has the same methods for series of pandas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

LAGS = 25  # steps in Origins.recent, including the newest

# A distribution is made of sums of weights: smaller differences are rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Origins:
    """The instants at which forecasts are made."""

    position: Floats
    """(n,), rows since the start of the history; at 7.4 two fifths of row 8 are known."""
    recent: Floats
    """
    (n, LAGS), maxima of the last steps before each origin, the newest first, NaN for a gap; at 7.4 the newest step ends
    at 7.4.
    """


@dataclass(frozen=True)
class Distribution:
    """Predictive distributions of the largest load of each window ahead."""

    load: Floats
    """(windows, origins, bins), rising; NaN without a forecast."""
    cdf: Floats
    """(variants, windows, origins, bins), P(largest load of the window <= load), rising to one."""

    def quantile(self, variant: int, window: int, level: float) -> Floats:
        """(origins,): the lowest load with cdf >= level. variant: its place among Method.variants."""
        cdf = self.cdf[variant, window]
        place = np.minimum((cdf < level - _ROUNDING).sum(axis=-1), cdf.shape[-1] - 1)
        return np.take_along_axis(self.load[window], place[:, None], axis=-1)[:, 0]


class Fitted(Protocol):
    """A method fitted to one series."""

    @property
    def load(self) -> Floats:
        """(rows,): the stored history of the fit. Positions of origins count from its first row."""

    @property
    def windows(self) -> tuple[int, ...]:
        """The number of steps ahead that each window covers, rising."""

    def distribution(self, later: Floats, origins: Origins, windows: int | None = None) -> Distribution:
        """
        The predictive distributions at each origin, from the loads before it.

        later: (rows,), the steps since the fit, the oldest first; steps that end after an origin must not change its
        distribution. Origins lie between the last row of `load` and three days after it. windows: the number of fitted
        windows to forecast, the nearest first; None: all.
        """

    def encode(self) -> bytes:
        """The fit as bytes, for Method.decode."""


class Method(Protocol):
    """
    A forecasting method with its parameters.

    name: of the method. variants: the names that a user may choose; each has its own predictive distribution, from one
    fit; most methods have one variant. needs: the packages besides numpy that a fit or a forecast imports.
    """

    @property
    def name(self) -> str: ...

    @property
    def variants(self) -> tuple[str, ...]: ...

    @property
    def needs(self) -> tuple[str, ...]: ...

    def fit(self, load: Floats, *, steps_per_day: int, windows: tuple[int, ...]) -> Fitted | None:
        """A fit to `load`, the maximum of each step, NaN for a gap; None if the history is too short."""

    def decode(self, state: bytes) -> Fitted:
        """The fit that Fitted.encode wrote."""


@runtime_checkable
class BatchMethod(Protocol):
    """A method that forecasts many series faster together than one by one."""

    def distributions(
        self, several: Sequence[Fitted], later: Sequence[Floats], origins: Sequence[Origins], windows: int
    ) -> list[Distribution]:
        """Fitted.distribution of each fit, equal to the last bit."""


def fault(answer: Distribution, *, variants: int, windows: int, origins: int) -> str | None:
    """Why a distribution is unusable; None for a valid one, in which all loads of an origin are numbers or all NaN."""
    load, cdf = np.asarray(answer.load), np.asarray(answer.cdf)
    if load.ndim != 3 or load.shape[:2] != (windows, origins) or not load.shape[2]:  # noqa: PLR2004 - see Distribution
        return f"loads have the shape {load.shape}: ({windows} windows, {origins} origins, bins) is needed"
    if cdf.shape != (variants, *load.shape):
        return f"the cdf has the shape {cdf.shape}: {(variants, *load.shape)} is needed"
    is_known = ~np.isnan(load).all(axis=-1)
    if not np.isfinite(load[is_known]).all() or (load[is_known] < 0).any():
        return "a load is negative, infinite or missing: finite loads from zero on are needed, or none at an origin"
    if (np.diff(load[is_known], axis=-1) < 0).any():
        return "loads fall from bin to bin: rising loads are needed"
    of_known = cdf[:, is_known]
    if not np.isfinite(of_known).all() or (of_known < -_ROUNDING).any() or (np.diff(of_known) < -_ROUNDING).any():
        return "the cdf falls or is no number: probabilities that rise from bin to bin are needed"
    if (np.abs(of_known[..., -1] - 1) > _ROUNDING).any():
        return "the cdf does not end at one in the last bin"
    return None


def on_grid(load: Floats, later: Floats, rows: Rows) -> Origins:
    """Origins at the ends of whole rows of the history `load` and of the steps `later`."""
    return Origins(rows.astype(np.float64), lagged(np.concatenate([load, later]), rows))


def lagged(values: Floats, rows: Rows) -> Floats:
    """(n, LAGS): the value of each row and of those before it, the newest first; NaN before the start."""
    padded = np.concatenate([np.full(LAGS - 1, np.nan), values])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, LAGS)[rows, ::-1])


def largest_ahead(load: Floats, horizon: int) -> Floats:
    """(rows, horizon): the largest load of the next step, of the next two, ...; NaN from a gap or the end on."""
    padded = np.concatenate([load, np.full(horizon, np.nan)])
    ahead = np.lib.stride_tricks.sliding_window_view(padded, horizon)[1:]
    return np.maximum.accumulate(ahead, axis=1)


def shifted(values: Floats, rows: int) -> Floats:
    """At each row the value `rows` rows before it, NaN outside. A negative number looks ahead."""
    out = np.full(len(values), np.nan)
    if rows >= 0:
        out[rows:] = values[: max(len(values) - rows, 0)]
    else:
        out[:rows] = values[-rows:]
    return out
