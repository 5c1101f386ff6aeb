"""What the nodes of a cluster have free, by node pool, and what added pods request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from cronhpa.core.model.spec import Spec
    from cronhpa.kube.client import Client

# The labels by which clouds and autoscalers name the pool of a node.
_POOL_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "alpha.eksctl.io/nodegroup-name",
    "node.cluster.x-k8s.io/machine-pool",
)
Amounts = dict[str, int]


class Room(Struct, frozen=True):
    """What the nodes can hold, and what added pods request: milli-cores of cpu, milli-bytes of memory."""

    free: Mapping[str, int]
    needed: Mapping[str, int]
    pools: Mapping[str, Mapping[str, int]] = {}
    """What is free in each node pool; "" for nodes without a label of a pool."""


async def room_for(client: Client, added: Iterable[tuple[Spec, int]]) -> Room | str:
    """
    What the nodes have free (allocatable less requests), beside what the added pods of targets request.

    A text where the caller may not see it.
    """
    from cronhpa.kube.errors import ClusterError

    try:
        pools = await _free(client)
        needed = await _needed(client, added)
    except ClusterError as error:
        return f"what the nodes can hold is not known: {error.message}"
    free = _nothing()
    for of_pool in pools.values():
        _add(free, of_pool, 1)
    return Room(free, needed, pools)


async def listed(client: Client, path: str) -> AsyncIterator[dict[str, Any]]:
    """The objects at a path. Raises ClusterError."""
    async for items, _ in client.pages(path):
        for raw in items:
            yield json.loads(bytes(raw))


async def _free(client: Client) -> dict[str, Amounts]:
    pools: dict[str, Amounts] = {}
    pool_of: dict[str, str] = {}
    async for node in listed(client, "/api/v1/nodes"):
        if node.get("spec", {}).get("unschedulable"):
            continue
        meta = node["metadata"]
        labels = meta.get("labels") or {}
        pool = next((labels[label] for label in _POOL_LABELS if label in labels), "")
        pool_of[meta["name"]] = pool
        _add(pools.setdefault(pool, _nothing()), _amounts(node.get("status", {}).get("allocatable")), 1)
    async for pod in listed(client, "/api/v1/pods"):
        node_name = pod["spec"].get("nodeName")
        if node_name in pool_of and pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            _add(pools[pool_of[node_name]], _requests(pod["spec"]), -1)
    return pools


async def _needed(client: Client, added: Iterable[tuple[Spec, int]]) -> Amounts:
    from cronhpa.kube.discovery import Discovery

    needed = _nothing()
    discovery = Discovery(client)
    for spec, pods in added:
        resource = await discovery.resource(spec.target.api_version, spec.target.kind)
        target = await client.get(resource.path(spec.namespace, spec.target.name), dict)
        _add(needed, _requests(target.get("spec", {}).get("template", {}).get("spec", {})), pods)
    return needed


def _nothing() -> Amounts:
    return {"cpu": 0, "memory": 0}


def _add(total: Amounts, amounts: Mapping[str, int], times: int) -> None:
    for name, amount in amounts.items():
        total[name] += times * amount


def _amounts(quantities: Any) -> Amounts:
    from cronhpa.core.model.quantity import parse_milli

    return {name: parse_milli(str(quantities[name])) for name in ("cpu", "memory") if name in (quantities or {})}


def _requests(pod: Mapping[str, Any]) -> Amounts:
    total = _nothing()
    for container in pod.get("containers") or ():
        _add(total, _amounts(container.get("resources", {}).get("requests")), 1)
    return total
