"""What the nodes of a cluster have free, by node pool, and what added pods request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from cronhpa.core.model.spec import Spec, TargetRef
    from cronhpa.kube.client import Client
    from cronhpa.kube.discovery import Discovery

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


class _NoTemplateError(Exception):
    """A target does not tell what its pods are."""


class Room(Struct, frozen=True):
    """What the nodes can hold, and what added pods request: milli-cores of cpu, milli-bytes of memory."""

    free: Mapping[str, int]
    needed: Mapping[str, int]
    pools: Mapping[str, Mapping[str, int]] = {}
    """What is free in each node pool; "" for nodes without a label of a pool."""


async def room_for(client: Client, added: Iterable[tuple[Spec, int]]) -> Room | str:
    """
    What the nodes have free (allocatable less requests), beside what the added pods of targets request.

    A text where the caller may not see it, or a target does not tell.
    """
    from cronhpa.kube.errors import ClusterError

    try:
        pools = await _free(client)
        needed = await _needed(client, added)
    except ClusterError as error:
        return f"what the nodes can hold is not known: {error.message}"
    except _NoTemplateError as problem:
        return f"what the added pods request is not known: {problem}"
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
    """Raises ClusterError, and _NoTemplateError."""
    from cronhpa.kube.discovery import Discovery

    needed = _nothing()
    discovery = Discovery(client)
    for spec, pods in added:
        template = await _template(client, discovery, spec.namespace, spec.target, follows=True)
        _add(needed, _requests(_defaulted(template)), pods)
    return needed


async def _template(
    client: Client, discovery: Discovery, namespace: str, of: TargetRef, *, follows: bool
) -> dict[str, Any]:
    """
    The spec of a workload's pods, with the overhead of their RuntimeClass.

    follows: to the workload that a Rollout of Argo takes its pods from.
    """
    from cronhpa.core.model.spec import TargetRef
    from cronhpa.kube.client import path_of

    resource = await discovery.resource(of.api_version, of.kind)
    workload = (await client.get(resource.path(namespace, of.name), dict)).get("spec") or {}
    template: dict[str, Any] = (workload.get("template") or {}).get("spec") or {}
    if not template and follows and (ref := workload.get("workloadRef")):
        named = TargetRef(*(str(ref.get(key)) for key in ("apiVersion", "kind", "name")))
        return await _template(client, discovery, namespace, named, follows=False)
    if not template:
        raise _NoTemplateError(f"{of.kind} {namespace}/{of.name} has no template of its pods")
    if runtime_class := template.get("runtimeClassName"):
        found = await client.get(path_of("apis", "node.k8s.io", "v1", "runtimeclasses", runtime_class), dict)
        return {**template, "overhead": (found.get("overhead") or {}).get("podFixed")}
    return template


def _defaulted(template: Mapping[str, Any]) -> dict[str, Any]:
    """The spec that the API server makes of a template: what has a limit and no request requests its limit."""
    out = dict(template)
    requested: set[str] = set()
    for key in ("containers", "initContainers"):
        out[key] = [{**one, "resources": {"requests": _with_limits(one)}} for one in template.get(key) or ()]
        requested.update(*(one["resources"]["requests"] for one in out[key]))
    own = _with_limits(template)
    stated = (template.get("resources") or {}).get("requests") or {}
    out["resources"] = {"requests": {name: own[name] for name in own if name in stated or name not in requested}}
    return out


def _with_limits(part: Mapping[str, Any]) -> dict[str, Any]:
    resources = part.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _nothing() -> Amounts:
    return {"cpu": 0, "memory": 0}


def _add(total: Amounts, amounts: Mapping[str, int], times: int) -> None:
    for name, amount in amounts.items():
        total[name] += times * amount


def _amounts(quantities: Any) -> Amounts:
    from cronhpa.core.model.quantity import parse_milli

    return {name: parse_milli(str(quantities[name])) for name in ("cpu", "memory") if name in (quantities or {})}


def _requests(pod_spec: Mapping[str, Any]) -> Amounts:
    from cronhpa.core.metrics.pod_counts import scheduled_request
    from cronhpa.kube.pods import RawPod, pod_from

    pod = pod_from(msgspec.convert({"spec": pod_spec}, RawPod))
    return {name: scheduled_request(pod, name) for name in _nothing()}
