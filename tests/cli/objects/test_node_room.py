"""cronhpa.cli.objects.node_room: what nodes have free and added pods request is what the scheduler counts."""

from __future__ import annotations

import pytest

from cronhpa.cli.objects.node_room import room_for
from cronhpa.core.model.spec import Spec, TargetRef
from kube.fake_api import FakeApi, answering

SHOP = TargetRef("apps/v1", "Deployment", "shop")
ROLLOUT = TargetRef("argoproj.io/v1alpha1", "Rollout", "shop")
GIB = 1024**3 * 1000


def requesting(**requests):
    return {"resources": {"requests": requests}}


def sidecar(**requests):
    return {**requesting(**requests), "restartPolicy": "Always"}


def cluster(template=None, pods=(), **objects):
    """One node of 8 cores and 32 GiB, with these pods; a Deployment of this template."""
    api = FakeApi()
    node = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}
    of_pods = [{"metadata": {}, "spec": {"nodeName": "n", **spec}, "status": {"phase": "Running"}} for spec in pods]
    kinds = {"apps/v1": ("deployments", "Deployment"), "argoproj.io/v1alpha1": ("rollouts", "Rollout")}
    for version, (plural, kind) in kinds.items():
        listed = [{"name": plural, "kind": kind, "namespaced": True}]
        api.answers[f"/apis/{version}"] = answering({"resources": listed})
    api.answers["/api/v1/nodes"] = answering({"items": [node], "metadata": {}})
    api.answers["/api/v1/pods"] = answering({"items": of_pods, "metadata": {}})
    workload = {"spec": {"template": {"spec": template}}}
    api.answers["/apis/apps/v1/namespaces/prod/deployments/shop"] = answering(workload)
    for path, body in objects.items():
        api.answers[path] = answering(body)
    return api


async def room(api, target=SHOP, pods=1):
    async with api.client() as client:
        return await room_for(client, [(Spec(target, 1, 9, namespace="prod"), pods)])


# One core in the container; what the rest of the pod makes of it, in milli-cores, by the rule of the scheduler.
PODS = {
    "containers alone": ({"containers": [requesting(cpu="1"), requesting(cpu="500m")]}, 1500),
    "a sidecar": ({"containers": [requesting(cpu="1")], "initContainers": [sidecar(cpu="250m")]}, 1250),
    "an init step no larger": ({"containers": [requesting(cpu="1")], "initContainers": [requesting(cpu="1")]}, 1000),
    "a larger init step": ({"containers": [requesting(cpu="1")], "initContainers": [requesting(cpu="3")]}, 3000),
    "an init step beside a sidecar": (
        {"containers": [requesting(cpu="1")], "initContainers": [sidecar(cpu="500m"), requesting(cpu="3")]}, 3500
    ),
    "an init step before a sidecar": (
        {"containers": [requesting(cpu="1")], "initContainers": [requesting(cpu="3"), sidecar(cpu="500m")]}, 3000
    ),
    "the pod as a whole": ({"containers": [requesting(cpu="1")], **requesting(cpu="2")}, 2000),
    "overhead": ({"containers": [requesting(cpu="1")], "overhead": {"cpu": "250m"}}, 1250),
    "a whole with overhead": ({"containers": [{}], **requesting(cpu="2"), "overhead": {"cpu": "250m"}}, 2250),
    "nothing": ({"containers": [{}]}, 0),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "milli"), PODS.values(), ids=PODS)
async def test_a_pod_takes_of_its_node_what_the_scheduler_counts(pod, milli):
    """Found: containers alone were counted."""
    found = await room(cluster({"containers": [{}]}, [pod]))

    assert 8000 - milli == found.free["cpu"]


@pytest.mark.parametrize(("pod", "milli"), [case for case in PODS.values() if "overhead" not in case[0]])
async def test_added_pods_request_what_the_scheduler_counts(pod, milli):
    found = await room(cluster(pod), pods=3)

    assert (3 * milli, 0) == (found.needed["cpu"], found.needed["memory"])


@pytest.mark.parametrize(
    ("template", "milli"),
    [
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}, 1000),
        ({"containers": [{}], "resources": {"limits": {"cpu": "2"}}}, 2000),
        ({"containers": [requesting(cpu="1")], "resources": {"limits": {"cpu": "2"}}}, 1000),
        ({"containers": [{}], "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}, 1000),
    ],
)
async def test_what_has_a_limit_and_no_request_requests_its_limit(template, milli):
    """So the API server makes the pod; of a pod with limits as a whole the requests of its containers count first."""
    assert milli == (await room(cluster(template))).needed["cpu"]


async def test_added_pods_have_the_overhead_of_their_runtime_class():
    overhead = {"overhead": {"podFixed": {"memory": "1Gi"}}}
    template = {"containers": [requesting(memory="2Gi")], "runtimeClassName": "gvisor"}

    found = await room(cluster(template, **{"/apis/node.k8s.io/v1/runtimeclasses/gvisor": overhead}))

    assert 3 * GIB == found.needed["memory"]


async def test_a_rollout_that_takes_the_pods_of_a_deployment_requests_theirs():
    ref = {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}}
    path = "/apis/argoproj.io/v1alpha1/namespaces/prod/rollouts/shop"

    found = await room(cluster({"containers": [requesting(cpu="1")]}, **{path: {"spec": ref}}), ROLLOUT, pods=4)

    assert 4000 == found.needed["cpu"]


async def test_of_a_target_without_a_template_nothing_is_told():
    """Found: its pods counted as pods that request nothing."""
    path = "/apis/argoproj.io/v1alpha1/namespaces/prod/rollouts/shop"

    found = await room(cluster({}, **{path: {"spec": {"replicas": 3}}}), ROLLOUT)

    assert "what the added pods request is not known: Rollout prod/shop has no template of its pods" == found
