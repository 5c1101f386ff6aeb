"""Exponential means of series with gaps, in one pass of numpy."""

from __future__ import annotations

import numpy as np

from cronhpa_models.method import Floats

_BLOCK = 64


def exponential_mean(values: Floats, share: float) -> Floats:
    """
    The weighted mean of the values up to each row; a value has (1 - share) times the weight of the one after it.

    A gap has no weight, but reduces the weights of the values before it. NaN before the first value.
    """
    is_known = ~np.isnan(values)
    total, weight = _fading_sums(np.stack([np.where(is_known, values, 0.0), is_known.astype(np.float64)]), 1 - share)
    mean: Floats = np.divide(total, weight, out=np.full(len(values), np.nan), where=weight > 0)
    return mean


def level(values: Floats, share: float) -> Floats:
    """
    level[t] = level[t-1] + share * (value[t] - level[t-1]) from the first value on; a gap leaves the level unchanged.

    NaN before the first value.
    """
    at_known = np.flatnonzero(~np.isnan(values))
    if not len(at_known):
        return np.full(len(values), np.nan)
    first = values[at_known[0]]
    levels = first + share * _fading_sums((values[at_known] - first)[None], 1 - share)[0]
    newest = np.searchsorted(at_known, np.arange(len(values)), side="right") - 1
    return np.where(newest >= 0, levels[np.maximum(newest, 0)], np.nan)


def _fading_sums(values: Floats, fade: float) -> Floats:
    """(series, rows): s[t] = fade * s[t-1] + value[t]. Blocks of rows by one product, then from block to block."""
    series, rows = values.shape
    blocks = -(-rows // _BLOCK)
    padded = np.zeros((series, blocks * _BLOCK))
    padded[:, :rows] = values
    apart = np.arange(_BLOCK)[:, None] - np.arange(_BLOCK)
    within = padded.reshape(series, blocks, _BLOCK) @ np.where(apart >= 0, fade ** np.maximum(apart, 0), 0.0).T
    carried = np.zeros((series, blocks))
    for block in range(1, blocks):
        carried[:, block] = carried[:, block - 1] * fade**_BLOCK + within[:, block - 1, -1]
    sums = within + carried[..., None] * fade ** np.arange(1, _BLOCK + 1)
    return np.asarray(sums.reshape(series, -1)[:, :rows])
