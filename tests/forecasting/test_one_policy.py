"""
cronhpa.forecasting.daily, cronhpa.forecasting.recording, cronhpa.forecasting.forecast: all ways to a policy, one floor.

The worker asks for one origin a minute from a store, a walk forward for a day at once, the benchmark for a recording.
"""

import numpy as np
import pytest

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.forecasting import policy, worker
from cronhpa.forecasting.columns import MINUTES_PER_STEP
from cronhpa.forecasting.daily import DailyWalk
from cronhpa.forecasting.messages import MODEL, WorkerRequest, gather
from cronhpa.forecasting.policy import FittedPolicy
from cronhpa.forecasting.recording import Recording
from cronhpa.forecasting.workload import workload_of
from cronhpa.history.database.series import LoadSample
from cronhpa.history.imports.files import read_points
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.store import Store
from cronhpa_models import catalog as methods
from forecasting.test_pinned_floors import LOADS, subject

NAME = "k8s_app12_cpu_1m"
FIRST_DAY, TESTED_DAY = 4, 12
ASKED_EVERY = 7


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """
    Twelve days and a half of a recorded load, as the store gives them back.

    The store keeps minutes older than three hours with eight bits: what is compared is the load that all callers know.
    """
    points = read_points(LOADS / f"{NAME}.csv.gz")
    begin = points[0][0] - points[0][0] % DAY
    target = subject(NAME, points)
    end = begin + TESTED_DAY * DAY + DAY // 2
    store = Store(tmp_path_factory.mktemp("store") / "history.db")
    store.loads.record(
        [LoadSample(target.series, at, value) for at, value in points if begin + FIRST_DAY * DAY <= at < end]
    )
    store.compact(end + 4 * HOUR)
    first, highs = store.loads.minute_history(target.series, begin + FIRST_DAY * DAY, end)
    assert first == begin + FIRST_DAY * DAY
    minutes = np.array(highs, np.float32).astype(np.float64)  # as they go to a worker
    store.close()
    return target, Recording(first, minutes.reshape(-1, 5).max(axis=1), minutes)


@pytest.fixture(scope="module")
def walked(recording):
    target, load = recording
    return DailyWalk(load, target).day(load.row(load.begin + (TESTED_DAY - FIRST_DAY) * DAY))


@pytest.mark.slow
def test_the_worker_forecasts_each_minute_what_the_day_as_a_whole_asks_for(recording, walked, tmp_path):
    target, load = recording
    begin = load.begin + (TESTED_DAY - FIRST_DAY) * DAY
    store = Store(tmp_path / "history.db")
    first_minute = (begin - load.begin) // MINUTE
    store.loads.record([sample(target, load, row) for row in range(first_minute)])
    assert isinstance(walked.fitted, FittedPolicy)
    state = worker.encode_states({target.series: walked.fitted})
    store.fits.save(Fit(MODEL, begin, begin, state), {target.series: FitInfo(begin, "", b"")})
    answers = {}
    for minute in range(0, 720, ASKED_EVERY):
        store.loads.record(
            [sample(target, load, first_minute + row) for row in range(max(minute - ASKED_EVERY, 0), minute)]
        )
        now = begin + minute * MINUTE
        ((_, answers[minute]),) = worker.forecast(WorkerRequest(str(store.address), [target], now)).answers

    assert all(isinstance(answer, Forecast) for answer in answers.values())
    assert len({answer.load[0] for answer in answers.values()}) > 5, "a forecast that never moves proves nothing"
    expected = {minute: float(walked.provisioned.load[0, minute]) for minute in answers}
    assert expected == {minute: answer.load[0] for minute, answer in answers.items()}
    levels = [(walked.provisioned.replicas, walked.provisioned.load), *walked.provisioned.by_budget_level]
    provisioned = {m: [float(load[0, m]) if replicas[0, m] > 0 else 0.0 for replicas, load in levels] for m in answers}
    assert provisioned == {
        m: [answer.provisioned_load[0], *(load[0] for load in answer.loads_by_budget_level)]
        for m, answer in answers.items()
    }
    assert {m: round(100 * walked.provisioned.level[0, m]) for m in answers} == {
        m: answer.quantile_percent for m, answer in answers.items()
    }
    assert {m: float(walked.provisioned.ceiling[m]) for m in answers} == {
        m: answer.ceiling for m, answer in answers.items()
    }


@pytest.mark.slow
def test_the_worker_fits_what_the_walk_fits(recording, tmp_path):
    target, load = recording
    row = load.row(load.begin + (TESTED_DAY - FIRST_DAY) * DAY)
    store = Store(tmp_path / "history.db")
    store.loads.record([sample(target, load, minute) for minute in range(row * MINUTES_PER_STEP)])
    now = load.calendar(row)

    result = worker.fit_all(gather(store, [target], now), now)

    ((fit, _),) = result.fits
    catalog = methods.default()
    walked = policy.fit(load.history(row), target, workload_of(target), catalog, now)
    assert worker.encode_states({target.series: walked}) == fit.state


def sample(target, load, row):
    """A load measured within a minute of the recording."""
    return LoadSample(target.series, load.begin + row * MINUTE + 30 * SECOND, float(load.minutes[row]))
