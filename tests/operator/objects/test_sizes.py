"""What a tenant may make as large as an API server takes is read once a version, or not at all, and said."""

from __future__ import annotations

import msgspec
import pytest
from lives import Life, condition, cronhpa, deployment, until
from model_api import ModelApi
from virtual_time import live

from cronhpa.api.events import Event
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import LabelRequirement, LabelSelector, TargetRef
from cronhpa.kube.label_selector import (
    REQUIREMENTS_MAX,
    SELECTOR_LENGTH_MAX,
    Selector,
    SelectorError,
    parse_selector,
    select,
)
from cronhpa.kube.metrics import label_text
from cronhpa.kube.pods import LABELS_MAX, RawPod, excess
from cronhpa.operator.loop.delaying_queue import DelayingQueue
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.writes.event_recorder import EventRecorder
from cronhpa.operator.writes.write_places import WritePlaces

WEB = TargetRef("apps/v1", "Deployment", "web")


# --- selectors ---------------------------------------------------------------------------------------------------


def test_a_selector_of_as_many_requirements_as_are_read_is_read_and_one_more_is_not():
    text = ",".join(f"label-{number}=x" for number in range(REQUIREMENTS_MAX))

    assert REQUIREMENTS_MAX == len(parse_selector(text).requirements)
    with pytest.raises(SelectorError, match="more than 100 requirements"):
        parse_selector(f"{text},one-more")


def test_a_selector_of_as_many_characters_as_are_read_is_read_and_one_more_is_not():
    names = ",".join(f"{number:07d}" for number in range(SELECTOR_LENGTH_MAX // 8 - 1))
    text = f"app in ({names})"
    text += " " * (SELECTOR_LENGTH_MAX - len(text))

    assert isinstance(select(text), Selector)
    assert select(f"{text} ").reason == "InvalidSelector"


def test_a_target_of_fifty_thousand_labels_is_told_of_and_costs_no_reconciliation_anything():
    """
    1.1 MB of selector: 3 s of the loop once and 0.2 s at every reconciliation, when it was built and parsed anew at
    each.
    """

    async def scenario():
        api = ModelApi()
        deployment(api, "web")
        labels = {f"label-{number}": "x" for number in range(50_000)}
        api.edit("deployments", "prod", "web", spec={"replicas": 2, "selector": {"matchLabels": labels}})
        cronhpa(api, "web")
        async with Life(api) as life:
            await until(5)
            targets = life.controller.targets
            first, second = [await targets.read("prod", WEB) for _ in range(2)]
        assert first is second
        assert first.selector.reason == "InvalidSelector"
        assert first.scale.selector == ""
        told = condition(api, "ScalingActive", "web")
        assert (told["status"], told["reason"]) == ("False", "InvalidSelector")
        assert "more than 100 requirements or 16384 characters" in told["message"]

    live(scenario)


def test_a_selector_is_read_once_and_not_again_for_every_change_of_the_target():
    async def scenario():
        api = ModelApi()
        deployment(api, "web")
        cronhpa(api, "web")
        async with Life(api) as life:
            await until(5)
            targets = life.controller.targets
            before = await targets.read("prod", WEB)
            api.edit(
                "deployments", "prod", "web", spec={**api.objects["deployments"]["prod", "web"]["spec"], "replicas": 7}
            )
            await until(6)
            after = await targets.read("prod", WEB)
            api.edit("deployments", "prod", "web", spec={"replicas": 7, "selector": {"matchLabels": {"app": "other"}}})
            await until(7)
            other = await targets.read("prod", WEB)
        assert (2, 7) == (before.scale.spec_replicas, after.scale.spec_replicas)
        assert before.selector is after.selector
        assert parse_selector("app=other") == other.selector

    live(scenario)


def test_the_selector_of_a_metric_is_not_asked_with_where_no_server_would_take_it():
    values = tuple(f"value-{number}" for number in range(4000))
    absence = label_text(LabelSelector(match_expressions=(LabelRequirement("queue", "In", values),)))

    assert isinstance(absence, Absent)
    assert "at most 16384 are asked for" in absence.message


# --- pods --------------------------------------------------------------------------------------------------------


def pod(labels=1, containers=1, requests=1):
    return msgspec.convert(
        {
            "metadata": {"name": "a", "labels": {f"label-{number}": "x" for number in range(labels)}},
            "spec": {
                "containers": [
                    {"name": f"c{index}", "resources": {"requests": {f"r{number}": "1" for number in range(requests)}}}
                    for index in range(containers)
                ]
            },
        },
        RawPod,
    )


@pytest.mark.parametrize(
    ("large", "told"),
    [
        (pod(), None),
        (pod(labels=LABELS_MAX, containers=500, requests=10), None),
        (pod(labels=LABELS_MAX + 1), "501 labels, at most 500 are read"),
        (pod(containers=501), "501 containers, at most 500 are read"),
        (pod(containers=500, requests=11), "5500 requests, at most 5000 are read"),
    ],
)
def test_a_pod_of_more_than_any_pod_has_is_not_counted(large, told):
    assert told == excess(large)


# --- what is left behind -----------------------------------------------------------------------------------------


async def test_events_go_with_their_object():
    recorder = EventRecorder(None, WritePlaces())
    state = ObjectState("prod", "web", "uid", 0)
    for number in range(5):
        recorder.record(state, Event("Warning", "SpecUnreadable", f"{number}"), number)

    assert (5, 1) == (recorder.kept_events, recorder.kept_budgets)
    recorder.forget(state)
    assert (0, 0) == (recorder.kept_events, recorder.kept_budgets)


def test_keys_that_come_and_go_leave_no_entries_behind():
    queue = DelayingQueue(lambda: 0.0)
    for number in range(10_000):
        queue.put(("prod", f"web-{number}"), 1000)
        queue.drop(("prod", f"web-{number}"))
    queue.put(("prod", "web"), 1)

    assert queue.entries <= 1002
    assert {"prod": {("prod", "web"): 1}} == queue.pop(2000)


def test_an_edit_of_the_forecast_metric_leaves_nothing_of_the_series_before_it():
    def metric(number):
        target = {"type": "AverageValue", "averageValue": "10"}
        return {"type": "External", "external": {"metric": {"name": f"queue-{number}"}, "target": target}}

    async def scenario():
        api = ModelApi()
        deployment(api, "web")
        cronhpa(api, "web", metrics=[metric(0)], forecast={})
        async with Life(api) as life:
            await until(2)
            for number in (1, 2):
                spec = {**api.objects["cronhpas"]["prod", "web"]["spec"], "metrics": [metric(number)]}
                api.edit("cronhpas", "prod", "web", spec=spec)
                await until(2 + number)
            api.delete("cronhpas", "prod", "web")
            await until(6)
        assert ["queue-0", "queue-1", "queue-2"] == [series.metric for series in life.forecasts.forgotten]

    live(scenario)


def test_a_spec_that_cannot_be_read_for_a_while_loses_no_forecast_and_no_spend():
    """Found: a slip of the keyboard gave the forecast a new budget for the week."""

    async def scenario():
        api = ModelApi()
        deployment(api, "web")
        cronhpa(api, "web", forecast={})
        async with Life(api) as life:
            await until(2)
            api.edit("cronhpas", "prod", "web", spec={"maxReplicas": "many"})
            await until(10)
            api.edit("cronhpas", "prod", "web", spec={"maxReplicas": 10})
            await until(20)
            assert [("prod", "web")] == [*life.controller.forecast_objects]
            assert [] == life.forecasts.forgotten
            api.edit("cronhpas", "prod", "web", spec={"maxReplicas": "many"})
            await until(30)
            api.delete("cronhpas", "prod", "web")
            await until(31)
        assert ["cpu"] == [series.metric for series in life.forecasts.forgotten]
        assert not life.controller.forecast_objects

    live(scenario)


@pytest.mark.slow
def test_targets_that_are_not_there_cost_no_request():
    """A tenant's 500 objects name Deployments that the watch of Deployments does not have."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        for number in range(500):
            cronhpa(api, f"missing-{number:03d}")
        async with Life(api):
            await until(50)
            return api.count("GET", "/scale"), condition(api, "AbleToScale", "missing-000")["reason"]

    assert (0, "FailedGetScale") == live(scenario)
