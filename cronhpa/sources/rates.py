"""Counters become rates: per pod, from one scrape to the next, as Prometheus' rate() does without extrapolation."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.sources.exposition import PageSample

# A rate over less is noise.
_SPAN_SECONDS = 0.2


class _Counts(Struct, frozen=True):
    at: float
    values: dict[tuple[tuple[str, str], ...], float]


class PodRates:
    """The counters of one pod at its last scrape."""

    def __init__(self) -> None:
        self._before: _Counts | None = None

    def rates(self, samples: tuple[PageSample, ...], at: float) -> tuple[list[float], float] | None:
        """
        The rate of each counter, a second, and the seconds that it is of; None at the first scrape.

        A counter that went down began anew at 0, and so did one that was not there before.
        at: seconds of a clock that never goes back.
        """
        before = self._before
        if before is not None and at - before.at < _SPAN_SECONDS:
            return None
        self._before = _Counts(at, {sample.labels: sample.value for sample in samples})
        if before is None:
            return None
        seconds = at - before.at
        return [_increase(before.values.get(each.labels, 0.0), each.value) / seconds for each in samples], seconds


def _increase(before: float, value: float) -> float:
    return value if value < before else value - before
