"""The real KEDA on the target of a CronHPA, on a control plane of its own: the target is left to KEDA."""

import time

import pytest

from cronhpa.core.model.instant import SECOND
from testbed.control_plane import ControlPlane
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.twin import Scaled

# KEDA is built once, in half an hour.
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("benchmark_scripts")]

QUIET_S = 6


def test_a_target_with_a_scaled_object_is_left_to_keda_until_it_is_gone(tmp_path):
    """
    Two pods carry one core. With a ScaledObject on it ours holds, while three cores ask for six pods, and KEDA, whose
    own bounds are 3 to 3, sets three. Once the ScaledObject is gone, with the HPA that KEDA made, ours sets six.
    """
    from peers_products import Keda, Servers

    with ControlPlane(hpa=True, hpa_sync_period="2s") as plane:
        plane.install_chart()
        keda = Keda(plane, tmp_path / "keda", Servers("", ""))
        with (
            Plant(plane.admin_kubeconfig, window=SECOND, delay=SECOND // 5) as plant,
            Operator(plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT), tmp_path) as operator,
        ):
            keda.start()
            try:
                shop = Scaled(plane, "default", replicas=2)
                load = plant.add_target("default", shop.labels, 1.0)
                shop.says("TargetOwned", "True", "OnlyOwner", within_s=60)
                scaled = keda.stepped("default", shop.name, "cpu")
                scaled["spec"] |= {"minReplicaCount": 3, "maxReplicaCount": 3}
                plane.apply(scaled)

                message = shop.says("TargetOwned", "False", "OtherOwner", within_s=60)
                shop.reaches(3, within_s=60)
                plant.set_load(load, 3.0)
                time.sleep(QUIET_S)
                assert 3 == shop.replicas
                assert "HorizontalPodAutoscaler keda-hpa-web scales Deployment/web too" in message

                plane.kubectl("delete", "scaledobject", shop.name, "--timeout=60s")
                shop.says("TargetOwned", "True", "OnlyOwner", within_s=60)
                shop.reaches(6, within_s=60)
            finally:
                keda.stop()
            assert "Traceback" not in operator.log.read_text()
