"""What forecasts cost, counted reconciliation by reconciliation."""

from msgspec.structs import replace

from core.situations import NOW, forecast, spec
from cronhpa.core.decide import decide
from cronhpa.core.model.instant import HOUR, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, PodCounts, Scale
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, PodsMetric
from cronhpa.history.database.series import Series
from cronhpa.history.load.spend import Spend
from cronhpa.operator.loop.budget_trackers import BudgetTrackers

SHOP = Series("prod", "shop", "requests")
HOUR_NOW = NOW // HOUR
FORECAST = replace(
    forecast(150, 150, metric="requests", issued_at=NOW, start=NOW),
    loads_by_budget_level=((120.0, 120.0), (110.0, 110.0), (105.0, 105.0)),
)


def of(budget=5):
    metric = PodsMetric("requests", MetricTarget("AverageValue", average_value=10_000))
    return spec(metrics=(metric,), forecast=ForecastSettings(budget_percent=budget))


def reconciliation(budgets, now, pods, *, load=100, foreseen=150):
    """A load of 100 needs ten pods, one of 150 fifteen."""
    tally = PodCounts(
        ready=pods, unready=0, missing=0, counted=pods, matched=pods, usage=load * 1000, request=0,
        missing_usage=0, missing_request=0, unready_request=0, load=load * 1000,
    )  # fmt: skip
    observation = Observation(Scale(pods, pods, "app=shop"), (tally,))
    told = forecast(foreseen, foreseen, metric="requests", issued_at=now, start=now)
    decision = decide(of(), observation, told, Memory(), now)
    budgets.count(SHOP, of(), observation, Memory(), decision, now)
    return decision.desired


def test_pods_above_the_shadow_are_counted_from_reconciliation_to_reconciliation():
    """Ten at the first reconciliation, fifteen by the forecast for the next two: 2 x 15 s of five pods more."""
    budgets, pods = BudgetTrackers(), 10
    for tick in range(4):
        pods = reconciliation(budgets, NOW + tick * 15 * SECOND, pods)

    assert [Spend(SHOP, HOUR_NOW, 3 * 15 * 5.0, 3 * 15 * 10.0)] == budgets.drain()
    assert [] == budgets.drain()


def test_a_long_pause_is_nobodys_pods():
    """Four periods of 15 s count, five do not."""
    budgets = BudgetTrackers()
    for at in (0, 60, 135):
        reconciliation(budgets, NOW + at * SECOND, 10, foreseen=0)

    assert [Spend(SHOP, HOUR_NOW, 0.0, 600.0)] == budgets.drain()


def test_an_unreadable_scale_counts_nothing():
    budgets = BudgetTrackers()
    unreadable = Observation(Absent("FailedGetScale", "gone"), ())

    budgets.count(SHOP, of(), unreadable, Memory(), decide(of(), unreadable, None, Memory(), NOW), NOW)

    assert [] == budgets.drain()


def test_a_budget_that_is_spent_is_told_with_its_numbers_and_kept_over_a_restart():
    """Ten pods for a week, and one more all the time: a tenth, twice a budget of 5 %."""
    budgets = BudgetTrackers()
    budgets.load(Spend(SHOP, HOUR_NOW - i, 3600.0, 36_000.0) for i in range(168, -1, -1))

    assert (
        "the forecast added 10.0 % pod-hours over the last seven days: it pauses from 6 % on, "
        "1.2 x the 5 % of budgetPercent" == budgets.limit(SHOP, of(), FORECAST, NOW).message
    )
    assert 100 == budgets.used_permille(SHOP)
    assert FORECAST == BudgetTrackers().limit(SHOP, of(), FORECAST, NOW)


def test_a_budget_that_lasts_is_no_reason_to_wait():
    budgets = BudgetTrackers()
    budgets.load(Spend(SHOP, HOUR_NOW - i, 3600.0, 36_000.0) for i in range(168, -1, -1))

    assert FORECAST == budgets.limit(SHOP, of(budget=20), FORECAST, NOW)


def test_near_its_budget_the_forecast_is_that_of_dearer_pods():
    """A tenth was used: of a budget of 11 % that is 91 %, of 10 % all of it, of 9 % 111 %, of 8 % 125 %."""
    budgets = BudgetTrackers()
    budgets.load(Spend(SHOP, HOUR_NOW - i, 3600.0, 36_000.0) for i in range(168, -1, -1))

    levels = FORECAST.loads_by_budget_level
    assert levels[0] == budgets.limit(SHOP, of(budget=11), FORECAST, NOW).provisioned_load
    assert levels[1] == budgets.limit(SHOP, of(budget=10), FORECAST, NOW + HOUR // 2).provisioned_load
    assert levels[2] == budgets.limit(SHOP, of(budget=9), FORECAST, NOW + 3 * HOUR // 4).provisioned_load
    assert "BudgetSpent" == budgets.limit(SHOP, of(budget=8), FORECAST, NOW + HOUR).reason


def test_what_the_store_could_not_write_is_written_the_next_time():
    budgets = BudgetTrackers()
    for at in (0, 15):
        reconciliation(budgets, NOW + at * SECOND, 10, foreseen=0)
    budgets.restore(budgets.drain())
    reconciliation(budgets, NOW + 30 * SECOND, 10, foreseen=0)

    assert [Spend(SHOP, HOUR_NOW, 0.0, 300.0)] == budgets.drain()


def test_what_is_older_than_a_week_is_let_go():
    budgets = BudgetTrackers()
    budgets.load(Spend(SHOP, HOUR_NOW - i, 1.0, 1.0) for i in range(400, -1, -1))

    assert 168 == budgets.hours(SHOP)


def test_a_forgotten_object_begins_anew():
    budgets = BudgetTrackers()
    budgets.load([Spend(SHOP, HOUR_NOW, 3600.0, 1.0)])

    budgets.forget(SHOP)

    assert (FORECAST, None) == (budgets.limit(SHOP, of(), FORECAST, NOW), budgets.used_permille(SHOP))
