"""The order of fits: new series, then those whose spec changed, then every series once a day at its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.history.database.series import Series
from cronhpa.history.load.fits import FitInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

# A fit younger than this skips the next daily fit: on the first day all series are fitted at once.
_YOUNG: Nanoseconds = DAY // 2
_CRC_END = 2**32


def due(wanted: Mapping[Series, str], learnt: Mapping[Series, FitInfo], now: Nanoseconds) -> list[Series]:
    """
    The series to fit at `now`, in this order.

    wanted: the digest of the spec, by series. learnt: the newest fit, by series.
    """
    ranked = [
        (rank, fitted.fitted_at if fitted is not None else 0, series)
        for series, digest in wanted.items()
        if (rank := _rank(series, digest, fitted := learnt.get(series), now)) is not None
    ]
    return [series for _, _, series in sorted(ranked)]


def daily_fit_time(series: Series, now: Nanoseconds) -> Nanoseconds:
    """
    The newest instant of the daily fit of a series at or before `now`; by its name, series are spread over the day.
    """
    phase = crc32(str(series).encode()) * DAY // _CRC_END
    return now - (now - phase) % DAY


def _rank(series: Series, digest: str, fitted: FitInfo | None, now: Nanoseconds) -> int | None:
    """0: new, 1: the spec changed or the clock was set back, 2: the daily fit is due. None: not due."""
    if fitted is None:
        return 0
    if fitted.digest != digest or fitted.fitted_at > now:
        return 1
    if now - fitted.fitted_at >= _YOUNG and fitted.fitted_at < daily_fit_time(series, now):
        return 2
    return None
