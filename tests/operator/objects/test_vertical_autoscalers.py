"""cronhpa.operator.objects.vertical_autoscalers: who changes the requests that a utilization is divided by."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from lives import CPU, Life, condition, cronhpa, deployment, until
from model_api import Fault, ModelApi
from virtual_time import live

from core.situations import cpu
from cronhpa.core.model.spec import MetricTarget, ResourceMetric
from cronhpa.operator.objects.vertical_autoscalers import Vpa, utilizations

SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
OF_CONTAINER = ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60), container="app")


def policy(name, **fields):
    return {"containerName": name, **fields}


def changes(metric, mode=None, policies=None):
    spec = {
        "targetRef": SHOP,
        **({} if mode is None else {"updatePolicy": {"updateMode": mode}}),
        **({} if policies is None else {"resourcePolicy": {"containerPolicies": policies}}),
    }
    return msgspec.convert({"metadata": {"name": "shop"}, "spec": spec}, Vpa).changes(metric)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (None, True),
        ("Auto", True),
        ("Recreate", True),
        ("InPlaceOrRecreate", True),
        ("Initial", False),
        ("Off", False),
    ],
)
def test_the_mode_tells_whether_running_pods_are_changed(mode, expected):
    assert expected is changes(cpu(), mode)


@pytest.mark.parametrize(
    ("metric", "policies", "expected"),
    [
        (cpu(), [policy("*", controlledResources=["memory"])], False),  # the usual division of work
        (cpu(), [policy("*", controlledResources=["cpu", "memory"])], True),
        (cpu(), [policy("*", mode="Off")], False),
        (cpu(), [policy("*", mode="Off"), policy("app")], True),
        (cpu(), [policy("sidecar", mode="Off")], True),
        (OF_CONTAINER, [policy("app", mode="Off")], False),
        (OF_CONTAINER, [policy("*", mode="Off"), policy("app", controlledResources=["cpu"])], True),
        (OF_CONTAINER, [policy("sidecar")], True),
        (ResourceMetric("ephemeral-storage", MetricTarget("Utilization", average_utilization=60)), None, False),
    ],
)
def test_the_policies_tell_which_requests_it_changes(metric, policies, expected):
    assert expected is changes(metric, policies=policies)


def test_a_usage_is_not_divided_by_requests():
    usage = ResourceMetric("cpu", MetricTarget("AverageValue", average_value=500))

    assert [OF_CONTAINER] == [*utilizations(type("Of", (), {"metrics": (usage, OF_CONTAINER)}))]


def lived(seconds=900, *, fault=None, created_at=60.0, **spec: Any) -> tuple[Any, int]:
    """The condition at the end of a life with a VPA of its target from a minute on, and how often VPAs were listed."""

    async def scenario() -> Any:
        api = ModelApi()
        deployment(api, replicas=2)
        api.load["prod", "shop"] = 1000
        cronhpa(api, **spec)
        if fault is not None:
            api.faults.append(fault)
        async with Life(api):
            await until(created_at)
            api.create("verticalpodautoscalers", "prod", "tuner", spec={"targetRef": SHOP})
            await until(seconds)
            return condition(api, "RequestsStable"), api.count("GET", "verticalpodautoscalers")

    return live(scenario)


def test_a_condition_names_it_within_ten_minutes_and_it_is_listed_every_five():
    stated, listed = lived()

    assert ("False", "VerticalPodAutoscaler") == (stated["status"], stated["reason"])
    assert "VerticalPodAutoscaler tuner (updateMode Auto) changes the requests of cpu" in stated["message"]
    assert 3 == listed  # after 20, 320 and 620 s


def test_without_a_utilization_nobody_asks():
    usage = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}},
    }

    assert (None, 0) == (lived(metrics=[usage])[0] or None, lived(metrics=[usage])[1])


def test_a_cluster_without_them_and_one_that_does_not_let_them_be_read_have_no_condition():
    for status in (404, 403, 500):
        stated, _ = lived(fault=Fault("GET", "verticalpodautoscalers", status, times=None), metrics=[CPU])
        assert not stated
