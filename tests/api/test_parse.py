"""The resource becomes a spec; what cannot be read says where and costs only itself."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.api.parse import SpecError, parse_spec
from cronhpa.core.decide import decide
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Observation, Scale
from cronhpa.core.model.spec import (
    Behavior,
    ControllerOptions,
    CronWindow,
    DateRange,
    Days,
    ExternalMetric,
    ForecastSettings,
    Holidays,
    LabelRequirement,
    LabelSelector,
    MetricTarget,
    Mode,
    ObjectMetric,
    OnceWindow,
    Override,
    Placeholders,
    PodsMetric,
    Policy,
    ResourceMetric,
    ScalingRules,
    Schedule,
    SelectPolicy,
    Span,
    TargetRef,
)

SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
NOW = parse_instant("2026-11-23T10:00:00Z")


def parsed(**fields):
    return parse_spec({"scaleTargetRef": SHOP, "maxReplicas": 10, **fields}, "prod", ControllerOptions())


def schedule(**fields):
    return parsed(schedules=[{"name": "day", "minReplicas": 3, **fields}]).schedules[0]


def problems(**fields):
    with pytest.raises(SpecError) as caught:
        parsed(**fields)
    return [(problem.path, problem.problem) for problem in caught.value.problems]


# --- specs -------------------------------------------------------------------------------------------------------


def test_the_least_that_can_be_written():
    parsed_spec = parsed(metrics=[CPU])

    assert TargetRef("apps/v1", "Deployment", "shop") == parsed_spec.target
    assert (1, 10, "prod", Mode.ACTIVE) == (
        parsed_spec.min_replicas,
        parsed_spec.max_replicas,
        parsed_spec.namespace,
        parsed_spec.mode,
    )
    assert (ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60)),) == parsed_spec.metrics
    assert (None, (), None, None) == (
        parsed_spec.behavior,
        parsed_spec.schedules,
        parsed_spec.override,
        parsed_spec.forecast,
    )
    assert ControllerOptions() == parsed_spec.options
    assert not parsed_spec.is_timed


def test_each_kind_of_metric_is_read():
    selector = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["x"]}],
    }
    average = {"type": "AverageValue", "averageValue": "1500m"}
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web"}
    parsed_spec = parsed(
        metrics=[
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": average}},
            {"type": "Pods", "pods": {"metric": {"name": "hits", "selector": selector}, "target": average}},
            {
                "type": "Object",
                "object": {
                    "describedObject": ingress,
                    "metric": {"name": "hits"},
                    "target": {"type": "Value", "value": 2},
                },
            },
            {"type": "External", "external": {"metric": {"name": "queue"}, "target": average}},
        ]
    ).metrics

    target = MetricTarget("AverageValue", average_value=1500)
    labels = LabelSelector((("a", "1"), ("b", "2")), (LabelRequirement("c", "In", ("x",)),))
    assert ResourceMetric("cpu", target, container="app") == parsed_spec[0]
    assert PodsMetric("hits", target, labels) == parsed_spec[1]
    assert (
        ObjectMetric("hits", MetricTarget("Value", value=2000), TargetRef("networking.k8s.io/v1", "Ingress", "web"))
        == parsed_spec[2]
    )
    assert ExternalMetric("queue", target) == parsed_spec[3]


def test_a_behavior_is_read_with_the_upstreams_defaults():
    parsed_spec = parsed(
        metrics=[CPU],
        behavior={
            "scaleDown": {
                "stabilizationWindowSeconds": 60,
                "selectPolicy": "Min",
                "tolerance": "9m",
                "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}],
            }
        },
    ).behavior

    up = ScalingRules((Policy("Pods", 4, 15 * SECOND), Policy("Percent", 100, 15 * SECOND)), SelectPolicy.MAX, 0)
    down = ScalingRules((Policy("Pods", 2, 30 * SECOND),), SelectPolicy.MIN, 60 * SECOND, 0.009000000000000001)
    assert Behavior(up, down) == parsed_spec


def test_what_the_object_leaves_open_is_the_operators():
    defaults = ControllerOptions(sync_period=5 * SECOND, tolerance=0.2)

    parsed_spec = parse_spec(
        {"scaleTargetRef": SHOP, "maxReplicas": 10, "metrics": [CPU], "metricMaxAgeSeconds": 120}, "prod", defaults
    )

    assert ControllerOptions(sync_period=5 * SECOND, tolerance=0.2, metric_max_age=120 * SECOND) == parsed_spec.options


def test_a_recurring_schedule_is_read():
    assert Schedule("day", CronWindow("0 8 * * *", "UTC", end="0 18 * * *"), floor=3) == schedule(
        start="0 8 * * *", end="0 18 * * *"
    )
    assert (
        CronWindow("0 8 * * *", "UTC", duration=90 * MINUTE) == schedule(start="0 8 * * *", durationMinutes=90).window
    )


def test_exceptions_are_read():
    parsed_schedule = schedule(
        start="0 8 * * *",
        durationMinutes=60,
        exclude={"dates": [{"from": "2026-12-27", "to": "2026-12-31"}], "holidays": [{"country": "DE"}]},
        only={"holidays": [{"country": "DE", "subdivision": "BY"}]},
    )

    assert parsed_schedule.problem is None
    assert (
        Days((DateRange(date(2026, 12, 27), date(2026, 12, 31)),), (Holidays("DE"),)) == parsed_schedule.window.exclude
    )
    assert Days((), (Holidays("DE", "BY"),)) == parsed_schedule.window.only


def test_a_lead_is_read_and_measured_where_none_is_stated():
    window = {"start": "0 8 * * *", "durationMinutes": 60, "minReplicas": 3}
    parsed_schedules = parsed(
        schedules=[{"name": "a", **window}, {"name": "b", **window, "leadTimeSeconds": 90}]
    ).schedules

    assert [None, 90 * SECOND] == [parsed_schedule.lead for parsed_schedule in parsed_schedules]


def test_a_planned_event_is_read():
    parsed_schedule = schedule(**{"from": "2026-11-27T00:00", "to": "2026-11-28T02:00", "timeZone": "America/New_York"})

    assert OnceWindow("2026-11-27T00:00", "2026-11-28T02:00", "America/New_York") == parsed_schedule.window
    assert parsed_schedule.problem is None


def test_replicas_are_both_bounds():
    parsed_spec = parsed(schedules=[{"name": "night", "start": "0 22 * * *", "durationMinutes": 480, "replicas": 0}])

    assert (0, 0) == (parsed_spec.schedules[0].floor, parsed_spec.schedules[0].cap)


def test_a_schedules_own_zone_replaces_the_specs():
    both = [
        {"name": name, "minReplicas": 3, "start": "0 8 * * *", "durationMinutes": 60, **zone}
        for name, zone in (("a", {}), ("b", {"timeZone": "Asia/Tokyo"}))
    ]

    parsed_schedules = parsed(timeZone="Europe/Berlin", schedules=both).schedules

    assert ["Europe/Berlin", "Asia/Tokyo"] == [parsed_schedule.window.zone for parsed_schedule in parsed_schedules]


def test_an_override_and_forecast_settings_are_read():
    parsed_spec = parsed(
        metrics=[CPU],
        override={"minReplicas": 5, "until": "2026-11-23T11:00:00+01:00", "reason": "INC-4711"},
        forecast={
            "mode": "Preview",
            "podCapacityPercent": 150,
            "maxFloorReplicas": 9,
            "budgetPercent": 2,
            "ignoreHistory": [{"from": "2026-11-23T09:00:00Z", "to": "2026-11-23T11:00:00+01:00"}],
            "methods": ["ExponentialSmoothing", "Clock"],
        },
    )

    assert Override(NOW, "INC-4711", floor=5) == parsed_spec.override
    incident = Span(NOW - HOUR, NOW)
    methods = ("ExponentialSmoothing", "Clock")
    assert ForecastSettings(Mode.PREVIEW, 150, 9, 2, (incident,), methods) == parsed_spec.forecast
    assert () == parsed(metrics=[CPU], forecast={}).forecast.methods


# --- what cannot be read -----------------------------------------------------------------------------------------


def test_a_spec_that_cannot_be_read_says_where():
    assert ["spec.maxReplicas", "spec.minReplicas"] == sorted(
        path for path, _ in problems(minReplicas="many", maxReplicas="few", metrics=[CPU])
    )


@pytest.mark.parametrize("text", ["1e31", "1e-31", "8Ei", "9223372036854775808", "99999E", "9" * 40, 10**30])
def test_a_quantity_that_nobody_can_mean_is_a_problem_of_its_metric(text):
    """The API server takes them for quantities; a plain ValueError here once ended the list of all objects."""
    target = {"type": "AverageValue", "averageValue": text}

    refused = problems(metrics=[CPU, {"type": "Resource", "resource": {"name": "cpu", "target": target}}])

    assert ["spec.metrics[1]"] == [path for path, _ in refused]


def test_a_tolerance_that_nobody_can_mean_is_a_problem_of_the_behavior():
    refused = problems(metrics=[CPU], behavior={"scaleUp": {"tolerance": "1e31"}})

    assert ["spec.behavior"] == [path for path, _ in refused]


DAILY = {"start": "0 8 * * *", "durationMinutes": 60}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"start": "0 8 * *", "durationMinutes": 60}, "start: "),
        ({"start": "0 8 * * *", "end": "0 18 30 2 *"}, 'end: "0 18 30 2 *" names a date that never comes'),
        ({"start": "0 8 * * *", "durationMinutes": 60, "timeZone": "Berlin"}, 'timeZone: "Berlin" is not an IANA'),
        ({"start": "0 8 * * *"}, "end: neither end nor durationMinutes"),
        (
            DAILY | {"exclude": {"holidays": [{"country": "DE"}, {"country": "UK"}]}},
            'exclude.holidays[1].country: "UK" is not known: use GB',
        ),
        (
            DAILY | {"only": {"holidays": [{"country": "DE", "subdivision": "Bayern"}]}},
            'only.holidays[0].subdivision: "Bayern" is not known in DE: use a code such as BY',
        ),
        (
            DAILY | {"exclude": {"dates": [{"from": "2026-02-28", "to": "2026-02-30"}]}},
            'exclude.dates[0].to: "2026-02-30" is no date: write a date that exists, such as "2026-12-27"',
        ),
        (
            DAILY | {"only": {"dates": [{"from": "20261224", "to": "2026-12-24"}]}},
            'only.dates[0].from: "20261224" is no date',
        ),
        (
            DAILY | {"only": {"dates": [{"from": "2026-12-26", "to": "2026-12-24"}]}},
            'only.dates[0].to: "2026-12-24" is before from, "2026-12-26"',
        ),
        ({"from": "2026-02-30T00:00", "to": "2026-03-01T00:00"}, 'from: "2026-02-30T00:00": write a date'),
        ({"from": "2026-11-28T00:00", "to": "2026-11-27T00:00"}, 'to: "2026-11-27T00:00" is not after from'),
        (
            {"from": "2026-11-27T00:00+05:00", "to": "2026-11-28T00:00"},
            'from: "2026-11-27T00:00+05:00" is no local time',
        ),
        ({"from": "2026-11-27T00:00", "to": "2026-W48-6"}, 'to: "2026-W48-6" is no local time'),
        (
            {"from": "2026-03-29T02:10", "to": "2026-03-29T02:50", "timeZone": "Europe/Berlin"},
            'the clocks of Europe/Berlin skip all from "2026-03-29T02:10" to "2026-03-29T02:50"',
        ),
        ({"from": "9999-12-31T20:00", "to": "9999-12-31T23:59", "timeZone": "America/New_York"}, "the years 2 to 9998"),
        (
            {"from": "2026-01-01T00:00", "to": "9999-12-31T23:59"},
            'to: "9999-12-31T23:59": the years 2 to 9998 are read',
        ),
        ({"from": "0001-01-01T00:00", "to": "2026-11-27T00:00", "timeZone": "Asia/Tokyo"}, 'from: "0001-'),
    ],
)
def test_a_schedule_that_cannot_be_read_abstains_alone(fields, said):
    parsed_spec = parsed(
        schedules=[
            {"name": "broken", "minReplicas": 3, **fields},
            {"name": "day", "minReplicas": 7, "start": "0 8 * * *", "end": "0 18 * * *"},
        ]
    )

    assert said in (parsed_spec.schedules[0].problem or "")
    assert parsed_spec.schedules[1].problem is None
    decision = decide(parsed_spec, Observation(Scale(7, 7, "app=shop")), None, Memory(), NOW)
    assert 7 == decision.minimum


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
def test_an_override_until_a_year_that_cannot_be_written_is_refused(until):
    refused = problems(metrics=[CPU], override={"minReplicas": 5, "until": until, "reason": "x"})

    assert ["spec.override.until"] == [path for path, _ in refused]


@pytest.mark.parametrize(("stated", "seconds"), [({}, 300), ({"nodeStartupSeconds": 90}, 90)])
def test_placeholders_are_as_many_as_stated_and_five_minutes_early(stated, seconds):
    assert Placeholders(20, seconds * SECOND) == parsed(placeholders={"maxReplicas": 20, **stated}).placeholders
    assert parsed().placeholders is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats(allow_nan=False) | st.text("ab1:.*", max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "name", "min"]), inner),
    max_leaves=5,
)
FIELDS = ["minReplicas", "maxReplicas", "metrics", "behavior", "schedules", "override", "forecast", "timeZone", "mode"]


@given(st.dictionaries(st.sampled_from([*FIELDS, "scaleTargetRef", "syncPeriodSeconds", "else"]), json_values))
def test_any_spec_is_read_or_refused_with_its_problems(text):
    body = {"scaleTargetRef": SHOP, "maxReplicas": 10, **text}
    try:
        of: object = parse_spec(body, "prod", ControllerOptions())
    except SpecError as error:
        of = error.problems
    assert of
