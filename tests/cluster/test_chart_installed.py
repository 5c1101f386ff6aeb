"""The chart on a real API server: the server accepts all objects; the account has exactly the documented rights."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
import yaml

from testbed.control_plane import rendered_chart

ACCOUNT = "system:serviceaccount:cronhpa-system:cronhpa"


def may(control_plane, verb, resource, subresource=""):
    """Whether the API server would let the operator's account do it in some namespace."""
    group, _, plural = resource.rpartition("/")
    asked = {"namespace": "shop", "verb": verb, "group": group, "resource": plural, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": asked},
    }
    answer = control_plane.kubectl("create", "-f", "-", "-o", "json", stdin=yaml.safe_dump(review))
    return json.loads(answer)["status"]["allowed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"networkPolicy": {"from": []}, "persistence": {"enabled": False}},
        {"scaleTargets": [{"apiGroup": "argoproj.io", "resource": "rollouts"}], "priorityClassName": ""},
    ],
)
def test_every_object_is_accepted_where_only_restricted_pods_may_run(control_plane, namespace, values):
    control_plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    rendered = rendered_chart(namespace=namespace, values={**values, "crds": {"install": False}})
    template = next(manifest for manifest in rendered if manifest["kind"] == "StatefulSet")["spec"]["template"]
    pod = deepcopy(template) | {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"]["name"] = "restricted"
    # The claim becomes a volume only when a StatefulSet makes the pod.
    claim = {"name": "history", "emptyDir": {}}
    pod["spec"]["volumes"] = [volume for volume in pod["spec"]["volumes"] if volume["name"] != "history"] + [claim]

    objects = control_plane.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(rendered)
    )
    restricted = control_plane.kubectl(
        "create",
        "--dry-run=server",
        "--validate=strict",
        "--namespace",
        namespace,
        "-f",
        "-",
        stdin=yaml.safe_dump(pod),
    )

    assert all("(server dry run)" in line for line in objects.splitlines())
    assert "pod/restricted created (server dry run)\n" == restricted


@pytest.mark.parametrize(
    "question",
    [
        ("watch", "cronhpa.io/cronhpas"),
        ("patch", "cronhpa.io/cronhpas", "status"),
        ("patch", "apps/deployments", "scale"),
        ("get", "apps/statefulsets", "scale"),
        ("list", "pods"),
        ("list", "metrics.k8s.io/pods"),
        ("list", "external.metrics.k8s.io/queue_length"),
        ("get", "custom.metrics.k8s.io/pods", "requests_per_second"),
        ("list", "autoscaling/horizontalpodautoscalers"),
        ("list", "autoscaling.k8s.io/verticalpodautoscalers"),
        ("create", "events"),
    ],
    ids=" ".join,
)
def test_the_operators_account_may(control_plane, question):
    assert may(control_plane, *question)


@pytest.mark.parametrize(
    "question",
    [
        ("update", "cronhpa.io/cronhpas"),
        ("patch", "cronhpa.io/cronhpas"),
        ("patch", "apps/deployments"),
        ("get", "secrets"),
        ("list", "configmaps"),
        ("create", "pods"),
        ("delete", "pods"),
        ("patch", "autoscaling/horizontalpodautoscalers"),
        ("get", "external.metrics.k8s.io/queue_length"),
        ("list", "custom.metrics.k8s.io/pods", "requests_per_second"),
    ],
    ids=" ".join,
)
def test_the_operators_account_may_not(control_plane, question):
    assert not may(control_plane, *question)
