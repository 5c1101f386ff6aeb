"""benchmarks/fleet_cluster.py: the fake cluster of the fleet's bench tells what a real one does."""

import asyncio
import importlib
import sys
from pathlib import Path

import pytest


@pytest.fixture
def cluster(monkeypatch):
    """One Deployment of four Ready pods."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    module = importlib.import_module("fleet_cluster")
    monkeypatch.setattr(module, "START_UP_S", 0.02)

    def cronhpa(namespace, name, uid, version):
        return {"metadata": {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": str(version)}}

    yield module.FleetCluster(1, 1, 4, cronhpa)
    for name in ("fleet_cluster", "fleet_objects"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("replicas", [2, 6])
async def test_after_a_scaling_the_target_counts_as_many_pods_as_there_are(cluster, replicas):
    """A target that counts more than are seen is taken for a watch that lost some, and all pods are listed again."""
    cluster.scale("fleet-0", "app-0", None, replicas)
    await asyncio.sleep(0.1)

    (deployment,) = cluster.listed("deployments", "")
    assert (replicas, replicas) == (deployment.replicas, deployment.status_replicas)
