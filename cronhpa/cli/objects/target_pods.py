"""The Ready pods of an object's target, as the target's controller counts them: no CronHPA has the number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cronhpa.kube.client import Client


async def ready_pods(client: Client, body: dict[str, Any]) -> int | None:
    """The Ready pods; None if the target's kind states none, or the caller may not read it."""
    from cronhpa.core.model.spec import TargetRef
    from cronhpa.kube.discovery import Discovery
    from cronhpa.kube.errors import ClusterError
    from cronhpa.kube.scale import Workload, is_watched

    target = body["spec"]["scaleTargetRef"]
    ref = TargetRef(target.get("apiVersion") or "", target["kind"], target["name"])
    if not is_watched(ref):
        return None
    try:
        resource = await Discovery(client).resource(ref.api_version, ref.kind)
        path = resource.path(body["metadata"]["namespace"], ref.name)
        return (await client.get(path, Workload)).status.ready_replicas
    except ClusterError:
        return None
