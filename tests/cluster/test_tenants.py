"""What people may do in their namespaces: the chart's aggregated roles and its policy, on a real API server."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from testbed.control_plane import ControlPlaneError, rendered_chart
from testbed.wait import wait_until

LIMITS = {"maxReplicas": 100, "scheduledReplicas": 20, "overrideHours": 72, "targetKinds": ["Deployment"]}
POLICY = "ValidatingAdmissionPolicy"


def written(namespace, **spec):
    return {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "CronHPA",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
            "maxReplicas": 100,
            "schedules": [{"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 20}],
            **spec,
        },
    }


def event(namespace, **bounds):
    return {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "PlannedEvent",
        "metadata": {"name": "sale", "namespace": namespace},
        "spec": {"selector": {}, "reason": "Sale", "schedules": scheduled(**bounds)},
    }


def override(hours, **bounds):
    until = datetime.now(UTC) + timedelta(hours=hours)
    return {"until": until.strftime("%Y-%m-%dT%H:%M:%SZ"), "reason": "INC-4711", **(bounds or {"minReplicas": 5})}


def scheduled(**bounds):
    return [{"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", **bounds}]


@pytest.fixture(scope="module")
def policed(control_plane):
    """A namespace with limits, by the chart; the policy goes at the end."""
    namespace, larger, simple = "policed", "policed-but-larger", "policed-by-one-limit"
    control_plane.apply(
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (namespace, larger, simple))
    )
    values = {
        "policy": {
            "enabled": True,
            "namespaces": {namespace: LIMITS, larger: {**LIMITS, "maxReplicas": 1000}, simple: {"maxReplicas": 100}},
        }
    }
    policies = [rendered for rendered in rendered_chart(values=values) if rendered["kind"].startswith(POLICY)]
    control_plane.apply(*policies)
    # The API server takes up a policy within a second or two.
    wait_until(lambda: refusal(control_plane, written(namespace, maxReplicas=101)), within_s=30)
    wait_until(lambda: refusal(control_plane, event(namespace, maxReplicas=101)), within_s=30)
    yield namespace
    for manifest in policies:
        control_plane.kubectl("delete", manifest["kind"], manifest["metadata"]["name"])


def refusal(control_plane, document, *verb):
    """What the API server says to it; empty where it would take it."""
    try:
        control_plane.kubectl(*(verb or ("apply",)), "--dry-run=server", "-f", "-", stdin=json.dumps(document))
    except ControlPlaneError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "spec",
    [{}, {"override": override(71)}, {"schedules": scheduled(minReplicas=20, maxReplicas=100)}],
    ids=["at its bounds", "an override of nearly three days", "a schedule at its bounds"],
)
def test_what_keeps_to_the_limits_is_taken(control_plane, policed, spec):
    assert "" == refusal(control_plane, written(policed, **spec))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"maxReplicas": 101}, "found 101 replicas: at most 100 are allowed in namespace policed"),
        ({"schedules": scheduled(maxReplicas=500)}, "found 500 replicas: at most 100 are allowed"),
        ({"override": override(1, minReplicas=300)}, "found 300 replicas: at most 100 are allowed"),
        (
            {"schedules": scheduled(minReplicas=21)},
            "asks for 21 replicas whatever the load: at most 20 are allowed in namespace policed",
        ),
        ({"schedulesFrom": [{"calendar": "sales", "maxReplicas": 500}]}, "found 500 replicas: at most 100 are allowed"),
        (
            {"schedulesFrom": [{"calendar": "sales", "replicas": 21}]},
            "a schedule that asks for 21 replicas whatever the load: at most 20",
        ),
        ({"minReplicas": 21}, "found minReplicas or a schedule that asks for 21 replicas whatever the load"),
        ({"override": override(80)}, "it may last 72 h in namespace policed"),
        (
            {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shop"}},
            "found a StatefulSet as the target: allowed in namespace policed are Deployment",
        ),
    ],
    ids=[
        "maxReplicas",
        "a schedule's",
        "an override's",
        "a schedule's floor",
        "a calendar's",
        "a calendar's floor",
        "a floor at all hours",
        "a long override",
        "another kind",
    ],
)
def test_more_is_refused_with_what_was_found_and_what_is_allowed(control_plane, policed, spec, says):
    assert says in refusal(control_plane, written(policed, **spec))


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({"replicas": 100_000}, "found 100000 replicas: at most 100 are allowed in namespace policed"),
        ({"maxReplicas": 101}, "found 101 replicas: at most 100 are allowed in namespace policed"),
        ({"minReplicas": 21}, "asks for 21 replicas whatever the load: at most 20 are allowed in namespace policed"),
        ({"maxReplicasPercent": 101}, "found maxReplicasPercent 101: at most 100 is allowed in namespace policed"),
        ({"minReplicasPercent": 200}, "found minReplicasPercent 200: at most 100 is allowed in namespace policed"),
        ({"minReplicas": 20, "maxReplicas": 100, "expectedLoadPercent": 300}, ""),
        ({"minReplicasPercent": 100, "maxReplicasPercent": 100}, ""),
    ],
    ids=lambda case: ", ".join(case) if isinstance(case, dict) else "",
)
def test_planned_events_keep_to_the_limits_too(control_plane, policed, bounds, says):
    """A percentage is one of bounds that keep to the limits; a load counts up to the maximum of each object."""
    refused = refusal(control_plane, event(policed, **bounds))

    assert says in refused
    assert bool(says) == bool(refused)


def test_percentages_are_limited_where_their_counts_are(control_plane, policed):
    simple = f"{policed}-by-one-limit"

    assert "" == refusal(control_plane, event(simple, minReplicasPercent=200))
    assert "maxReplicasPercent 200" in refusal(control_plane, event(simple, maxReplicasPercent=200))


def forged(manager, **fields):
    """A forged entry of managedFields with a future time, as any sender of an object can write it."""
    return {
        "manager": manager, "operation": "Update", "apiVersion": "cronhpa.io/v1alpha1", "time": "2099-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }  # fmt: skip


ELSEWHERE = {"f:spec": {"f:maxReplicas": {}}}
OWNER = {"f:spec": {"f:override": {".": {}, "f:until": {}, "f:reason": {}, "f:minReplicas": {}}}}


@pytest.mark.slow
def test_managed_fields_of_ones_own_make_no_override_longer(control_plane, policed):
    """The length is measured from when the API server itself noted the write."""

    def replaced(document, *managed):
        sent = {**document, "metadata": {**document["metadata"], "managedFields": list(managed)}}
        try:
            control_plane.kubectl("replace", "-f", "-", "--field-manager=tenant", stdin=json.dumps(sent))
        except ControlPlaneError as error:
            return str(error)
        return ""

    long = written(policed, override=override(100))
    created = {**long, "metadata": {**long["metadata"], "managedFields": [forged("tenant", **OWNER)]}}
    assert "it may last 72 h" in refusal(control_plane, created, "create")
    control_plane.apply(written(policed))
    try:
        for entry in (forged("other", **ELSEWHERE), forged("other", **OWNER), forged("tenant", **OWNER)):
            assert "it may last 72 h" in replaced(long, entry)
        # In two steps: the forged entry is accepted first, because it changes no spec.
        assert "" == replaced(written(policed), forged("other", **ELSEWHERE), forged("tenant", **OWNER))
        assert "it may last 72 h" in replaced(long, forged("other", **ELSEWHERE), forged("tenant", **OWNER))
        assert "it may last 72 h" in refusal(control_plane, written(policed, override=override(100)))
        assert "it may last 72 h" in refusal(
            control_plane, written(policed, override=override(100)), "apply", "--server-side", "--force-conflicts"
        )
        # Without any managedFields nobody notes who writes what.
        assert "" == replaced(written(policed), {})
        assert "without managedFields" in replaced(written(policed, override=override(1)))
    finally:
        control_plane.kubectl("delete", "cronhpa", "shop", "-n", policed)


def test_an_override_is_extended_step_by_step_and_measured_at_each(control_plane, policed):
    control_plane.apply(written(policed, override=override(71)))
    try:
        assert "" == refusal(control_plane, written(policed, override=override(71.5)))
        assert "it may last 72 h" in refusal(control_plane, written(policed, override=override(73)))
        kept = json.loads(control_plane.kubectl("get", "cronhpa", "shop", "-n", policed, "-o", "json"))
        assert "" == refusal(control_plane, written(policed, maxReplicas=90, override=kept["spec"]["override"]))
    finally:
        control_plane.kubectl("delete", "cronhpa", "shop", "-n", policed)


def test_a_namespace_has_limits_of_its_own_and_one_that_is_not_named_has_none(control_plane, policed, namespace):
    assert "" == refusal(control_plane, written(f"{policed}-but-larger", maxReplicas=1000))
    assert "at most 1000" in refusal(control_plane, written(f"{policed}-but-larger", maxReplicas=1001))
    assert "" == refusal(control_plane, written(namespace, maxReplicas=5000))


def test_the_largest_count_limits_a_schedules_floor_too(control_plane, policed):
    """A floor outranks the spec's maximum: 500 pods would come of it."""
    asked = written(f"{policed}-by-one-limit", schedules=scheduled(minReplicas=500))

    assert "found 500 replicas: at most 100 are allowed" in refusal(control_plane, asked)


def test_an_object_that_is_older_than_its_limits_can_be_labelled(control_plane, namespace):
    """Its spec stays as it is."""
    control_plane.apply(written(namespace, maxReplicas=5000))
    values = {"policy": {"enabled": True, "namespaces": {namespace: LIMITS}}, "fullnameOverride": "later"}
    policies = [rendered for rendered in rendered_chart(values=values) if rendered["kind"].startswith(POLICY)]
    control_plane.apply(*policies)
    try:
        wait_until(lambda: refusal(control_plane, written(namespace, maxReplicas=5001)), within_s=30)
        control_plane.kubectl("label", "cronhpa", "shop", "-n", namespace, "team=web")
    finally:
        for manifest in policies:
            control_plane.kubectl("delete", manifest["kind"], manifest["metadata"]["name"])


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("edit", {"create", "patch", "delete", "get", "watch"}, set()),
        ("view", {"get", "list", "watch"}, {"create", "patch", "delete"}),
    ],
)
def test_people_with_the_usual_roles_may_write_or_read_the_objects_of_their_namespace(
    control_plane, namespace, role, may, may_not
):
    control_plane.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user=u-{role}", "-n", namespace)

    def allowed(verb):
        try:
            control_plane.kubectl("auth", "can-i", verb, "cronhpas.cronhpa.io", "-n", namespace, f"--as=u-{role}", "-q")
        except ControlPlaneError:
            return False
        return True

    wait_until(lambda: allowed("get"))
    assert may == {verb for verb in may | may_not if allowed(verb)}
