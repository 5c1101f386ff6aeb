"""
The handover of shards: a replica takes, releases or loses a shard.

After a replica has taken a shard's Lease it lists everything in the shard and reads the memories from the statuses, as
at a handover without shards; then it serves the shard. Before it releases a shard, the work in the shard ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from cronhpa.kube.lease import LeaseName
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.leader.handover import IsIn
from cronhpa.operator.loop.control_loop import ControlLoop
from cronhpa.operator.objects.inventory import Inventory

LOG = logging.getLogger(__name__)

# Before a shard is released, its reconciliations have this time to end; then they are cancelled.
_GRACE_SECONDS = 10.0
_TOLD_AT_ONCE_SECONDS = 2.0
_LISTED_SECONDS = 0.02
_TOLD_SECONDS = 60.0


@runtime_checkable
class ShardHolder(Protocol):
    """
    `operator.sharded_replica.ShardedReplica`, or a model of it in tests.

    leaving: the shards to release. terms(): the term of each shard that is held. note_empty(terms): marks shards in
    which nothing is decided or written any more. lease_of(namespace): the Lease of the namespace's shard.
    """

    scope: ShardScope

    @property
    def leaving(self) -> frozenset[int]: ...

    def terms(self) -> Mapping[int, int]: ...

    def note_empty(self, terms: Mapping[int, int]) -> None: ...

    def lease_of(self, namespace: str) -> LeaseName: ...

    async def changed(self) -> None: ...


class ShardHandover:
    """
    The shards that this replica decides for.

    served: the term of each shard that is served. listed(version): whether everything was listed in this version of the
    scope. prepare(is_in): awaited before a shard is served, once the objects in its namespaces are known. flushed():
    returns when all events of decisions are written. doubt(): as of a `FleetHandover`, for what is of no shard.
    """

    def __init__(
        self,
        replica: ShardHolder,
        inventory: Inventory,
        control_loop: ControlLoop,
        *,
        listed: Callable[[int], bool],
        prepare: Callable[[IsIn], Awaitable[None]],
        flushed: Callable[[], Awaitable[None]],
        doubt: Callable[[], None],
    ) -> None:
        self.served: dict[int, int] = {}
        self._taken: Callable[[], None] = lambda: None
        self._replica, self._scope = replica, replica.scope
        self._inventory, self._control_loop = inventory, control_loop
        self._listed, self._prepare, self._flushed, self._doubt = listed, prepare, flushed, doubt
        # The term of each watched shard, until the shard is released or lost.
        self._watched: dict[int, int] = {}
        # The terms of shards that are being emptied or are empty, and of the empty ones only.
        self._leaving: dict[int, int] = {}
        self._empty: dict[int, int] = {}
        # Shards that are being emptied. If one is lost and taken again meanwhile, it is served after it is empty.
        self._emptying: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._was_ready = False

    @property
    def is_ready(self) -> bool:
        """Whether a shard is or was served, or none was held: a replica without a share is ready, too."""
        self._was_ready |= bool(self.served) or not self._replica.terms()
        return self._was_ready

    @property
    def state(self) -> str:
        return f"{len(self.served)} of {self.shards} shards"

    @property
    def shards(self) -> int:
        return self._scope.shards

    @property
    def shards_served(self) -> int:
        return len(self.served)

    @property
    def held(self) -> frozenset[int]:
        terms = self._replica.terms()
        return frozenset(shard for shard, term in self.served.items() if term == terms.get(shard))

    def serves(self, namespace: str) -> bool:
        """Whether this replica decides for a namespace, and has listed everything that it needs."""
        shard = self._scope.shard_of(namespace)
        term = self.served.get(shard)
        return term is not None and term == self._replica.terms().get(shard)

    async def synced(self) -> None:
        """Returns at once: each shard waits for its own lists."""

    async def run(self, taken: Callable[[], None] = lambda: None) -> None:
        self._taken = taken
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow_election(), name="handover of shards")
            parts.create_task(self._control_loop.run(), name="control loop")

    async def _follow_election(self) -> None:
        """Raises the error of a takeover that failed."""
        try:
            while True:
                self._follow()
                await self._replica.changed()
                for task in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(task)
                    task.result()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _follow(self) -> None:
        terms, leaving = self._replica.terms(), self._replica.leaving
        lost = {shard for shard, term in self._watched.items() if terms.get(shard) != term}
        gained = {
            shard: term
            for shard, term in terms.items()
            if shard not in leaving | self._emptying
            and self._watched.get(shard) != term
            and self._leaving.get(shard) != term
        }
        if lost:
            LOG.info("shards %s are not held any more", _text(lost))
            self._forget(lost)
            self._spawn(self._control_loop.close(0, self._is_in(lost)))
        if gained:
            LOG.info("shards %s are held", _text(gained))
            self._watched.update(gained)
        if lost or gained:
            version = self._scope.hold(self._watched)
            if gained:
                self._spawn(self._take_over(gained, version))
        emptied = {
            shard: terms[shard]
            for shard in (leaving & terms.keys()) - self._emptying
            if self._leaving.get(shard) != terms[shard]
        }
        if emptied:
            self._leaving.update(emptied)
            self._emptying.update(emptied)
            self._spawn(self._give_up(emptied))

    async def _take_over(self, gained: Mapping[int, int], version: int) -> None:
        """Serves shards once everything in them is listed, unless they are lost or to be released meanwhile."""
        self._doubt()
        loop = asyncio.get_running_loop()
        warned_at = loop.time()
        while not self._listed(version):
            await asyncio.sleep(_LISTED_SECONDS)
            if loop.time() - warned_at > _TOLD_SECONDS:
                LOG.warning("shards %s: the first lists are still not there", _text(gained))
                warned_at = loop.time()
        await self._prepare(self._is_in(gained))
        still = {
            shard: term
            for shard, term in gained.items()
            if self._watched.get(shard) == term and self._leaving.get(shard) != term
        }
        self._inventory.take_over(among=self._is_in(still))
        self.served.update(still)
        self._taken()
        LOG.info("shards %s are served: %d CronHPA objects in all", _text(still), len(self._inventory.items))

    async def _give_up(self, shards: Mapping[int, int]) -> None:
        """Ends the work in shards, so that another replica may take them."""
        for shard in shards:
            self.served.pop(shard, None)
        await self._control_loop.close(_GRACE_SECONDS, self._is_in(shards))
        with suppress(TimeoutError):
            async with asyncio.timeout(_TOLD_AT_ONCE_SECONDS):
                await self._flushed()
        self._forget(shards.keys())
        self._scope.hold(self._watched)
        LOG.info("shards %s are given up: other replicas have fewer", _text(shards))
        self._empty.update(shards)
        self._replica.note_empty(self._empty)
        self._emptying.difference_update(shards)
        self._follow()

    def _forget(self, shards: AbstractSet[int]) -> None:
        for shard in shards:
            self.served.pop(shard, None)
            self._watched.pop(shard, None)
        self._inventory.drop_all(self._is_in(shards))

    def _is_in(self, shards: Collection[int]) -> IsIn:
        return lambda namespace: self._scope.shard_of(namespace) in shards

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work, name="handover"))


def _text(shards: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(shards)))
