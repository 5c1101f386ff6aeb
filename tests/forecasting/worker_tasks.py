"""What the tests of the operator's side have in common: series, and tasks that stand in for those of the workers."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, parse_instant
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.forecasting.messages import FitResponse, ForecastResponse, ForecastTarget, WorkerRequest, digest
from cronhpa.history.database.database import Fault
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.load.fits import FitInfo
from cronhpa.history.store import Store

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
WEB, API, JOBS = (Series("shop", name, "cpu") for name in ("web", "api", "jobs"))


def remember(path, *series, until=MIDNIGHT):
    store = Store(path)
    for member in series:
        store.loads.backfill(
            member, [(at, 1.0 if at % DAY < 6 * HOUR else 10.0) for at in range(MIDNIGHT - 3 * DAY, until, STEP)]
        )
    store.close()


def subjects(*series, **settings):
    """A pod is scaled for one core and can carry 1.66: the jump of every morning leaves it short without a forecast."""
    metrics = (ResourceMetric("cpu", MetricTarget("AverageValue", average_value=1000)),)
    forecast = ForecastSettings(pod_capacity_percent=166, **settings)
    return [
        ForecastTarget(
            member, Spec(TargetRef("apps/v1", "Deployment", member.name), 1, 9, metrics=metrics, forecast=forecast)
        )
        for member in series
    ]


def stated(series, now, load=1.0):
    return Forecast(
        metric=series.metric,
        issued_at=now,
        start=now,
        step=STEP,
        load=(load,),
        ceiling=2.0,
        model="test",
        quantile_percent=95,
        trained_until=now,
    )


# What follows runs in the worker, found there by its name: answers for all but the series it is about.


def fits_all(payload):
    ask = msgspec.json.decode(payload, type=WorkerRequest)
    fits = [(subject.series, FitInfo(ask.now, digest(subject.spec))) for subject in ask.subjects]
    return msgspec.msgpack.encode(FitResponse(fits, [], None))


def _answer(payload):
    ask = msgspec.json.decode(payload, type=WorkerRequest)
    names = [subject.series for subject in ask.subjects]
    return names, msgspec.msgpack.encode(ForecastResponse([(name, stated(name, ask.now)) for name in names], None))


def forecasts_all(payload):
    return _answer(payload)[1]


def fits_and_cannot_keep_it_while_the_disk_is_full(payload):
    ask = msgspec.json.decode(payload, type=WorkerRequest)
    fitted = msgspec.msgpack.decode(fits_all(payload), type=FitResponse)
    full = Path(ask.store).with_name("full").exists()
    return msgspec.msgpack.encode(FitResponse(fitted.fits, [], Fault("disk is full") if full else None))


def fits_nothing_of_web(payload):
    fitted = msgspec.msgpack.decode(fits_all(payload), type=FitResponse)
    fits = [pair for pair in fitted.fits if pair[0] != WEB]
    absent = [(series, Absent("Learning", "1 h of 48")) for series, _ in fitted.fits if series == WEB]
    return msgspec.msgpack.encode(FitResponse(fits, absent, None))


def gains_nothing_with_jobs(payload):
    """And notes in a file who was asked about."""
    ask = msgspec.json.decode(payload, type=WorkerRequest)
    names = [subject.series.name for subject in ask.subjects]
    with Path(ask.store).with_name("asked").open("a") as asked:
        asked.write(" ".join(names) + "\n")
    nothing = Absent("NothingToGain", "of 0 minutes none")
    answers = [
        (subject.series, nothing if subject.series == JOBS else stated(subject.series, ask.now))
        for subject in ask.subjects
    ]
    return msgspec.msgpack.encode(ForecastResponse(answers, None))


def hangs_on_jobs(payload):
    names, answers = _answer(payload)
    if JOBS in names:
        time.sleep(3600)
    return answers


def dies_on_jobs(payload):
    names, answers = _answer(payload)
    if JOBS in names:
        os._exit(1)
    return answers


def raises_on_jobs(payload):
    names, answers = _answer(payload)
    if JOBS in names:
        raise ZeroDivisionError("by zero")
    return answers


def dies_fitting_jobs(payload):
    dies_on_jobs(payload)
    return fits_all(payload)


def tells_its_environment(payload):
    told = "/".join(
        [os.environ["OPENBLAS_NUM_THREADS"], str(os.nice(0)), ("numpy" in sys.modules and "numpy") or "no numpy"]
    )
    return msgspec.msgpack.encode(ForecastResponse([(Series(told, "", "cpu"), stated(WEB, 0))], None))


def tells_its_process(payload):
    time.sleep(0.2)
    told = Series(str(os.getpid()), "", "cpu")
    return msgspec.msgpack.encode(ForecastResponse([(told, stated(WEB, 0))], None))


def is_running(pid):
    """A zombie that nobody has waited for yet is not running."""
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it is opened, or before it is read
        return False


# A method's import counts as time of its first fit; on a busy machine that of statsmodels took more than the 30 s.
_PATIENT_SECONDS = 600.0


def fits_patiently(payload):
    """The fit of the operator's worker, whatever a busy machine makes of its seconds."""
    from cronhpa.forecasting import worker  # it brings numpy, which the workers of other tests must not find

    return msgspec.msgpack.encode(worker.fit(msgspec.json.decode(payload, type=WorkerRequest), _PATIENT_SECONDS))


def forecasts_patiently(payload):
    from cronhpa.forecasting import worker

    return msgspec.msgpack.encode(worker.forecast(msgspec.json.decode(payload, type=WorkerRequest), _PATIENT_SECONDS))
