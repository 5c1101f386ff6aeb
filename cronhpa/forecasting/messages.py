"""
What a worker is asked about, and what it answers: values that cross the border of a process.

Owns which part of an object's spec a fit depends on, and how its history is masked. Imports no pandas: the controller
reads and writes these.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, MINUTE, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.spec import Mode, Span, Spec
from cronhpa.history.address import PostgresAddress
from cronhpa.history.database import Fault
from cronhpa.history.fits import Fit, FitInfo
from cronhpa.history.packing import little_endian
from cronhpa.history.series import MINUTES_KEPT, STEP, STEPS_KEPT, Series
from cronhpa.history.store import Store

# What a fit is kept as. Raise the number where states of an older release cannot be read any more: all are learnt anew.
MODEL = "Policy/2"
# The reason why a series that was learnt is not forecast: it holds until it is learnt anew.
NOTHING_TO_GAIN = "NothingToGain"
_WEEK: Nanoseconds = 7 * DAY
_JSON = msgspec.json.Encoder(order="sorted")


class ForecastTarget(Struct, frozen=True):
    """
    A series, and the object whose load it is.

    start_up: how long the target's pods take to become Ready. request: what one asks for of the metric, milli-units.
    Both None while unknown.
    """

    series: Series
    spec: Spec
    start_up: Nanoseconds | None = None
    request: int | None = None

    @property
    def ignored(self) -> tuple[Span, ...]:
        return self.spec.forecast.ignored if self.spec.forecast is not None else ()


class TrainingData(Struct, frozen=True):
    """
    The history of a subject: maxima of the steps from `first` on, NaN for a gap and where it must not be learned from.

    highs: little-endian doubles, as numpy reads them without a copy. minutes: maxima of the single minutes of the last
    nine days, little-endian floats of 32 bits. before: what the last round kept for this one, as the worker wrote it.
    spent_percent: what the forecast added to the pod-hours of the last seven days.
    """

    subject: ForecastTarget
    first: Nanoseconds
    highs: bytes
    minutes: bytes = b""
    before: bytes = b""
    spent_percent: float | None = None


class FitResult(Struct, frozen=True):
    """What was learnt: fits with those that they are of, and why others have none."""

    fits: list[tuple[Fit, list[tuple[Series, FitInfo]]]]
    absent: list[tuple[Series, Absent]]


class DaskCluster(Struct, frozen=True):
    """
    Where the scheduler of a dask cluster is, and for a tls:// one the files that prove who is who: those of the
    authority's certificates, of one of its certificates and of its key.
    """

    scheduler: str
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class WorkerRequest(Struct, frozen=True):
    """
    What goes to a worker.

    store: the path of a file, or where a PostgreSQL is. cluster: on which fits are computed; None: in the worker
    itself.
    """

    store: str | PostgresAddress
    subjects: list[ForecastTarget]
    now: Nanoseconds
    cluster: DaskCluster | None = None


class FitResponse(Struct, frozen=True):
    """What came of a round of learning, and why it could not be kept in the store."""

    fits: list[tuple[Series, FitInfo]]
    absent: list[tuple[Series, Absent]]
    fault: Fault | None


class ForecastResponse(Struct, frozen=True):
    """A value for each series, and why it could not be kept in the store."""

    answers: list[tuple[Series, Forecast | Absent]]
    fault: Fault | None


def digest(spec: Spec) -> str:
    """
    A short name of all in a spec, and in this release, that a fit depends on.

    Whether it acts and an override do not matter.
    """
    settings = spec.forecast and replace(spec.forecast, mode=Mode.ACTIVE)
    plain = replace(spec, override=None, mode=Mode.ACTIVE, forecast=settings)
    return blake2b(_JSON.encode((MODEL, plain)), digest_size=8).hexdigest()


def gather(store: Store, subjects: Sequence[ForecastTarget], now: Nanoseconds) -> list[TrainingData]:
    """The complete steps before `now` of each. Raises StoreError where they cannot be read."""
    end = now - now % STEP
    before = {
        each: fit.state for fit, members in store.fits.newest([one.series for one in subjects]) for each in members
    }
    pasts = []
    for subject in subjects:
        first, highs = store.loads.history(subject.series, end - STEPS_KEPT, end)
        extra, base = store.spend.total(subject.series, now - _WEEK)
        pasts.append(
            TrainingData(
                subject,
                first,
                little_endian(masked(first, highs, subject.ignored)).tobytes(),
                little_endian(_minutes(store, subject, end)).tobytes(),
                before.get(subject.series, b""),
                100 * extra / base if base else None,
            )
        )
    return pasts


def _minutes(store: Store, subject: ForecastTarget, end: Nanoseconds) -> array[float]:
    """The maxima of the single minutes before `end`, NaN for a gap and where they must not be learned from."""
    first = end - MINUTES_KEPT
    out = array("f", [math.nan]) * (MINUTES_KEPT // MINUTE)
    known_from, highs = store.loads.minute_history(subject.series, first, end)
    begin = (known_from - first) // MINUTE
    out[begin : begin + len(highs)] = array("f", masked(known_from, highs, subject.ignored, MINUTE))
    return out


def keep(store: Store, lessons: FitResult) -> FitResponse:
    """Write what was learnt to the store."""
    fault = None
    for fit, members in lessons.fits:
        fault = store.fits.save(fit, dict(members)) or fault
    return FitResponse([member for _, members in lessons.fits for member in members], lessons.absent, fault)


def masked(first: Nanoseconds, highs: array[float], ignored: Sequence[Span], step: Nanoseconds = STEP) -> array[float]:
    """The maxima from `first` on, with a gap in every step that touches an ignored span."""
    if not ignored:
        return highs
    out = array("d", highs)
    for span in ignored:
        begin = max((span.begin - first) // step, 0)
        end = min(-(-(span.end - first) // step), len(out))
        for i in range(begin, end):
            out[i] = math.nan
    return out
