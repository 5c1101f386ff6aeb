"""
The features of a spike hazard: frequency and age of spikes at the same clock, the same minute and after the same gap.

For one series or several in one pass; the card of spike_hazard describes each feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cronhpa_models.joined_rows import JoinedRows
from cronhpa_models.method import Floats

Minutes = NDArray[np.int64]
Flags = NDArray[np.bool_]

DAY = 1440
# The number of days that features and a fit use.
DAYS = 8

# Two minutes further apart than this belong to two spikes.
_APART = 8
_WIDTHS = (0, 1, 4, 12, 30)
# Minutes since the last spike, in ranges: for spikes every two hours the range from 115 to 130 tells more than a slope.
_SINCE = (4, 8, 15, 25, 40, 55, 70, 85, 100, 115, 130, 145, 160, 190, 240, 360, 720, 1440)
_LONG_AGO = 99_999
# The distance between the gaps of two series in one sorted row: more than any look-up spans.
_SERIES_APART = 1_000_000
_GAP_MAX = 4 * DAY
_MOVES = (2, 3, 5, 10, 30)
# log(1.6): about capacity / target of pods that are scaled for 60 %.
_FAR_MORE = 0.45


@dataclass(frozen=True)
class SpikeOrigins:
    """Origins of several series, concatenated."""

    owner: Minutes
    """The number of the origin's series."""
    known: Minutes
    """The number of minutes of that series that are known."""
    at: Minutes
    """The minute that is forecast."""


class SpikeHistory:
    """Loads of several series as logarithms, the minutes with a spike, and the counts behind features."""

    def __init__(
        self,
        log_load: Sequence[NDArray[np.floating[Any]]],
        spiked: Sequence[NDArray[np.integer[Any]]],
        rate: Sequence[float],
        later: Sequence[tuple[Floats, Flags]] | None = None,
    ) -> None:
        """
        log_load, spiked: for each series up to its fit, the loads, and the minutes with a spike in order; the gaps
        between these spikes make a distribution. later: the loads since the fit, and whether each minute has a spike;
        None: there are none.
        """
        since = [(np.zeros(0), np.zeros(0, bool))] * len(log_load) if later is None else later
        fitted = np.array([len(history) for history in log_load])
        count = fitted + np.array([len(flags) for _, flags in since])
        self.end = np.cumsum(count)
        self.begin = self.end - count
        self.rate = np.array(rate)
        # In the stored type: features use few of them.
        self._log_load = JoinedRows.of(log_load), JoinedRows.of([loads for loads, _ in since], fitted)
        learnt = np.concatenate(spiked).astype(np.int64) + self.begin.repeat([len(minutes) for minutes in spiked])
        new = np.flatnonzero(np.concatenate([flags for _, flags in since]))
        # Among all series, the histories up to that of the own series come before them.
        new += np.cumsum(fitted)[np.searchsorted(np.cumsum(count - fitted), new, side="right")]
        # Rising runs, which a stable sort merges fast.
        loud = np.sort(np.concatenate([learnt, new]), kind="stable")
        # The number of spike minutes before each minute; faster than a cumulative sum.
        runs = np.diff(loud, prepend=-1, append=self.end[-1])
        self._counted = np.repeat(np.arange(len(runs), dtype=np.int32), runs)
        self._beside: dict[int, Flags] = {}
        is_first = np.diff(loud, prepend=-_LONG_AGO) > _APART
        first = np.searchsorted(loud, self.begin)
        is_first[first[first < len(loud)]] = True
        # The begins of spikes, and for each series the number of begins in the series before it.
        self.begins = loud[is_first]
        self.begins_before = np.searchsorted(self.begins, self.begin)
        self.begins_fitted = np.searchsorted(self.begins, self.begin + fitted) - self.begins_before

    def any_within(self, origins: SpikeOrigins, at: Minutes, width: int) -> Flags:
        """Whether there is a spike within `width` minutes of each minute of `at`."""
        begin, end = self.begin[origins.owner], self.end[origins.owner]
        low, high = (self._counted[np.clip(begin + edge, begin, end)] for edge in (at - width, at + width + 1))
        is_near: Flags = high > low
        return is_near

    def odds(self, origins: SpikeOrigins, back: Minutes, weight: Floats, width: int) -> Floats:
        """
        Log ratio of the weighted spike frequency `back` minutes before the forecast minute to the base rate.

        Smoothed with half a pseudo-observation at the base rate.
        """
        usual = np.minimum(self.rate * (2 * width + 1) ** 0.7, 0.5)[origins.owner]
        begin = self.begin[origins.owner]
        looked = (origins.at + begin)[:, None] - back
        # With a start-up time of 15 minutes, a spike ten minutes before the forecast minute is unknown at the origin.
        observed = (looked >= (width + begin)[:, None]) & (looked < (origins.known + begin - width)[:, None])
        # Minutes outside of the series do not count.
        near = self._any_beside(looked, width) & observed
        spikes, total = (np.einsum("nb,b->n", flags.astype(np.float64), weight) for flags in (near, observed))
        return np.asarray(np.log((spikes + 0.5 * usual) / (total + 0.5) / usual))

    def _any_beside(self, at: Minutes, width: int) -> Flags:
        """Whether there is a spike within `width` minutes of each place among all series."""
        if at.size < len(self._counted):
            low, high = (self._counted.take(at + edge, mode="clip") for edge in (-width, width + 1))
            return np.asarray(high > low)
        # There are more places than minutes: compute each minute once.
        if width not in self._beside:
            places = np.arange(len(self._counted))
            low, high = (self._counted.take(places + edge, mode="clip") for edge in (-width, width + 1))
            self._beside[width] = high > low
        return self._beside[width].take(at, mode="clip")

    def begun(self, origins: SpikeOrigins, minutes: int) -> Floats:
        """log(1 + number of spikes that began in the `minutes` minutes before each origin)."""
        begin = self.begin[origins.owner]
        earlier = np.searchsorted(self.begins, begin + np.maximum(origins.known - minutes, 0))
        return np.asarray(np.log1p(np.searchsorted(self.begins, begin + origins.known) - earlier))

    def newest(self, origins: SpikeOrigins, back: int) -> Floats:
        """The load of the minute that ended `back - 1` minutes before each origin."""
        return self.log_load(origins, origins.known - back)

    def is_exceeded(self, origins: SpikeOrigins) -> Flags:
        """Whether pods are too few in the newest minute."""
        begin, end = self.begin[origins.owner], self.end[origins.owner]
        newest = np.clip(begin + origins.known - 1, begin, end - 1)
        is_spike: Flags = self._counted[newest + 1] > self._counted[newest]
        return is_spike

    def log_load(self, origins: SpikeOrigins, minutes: Minutes) -> Floats:
        """(origins, ...): the loads of minutes of each origin's series."""
        owner = origins.owner.reshape((-1,) + (1,) * (minutes.ndim - 1))
        rows = np.clip(minutes, 0, (self.end - self.begin)[owner] - 1)
        fitted, since = (part.asked_by(owner) for part in self._log_load)
        return np.where(rows < fitted.end, fitted.take(rows), since.take(rows))


def _lookback(count: int, minutes: int, half_life: float) -> tuple[Minutes, Floats]:
    steps = np.arange(1, count + 1)
    return steps * minutes, 0.5 ** (steps / half_life)


_DAYS_BACK, _DAY_WEIGHTS = _lookback(DAYS, DAY, 5)
# The same weekday counts double.
_DAY_WEIGHTS[6] *= 2
_ROUND_CLOCKS = (
    (_lookback(48, 60, 24), (0, 1, 4)),
    (_lookback(96, 30, 48), (0, 1, 4)),
    (_lookback(144, 10, 72), (0, 1)),
)
_BESIDE = tuple(
    np.array([day * DAY + aside * minutes for day in range(1, 8) for aside in (-2, -1, 1, 2)]) for minutes in (60, 30)
)
_BESIDE_WEIGHTS = np.array([0.5 ** (day / 4) for day in range(1, 8) for _ in range(4)])


def features(history: SpikeHistory, origins: SpikeOrigins) -> Floats:
    """(origins, features)"""
    columns: list[Floats | Flags] = [history.odds(origins, _DAYS_BACK, _DAY_WEIGHTS, width) for width in _WIDTHS]
    columns += [history.any_within(origins, origins.at - days * DAY, width) for days in (1, 7) for width in (1, 8)]
    columns += [history.odds(origins, *back, width) for back, widths in _ROUND_CLOCKS for width in widths]
    columns += [history.odds(origins, back, _BESIDE_WEIGHTS, 1) for back in _BESIDE]
    columns += _since(history, origins)
    columns += [history.begun(origins, 180), history.begun(origins, DAY)]
    now = history.newest(origins, 1)
    columns += [history.is_exceeded(origins), now]
    columns += [now - history.newest(origins, back + 1) for back in _MOVES]
    columns += _same_clock(history, origins)
    return np.column_stack(columns).astype(np.float64)


def _since(history: SpikeHistory, origins: SpikeOrigins) -> list[Floats | Flags]:
    """The time since the begin of the last spikes, and how often a gap between spikes was as long."""
    begin, before = history.begin[origins.owner], history.begins_before[origins.owner]
    last = np.searchsorted(history.begins, begin + origins.known - 1, side="left") - before
    columns: list[Floats | Flags] = []
    for order in (1, 2):
        since = np.full(len(origins.at), _LONG_AGO)
        is_known = last >= order
        since[is_known] = (origins.at + begin)[is_known] - history.begins[(last + before - order)[is_known]]
        if order == 1:
            ranges = np.digitize(since, _SINCE)
            columns += [ranges == number for number in range(len(_SINCE) + 1)]
        columns.append(np.log1p(np.minimum(since, 5000)))
        columns += _gaps(history, origins, since, last, order)
    return columns


def _gaps(history: SpikeHistory, origins: SpikeOrigins, since: Minutes, last: Minutes, order: int) -> list[Floats]:
    """Of the gaps that lasted at least `since`: log of the share that ended within 2, and within 10, minutes of it."""
    counts = history.begins_fitted
    series = np.repeat(np.arange(len(counts)), np.maximum(counts - order, 0))
    first = np.arange(len(series)) - np.repeat(
        np.cumsum(np.maximum(counts - order, 0)) - np.maximum(counts - order, 0) - history.begins_before,
        np.maximum(counts - order, 0),
    )
    gaps = history.begins[first + order] - history.begins[first]
    # Sorted by series, then by length.
    is_short = gaps < _GAP_MAX
    sorted_gaps = np.sort(gaps[is_short] + series[is_short] * _SERIES_APART)
    ends = np.searchsorted(sorted_gaps, (np.arange(len(counts)) + 1) * _SERIES_APART - _LONG_AGO)[origins.owner]
    # The gap around a past origin is among them; it must not predict itself.
    own = np.full(len(since), -_LONG_AGO)
    inside = (last >= order) & (last < counts[origins.owner])
    places = (last + history.begins_before[origins.owner])[inside]
    own[inside] = history.begins[places] - history.begins[places - order]
    own[own >= _GAP_MAX] = -_LONG_AGO
    columns = []
    shift, rate = origins.owner * _SERIES_APART, history.rate[origins.owner]
    for width in (2, 10):
        low, high = (np.searchsorted(sorted_gaps, since + shift + edge) for edge in (-width, width + 1))
        ended = high - low - ((own >= since - width) & (own <= since + width))
        lasted = ends - low - (own >= since - width)
        columns.append(np.log((ended + rate * width + 0.05) / (lasted + 1.0)))
    return columns


def _same_clock(history: SpikeHistory, origins: SpikeOrigins) -> list[Floats]:
    """The load around the same clock of the last seven days, relative to the newest load."""
    now = np.maximum(history.newest(origins, 1), history.newest(origins, 2))
    looked = origins.at[:, None] - np.arange(1, 8) * DAY
    observed = looked >= 1
    around = history.log_load(origins, looked[..., None] + np.arange(-1, 2)).max(axis=-1)
    moved = np.where(observed, around - now[:, None], 0.0)
    weight = observed * 0.5 ** (np.arange(1, 8) / 4)
    total = np.maximum(weight.sum(axis=1), 1e-9)
    over = (weight * (moved > _FAR_MORE)).sum(axis=1) / total
    return [
        moved[:, 0],
        moved[:, 6],
        (weight * moved).sum(axis=1) / total,
        np.where(observed, moved, -3.0).max(axis=1),
        over,
        np.log(over + 0.02),
    ]
