"""The operator's side of forecasts: what it asks the workers, what it keeps, and when it asks again."""

import sqlite3
import time
from contextlib import closing
from datetime import date, timedelta

import msgspec
import pytest

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, MINUTE, SECOND, parse_instant
from cronhpa.core.model.spec import CronWindow, DateRange, Days, Mode, Override, Schedule, Span
from cronhpa.forecasting import messages as subject
from cronhpa.forecasting.messages import DaskCluster, WorkerRequest, digest
from cronhpa.forecasting.service import fit
from cronhpa.history.database.series import Series
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.store import Store
from forecasting.worker_tasks import (
    API,
    JOBS,
    MIDNIGHT,
    WEB,
    dies_fitting_jobs,
    fits_all,
    forecasts_all,
    gains_nothing_with_jobs,
    remember,
    stated,
    subjects,
    tells_its_process,
)


async def test_a_forecast_comes_back_from_the_worker_and_is_answered_from_memory(path, made):
    remember(path, WEB)
    forecaster = made(path, fit_task=fit)

    await forecaster.fit(subjects(WEB, API), MIDNIGHT)
    first = forecaster.latest(WEB)
    await forecaster.refresh(subjects(WEB, API), MIDNIGHT + MINUTE)

    assert pytest.approx(1.0, rel=0.1) == first.load[0]
    assert [MIDNIGHT, MIDNIGHT + MINUTE] == [first.issued_at, forecaster.latest(WEB).issued_at]
    assert "Learning" == forecaster.latest(API).reason
    assert () == forecaster.problems


async def test_what_lasts_until_the_end_of_all_years_ends_no_round(path, made):
    """An override and a span to be ignored until 9999, in nanoseconds, need 68 bits."""
    end = parse_instant("9999-12-31T23:59:59Z")
    (one,) = subjects(JOBS, ignored=(Span(MIDNIGHT, end),))
    for_good = Override(until=end, reason="for good", floor=1)
    asked = [msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, override=for_good)), *subjects(WEB)]
    remember(path, JOBS, WEB)
    forecaster = made(path, fit_task=fit)

    await forecaster.fit(asked, MIDNIGHT)

    assert () == forecaster.problems
    assert [MIDNIGHT, MIDNIGHT] == [forecaster.latest(series).issued_at for series in (JOBS, WEB)]


async def test_what_was_never_asked_for_is_learning(path, made):
    assert "Learning" == made(path).latest(WEB).reason


async def test_a_restarted_operator_begins_with_what_was_stored(path, made):
    remember(path, WEB)
    store = Store(path)
    store.fits.save(Fit("m", MIDNIGHT, MIDNIGHT, b""), {WEB: FitInfo(MIDNIGHT, digest(subjects(WEB)[0].spec))})
    store.forecasts.save([(WEB, stated(WEB, MIDNIGHT - DAY)), (WEB, stated(WEB, MIDNIGHT))])
    store.close()
    forecaster = made(path, fit_task=dies_fitting_jobs, forecast_task=forecasts_all)

    assert stated(WEB, MIDNIGHT) == forecaster.latest(WEB)
    await forecaster.fit(subjects(WEB), MIDNIGHT + MINUTE)
    assert stated(WEB, MIDNIGHT) == forecaster.latest(WEB)  # fitted a minute ago: nobody's turn
    await forecaster.refresh(subjects(WEB), MIDNIGHT + MINUTE)
    assert stated(WEB, MIDNIGHT + MINUTE) == forecaster.latest(WEB)


@pytest.mark.parametrize("value", [7, "no forecast", b"no forecast"])
async def test_a_stored_forecast_that_is_none_is_a_problem_and_not_the_end(path, made, value):
    store = Store(path)
    store.forecasts.save([(WEB, stated(WEB, MIDNIGHT))])
    store.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE forecast SET value = ?", (value,))

    forecaster = made(path)

    assert 1 == len(forecaster.problems)
    assert "Learning" == forecaster.latest(WEB).reason


async def test_a_store_that_cannot_be_opened_is_a_problem_and_not_the_end(path, made):
    path.write_text("no database\n" * 1000)
    forecaster = made(path, fit_task=fit)

    assert "a SQLite file written by cronhpa is needed" in forecaster.problems[0]
    await forecaster.fit(subjects(WEB), MIDNIGHT)
    assert "ForecastFailed" == forecaster.latest(WEB).reason
    assert "file is not a database" in forecaster.problems[-1]


async def test_who_is_learning_is_looked_at_again_after_ten_seconds_and_an_import_counts_then(path, made):
    forecaster = made(path, fit_task=fit)
    await forecaster.fit(subjects(WEB), MIDNIGHT)
    remember(path, WEB)

    await forecaster.fit(subjects(WEB), MIDNIGHT + 9 * SECOND)
    early = forecaster.latest(WEB)
    await forecaster.fit(subjects(WEB), MIDNIGHT + 11 * SECOND)

    assert "Learning" == early.reason
    assert isinstance(forecaster.latest(WEB), Forecast)


async def test_an_edit_that_matters_brings_a_new_fit_and_one_that_does_not_brings_none(path, made):
    forecaster = made(path, forecast_task=forecasts_all)
    fits = []
    for minutes, changes in enumerate(({}, {"mode": Mode.PREVIEW}, {"budget_percent": 2})):
        await forecaster.fit(subjects(WEB, **changes), MIDNIGHT + minutes * MINUTE)
        fits.append(forecaster.work.fits)

    assert [1, 1, 2] == fits


async def test_a_fit_that_another_release_made_is_made_anew_at_once(path, made, monkeypatch):
    """It cannot be forecast from: until the daily turn there would be no forecast."""
    remember(path, WEB)
    with monkeypatch.context() as earlier:
        earlier.setattr(subject, "MODEL", "ErrorMixture/0")
        fits = FitInfo(MIDNIGHT, digest(subjects(WEB)[0].spec))
        store = Store(path)
        store.fits.save(Fit("ErrorMixture/0", MIDNIGHT, MIDNIGHT, b""), {WEB: fits})
        store.close()
    forecaster = made(path, fit_task=fit)

    await forecaster.fit(subjects(WEB), MIDNIGHT + MINUTE)

    assert MIDNIGHT + MINUTE == forecaster.latest(WEB).issued_at


async def test_who_has_nothing_to_gain_is_not_asked_about_until_it_is_learnt_anew(path, made):
    forecaster = made(path, forecast_task=gains_nothing_with_jobs)
    remember(path, WEB, JOBS)

    await forecaster.fit(subjects(WEB, JOBS), MIDNIGHT)
    for minute in (1, 2):
        await forecaster.refresh(subjects(WEB, JOBS), MIDNIGHT + minute * MINUTE)
    await forecaster.fit(subjects(JOBS, budget_percent=50), MIDNIGHT + 3 * MINUTE)

    assert ["jobs web", "web", "web", "jobs"] == path.with_name("asked").read_text().splitlines()


async def test_the_first_forecast_of_a_series_is_told_and_no_later_one(path, made):
    told = []
    forecaster = made(path, forecast_task=forecasts_all, on_first=told.append)

    await forecaster.fit(subjects(WEB), MIDNIGHT)
    await forecaster.refresh(subjects(WEB), MIDNIGHT + MINUTE)

    assert [WEB] == told


async def test_learning_rests_for_as_long_as_it_worked_at_a_share_of_half(path, made):
    forecaster = made(path, forecast_task=tells_its_process, share_percent=50)
    await forecaster.fit(subjects(API), MIDNIGHT)  # the start of the process

    began = time.monotonic()
    await forecaster.fit(subjects(WEB), MIDNIGHT)

    assert 0.4 <= time.monotonic() - began  # 0.2 s of work, as much of rest


@pytest.mark.long
async def test_fits_of_a_dask_cluster_are_those_of_the_worker_here(path, tmp_path, made):
    """A scheduler and a worker in this process, reached over TCP as any other."""
    from distributed import LocalCluster  # it brings numpy, which the workers of other tests must not find

    remember(path, WEB)
    remember(tmp_path / "other.db", WEB)
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as dask:
        here = made(path, fit_task=fit)
        there = made(tmp_path / "other.db", fit_task=fit, cluster=DaskCluster(dask.scheduler_address))
        await here.fit(subjects(WEB, API), MIDNIGHT)
        await there.fit(subjects(WEB, API), MIDNIGHT)

    assert isinstance(here.latest(WEB), Forecast)
    assert [here.latest(series) for series in (WEB, API)] == [there.latest(series) for series in (WEB, API)]


async def test_a_cluster_that_is_not_there_costs_no_forecast_that_there_is(path, made):
    remember(path, WEB)
    with closing(Store(path)) as store:
        store.forecasts.save([(WEB, stated(WEB, MIDNIGHT - MINUTE))])
    forecaster = made(path, fit_task=fit, forecast_task=forecasts_all, cluster=DaskCluster("tcp://127.0.0.1:9"))

    await forecaster.fit(subjects(WEB), MIDNIGHT)

    assert stated(WEB, MIDNIGHT - MINUTE) == forecaster.latest(WEB)
    assert "Timed out trying to connect to tcp://127.0.0.1:9" in forecaster.problems[0]


class Encoded:
    """Workers that keep the requests to them, and answer as those of `worker_tasks` do."""

    width = 1

    def __init__(self):
        self.fits, self.forecasts = [], []

    async def run(self, task, payload, _seconds):
        (self.fits if task is fits_all else self.forecasts).append(payload)
        return task(payload)

    async def close(self):
        pass


def of_calendars(*series):
    """
    50 schedules that share 250 days: as JSON 50 * 250 * 54 bytes, 675 kB a series.

    In memory the days of a calendar are there once, whatever names them.
    """
    begin = date(2026, 1, 1)
    days = Days(tuple(DateRange(day, day) for day in (begin + timedelta(2 * number) for number in range(250))))
    schedules = tuple(
        Schedule(f"s{n}", CronWindow("0 8 * * *", "UTC", end="0 9 * * *", exclude=days)) for n in range(50)
    )
    replace = msgspec.structs.replace
    return [replace(one, spec=replace(one.spec, schedules=schedules)) for one in subjects(*series)]


async def test_a_forecast_is_asked_without_the_days_that_schedules_have_of_calendars(path, made):
    """Found: with three calendars an object of 11 kB took 2 MB of a request, and 120 of them all memory of a worker."""
    workers = Encoded()
    forecaster = made(path, workers=workers, forecast_task=forecasts_all)

    await forecaster.fit(of_calendars(WEB, API), MIDNIGHT)
    await forecaster.refresh(of_calendars(WEB, API), MIDNIGHT + MINUTE)

    plain = [len(msgspec.json.encode(one)) for one in subjects(WEB, API)]
    assert 2 == len(workers.forecasts)
    assert all(len(payload) < sum(plain) + 500 for payload in workers.forecasts)


async def test_a_task_of_fits_is_cut_where_its_series_take_megabytes(path, made):
    """Ten of 0.7 MB, of which six are 4 MiB: the request of a cluster's 500 series would take 350 MB."""
    workers = Encoded()
    forecaster = made(path, workers=workers, forecast_task=forecasts_all)
    ten = [Series("shop", f"web-{number}", "cpu") for number in range(10)]

    await forecaster.fit(of_calendars(*ten), MIDNIGHT)

    asked = [msgspec.json.decode(payload, type=WorkerRequest).subjects for payload in workers.fits]
    assert ten == [one.series for task in asked for one in task]
    assert all(len(payload) < 2**22 + 500 for payload in workers.fits)
    assert 2 == len(workers.fits)
