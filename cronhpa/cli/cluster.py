"""The CronHPA objects of a cluster, as commands read and change them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cronhpa.api.identity import GROUP, PLURAL, VERSION

if TYPE_CHECKING:
    from cronhpa.kube.client import Client

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the object.")]
Kubeconfig = Annotated[
    str | None, typer.Option(help="Path of a kubeconfig. Default: the pod's account, else kubectl's.")
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig. Default: the current one.")]


def path_of_object(namespace: str, name: str) -> str:
    """The API path of a CronHPA. Raises ClusterError if a segment cannot be a name."""
    from cronhpa.kube.client import path_of

    return path_of("apis", GROUP, VERSION, "namespaces", namespace, PLURAL, name)


async def list_objects(client: Client, namespace: str | None) -> AsyncIterator[dict[str, Any]]:
    """The CronHPAs of a namespace, of all namespaces for None. Raises ClusterError."""
    from cronhpa.kube.client import decode, path_of

    below = () if namespace is None else ("namespaces", namespace)
    path = path_of("apis", GROUP, VERSION, *below, PLURAL)
    async for items, _ in client.pages(path):
        for item in items:
            yield decode(item, dict, path)


async def read_object(client: Client, namespace: str, name: str) -> dict[str, Any]:
    """One CronHPA as the API has it. Raises ClusterError."""
    return await client.get(path_of_object(namespace, name), dict)
