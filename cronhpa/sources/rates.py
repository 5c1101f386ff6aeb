"""Counters become rates: per pod, from one scrape to the next, as Prometheus' rate() does without extrapolation."""

from __future__ import annotations

from array import array

from msgspec import Struct

from cronhpa.sources.exposition import PageSample

# A rate over a shorter span is noise.
_SPAN_SECONDS = 0.2


class _Counts(Struct, frozen=True):
    """
    The counters of one scrape. at: seconds.

    keys: a 64-bit hash of each counter's labels. A pod may have thousands of counters and a tenant thousands of pods:
    with labels as texts these could fill the operator's memory.
    """

    at: float
    keys: array[int]
    values: array[float]


class PodRates:
    """The counters of one pod at its last scrape."""

    def __init__(self) -> None:
        self._before: _Counts | None = None

    def rates(self, samples: tuple[PageSample, ...], at: float) -> tuple[list[float], float] | None:
        """
        The rate of each counter per second, and the seconds between the two scrapes; None at the first scrape.

        A counter that went down, or is new, began at 0.
        at: seconds of a clock that never goes back.
        """
        before = self._before
        if before is not None and at - before.at < _SPAN_SECONDS:
            return None
        keys = array("q", [hash(sample.labels) for sample in samples])
        self._before = _Counts(at, keys, array("d", [sample.value for sample in samples]))
        if before is None:
            return None
        seconds = at - before.at
        values = dict(zip(before.keys, before.values, strict=True))
        return [
            _increase(values.get(key, 0.0), sample.value) / seconds for key, sample in zip(keys, samples, strict=True)
        ], seconds


def _increase(before: float, value: float) -> float:
    return value if value < before else value - before
