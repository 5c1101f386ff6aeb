"""
Completions of an unfinished name: the names in the cluster and namespace that the options so far mean.

A shell waits while somebody types: after an error or two seconds there are no names, and no message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from cronhpa.cli.objects.cluster import CRON_HPAS, connected, names_of, namespace_of
from cronhpa.cli.objects.named import is_own, is_target

_SECONDS = 2.0
_HPAS = ("apis", "autoscaling", "v2", "horizontalpodautoscalers")
_NAMESPACES = ("api", "v1", "namespaces")


def object_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """CronHPA objects as NAME, behind a namespace as NAMESPACE/NAME, behind chpa/ as chpa/NAME."""
    word, slash, name = incomplete.rpartition("/")
    if not slash:
        return _names(ctx, incomplete, CRON_HPAS)
    if is_target(word):
        return []
    namespace = None if is_own(word) else word
    return [f"{word}/{complete}" for complete in _names(ctx, name, CRON_HPAS, namespace)]


OneObject = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The CronHPA: NAME, NAMESPACE/NAME or chpa/NAME; deploy/NAME is the one that scales this Deployment.",
        autocompletion=object_names,
    ),
]


def adoptable_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """HorizontalPodAutoscalers; with --back CronHPA objects."""
    return _names(ctx, incomplete, CRON_HPAS if ctx.params.get("back") else _HPAS)


def namespace_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    return _names(ctx, incomplete, _NAMESPACES, is_everywhere=True)


def _names(
    ctx: typer.Context,
    incomplete: str,
    kind: Sequence[str],
    namespace: str | None = None,
    *,
    is_everywhere: bool = False,
) -> list[str]:
    from cronhpa.kube.errors import ClusterError

    kubeconfig, context = ctx.params.get("kubeconfig"), ctx.params.get("context")
    of = namespace or namespace_of(kubeconfig, context, ctx.params.get("namespace"))

    async def read() -> list[tuple[str, str]]:
        async with asyncio.timeout(_SECONDS), connected(kubeconfig, context, of) as cluster:
            return await names_of(cluster.client, None if is_everywhere else of, kind)

    try:
        names = asyncio.run(read())
    except (ClusterError, OSError, ValueError):  # TimeoutError is an OSError
        return []
    return sorted(name for _, name in names if name.startswith(incomplete))
