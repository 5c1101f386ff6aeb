"""
The autoscalers of a cluster, of every kind that `cronhpa convert` reads.

`kubectl get hpa,scaledobject` prints nothing if the cluster lacks one of the kinds. This file reads the other kinds.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cronhpa.kube.client import Client
    from cronhpa.kube.discovery import Resource

_CLUSTER_SCOPED = {"ClusterScalingSchedule", "Namespace"}


async def read_autoscalers(client: Client, namespace: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """
    The objects of a namespace (None: of all), and the kinds that the cluster does not have or does not show.

    Workloads and namespaces are among them: some schedulers are annotations of these. Raises ClusterError.
    """
    from cronhpa.kube.discovery import Discovery
    from cronhpa.kube.errors import ClusterError
    from cronhpa.migration.convert import LIVE_KINDS

    discovery = Discovery(client)
    bodies: list[dict[str, Any]] = []
    found: set[str] = set()
    missing: list[str] = []
    for group, kind in LIVE_KINDS:
        try:
            resource = await discovery.resource_in(group, kind)
            bodies += await read_kind(client, resource, kind, namespace)
            found.add(kind)
        except ClusterError as error:
            # Rights in a namespace often come without rights to cluster-scoped kinds.
            is_hidden = error.status == HTTPStatus.FORBIDDEN and kind in _CLUSTER_SCOPED
            if error.status != HTTPStatus.NOT_FOUND and not is_hidden:
                raise
            missing.append(f"{kind} (not to be read)" if is_hidden else kind)
    # Several groups have a CronHorizontalPodAutoscaler.
    return bodies, [kind for kind in dict.fromkeys(missing) if kind not in found]


async def read_kind(
    client: Client,
    resource: Resource,
    kind: str,
    namespace: str | None,
    selector: str | None = None,
    fields: str | None = None,
) -> list[dict[str, Any]]:
    """The objects of one kind in a namespace, None: in all, with these labels and fields. Raises ClusterError."""
    import msgspec

    from cronhpa.kube.client import path_of

    # The items of a list have no kind.
    named = {"apiVersion": f"{resource.group}/{resource.version}".lstrip("/"), "kind": kind}
    if kind == "Namespace" and namespace is not None:
        body: dict[str, Any] = await client.get(resource.root + path_of(resource.name, namespace), dict)
        return [{**named, **body}]
    within = () if namespace is None or kind in _CLUSTER_SCOPED else ("namespaces", namespace)
    params = {} if selector is None else {"labelSelector": selector}
    params |= {} if fields is None else {"fieldSelector": fields}
    return [
        {**named, **msgspec.json.decode(raw_object)}
        async for items, _ in client.pages(resource.root + path_of(*within, resource.name), params)
        for raw_object in items
    ]
