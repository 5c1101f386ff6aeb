"""
Completions of an unfinished name: the names in the cluster and namespace that the options so far mean.

A shell waits while somebody types: after an error or two seconds there are no names, and no message.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import typer
from msgspec import Struct

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.cli.objects.cluster import connected, namespace_of

if TYPE_CHECKING:
    from cronhpa.kube.client import Client

_SECONDS = 2.0
_CRON_HPAS = (GROUP, VERSION, PLURAL)
_HPAS = ("autoscaling", "v2", "horizontalpodautoscalers")


class _Meta(Struct):
    name: str


class _Named(Struct):
    metadata: _Meta


def object_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """CronHPA objects; none where a file is being typed."""
    return [] if "/" in incomplete else _names(ctx, incomplete, _CRON_HPAS)


def adoptable_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """HorizontalPodAutoscalers; with --back CronHPA objects."""
    return _names(ctx, incomplete, _CRON_HPAS if ctx.params.get("back") else _HPAS)


def qualified_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """CronHPA objects as NAME, behind a namespace as NAMESPACE/NAME."""
    namespace, slash, name = incomplete.rpartition("/")
    if not slash:
        return _names(ctx, incomplete, _CRON_HPAS)
    return [f"{namespace}/{complete}" for complete in _names(ctx, name, _CRON_HPAS, namespace)]


def _names(ctx: typer.Context, incomplete: str, kind: tuple[str, str, str], namespace: str | None = None) -> list[str]:
    from cronhpa.kube.errors import ClusterError

    kubeconfig, context = ctx.params.get("kubeconfig"), ctx.params.get("context")
    of = namespace or namespace_of(kubeconfig, context, ctx.params.get("namespace"))

    async def read() -> list[str]:
        async with asyncio.timeout(_SECONDS), connected(kubeconfig, context, of) as cluster:
            return await _listed(cluster.client, kind, of)

    try:
        names = asyncio.run(read())
    except (ClusterError, OSError, ValueError):  # TimeoutError is an OSError
        return []
    return sorted(name for name in names if name.startswith(incomplete))


async def _listed(client: Client, kind: tuple[str, str, str], namespace: str) -> list[str]:
    import msgspec

    from cronhpa.kube.client import path_of

    group, version, plural = kind
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Named)
    path = path_of("apis", group, version, "namespaces", namespace, plural)
    return [decoder.decode(raw_object).metadata.name async for items, _ in client.pages(path) for raw_object in items]
