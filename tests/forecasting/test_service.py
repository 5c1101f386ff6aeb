"""The operator's side: what it keeps, what it survives, what it never imports."""

import asyncio
import itertools
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.observation import Absent
from cronhpa.core.spec import ForecastSettings, MetricTarget, Mode, Override, ResourceMetric, Span, Spec, TargetRef
from cronhpa.forecasting import messages as subject
from cronhpa.forecasting import service as module
from cronhpa.forecasting.messages import (
    DaskCluster,
    FitResponse,
    ForecastResponse,
    ForecastTarget,
    WorkerRequest,
    digest,
)
from cronhpa.forecasting.pool import ProcessPool
from cronhpa.forecasting.service import ForecastService, fit
from cronhpa.history.database import Fault
from cronhpa.history.fits import Fit, FitInfo
from cronhpa.history.series import STEP, Series
from cronhpa.history.store import Store

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
WEB, API, JOBS = (Series("shop", name, "cpu") for name in ("web", "api", "jobs"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


@pytest.fixture
async def made():
    """A way to make forecasters that are closed at the end."""
    open_ones = []

    def make(path, **settings):
        settings = {"fit_task": learns_all, **settings}
        open_ones.append(ForecastService(path, time.monotonic, **settings))
        return open_ones[-1]

    yield make
    for each in open_ones:
        await each.close()


def remember(path, *series, until=MIDNIGHT):
    store = Store(path)
    for each in series:
        store.loads.backfill(
            each, [(at, 1.0 if at % DAY < 6 * HOUR else 10.0) for at in range(MIDNIGHT - 3 * DAY, until, STEP)]
        )
    store.close()


def subjects(*series, **settings):
    """A pod is scaled for one core and can carry 1.66: the jump of every morning leaves it short without a forecast."""
    metrics = (ResourceMetric("cpu", MetricTarget("AverageValue", average_value=1000)),)
    forecast = ForecastSettings(pod_capacity_percent=166, **settings)
    return [
        ForecastTarget(
            each, Spec(TargetRef("apps/v1", "Deployment", each.name), 1, 9, metrics=metrics, forecast=forecast)
        )
        for each in series
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


def learns_all(payload):
    ask = msgspec.json.decode(payload, type=WorkerRequest)
    learnt = [(each.series, FitInfo(ask.now, digest(each.spec))) for each in ask.subjects]
    return msgspec.msgpack.encode(FitResponse(learnt, [], None))


def _answer(payload):
    ask = msgspec.json.decode(payload, type=WorkerRequest)
    names = [each.series for each in ask.subjects]
    return names, msgspec.msgpack.encode(ForecastResponse([(each, stated(each, ask.now)) for each in names], None))


def forecasts_all(payload):
    return _answer(payload)[1]


def learns_and_cannot_keep_it_while_the_disk_is_full(payload):
    ask = msgspec.json.decode(payload, type=WorkerRequest)
    studied = msgspec.msgpack.decode(learns_all(payload), type=FitResponse)
    full = Path(ask.store).with_name("full").exists()
    return msgspec.msgpack.encode(FitResponse(studied.fits, [], Fault("disk is full") if full else None))


def learns_nothing_of_web(payload):
    studied = msgspec.msgpack.decode(learns_all(payload), type=FitResponse)
    learnt = [pair for pair in studied.fits if pair[0] != WEB]
    absent = [(each, Absent("Learning", "1 h of 48")) for each, _ in studied.fits if each == WEB]
    return msgspec.msgpack.encode(FitResponse(learnt, absent, None))


def gains_nothing_with_jobs(payload):
    """And notes in a file who was asked about."""
    ask = msgspec.json.decode(payload, type=WorkerRequest)
    names = [each.series.name for each in ask.subjects]
    with Path(ask.store).with_name("asked").open("a") as asked:
        asked.write(" ".join(names) + "\n")
    nothing = Absent("NothingToGain", "of 0 minutes none")
    answers = [(each.series, nothing if each.series == JOBS else stated(each.series, ask.now)) for each in ask.subjects]
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


def dies_learning_jobs(payload):
    dies_on_jobs(payload)
    return learns_all(payload)


def tells_its_environment(payload):
    told = "/".join(
        [os.environ["OPENBLAS_NUM_THREADS"], str(os.nice(0)), ("numpy" in sys.modules and "numpy") or "no numpy"]
    )
    return msgspec.msgpack.encode(ForecastResponse([(Series(told, "", "cpu"), stated(WEB, 0))], None))


def tells_its_process(payload):
    time.sleep(0.2)
    told = Series(str(os.getpid()), "", "cpu")
    return msgspec.msgpack.encode(ForecastResponse([(told, stated(WEB, 0))], None))


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
    assert [MIDNIGHT, MIDNIGHT] == [forecaster.latest(each).issued_at for each in (JOBS, WEB)]


async def test_what_was_never_asked_for_is_learning(path, made):
    assert "Learning" == made(path).latest(WEB).reason


async def test_a_restarted_operator_begins_with_what_was_stored(path, made):
    remember(path, WEB)
    store = Store(path)
    store.fits.save(Fit("m", MIDNIGHT, MIDNIGHT, b""), {WEB: FitInfo(MIDNIGHT, digest(subjects(WEB)[0].spec))})
    store.forecasts.save([(WEB, stated(WEB, MIDNIGHT - DAY)), (WEB, stated(WEB, MIDNIGHT))])
    store.close()
    forecaster = made(path, fit_task=dies_learning_jobs, forecast_task=forecasts_all)

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


async def test_a_worker_that_hangs_is_killed_and_costs_its_own_forecasts_only(path, made):
    workers = ProcessPool(1)
    forecaster = made(path, workers=workers, forecast_task=hangs_on_jobs)
    await forecaster.fit(subjects(WEB), MIDNIGHT)
    (hung,) = workers.pids

    forecaster._deadline_seconds = 0.5
    await forecaster.fit(subjects(JOBS), MIDNIGHT)
    problems = forecaster.problems
    forecaster._deadline_seconds = 60
    await forecaster.fit(subjects(API), MIDNIGHT)

    assert ("forecast of shop/jobs cpu: no answer within 0.5 s",) == problems
    assert "cpu could not be forecast: no answer within 0.5 s" == forecaster.latest(JOBS).message
    assert [stated(WEB, MIDNIGHT), stated(API, MIDNIGHT)] == [forecaster.latest(each) for each in (WEB, API)]
    assert not is_running(hung)


async def test_the_loop_goes_on_while_a_worker_hangs(path, made):
    forecaster = made(path, forecast_task=hangs_on_jobs, deadline_seconds=2)
    turns = []

    async def turn():
        while True:
            turns.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.02)

    turning = asyncio.create_task(turn())
    await forecaster.fit(subjects(JOBS), MIDNIGHT)
    turning.cancel()

    assert max(later - earlier for earlier, later in itertools.pairwise(turns)) < 1


async def test_learning_takes_hardly_any_time_of_the_process_that_decides(path, made):
    """Thirty fits of three days take a worker a second or so; here they are bytes in and bytes out."""
    many = [Series("shop", f"web-{i}", "cpu") for i in range(30)]
    remember(path, WEB, *many)
    forecaster = made(path, fit_task=fit)
    await forecaster.fit(subjects(WEB), MIDNIGHT)  # the start of the process

    began = time.process_time()
    await forecaster.fit(subjects(*many), MIDNIGHT)

    assert time.process_time() - began < 0.2
    assert all(isinstance(forecaster.latest(each), Forecast) for each in many)


@pytest.mark.parametrize("task", [dies_on_jobs, raises_on_jobs])
async def test_a_series_that_breaks_the_worker_costs_the_others_one_round(path, made, task):
    """All in one task: the first round is lost to all three, the second to the guilty one only."""
    three = subjects(WEB, JOBS, API)
    forecaster = made(path, forecast_task=task)

    await forecaster.fit(three, MIDNIGHT)
    first = [forecaster.latest(each) for each in (WEB, JOBS, API)]
    await forecaster.refresh(three, MIDNIGHT + MINUTE)

    assert ["ForecastFailed"] * 3 == [absent.reason for absent in first]
    assert stated(WEB, MIDNIGHT + MINUTE) == forecaster.latest(WEB)
    assert stated(API, MIDNIGHT + MINUTE) == forecaster.latest(API)
    assert "ForecastFailed" == forecaster.latest(JOBS).reason
    assert ["forecast of shop/jobs cpu"] == [problem.partition(":")[0] for problem in forecaster.problems[1:]]


async def test_what_failed_alone_is_left_alone_for_ten_minutes(path, made):
    forecaster = made(path, fit_task=dies_learning_jobs, forecast_task=forecasts_all)
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
    forecaster = made(path, fit_task=learns_and_cannot_keep_it_while_the_disk_is_full, forecast_task=forecasts_all)
    found = []

    for minutes in (0, 9, 10):
        await forecaster.fit(subjects(WEB), MIDNIGHT + minutes * MINUTE)
        path.with_name("full").unlink(missing_ok=True)
        found.append((forecaster.problems, type(forecaster.latest(WEB))))

    assert [(("disk is full",), Absent), ((), Absent), ((), Forecast)] == found


async def test_what_was_put_off_before_the_clock_stepped_back_is_not_put_off_for_a_day(path, made):
    """A suspect waits for ten minutes, who is learning for ten seconds: not for a day and that."""
    forecaster = made(path, forecast_task=raises_on_jobs, fit_task=learns_nothing_of_web)
    rounds = []

    for now in (MIDNIGHT, MIDNIGHT - DAY):
        await forecaster.fit(subjects(JOBS, WEB), now)
        await forecaster.refresh(subjects(JOBS), now)
        rounds.append((len(forecaster.problems), forecaster._next_fit_at[WEB] - now < MINUTE))

    assert [(1, True), (1, True)] == rounds


async def test_a_fit_that_fails_costs_no_forecast_that_there_is(path, made):
    """The fit of the day before goes on being forecast from."""
    remember(path, JOBS)
    store = Store(path)
    store.fits.save(Fit("m", MIDNIGHT - 2 * DAY, MIDNIGHT, b""), {JOBS: FitInfo(MIDNIGHT - 2 * DAY, "of before")})
    store.forecasts.save([(JOBS, stated(JOBS, MIDNIGHT - MINUTE))])
    store.close()
    forecaster = made(path, fit_task=dies_learning_jobs, forecast_task=forecasts_all)

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
    assert all(isinstance(forecaster.latest(each), Forecast) for each in many)


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
    fitted = []
    for minutes, changes in enumerate(({}, {"mode": Mode.PREVIEW}, {"budget_percent": 2})):
        await forecaster.fit(subjects(WEB, **changes), MIDNIGHT + minutes * MINUTE)
        fitted.append(forecaster._fits[WEB].fitted_at)

    assert [MIDNIGHT, MIDNIGHT, MIDNIGHT + 2 * MINUTE] == fitted


async def test_a_fit_that_another_release_made_is_made_anew_at_once(path, made, monkeypatch):
    """It cannot be forecast from: until the daily turn there would be no forecast."""
    remember(path, WEB)
    with monkeypatch.context() as earlier:
        earlier.setattr(subject, "MODEL", "ErrorMixture/0")
        learnt = FitInfo(MIDNIGHT, digest(subjects(WEB)[0].spec))
        store = Store(path)
        store.fits.save(Fit("ErrorMixture/0", MIDNIGHT, MIDNIGHT, b""), {WEB: learnt})
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
    assert [here.latest(each) for each in (WEB, API)] == [there.latest(each) for each in (WEB, API)]


async def test_a_cluster_that_is_not_there_costs_no_forecast_that_there_is(path, made):
    remember(path, WEB)
    forecaster = made(path, fit_task=fit, forecast_task=forecasts_all, cluster=DaskCluster("tcp://127.0.0.1:9"))
    forecaster._latest[WEB] = stated(WEB, MIDNIGHT - MINUTE)

    await forecaster.fit(subjects(WEB), MIDNIGHT)

    assert stated(WEB, MIDNIGHT - MINUTE) == forecaster.latest(WEB)
    assert "Timed out trying to connect to tcp://127.0.0.1:9" in forecaster.problems[0]


async def test_the_worker_is_nice_and_has_one_thread_for_algebra_before_numpy_is_there(path, made):
    forecaster = made(path, forecast_task=tells_its_environment)

    await forecaster.fit(subjects(WEB), MIDNIGHT)

    niceness = min(os.nice(0) + 10, 19)
    assert isinstance(forecaster.latest(Series(f"1/{niceness}/no numpy", "", "cpu")), Forecast)


async def test_without_the_forecast_extra_it_abstains_and_says_what_to_install(path, made, monkeypatch):
    monkeypatch.setattr(module, "WORKER_NEEDS", ("msgspec", "no_such_package"))
    workers = ProcessPool(1)
    forecaster = made(path, workers=workers)

    await forecaster.fit(subjects(WEB), MIDNIGHT)

    assert "NotInstalled" == forecaster.latest(WEB).reason
    assert "no_such_package is not installed: install cronhpa[forecast]" in forecaster.latest(WEB).message
    assert () == workers.pids


def test_the_controller_imports_no_pandas_numpy_or_method():
    names = ("forecasting.service", "history.database", "history.files", "cli.history", "operator.app")
    modules = ", ".join(f"cronhpa.{name}" for name in names)
    unwanted = {"pandas", "numpy", "scipy", "statsmodels", "distributed", "pyarrow", "cronhpa_models"}
    check = f"import sys, {modules}; print(sorted({unwanted} & set(sys.modules)))"

    assert "[]\n" == subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True).stdout


def test_the_worker_imports_pandas_and_statsmodels_only_for_a_method_that_needs_them():
    """They would take a second and 120 MB of each worker; the operator's own methods need neither."""
    check = (
        "import sys, cronhpa.forecasting.worker; print(sorted({'pandas', 'statsmodels', 'scipy'} & set(sys.modules)))"
    )

    assert "[]\n" == subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True).stdout


_OPERATOR = """
import asyncio, sys, time
from pathlib import Path
from cronhpa.core.spec import ForecastSettings, Spec, TargetRef
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.series import Series
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.pool import ProcessPool
async def main():
    workers = ProcessPool(1)
    forecaster = ForecastService(Path(sys.argv[1]), time.monotonic, workers=workers)
    web = Series("shop", "web", "cpu")
    spec = Spec(TargetRef("apps/v1", "Deployment", "web"), 1, 9, forecast=ForecastSettings())
    await forecaster.fit([ForecastTarget(web, spec)], 10**18)
    wanted = {"pandas", "numpy", "cronhpa_models"} & set(sys.modules)
    print(*workers.pids, forecaster.latest(web).reason, sorted(wanted), flush=True)
    await asyncio.sleep(60)
if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_worker_does_not_outlive_an_operator_that_was_killed(path, tmp_path):
    script = tmp_path / "as_operator.py"
    script.write_text(_OPERATOR)
    operator = subprocess.Popen([sys.executable, str(script), str(path)], stdout=subprocess.PIPE, text=True)
    pid, reason, modules = operator.stdout.readline().split(maxsplit=2)

    operator.kill()
    operator.wait()

    assert ("NoPodLoad", "[]\n") == (reason, modules)
    deadline = time.monotonic() + 5
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(pid)


def is_running(pid):
    """A zombie that nobody has waited for yet is not running."""
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
