"""
A Lease of coordination.k8s.io: who leads, and until when nobody else may.

Compatible with client-go's leader election: the same fields with the same meaning, so that `kubectl get lease` and
every tool that reads a leader's name reads ours.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from msgspec import Struct, field, to_builtins

from cronhpa.core.model.instant import SECOND, Nanoseconds, to_datetime
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError

GROUP, VERSION = "coordination.k8s.io", "v1"


class LeaseName(Struct, frozen=True, order=True):
    """As text `namespace/name`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @staticmethod
    def parse(text: str) -> LeaseName | None:
        """None for a text that is not `namespace/name`."""
        namespace, slash, name = text.partition("/")
        if not (namespace and slash and name) or "/" in name or {namespace, name} & {".", ".."}:
            return None
        return LeaseName(namespace, name)


class LeaseSpec(Struct, frozen=True, rename="camel"):
    """The spec of a Lease. Times are RFC 3339 texts with microseconds."""

    holder_identity: str | None = None
    """Empty or None where nobody leads."""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None

    @property
    def holder(self) -> str:
        return self.holder_identity or ""


class LeaseMeta(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The metadata that a PUT sends back: the API server removes each field that the PUT leaves out."""

    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[dict[str, Any]] = []
    finalizers: list[str] = []
    name: str = ""


class Lease(Struct, frozen=True):
    metadata: LeaseMeta = field(default_factory=LeaseMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)

    @property
    def version(self) -> str:
        return self.metadata.resource_version


class _Leases(Struct, frozen=True):
    items: tuple[Lease, ...] = ()


class Leases:
    """Reads and writes Leases. Every method raises ClusterError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, name: LeaseName) -> Lease | None:
        """The Lease; None where there is none."""
        try:
            return await self._client.get(_path(name), Lease)
        except ClusterError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def in_namespace(self, namespace: str) -> dict[LeaseName, Lease]:
        """All Leases of a namespace."""
        path = path_of("apis", GROUP, VERSION, "namespaces", namespace, "leases")
        answer = await self._client.get(path, _Leases)
        return {LeaseName(namespace, lease.metadata.name): lease for lease in answer.items}

    async def create(self, name: LeaseName, spec: LeaseSpec) -> Lease:
        """The new Lease. Status 409 if there is one by now."""
        path = path_of("apis", GROUP, VERSION, "namespaces", name.namespace, "leases")
        return await self._client.create(path, _body(name, Lease(spec=spec)), Lease)

    async def replace(self, name: LeaseName, before: Lease, spec: LeaseSpec) -> Lease:
        """The Lease with this spec and the metadata of `before`. Status 409 if it is not as `before` any more."""
        return await self._client.replace(_path(name), _body(name, Lease(before.metadata, spec)), Lease)


def micro_time(instant: Nanoseconds) -> str:
    """An instant as Kubernetes' MicroTime."""
    return f"{to_datetime(instant):%Y-%m-%dT%H:%M:%S}.{instant % SECOND // 1_000:06d}Z"


def _path(name: LeaseName) -> str:
    return path_of("apis", GROUP, VERSION, "namespaces", name.namespace, "leases", name.name)


def _body(name: LeaseName, lease: Lease) -> dict[str, Any]:
    meta = {**to_builtins(lease.metadata), "name": name.name, "namespace": name.namespace}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Lease", "metadata": meta, "spec": to_builtins(lease.spec)}
