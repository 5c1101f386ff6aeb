"""The operator's side: what it keeps, what it survives, what it never imports."""

import asyncio
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, MINUTE, parse_instant
from cronhpa.learning import forecaster as module
from cronhpa.learning.forecaster import Answers, Forecaster, Work
from cronhpa.learning.store import STEP, Sample, Series, Store

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
        open_ones.append(Forecaster(path, **settings))
        return open_ones[-1]

    yield make
    for each in open_ones:
        await each.close()


def remember(path, *series, until=MIDNIGHT):
    store = Store(path)
    for each in series:
        store.backfill(each, [(at, 4.0) for at in range(MIDNIGHT - 3 * DAY, until, STEP)])
    store.close()


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


# What follows runs in the worker, found there by its name: forecasts for all but the series it is about.


def _answer(payload):
    work = msgspec.msgpack.decode(payload, type=Work)
    return work, msgspec.msgpack.encode(Answers([(each, stated(each, work.now)) for each in work.series], None))


def hangs_on_jobs(payload):
    work, answers = _answer(payload)
    if JOBS in work.series:
        time.sleep(3600)
    return answers


def dies_on_jobs(payload):
    work, answers = _answer(payload)
    if JOBS in work.series:
        os._exit(1)
    return answers


def raises_on_jobs(payload):
    work, answers = _answer(payload)
    if JOBS in work.series:
        raise ZeroDivisionError("by zero")
    return answers


def tells_its_environment(_payload):
    told = "/".join(
        [os.environ["OPENBLAS_NUM_THREADS"], str(os.nice(0)), ("numpy" in sys.modules and "numpy") or "no numpy"]
    )
    return msgspec.msgpack.encode(Answers([(Series(told, "", "cpu"), stated(WEB, 0))], None))


async def test_a_forecast_comes_back_from_the_worker_and_is_answered_from_memory(path, made):
    remember(path, WEB)
    forecaster = made(path)

    await forecaster.refresh([WEB, API], MIDNIGHT)

    assert pytest.approx(4.0) == forecaster.latest(WEB).load[0]
    assert MIDNIGHT == forecaster.latest(WEB).issued_at
    assert "Learning" == forecaster.latest(API).reason
    assert () == forecaster.problems


async def test_what_was_never_asked_for_is_learning(path, made):
    assert "Learning" == made(path).latest(WEB).reason


async def test_a_restarted_operator_begins_with_what_was_stored(path, made):
    store = Store(path)
    store.record([Sample(WEB, MIDNIGHT, 1.0)])
    store.save_forecasts([(WEB, stated(WEB, MIDNIGHT - DAY)), (WEB, stated(WEB, MIDNIGHT))])
    store.close()

    assert stated(WEB, MIDNIGHT) == made(path).latest(WEB)


async def test_a_store_that_cannot_be_opened_is_a_problem_and_not_the_end(path, made):
    path.write_text("no database\n" * 1000)
    forecaster = made(path)

    assert "a SQLite file written by cronhpa is needed" in forecaster.problems[0]
    await forecaster.refresh([WEB], MIDNIGHT)
    assert "ForecastFailed" == forecaster.latest(WEB).reason
    assert "StoreError" in forecaster.problems[0]


async def test_a_worker_that_hangs_is_killed_and_costs_its_own_forecasts_only(path, made):
    forecaster = made(path, ask=hangs_on_jobs)
    await forecaster.refresh([WEB], MIDNIGHT)
    hung = forecaster._worker_pid

    forecaster._deadline_seconds = 0.5
    await forecaster.refresh([JOBS], MIDNIGHT)
    problems = forecaster.problems
    forecaster._deadline_seconds = 60
    await forecaster.refresh([API], MIDNIGHT)

    assert ("forecast of shop/jobs cpu: no answer within 0.5 s",) == problems
    assert "cpu could not be forecast: no answer within 0.5 s" == forecaster.latest(JOBS).message
    assert [stated(WEB, MIDNIGHT), stated(API, MIDNIGHT)] == [forecaster.latest(each) for each in (WEB, API)]
    assert not is_running(hung)


async def test_the_loop_goes_on_while_a_worker_hangs(path, made):
    forecaster = made(path, ask=hangs_on_jobs, deadline_seconds=2)
    turns = []

    async def turn():
        while True:
            turns.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.02)

    turning = asyncio.create_task(turn())
    await forecaster.refresh([JOBS], MIDNIGHT)
    turning.cancel()

    assert max(later - earlier for earlier, later in itertools.pairwise(turns)) < 1


@pytest.mark.parametrize("ask", [dies_on_jobs, raises_on_jobs])
async def test_a_series_that_breaks_the_worker_costs_the_others_one_refresh(path, made, ask):
    """All in one chunk: the first refresh is lost to all three, the second to the guilty one only."""
    forecaster = made(path, ask=ask)

    await forecaster.refresh([WEB, JOBS, API], MIDNIGHT)
    first = [forecaster.latest(each) for each in (WEB, JOBS, API)]
    await forecaster.refresh([WEB, JOBS, API], MIDNIGHT + MINUTE)

    assert ["ForecastFailed"] * 3 == [absent.reason for absent in first]
    assert stated(WEB, MIDNIGHT + MINUTE) == forecaster.latest(WEB)
    assert stated(API, MIDNIGHT + MINUTE) == forecaster.latest(API)
    assert "ForecastFailed" == forecaster.latest(JOBS).reason
    assert 1 == len(forecaster.problems)


async def test_a_failed_refresh_leaves_the_earlier_forecast_to_grow_old(path, made):
    store = Store(path)
    store.record([Sample(JOBS, MIDNIGHT, 1.0)])
    store.save_forecasts([(JOBS, stated(JOBS, MIDNIGHT))])
    store.close()
    forecaster = made(path, ask=raises_on_jobs)

    await forecaster.refresh([JOBS], MIDNIGHT + MINUTE)

    assert stated(JOBS, MIDNIGHT) == forecaster.latest(JOBS)
    assert ("forecast of shop/jobs cpu: ZeroDivisionError: by zero",) == forecaster.problems


async def test_the_worker_is_nice_and_has_one_thread_for_algebra_before_numpy_is_there(path, made):
    forecaster = made(path, ask=tells_its_environment)

    await forecaster.refresh([WEB], MIDNIGHT)

    niceness = min(os.nice(0) + 10, 19)
    assert isinstance(forecaster.latest(Series(f"1/{niceness}/no numpy", "", "cpu")), Forecast)


async def test_without_the_forecast_extra_it_abstains_and_says_what_to_install(path, made, monkeypatch):
    monkeypatch.setattr(module, "_WORKER_NEEDS", ("msgspec", "no_such_package"))
    forecaster = made(path)

    await forecaster.refresh([WEB], MIDNIGHT)

    assert "NotInstalled" == forecaster.latest(WEB).reason
    assert "no_such_package are not installed: install cronhpa[forecast]" in forecaster.latest(WEB).message
    assert forecaster._pool is None


def test_the_controller_imports_no_pandas_numpy_or_method():
    modules = "cronhpa.learning.forecaster, cronhpa.learning.store, cronhpa.learning.history, cronhpa.cli.history"
    unwanted = {"pandas", "numpy", "scipy", "statsmodels", "cronhpa_models"}
    check = f"import sys, {modules}; print(sorted({unwanted} & set(sys.modules)))"

    assert "[]\n" == subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True).stdout


_OPERATOR = """
import asyncio, sys
from pathlib import Path
from cronhpa.learning.forecaster import Forecaster
from cronhpa.learning.store import Series
async def main():
    forecaster = Forecaster(Path(sys.argv[1]))
    await forecaster.refresh([Series("shop", "web", "cpu")], 10**18)
    wanted = {"pandas", "numpy", "cronhpa_models"} & set(sys.modules)
    print(forecaster._worker_pid, forecaster.latest(Series("shop", "web", "cpu")).reason, sorted(wanted), flush=True)
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

    assert ("Learning", "[]\n") == (reason, modules)
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
