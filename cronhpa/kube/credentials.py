"""How to reach the API: kubeconfig or the pod's own account, token, TLS, sockets."""

from __future__ import annotations

import hashlib
import socket
import ssl
from pathlib import Path

import aiohttp
import kubernetes.config
from kubernetes.client import Configuration

from cronhpa.kube.errors import ClusterError
from cronhpa.kube.kubeconfig import KubeconfigError, configure, default_location, read_kubeconfig
from cronhpa.ports.client_errors import error_text

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def load_configuration(kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """
    How to reach the API: the named kubeconfig or context, else the pod's own account, else the default kubeconfig.

    Raises ClusterError if none of them can be read.
    """
    configuration = Configuration()
    try:
        if kubeconfig is not None or context is not None:
            configure(configuration, read_kubeconfig(kubeconfig or default_location()), context)
            return configuration
        try:
            kubernetes.config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # kubernetes is untyped here
        except kubernetes.config.ConfigException:
            configure(configuration, read_kubeconfig(default_location()), None)
    # The package raises anything for a file that is no kubeconfig: TypeError, KeyError, ...
    except Exception as error:
        where = "" if isinstance(error, KubeconfigError) else f"{kubeconfig or 'the default kubeconfig'}: "
        problem = " ".join(f"{where}{error_text(error)}".split())
        otherwise = "run in a cluster, or " if kubeconfig is None and context is None else ""
        remedy = f"{otherwise}name a kubeconfig with --kubeconfig, and its context with CRONHPA_CONTEXT"
        message = f"no way to the Kubernetes API: {problem}; {remedy}"
        raise ClusterError(0, "NoConfiguration", message) from error
    return configuration


def pod_namespace() -> str | None:
    """The namespace of the pod that this process runs in; None outside a pod."""
    try:
        return _POD_NAMESPACE.read_text().strip() or None
    except OSError:
        return None


def bearer_token(configuration: Configuration) -> str | None:
    """The current value of the Authorization header; may read a file or run an exec plugin."""
    hook = getattr(configuration, "refresh_api_key_hook", None)
    if hook is not None:
        hook(configuration)
    for key in ("BearerToken", "authorization"):
        value = configuration.api_key.get(key)
        if value:
            scheme, _, token = str(value).partition(" ")
            return f"Bearer {token}" if token else f"Bearer {scheme}"
    return None


def tls_context(configuration: Configuration) -> ssl.SSLContext | bool:
    """The TLS settings of a configuration; True, the default, if it is not https."""
    if not str(configuration.host).startswith("https"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def tls_files(configuration: Configuration) -> bytes:
    """A digest of the files that `tls_context` reads: another one after a rotation. Raises OSError."""
    digest = hashlib.sha256()
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        digest.update(b"\0" if path is None else Path(path).read_bytes())
    return digest.digest()


def keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that probes a silent peer after 30 s: the system's default is two hours."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # Linux and macOS know different ones
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
