"""A quota that keeps pods away: the count is asked for, fewer pods come, and nothing runs away or falls."""

import json
import time

import pytest

from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("operator")]

ALLOWED = 4


@pytest.fixture
def quota(control_plane, namespace):
    """No more than four pods in the namespace."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    meta = {"name": "few", "namespace": namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": str(ALLOWED)}}}
    control_plane.create(path, [quota])
    # The API server refuses by the status alone, which a controller writes that does not run here.
    stated = json.dumps({"status": {"hard": {"pods": str(ALLOWED)}, "used": {"pods": "0"}}})
    control_plane.kubectl(
        "patch", "resourcequota", "few", "-n", namespace, "--subresource=status", "--type=merge", "-p", stated
    )
    return f"{path}/few"


def counts(shop, seconds):
    """The counts of the target during so many seconds."""
    seen, until = set(), time.monotonic() + seconds
    while time.monotonic() < until:
        seen.add(shop.replicas)
        time.sleep(0.1)
    return seen


def test_pods_that_a_quota_keeps_away_let_no_count_run_away_and_come_once_they_may(
    control_plane, namespace, plant, operator, quota
):
    """
    Six pods are needed and four are let in: at 75 % each they still ask for six, and not for more at each
    reconciliation. Four cores ask for eight, one core for two, though two and four of them never came.
    """
    shop = Scaled(control_plane, namespace, replicas=2)
    load = plant.add_target(namespace, shop.labels, 3.0)
    shop.reaches(6, within_s=40)
    wait_until(lambda: shop.ready, lambda ready: ready == ALLOWED)

    assert {6} == counts(shop, 10)
    assert ALLOWED == shop.ready
    assert "True" == shop.condition("Ready")["status"]

    plant.set_load(load, 4.0)
    shop.reaches(8, within_s=40)
    assert {8} == counts(shop, 6)

    control_plane.delete(quota)

    def tried_again():
        """The controller of ReplicaSets waits for as long as it was refused, minutes by now, or until one changes."""
        annotation = f"tried={time.monotonic_ns()}"
        control_plane.kubectl("annotate", "--overwrite", "replicasets", "--all", "-n", namespace, annotation)
        return shop.ready

    wait_until(tried_again, lambda ready: ready == 8, within_s=60, every_s=2)
    assert {8} == counts(shop, 4)

    plant.set_load(load, 1.0)
    shop.reaches(2, within_s=40)
    assert "Traceback" not in operator.log.read_text()


def test_a_load_that_falls_behind_a_quota_is_followed_down(control_plane, namespace, plant, quota):
    """Eight are asked for and four are there; one core at 25 % of each needs two."""
    shop = Scaled(control_plane, namespace, replicas=2)
    load = plant.add_target(namespace, shop.labels, 4.0)
    shop.reaches(8, within_s=40)
    wait_until(lambda: shop.ready, lambda ready: ready == ALLOWED)

    plant.set_load(load, 1.0)

    shop.reaches(2, within_s=60)
    assert {2} == counts(shop, 5)


def test_a_floor_that_a_quota_does_not_let_in_is_asked_for_and_kept(control_plane, namespace, plant, quota):
    """Ten are the least; the load needs two, and four pods are there. The floor stays asked for, and no less."""
    shop = Scaled(control_plane, namespace, replicas=2)
    plant.add_target(namespace, shop.labels, 1.0)
    shop.says("ScalingActive", "True", "ValidMetricFound", within_s=40)

    shop.patch(minReplicas=10)

    shop.reaches(10, within_s=40)
    assert {10} == counts(shop, 10)
    assert ALLOWED == shop.ready
