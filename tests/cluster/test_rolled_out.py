"""A Deployment that is rolled out under a load: pods of two ReplicaSets, surge, and new pods that are not ready yet."""

import json
import time

import pytest

from testbed.control_plane import HOLD, START_UP_TIME
from testbed.objects import horizontal_pod_autoscaler
from testbed.twin import Changes, Scaled
from testbed.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("operator")]

# The upstream of this control plane looks every 2 s; all else is its default, and ours is told the same.
STABLE_S = 3
DOWN = {"scaleDown": {"stabilizationWindowSeconds": STABLE_S}}
LIKE_UPSTREAM = {
    "syncPeriodSeconds": 2, "cpuInitializationPeriodSeconds": None, "initialReadinessDelaySeconds": None,
    "behavior": DOWN,
}  # fmt: skip
# Three cores at 50 % of one core a pod. Of six pods one may be missing and two may surge.
CORES, PODS = 3.0, 6


class Upstream(Scaled):
    """The same target with an HPA."""

    def __init__(self, plane, namespace):
        self._plane, self.namespace, self.name = plane, namespace, "upstream"
        self._replicas, self._start_up_time = PODS, "1s"
        self.create_target()
        plane.apply(horizontal_pod_autoscaler(self.name, namespace=namespace, bounds=(1, 20), behavior=DOWN))


@pytest.fixture
def twins(control_plane, namespace, plant):
    """Ours and the upstream's, with the pods that their load needs, each decided by its metric."""
    ours = Scaled(control_plane, namespace, "ours", replicas=PODS, **LIKE_UPSTREAM)
    upstream = Upstream(control_plane, namespace)
    for twin in (ours, upstream):
        twin.load = plant.add_target(namespace, twin.labels, CORES)
        wait_until(lambda twin=twin: twin.ready, lambda ready: ready == PODS, within_s=40)
    ours.says("ScalingActive", "True", "ValidMetricFound", within_s=40)
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/upstream"
    wait_until(
        lambda: {one["type"]: one["status"] for one in control_plane.get(path)["status"].get("conditions", ())},
        lambda seen: seen.get("ScalingActive") == "True",
        within_s=40,
    )
    return ours, upstream


def roll_out(plane, twins, **annotations):
    """New pods, of the same requests, with these annotations."""
    template = {"metadata": {"annotations": {"version": "2", **annotations}}}
    for twin in twins:
        patch = json.dumps({"spec": {"template": template}})
        plane.kubectl("patch", "deployment", twin.name, "-n", twin.namespace, "--type=merge", "-p", patch)


def rollout(plane, twin):
    """(pods, ready ones, pods of the new template)."""
    status = plane.get(f"/apis/apps/v1/namespaces/{twin.namespace}/deployments/{twin.name}")["status"]
    return status["replicas"], status.get("readyReplicas", 0), status.get("updatedReplicas", 0)


def is_over(plane, twin):
    return rollout(plane, twin) == (twin.replicas,) * 3


def test_a_rollout_under_a_steady_load_scales_nothing(control_plane, twins):
    """Each new pod takes 4 s to be ready: while up to eight pods are there, five to eight share the load."""
    ours, upstream = twins
    with Changes(ours) as seen, Changes(upstream) as theirs:
        roll_out(control_plane, twins, **{START_UP_TIME: "4s"})
        surged = wait_until(lambda: rollout(control_plane, ours), lambda now: now[0] > PODS and now[1] < now[0])
        for twin in twins:
            wait_until(lambda twin=twin: is_over(control_plane, twin), within_s=90)
        time.sleep(2 * STABLE_S)

    assert surged[2] > 0
    assert [PODS] == [count for _, count in theirs.seen]
    assert [PODS] == [count for _, count in seen.seen]


@pytest.mark.parametrize(("cores", "pods"), [(4.5, 9), (1.0, 2)])
def test_a_step_of_the_load_amid_a_rollout_is_followed_as_by_the_upstream(control_plane, twins, plant, cores, pods):
    ours, upstream = twins
    with Changes(ours) as seen, Changes(upstream) as theirs:
        roll_out(control_plane, twins, **{START_UP_TIME: "4s"})
        wait_until(lambda: rollout(control_plane, ours), lambda now: now[1] < now[0])
        for twin in twins:
            plant.set_load(twin.load, cores)
        for twin in twins:
            wait_until(lambda twin=twin: is_over(control_plane, twin) and twin.replicas == pods, within_s=120)
        time.sleep(2 * STABLE_S)

    ours_seen, theirs_seen = ([count for _, count in changes.seen] for changes in (seen, theirs))
    assert pods == ours_seen[-1] == theirs_seen[-1]
    low, high = sorted((PODS, pods))
    # One direction alone, and never beyond what the load needs.
    assert all(low <= count <= high for count in ours_seen)
    assert ours_seen in (sorted(ours_seen), sorted(ours_seen, reverse=True))


def test_a_rollout_that_is_stuck_holds_the_count_and_grows_as_the_upstream_does(control_plane, twins, plant):
    """
    New pods are never ready: five old ones carry three cores at 60 %, and three say nothing. On the way up these count
    as idle, 5 x 60 / 8 = 37.5 %, which is the other direction: the count stays. Six cores are 5 x 120 / 8 = 75 %: 12. A
    first sample that covers the three cores, too, asks for fewer, and there both stay: 5 x 120 / 10 is the target.
    """
    ours, upstream = twins
    with Changes(ours) as seen, Changes(upstream) as theirs:
        roll_out(control_plane, twins, **{HOLD: "true"})
        for twin in twins:
            wait_until(lambda twin=twin: rollout(control_plane, twin), lambda now: now[:2] == (8, 5), within_s=60)
        time.sleep(3 * STABLE_S)
        held = ours.replicas, upstream.replicas
        for twin in twins:
            plant.set_load(twin.load, 6.0)
        wait_until(lambda: upstream.replicas, lambda count: count > PODS)
        time.sleep(4 * STABLE_S)

    assert (PODS, PODS) == held
    for changes in (seen, theirs):
        before, *grown = [count for _, count in changes.seen]
        assert before == PODS
        assert grown == sorted(grown)
        assert 10 <= grown[-1] <= 12
