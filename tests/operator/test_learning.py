"""Learning beside the turns: a budget that ends, a past that is fetched, a spend that is kept."""

import asyncio
import time
from types import SimpleNamespace

from lives import Life, condition, cronhpa, deployment, status, until
from model_api import ModelApi, ModelClient
from virtual_time import live

from core.situations import forecast
from cronhpa.core.instant import DAY, HOUR, SECOND
from cronhpa.core.memory import Memory
from cronhpa.core.spec import ForecastSettings, Spec, TargetRef
from cronhpa.history.series import Series
from cronhpa.history.spend import Spend
from cronhpa.history.store import Store
from cronhpa.operator import app
from cronhpa.operator.app import Operator
from cronhpa.operator.settings import Settings
from forecasting.answering import Answering

SHOP = Series("prod", "shop", "cpu")


def shop(**settings):
    """Pods of one core each, half of it the target: one core needs two pods."""
    api = ModelApi()
    deployment(api, replicas=2)
    api.load["prod", "shop"] = 1000
    cronhpa(api, forecast=settings)
    return api


def foreseeing(life, cores):
    """Whenever it is asked, a forecast of now: 0.9 cores a pod."""

    def latest(series):
        now = life.api.now()
        return forecast(cores, cores, metric=series.metric, issued_at=now, start=now)

    life.operator._forecaster.latest = latest


def test_a_forecast_that_costs_too_much_in_a_day_waits_and_the_target_goes_back():
    """
    Two pods would do, the forecast asks for four: a day's share of 10 %, 4.8 pod-hours, is spent after 2.4 hours of two
    pods more.
    """

    async def scenario():
        api = shop()
        async with Life(api) as life:
            foreseeing(life, 3.5)
            await until(2.3 * 3600)
            assert (4, "Forecast/cpu") == (status(api)["desiredReplicas"], status(api)["decision"]["decidedBy"])
            assert "Acting" == condition(api, "ForecastActive")["reason"]
            used = status(api)["forecast"]["budgetUsedPermille"]
            await until(2.7 * 3600)

            spent = condition(api, "ForecastActive")
            assert ("False", "BudgetSpent") == (spent["status"], spent["reason"])
            assert "2 x the 5 % of budgetPercent are allowed" in spent["message"]
            assert 2 == status(api)["desiredReplicas"]
        # 2.3 h of 168 h, twice the pods: 13.7 permille.
        assert 13 <= used <= 14

    live(scenario)


def test_a_budget_that_is_raised_lets_the_forecast_act_again():
    async def scenario():
        api = shop()
        async with Life(api) as life:
            foreseeing(life, 3.5)
            await until(2.7 * 3600)
            api.edit("cronhpas", "prod", "shop", spec={"forecast": {"budgetPercent": 50}})
            await until(2.75 * 3600)
            assert (4, "Acting") == (status(api)["desiredReplicas"], condition(api, "ForecastActive")["reason"])

    live(scenario)


def test_a_load_that_pods_share_is_recorded_wherever_it_is_measured():
    """One core over the pods of one object, and 40 jobs that wait, ten for each pod of the other."""

    async def scenario():
        api = shop()
        jobs = {"metric": {"name": "jobs"}, "target": {"type": "AverageValue", "averageValue": "10"}}
        deployment(api, "worker", replicas=4)
        cronhpa(api, "worker", metrics=[{"type": "External", "external": jobs}])
        api.external["jobs"] = 40
        async with Life(api) as life:
            await until(20)
            return {(sample.series.name, sample.series.metric, sample.value) for sample in life.cycle.loads}

    assert {("shop", "cpu", 1.0), ("worker", "jobs", 40.0)} == live(scenario)


def test_a_forecast_in_preview_spends_nothing():
    async def scenario():
        api = shop(mode="Preview", budgetPercent=1)
        async with Life(api) as life:
            foreseeing(life, 3.5)
            await until(3 * 3600)
            assert (2, "Preview") == (status(api)["desiredReplicas"], condition(api, "ForecastActive")["reason"])
            assert 0 == status(api)["forecast"]["budgetUsedPermille"]

    live(scenario)


async def test_what_was_spent_is_kept_over_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(app, "_FLUSH_SECONDS", 0.01)
    hour = time.time_ns() // HOUR
    earlier, later = (Operator(Settings(store=tmp_path / "history.db"), ModelClient(ModelApi())) for _ in range(2))
    earlier._cycle.budgets.restore([Spend(SHOP, hour, 3600.0, 7200.0)])

    await lived(earlier._keep_history(), lambda: stored(tmp_path) != [])
    assert later._cycle.budgets.used_permille(SHOP) is None
    await lived(later._keep_history(), lambda: later._cycle.budgets.used_permille(SHOP) is not None)

    assert [Spend(SHOP, hour, 3600.0, 7200.0)] == stored(tmp_path)


async def test_the_past_of_each_object_is_asked_of_prometheus_once(tmp_path, monkeypatch):
    monkeypatch.setattr(app, "_BACKFILL_SECONDS", 0.01)
    spec = Spec(TargetRef("apps/v1", "Deployment", "shop-server"), 1, 9, metrics=(), forecast=ForecastSettings())
    async with Answering() as server:
        settings = Settings(
            store=tmp_path / "history.db", prometheus_url=server.url, prometheus_queries={"cpu": "load{of='$target'}"}
        )
        operator = Operator(settings, ModelClient(ModelApi()))
        operator._store = Store(settings.store)
        monkeypatch.setattr(app, "forecast_metric", lambda _spec: "cpu")
        operator._inventory = [SimpleNamespace(namespace="prod", name="shop", spec=spec, memory=Memory())]
        noted = lambda: operator._store.loads.backfilled_until(Series("prod", "shop", "cpu"))  # noqa: E731 - asked twice
        await lived(operator._keep_backfilled(), lambda: len(server.asked) >= 4 and noted() is not None)
        await lived(operator._keep_backfilled(), lambda: len(server.asked) >= 5)
        operator._store.close()

    assert {"load{of='shop-server'}"} == {query for query, *_ in server.asked}
    starts = [start for _, start, _, _ in server.asked]
    # 28 days in four parts; after a restart the last hour and what came since.
    assert [0, 7, 14, 21] == [round((start - starts[0]) * SECOND / DAY, 2) for start in starts[:4]]
    assert 5 == len(starts)
    assert abs(time.time() - 3600 - starts[4]) < 120


def stored(folder):
    store = Store(folder / "history.db")
    try:
        return store.spend.since(0)
    finally:
        store.close()


async def lived(work, is_over):
    """Runs work that never ends until so much has happened, and a little longer: what must not follow would."""
    task = asyncio.create_task(work)
    deadline = time.monotonic() + 30
    while not is_over() and time.monotonic() < deadline:  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert is_over()
