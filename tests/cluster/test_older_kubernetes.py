"""The oldest Kubernetes that is claimed: its API server takes the chart's CRD, and an object is decided on it."""

from __future__ import annotations

import pytest

from testbed import build
from testbed.control_plane import ControlPlane, ControlPlaneError
from testbed.objects import deployment
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import cron_hpa
from testbed.wait import wait_until

# Each server is built once, in minutes.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=sorted(build.OLDER_KUBERNETES))
def plane(request):
    with ControlPlane(kubernetes=request.param) as plane:
        plane.install_chart()
        yield plane


def test_a_schedule_is_decided_on_it_and_its_status_is_shown(plane, tmp_path):
    assert f"Server Version: v{plane.kubernetes}." in plane.kubectl("version")
    always = {"name": "always", "start": "0 0 * * *", "durationMinutes": 1440, "minReplicas": 4}
    plane.apply(deployment("shop"))
    plane.apply(cron_hpa("shop", "default", metrics=None, schedules=[always]))

    with Operator(plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT), tmp_path):
        wait_until(lambda: plane.get("/apis/apps/v1/namespaces/default/deployments/shop")["spec"]["replicas"] == 4)
        shown = wait_until(lambda: plane.kubectl("get", "chpa", "shop"), lambda text: "Deciding" in text)

    assert "shop" in shown


@pytest.mark.parametrize("value", ["0", "-1", "abc", "1e999999", 0])
def test_a_quantity_that_is_none_is_refused_by_its_pattern(plane, value):
    queue = {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": value}}}

    with pytest.raises(ControlPlaneError, match=r"spec\.metrics\[0\]\.external\.target\.value"):
        plane.apply(cron_hpa("broken", "default", metrics=[queue]))
