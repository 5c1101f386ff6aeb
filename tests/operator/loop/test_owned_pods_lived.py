"""cronhpa.operator.loop.reconciler: podSelection Owned, through the whole operator."""

from __future__ import annotations

from typing import Any

from lives import Life, condition, cronhpa, deployment, status, until
from model_api import Fault, ModelApi
from virtual_time import live


class OwningApi(ModelApi):
    """Pods of a Deployment are made by a ReplicaSet of the Deployment."""

    def create(self, plural: str, namespace: str, name: str, **body: Any) -> dict[str, Any]:
        if plural == "pods" and name.startswith("shop-"):
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-1", "controller": True}
            body["metadata"]["ownerReferences"] = [owner]
        return super().create(plural, namespace, name, **body)


def foreign_pods(api: ModelApi, count: int) -> None:
    """Pods of nobody with the labels of the target: each requests 4 cores and uses what a pod of the target uses."""
    for number in range(count):
        api.create(
            "pods",
            "prod",
            f"batch-{number}",
            metadata={"labels": {"app": "shop"}, "creationTimestamp": "2026-11-23T06:00:00Z"},
            spec={"containers": [{"name": "app", "resources": {"requests": {"cpu": "4"}}}]},
            status={
                "phase": "Running",
                "startTime": "2026-11-23T06:00:00Z",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-23T06:00:00Z"}],
            },
        )


def life_of(selection: str, seconds: float = 400, *, breaks: bool = False) -> tuple[int, int, Any, Any]:
    """Replicas at the end of a life at 50 % of 1 core each, requests for ReplicaSets, the object's status and Ready."""

    async def scenario() -> Any:
        api = OwningApi()
        deployment(api, replicas=4)
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "controller": True}
        api.create("replicasets", "prod", "shop-1", metadata={"ownerReferences": [owner]})
        foreign_pods(api, 2)
        if breaks:
            api.faults.append(Fault("GET", "replicasets", 403, times=None))
        api.load["prod", "shop"] = 2000
        cronhpa(api, podSelection=selection)
        async with Life(api):
            await until(seconds)
            ready = condition(api, "Ready")
            return api.replicas("prod", "shop"), api.count("GET", "replicasets"), status(api), ready

    return live(scenario)


def test_foreign_pods_with_the_same_labels_do_not_count():
    """4 x 500m of 4 cores is the target, 50 %. With 2 pods of 4 cores each it is 3 of 12 cores,
    25 %, which asks for 6 * 25 / 50 = 3 pods."""
    as_upstream, asked_for_all, *_ = life_of("All")
    owned, asked, told, _ = life_of("Owned")

    assert as_upstream < 4
    assert 4 == owned
    assert 4 == told["decision"]["metrics"][0]["pods"]
    assert 0 == asked_for_all
    assert 1 == asked


def test_nothing_is_lowered_while_the_owner_cannot_be_read():
    replicas, _, _, ready = life_of("Owned", breaks=True)

    assert 4 == replicas
    assert "PodOwnersUnknown" == ready["reason"]
