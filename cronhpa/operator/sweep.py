"""
A list of the CronHPA objects at the start and every few minutes: finds changes that a broken watch missed.

It also checks whether the API serves the kind, which decides when a watch can begin and when it is useless.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

import msgspec
from msgspec import Struct

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.inventory import Inventory

LOG = logging.getLogger(__name__)


class SweepPauses(Struct, frozen=True):
    """seconds: between two lists. retry_seconds: after a list that failed, or while the kind is not discovered."""

    seconds: float = 300.0
    retry_seconds: float = 5.0


class Sweep:
    """
    listed: set after the first successful list, or the first list with an object.
    restored: set once the API's store was restored from a backup: a watch that counts on later versions has to begin
    anew, and clears it.
    watchable: set while the objects can be listed and discovery names the kind. unserved: set while it does not exist.
    listed_term: the term of leadership in which the last successful list of all objects began.
    scope: the namespaces that are listed and watched. listed_scope: its version when the last successful list of all
    objects began.
    versions: the resource version of the newest list by namespace, "" for all of them: watches begin there.
    """

    def __init__(
        self,
        client: Client,
        inventory: Inventory,
        namespaces: tuple[str, ...],
        pauses: SweepPauses | None = None,
        term: Callable[[], int] = lambda: 1,
        scope: ShardScope | None = None,
    ) -> None:
        self.scope = scope or ShardScope()
        self.listed_scope = -1
        self.scope.on_change(self.request)
        self.listed_term = 0
        self._term = term
        self.listed = asyncio.Event()
        self.watchable = asyncio.Event()
        self.unserved = asyncio.Event()
        self.restored = asyncio.Event()
        self.versions: dict[str, str] = {}
        self._client = client
        self._inventory = inventory
        self._namespaces = namespaces or ("",)
        self._pauses = pauses or SweepPauses()
        self._is_wanted = asyncio.Event()
        self._listing = asyncio.Lock()
        self._yield = CooperativeYield()

    def request(self) -> None:
        """Asks for a list now. Until it succeeds, no watch begins."""
        self.watchable.clear()
        self._is_wanted.set()

    def note_restore(self) -> None:
        """Asks for a list, because the API's store was restored from a backup."""
        self.restored.set()
        self.request()

    async def run(self) -> None:
        """Lists at once and then periodically, until cancelled."""
        while True:
            has_failed = is_unserved = False
            term, scope = self._term(), self.scope.version
            for namespace in self._namespaces:
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
            # If some namespaces cannot be read, the others do not wait for them.
            if not has_failed or self._inventory.items:
                self.listed.set()
            is_watchable = not (has_failed or self.scope.is_empty) and (
                self.watchable.is_set() or await _is_discovered(self._client)
            )
            (self.watchable.set if is_watchable else self.watchable.clear)()
            (self.unserved.set if is_unserved else self.unserved.clear)()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pauses.seconds if is_watchable else self._pauses.retry_seconds):
                    await self._is_wanted.wait()
            self._is_wanted.clear()

    async def list_again(self, term: int) -> set[str]:
        """
        Stores one list of all objects, begun in this term; returns the namespaces that cannot be read.

        Raises ClusterError if none of them can be read.
        """
        problems: dict[str, ClusterError] = {}
        for namespace in self._namespaces:
            try:
                await self.list_once(namespace)
            except ClusterError as error:
                problems[namespace] = error
        if len(problems) == len(self._namespaces):
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
        uids_before = {state.uid for state in self._inventory.in_namespace(namespace)}
        self._inventory.begin_list()
        seen: set[str] = set()
        is_first = True
        scope = ("namespaces", namespace) if namespace else ()
        path = path_of("apis", GROUP, VERSION, *scope, PLURAL)
        async for items, version in self._client.pages(path, self.scope.params()):
            if is_first:
                if version.isdecimal():
                    self._inventory.note_list_version(int(version))
                is_first = False
            for raw in items:
                await self._yield.step()
                seen.add(self._inventory.put_listed(raw))
            self.versions[namespace] = version
        for state in self._inventory.in_namespace(namespace):
            if state.uid in uids_before and state.uid not in seen:
                self._inventory.drop(state.key, state.uid)


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
