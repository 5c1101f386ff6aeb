"""
Operator, objects and CRDs are removed in any order: nothing stays behind that waits for another, and nothing is scaled.

On a control plane of its own, because a CRD is that of all namespaces.
"""

import itertools
import time

import pytest
import yaml

from cronhpa.core.model.instant import SECOND
from testbed.control_plane import CRDS, ControlPlane
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.twin import Scaled, cron_hpa
from testbed.wait import wait_until

pytestmark = pytest.mark.faults

NAMES = [yaml.safe_load(path.read_text())["metadata"]["name"] for path in sorted(CRDS.glob("*.yaml"))]
ORDERS = list(itertools.permutations(("operator", "objects", "definitions")))
# A reconciliation a second, and three of stabilization: whoever still scaled would have done so.
QUIET_S = 6


@pytest.fixture(scope="module")
def plane():
    with ControlPlane() as plane:
        plane.install_chart()
        yield plane


@pytest.fixture(scope="module")
def own_plant(plane):
    with Plant(plane.admin_kubeconfig, window=SECOND, delay=SECOND // 5) as plant:
        yield plant


@pytest.fixture
def own_operator(plane, tmp_path):
    plane.install_crds()
    with Operator(plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT), tmp_path) as operator:
        yield operator


def counts(plane, namespace):
    listed = plane.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]
    return {target["metadata"]["name"]: target["spec"]["replicas"] for target in listed}


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_whatever_is_removed_first_the_rest_goes_and_nothing_is_scaled(plane, own_plant, own_operator, order):
    """
    Of ten objects one follows a load, which falls and rises once its object is gone. In the end the namespace goes, and
    the operator, where it runs still, takes up the definitions that are installed anew.
    """
    namespace = f"gone-{'-'.join(order)}"
    plane.create("/api/v1/namespaces", [{"metadata": {"name": namespace}}])
    shop = Scaled(plane, namespace, replicas=6)
    load = own_plant.add_target(namespace, shop.labels, 3.0)
    others = [Scaled(plane, namespace, f"other-{number}", replicas=2, minReplicas=2) for number in range(9)]
    shop.says("ScalingActive", "True", "ValidMetricFound", within_s=60)
    for other in others:
        wait_until(lambda other=other: other.status)
    before = counts(plane, namespace)

    def remove(what):
        if what == "operator":
            own_operator.kill()
        elif what == "objects":
            plane.kubectl("delete", "chpa", "--all", "-n", namespace, "--timeout=30s")
        else:
            plane.kubectl("delete", "crd", *NAMES, "--timeout=60s")

    gone = set()
    for number, what in enumerate(order):
        if what == "objects" and "definitions" in gone:
            continue  # they went with their definition
        remove(what)
        gone.add(what)
        # Without an operator, or without its object, the load of one core or five may do what it wants.
        own_plant.set_load(load, 1.0 if number % 2 else 5.0)
        time.sleep(QUIET_S)
        assert before == counts(plane, namespace)
        if "operator" not in gone:
            assert "ok\n" == own_operator.probe()

    plane.kubectl("delete", "namespace", namespace, "--timeout=60s")
    assert "Traceback" not in own_operator.log.read_text()


def test_an_operator_that_lost_its_definitions_serves_those_that_are_installed_anew(plane, own_plant, own_operator):
    """It runs on without them, says so, and decides again soon after, without a restart."""
    namespace = "anew"
    plane.create("/api/v1/namespaces", [{"metadata": {"name": namespace}}])
    shop = Scaled(plane, namespace, replicas=6)
    load = own_plant.add_target(namespace, shop.labels, 3.0)
    shop.says("ScalingActive", "True", "ValidMetricFound", within_s=60)

    plane.kubectl("delete", "crd", *NAMES, "--timeout=60s")
    own_plant.set_load(load, 1.0)
    time.sleep(QUIET_S)
    assert 6 == shop.replicas
    assert "ok\n" == own_operator.probe()

    plane.install_chart()
    plane.apply(cron_hpa(shop.name, namespace))
    shop.reaches(2, within_s=60)
    plane.kubectl("delete", "namespace", namespace, "--timeout=60s")
    log = own_operator.log.read_text()
    assert "404 page not found" in log
    assert "Traceback" not in log
