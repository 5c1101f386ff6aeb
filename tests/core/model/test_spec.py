"""What follows from a spec, and that equal specs are one key."""

from hypothesis import given
from msgspec.structs import replace

from core.situations import NOW, behavior, cpu, exactly, queue, rules, spec, specs
from cronhpa.core.model.spec import ForecastSettings, ObjectMetric, Override, PodsMetric, TargetRef

SERVICE = TargetRef("v1", "Service", "shop")


def test_schedules_and_an_override_move_the_bounds_and_a_forecast_does_not():
    timed = (spec(schedules=(exactly("night", 0),)), spec(override=Override(NOW, "INC-4711", 3)))

    assert [True, True] == [of.is_timed for of in timed]
    assert [False, False] == [of.is_timed for of in (spec(), spec(forecast=ForecastSettings()))]


def test_schedules_and_a_forecast_ask_ahead_of_time_and_an_override_does_not():
    """Its capacity is wanted now, so nobody has to know how long pods take to start."""
    ahead = (spec(schedules=(exactly("night", 0),)), spec(forecast=ForecastSettings()))

    assert [True, True] == [of.looks_ahead for of in ahead]
    assert [False, False] == [of.looks_ahead for of in (spec(), spec(override=Override(NOW, "INC-4711", 3)))]


def test_only_a_metric_that_needs_no_pods_wakes_a_target_from_zero():
    of_pods, of_an_object = PodsMetric("requests", queue().target), ObjectMetric("requests", queue().target, SERVICE)
    metric_sets = [(cpu(),), (of_pods,), (of_an_object,), (queue(),), (cpu(), queue())]

    assert [False, False, True, True, True] == [spec(metrics=metrics).scales_to_zero for metrics in metric_sets]


def test_the_load_of_a_container_is_not_that_of_its_pods():
    of_app = replace(cpu(), container="app")

    assert ["app", None, None, None] == [
        spec(metrics=metrics).container_of(name)
        for metrics, name in [((of_app,), "cpu"), ((cpu(), of_app), "cpu"), ((of_app,), "memory"), ((queue(),), "cpu")]
    ]


def test_the_longest_period_is_that_of_any_policy():
    of = behavior(up=rules(("Pods", 4, 15), ("Percent", 100, 90)), down=rules())

    assert (90, 0) == (of.scale_up.longest_period // 10**9, of.scale_down.longest_period)


@given(specs(), specs())
def test_equal_specs_are_one_key(one, other):
    """Windows, schedules and specs are keys of caches: equal ones must be found, others must not."""
    assert hash(one) == hash(replace(one))
    assert {one: 1}.get(replace(one)) == 1
    assert ({other: 2}.get(one) == 2) == (one == other)
