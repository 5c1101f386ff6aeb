"""
Views of the cluster that keep themselves fresh: list, then watch, and from the start again after any fault.

A view never goes back in time: an object older than the one known is ignored, so a stale API server cannot undo what
was seen. An object that vanished while nobody watched is dropped by the next list.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from cronhpa.kube.client import Client, ClusterError
from cronhpa.kube.pods import Meta

LOG = logging.getLogger(__name__)

# The server sends a bookmark every minute; a connection that says nothing for longer is dead.
IDLE_SECONDS = 75.0
_BACKOFF_SECONDS = (0.5, 1, 2, 4, 8, 15)
_GONE = 410


class HasMeta(Protocol):
    @property
    def metadata(self) -> Meta: ...


T = TypeVar("T", bound=HasMeta)


class _Signal(Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(Struct):
    metadata: Meta = Meta()


class _Failure(Struct):
    code: int = 0
    message: str = ""


class _Items(Struct):
    items: list[msgspec.Raw]


class View(Generic[T]):
    """
    The objects of one resource by (namespace, name), kept fresh by `run`.

    changed(namespace, name, object or None) is called for each object that came, changed or went.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        kind: type[T],
        changed: Callable[[str, str, T | None], None],
        *,
        keep: bool = True,
    ) -> None:
        self.path = path
        self.objects: dict[tuple[str, str], T] = {}
        self.synced = asyncio.Event()
        self.restarts = 0
        self._client = client
        self._changed = changed
        self._keep = keep
        self._versions: dict[tuple[str, str], int] = {}
        self._decoder = msgspec.json.Decoder(kind)

    async def run(self) -> None:
        """Keeps the view fresh until cancelled."""
        failures = 0
        while True:
            try:
                version = await self._list()
                failures = 0
                self.synced.set()
                await self._follow(version)
            except ClusterError as error:
                LOG.warning("watch of %s: %s", self.path, error.message, extra={"status": error.status})
                wait = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
                failures += 1
                await asyncio.sleep(wait * (0.5 + random.random()))  # noqa: S311 - jitter, no secret
            self.restarts += 1

    def note(self, item: T) -> None:
        """Takes over an object that was read or written elsewhere, if it is newer than the one known."""
        self._put(item)

    async def _list(self) -> str:
        seen: set[tuple[str, str]] = set()
        version = ""
        async for page, at in self._client.pages(self.path):
            version = at
            for raw in self._items(page):
                item = self._decode(raw)
                if item is not None:
                    seen.add(self._put(item))
            await asyncio.sleep(0)
        for key in [key for key in self._versions if key not in seen]:
            self._drop(key)
        return version

    async def _follow(self, version: str) -> None:
        async for line in self._client.watch(self.path, version, idle_seconds=IDLE_SECONDS):
            try:
                signal = msgspec.json.decode(line, type=_Signal)
            except msgspec.DecodeError as error:
                raise ClusterError(0, "Malformed", f"a line cannot be read: {error}") from error
            if signal.type == "ERROR":
                failure = msgspec.json.decode(signal.object, type=_Failure)
                if failure.code == _GONE:
                    return
                raise ClusterError(failure.code, "WatchError", failure.message)
            if signal.type == "BOOKMARK":
                continue
            item = self._decode(signal.object)
            if item is None:
                continue
            if signal.type == "DELETED":
                self._drop((item.metadata.namespace, item.metadata.name))
            else:
                self._put(item)

    def _items(self, page: bytes) -> Iterable[msgspec.Raw]:
        try:
            return msgspec.json.decode(page, type=_Items).items
        except msgspec.DecodeError as error:
            raise ClusterError(0, "Malformed", f"the list cannot be read: {error}") from error

    def _decode(self, raw: msgspec.Raw) -> T | None:
        """One object; one that cannot be read is skipped, so that it costs only itself."""
        try:
            return self._decoder.decode(raw)
        except msgspec.DecodeError as error:
            LOG.warning("watch of %s: an object cannot be read and is skipped: %s", self.path, error)
            return None

    def _put(self, item: T) -> tuple[str, str]:
        key = (item.metadata.namespace, item.metadata.name)
        version = resource_version(item.metadata)
        if version < self._versions.get(key, -1):
            return key
        self._versions[key] = version
        if self._keep:
            self.objects[key] = item
        try:
            self._changed(*key, item)
        except ValueError as error:
            LOG.warning("watch of %s: %s/%s cannot be read and is skipped: %s", self.path, *key, error)
        return key

    def _drop(self, key: tuple[str, str]) -> None:
        self._versions.pop(key, None)
        self.objects.pop(key, None)
        self._changed(*key, None)


def resource_version(meta: Meta) -> int:
    """The version as a number: comparable by contract since Kubernetes 1.35, and in practice long before."""
    return int(meta.resource_version) if meta.resource_version.isdecimal() else 0
