"""podSelection: Owned on a real control plane, whose controllers make the ReplicaSets and the pods."""

import time

import pytest

from testbed.objects import deployment
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("operator")


def counted(shop):
    """The pods over which CPU was measured."""
    return [metric.get("pods") for metric in shop.status.get("decision", {}).get("metrics", ())]


@pytest.mark.slow
def test_foreign_pods_with_the_same_labels_do_not_count_nor_in_a_rolling_update(control_plane, namespace, plant):
    """
    Two pods of another Deployment have the label app=web, too, and take their part of 3 cores: of 4 own pods each uses
    3 / 6 = 0.5 cores, which is the target. Over all six pods, 4 cores each for the foreign ones, it would be 25 %.
    """
    other = deployment("batch", namespace=namespace, replicas=2, cpu="4")
    both = {"app": "web", "tier": "batch"}
    other["spec"]["selector"]["matchLabels"] = other["spec"]["template"]["metadata"]["labels"] = both
    control_plane.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", [other])
    shop = Scaled(control_plane, namespace, replicas=4, podSelection="Owned")
    plant.add_target(namespace, shop.labels, 3.0)

    wait_until(lambda: counted(shop), lambda pods: pods == [4], within_s=30)
    control_plane.kubectl("rollout", "restart", "deployment", "web", "-n", namespace)
    control_plane.kubectl("rollout", "status", "deployment", "web", "-n", namespace, "--timeout=60s")

    time.sleep(3)  # three periods

    # A pod more at most, from the update: 5 own pods use 5 / 7 of 3 cores, 43 %, and ask for ceil(5 x 43 / 50) = 5.
    assert shop.replicas in {4, 5}
    assert counted(shop) in ([4], [5])
    assert "ValidMetricFound" == shop.condition("ScalingActive")["reason"]
