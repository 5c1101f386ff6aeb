"""
An object's name as people type it: NAME, NAMESPACE/NAME, chpa/NAME, or deploy/NAME for the object that scales it.

An object that is not there is an error that says where it is instead, or which name was probably meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import typer
from msgspec import Struct

from cronhpa.api.identity import GROUP, PLURAL
from cronhpa.cli.objects.cluster import (
    ConnectedCluster,
    names_of,
    namespace_of,
    read_all,
    read_object,
)

Json = dict[str, Any]

FORMS = "NAME, NAMESPACE/NAME, chpa/NAME or deploy/NAME"
# Words for CronHPA objects in front of a slash, as kubectl takes them.
_OWN = {"chpa", "cronhpa", PLURAL, f"{PLURAL}.{GROUP}", f"cronhpa.{GROUP}"}
# kubectl's short names of targets. A word with a dot is a resource of that group, such as rollouts.argoproj.io.
_TARGETS = {
    "deploy": "deployment",
    "deployment": "deployment",
    "deployments": "deployment",
    "sts": "statefulset",
    "statefulset": "statefulset",
    "statefulsets": "statefulset",
    "rs": "replicaset",
    "replicaset": "replicaset",
    "replicasets": "replicaset",
    "rc": "replicationcontroller",
    "replicationcontroller": "replicationcontroller",
    "replicationcontrollers": "replicationcontroller",
    "rollout": "rollout",
    "rollouts": "rollout",
}
_SHOWN = 3


class ObjectName(Struct, frozen=True):
    """A parsed name."""

    name: str
    namespace: str | None = None
    """None: that of the context."""
    target: str = ""
    """The word for the target's kind if `name` is the target's, else ""."""
    other_namespace: str | None = None
    """The namespace that the word before the slash is, if it is not meant as a kind."""


def parse_name(text: str, namespace: str | None) -> ObjectName:
    """The name that a text means beside the option --namespace. Raises BadParameter."""
    word, slash, name = text.rpartition("/")
    if not name or (slash and not word) or "/" in word:
        raise typer.BadParameter(f"{text!r}: {FORMS} is accepted, such as shop/checkout, or NAME with -n")
    if not slash:
        return ObjectName(name, namespace)
    kind = word.lower()
    if kind in _OWN or is_target(kind):
        other = None if namespace is not None or "." in word else word
        return ObjectName(name, namespace, "" if kind in _OWN else kind, other)
    if namespace is not None and word != namespace:
        raise typer.BadParameter(f"{text!r} is not in namespace {namespace}", param_hint="--namespace")
    return ObjectName(name, word)


def split_name(text: str, namespace: str | None) -> tuple[str | None, str]:
    """Namespace and name of a CronHPA, for commands that ask no cluster. Raises BadParameter."""
    parsed = parse_name(text, namespace)
    if parsed.target:
        raise typer.BadParameter(f"{text!r}: which CronHPA scales it is known to the cluster alone: name the CronHPA")
    return parsed.namespace, parsed.name


def is_own(word: str) -> bool:
    """Whether a word in front of a slash means CronHPA objects."""
    return word in _OWN


def is_target(word: str) -> bool:
    """Whether a word in front of a slash means a kind of targets."""
    return word in _TARGETS or ("." in word and word not in _OWN)


async def read_named(cluster: ConnectedCluster, named: ObjectName) -> Json:
    """The object that a name means. Raises ClusterError, which says where the object is instead."""
    from cronhpa.kube.errors import ClusterError, is_missing

    namespace = named.namespace or cluster.namespace
    try:
        if named.target:
            return await _scaler(cluster, namespace, named)
        return await read_object(cluster.client, namespace, named.name)
    except ClusterError as error:
        if not is_missing(error):
            raise
        missing = error
    if named.other_namespace is not None:
        with suppress(ClusterError):
            return await read_object(cluster.client, named.other_namespace, named.name)
    if named.target:
        raise missing
    text = f"there is no CronHPA {named.name} in namespace {namespace}{await _instead(cluster, namespace, named.name)}"
    raise ClusterError(missing.status, missing.reason, text) from missing


async def _scaler(cluster: ConnectedCluster, namespace: str, named: ObjectName) -> Json:
    """The object of a namespace whose target is named."""
    from cronhpa.kube.errors import ClusterError

    label = f"{named.target}/{named.name}"
    bodies = [body for body in await read_all(cluster.client, namespace) if _scales(body, named)]
    if len(bodies) == 1:
        return bodies[0]
    if bodies:
        names = ", ".join(body["metadata"]["name"] for body in bodies)
        raise ClusterError(HTTPStatus.CONFLICT, "Several", f"{label} in namespace {namespace} is scaled by {names}")
    where: list[str] = []
    with suppress(ClusterError):  # not everybody may list all namespaces
        where = [label_of(body) for body in await read_all(cluster.client, None) if _scales(body, named)]
    instead = f"; {_listed(where)} scales one of that name" if where else ""
    text = f"no CronHPA in namespace {namespace} scales {label}{instead}"
    raise ClusterError(HTTPStatus.NOT_FOUND, "NotFound", text)


def _scales(body: Json, named: ObjectName) -> bool:
    target = (body.get("spec") or {}).get("scaleTargetRef") or {}
    word, _, group = named.target.partition(".")
    kind = str(target.get("kind", "")).lower()
    return (
        target.get("name") == named.name
        and kind in {_TARGETS.get(word, word), word.removesuffix("s")}
        and (not group or str(target.get("apiVersion", "")).partition("/")[0] == group)
    )


async def _instead(cluster: ConnectedCluster, namespace: str, name: str) -> str:
    """Where an object of this name is, else the name that was probably meant, else how to see what there is."""
    from cronhpa.core.model.nearest import nearest
    from cronhpa.kube.errors import ClusterError

    with suppress(ClusterError):  # not everybody may list all namespaces
        found = await names_of(cluster.client, None, params={"fieldSelector": f"metadata.name={name}"})
        elsewhere = [other for other, of_name in found if of_name == name and other != namespace]
        if elsewhere:
            return f"; there is one in {_listed(elsewhere)}"
    with suppress(ClusterError):
        meant = nearest(name, [of_name for _, of_name in await names_of(cluster.client, namespace)])
        if meant is not None:
            return f"; did you mean {meant}?"
    return ": kubectl get chpa -A shows what there is"


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def label_of(body: Mapping[str, Any]) -> str:
    """Namespace and name of an object, its name alone where it states no namespace."""
    namespace, name = body["metadata"].get("namespace"), body["metadata"]["name"]
    return f"{namespace}/{name}" if namespace else str(name)


def place_of(named: ObjectName, kubeconfig: str | None, context: str | None) -> tuple[str, str]:
    """Namespace and name without asking the cluster."""
    return namespace_of(kubeconfig, context, named.namespace), named.name
