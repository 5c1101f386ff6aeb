"""The API server is upgraded under load, from the oldest Kubernetes that is claimed to the newest, on one etcd."""

import time

import pytest

from cronhpa.core.model.instant import SECOND
from testbed import build
from testbed.control_plane import ControlPlane
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.twin import Changes, Scaled

# Each older server is built once, in minutes.
pytestmark = pytest.mark.long

QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
OLDEST, *LATER = sorted(build.OLDER_KUBERNETES, key=lambda minor: int(minor.partition(".")[2]))


def test_an_upgrade_under_load_lowers_nothing_and_a_step_is_followed_after_each(tmp_path):
    """
    A queue of 60 at 10 a pod is six pods. After each server, whose CRDs are installed a little later, it is longer by
    20. The scheduler of the newest Kubernetes starts no pods by the oldest server: the metric needs none.
    """
    with ControlPlane(kubernetes=OLDEST) as plane:
        plane.install_chart()
        with (
            Plant(plane.admin_kubeconfig, window=SECOND, delay=SECOND // 5) as plant,
            Operator(plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT), tmp_path) as operator,
        ):
            plant.set_external_metric("default", "queue", 60)
            shop = Scaled(plane, "default", replicas=6, metrics=[QUEUE])
            shop.says("ScalingActive", "True", "ValidMetricFound", within_s=60)
            for number, kubernetes in enumerate([*LATER, None], start=1):
                before = shop.replicas
                plane.upgrade(kubernetes)
                assert kubernetes is None or f"Server Version: v{kubernetes}." in plane.kubectl("version")
                with Changes(shop) as seen:
                    time.sleep(10)
                    plane.install_crds()
                    time.sleep(5)
                assert [before] == [count for _, count in seen.seen]
                plant.set_external_metric("default", "queue", 60 + 20 * number)
                shop.reaches(6 + 2 * number, within_s=60)
            assert "ok\n" == operator.probe()
            assert "Traceback" not in operator.log.read_text()
