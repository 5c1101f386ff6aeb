"""The resource requests of a live object's pods, for commands, where the object's status does not state them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from cronhpa.cli.objects.cluster import connected
from cronhpa.core.metrics.observe import requests_per_pod
from cronhpa.core.model.spec import ResourceMetric, Spec

if TYPE_CHECKING:
    from cronhpa.core.model.observation import Pod


def completed_requests(
    spec: Spec, requests: dict[str, int], kubeconfig: str | None, context: str | None
) -> dict[str, int]:
    """
    Requests of a pod, milli-units by resource: those stated, and the pods' own for further utilization targets.

    Raises ClusterError.
    """
    metrics = [metric for metric in spec.metrics if isinstance(metric, ResourceMetric)]
    if all(metric.target.average_utilization is None or metric.name in requests for metric in metrics):
        return requests
    return {**asyncio.run(_requests_of_pods(spec, kubeconfig, context)), **requests}


async def _requests_of_pods(spec: Spec, kubeconfig: str | None, context: str | None) -> dict[str, int]:
    """The requests of the target's pods; empty without pods."""
    from cronhpa.kube.client import path_of
    from cronhpa.kube.discovery import Discovery
    from cronhpa.kube.pods import RawPod, excess, pod_from

    async with connected(kubeconfig, context, spec.namespace) as cluster:
        resource = await Discovery(cluster.client).resource(spec.target.api_version, spec.target.kind)
        path = resource.path(spec.namespace, spec.target.name, "scale")
        scale: dict[str, Any] = await cluster.client.get(path, dict)
        selector = (scale.get("status") or {}).get("selector")
        if not selector:
            return {}
        pods: list[Pod] = []
        pods_path = path_of("api", "v1", "namespaces", spec.namespace, "pods")
        async for items, _ in cluster.client.pages(pods_path, {"labelSelector": selector}):
            raw = [msgspec.json.decode(raw_pod, type=RawPod) for raw_pod in items]
            pods += [pod_from(pod) for pod in raw if excess(pod) is None]
        return requests_per_pod(spec, pods)
