"""
The features of a forecast by the step: lags, exponential means, the same clock of earlier days, and their moves.

For one series or several in one pass; the card of error_mixture has the formula.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cronhpa_models.joined_rows import JoinedRows, LoggedRows
from cronhpa_models.method import LAGS, Floats

# Columns of `features`.
FEATURES = 18
# The number of rows ahead whose profile `features` uses.
PROFILE_AHEAD = 3

# Half-life of a day in the profile: four days.
_FADING = 0.5**0.25
_SHORT_LAGS = (1, 2, 3, 5, 8, 12)
# Fractions of a step below this are noise of the arithmetic.
_WHOLE = 1e-6


def features(z: JoinedRows | LoggedRows, profile: JoinedRows, day: int, position: Floats, recent: Floats) -> Floats:
    """
    (n, features) at positions of z whose last steps were `recent`, NaN for what is unknown.

    profile: of z. Later rows are not used.
    """
    now = recent[:, :1]
    lags = np.asarray(recent[:, _SHORT_LAGS])
    yesterday, last_week, *ahead = _between(z, position, (-day, -7 * day, 1 - day, 1 - 7 * day, 2 - day, 2 - 7 * day))
    usual, usual_1, usual_2 = _between(profile, position, (0, 1, 2))
    levels = np.stack([ahead[0], ahead[1], usual_1, ahead[2], ahead[3], usual_2], axis=1)
    moves = np.stack([ahead[0] - yesterday, usual_1 - usual], axis=1)
    behind = np.stack([yesterday, last_week], axis=1)
    columns = [lags - now, _fading(recent) - now, levels - now, moves, behind - now]
    return np.asarray(np.concatenate(columns, axis=1))


def or_zero(x: Floats) -> Floats:
    """The differences, zero for unknown ones."""
    return np.where(np.isnan(x), 0.0, x)


def profile_of(z: Floats, day: int) -> Floats:
    """From row 0 to three rows after the last: the mean of earlier days at the same clock, half-life four days."""
    days = -(-(len(z) + PROFILE_AHEAD) // day)
    padded = np.full(days * day, np.nan)
    padded[: len(z)] = z
    return _means_of_earlier_days(padded.reshape(days, day))[:-1].ravel()


def profile_at(z: Floats) -> Floats:
    """(n,): as `profile_of`, for any rows. z: (days, n), the days before each row at its clock, in order."""
    is_known = ~np.isnan(z)
    values, weight = np.where(is_known, z, 0.0), is_known.astype(np.float64)
    total = np.zeros((2, z.shape[1]))
    for day in range(len(z)):
        total *= _FADING
        total[0] += values[day]
        total[1] += weight[day]
    return _means(*total)


def _means_of_earlier_days(z: Floats) -> Floats:
    """(days + 1, n): for each day and the one after the last, the mean of the days before it, half-life four days."""
    is_known = ~np.isnan(z)
    summed = np.stack([np.where(is_known, z, 0.0), is_known.astype(np.float64)])
    total = np.zeros((2, len(z) + 1, z.shape[1]))
    for day in range(len(z)):
        np.multiply(total[:, day], _FADING, out=total[:, day + 1])
        total[:, day + 1] += summed[:, day]
    return _means(*total)


def _means(summed: Floats, weight: Floats) -> Floats:
    """The means; NaN without known values."""
    mean: Floats = np.divide(summed, weight, out=np.full(weight.shape, np.nan), where=weight > 0)
    return mean


def _fading(recent: Floats) -> Floats:
    """(n, 2): exponential means of the last steps, the newest first; NaN without known steps."""
    is_known = ~np.isnan(recent)
    weights = (1 - np.array([[0.4], [0.1]])) ** np.arange(LAGS)
    total = np.einsum("nl,kl->nk", is_known.astype(np.float64), weights)
    summed = np.einsum("nl,kl->nk", np.where(is_known, recent, 0.0), weights)
    return _means(summed, total)


def _between(values: JoinedRows | LoggedRows, position: Floats, shifts: Sequence[int]) -> Floats:
    """(shifts, n): values `shifts` rows from fractional positions, linear between whole rows, NaN outside."""
    low = np.floor(position + 1e-9).astype(np.int64)
    part = np.where(position - low > _WHOLE, position - low, 0.0)
    rows = low + np.array(shifts)[:, None]
    at_low = values.take(rows)
    if not part.any():
        return at_low
    return np.where(part == 0, at_low, at_low * (1 - part) + values.take(rows + 1) * part)
