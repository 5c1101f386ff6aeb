"""Objects that are deleted on a real API server: no deletion waits for an operator, and there are no errors."""

import re

import pytest

from testbed.objects import deployment
from testbed.twin import Scaled, cron_hpa
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
    assert not any("finalizers" in listed_object["metadata"] for listed_object in listed(control_plane, namespace))

    control_plane.kubectl("delete", "namespace", namespace, "--timeout=60s")


@pytest.mark.faults
def test_many_objects_and_targets_deleted_at_once_are_gone_and_no_error_is_logged(control_plane, namespace, operator):
    """The targets are deleted first: each object reports its missing target once."""
    made(control_plane, namespace)
    wait_until(
        lambda: all("status" in listed_object for listed_object in listed(control_plane, namespace)), within_s=60
    )
    before = operator.log.stat().st_size

    control_plane.kubectl("delete", "deployments,chpa", "--all", "-n", namespace, "--timeout=90s")

    assert [] == listed(control_plane, namespace)
    logged = operator.log.read_bytes()[before:].decode().splitlines()
    assert [] == [line for line in logged if "INFO    cronhpa.operator.writes.state_log: " not in line]
    told = re.findall(r"/(shop-\d+): TargetLost", "\n".join(logged))
    assert len(told) == len(set(told))


@pytest.mark.slow
def test_a_status_of_any_depth_takes_nothing_from_anybody(control_plane, namespace, plant, operator, tmp_path):
    """Any JSON is taken as `status.memory`: no list of a process that starts then may end at one object."""
    forged, other = (Scaled(control_plane, namespace, name, replicas=2) for name in ("forged", "other"))
    load = plant.add_target(namespace, other.labels, 1.0)
    for lease in (forged, other):
        lease.says("SpecAccepted", "True", "Accepted")
    operator.kill()
    patch = tmp_path / "patch.json"
    patch.write_text('{"status": {"memory": {"recommendations": ' + "[" * 1500 + "]" * 1500 + "}}}")
    control_plane.kubectl(
        "patch", "cronhpa", "forged", "-n", namespace, "--subresource=status", "--type=merge", f"--patch-file={patch}"
    )
    operator.start()

    plant.set_load(load, 2.0)
    other.reaches(4, within_s=40)
    forged.patch(minReplicas=3)
    forged.reaches(3)
