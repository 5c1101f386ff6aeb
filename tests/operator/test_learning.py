"""cronhpa.operator.learning: a budget that ends, a past that is fetched, a spend that is kept."""

import asyncio
import time
from collections import deque
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import pytest
from lives import Life, condition, cronhpa, deployment, status, until
from model_api import ModelApi
from msgspec.structs import replace
from virtual_time import live

from core.situations import forecast, queued, spec
from cronhpa.core.decide import decide
from cronhpa.core.forecasts.left_out import around_today, left_out
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, from_datetime
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.spec import (
    CronWindow,
    DateRange,
    Days,
    ForecastSettings,
    MetricTarget,
    ResourceMetric,
    Schedule,
    Spec,
    TargetRef,
)
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import Series
from cronhpa.history.imports.prometheus import Prometheus
from cronhpa.history.load.spend import HourlySpend, Spend
from cronhpa.history.store import Store
from cronhpa.kube.clock import Clock
from cronhpa.operator.learning import Learning, LearningPauses
from cronhpa.operator.loop.budget_trackers import BudgetTrackers
from cronhpa.operator.objects.object_state import ObjectState
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

    life.forecasts.forecast = latest


def test_a_forecast_that_costs_too_much_in_a_day_waits_and_the_target_goes_back():
    """
    Two pods would do, the forecast asks for four: 12 % of a day, 5.76 pod-hours, are spent after 2.88 hours of two pods
    more.
    """

    async def scenario():
        api = shop()
        async with Life(api) as life:
            foreseeing(life, 3.5)
            await until(2.5 * 3600)
            assert (4, "Forecast/cpu") == (status(api)["desiredReplicas"], status(api)["decision"]["decidedBy"])
            assert "Acting" == condition(api, "ForecastActive")["reason"]
            used = status(api)["forecast"]["budgetUsedPermille"]
            await until(3.1 * 3600)

            spent = condition(api, "ForecastActive")
            assert ("False", "BudgetSpent") == (spent["status"], spent["reason"])
            assert "2.4 x the 5 % of budgetPercent" in spent["message"]
            assert 2 == status(api)["desiredReplicas"]
        # 2.5 h of 168 h, twice the pods: 14.9 permille.
        assert 14 <= used <= 15

    live(scenario)


def test_a_budget_that_is_raised_lets_the_forecast_act_again():
    async def scenario():
        api = shop()
        async with Life(api) as life:
            foreseeing(life, 3.5)
            await until(3.4 * 3600)
            api.edit("cronhpas", "prod", "shop", spec={"forecast": {"budgetPercent": 50}})
            await until(3.45 * 3600)
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
            return {(sample.series.name, sample.series.metric, sample.value) for sample in life.loads()}

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


def learning(path, **more):
    """What learns, with nothing to learn from but what is given."""
    given = {"objects": (), "loads": deque(), "budgets": BudgetTrackers(), **more}
    pauses = LearningPauses(flush=0.01, backfill=0.01)
    return Learning(path, Clock(time.time_ns, time.monotonic), None, pauses=pauses, **given)


async def test_what_was_spent_is_kept_over_a_restart(tmp_path):
    hour = time.time_ns() // HOUR
    earlier, later = BudgetTrackers(), BudgetTrackers()
    earlier.restore([Spend(SHOP, hour, 3600.0, 7200.0)])

    await lived(learning(tmp_path / "history.db", budgets=earlier).keep_history(), lambda: stored(tmp_path) != [])
    assert later.used_permille(SHOP) is None
    keeping = learning(tmp_path / "history.db", budgets=later).keep_history()
    await lived(keeping, lambda: later.used_permille(SHOP) is not None)

    assert [Spend(SHOP, hour, 3600.0, 7200.0)] == stored(tmp_path)


async def test_an_object_that_is_made_anew_has_no_new_budget(tmp_path):
    """
    An hour of 100,000 pod-seconds more, of a week of 36,000 an hour: 17 permille. Found: who deleted an object, or its
    `forecast`, and made it again had a whole budget.
    """
    now = time.time_ns()
    budgets = BudgetTrackers()
    budgets.restore([Spend(SHOP, now // HOUR - 1, 100_000.0, 36_000.0)])
    asking = spec(forecast=ForecastSettings())
    observation = queued(20, current=2)

    def reconcile(at):
        decision = decide(asking, observation, None, Memory(), at)
        budgets.count(SHOP, asking, observation, Memory(), decision, at)
        budgets.limit(SHOP, asking, forecast(2, 2, metric="cpu", issued_at=at, start=at), at)
        return budgets.used_permille(SHOP)

    def is_known_again():
        return bool(stored(tmp_path)) and budgets.hours(SHOP) > 0 and not budgets.unread(1)

    budgets.forget(SHOP)
    assert 0 == reconcile(now)
    assert [SHOP] == budgets.unread(1)
    await lived(learning(tmp_path / "history.db", budgets=budgets).keep_history(), is_known_again)

    assert round(1000 * 100_000 / (168 * 36_000)) == reconcile(now + 2 * MINUTE)


async def test_a_spend_that_cannot_be_read_once_keeps_the_history_open(tmp_path, monkeypatch):
    """Found: the history was given up for a minute, and nothing was written meanwhile."""
    budgets, reads, of = BudgetTrackers(), [], HourlySpend.of
    asking, observation, now = spec(forecast=ForecastSettings()), queued(20, current=2), time.time_ns()
    budgets.count(SHOP, asking, observation, Memory(), decide(asking, observation, None, Memory(), now), now)

    def away_once(*given):
        reads.append(given)
        if len(reads) == 1:
            raise StoreError("away")
        return of(*given)

    monkeypatch.setattr(HourlySpend, "of", away_once)
    keeping = learning(tmp_path / "history.db", budgets=budgets).keep_history()
    await lived(keeping, lambda: not budgets.unread(1))

    assert 2 == len(reads)


async def test_a_store_that_fails_is_closed_before_it_is_opened_anew(tmp_path, monkeypatch):
    """Found: each failure left a connection open, and for the minute until the next one loads went to it."""
    opened = []

    def open_store(path):
        store = Store(path)
        close = store.close
        monkeypatch.setattr(store, "close", lambda: (opened.remove(store), close()))
        opened.append(store)
        return store

    def fail(*_):
        raise StoreError("away")

    monkeypatch.setattr(HourlySpend, "since", fail)
    keeper = learning(tmp_path / "history.db", open_store=open_store)
    with pytest.raises(StoreError, match="away"):
        await keeper.keep_history()

    assert ([], False) == (opened, keeper.is_open)


async def test_the_past_of_each_object_is_asked_of_prometheus_once(tmp_path):
    target = TargetRef("apps/v1", "Deployment", "shop-server")
    metrics = (ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=50)),)
    shop = ObjectState("prod", "shop", "uid", 0)
    shop.served.parsed.expanded = Spec(target, 1, 9, metrics=metrics, forecast=ForecastSettings())
    path = tmp_path / "history.db"
    store = Store(path)
    async with Answering() as server:
        queries = {"cpu": "load{of='$target'}"}

        async def learned(is_over):
            """A process that keeps the history and asks Prometheus, until so much has happened."""
            process = learning(path, objects=[shop], open_prometheus=lambda: Prometheus(server.url, queries, None))
            keeping = asyncio.create_task(process.keep_history())
            await lived(process.keep_backfilled(), is_over)
            keeping.cancel()

        await learned(lambda: len(server.asked) >= 4 and store.loads.backfilled_until(SHOP) is not None)
        await learned(lambda: len(server.asked) >= 5)
    store.close()

    assert {"load{of='shop-server'}"} == {query for query, *_ in server.asked}
    starts = [start for _, start, _, _ in server.asked]
    # 28 days in four parts; after a restart the last hour and what came since.
    assert [0, 7, 14, 21] == [round((start - starts[0]) * SECOND / DAY, 2) for start in starts[:4]]
    assert 5 == len(starts)
    assert abs(time.time() - 3600 - starts[4]) < 120


async def test_the_past_of_a_source_that_is_stated_while_the_operator_runs_is_asked_by_its_query(tmp_path):
    """The queries were those of the operator's start; a change of the file of sources needs no restart."""
    shop = ObjectState("prod", "shop", "uid", 0)
    target = TargetRef("apps/v1", "Deployment", "shop-server")
    metrics = (ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=50)),)
    shop.served.parsed.expanded = Spec(target, 1, 9, metrics=metrics, forecast=ForecastSettings())
    objects, queries = [], {}
    async with Answering() as server:
        process = learning(
            tmp_path / "history.db", objects=objects, open_prometheus=lambda: Prometheus(server.url, queries)
        )
        keeping = asyncio.create_task(process.keep_history())
        backfilling = asyncio.create_task(lived(process.keep_backfilled(), lambda: len(server.asked) >= 4))
        await asyncio.sleep(0.5)
        queries["cpu"] = "load{of='$target'}"
        objects.append(shop)
        await backfilling
        keeping.cancel()

    assert {"load{of='shop-server'}"} == {query for query, *_ in server.asked}


def stored(folder):
    store = Store(folder / "history.db")
    try:
        return store.spend.since(0)
    finally:
        store.close()


async def lived(work, is_over):
    """Runs work that never ends until so much has happened, and a little longer: what must not follow would."""
    task = asyncio.create_task(work)
    deadline = time.monotonic() + 120
    while not is_over() and time.monotonic() < deadline:  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert is_over()


def test_the_objects_that_ask_for_a_forecast_are_known_without_a_look_at_the_others():
    """Of three objects one asks for it from the first, one since an edit, and one not any more; then one is deleted."""

    async def scenario():
        api = ModelApi()
        for name, asked in (("first", {}), ("edited", None), ("former", {})):
            deployment(api, name)
            cronhpa(api, name, forecast=asked)
        names = []
        async with Life(api) as life:
            asking = life.controller.forecast_objects.values()
            await until(1)
            names.append({state.name for state in asking})
            api.edit("cronhpas", "prod", "edited", spec={"forecast": {}})
            api.edit("cronhpas", "prod", "former", spec={"forecast": None})
            await until(2)
            names.append({state.name for state in asking})
            api.delete("cronhpas", "prod", "first")
            await until(3)
            names.append({state.name for state in asking})
        return names

    assert [{"first", "former"}, {"first", "edited"}, {"edited"}] == live(scenario)


def closed(number):
    """An object whose 50 schedules are closed on 40 days each, all in other ones; on 1 January it is closed today."""
    begin = date(2026, 1, 1)
    days = [
        [DateRange(day, day) for day in (begin + timedelta(number + k + 2 * n) for n in range(40))] for k in range(50)
    ]
    window = CronWindow("0 8 * * *", "UTC", end="0 9 * * *")
    schedules = [Schedule(f"s{k}", replace(window, exclude=Days(tuple(of)))) for k, of in enumerate(days)]
    target = TargetRef("apps/v1", "Deployment", f"shop-{number}")
    written = Spec(target, 1, 9, schedules=tuple(schedules), forecast=ForecastSettings())
    memory = SimpleNamespace(lead_start_up=lambda _spec: None, request_per_pod={})
    served, local = SimpleNamespace(spec=written), SimpleNamespace(memory=memory)
    return SimpleNamespace(served=served, local=local, load_series=Series("prod", target.name, "cpu"))


class Fitting:
    """A service that is asked for fits, and takes none."""

    problems = ()

    def __init__(self):
        self.asked = []

    async def fit(self, targets, _now):
        self.asked.append(targets)


async def test_what_a_day_leaves_out_of_fits_is_worked_out_beside_the_event_loop(tmp_path):
    """100 objects, 2,000 ranges each. Found: 500 of them held the event loop for three seconds, each midnight."""
    service, at = Fitting(), from_datetime(datetime(2026, 1, 1, tzinfo=UTC))
    clock = Clock(lambda: at, time.monotonic)
    given = {"objects": [closed(number) for number in range(100)], "loads": deque(), "budgets": BudgetTrackers()}
    process = Learning(tmp_path / "history.db", clock, service, **given)

    loop, whole = time.thread_time(), time.process_time()
    keeping = asyncio.create_task(process.keep_fits())
    while not service.asked:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.02)
    loop, whole = time.thread_time() - loop, time.process_time() - whole
    keeping.cancel()

    (targets,) = service.asked
    assert [left_out(one.spec, around_today(at)) for one in targets] == [one.left_out for one in targets]
    assert 100 == len(targets)
    assert targets[0].left_out
    assert loop < whole / 4
