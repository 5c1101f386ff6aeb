"""
Informers: list the objects of one resource, watch them, and list again after any fault.

An informer does not go back in time by events: it ignores an object that is older than the known one, so a stale API
server cannot undo what was seen. A list replaces what is known (`resource_versions`), and drops an object that vanished
while nobody watched.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Container, Mapping
from http import HTTPStatus
from sys import intern
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from cronhpa.kube.client import Client, decode
from cronhpa.kube.errors import UNREADABLE, ClusterError
from cronhpa.kube.pods import ObjectMeta
from cronhpa.kube.resource_versions import SeenVersions, version_number, version_of
from cronhpa.kube.shard_scope import ShardScope

LOG = logging.getLogger(__name__)

# The server sends a bookmark about once a minute, but leaves out the first one of a quiet resource: its version is not
# newer than the list's. A watch without one for longer is dead or frozen. The connection itself notices a peer that is
# gone much earlier.
IDLE_SECONDS = 135.0
# What a watch that is frozen and looks alive has lost is seen after at most 1.25 times this: 12.5 minutes. Not more
# often, because a list of 100,000 pods takes seconds of CPU.
_RELIST_SECONDS = 600.0
_DISTRUST_SECONDS = 300.0
_BACKOFF_SECONDS = (0.5, 1, 2, 4, 8, 15)
# After a watch that lived this long there is no pause; after a shorter one there is, lest lists follow lists.
_LIVED_SECONDS = 5.0
# How long the objects are believed without a watch: a server that is restarted is back by then.
_BELIEVED_SECONDS = 30.0
_GONE = 410
# A server that starts, and has not read its kinds yet, may say 404, too.
_VANISHED_SECONDS = 60.0
# Who waits for a list waits this long for one that fails: a server that is restarted is back by then.
_OVERDUE_SECONDS = 60.0
# An API server that has answered nobody for so long, and nothing since a list is waited for, is away. Longer than the
# wait by the deadline of a request: a list that hangs may be all that is asked for until then.
_AWAY_SECONDS = 75.0


class HasMeta(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


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
    scope: the namespaces that are watched; what lies in others is discarded before it is decoded. listed_scope: the
    scope's version in which the last list was begun. restored() is called if a list shows that the API's store was
    restored from a backup. may_vanish: whether the kind, or the right to it, may be removed while the operator runs:
    where lists have said 404 for a minute, its objects are gone, and `run` returns. So it does where a list is
    forbidden, and what was known stays.
    """

    def __init__(  # noqa: PLR0913 - its parts by their names
        self,
        client: Client,
        path: str,
        kind: type[T],
        changed: Callable[[str, str, T | None], None],
        *,
        keep: bool = True,
        scope: ShardScope | None = None,
        restored: Callable[[], None] = lambda: None,
        may_vanish: bool = False,
    ) -> None:
        self.path = path
        self.listed_scope = -1
        self.objects: dict[tuple[str, str], T] = {}
        self.synced = asyncio.Event()
        self.restarts = 0
        # Why the last watch ended, for people.
        self.problem = ""
        self._client = client
        self._changed = changed
        self._restored = restored
        self._keep = keep
        # By namespace, then by name: a tuple of both as the key would take memory for each pod.
        self._versions: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._seen = SeenVersions()
        self._heard = 0.0
        self._lost: float | None = None
        # Since when a list is waited for; None once it has come.
        self._wanted: float | None = None
        self._may_vanish = may_vanish
        # Since when each list has said 404.
        self._missing: float | None = None
        self._listed_at = 0.0
        self._until: asyncio.Timeout | None = None
        self._decoder = msgspec.json.Decoder(kind)
        self._scope = scope or ShardScope()
        self._rescoped = asyncio.Event()
        self._scope.on_change(self._on_rescope)

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last answer of the API server; 0 before the first list, and while nothing is watched."""
        is_asking = self._heard and not self._scope.is_empty
        return asyncio.get_running_loop().time() - self._heard if is_asking else 0.0

    @property
    def is_current(self) -> bool:
        """Whether the objects can be believed: they were listed, and are watched or were a moment ago."""
        if self._lost is not None and asyncio.get_running_loop().time() - self._lost >= _BELIEVED_SECONDS:
            return False
        return self.synced.is_set()

    @property
    def is_overdue(self) -> bool:
        """
        Whether the list that is waited for fails, and has not come for a minute: it may fail for ever. The minute
        begins anew while the API server is away, which has answered nothing since.
        """
        if self._wanted is None or self._lost is None:
            return False
        return asyncio.get_running_loop().time() - self._wanted >= _OVERDUE_SECONDS

    def doubt(self, heard_within: float = math.inf) -> bool:
        """
        Clears `synced` if the objects cannot be believed: who waits for `synced` then waits for the next list.

        heard_within: or if nothing was heard for more seconds; the next list begins at once then. Returns whether it is
        cleared.
        """
        if self.is_current and self.silent_seconds <= heard_within:
            return False
        self.synced.clear()
        self._want_list()
        if self._until is not None and not self._until.expired():
            self._until.reschedule(asyncio.get_running_loop().time())
        return True

    def list_again(self) -> None:
        """Ends the watch and lists anew, at most once in five minutes: the caller saw that the watch lost an event."""
        now = asyncio.get_running_loop().time()
        if self._until is not None and now - self._listed_at > _DISTRUST_SECONDS and not self._until.expired():
            LOG.warning("%s is listed again: its watch seems to have lost an event", self.path)
            self._until.reschedule(now)

    def _on_rescope(self) -> None:
        """Ends the watch: the namespaces in the new scope have to be listed first."""
        self._rescoped.set()
        self._want_list()
        if self._until is not None and not self._until.expired():
            self._until.reschedule(asyncio.get_running_loop().time())

    def _want_list(self) -> None:
        """Somebody waits for a list, from now on unless one is waited for already."""
        if self._wanted is None:
            self._wanted = asyncio.get_running_loop().time()

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
        """Lists and watches until cancelled, or until the kind has vanished, or may not be listed (`may_vanish`)."""
        failures = 0
        loop = asyncio.get_running_loop()
        self._want_list()
        while True:
            begun = loop.time()
            try:
                self._rescoped.clear()
                version = await self._list_unless_vanished()
                if version is None:
                    return
                self.synced.set()
                begun = loop.time()
                if self._scope.is_empty:
                    await self._rescoped.wait()
                elif not self._rescoped.is_set():
                    await self._follow_for_a_while(version)
                if self._rescoped.is_set():
                    failures = 0
                    continue
            except ClusterError as error:
                self._scope.note_refusal(error)
                self.problem = error.message
                LOG.warning("watch of %s: %s", self.path, error.message)
            except Exception as error:
                self.problem = type(error).__name__
                LOG.exception("watch of %s: it is started again", self.path)
            self.restarts += 1
            self._note_lost(loop.time())
            if loop.time() - begun > _LIVED_SECONDS:
                failures = 0
                continue
            wait = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
            failures += 1
            await asyncio.sleep(wait * (0.5 + random.random()))  # noqa: S311 - jitter, no secret

    def _note_lost(self, now: float) -> None:
        """Notes a list or a watch that failed."""
        if self._lost is None:
            self._lost = now
        answered = self._client.succeeded_at
        if self._wanted is None or answered is None or answered > self._wanted:
            return  # whatever else was answered meanwhile: this list hangs, or is refused
        if now - answered >= _AWAY_SECONDS:
            self._wanted = now

    def note(self, meta: ObjectMeta) -> bool:
        """Notes the version of an object that was read or written elsewhere; whether it is newer than the known one."""
        versions, version = self._versions[meta.namespace], version_number(meta.resource_version)
        self._seen.note(version)
        if self._seen.is_outdated(version, versions.get(meta.name, -1)):
            return False
        versions[meta.name] = version
        return True

    def _note_listed(self, meta: ObjectMeta) -> bool:
        """As `note`, for an object of a list."""
        versions, version = self._versions[meta.namespace], version_number(meta.resource_version)
        self._seen.note(version)
        if self._seen.is_outdated_in_list(version, versions.get(meta.name, -1)):
            return False
        versions[meta.name] = version
        return True

    async def _list_unless_vanished(self) -> str | None:
        """As `_list`; None where the kind has vanished, and its objects with it, or may not be listed."""
        try:
            version = await self._list()
        except ClusterError as error:
            now = asyncio.get_running_loop().time()
            if self._may_vanish and error.status == HTTPStatus.FORBIDDEN:
                self._lost = now if self._lost is None else self._lost
                return None
            if not self._may_vanish or error.status != HTTPStatus.NOT_FOUND:
                self._missing = None
                raise
            if self._missing is None:
                self._missing = now
            if now - self._missing < _VANISHED_SECONDS:
                raise
            self._drop_others({})
            version = None
        self._missing = None
        return version

    async def _list(self) -> str:
        """Takes over one list; returns its resource version."""
        names_listed: defaultdict[str, set[str]] = defaultdict(set)
        version, scope = "", self._scope.version
        if not self._scope.is_empty:  # no selector selects nothing
            self._seen.begin_list()
            async for items, at in self._client.pages(self.path, self._scope.params()):
                if not version and at.isdecimal() and self._seen.note_list(int(at)):
                    LOG.warning("%s went back to version %s: it is taken anew", self.path, at)
                    self._restored()
                version = at
                for raw in filter(self._is_watched, items):
                    item = self._decode(raw)
                    # An object that cannot be read still exists: its known state stays.
                    namespace, name = self._key(raw) if item is None else self._put(item, self._note_listed)
                    names_listed[namespace].add(name)
                await asyncio.sleep(0)
        self.listed_scope = scope
        self._heard = self._listed_at = asyncio.get_running_loop().time()
        self._lost = None
        if scope == self._scope.version:
            self._wanted = None
        self._drop_others(names_listed)
        return version

    def _drop_others(self, listed: Mapping[str, Container[str]]) -> None:
        """Drops the objects that are not listed, by namespace and name."""
        for namespace, versions in tuple(self._versions.items()):
            for name in [name for name in versions if name not in listed.get(namespace, ())]:
                self._drop((namespace, name))

    def _is_watched(self, raw: msgspec.Raw) -> bool:
        """By the metadata alone: an object of another replica's shard is decoded no further."""
        return self._scope.is_whole or self._scope.holds(self._key(raw)[0])

    def _key(self, raw: msgspec.Raw) -> tuple[str, str]:
        try:
            meta = msgspec.json.decode(raw, type=_Named).metadata
        except UNREADABLE as error:
            raise ClusterError(0, "Malformed", f"an object without a name: {error}") from error
        return (meta.namespace, meta.name)

    async def _follow(self, version: str) -> None:
        async for kind, raw in watch_events(
            self._client, self.path, version, idle_seconds=IDLE_SECONDS, params=self._scope.params()
        ):
            self._heard = asyncio.get_running_loop().time()
            if kind == "BOOKMARK":
                self._seen.note(version_of(raw))
                continue
            if not self._is_watched(raw):
                continue
            if kind == "DELETED":  # by the metadata alone: also one of which nothing else can be read
                self._seen.note(version_of(raw))
                self._drop(self._key(raw))
            elif (changed := self._decode(raw)) is not None:
                self._put(changed, self.note)

    def _decode(self, raw: msgspec.Raw) -> T | None:
        """The decoded object; None, with a warning, if it cannot be read."""
        try:
            return self._decoder.decode(raw)
        except UNREADABLE as error:
            LOG.warning("watch of %s: an object cannot be read and is skipped: %s", self.path, error)
            return None

    def _put(self, obj: T, note: Callable[[ObjectMeta], bool]) -> tuple[str, str]:
        # Each decoded object has its own copy of the namespace's name, and the object may be kept.
        key = (intern(obj.metadata.namespace), obj.metadata.name)
        if not note(obj.metadata):
            return key
        if self._keep:
            self.objects[key] = obj
        try:
            self._changed(*key, obj)
        except ValueError as error:
            LOG.warning("watch of %s: %s/%s cannot be read and is skipped: %s", self.path, *key, error)
        return key

    def _drop(self, key: tuple[str, str]) -> None:
        namespace, name = key
        self._versions[namespace].pop(name, None)
        if not self._versions[namespace]:
            del self._versions[namespace]
        self.objects.pop(key, None)
        self._changed(*key, None)


async def watch_events(
    client: Client, path: str, version: str, *, idle_seconds: float, params: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[str, msgspec.Raw]]:
    """
    The events of a watch: type and object, bookmarks included.

    Ends where the server ends it, also for a version that is too old; then list anew. Raises ClusterError.
    """
    async for line in client.watch(path, version, idle_seconds=idle_seconds, params=params):
        signal = decode(line, _Signal, path)
        if signal.type == "ERROR":
            failure = decode(bytes(signal.object), _Failure, path)
            if failure.code == _GONE:
                return
            raise ClusterError(failure.code, "WatchError", failure.message)
        yield signal.type, signal.object
