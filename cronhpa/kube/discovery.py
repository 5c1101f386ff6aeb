"""Maps a kind to its resource: `apps/v1 Deployment` is `/apis/apps/v1/…/deployments`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError

_KEEP_SECONDS = 600.0
_KEEP_VERSIONS_SECONDS = 30.0
# Cached groups. CRDs come and go, so the oldest entry is dropped.
_GROUPS_KEPT = 1000
_NOT_FOUND = 404

K = TypeVar("K")
V = TypeVar("V")


class Resource(Struct, frozen=True):
    """The resource of a kind."""

    group: str
    """Empty for the core."""
    version: str
    name: str
    """The plural."""

    @property
    def root(self) -> str:
        return path_of("apis", self.group, self.version) if self.group else path_of("api", self.version)

    def path(self, namespace: str, *name: str) -> str:
        """The path of one object, or of all in a namespace."""
        return self.root + path_of("namespaces", namespace, self.name, *name)

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


class _Entry(Struct):
    name: str
    kind: str


class _ResourceList(Struct):
    resources: list[_Entry] = []


class _Version(Struct, frozen=True):
    version: str = ""


class _Group(Struct, rename="camel"):
    versions: list[_Version] = []
    preferred_version: _Version = _Version()

    @property
    def names(self) -> list[str]:
        """The versions, the preferred one first."""
        names = [self.preferred_version.version, *(version.version for version in self.versions)]
        return [name for name in dict.fromkeys(names) if name]


class Discovery:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._groups: dict[str, tuple[float, list[str]]] = {}
        self._resources: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}
        # The requests under way, by path. Objects that wait for the same answer share one: the kinds of an aggregated
        # API that hangs would take all places of the client.
        self._under_way: dict[str, asyncio.Task[Any]] = {}

    async def resource(self, api_version: str, kind: str) -> Resource:
        """
        The resource of a kind, in another version where this one is not served: as the upstream, which looks at group
        and kind alone. Raises ClusterError when the API does not serve it.
        """
        group, _, version = api_version.rpartition("/")
        kinds = await self._kinds(group, version, kind) if version else {}
        if kind in kinds:
            return Resource(group, version, kinds[kind])
        try:
            return await self.resource_in(group, kind)
        except ClusterError as error:
            if error.status != _NOT_FOUND:
                raise
            text = f'no matches for kind "{kind}" in version "{api_version}"'
            raise ClusterError(_NOT_FOUND, "NoKindMatch", text) from error

    async def resource_in(self, group: str, kind: str) -> Resource:
        """The resource of a kind in whichever version the API serves it, as the upstream maps a described object."""
        for version in await self._versions(group):
            kinds = await self._kinds(group, version, kind)
            if kind in kinds:
                return Resource(group, version, kinds[kind])
        full = f"{kind}.{group}" if group else kind
        text = f'unable to map kind {full} to resource: no matches for kind "{kind}" in group "{group}"'
        raise ClusterError(_NOT_FOUND, "NoKindMatch", text)

    async def version(self, group: str, usable: Sequence[str]) -> str | None:
        """The version of an API to use: the server's preferred one if it is `usable`, else the first that is."""
        return next((name for name in await self._versions(group) if name in usable), None)

    async def _versions(self, group: str) -> list[str]:
        """The versions of a group, empty if the API lacks it. Cached for 30 s: an adapter may be replaced."""
        if not group:
            return ["v1"]
        now = asyncio.get_running_loop().time()
        cached = self._groups.get(group)
        if cached is not None and now - cached[0] < _KEEP_VERSIONS_SECONDS:
            return cached[1]
        try:
            path = path_of("apis", group)
            names = (await asyncio.shield(self._asked(path, lambda: self._client.get(path, _Group)))).names
        except ClusterError as error:
            if error.status != _NOT_FOUND:
                raise
            return []
        _keep(self._groups, group, (now, names))
        return names

    async def _kinds(self, group: str, version: str, wanted: str) -> dict[str, str]:
        """The resources of a version by kind. wanted: the kind that is looked for."""
        at, kinds = self._resources.get((group, version), (-math.inf, {}))
        age = asyncio.get_running_loop().time() - at
        if wanted not in kinds and age >= _KEEP_VERSIONS_SECONDS:  # a group may get another kind
            return await asyncio.shield(self._asked_kinds(group, version))
        if age >= _KEEP_SECONDS:
            self._asked_kinds(group, version)  # nobody waits: what is known serves as long as nothing else is
        return kinds

    def _asked_kinds(self, group: str, version: str) -> asyncio.Task[dict[str, str]]:
        path = Resource(group, version, "").root
        return self._asked(path, lambda: self._ask_kinds(group, version, path))

    async def _ask_kinds(self, group: str, version: str, path: str) -> dict[str, str]:
        now, key = asyncio.get_running_loop().time(), (group, version)
        try:
            answer = await self._client.get(path, _ResourceList)
        except ClusterError as error:
            known = self._resources.pop(key, None)
            if error.status == _NOT_FOUND:
                return {}  # absence is not cached: the CRD of a group may be created at any moment
            if known is not None:
                _keep(self._resources, key, (now - _KEEP_SECONDS + _KEEP_VERSIONS_SECONDS, known[1]))
            raise
        kinds = {entry.kind: entry.name for entry in answer.resources if "/" not in entry.name}
        _keep(self._resources, key, (now, kinds))
        return kinds

    def _asked(self, path: str, ask: Callable[[], Coroutine[Any, Any, V]]) -> asyncio.Task[V]:
        """The request for a path that is under way, else a new one."""
        task: asyncio.Task[V] | None = self._under_way.get(path)
        if task is None:
            task = self._under_way[path] = asyncio.create_task(ask())
            task.add_done_callback(lambda ended: self._end(path, ended))
        return task

    def _end(self, path: str, ended: asyncio.Task[Any]) -> None:
        del self._under_way[path]
        # Whoever asked may have given up, and asyncio would log an error that nobody has heard of.
        if not ended.cancelled():
            ended.exception()


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    """Keeps a value as the newest, and drops the oldest beyond the limit."""
    cache.pop(key, None)
    cache[key] = value
    if len(cache) > _GROUPS_KEPT:
        del cache[next(iter(cache))]
