"""
The connection of a command to a cluster and its CronHPA objects: the options that name a cluster, and errors that say
what to do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from cronhpa.api.identity import GROUP, PLURAL, VERSION

if TYPE_CHECKING:
    from cronhpa.kube.client import Client
    from cronhpa.kube.contexts import Access
    from cronhpa.kube.errors import ClusterError


def _namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    from cronhpa.cli.objects.object_names import namespace_names

    return namespace_names(ctx, incomplete)


Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Namespace. Default: that of the kubeconfig's context.",
        autocompletion=_namespaces,
    ),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="The objects of all namespaces.")]


def _refuse_all(context: typer.Context, is_asked: bool) -> None:
    if is_asked:
        text = f"{context.command.name} is about one object: name it, and its namespace with -n; status -A shows all"
        raise typer.BadParameter(text)


# kubectl's users type it. The message says what to do; without the option they would read that it does not exist.
NotAllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", hidden=True, is_eager=True, callback=_refuse_all)
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Kubeconfig. Default: $KUBECONFIG, ~/.kube/config, else the pod's account."),
]
Context = Annotated[
    str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig. Default: the current one.")
]


class ConnectedCluster:
    """A cluster that a command talks to. namespace: the one that the command is about."""

    def __init__(self, client: Client, namespace: str, context: str) -> None:
        self.client = client
        self.namespace = namespace
        self.context = context


@asynccontextmanager
async def connected(
    kubeconfig: str | None, context: str | None, namespace: str | None
) -> AsyncIterator[ConnectedCluster]:
    """
    The cluster that the options of a command name.

    Raises ClusterError, also for what fails within, in words that say what to do.
    """
    from cronhpa.kube.client import Client
    from cronhpa.kube.contexts import find_access
    from cronhpa.kube.errors import ClusterError

    access = find_access(kubeconfig, context)
    try:
        async with Client(access.configuration) as client:
            yield ConnectedCluster(client, namespace or access.namespace, access.context)
    except ClusterError as error:
        raise _advised(error, access) from error
    except BrokenPipeError:
        raise  # the reader of our output has read enough
    except OSError as error:
        # Certificates and tokens that the kubeconfig names are read when the client opens.
        message = f"no way to the Kubernetes API: context {access.context}: {error}"
        raise ClusterError(0, "NoConfiguration", message) from error


def namespace_of(kubeconfig: str | None, context: str | None, namespace: str | None) -> str:
    """The namespace that a command is about without a connection; "default" where no kubeconfig can be read."""
    from cronhpa.kube.contexts import find_access
    from cronhpa.kube.errors import ClusterError

    if namespace is not None:
        return namespace
    try:
        return find_access(kubeconfig, context).namespace
    except ClusterError:
        return "default"


def path_of_object(namespace: str, name: str) -> str:
    """The API path of a CronHPA. Raises ClusterError if a segment cannot be a name."""
    from cronhpa.kube.client import path_of

    return path_of("apis", GROUP, VERSION, "namespaces", namespace, PLURAL, name)


async def read_object(client: Client, namespace: str, name: str) -> dict[str, Any]:
    """One CronHPA as the API has it. Raises ClusterError."""
    return await client.get(path_of_object(namespace, name), dict)


async def read_all(client: Client, namespace: str | None, selector: str | None = None) -> list[dict[str, Any]]:
    """The CronHPAs of a namespace, None: of all, by namespace and name. Raises ClusterError."""
    import msgspec

    from cronhpa.kube.client import path_of

    within = () if namespace is None else ("namespaces", namespace)
    bodies: list[dict[str, Any]] = []
    params = {} if selector is None else {"labelSelector": selector}
    async for items, _ in client.pages(path_of("apis", GROUP, VERSION, *within, PLURAL), params):
        bodies += [msgspec.json.decode(raw_object) for raw_object in items]
    # The items of a list have no kind.
    bodies = [{"apiVersion": f"{GROUP}/{VERSION}", "kind": "CronHPA", **body} for body in bodies]
    return sorted(bodies, key=lambda body: (body["metadata"]["namespace"], body["metadata"]["name"]))


class _Meta(Struct):
    name: str
    namespace: str = ""


class _Named(Struct):
    metadata: _Meta


CRON_HPAS = ("apis", GROUP, VERSION, PLURAL)


async def names_of(
    client: Client,
    namespace: str | None,
    kind: Sequence[str] = CRON_HPAS,
    params: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Namespace and name of the objects of a namespace, None: of all. Raises ClusterError."""
    import msgspec

    from cronhpa.kube.client import path_of

    *version, plural = kind
    within = () if namespace is None else ("namespaces", namespace)
    found: list[tuple[str, str]] = []
    async for items, _ in client.pages(path_of(*version, *within, plural), params):
        metas = [msgspec.json.decode(raw_object, type=_Named).metadata for raw_object in items]
        found += [(meta.namespace, meta.name) for meta in metas]
    return found


def _advised(error: ClusterError, access: Access) -> ClusterError:
    """The same error with what to do about it."""
    from cronhpa.kube.errors import ClusterError, is_missing

    of = f"context {access.context}" if access.context else "this pod's account"
    if error.status == 0 and error.reason == "Unreachable":
        text = f"the API server {access.host} of {of} cannot be reached: {error}"
    elif error.status == HTTPStatus.UNAUTHORIZED:
        text = f"the API server {access.host} does not accept the credentials of {of}: log in anew: {error}"
    elif error.status == HTTPStatus.FORBIDDEN:
        text = f"{error}: ask for that right in the cluster of {of}"
    elif error.status == HTTPStatus.NOT_FOUND and not is_missing(error):
        install = "install the operator: https://cronhpa.github.io/cronhpa/how-to/install/"
        text = f"the cluster of {of} has no CustomResourceDefinition {PLURAL}.{GROUP}/{VERSION}: {install}"
    elif error.status == HTTPStatus.NOT_FOUND:
        text = f"{error} ({of})"
    else:
        return error
    return ClusterError(error.status, error.reason, text, error.causes)
