"""
The door through which the CronHPA objects come: lists of them, and one of two watches behind each list.

`kopf_watch` is the default, `InformerWatch` is for large fleets. The list at the start and every five minutes is the
same for both: it finds changes that a watch missed, says whether the API serves the kind, and shows whether the API's
store was restored from a backup.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import NoReturn, Protocol

import msgspec
from msgspec import Struct

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.informer import IDLE_SECONDS, watch_events
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.loop.cooperative_yield import CooperativeYield
from cronhpa.operator.objects.inventory import Inventory

LOG = logging.getLogger(__name__)

# At 2,000 objects kopf takes up to two points of a core and 45 MB more than the informer (docs/scale.md).
_OBJECTS_BY_KOPF_MAX = 2000
# A server that starts, and has not read its kinds yet, may say 404, too.
_VANISHED_SECONDS = 60.0


class WatchPauses(Struct, frozen=True):
    list_seconds: float = 300.0
    """Between two lists."""
    retry_seconds: float = 5.0
    """After a list that failed, while the kind is not discovered, and after a watch that ended soon."""
    restart_seconds: float = 1.0
    """After a watch that lived for `retry_seconds`."""


class Watch(Protocol):
    """One of the two watches."""

    is_by_kopf: bool

    async def run(self, objects: ObjectWatch) -> None:
        """Calls `objects.watch_again` for each of its connections, until cancelled."""


class ObjectWatch:
    """Keeps the inventory as the API has the objects."""

    def __init__(
        self,
        client: Client,
        inventory: Inventory,
        namespaces: tuple[str, ...],
        watch: Watch,
        *,
        pauses: WatchPauses | None = None,
        term: Callable[[], int] = lambda: 1,
        scope: ShardScope | None = None,
    ) -> None:
        self.inventory = inventory
        self.namespaces = namespaces or ("",)
        """One empty name for all of them."""
        self.scope = scope or ShardScope()
        """The namespaces that are listed and watched."""
        self.listed = asyncio.Event()
        """Set after the first successful list, or the first list with an object."""
        self.listed_term = 0
        """The term of leadership in which the last successful list of all objects began."""
        self.listed_scope = -1
        """The version of `scope` when the last successful list of all objects began."""
        self.watchable = asyncio.Event()
        """Set while the objects can be listed and discovery names the kind."""
        self.outdated = asyncio.Event()
        """Set once the running watches are useless: the kind is gone, the store was restored, the scope has changed."""
        self.versions: dict[str, str] = {}
        """The resource version of the newest list by namespace: watches begin there."""
        self.restarts = 0
        self._client = client
        self._watch = watch
        self._pauses = pauses or WatchPauses()
        self._term = term
        self._is_wanted = asyncio.Event()
        self._listing = asyncio.Lock()
        self._yield = CooperativeYield()
        self._is_informer_recommended = False
        # Since when each list has said that the kind is not served.
        self._unserved: float | None = None
        self.scope.on_change(self.begin_again)

    async def list_periodically(self) -> NoReturn:
        """Lists at once and then every five minutes, until cancelled."""
        while True:
            has_failed = is_unserved = False
            term, scope = self._term(), self.scope.version
            for namespace in self.namespaces:
                try:
                    await self.list_once(namespace)
                except ClusterError as error:
                    has_failed = True
                    self.scope.note_refusal(error)
                    is_unserved |= error.status == HTTPStatus.NOT_FOUND
                    where = f"namespace {namespace}" if namespace else "all namespaces"
                    LOG.warning("list of the CronHPA objects of %s: %s", where, error.message)
                except Exception:
                    has_failed = True
                    LOG.exception("the list of CronHPA objects failed; it is tried again")
            if not has_failed:
                self.listed_term, self.listed_scope = term, scope
                self._recommend_informer()
            # If some namespaces cannot be read, the others do not wait for them.
            if not has_failed or self.inventory.items:
                self.listed.set()
            if is_unserved:
                self.outdated.set()
            self._drop_vanished(is_unserved=is_unserved)
            is_watchable = not (has_failed or self.scope.is_empty or self._is_wanted.is_set()) and (
                self.watchable.is_set() or await _is_discovered(self._client)
            )
            (self.watchable.set if is_watchable else self.watchable.clear)()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pauses.list_seconds if is_watchable else self._pauses.retry_seconds):
                    await self._is_wanted.wait()
            self._is_wanted.clear()

    def _drop_vanished(self, *, is_unserved: bool) -> None:
        """Drops all objects once their kind is gone for good, and they with it: a watch may have lost that."""
        now = asyncio.get_running_loop().time()
        self._unserved = None if not is_unserved else now if self._unserved is None else self._unserved
        if self._unserved is not None and now - self._unserved >= _VANISHED_SECONDS:
            self.inventory.drop_all(lambda _: True)

    async def watch(self) -> None:
        """Watches behind the lists of `list_periodically`, until cancelled."""
        await self._watch.run(self)

    def request(self) -> None:
        """Asks for a list now. Until it succeeds, no watch begins."""
        self.watchable.clear()
        self._is_wanted.set()

    def begin_again(self) -> None:
        """Ends the watches, and asks for the list behind which others begin."""
        self.outdated.set()
        self.request()

    async def watch_again(self, watch: Callable[[], Awaitable[None]]) -> NoReturn:
        """
        Watches whenever there is something to watch: `watch` returns, or raises, when its connection has ended.

        Each watch begins behind a list: a deletion between two watches causes no event, a kind that is gone needs no
        watch, and kopf looks for the kind once, at its start.
        """
        loop = asyncio.get_running_loop()
        while True:
            await self.watchable.wait()
            if not self.watchable.is_set():  # a list was requested before this task went on
                continue
            self.outdated.clear()
            begun, scope = loop.time(), self.scope.version
            try:
                await self._until_outdated(watch())
                LOG.info("a watch of the CronHPA objects ended; it is started again")
            except ClusterError as error:
                self.scope.note_refusal(error)
                LOG.warning("watch of the CronHPA objects: %s", error.message)
            except Exception:
                LOG.exception("the watch of the CronHPA objects failed; scaling goes on, the watch is started again")
            if self.scope.version != scope:
                continue
            self.restarts += 1
            self.request()
            has_lived = loop.time() - begun > self._pauses.retry_seconds
            await asyncio.sleep(self._pauses.restart_seconds if has_lived else self._pauses.retry_seconds)

    async def list_again(self, term: int) -> set[str]:
        """
        Stores one list of all objects, begun in this term; returns the namespaces that cannot be read.

        Raises ClusterError if none of them can be read.
        """
        problems: dict[str, ClusterError] = {}
        for namespace in self.namespaces:
            try:
                await self.list_once(namespace)
            except ClusterError as error:
                problems[namespace] = error
        if len(problems) == len(self.namespaces):
            raise next(iter(problems.values()))
        if not problems:
            self.listed_term = term
        return set(problems)

    async def list_once(self, namespace: str) -> None:
        """
        Stores one list of a namespace, or of all for "", and drops objects that are not in it.

        One list at a time: otherwise the older of two could arrive last. Raises ClusterError.
        """
        async with self._listing:
            await self._list(namespace)

    async def _list(self, namespace: str) -> None:
        if self.scope.is_empty:  # there is no selector for no shards
            return
        uids_before = {state.uid for state in self.inventory.in_namespace(namespace)}
        self.inventory.begin_list()
        seen: set[str] = set()
        is_first = True
        async for items, version in self._client.pages(objects_path(namespace), self.scope.params()):
            if is_first:
                if version.isdecimal():
                    self.inventory.note_list_version(int(version))
                is_first = False
            for raw in items:
                await self._yield.step()
                seen.add(self.inventory.put_listed(raw))
            self.versions[namespace] = version
        for state in self.inventory.in_namespace(namespace):
            if state.uid in uids_before and state.uid not in seen:
                self.inventory.drop(state.key, state.uid)

    async def _until_outdated(self, watch: Awaitable[None]) -> None:
        """Waits for the end of a watch, or ends it once it is outdated. Raises what ended it."""
        watching = asyncio.ensure_future(watch)
        outdated = asyncio.ensure_future(self.outdated.wait())
        try:
            await asyncio.wait((watching, outdated), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            for task in (watching, outdated):
                task.cancel()
            await asyncio.gather(watching, outdated, return_exceptions=True)

    def _recommend_informer(self) -> None:
        """Says once that another watch takes less for so many objects."""
        count = len(self.inventory.items)
        if self._watch.is_by_kopf and count > _OBJECTS_BY_KOPF_MAX and not self._is_informer_recommended:
            self._is_informer_recommended = True
            LOG.warning(
                "%d CronHPA objects are watched by kopf: beyond %d, CRONHPA_OBJECT_WATCH=informer takes less CPU and"
                " memory",
                count,
                _OBJECTS_BY_KOPF_MAX,
            )


class InformerWatch:
    """
    The watch of the CronHPA objects as that of pods and targets (`kube/informer`), for large fleets.

    It decodes only what an event changes, so echoes of our own status writes are cheap: at an edge that all objects
    share they are most of the events.
    """

    is_by_kopf = False

    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(self, objects: ObjectWatch) -> None:
        """Watches each namespace until cancelled."""
        await asyncio.gather(
            *(objects.watch_again(partial(self._watch, objects, namespace)) for namespace in objects.namespaces)
        )

    async def _watch(self, objects: ObjectWatch, namespace: str) -> None:
        """Passes on the events behind the newest list, until the connection ends."""
        path, params = objects_path(namespace), objects.scope.params()
        version = objects.versions[namespace]
        async for kind, raw in watch_events(self._client, path, version, idle_seconds=IDLE_SECONDS, params=params):
            objects.inventory.apply_event(kind, raw)


def objects_path(namespace: str) -> str:
    """The path of the objects of a namespace, or of all for ""."""
    return path_of("apis", GROUP, VERSION, *(("namespaces", namespace) if namespace else ()), PLURAL)


class _Named(msgspec.Struct):
    name: str = ""


class _Groups(msgspec.Struct):
    groups: list[_Named] = []


class _Kinds(msgspec.Struct):
    resources: list[_Named] = []


async def _is_discovered(client: Client) -> bool:
    """Whether discovery names the kind, which happens some seconds after the API serves a new kind."""
    try:
        groups = await client.get("/apis", _Groups)
        kinds = await client.get(path_of("apis", GROUP, VERSION), _Kinds)
    except ClusterError as error:
        LOG.warning("what the API serves cannot be read: %s", error.message)
        return False
    return any(group.name == GROUP for group in groups.groups) and any(kind.name == PLURAL for kind in kinds.resources)
