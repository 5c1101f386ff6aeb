"""
The requests to a worker and its responses: values that are sent between processes.

This module owns two rules: the part of an object's spec that a fit depends on, and the masking of its history. It
imports neither numpy nor pandas, because the controller reads and writes these values.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import Mode, Span, Spec
from cronhpa.history.database.address import PortableAddress
from cronhpa.history.database.database import Fault
from cronhpa.history.database.series import MINUTES_KEPT, STEP, STEPS_KEPT, Series
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.load.packing import little_endian
from cronhpa.history.store import Store

# The format of a stored fit. Raise the number if states of older releases cannot be read: all series are fitted anew.
MODEL = "Policy/3"
# Why a fitted series is not forecast; valid until its next fit.
NOTHING_TO_GAIN = "NothingToGain"
_WEEK: Nanoseconds = 7 * DAY
_JSON = msgspec.json.Encoder(order="sorted")


class ForecastTarget(Struct, frozen=True):
    """A series and its object."""

    series: Series
    spec: Spec
    start_up: Nanoseconds | None = None
    """How long the target's pods take to become Ready. None while unknown."""
    request: int | None = None
    """Request of one pod for the metric, milli-units. None while unknown."""
    left_out: tuple[Span, ...] = ()
    """Spans that fits and the daily evaluation do without: see `core/forecasts/left_out`."""

    @property
    def ignored(self) -> tuple[Span, ...]:
        """What nothing is made from, not even the newest forecast."""
        return self.spec.forecast.ignored if self.spec.forecast is not None else ()

    @property
    def unlearnt(self) -> tuple[Span, ...]:
        """What is not learnt from."""
        return (*self.ignored, *self.left_out)

    @property
    def of_forecasts(self) -> ForecastTarget:
        """What forecasts read of it. Fits alone read schedules, where the days of calendars may take megabytes."""
        return replace(self, spec=replace(self.spec, schedules=(), schedules_from=(), calendar_spans=()), left_out=())


class TrainingData(Struct, frozen=True):
    """The history of a subject."""

    subject: ForecastTarget
    first: Nanoseconds
    """Begin of the first step."""
    highs: bytes
    """
    Maxima of the steps, NaN for a gap or an ignored span, as little-endian doubles, which numpy reads without a copy.
    """
    minutes: bytes = b""
    """Maxima of the single minutes of the last nine days, as little-endian floats of 32 bits."""
    before: bytes = b""
    """The encoded last fit."""
    spent_percent: float | None = None
    """Pod-hours that the forecast added over the last seven days."""


class FitResult(Struct, frozen=True):
    fits: list[tuple[Fit, list[tuple[Series, FitInfo]]]]
    """The fits, each with its series."""
    absent: list[tuple[Series, Absent]]
    """The series without a fit, with reasons."""


class DaskCluster(Struct, frozen=True):
    """
    The address of a dask cluster's scheduler. For tls:// also three files: the authority's certificates, the client's
    certificate and its key.
    """

    scheduler: str
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class WorkerRequest(Struct, frozen=True):
    """A task for a worker."""

    store: PortableAddress
    """The address of the store."""
    subjects: list[ForecastTarget]
    now: Nanoseconds
    cluster: DaskCluster | None = None
    """The cluster that computes the fits; None: the worker does."""


class FitResponse(Struct, frozen=True):
    """The result of a round of fits."""

    fits: list[tuple[Series, FitInfo]]
    absent: list[tuple[Series, Absent]]
    fault: Fault | None
    """Why the fits could not be stored."""


class ForecastResponse(Struct, frozen=True):
    answers: list[tuple[Series, Forecast | Absent]]
    """The forecast of each series, or why there is none."""
    fault: Fault | None
    """Why the forecasts could not be stored."""


def digest(spec: Spec) -> str:
    """
    A digest of all inputs of a fit in a spec and in this release.

    Mode, override and ended events of the spec are not among them.
    """
    settings = spec.forecast and replace(spec.forecast, mode=Mode.ACTIVE)
    # What is left out takes effect with the fit of the next day.
    plain = replace(spec, override=None, mode=Mode.ACTIVE, forecast=settings, calendar_spans=(), calendar_problems=())
    return blake2b(_JSON.encode((MODEL, plain)), digest_size=8).hexdigest()


def gather(store: Store, subjects: Sequence[ForecastTarget], now: Nanoseconds) -> list[TrainingData]:
    """The history of each subject up to `now`, in complete steps. Raises StoreError if it cannot be read."""
    end = now - now % STEP
    before = {
        series: fit.state
        for fit, members in store.fits.newest([subject.series for subject in subjects])
        for series in members
    }
    pasts = []
    for subject in subjects:
        first, highs = store.loads.history(subject.series, end - STEPS_KEPT, end)
        extra, base = store.spend.total(subject.series, now - _WEEK, now)
        pasts.append(
            TrainingData(
                subject,
                first,
                little_endian(masked(first, highs, subject.unlearnt)).tobytes(),
                little_endian(_minutes(store, subject, end)).tobytes(),
                before.get(subject.series, b""),
                100 * extra / base if base else None,
            )
        )
    return pasts


def _minutes(store: Store, subject: ForecastTarget, end: Nanoseconds) -> array[float]:
    """The maxima of the single minutes before `end`, NaN for a gap or an ignored span."""
    first = end - MINUTES_KEPT
    out = array("f", [math.nan]) * (MINUTES_KEPT // MINUTE)
    known_from, highs = store.loads.minute_history(subject.series, first, end)
    begin = (known_from - first) // MINUTE
    out[begin : begin + len(highs)] = array("f", masked(known_from, highs, subject.unlearnt, MINUTE))
    return out


def keep(store: Store, lessons: FitResult) -> FitResponse:
    """Write fits to the store."""
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
