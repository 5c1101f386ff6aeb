"""cronhpa.forecasting.service: workers that hang, die or raise, full disks and clocks that step back."""

import asyncio

import psutil
import pytest

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, MINUTE
from cronhpa.core.model.observation import Absent
from cronhpa.forecasting.pool import ProcessPool
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
    dies_on_jobs,
    fits_and_cannot_keep_it_while_the_disk_is_full,
    forecasts_all,
    hangs_on_jobs,
    is_running,
    raises_on_jobs,
    remember,
    stated,
    subjects,
)


async def test_a_worker_that_hangs_is_killed_and_costs_its_own_forecasts_only(path, made):
    workers = ProcessPool(1, "forecasting.worker_tasks")
    await workers.run(bytes, b"", 600)  # its start takes longer than the five seconds on a busy machine
    forecaster = made(path, workers=workers, forecast_task=hangs_on_jobs, deadline_seconds=5)
    await forecaster.fit(subjects(WEB), MIDNIGHT)
    (hung,) = workers.pids

    await forecaster.fit(subjects(JOBS), MIDNIGHT)
    problems = forecaster.problems
    await forecaster.fit(subjects(API), MIDNIGHT)

    assert ("forecast of shop/jobs cpu: no answer within 5 s",) == problems
    assert "cpu could not be forecast: no answer within 5 s" == forecaster.latest(JOBS).message
    assert [stated(WEB, MIDNIGHT), stated(API, MIDNIGHT)] == [forecaster.latest(series) for series in (WEB, API)]
    assert not is_running(hung)


async def test_the_loop_goes_on_while_a_worker_hangs(path, made):
    forecaster = made(path, forecast_task=hangs_on_jobs, deadline_seconds=2)
    passes = 0

    async def count():
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0.02)

    counting = asyncio.create_task(count())
    await forecaster.fit(subjects(JOBS), MIDNIGHT)
    counting.cancel()

    # A hundred on a quiet machine; one or two if the loop waited for the worker.
    assert passes > 10


async def test_learning_takes_hardly_any_time_of_the_process_that_decides(path, made):
    """Twelve fits of three days are work for the worker; here they are bytes in and bytes out."""
    many = [Series("shop", f"web-{i}", "cpu") for i in range(12)]
    remember(path, WEB, *many)
    workers = ProcessPool(1)
    forecaster = made(path, workers=workers, fit_task=fit)
    await forecaster.fit(subjects(WEB), MIDNIGHT)  # the start of the process
    processes = [psutil.Process(), *map(psutil.Process, workers.pids)]

    began = [process.cpu_times().user for process in processes]
    await forecaster.fit(subjects(*many), MIDNIGHT)
    here, there = (process.cpu_times().user - before for process, before in zip(processes, began, strict=True))

    assert here < there / 4, (here, there)
    assert all(isinstance(forecaster.latest(series), Forecast) for series in many)


@pytest.mark.slow
@pytest.mark.parametrize("task", [dies_on_jobs, raises_on_jobs])
async def test_a_series_that_breaks_the_worker_costs_the_others_one_round(path, made, task):
    """All in one task: the first round is lost to all three, the second to the guilty one only."""
    three = subjects(WEB, JOBS, API)
    forecaster = made(path, forecast_task=task)

    await forecaster.fit(three, MIDNIGHT)
    first = [forecaster.latest(series) for series in (WEB, JOBS, API)]
    await forecaster.refresh(three, MIDNIGHT + MINUTE)

    assert ["ForecastFailed"] * 3 == [absent.reason for absent in first]
    assert stated(WEB, MIDNIGHT + MINUTE) == forecaster.latest(WEB)
    assert stated(API, MIDNIGHT + MINUTE) == forecaster.latest(API)
    assert "ForecastFailed" == forecaster.latest(JOBS).reason
    assert ["forecast of shop/jobs cpu"] == [problem.partition(":")[0] for problem in forecaster.problems[1:]]


async def test_what_failed_alone_is_left_alone_for_ten_minutes(path, made):
    forecaster = made(path, fit_task=dies_fitting_jobs, forecast_task=forecasts_all)
    rounds = []
    for minutes in (0, 9, 10):
        await forecaster.fit(subjects(JOBS), MIDNIGHT + minutes * MINUTE)
        rounds.append(len(forecaster.problems))

    assert [1, 0, 1] == rounds
    assert "cpu could not be forecast: the worker process died" == forecaster.latest(JOBS).message


async def test_a_fit_that_could_not_be_kept_is_made_again_ten_minutes_later(path, made):
    """It was counted as made: a disk that was full for an hour cost a new object a day of forecasts."""
    remember(path, WEB)
    path.with_name("full").touch()
    forecaster = made(path, fit_task=fits_and_cannot_keep_it_while_the_disk_is_full, forecast_task=forecasts_all)
    answers = []

    for minutes in (0, 9, 10):
        await forecaster.fit(subjects(WEB), MIDNIGHT + minutes * MINUTE)
        path.with_name("full").unlink(missing_ok=True)
        answers.append((forecaster.problems, type(forecaster.latest(WEB))))

    assert [(("disk is full",), Absent), ((), Absent), ((), Forecast)] == answers


async def test_a_series_that_failed_before_the_clock_stepped_back_is_not_left_alone_for_a_day(path, made):
    """It is asked for again ten minutes after its failure: not a day and ten minutes after."""
    forecaster = made(path, forecast_task=raises_on_jobs)
    failures = []

    for now in (MIDNIGHT, MIDNIGHT - DAY):
        await forecaster.fit(subjects(JOBS), now)
        failures.append(forecaster.work.forecast_failures)

    assert [1, 2] == failures


async def test_a_series_with_too_little_history_is_looked_at_again_though_the_clock_stepped_back(path, made):
    """At midnight it is put off for ten seconds; its past is imported, and the clock steps back a day."""
    forecaster = made(path, fit_task=fit)
    await forecaster.fit(subjects(WEB), MIDNIGHT)
    remember(path, WEB, until=MIDNIGHT - DAY)

    await forecaster.fit(subjects(WEB), MIDNIGHT - DAY)

    assert 1 == forecaster.work.fits


async def test_a_fit_that_fails_costs_no_forecast_that_there_is(path, made):
    """The fit of the day before goes on being forecast from."""
    remember(path, JOBS)
    store = Store(path)
    store.fits.save(Fit("m", MIDNIGHT - 2 * DAY, MIDNIGHT, b""), {JOBS: FitInfo(MIDNIGHT - 2 * DAY, "of before")})
    store.forecasts.save([(JOBS, stated(JOBS, MIDNIGHT - MINUTE))])
    store.close()
    forecaster = made(path, fit_task=dies_fitting_jobs, forecast_task=forecasts_all)

    await forecaster.fit(subjects(JOBS), MIDNIGHT)

    assert stated(JOBS, MIDNIGHT - MINUTE) == forecaster.latest(JOBS)
    assert ("fit of shop/jobs cpu: the worker process died",) == forecaster.problems


async def test_two_processes_work_side_by_side_and_one_that_dies_costs_the_other_nothing(path, made):
    workers = ProcessPool(2)
    forecaster = made(path, workers=workers, forecast_task=dies_on_jobs)
    many = [Series("shop", f"web-{i}", "cpu") for i in range(60)]
    await forecaster.fit(subjects(*many), MIDNIGHT)
    both = set(workers.pids)

    await forecaster.fit(subjects(JOBS), MIDNIGHT)

    assert 2 == len(both)
    assert 1 == len(both & set(workers.pids))
    assert all(isinstance(forecaster.latest(series), Forecast) for series in many)
