"""Objects that are deleted on a real API server: nothing waits for an operator, and nobody is told of errors."""

import pytest

from testbed.objects import deployment
from testbed.twin import cron_hpa
from testbed.wait import wait_until

MANY = 100


def made(control_plane, namespace):
    names = [f"shop-{number:03d}" for number in range(MANY)]
    control_plane.create(
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        [deployment(name, namespace=namespace, replicas=0) for name in names],
    )
    control_plane.create(
        f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas",
        [cron_hpa(name, namespace, minReplicas=1) for name in names],
    )


def listed(control_plane, namespace):
    return control_plane.get(f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas")["items"]


@pytest.mark.faults
@pytest.mark.usefixtures("no_operator")
def test_a_namespace_of_many_objects_goes_without_an_operator(control_plane, namespace):
    """No object has a finalizer."""
    made(control_plane, namespace)
    assert not any("finalizers" in item["metadata"] for item in listed(control_plane, namespace))

    control_plane.kubectl("delete", "namespace", namespace, "--timeout=60s")


@pytest.mark.faults
def test_many_objects_and_targets_deleted_at_once_are_gone_and_nothing_is_logged(control_plane, namespace, operator):
    made(control_plane, namespace)
    wait_until(lambda: all("status" in item for item in listed(control_plane, namespace)), within_s=60)
    before = operator.log.stat().st_size

    control_plane.kubectl("delete", "deployments,chpa", "--all", "-n", namespace, "--timeout=90s")

    assert [] == listed(control_plane, namespace)
    assert operator.log.stat().st_size - before < 100 * MANY
    assert "Traceback" not in operator.log.read_text()
