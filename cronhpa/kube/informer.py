"""
Informers: list the objects of one resource, watch them, and list again after any fault.

An informer never goes back in time: it ignores an object that is older than the known one, so a stale API server cannot
undo what was seen. The next list drops an object that vanished while nobody watched.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from sys import intern
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from cronhpa.kube.client import Client, decode
from cronhpa.kube.errors import UNREADABLE, ClusterError
from cronhpa.kube.pods import Meta

LOG = logging.getLogger(__name__)

# The server sends a bookmark about once a minute: a watch without one for longer is dead or frozen. The connection
# itself notices a peer that is gone much earlier.
IDLE_SECONDS = 75.0
# A list of 100,000 pods takes seconds of CPU.
_RELIST_SECONDS = 1800.0
_DISTRUST_SECONDS = 300.0
_BACKOFF_SECONDS = (0.5, 1, 2, 4, 8, 15)
# After a watch that lived this long there is no pause; after a shorter one there is, lest lists follow lists.
_LIVED_SECONDS = 5.0
# How long the objects are believed without a watch: a server that is restarted is back by then.
_BELIEVED_SECONDS = 30.0
_GONE = 410


class HasMeta(Protocol):
    @property
    def metadata(self) -> Meta: ...


T = TypeVar("T", bound=HasMeta)


class _Signal(Struct):
    type: str
    object: msgspec.Raw


class _Failure(Struct):
    code: int = 0
    message: str = ""


class _Name(Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Named(Struct):
    metadata: _Name = _Name()


class Informer(Generic[T]):
    """
    The objects of one resource by (namespace, name); `run` keeps them up to date.

    changed(namespace, name, object) is called for each object that was created or changed, with None for a deleted one.
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
        # Why the last watch ended, for people.
        self.problem = ""
        self._client = client
        self._changed = changed
        self._keep = keep
        self._versions: dict[tuple[str, str], int] = {}
        self._list_version = 0
        self._heard = 0.0
        self._lost: float | None = None
        self._listed_at = 0.0
        self._until: asyncio.Timeout | None = None
        self._decoder = msgspec.json.Decoder(kind)

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last answer of the API server; 0 before the first list."""
        return asyncio.get_running_loop().time() - self._heard if self._heard else 0.0

    @property
    def is_current(self) -> bool:
        """Whether the objects can be believed: they were listed, and are watched or were a moment ago."""
        lost = 0.0 if self._lost is None else asyncio.get_running_loop().time() - self._lost
        return self.synced.is_set() and lost < _BELIEVED_SECONDS

    def list_again(self) -> None:
        """Ends the watch and lists anew, at most once in five minutes: somebody has seen that it may lack something."""
        now = asyncio.get_running_loop().time()
        if self._until is not None and now - self._listed_at > _DISTRUST_SECONDS and not self._until.expired():
            LOG.warning("%s is listed again: what is seen does not agree with something else", self.path)
            self._until.reschedule(now)

    async def _follow_for_a_while(self, version: str) -> None:
        """
        Watches until the watch ends, or until it is time to list again: a watch can lose an event and look alive.

        The instants are jittered, so that the lists of several resources do not come together.
        """
        seconds = _RELIST_SECONDS * random.uniform(0.75, 1.25)  # noqa: S311 - jitter, no secret
        self._until = asyncio.timeout(seconds)
        try:
            async with self._until:
                await self._follow(version)
        except TimeoutError:
            if not self._until.expired():
                raise
        finally:
            self._until = None

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            try:
                version = await self._list()
                self.synced.set()
                begun = loop.time()
                await self._follow_for_a_while(version)
            except ClusterError as error:
                self.problem = error.message
                LOG.warning("watch of %s: %s", self.path, error.message)
            except Exception as error:
                self.problem = type(error).__name__
                LOG.exception("watch of %s: it is started again", self.path)
            self.restarts += 1
            if self._lost is None:
                self._lost = loop.time()
            if loop.time() - begun > _LIVED_SECONDS:
                failures = 0
                continue
            wait = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
            failures += 1
            await asyncio.sleep(wait * (0.5 + random.random()))  # noqa: S311 - jitter, no secret

    def note(self, meta: Meta) -> bool:
        """Notes the version of an object that was read or written elsewhere; whether it is newer than the known one."""
        key, version = (meta.namespace, meta.name), resource_version(meta)
        if version < self._versions.get(key, -1):
            return False
        self._versions[key] = version
        return True

    async def _list(self) -> str:
        """Takes over one list; returns its resource version."""
        seen: set[tuple[str, str]] = set()
        version = ""
        async for items, at in self._client.pages(self.path):
            if not version:
                self._note_list(int(at) if at.isdecimal() else 0)
            version = at
            for raw in items:
                listed = self._decode(raw)
                # An object that cannot be read still exists: its known state stays.
                seen.add(self._key(raw) if listed is None else self._put(listed))
            await asyncio.sleep(0)
        self._heard = self._listed_at = asyncio.get_running_loop().time()
        self._lost = None
        for key in [key for key in self._versions if key not in seen]:
            self._drop(key)
        return version

    def _note_list(self, version: int) -> None:
        """Believes a list that is older than the one before: the API's store was restored from a backup."""
        if version < self._list_version:
            LOG.warning("%s went back from version %d to %d: it is taken anew", self.path, self._list_version, version)
            self._versions = dict.fromkeys(self._versions, -1)
        self._list_version = version

    def _key(self, raw: msgspec.Raw) -> tuple[str, str]:
        try:
            meta = msgspec.json.decode(raw, type=_Named).metadata
        except UNREADABLE as error:
            raise ClusterError(0, "Malformed", f"an object without a name: {error}") from error
        return (meta.namespace, meta.name)

    async def _follow(self, version: str) -> None:
        async for kind, raw in watch_events(self._client, self.path, version, idle_seconds=IDLE_SECONDS):
            self._heard = asyncio.get_running_loop().time()
            if kind == "BOOKMARK":
                continue
            changed = self._decode(raw)
            if changed is None:
                continue
            if kind == "DELETED":
                self._drop((changed.metadata.namespace, changed.metadata.name))
            else:
                self._put(changed)

    def _decode(self, raw: msgspec.Raw) -> T | None:
        """The decoded object; None, with a warning, if it cannot be read."""
        try:
            return self._decoder.decode(raw)
        except UNREADABLE as error:
            LOG.warning("watch of %s: an object cannot be read and is skipped: %s", self.path, error)
            return None

    def _put(self, obj: T) -> tuple[str, str]:
        # Every object brings its namespace as a text of its own, and its key stays.
        key = (intern(obj.metadata.namespace), obj.metadata.name)
        version = resource_version(obj.metadata)
        if version < self._versions.get(key, -1):
            return key
        self._versions[key] = version
        if self._keep:
            self.objects[key] = obj
        try:
            self._changed(*key, obj)
        except ValueError as error:
            LOG.warning("watch of %s: %s/%s cannot be read and is skipped: %s", self.path, *key, error)
        return key

    def _drop(self, key: tuple[str, str]) -> None:
        self._versions.pop(key, None)
        self.objects.pop(key, None)
        self._changed(*key, None)


async def watch_events(
    client: Client, path: str, version: str, *, idle_seconds: float
) -> AsyncIterator[tuple[str, msgspec.Raw]]:
    """
    The events of a watch: type and object, bookmarks included.

    Ends where the server ends it, also for a version that is too old; then list anew. Raises ClusterError.
    """
    async for line in client.watch(path, version, idle_seconds=idle_seconds):
        signal = decode(line, _Signal, path)
        if signal.type == "ERROR":
            failure = decode(bytes(signal.object), _Failure, path)
            if failure.code == _GONE:
                return
            raise ClusterError(failure.code, "WatchError", failure.message)
        yield signal.type, signal.object


def resource_version(meta: Meta) -> int:
    """The version as a number: comparable by contract since Kubernetes 1.35, and in practice long before."""
    return int(meta.resource_version) if meta.resource_version.isdecimal() else 0
