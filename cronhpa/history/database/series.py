"""Small values of the load history: whose load, a sample of a load, and how finely and how long loads are kept."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds

STEP: Nanoseconds = 5 * MINUTE
STEPS_KEPT: Nanoseconds = 28 * DAY
# A finished day is evaluated minute by minute, with the week before it as the past: eight days. The ninth is for an
# evaluation that is late.
MINUTES_KEPT: Nanoseconds = 9 * DAY

INSTANT_END: Nanoseconds = 2**63  # the largest integer of a database, plus one
# Packed days hold 32-bit floats.
_LOAD_MAX = 3.4e38


class Series(Struct, frozen=True, order=True):
    """Whose load: `metric` is the metric's name in the object's spec (`cpu`)."""

    namespace: str
    name: str
    metric: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} {self.metric}"


class LoadSample(Struct, frozen=True, gc=False):
    """The load of a whole target at an instant, in the metric's own unit (cores, bytes, requests per second)."""

    series: Series
    at: Nanoseconds
    value: float


class RecordedBatch(Struct, frozen=True, tag=True):
    samples: int
    """The number of recorded samples."""
    refused: tuple[LoadSample, ...] = ()
    """Samples that `is_load` denies; the store leaves those out."""


class Coverage(Struct, frozen=True):
    """The steps that the store has of a series: start of the first, end of the last, number of steps with a value."""

    series: Series
    first: Nanoseconds
    last: Nanoseconds
    steps: int


def is_load(at: Nanoseconds, value: float) -> bool:
    """Whether a value can be a load: 0 <= value <= 3.4e38, at an instant from 1970 to 2262."""
    return 0 <= value <= _LOAD_MAX and 0 <= at < INSTANT_END
