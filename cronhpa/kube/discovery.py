"""Which resource a kind is served as: `apps/v1 Deployment` is `/apis/apps/v1/…/deployments`."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from cronhpa.kube.client import Client, ClusterError

_KEEP_SECONDS = 600.0
_NOT_FOUND = 404


class Resource(Struct, frozen=True):
    """Where a kind is served. name: the plural; group: "" for the core."""

    group: str
    version: str
    name: str

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str, name: str) -> str:
        return f"{self.root}/namespaces/{namespace}/{self.name}/{name}"

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


class _Entry(Struct):
    name: str
    kind: str


class _ResourceList(Struct):
    resources: list[_Entry] = []


class Discovery:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}

    async def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind. Raises ClusterError when the API does not serve it."""
        group, _, version = api_version.rpartition("/")
        kinds = await self._kinds(group, version)
        if kind not in kinds:
            raise ClusterError(_NOT_FOUND, "NoKindMatch", f'no matches for kind "{kind}" in version "{api_version}"')
        return Resource(group, version, kinds[kind])

    async def _kinds(self, group: str, version: str) -> dict[str, str]:
        now = asyncio.get_running_loop().time()
        known = self._known.get((group, version))
        if known is not None and now - known[0] < _KEEP_SECONDS:
            return known[1]
        path = Resource(group, version, "").root
        try:
            listed = await self._client.get(path, _ResourceList)
            kinds = {item.kind: item.name for item in listed.resources if "/" not in item.name}
        except ClusterError as error:
            if error.status != _NOT_FOUND:
                raise
            # Nothing is kept of a group that is not there yet: its CRD may come any moment.
            return {}
        self._known[group, version] = (now, kinds)
        return kinds
