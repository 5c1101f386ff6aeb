"""cronhpa.kube.scale, cronhpa.kube.label_selector, cronhpa.kube.pods: the inputs of decisions."""

from __future__ import annotations

import msgspec
import pytest

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.core.model.observation import Container, Pod
from cronhpa.kube.label_selector import parse_selector
from cronhpa.kube.pods import RawPod, pod_from
from cronhpa.kube.scale import workload_selector_text


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"matchLabels": {"tier": "web", "app": "shop"}}, "app=shop,tier=web"),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["b", "a"]}]}, "app in (a,b)"),
        (
            {
                "matchLabels": {"b": "1"},
                "matchExpressions": [
                    {"key": "a", "operator": "Exists"},
                    {"key": "c", "operator": "DoesNotExist"},
                    {"key": "d", "operator": "NotIn", "values": ["x"]},
                ],
            },
            "a,b=1,!c,d notin (x)",
        ),
        ({"app": "shop", "tier": "web"}, "app=shop,tier=web"),  # a ReplicationController's
        ({}, ""),
        (None, ""),
    ],
)
def test_a_workloads_selector_is_stated_as_its_scale_states_it(selector, text):
    assert text == workload_selector_text(selector)


def test_a_stated_selector_can_be_read_back():
    expressions = [{"key": "app.kubernetes.io/name", "operator": "In", "values": ["shop", "web"]}]

    parsed = parse_selector(workload_selector_text({"matchLabels": {"app": "shop"}, "matchExpressions": expressions}))

    assert parsed.matches({"app": "shop", "app.kubernetes.io/name": "web"})
    assert not parsed.matches({"app": "shop"})


RAW = {
    "metadata": {
        "name": "shop-1",
        "namespace": "prod",
        "creationTimestamp": "2026-11-23T09:00:00Z",
        "labels": {"a": "b"},
    },
    "spec": {
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}, {"name": "bare"}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
        "overhead": {"cpu": "10m"},
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-11-23T09:00:01Z",
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-23T09:00:02Z"},
        ],
    },
}


def read(**changed):
    return pod_from(msgspec.convert({**RAW, **changed}, RawPod))


def test_a_pod_is_reduced_to_what_a_decision_reads():
    assert (
        Pod(
            name="shop-1",
            phase="Running",
            deleting=False,
            ready="False",
            ready_since=parse_instant("2026-11-23T09:00:02Z"),
            start_time=parse_instant("2026-11-23T09:00:01Z"),
            created=parse_instant("2026-11-23T09:00:00Z"),
            containers=(
                Container("app", {"cpu": 250, "memory": 1024**3 * 1000}),
                Container("bare", {}),
                Container("proxy", {"cpu": 1000}, is_init=True, restartable=True),
            ),
            overhead={"cpu": 10},
        )
        == read()
    )


def test_a_pod_that_has_just_been_made_has_no_readiness_and_no_start():
    pod = read(status={"phase": "Pending"}, spec={})

    assert ("", 0, None, ()) == (pod.ready, pod.ready_since, pod.start_time, pod.containers)


def test_the_wait_for_a_node_ends_when_the_pod_is_placed():
    def waited(status, at):
        conditions = [{"type": "PodScheduled", "status": status, "lastTransitionTime": f"2026-11-23T{at}Z"}]
        return read(status={"phase": "Pending", "conditions": conditions}).waited

    assert [95 * SECOND, 0, 0] == [
        waited("True", "09:01:35"),
        waited("False", "09:00:01"),  # it waits still
        waited("True", "08:59:59"),  # by a clock that is behind
    ]


def test_a_pod_that_is_being_deleted_is_marked():
    assert read(metadata={"name": "a", "deletionTimestamp": "2026-11-23T10:00:00Z"}).deleting


def test_requests_of_the_pod_as_a_whole_are_kept_apart():
    assert {"cpu": 2000} == read(spec={"resources": {"requests": {"cpu": "2"}}}).pod_requests
    assert read(spec={"resources": {}}).pod_requests is None


def test_a_request_that_cannot_be_read_counts_as_missing():
    pod = read(spec={"containers": [{"name": "app", "resources": {"requests": {"cpu": "much", "memory": "1"}}}]})

    assert {"memory": 1000} == pod.containers[0].requests


def test_a_time_that_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="yesterday"):
        read(status={"startTime": "yesterday"})
