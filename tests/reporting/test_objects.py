"""Autoscalers, requests and start-up times from Kubernetes objects."""

import pytest

from cronhpa.core.model.instant import SECOND
from cronhpa.reporting.objects import autoscalers_of, requests_of, start_ups_of
from reporting.made_targets import MONDAY, cron_hpa, deployment, hpa

SHOP = ("prod", "Deployment", "shop")


def pod(name, *, scheduled=1, running=21, ready=31, restarts=0, cpu="250m", owner="shop-5f6"):
    """Times in seconds after its creation."""

    def at(second):
        return f"2026-03-02T00:{second // 60:02}:{second % 60:02}Z"

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "prod",
            "creationTimestamp": at(0),
            "labels": {"pod-template-hash": "5f6"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(scheduled)},
                {"type": "Ready", "status": "True", "lastTransitionTime": at(ready)},
            ],
            "containerStatuses": [{"restartCount": restarts, "state": {"running": {"startedAt": at(running)}}}],
        },
    }


def test_an_hpa_is_an_autoscaler_that_is_named_as_kubectl_names_it():
    (found,), left_out = autoscalers_of([hpa(), deployment()], MONDAY)

    assert ("HorizontalPodAutoscaler/shop", SHOP, 2, 100) == (
        found.label, found.target, found.spec.min_replicas, found.spec.max_replicas,
    )  # fmt: skip
    assert [] == left_out


def test_a_trigger_that_states_its_query_is_read_by_that_query():
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "queue", "namespace": "prod"},
        "spec": {
            "scaleTargetRef": {"name": "worker"},
            "minReplicaCount": 1,
            "triggers": [
                {
                    "type": "prometheus",
                    "metadata": {"serverAddress": "http://prometheus:9090", "query": "sum(jobs)", "threshold": "5"},
                }
            ],
        },
    }

    (found,), _ = autoscalers_of([scaled], MONDAY)

    assert "ScaledObject/queue" == found.label
    assert ["sum(jobs)"] == list(found.queries.values())


def test_what_cannot_be_converted_is_left_out_with_the_reason():
    unknown = {**hpa("odd"), "spec": {**hpa("odd")["spec"], "scaleTargetRef": {}}}

    found, left_out = autoscalers_of([hpa(), unknown], MONDAY)

    assert ["shop"] == [one.name for one in found]
    assert ["prod/HorizontalPodAutoscaler/odd"] == [one.autoscaler for one in left_out]


def scaled_object(namespace, *, minimum=1, **fields):
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"name": "shop"},
            "minReplicaCount": minimum,
            "triggers": [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}],
            **fields,
        },
    }


def test_what_keda_scales_is_called_by_its_scaled_object_although_its_hpa_is_read_first():
    made = hpa("keda-hpa-shop")
    made["spec"]["scaleTargetRef"]["name"] = "shop"
    made["metadata"]["ownerReferences"] = [{"kind": "ScaledObject", "name": "shop"}]

    (found,), left_out = autoscalers_of([made, scaled_object("prod", pollingInterval=5)], MONDAY)

    assert ("ScaledObject/shop", "prod") == (found.label, found.namespace)
    assert ["ScaledObject/shop.spec.pollingInterval"] == [text.partition(":")[0] for text in found.remarks]
    assert [] == left_out


def test_what_is_said_of_one_namespace_is_not_said_of_its_namesake_in_another():
    found, _ = autoscalers_of([scaled_object("prod", pollingInterval=5), scaled_object("staging")], MONDAY)

    assert [("prod", 1), ("staging", 0)] == [(one.namespace, len(one.remarks)) for one in found]


@pytest.mark.parametrize("name", ["shop", "shop.v2"])
def test_an_autoscaler_without_a_cron_hpa_is_named_although_its_namesake_has_one(name):
    broken = {**hpa(name), "spec": {**hpa()["spec"], "maxReplicas": None}}
    broken["metadata"] = {"name": name, "namespace": "staging"}

    found, left_out = autoscalers_of([broken, hpa()], MONDAY)

    assert [("prod", ())] == [(one.namespace, one.remarks) for one in found]
    assert [f"staging/HorizontalPodAutoscaler/{name}"] == [one.autoscaler for one in left_out]


def test_each_workload_that_a_sleep_info_sends_to_sleep_is_judged():
    sleep = {
        "apiVersion": "kube-green.com/v1alpha1",
        "kind": "SleepInfo",
        "metadata": {"name": "nights", "namespace": "prod"},
        "spec": {"weekdays": "1-5", "sleepAt": "20:00", "wakeUpAt": "08:00"},
    }
    workloads = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "prod"},
            "spec": {"replicas": 3},
        }
        for name in ("api", "shop")
    ]

    found, _ = autoscalers_of([sleep, *workloads], MONDAY)

    assert ["Deployment/api", "Deployment/shop"] == [one.label for one in found]


def test_a_name_that_is_there_twice_is_judged_once_and_named():
    found, left_out = autoscalers_of([hpa(), hpa(minimum=7)], MONDAY)

    assert [2] == [one.spec.min_replicas for one in found]
    assert [("prod/HorizontalPodAutoscaler/shop", "another one of its name is judged")] == [
        (one.autoscaler, one.why) for one in left_out
    ]


def test_two_autoscalers_of_one_target_say_so():
    other = hpa("other")
    other["spec"]["scaleTargetRef"]["name"] = "shop"

    for bodies in ([hpa(), other], [hpa(), cron_hpa()]):
        one, two = autoscalers_of(bodies, MONDAY)[0]
        assert [f"{two.label} scales its target, too"] == list(one.remarks[-1:])
        assert [f"{one.label} scales its target, too"] == list(two.remarks[-1:])


def test_a_cron_hpa_without_a_target_is_left_out_with_what_is_missing():
    body = {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "CronHPA",
        "metadata": {"name": "odd"},
        "spec": {"maxReplicas": 3},
    }

    found, left_out = autoscalers_of([body], MONDAY)

    assert [] == found
    assert ["default/CronHPA/odd"] == [one.autoscaler for one in left_out]
    assert "scaleTargetRef" in left_out[0].why


def test_requests_are_those_of_the_pods_and_else_of_the_template():
    assert {"cpu": 1000} == requests_of([deployment()])[SHOP].whole
    assert {"cpu": 250} == requests_of([deployment(), pod("a"), pod("b")])[SHOP].whole


def test_a_container_with_a_limit_alone_requests_its_limit():
    """Found: the API server sets it in a pod, not in the template, and a target without pods counted as unmeasured."""
    body = deployment()
    sidecar = {"name": "sidecar", "resources": {"limits": {"cpu": "500m", "memory": "1"}}}
    body["spec"]["template"]["spec"]["containers"].append(sidecar)

    assert {"cpu": 1000 + 500} == requests_of([body])[SHOP].whole


def test_a_resource_that_one_container_does_not_request_is_not_known():
    body = deployment()
    body["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"})

    assert {} == requests_of([body])[SHOP].whole


def test_a_metric_of_one_container_is_measured_by_its_request_alone():
    """Found: it was measured by that of all containers, and was left out where a sidecar requests nothing."""
    body = deployment()
    body["spec"]["template"]["spec"]["containers"] += [
        {"name": "sidecar", "resources": {"requests": {"cpu": "200m", "memory": "1"}}},
        {"name": "logs"},
    ]
    requests = requests_of([body])[SHOP]
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    of_main, of_sidecar = (
        [{"type": "ContainerResource", "containerResource": {**cpu, "container": name}}] for name in ("main", "sidecar")
    )

    def measured(metrics):
        (autoscaler,), _ = autoscalers_of([hpa(metrics=metrics)], MONDAY)
        return requests.measured(autoscaler.spec)

    assert [{"cpu": 1000}, {"cpu": 200}, {}] == [
        measured(of_main), measured(of_sidecar), measured([{"type": "Resource", "resource": cpu}]),
    ]  # fmt: skip


def test_a_pod_that_requests_as_a_whole_needs_no_requests_of_its_containers():
    """As the autoscaler counts: what the pod states, and of other resources the sum of what containers request."""
    body = deployment()
    template = body["spec"]["template"]["spec"]
    template["containers"] += [{"name": "sidecar"}, {"name": "logs", "resources": {"requests": {"memory": "1"}}}]

    template["resources"] = {"requests": {"cpu": "2"}}
    stated = requests_of([body])[SHOP].whole
    template["resources"] = {"limits": {"cpu": "3", "memory": "4", "hugepages-2Mi": "5"}}
    limited = requests_of([body])[SHOP].whole
    del template["resources"]["limits"]["hugepages-2Mi"]

    assert {"cpu": 2000, "memory": 1000} == stated
    assert {"cpu": 1000, "memory": 1000, "hugepages-2Mi": 5000} == limited
    assert {"cpu": 1000, "memory": 1000} == requests_of([body])[SHOP].whole


def test_a_schedule_that_cannot_be_read_is_told():
    """Found: its minReplicas, which hold until it can be, were called not needed, and no line said why they hold."""
    never = {"name": "never", "start": "0 0 30 2 *", "end": "0 1 30 2 *", "minReplicas": 30}

    (found,), _ = autoscalers_of([cron_hpa(schedules=[never])], MONDAY)

    (told,) = found.remarks
    assert told.startswith('its schedule never cannot be read: start: "0 0 30 2 *" names a date that never comes')


def test_a_schedule_that_the_replay_reads_or_leaves_out_is_not_told():
    """Found: one with a calendar "cannot be read", though it is replayed, and one that is suspended holds nothing."""
    office = {"name": "office", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 5}
    never = {"name": "never", "start": "0 0 30 2 *", "end": "0 1 30 2 *", "minReplicas": 30, "suspend": True}

    (found,), _ = autoscalers_of([cron_hpa(schedules=[office | {"exclude": {"calendars": ["days"]}}, never])], MONDAY)

    assert ("calendars are known to the operator alone: the replay is without them",) == found.remarks


def test_a_start_up_is_told_by_its_phases_and_its_slow_tenth():
    """Nine pods of 1 + 20 + 10 s, one of 1 + 20 + 39 s: the 90th percentile of ten is the ninth, 31 s."""
    pods = [pod(f"pod-{number}") for number in range(9)] + [pod("slow", ready=60)]

    start = start_ups_of(pods)[SHOP]

    assert (10, 1 * SECOND, 20 * SECOND, 10 * SECOND, 31 * SECOND) == (
        start.pods, start.scheduling, start.creating, start.becoming_ready, start.total,
    )  # fmt: skip


PULLED = [
    ('Successfully pulled image "shop:2" in 12.5s (13s including waiting). Image size: 12 bytes.', 13.0),
    ('Successfully pulled image "shop:2" in 340ms (340ms including waiting)', 0.34),
    ('Successfully pulled image "in3s" in 1m2.5s.', 62.5),
    ('Container image "shop:2" already present on machine', 0.0),
    ("Pulled in no time", None),
]


@pytest.mark.parametrize(("message", "seconds"), PULLED)
def test_events_tell_how_long_images_were_pulled(message, seconds):
    """Of two containers of each pod; a pod whose events are gone says nothing."""
    pods = [pod(f"pod-{number}") for number in range(4)]
    events = [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"pod-{number}.{container}", "namespace": "prod"},
            "reason": "Pulled",
            "message": message,
            "involvedObject": {"kind": "Pod", "namespace": "prod", "name": f"pod-{number}"},
        }
        for number in range(3)
        for container in range(2)
    ]

    start = start_ups_of([*pods, *events])[SHOP]

    assert (4, seconds and round(2 * seconds * SECOND)) == (start.pods, start.pulling)
    assert start_ups_of(pods)[SHOP].pulling is None
    assert ([], []) == autoscalers_of(events, MONDAY)


@pytest.mark.parametrize("fault", [{"restarts": 1}, {"ready": 10}, {"running": 0}])
def test_a_pod_that_was_restarted_or_whose_times_contradict_tells_no_start(fault):
    assert {} == start_ups_of([pod(f"pod-{number}", **fault) for number in range(5)])


@pytest.mark.parametrize("status", ["Running", ["a"], {"schedules": "night"}, {"schedules": ["night", None]}])
def test_a_status_that_has_not_the_form_of_one_tells_of_nothing(status):
    body = cron_hpa() | {"status": status}

    (found,), left_out = autoscalers_of([body], MONDAY)

    assert (2, []) == (found.spec.min_replicas, left_out)
