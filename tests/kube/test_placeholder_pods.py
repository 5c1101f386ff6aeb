"""cronhpa.kube.placeholder_pods: a pod that fits where the target's pod fits, takes as much room and does nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.quantity import parse_milli
from cronhpa.kube.placeholder_pods import Kin, PodTemplateSpec, placeholder_spec, takes_room

KIN = Kin("prod", {"app": "shop"}, {"room": "shop"})


def made(**spec: Any) -> dict[str, Any]:
    return placeholder_spec(msgspec.convert(spec, PodTemplateSpec), "pause:1", "placeholder", KIN)


def container(requests=None, **fields):
    return {"name": "any", "image": "shop:1", "resources": {"requests": requests or {}}, **fields}


def requested(spec, name="cpu"):
    """What the containers of a pod request together, milli-units."""
    return sum(parse_milli(one["resources"].get("requests", {}).get(name, "0")) for one in spec["containers"])


def test_each_container_and_sidecar_has_its_twin():
    """500m + 250m, and a sidecar of 100m."""
    pod = made(
        containers=[container({"cpu": "500m", "memory": "1Gi"}), container({"cpu": "250m"})],
        initContainers=[container({"cpu": "100m"}, restartPolicy="Always")],
    )

    assert 850 == requested(pod)
    assert 3 == len({one["name"] for one in pod["containers"]})
    assert {"pause:1"} == {one["image"] for one in pod["containers"]}


@pytest.mark.parametrize(("of_init", "expected"), [("2", 2000), ("300m", 500)])
def test_an_init_container_runs_before_the_others_and_counts_where_it_is_larger(of_init, expected):
    pod = made(containers=[container({"cpu": "500m"})], initContainers=[container({"cpu": of_init})])

    assert expected == requested(pod)


def test_a_limit_without_a_request_is_a_request():
    """The API server makes it one: limits are taken as they are."""
    resources = {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}
    template = {"containers": [{"name": "app", "resources": resources}]}

    assert resources == made(**template)["containers"][0]["resources"]
    assert takes_room(msgspec.convert(template, PodTemplateSpec))


def test_it_goes_where_the_pods_go():
    where = {
        "nodeSelector": {"pool": "web"},
        "tolerations": [{"key": "web", "operator": "Exists"}],
        "runtimeClassName": "gvisor",
        "schedulerName": "packing",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    }
    pod = made(containers=[container({"cpu": "1"})], **where)

    assert where == {key: pod[key] for key in where}


OWN, ROOMS = {"matchLabels": {"app": "shop"}}, {"matchLabels": {"room": "shop"}}
ONE_OF = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["shop", "api"]}]}
OTHER = {"matchLabels": {"app": "noisy"}}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def apart(*terms):
    """The terms by which placeholders keep apart, for those of the pods."""
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    pod = made(containers=[container({"cpu": "1"})], affinity={"podAntiAffinity": anti})
    return pod.get("affinity", {}).get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])


@pytest.mark.parametrize("selector", [OWN, ONE_OF])
@pytest.mark.parametrize("place", [HOST, ZONE])
@pytest.mark.parametrize("where", [{}, {"namespaces": ["prod", "test"]}, {"namespaceSelector": {}}])
def test_pods_that_keep_apart_have_placeholders_that_keep_apart_from_each_other_alone(selector, place, where):
    """From the pods they do not: kube-scheduler would leave a pod waiting that has preempted such a placeholder."""
    assert [{"topologyKey": place, "labelSelector": ROOMS}] == apart(
        {"topologyKey": place, "labelSelector": selector, **where}
    )


@pytest.mark.parametrize(
    "term",
    [
        {"topologyKey": HOST, "labelSelector": OTHER},
        {"topologyKey": HOST, "labelSelector": OWN, "namespaces": ["kube-system"]},
        {"topologyKey": HOST, "labelSelector": OWN, "namespaceSelector": {"matchLabels": {"a": "b"}}},
        {"topologyKey": HOST},
        {"topologyKey": HOST, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}},
        {"topologyKey": 7, "labelSelector": OWN},
        "any",
    ],
)
def test_no_tenant_keeps_placeholders_away_from_pods_of_others(term):
    assert [] == apart(term)


def test_pods_that_spread_have_placeholders_that_spread():
    even = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    stated = [{**even, "labelSelector": OWN, "matchLabelKeys": ["pod-template-hash"]}, {**even, "labelSelector": OTHER}]
    pod = made(containers=[container({"cpu": "1"})], topologySpreadConstraints=stated)

    assert [{**even, "labelSelector": ROOMS}] == pod["topologySpreadConstraints"]


def test_nothing_else_of_the_template_is_taken():
    """No image, command, environment, volume, account, host network or privilege of a tenant runs in our namespace."""
    pod = made(
        containers=[
            container(
                {"cpu": "1"},
                command=["sh"],
                env=[{"name": "A", "value": "b"}],
                securityContext={"privileged": True},
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
                ports=[{"hostPort": 80}],
            )
        ],
        volumes=[{"name": "v", "hostPath": {"path": "/"}}],
        serviceAccountName="cronhpa",
        hostNetwork=True,
        hostPID=True,
        securityContext={"runAsUser": 0},
        affinity={"podAffinity": {"any": 1}},
        priorityClassName="system-node-critical",
    )

    assert {"name", "image", "resources", "securityContext"} == {*pod["containers"][0]}
    assert ("pause:1", {"requests": {"cpu": "1"}}) == tuple(pod["containers"][0][key] for key in ("image", "resources"))
    # What the restricted Pod Security Standard asks for.
    assert not pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"]
    assert {"drop": ["ALL"]} == pod["containers"][0]["securityContext"]["capabilities"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert {"type": "RuntimeDefault"} == pod["securityContext"]["seccompProfile"]
    assert ("placeholder", False) == (pod["priorityClassName"], pod["automountServiceAccountToken"])
    assert not {"volumes", "serviceAccountName", "hostNetwork", "hostPID", "affinity"} & {*pod}


def test_a_pod_that_requests_nothing_needs_no_room():
    assert not takes_room(msgspec.convert({"containers": [{"name": "app"}]}, PodTemplateSpec))
    assert takes_room(msgspec.convert({"containers": [{}], "resources": {"requests": {"cpu": "1"}}}, PodTemplateSpec))


milli = st.integers(0, 10**5)


@given(st.lists(milli, min_size=1, max_size=4), st.lists(st.tuples(milli, st.booleans()), max_size=6))
def test_it_takes_the_room_that_the_scheduler_counts_for_the_pod(apps, inits):
    """
    The larger of all that run together and of the largest init step, beside which the sidecars before it run. Found:
    without them, a pod of 1 core, a sidecar of 1 and then a step of 4 had a placeholder of 4 and needs 5.
    """
    pod = made(
        containers=[container({"cpu": f"{cpu}m"}) for cpu in apps],
        initContainers=[
            container({"cpu": f"{cpu}m"}, **({"restartPolicy": "Always"} if is_sidecar else {}))
            for cpu, is_sidecar in inits
        ],
    )

    sidecars = [cpu * is_sidecar for cpu, is_sidecar in inits]
    steps = [cpu + sum(sidecars[:place]) for place, (cpu, is_sidecar) in enumerate(inits) if not is_sidecar]
    assert max(sum(apps) + sum(sidecars), *steps, 0) == requested(pod)
