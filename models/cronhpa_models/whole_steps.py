"""
From quantiles at the ends of whole steps to a predictive distribution at any minute.

At an origin between two steps, a method for whole steps forecasts twice: from the newest whole step, and from the
current step as if it ended now. After two fifths of the current step the window has moved by two fifths: an event in
the last step of the window lies within the window with a probability of 2/5. So the distribution is
3/5 x (forecast from the whole step) + 2/5 x (forecast from the current step).
"""

from __future__ import annotations

import numpy as np

from cronhpa_models.method import Distribution, Floats, Rows

# The levels of the quantiles of a distribution: closer in the range that decides floors.
LEVELS = np.concatenate(
    [
        [0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45],
        np.arange(20, 38) / 40,  # 0.5, 0.525, ..., 0.925
        np.arange(94, 100) / 100,
        [0.995, 0.998, 0.999, 1.0],
    ]
)

# Fractions of a step below this are noise of the arithmetic.
_WHOLE = 1e-6


def split(position: Floats) -> tuple[Rows, Floats]:
    """(newest whole row, share of the next step that has passed) of each position."""
    whole = np.floor(position + _WHOLE).astype(np.int64)
    part = position - whole
    return whole, np.where(part > _WHOLE, part, 0.0)


def mixed(ended: Floats, under_way: Floats, part: Floats) -> Distribution:
    """
    The distribution of one variant from quantiles at LEVELS.

    ended, under_way: (windows, origins, LEVELS), from the newest whole step and from the current step, NaN without a
    forecast. part: (origins,), the share of the current step that has passed; if it is zero, `under_way` does not
    matter. No load is below zero, and the loads of a longer window are at least those of a shorter one.
    """
    ended, under_way = (np.fmax.accumulate(np.maximum(load, 0.0), axis=0) for load in (ended, under_way))
    if not part.any():
        return Distribution(ended, np.broadcast_to(LEVELS, (1, *ended.shape)))
    part = part[:, None]
    load = np.concatenate([ended, np.where(part > 0, under_way, ended)], axis=-1)
    shares = np.diff(LEVELS, prepend=0.0)
    weights = np.broadcast_to(np.concatenate([(1 - part) * shares, part * shares], axis=-1), load.shape)
    order = np.argsort(load, axis=-1, kind="stable")
    cdf = np.cumsum(np.take_along_axis(weights, order, axis=-1), axis=-1)
    load = np.take_along_axis(load, order, axis=-1)
    # NaN is sorted last: if the last one is NaN, one of the two forecasts is missing.
    load = np.where(np.isnan(load[..., -1:]), np.nan, load)
    return Distribution(load, (cdf / cdf[..., -1:])[None])
