"""The chart by `helm install` and `helm upgrade` on a real API server: changes in place, and replacements."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from testbed.control_plane import CHART
from testbed.objects import plain_cron_hpa
from testbed.twin import CPU_50

RELEASE = "upgraded"
FORMER_VALUES = Path(__file__).parents[1] / "deploy" / "former_values"
# The release of the control plane itself has the CRD.
SMALL = {"replicas": 1, "crds": {"install": False}, "fullnameOverride": RELEASE}
IN_A_DATABASE = {"store": {"postgresql": {"url": "postgresql://cronhpa@db.example/cronhpa"}}}


@pytest.fixture
def stateful_set(control_plane, namespace):
    return lambda: control_plane.get(f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{RELEASE}")


def names(control_plane, namespace, kind):
    return control_plane.kubectl("get", kind, "-n", namespace, "-o", "name").split()


@pytest.mark.slow
def test_one_replica_becomes_two_in_place_and_gets_its_budget(control_plane, namespace, helm, stateful_set):
    code, said = helm("install", RELEASE, str(CHART), values=SMALL)
    assert 0 == code, said
    before = stateful_set()
    assert [] == names(control_plane, namespace, "poddisruptionbudget")

    code, said = helm("upgrade", RELEASE, str(CHART), values={**SMALL, "replicas": 2})

    assert 0 == code, said
    assert (before["metadata"]["uid"], 2) == (stateful_set()["metadata"]["uid"], stateful_set()["spec"]["replicas"])
    assert ["poddisruptionbudget.policy/upgraded"] == names(control_plane, namespace, "poddisruptionbudget")


@pytest.mark.slow
def test_a_store_in_place_of_the_volumes_needs_the_command_that_the_documentation_names(
    control_plane, namespace, helm, stateful_set
):
    """Kubernetes changes no volume claims of a StatefulSet."""
    code, said = helm("install", RELEASE, str(CHART), values=SMALL)
    assert 0 == code, said
    moved = {**SMALL, **IN_A_DATABASE}
    code, said = helm("upgrade", RELEASE, str(CHART), values=moved)
    assert code
    assert "updates to statefulset spec for fields other than" in said

    control_plane.kubectl("delete", "statefulset", RELEASE, "-n", namespace, "--cascade=orphan")
    code, said = helm("upgrade", RELEASE, str(CHART), values=moved)

    assert 0 == code, said
    assert "volumeClaimTemplates" not in stateful_set()["spec"]


@pytest.mark.slow
def test_values_that_are_reused_lack_what_a_release_has_added_and_get_its_defaults(
    tmp_path, namespace, helm, stateful_set
):
    """tests/deploy/test_chart_upgrade.py has every block of values."""
    former = shutil.copytree(CHART, tmp_path / "cronhpa")
    shutil.copy(FORMER_VALUES / "first.yaml", former / "values.yaml")
    code, said = helm("install", RELEASE, str(former), values={**SMALL, "syncPeriod": "7s"})
    assert 0 == code, said

    code, said = helm("upgrade", RELEASE, str(CHART), "--reuse-values")

    assert 0 == code, said
    (container,) = stateful_set()["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    assert ("7s", str(defaults["page"]["port"])) == (
        environment["CRONHPA_SYNC_PERIOD"],
        environment["CRONHPA_PAGE_PORT"],
    )


@pytest.mark.slow
def test_a_rollback_brings_the_former_release_back_and_leaves_the_objects(control_plane, namespace, helm, stateful_set):
    """What docs/how-to/install.md names as the way back, from an upgrade by reused values."""
    code, said = helm("install", RELEASE, str(CHART), values={**SMALL, "syncPeriod": "7s"})
    assert 0 == code, said
    before, uid = stateful_set()["spec"]["template"], stateful_set()["metadata"]["uid"]
    control_plane.apply(plain_cron_hpa("shop", namespace=namespace, bounds=(2, 5), metrics=[CPU_50]))
    code, said = helm("upgrade", RELEASE, str(CHART), "--reuse-values", "--set", "syncPeriod=9s,replicas=2")
    assert 0 == code, said
    assert before != stateful_set()["spec"]["template"]

    code, said = helm("rollback", RELEASE)

    assert 0 == code, said
    assert (before, uid, 1) == (
        stateful_set()["spec"]["template"],
        stateful_set()["metadata"]["uid"],
        stateful_set()["spec"]["replicas"],
    )
    assert [] == names(control_plane, namespace, "poddisruptionbudget")
    assert ["cronhpa.cronhpa.io/shop"] == names(control_plane, namespace, "cronhpas")
