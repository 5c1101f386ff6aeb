"""The objects of a cluster that a report reads, and the rights that it needs for them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from cronhpa.api.identity import GROUP, KIND
from cronhpa.cli.objects.cluster import ConnectedCluster
from cronhpa.cli.objects.live_autoscalers import read_kind
from cronhpa.migration.convert import LIVE_KINDS

Json = dict[str, Any]

# Beside the autoscalers: what a pod requests, how long it takes to start, and to pull its images.
_BESIDE = (("", "Pod"), ("apps", "ReplicaSet"), ("", "Event"))
_FIELDS = {("", "Event"): "reason=Pulled"}
# Read for what pods request, or because a namespace's annotations count for all in it.
_WHATEVER_LABELS = {*_BESIDE, ("apps", "Deployment"), ("apps", "StatefulSet"), ("", "Namespace")}
KINDS = ((GROUP, KIND), *LIVE_KINDS, *_BESIDE)


async def read_objects(
    cluster: ConnectedCluster, namespace: str | None, selector: str | None
) -> tuple[list[Json], list[str]]:
    """
    The objects of all kinds in a namespace, None: in all; and a line for each kind that may not be read.

    selector: labels of the autoscalers to report on; workloads and pods are read whatever labels they have.
    Kinds that the cluster does not have are passed over. Raises ClusterError.
    """
    from cronhpa.kube.discovery import Discovery
    from cronhpa.kube.errors import ClusterError

    discovery = Discovery(cluster.client)
    bodies: list[Json] = []
    unread: list[str] = []
    for group, kind in KINDS:
        try:
            resource = await discovery.resource_in(group, kind)
            chosen = None if (group, kind) in _WHATEVER_LABELS else selector
            bodies += await read_kind(cluster.client, resource, kind, namespace, chosen, _FIELDS.get((group, kind)))
        except ClusterError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                unread.append(f"{kind}s may not be read: {error.message}")
            elif error.status != HTTPStatus.NOT_FOUND:
                raise
    return bodies, unread


def cluster_role() -> Json:
    """The ClusterRole that lets `cronhpa report` read what it reads: get and list, nothing else."""
    groups: dict[str, set[str]] = {}
    for group, kind in KINDS:
        groups.setdefault(group, set()).add(f"{kind.lower()}s")
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "cronhpa-report"},
        "rules": [
            {"apiGroups": [group], "resources": sorted(resources), "verbs": ["get", "list"]}
            for group, resources in sorted(groups.items())
        ],
    }
