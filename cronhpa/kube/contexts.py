"""
Which cluster and which namespace a person means, as kubectl finds them: --kubeconfig, else $KUBECONFIG, else
~/.kube/config, else the account of the pod that the command runs in.

`credentials.load_configuration`, which the operator uses, asks the pod's own account before the default kubeconfig.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import kubernetes.config
from kubernetes.client import Configuration
from msgspec import Struct

from cronhpa.core.model.printable import shortened
from cronhpa.kube.credentials import pod_namespace
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.kubeconfig import KubeconfigError, configure, default_location, files_of, read_kubeconfig
from cronhpa.ports.client_errors import error_text

_DEFAULT_NAMESPACE = "default"
# Contexts that an error names; a list of a hundred helps nobody.
_NAMED_MAX = 10
_NAME_MAX = 80


class Access(Struct, frozen=True):
    """The way to one API server."""

    configuration: Configuration
    namespace: str
    """The namespace of the context, or of the pod."""
    context: str
    """The context; empty for a pod's own account."""

    @property
    def host(self) -> str:
        return str(self.configuration.host)


def find_access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """The access that these options, else the environment, name. Raises ClusterError where there is none."""
    location = kubeconfig or default_location()
    files = files_of(location)
    if kubeconfig is None and context is None and not any(file.exists() for file in files):
        return _of_pod(location)
    if kubeconfig is not None and not files[0].is_file():
        raise _no_way(f"{kubeconfig}: there is no such file")
    try:
        merged = read_kubeconfig(location)
    except KubeconfigError as error:
        raise _no_way(str(error)) from error
    named = {node.value["name"]: node.value.get("context") for node in merged.value["contexts"]}
    current = context or str(merged.value["current-context"])
    if current not in named:
        raise ClusterError(0, "NoContext", _no_context(current, named, location))
    configuration = Configuration()
    try:
        configure(configuration, merged, current)
    # The package raises anything for a file that is no kubeconfig: TypeError, KeyError, ...
    except Exception as error:
        raise _no_way(f"{location}: {error_text(error)}") from error
    return Access(configuration, _namespace_of(named[current]), current)


def own_namespace(kubeconfig: str | None, context: str | None) -> str:
    """The operator's own namespace in the cluster of `credentials.load_configuration`. Raises ClusterError if none."""
    of_pod = pod_namespace() if kubeconfig is None and context is None else None
    return of_pod or find_access(kubeconfig, context).namespace


def _of_pod(location: str) -> Access:
    configuration = Configuration()
    try:
        kubernetes.config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # kubernetes is untyped here
    except kubernetes.config.ConfigException as error:
        raise _no_way(f"there is no kubeconfig at {location}, and this is no pod of a cluster") from error
    return Access(configuration, pod_namespace() or _DEFAULT_NAMESPACE, "")


def _namespace_of(context: Any) -> str:
    namespace = context.get("namespace") if isinstance(context, dict) else None
    return str(namespace) if namespace else _DEFAULT_NAMESPACE


def _no_context(current: object, named: Iterable[str], location: str) -> str:
    names = [shortened(name, _NAME_MAX) for name in named]
    listed = ", ".join(names[:_NAMED_MAX]) + (f" and {len(names) - _NAMED_MAX} more" if names[_NAMED_MAX:] else "")
    has = f"it has {listed}" if names else "it has none"
    if not current:
        return f"no way to the Kubernetes API: {location}: it states no current context: name one with --context: {has}"
    return f'context "{current}" does not exist in {location}: {has}'


def _no_way(problem: str) -> ClusterError:
    text = " ".join(problem.split())
    message = f"no way to the Kubernetes API: {text}; name a kubeconfig with --kubeconfig or KUBECONFIG"
    return ClusterError(0, "NoConfiguration", message)
