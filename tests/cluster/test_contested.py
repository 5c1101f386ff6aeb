"""Two that scale one target on a real API server: the other one is named from the managed fields of the target."""

import pytest

from testbed.objects import deployment
from testbed.twin import Scaled

pytestmark = pytest.mark.usefixtures("operator")


@pytest.mark.long
def test_a_gitops_loop_that_sets_replicas_back_is_named(control_plane, namespace, plant):
    """3 cores need 6 pods; what is in git says 2. The object is reconciled each second."""
    shop = Scaled(control_plane, namespace, replicas=2)
    plant.add_target(namespace, shop.labels, 3.0)
    in_git = deployment(shop.name, namespace=namespace, replicas=2)
    for _ in range(3):
        shop.reaches(6)
        control_plane.apply(in_git, manager="argocd-controller")
    told = shop.says("TargetOwned", "Unknown", "ReplicasContested")

    assert told.startswith("field manager argocd-controller has set back the replicas of Deployment/web 3 times")
    shop.reaches(6)
    assert 1 == len([text for text in shop.events() if text.startswith("ReplicasContested")])
