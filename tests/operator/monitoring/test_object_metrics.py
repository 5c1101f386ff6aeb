"""
cronhpa.operator.monitoring.object_metrics, cronhpa.operator.objects.under_provisioned,
cronhpa.operator.monitoring.families: what /metrics tells.
"""

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import CPU, Life, cronhpa, deployment, external, until
from model_api import START, Fault, ModelApi
from prometheus_client.parser import text_string_to_metric_families
from virtual_time import live

from cronhpa.api.resource.events import MAX_SCHEDULES_OF_EVENT
from cronhpa.api.resource.metrics import MAX_METRICS
from cronhpa.api.resource.schedules import MAX_SCHEDULES
from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.decision import BY_NOBODY, Decision, DecisionKind, MetricProposal
from cronhpa.core.model.forecast import Forecast, TrackRecord
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, format_instant, to_datetime
from cronhpa.core.model.observation import Absent, Observation, PodCounts, ScalarReading, Scale
from cronhpa.operator.monitoring.families import FAMILIES, OBJECT_FAMILIES, FamilyKind
from cronhpa.operator.monitoring.object_metrics import ObjectMetrics, escaped
from cronhpa.operator.objects.under_provisioned import UnderProvisioned

WINDOW = {"name": "rush", "minReplicas": 5, "leadTimeSeconds": 0}


def wall(seconds):
    return f"{to_datetime(START + seconds * SECOND):%Y-%m-%dT%H:%M}"


def shop(load=1000, **spec):
    api = ModelApi()
    deployment(api)
    api.load["prod", "shop"] = load
    cronhpa(api, **spec)
    return api


def told(make, *, after_s=5, forecast=None, **options):
    """Family -> own labels -> value, of the objects that `make` makes, after these seconds of the operator's life."""
    return parsed(exposed(make, after_s=after_s, forecast=forecast, **options))


def exposed(make, *, after_s=5, forecast=None, **options):
    texts = []

    async def scenario():
        api = make()
        async with Life(api) as life:
            if forecast is not None:
                life.forecasts.forecast = lambda _series: forecast
            await until(after_s)
            metrics = ObjectMetrics(life.inventory, life.controller.targets.ready, **options)
            texts.append(b"".join(await metrics.parts(api.now())).decode())

    live(scenario)
    return texts[0]


def parsed(text):
    samples = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix("cronhpa_object_")
            own = tuple(value for key, value in sample.labels.items() if key not in {"namespace", "name"})
            assert own not in samples[name], "a series is told once"
            samples[name][own] = sample.value
    return samples


def test_a_decided_object_is_told_in_full():
    """Two pods at 100 % of 50 %: four are asked for, and the write of four succeeds."""
    samples = told(lambda: shop(2000))

    assert {("Deployment", "shop", "Active", ""): 1} == samples["info"]
    assert (4, 1, 10, 10) == tuple(
        samples[name][()] for name in ("desired_replicas", "min_replicas", "max_replicas", "spec_max_replicas")
    )
    assert {("Metric", "cpu"): 1} == samples["decided_by"]
    assert {("Metric", "cpu", "Target"): 4} == samples["proposed_replicas"]
    assert {("cpu", "Utilization", "0"): 0.5} == samples["metric_target"]
    assert {("cpu", "Utilization", "0"): 1.0} == samples["metric_value"]
    assert {("cpu", "Utilization", "0"): 4} == samples["metric_replicas"]
    assert 1 == samples["condition"]["Ready", "True"]
    assert ("Ready", "False") not in samples["condition"]


def test_nothing_is_decided_of_an_object_that_was_never_decided_upon():
    """No pod metrics and no status yet: the count is not known to be wanted, and 0 would be a count."""

    def without_target():
        api = ModelApi()
        cronhpa(api)
        return api

    samples = told(without_target)

    assert "desired_replicas" not in samples
    assert "current_replicas" not in samples
    assert 1 == samples["condition"]["Ready", "False"]


def test_an_object_that_another_installation_serves_by_now_is_told_as_its_status_is():
    """Found: the counts that this one had decided last were told for ever, and the pods were too few all the time."""
    texts = []

    async def scenario():
        api = shop(20_000)
        async with Life(api) as life:
            await until(5)
            status = {"operator": "elsewhere/cronhpa", "currentReplicas": 7, "desiredReplicas": 9}
            api.create("leases", "elsewhere", "cronhpa", spec={"holderIdentity": "it"})
            api.edit("cronhpas", "prod", "shop", status=status)
            await until(30)
            texts.append(b"".join(await ObjectMetrics(life.inventory, lambda *_: None).parts(api.now())).decode())

    live(scenario)
    samples = parsed(texts[0])

    assert (7, 9) == (samples["current_replicas"][()], samples["desired_replicas"][()])
    assert "under_provisioned_seconds_total" not in samples
    assert {("Deployment", "shop", "Active", "elsewhere/cronhpa"): 1} == samples["info"]


def test_a_desired_count_that_cannot_be_written_differs_from_the_current_one():

    def refused():
        api = shop(2000)
        api.faults = [Fault("PATCH", "/scale$", status=403) for _ in range(9)]
        return api

    samples = told(refused)

    assert (2, 4) == (samples["current_replicas"][()], samples["desired_replicas"][()])


def test_windows_the_next_edge_and_an_override_are_instants():
    """A window from 120 s to 180 s, an override until 300 s; looked at after 130 s and after 310 s."""
    window = WINDOW | {"from": wall(120), "to": wall(180)}
    override = {"maxReplicas": 8, "until": format_instant(START + 5 * MINUTE), "reason": "INC-4711"}
    open_, over = (told(lambda: shop(schedules=[window], override=override), after_s=at) for at in (130, 310))

    assert {("rush",): 1} == open_["schedule_open"]
    assert {("rush", "Closed"): START // SECOND + 180} == open_["next_edge_timestamp_seconds"]
    assert {(): START // SECOND + 300} == open_["override_end_timestamp_seconds"]
    assert 5 == open_["min_replicas"][()]
    assert {("rush",): 0} == over["schedule_open"]
    assert "override_end_timestamp_seconds" not in over


def forecast_of(load, **fields):
    minutes = 30
    return Forecast(
        metric="cpu", issued_at=START, start=START, step=MINUTE, load=(load,) * minutes, ceiling=load * 2, model="m",
        quantile_percent=90, trained_until=START, track_record=TrackRecord(30, 60, 4.0, 7), **fields,
    )  # fmt: skip


def test_an_acting_forecast_says_what_it_asks_for_and_what_it_was_worth():
    samples = told(lambda: shop(forecast={"budgetPercent": 5}), forecast=forecast_of(3.0))

    assert {(): 1} == samples["forecast_active"]
    assert {(): 3.0} == samples["forecast_expected_load"]
    assert samples["forecast_floor_replicas"][()] == samples["proposed_replicas"]["Forecast", "cpu", "Floor"]
    assert (0.05, 0.5, 0.04) == tuple(
        samples[f"forecast_{name}"][()] for name in ("budget_ratio", "avoided_ratio", "extra_ratio")
    )
    assert {(): START // SECOND} == samples["forecast_issued_timestamp_seconds"]


def test_a_forecast_that_abstains_says_why():
    samples = told(lambda: shop(forecast={}), forecast=forecast_of(3.0, coverage_percent=40))

    assert ({(): 0}, {("CoverageLost",): 1}) == (samples["forecast_active"], samples["forecast_abstaining"])
    assert "forecast_floor_replicas" not in samples


def test_what_withholds_a_scale_down_is_counted_over_all_objects():
    """Four pods with the load of one: the window of 300 s holds the four that were there."""

    def four():
        api = shop(200)
        api.objects["deployments"]["prod", "shop"]["spec"]["replicas"] = 4
        return api

    samples = told(four, after_s=30, is_told=False)

    assert {"cronhpa_scale_downs_withheld": {("ScaleDownStabilized",): 1}} == dict(samples)


def test_objects_of_other_namespaces_are_left_out():
    def two():
        api = shop()
        deployment(api, namespace="staging")
        cronhpa(api, namespace="staging")
        return api

    assert {"staging"} == namespaces(exposed(two, namespaces=["staging"]))
    assert {"prod", "staging"} == namespaces(exposed(two))
    assert set() == namespaces(exposed(two, is_told=False))


def namespaces(text):
    families = text_string_to_metric_families(text)
    return {
        sample.labels["namespace"] for family in families for sample in family.samples if "namespace" in sample.labels
    }


def test_a_status_that_somebody_has_broken_costs_its_own_object_alone():
    """Conditions without a type, and an operator that is a number: the other object is told in full."""

    def two():
        api = shop()
        deployment(api, "other")
        cronhpa(api, "other")
        api.load["prod", "other"] = 1000
        return api

    async def scenario():
        api = two()
        async with Life(api) as life:
            await until(5)
            broken = life.inventory.items["prod", "shop"]
            broken.served.status = {"conditions": [{"status": 7}], "operator": 5}
            parts = await ObjectMetrics(life.inventory, life.controller.targets.ready).parts(api.now())
            text = b"".join(parts).decode()
        assert 'cronhpa_object_desired_replicas{namespace="prod",name="other"}' in text
        assert 'cronhpa_object_desired_replicas{namespace="prod",name="shop"}' not in text

    live(scenario)


async def passes_of(objects, **options):
    """How often another task runs while so many objects are told."""
    passes = 0

    async def other():
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async with Life(shop()) as life:
        await until(5)
        (state,) = life.inventory
        running = asyncio.create_task(other())
        await ObjectMetrics([state] * objects, life.controller.targets.ready, **options).parts(0)
        running.cancel()
    return passes


def test_other_tasks_run_while_many_objects_are_told():
    """Of 2,500 objects 500 are told at a time: something else comes between five of them."""
    assert 5 <= live(lambda: passes_of(2_500)) <= 15


def test_a_scrape_waits_for_few_passes_of_a_busy_event_loop():
    """It waited for 200 where no object is told: at a busy edge that took longer than a scrape may take."""
    assert live(lambda: passes_of(10_000, is_told=False)) <= 3


@given(st.text())
def test_any_name_of_a_metric_comes_back_as_it_is(text):
    line = f'x{{metric="{escaped(text)}"}} 1\n'
    if not any(character in text for character in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        (family,) = text_string_to_metric_families(line)
        assert [text] == [sample.labels["metric"] for sample in family.samples]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_follows_the_conventions(family):
    """https://prometheus.io/docs/practices/naming: a prefix, base units, total for what accumulates."""
    assert family.name.startswith("cronhpa_object_" if family in OBJECT_FAMILIES else "cronhpa_")
    assert family.name.endswith("_total") == (family.kind is FamilyKind.COUNTER)
    assert not any(family.name.removesuffix("_total").endswith(unit) for unit in ("_ms", "_percent", "_minutes"))
    assert family.help.endswith(".")
    own = family.labels[2:] if family.labels[:2] == ("namespace", "name") else family.labels
    assert family.name.startswith("cronhpa_event_") == (own != family.labels)
    assert not {"namespace", "name", "job", "instance", "pod"} & {*own}


def test_no_family_is_declared_twice():
    assert sorted({family.name for family in FAMILIES}) == sorted(family.name for family in FAMILIES)


def _reconciliation(asked, ready):
    reading = PodCounts(ready, 0, 0, ready, ready, 0, 0, 0, 0, 0, 0)
    decision = Decision(0, DecisionKind.COMPUTED, ready, asked, BY_NOBODY, metrics=(MetricProposal("cpu", asked),))
    return Observation(Scale(ready, ready, ""), (reading,)), decision


def test_pods_are_too_few_from_the_reconciliation_that_sees_it_to_the_one_that_sees_enough():
    """Short from 10 s to 40 s and from 60 s on: 30 s, and 50 s at 80 s."""
    under_provisioned = UnderProvisioned()
    for at, asked, ready in ((0, 2, 2), (10, 4, 2), (25, 4, 3), (40, 4, 4), (60, 9, 4)):
        under_provisioned.note(*_reconciliation(asked, ready), at * SECOND)  # type: ignore[call-arg]  # the star gives two

    assert (30, 50) == (under_provisioned.seconds(60 * SECOND), under_provisioned.seconds(80 * SECOND))


@pytest.mark.parametrize(("proposal", "short"), [
    (MetricProposal("queue", 5, average_value=10_000), 0),
    (MetricProposal("queue", 6, average_value=12_000), 60),
    (MetricProposal("queue", 5, value=50_000), 60),
])  # fmt: skip
def test_of_an_average_of_one_value_all_pods_of_the_target_count(proposal, short):
    """
    Five pods. Ready ones are counted for a Value target alone, where none is.

    Found: an object with an External metric by AverageValue was under-provisioned all the time.
    """
    under_provisioned = UnderProvisioned()
    decision = Decision(0, DecisionKind.COMPUTED, 5, proposal.replicas, BY_NOBODY, metrics=(proposal,))
    under_provisioned.note(Observation(Scale(5, 5, ""), (ScalarReading(50_000, 0),)), decision, 0)

    assert short == under_provisioned.seconds(60 * SECOND)


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_is_no_time_with_too_few_pods(hours):
    """Too few from the start on, and nothing can be done. The clock is set after two minutes, of three."""

    async def scenario():
        api = shop(20_000, maxReplicas=2)
        async with Life(api) as life:
            await until(120)
            api.clock_offset = hours * 3600 * SECOND
            await until(180)
            return life.inventory.items["prod", "shop"].local.under_provisioned.seconds(api.now())

    assert 160 <= live(scenario) <= 181


def test_a_metric_that_is_absent_asks_for_nothing():
    under_provisioned = UnderProvisioned()
    decision = Decision(0, DecisionKind.HELD, 2, 2, metrics=(Absent("FailedGetResourceMetric", "none"),))
    under_provisioned.note(Observation(Scale(2, 2, ""), (Absent("FailedGetResourceMetric", "none"),)), decision, 0)

    assert 0 == under_provisioned.seconds(99 * SECOND)


def test_the_page_on_monitoring_has_the_number_of_series_of_an_object_with_one_metric():
    page = (Path(__file__).parents[3] / "docs" / "monitoring.md").read_text()
    samples = told(shop)

    assert f"An object has {sum(map(len, samples.values()))} to " in page


def test_the_largest_object_has_a_bounded_number_of_series():
    """
    All that the API server takes: 30 metrics and 50 schedules; 30 schedules of calendars and 50 of planned events. All
    are open, and each states both bounds.

    Three series a metric, two a schedule, and one for each number that a source asks for: 30, 2 x 130, and those of
    forecast, fallback and override. What every object has comes on top.
    """
    bounds = {"minReplicas": 1, "maxReplicas": 9}
    span = {"from": wall(-3600), "to": wall(3600)}
    calendar = Calendar("sales", tuple(CalendarEvent(f"Sale {n}", span["from"], span["to"]) for n in range(40)))

    async def scenario():
        api = shop(
            schedules=[{"name": f"s{number}", **span, **bounds} for number in range(MAX_SCHEDULES)],
            schedulesFrom=[{"calendar": "sales", **bounds}],
            metrics=[CPU, *(external(f"queue-{number}") for number in range(MAX_METRICS - 1))],
            override={"minReplicas": 2, "maxReplicas": 8, "until": format_instant(START + HOUR), "reason": "INC-4711"},
            fallback={"replicas": 3, "afterSeconds": 0},
            forecast={},
        )
        api.external = {f"queue-{number}": 1 for number in range(MAX_METRICS)}
        api.kinds |= {("/apis/cronhpa.io/v1alpha1", "plannedevents"): "PlannedEvent"}
        for number in range(7):
            doors = [{"name": f"d{door}", **span, **bounds} for door in range(MAX_SCHEDULES_OF_EVENT)]
            api.create(
                "plannedevents", "prod", f"sale-{number}", spec={"selector": {}, "reason": "x", "schedules": doors}
            )
        async with Life(api) as life:
            life.controller.inventory.read_days_of({"sales": calendar})
            life.forecasts.forecast = lambda _series: forecast_of(3.0)
            await until(40)
            (state,) = life.inventory
            metrics = ObjectMetrics(life.inventory, life.controller.targets.ready)
            return len(state.served.spec.schedules), parsed(b"".join(await metrics.parts(api.now())).decode())

    schedules, samples = live(scenario)

    assert MAX_SCHEDULES + 30 + 50 == schedules
    assert sum(map(len, samples.values())) <= 650
