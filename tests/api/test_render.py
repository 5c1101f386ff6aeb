"""
cronhpa.api.render, cronhpa.api.conditions, cronhpa.api.events, cronhpa.api.metric_status: a reconciliation in words.
"""

from __future__ import annotations

from inspect import isclass
from typing import get_args

from msgspec.structs import replace
from pydantic import BaseModel

from core.situations import (
    NO_METRICS,
    NOW,
    SHOP,
    at,
    behavior,
    cpu,
    exactly,
    forecast,
    observed,
    pod,
    queue,
    queued,
    recommended,
    reconciliation_of,
    rules,
    sample,
    schedule,
    seen,
    spec,
)
from cronhpa.api.events import Event, events, new_conflict_events
from cronhpa.api.render import render, render_unreadable
from cronhpa.api.resource.status import CronHPAStatus
from cronhpa.api.status_memory import render_memory
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Failed, Scaled, Withheld
from cronhpa.core.model.forecast import TrackRecord
from cronhpa.core.model.instant import SECOND, format_instant
from cronhpa.core.model.memory import Intent, Memory, ScaleEvent
from cronhpa.core.model.observation import Absent, NodeStart, ScalarReading
from cronhpa.core.model.spec import (
    ExternalMetric,
    ForecastSettings,
    LabelRequirement,
    LabelSelector,
    MetricTarget,
    Mode,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
)
from cronhpa.core.schedules.conflicts import conflicts as conflicts_of

FAST = behavior(up=rules(("Pods", 1000, 15), window=0), down=rules(("Percent", 100, 15), window=0))


def reconciliation(of, observation, *, memory=None, outcome=None, told=None, clock="10:00", **fields):
    """A reconciliation that did what it decided, or what `outcome` says."""
    memory, now = memory or Memory(), at(clock)
    decision = decide(of, observation, told, memory, now)
    done = outcome or (Scaled(now) if decision.rescales else Withheld())
    after = memory.after(decision, done, of, observation)
    return reconciliation_of(of, decision, done, after, generation=4, observation=observation, **fields)


def conditions(taken, previous=None):
    return {condition["type"]: condition for condition in render(previous or {}, taken)["conditions"]}


def said(taken, kind):
    """A condition as (status, reason)."""
    condition = conditions(taken)[kind]
    return condition["status"], condition["reason"]


# --- counts ------------------------------------------------------------------------------------------------------


def test_a_status_says_what_was_found_and_what_is_desired():
    status = render({}, reconciliation(spec(behavior=FAST), queued(300, current=8)))

    assert ("Deployment/shop", 4, 8, 30, 2, 120, "2026-11-23T10:00:00Z") == (
        status["target"],
        status["observedGeneration"],
        status["currentReplicas"],
        status["desiredReplicas"],
        status["effectiveMinReplicas"],
        status["effectiveMaxReplicas"],
        status["lastScaleTime"],
    )


def test_a_held_reconciliation_leaves_the_desired_count_and_the_last_scaling_alone():
    before = {"desiredReplicas": 9, "lastScaleTime": "2026-11-23T09:00:00Z"}

    status = render(before, reconciliation(spec(), seen(NO_METRICS, current=8)))

    assert (8, 9, "2026-11-23T09:00:00Z") == (
        status["currentReplicas"],
        status["desiredReplicas"],
        status["lastScaleTime"],
    )


def test_a_scaling_that_failed_leaves_the_desired_count_alone():
    failed = reconciliation(spec(behavior=FAST), queued(300, current=8), outcome=Failed("forbidden"))

    assert 8 == render({"desiredReplicas": 8}, failed)["desiredReplicas"]


def test_a_target_that_cannot_be_read_leaves_its_counts_alone():
    before = {"currentReplicas": 8, "desiredReplicas": 9, "currentMetrics": [{"type": "Resource"}]}
    gone = replace(queued(0, current=8), scale=Absent("FailedGetScale", 'deployments.apps "shop" not found'))

    assert before.items() <= render(before, reconciliation(spec(), gone)).items()


def test_a_target_that_cannot_be_read_takes_no_field_away():
    """A field that tells of an earlier reconciliation, such as lastScaleTime, is carried over by its name."""
    of = spec(schedules=(schedule("day", floor=20),), behavior=FAST)
    before = render({"operator": "cronhpa/cronhpa"}, reconciliation(of, queued(300, current=8)))
    gone = replace(queued(0, current=8), scale=Absent("FailedGetScale", 'deployments.apps "shop" not found'))

    assert {*before} == {*render(before, reconciliation(of, gone))}


# --- conditions --------------------------------------------------------------------------------------------------


def test_a_condition_keeps_its_time_while_its_status_does():
    before = {
        "conditions": [
            {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-11-23T09:00:00Z"},
            {"type": "ScalingActive", "status": "False", "lastTransitionTime": "2026-11-23T09:00:00Z"},
        ]
    }

    by_type = conditions(reconciliation(spec(), queued(80, current=8)), before)

    assert "2026-11-23T09:00:00Z" == by_type["AbleToScale"]["lastTransitionTime"]
    assert "2026-11-23T10:00:00Z" == by_type["ScalingActive"]["lastTransitionTime"]
    assert {4} == {condition["observedGeneration"] for condition in by_type.values()}


def test_rendering_changes_nothing_of_the_status_before():
    before = {"conditions": [{"type": "AbleToScale", "status": "False"}]}

    render(before, reconciliation(spec(), queued(80, current=8)))

    assert {"conditions": [{"type": "AbleToScale", "status": "False"}]} == before


def test_a_calm_reconciliation():
    calm = reconciliation(spec(), queued(80, current=8))

    assert ("True", "ReadyForNewScale") == said(calm, "AbleToScale")
    assert ("True", "ValidMetricFound") == said(calm, "ScalingActive")
    assert ("False", "DesiredWithinRange") == said(calm, "ScalingLimited")
    assert ("True", "OnlyOwner") == said(calm, "TargetOwned")
    assert ("True", "Accepted") == said(calm, "SpecAccepted")
    assert ("True", "Deciding") == said(calm, "Ready")
    assert {"BoundsConsistent", "ForecastActive", "ScaledToZero"}.isdisjoint(conditions(calm))


def test_a_reconciliation_without_metrics_is_active_by_its_schedules():
    scheduled = reconciliation(spec(metrics=(), schedules=(schedule("day", floor=20),)), seen(current=20))

    assert ("True", "ScheduledOnly") == said(scheduled, "ScalingActive")


def test_metrics_that_are_absent_are_told():
    blind = reconciliation(spec(), seen(NO_METRICS, current=8))

    assert ("False", "FailedGetResourceMetric") == said(blind, "ScalingActive")
    assert ("False", "FailedGetResourceMetric") == said(blind, "Ready")


def torn(clock="10:00", **fields):
    """At least 30 from 08:00 to 18:00, at most 20 from 12:00 on."""
    of = spec(schedules=(schedule("a", floor=30), schedule("b", "0 12 * * *", cap=20)))
    return reconciliation(of, queued(80, current=20), clock=clock, conflicts=conflicts_of(of, at(clock)), **fields)


TORN = "Schedule/a asks for at least 30, Schedule/b for at most 20, at equal rank: the maximum wins"


def test_bounds_that_contradict_each_other_are_named_with_the_time():
    condition = conditions(torn())["BoundsConsistent"]

    assert ("False", "Contradiction") == (condition["status"], condition["reason"])
    assert condition["message"] == f"from 2026-11-23T12:00:00Z until 2026-11-23T18:00:00Z {TORN}"


def test_a_contradiction_is_an_event_once():
    """Told when it is seen coming; not when it comes, nor the next day."""
    before = render({}, torn())

    assert [Event("Warning", "Contradiction", f"from 2026-11-23T12:00:00Z until 2026-11-23T18:00:00Z {TORN}")] == list(
        new_conflict_events({}, torn())
    )
    assert [] == list(new_conflict_events(before, torn("12:00"))) == list(new_conflict_events(before, torn("19:00")))


def test_a_contradiction_goes_with_the_schedules():
    before = render({}, torn())

    assert "BoundsConsistent" in {condition["type"] for condition in before["conditions"]}
    assert "BoundsConsistent" not in conditions(reconciliation(spec(), queued(80, current=20)), before)


def test_bounds_that_agree_say_so_and_make_no_event():
    calm = reconciliation(spec(schedules=(schedule("a", floor=30),)), queued(80, current=30))

    assert ("True", "Consistent") == said(calm, "BoundsConsistent")
    assert [] == list(new_conflict_events({}, calm))


def test_a_window_that_leads_says_by_how_much_and_when_it_opens():
    of = spec(schedules=(schedule("day", floor=20, lead=600 * SECOND),))
    leading = render({}, reconciliation(of, queued(80, current=8), clock="07:55"))

    assert [{"name": "day", "state": "Leading", "opens": "2026-11-23T08:00:00Z", "leadSeconds": 600}] == leading[
        "schedules"
    ]
    assert {"time": "2026-11-23T08:00:00Z", "schedule": "day", "state": "Open"} == leading["nextEdge"]
    assert (
        "Schedule/day asks for at least 20 (600 s ahead of its start at 2026-11-23T08:00:00Z); "
        "limited to 16: without a behavior at most twice the 8 that are there, or 4"
    ) == leading["decision"]["reason"]
    early = render({}, reconciliation(of, queued(80, current=8), clock="07:00"))
    assert {"time": "2026-11-23T07:50:00Z", "schedule": "day", "state": "Leading"} == early["nextEdge"]


def test_an_object_that_cannot_be_read_keeps_what_its_status_says_without_edges_and_since_when():
    """It is not Ready since eight; its spec is not accepted since now, and promises no edge any more."""
    times = {"Ready": ("False", at("08:00")), "SpecAccepted": ("True", at("07:00")), "ScalingActive": ("True", NOW)}
    before = {
        "conditions": [
            {"type": kind, "status": value, "lastTransitionTime": format_instant(since)}
            for kind, (value, since) in times.items()
        ],
        "currentReplicas": 4,
        "nextEdge": {"schedule": "day"},
        "schedules": [{"name": "day"}],
    }

    status = render_unreadable(before, ["spec.minReplicas: -1", "spec.zone: Mars"], 7, at("09:00"))

    found = {one["type"]: (one["status"], one["lastTransitionTime"]) for one in status["conditions"]}
    assert {
        "Ready": ("False", format_instant(at("08:00"))),
        "SpecAccepted": ("False", format_instant(at("09:00"))),
        "ScalingActive": ("True", format_instant(NOW)),
    } == found
    assert ("Unreadable", "spec.minReplicas: -1; spec.zone: Mars", 7) == tuple(
        status["conditions"][1][name] for name in ("reason", "message", "observedGeneration")
    )
    assert {"conditions": status["conditions"], "currentReplicas": 4, "columns": status["columns"]} == status


def test_a_schedule_that_cannot_be_read_is_named():
    broken = reconciliation(spec(schedules=(schedule("a", floor=30, problem="start: what?"),)), queued(80, current=8))

    by_type = conditions(broken)

    assert ("False", "schedule a: start: what?") == (
        by_type["SpecAccepted"]["status"],
        by_type["SpecAccepted"]["message"],
    )
    assert [{"name": "a", "state": "Unreadable", "message": "start: what?"}] == render({}, broken)["schedules"]
    assert ("False", "SpecUnreadable") == (by_type["Ready"]["status"], by_type["Ready"]["reason"])


def test_another_owner_is_named_before_anything_else():
    held = reconciliation(
        spec(), seen(NO_METRICS, current=8), outcome=Withheld(), owner_problem="CronHPA other is older"
    )

    assert ("False", "OtherOwner") == said(held, "TargetOwned")
    assert ("False", "OtherOwner") == said(held, "Ready")
    assert "CronHPA other is older" == render({}, held)["decision"]["withheld"]


def test_a_zero_is_written_down_as_ours_or_not():
    of = spec(schedules=(exactly("night", 0),), behavior=FAST)

    asleep = reconciliation(of, queued(0, current=8))
    awake = reconciliation(of, queued(0, current=0), memory=asleep.memory, clock="19:00")

    assert ("True", "ScaledToZero") == said(asleep, "ScaledToZero")
    assert ("False", "NotScaledToZero") == said(awake, "ScaledToZero")


def test_a_preview_is_ready_and_says_so():
    assert ("True", "Preview") == said(reconciliation(spec(mode=Mode.PREVIEW), queued(80, current=8)), "Ready")


OUTLOOK = (
    "a load of 1255 or more from 2026-11-23T10:00:00Z on is 5 % likely: 26 pods at 50 each; "
    "more would not be worth their cost"
)


def test_a_forecast_says_what_it_does_and_why():
    requests = PodsMetric("requests", MetricTarget("AverageValue", average_value=50_000))
    of = spec(metrics=(requests,), behavior=FAST, forecast=ForecastSettings())
    preview = replace(of, forecast=ForecastSettings(mode=Mode.PREVIEW))
    told = forecast(1255, metric="requests")

    acting = conditions(reconciliation(of, seen(NO_METRICS, current=8), told=told))["ForecastActive"]
    assert ("True", "Acting", OUTLOOK) == (
        acting["status"],
        acting["reason"],
        acting["message"],
    )
    assert ("False", "Preview") == said(
        reconciliation(preview, seen(NO_METRICS, current=8), told=told), "ForecastActive"
    )
    assert ("False", "Learning") == said(reconciliation(of, seen(NO_METRICS, current=8)), "ForecastActive")
    jumping = reconciliation(replace(of, max_replicas=5), seen(NO_METRICS, current=8), told=told)
    assert ("False", "NotAsked") == said(jumping, "ForecastActive")


def test_a_forecast_that_was_tried_says_what_it_did_then_and_what_it_costs_now():
    requests = PodsMetric("requests", MetricTarget("AverageValue", average_value=50_000))
    of = spec(metrics=(requests,), behavior=FAST, forecast=ForecastSettings())
    told = forecast(1255, metric="requests", track_record=TrackRecord(41.7, 61.0, 2.84, 7))

    taken = reconciliation(of, seen(NO_METRICS, current=8), told=told, forecast=told, budget_used=28)

    assert ("True", "BeatsReactive") == said(taken, "ForecastActive")
    assert (
        "42 of 61 under-provisioned minutes avoided at +2.8 % pod-hours over 7 days; " + OUTLOOK
        == conditions(taken)["ForecastActive"]["message"]
    )
    assert 28 == render({}, taken)["forecast"]["budgetUsedPermille"]


def test_a_forecast_names_the_methods_that_cannot_be_used():
    requests = PodsMetric("requests", MetricTarget("AverageValue", average_value=50_000))
    of = spec(metrics=(requests,), behavior=FAST, forecast=ForecastSettings(methods=("Theta", "Clock")))
    preview = replace(of, forecast=ForecastSettings(mode=Mode.PREVIEW))
    lost = "not used: Theta (it needs statsmodels, not installed here)"
    told = forecast(1255, metric="requests", track_record=TrackRecord(41.7, 61.0, 2.84, 7), unusable=lost)
    uncovered = forecast(1255, metric="requests", coverage_percent=10, unusable=lost)

    for rendered_spec, its_forecast in ((of, told), (preview, told), (of, uncovered)):
        taken = reconciliation(rendered_spec, seen(NO_METRICS, current=8), told=its_forecast, forecast=its_forecast)
        assert conditions(taken)["ForecastActive"]["message"].endswith(f"; {lost}")


# --- events ------------------------------------------------------------------------------------------------------


def test_a_scaling_is_an_event_with_its_reason():
    """A floor speaks in its own words, a metric in the upstream's."""
    by_metric = reconciliation(spec(behavior=FAST), queued(300, current=8))
    by_floor = reconciliation(spec(schedules=(schedule("day", floor=20),), behavior=FAST), queued(30, current=8))

    assert [
        Event("Normal", "SuccessfulRescale", "New size: 30; reason: external metric queue(nil) above target")
    ] == list(events(by_metric))
    assert [Event("Normal", "SuccessfulRescale", "New size: 20; reason: Schedule/day asks for at least 20")] == list(
        events(by_floor)
    )


def test_a_scaling_that_failed_is_a_warning():
    failed = reconciliation(
        spec(behavior=FAST), queued(30, current=8), memory=recommended(3, "09:59"), outcome=Failed("no")
    )

    assert [Event("Warning", "FailedRescale", "New size: 3; reason: All metrics below target; error: no")] == list(
        events(failed)
    )


def test_absent_metrics_are_warnings_and_a_sum_of_them():
    blind = reconciliation(spec(metrics=(cpu(), queue())), seen(NO_METRICS, ScalarReading(30_000, 0), current=8))

    assert [
        ("FailedGetResourceMetric", NO_METRICS.message),
        ("FailedComputeMetricsReplicas", f"invalid metrics (1 invalid out of 2), first error is: {NO_METRICS.message}"),
    ] == [(event.reason, event.message) for event in events(blind)]


def test_a_calm_reconciliation_has_no_events():
    assert [] == list(events(reconciliation(spec(), queued(80, current=8))))


# --- what explains it --------------------------------------------------------------------------------------------


def test_a_decision_explains_itself():
    """Merged 60 by the floor; +100 % of 8 is 16."""
    of = spec(schedules=(schedule("day", floor=60),), behavior=behavior())

    assert {
        "decidedBy": "Schedule/day",
        "reason": "Schedule/day asks for at least 60; limited to 16: scaleUp allows 100 % more than 8 in 15 s",
        "proposals": [
            {"source": "Metric", "name": "queue", "role": "Target", "replicas": 3},
            {
                "source": "Schedule",
                "name": "day",
                "role": "Floor",
                "replicas": 60,
                "until": "2026-11-23T18:00:00Z",
            },
        ],
        "abstentions": [],
        "metrics": [
            {"name": "queue", "type": "AverageValue", "current": "3750m", "target": "10", "replicas": 3, "pods": 8}
        ],
        "steps": [
            {
                "rule": "ScaleUpLimit",
                "from": 60,
                "to": 16,
                "start": 8,
                "policy": {"type": "Percent", "value": 100, "periodSeconds": 15},
                "message": "limited to 16: scaleUp allows 100 % more than 8 in 15 s",
            }
        ],
    } == render({}, reconciliation(of, queued(30, current=8)))["decision"]


def test_windows_and_the_next_edge_are_told():
    of = spec(schedules=(schedule("day", floor=20), schedule("late", "0 20 * * *", "0 22 * * *", floor=9)))

    status = render({}, reconciliation(of, queued(200, current=20)))

    assert [
        {"name": "day", "state": "Open", "closes": "2026-11-23T18:00:00Z"},
        {"name": "late", "state": "Closed", "opens": "2026-11-23T20:00:00Z"},
    ] == status["schedules"]
    assert {"time": "2026-11-23T18:00:00Z", "schedule": "day", "state": "Closed"} == status["nextEdge"]


# --- metrics -----------------------------------------------------------------------------------------------------


def shown(*metrics, readings=None, observation=None):
    return render({}, reconciliation(spec(metrics=metrics), observation or seen(*readings, current=3)))[
        "currentMetrics"
    ]


def test_resource_metrics_are_shown_with_memory_in_powers_of_two():
    memory = ResourceMetric("memory", MetricTarget("AverageValue", average_value=10**9))
    app = ResourceMetric("cpu", MetricTarget("AverageValue", average_value=1000), container="app")
    of = spec(metrics=(cpu(), memory, app))
    mebibyte = 1024 * 1024 * 1000

    observation = observed(of, [pod("a")], {"a": sample(500)}, {"a": sample(mebibyte)}, {"a": sample(1500)}, current=2)

    assert [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageValue": "500m", "averageUtilization": 50}},
        },
        {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "1Mi"}}},
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "app", "current": {"averageValue": "1500m"}},
        },
    ] == shown(*of.metrics, observation=observation)


def test_other_metrics_are_shown_with_their_selectors_and_objects():
    selector = LabelSelector((("queue", "mail"),), (LabelRequirement("env", "Exists"),))
    external = ExternalMetric("length", MetricTarget("AverageValue", average_value=10_000), selector)
    described = ObjectMetric("hits", MetricTarget("Value", value=1000), SHOP)

    assert [
        {
            "type": "External",
            "external": {
                "metric": {
                    "name": "length",
                    "selector": {
                        "matchLabels": {"queue": "mail"},
                        "matchExpressions": [{"key": "env", "operator": "Exists"}],
                    },
                },
                "current": {"averageValue": "10"},
            },
        },
        {
            "type": "Object",
            "object": {
                "metric": {"name": "hits"},
                "current": {"value": "1"},
                "describedObject": {"kind": "Deployment", "name": "shop", "apiVersion": "apps/v1"},
            },
        },
    ] == shown(external, described, readings=(ScalarReading(30_000, 0), ScalarReading(1000, 3)))


def test_a_metric_that_said_nothing_is_shown_empty():
    assert [{"type": ""}] == shown(cpu(), readings=(NO_METRICS,))


def test_no_metrics_are_shown_where_none_were_asked():
    assert render({}, reconciliation(spec(2, 5), queued(0, current=9)))["currentMetrics"] is None


# --- memory ------------------------------------------------------------------------------------------------------


def test_a_memory_is_written_with_what_it_holds_and_no_more():
    assert {"version": 1, "recommendations": [], "scaleUpEvents": [], "scaleDownEvents": []} == render_memory(Memory())


def test_a_memory_is_written_to_the_nanosecond():
    memory = replace(
        recommended(5, "10:00"),
        scale_downs=(ScaleEvent(3, NOW + 1, outdated=True),),
        zero=False,
        start_up=75_000_000_000,
        request_per_pod={"cpu": 1500},
        intent=Intent(8, 5, NOW),
    )

    assert {
        "version": 1,
        "recommendations": [{"replicas": 5, "time": "2026-11-23T10:00:00.000000000Z", "by": "Metric/queue"}],
        "scaleUpEvents": [],
        "scaleDownEvents": [{"change": 3, "time": "2026-11-23T10:00:00.000000001Z", "outdated": True}],
        "zero": False,
        "startUpSeconds": 75,
        "requestPerPod": {"cpu": "1500m"},
        "intent": {"from": 8, "to": 5, "time": "2026-11-23T10:00:00.000000000Z"},
    } == render_memory(memory)


def test_a_calendar_that_is_not_the_present_one_is_a_condition_only_while_it_is():
    of = spec(behavior=FAST, calendar_problems=('the calendar "company" is as it was last read: it answered 503',))
    taken = reconciliation(of, queued(300, current=8))

    assert ("False", "LastGoodKept") == said(taken, "CalendarsCurrent")
    previous = render({}, taken)
    assert "CalendarsCurrent" not in conditions(reconciliation(spec(behavior=FAST), queued(300, current=8)), previous)


# --- all of it ---------------------------------------------------------------------------------------------------


def declared(model):
    """Model.field of each field of a model, and of the models that stand below it."""
    for name, field in model.model_fields.items():
        yield f"{model.__name__}.{name}"
        for part in parts_of(field.annotation):
            yield from declared(part) if issubclass(part, BaseModel) else ()


def parts_of(annotation):
    """The classes that an annotation is made of."""
    parts = get_args(annotation)
    return [inner for part in parts for inner in parts_of(part)] if parts else [annotation] * isclass(annotation)


def stated(value):
    """Model.field of each field that stands in a validated status."""
    if isinstance(value, BaseModel):
        for name in value.model_fields_set:
            yield f"{type(value).__name__}.{name}"
            yield from stated(getattr(value, name))
    for entry in value if isinstance(value, list) else ():
        yield from stated(entry)


def some_statuses():
    """What four reconciliations write: a scale-up by all types of metrics, a held one, a forecast's, a withheld one."""
    selector = LabelSelector((("queue", "mail"),), (LabelRequirement("env", "In", ("live",)),))
    requests = PodsMetric("requests", MetricTarget("AverageValue", average_value=50_000), selector)
    hits = ObjectMetric("hits", MetricTarget("AverageValue", average_value=1000), SHOP, selector)
    messages = ExternalMetric("messages", MetricTarget("Value", value=10_000), selector)
    of = spec(
        metrics=(cpu(), replace(cpu(), container="app"), requests, hits, messages),
        schedules=(schedule("day", floor=60), schedule("late", "5 10 * * *", floor=70, lead=600 * SECOND)),
        behavior=behavior(),
    )
    pods = [pod("a"), pod("b"), pod("c", ready="False")]
    samples = {"a": sample(900)}
    readings = (samples, samples, samples, 9000, 90_000)
    observation = observed(of, pods, *readings, current=3)
    memory = Memory(start_up=30 * SECOND, node_start=NodeStart(90 * SECOND, NOW))
    yield render({"operator": "cronhpa/cronhpa"}, reconciliation(of, observation, memory=memory))

    yield render({}, reconciliation(spec(), queued(30, current=8), memory=recommended(8, "09:59")))

    told = forecast(1255, metric="requests", coverage_percent=93)
    ahead = spec(metrics=(requests,), forecast=ForecastSettings())
    fields = {"told": told, "forecast": told, "budget_used": 20}
    yield render({}, reconciliation(ahead, seen(NO_METRICS, current=8), **fields))

    broken = spec(schedules=(schedule("a", floor=30, problem="start: what?"),))
    yield render({}, reconciliation(broken, seen(NO_METRICS, current=8), owner_problem="CronHPA other is older"))


def test_each_field_of_a_status_is_written():
    """A field that is in the models, the CRD and the reference, and that nobody renders, stays empty for ever."""
    statuses = map(CronHPAStatus.model_validate, some_statuses())

    assert [] == sorted({*declared(CronHPAStatus)} - {field for status in statuses for field in stated(status)})
