"""
Which cluster and which namespace a person means, as kubectl finds them: --kubeconfig, else $KUBECONFIG, else
~/.kube/config, else the account of the pod that the command runs in.

`credentials.load_configuration`, which the operator uses, asks the pod's own account first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kubernetes.config
from kubernetes.client import Configuration
from kubernetes.config import kube_config
from msgspec import Struct

from cronhpa.core.printable import shortened
from cronhpa.kube.credentials import load_kube_config, pod_namespace
from cronhpa.kube.errors import ClusterError, text_of

_DEFAULT_NAMESPACE = "default"
# Contexts that an error names; a list of a hundred helps nobody.
_NAMED_MAX = 10
_NAME_MAX = 80


class Access(Struct, frozen=True):
    """
    The way to one API server. namespace: that of the context, or of the pod. context: "" for a pod's own account.
    """

    configuration: Configuration
    namespace: str
    context: str

    @property
    def host(self) -> str:
        return str(self.configuration.host)


def find_access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """The access that these options, else the environment, name. Raises ClusterError where there is none."""
    location = kubeconfig or kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    files = [Path(part).expanduser() for part in location.split(os.pathsep) if part]
    if kubeconfig is None and context is None and not any(file.exists() for file in files):
        return _of_pod(location)
    if kubeconfig is not None and not files[0].is_file():
        raise _no_way(f"{kubeconfig}: there is no such file")
    try:
        merged = kube_config.KubeConfigMerger(location)  # type: ignore[no-untyped-call]  # kubernetes is untyped here
        nodes = () if merged.config is None else merged.config.value["contexts"]
        named = {str(node["name"]): node.value.get("context") or {} for node in nodes}
        # Of several files kubectl takes the first current-context, and the package the last.
        stated = (text.get("current-context") for text in merged.config_files.values())
        current = context or next((name for name in stated if name), None)
    # The package and the lines above raise anything for a file that is no kubeconfig: TypeError, YAMLError, ...
    except Exception as error:
        raise _no_way(f"{location}: {text_of(error)}") from error
    if current not in named:
        raise ClusterError(0, "NoContext", _no_context(current, named, location))
    configuration = Configuration()
    try:
        load_kube_config(kubeconfig, str(current), configuration)
    except Exception as error:
        raise _no_way(f"{location}: {text_of(error)}") from error
    return Access(configuration, _namespace_of(named[current]), str(current))


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
