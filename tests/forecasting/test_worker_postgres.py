"""What a worker does with a store in PostgreSQL: what it does with a file."""

from contextlib import closing

import pytest

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, parse_instant
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.forecasting import worker
from cronhpa.forecasting.messages import ForecastTarget, WorkerRequest
from cronhpa.history.database.address import PostgresAddress
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.store import Store

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
WEB = Series("shop", "web", "cpu")


@pytest.mark.slow
def test_a_policy_is_fitted_and_forecast_from_postgresql_as_from_a_file(tmp_path, new_schema):
    """One core until 06:00, ten after: a forecast at 05:55 that is the same to the last bit, kept in both stores."""
    metrics = (ResourceMetric("cpu", MetricTarget("AverageValue", average_value=1000)),)
    settings = ForecastSettings(pod_capacity_percent=166)
    target = ForecastTarget(
        WEB, Spec(TargetRef("apps/v1", "Deployment", "web"), 1, 99, metrics=metrics, forecast=settings)
    )
    at = MIDNIGHT + 6 * HOUR - STEP
    made = []
    for address, told in (((path := tmp_path / "history.db"), str(path)), ((schema := new_schema()), schema)):
        with closing(Store(address)) as store:
            past = range(MIDNIGHT - 9 * DAY, at, STEP)
            store.loads.backfill(WEB, [(one, 1.0 if one % DAY < 6 * HOUR else 10.0) for one in past])
            fitted = worker.fit(WorkerRequest(told, [target], MIDNIGHT))
            answer = worker.forecast(WorkerRequest(told, [target], at))
            assert (None, None) == (fitted.fault, answer.fault)
            assert dict(answer.answers) == store.forecasts.newest()
            made.append(dict(answer.answers)[WEB])

    assert isinstance(made[0], Forecast)
    assert made[0] == made[1]


def test_a_store_that_cannot_be_opened_is_a_fault_without_an_answer():
    request = WorkerRequest(PostgresAddress("postgresql://app:geheim@127.0.0.1:1/x"), [], MIDNIGHT)

    answers = worker.fit(request), worker.forecast(request)

    assert [[], []] == [answers[0].fits, answers[1].answers]
    assert all("postgresql://127.0.0.1:1/x" in answer.fault.message for answer in answers)
    assert all("geheim" not in answer.fault.message for answer in answers)
