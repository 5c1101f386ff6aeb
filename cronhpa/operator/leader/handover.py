"""
The handover between replicas: from when on this replica decides, and for which namespaces.

`FleetHandover` is that of the whole fleet, by terms of leadership; `shard_handover` is that of shards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from cronhpa.kube.clock import Clock
from cronhpa.kube.errors import ClusterError
from cronhpa.operator.leader.replica import Replica
from cronhpa.operator.loop.control_loop import ControlLoop
from cronhpa.operator.loop.reconciler import Reconciler
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.namespace_watches import NamespaceWatches
from cronhpa.operator.objects.object_watch import ObjectWatch

LOG = logging.getLogger(__name__)

_SYNC_SECONDS = 60.0
_LIST_RETRY_SECONDS = 1.0

# Whether a namespace belongs to a set of namespaces.
IsIn = Callable[[str], bool]


class Handover(Protocol):
    """Which namespaces this replica decides for, now."""

    @property
    def is_ready(self) -> bool:
        """Whether this replica decides, or could decide at once."""

    @property
    def state(self) -> str:
        """The part of the fleet that this replica leads, in words."""

    @property
    def shards(self) -> int:
        """The number of shards that the fleet is divided into; 1: it is not divided."""

    @property
    def shards_served(self) -> int:
        """The number of shards that this replica decides for."""

    @property
    def held(self) -> frozenset[int]:
        """The shards that this replica decides for now, and has listed; {0} if the fleet is not divided."""

    def serves(self, namespace: str) -> bool:
        """Whether this replica decides for a namespace now, and has listed everything that it needs."""

    async def synced(self) -> None:
        """Waits for the first lists: an unlisted pod must not count as gone."""

    async def run(self, taken: Callable[[], None] = lambda: None) -> None:
        """
        Takes over what this replica leads, and runs the control loop for it, until cancelled.

        taken: called when a part of the fleet is taken over beside another one.
        """


class FleetHandover:
    """
    The whole fleet: a replica decides for all namespaces or for none.

    prepare(is_in): awaited before the first decision, once the objects are known. doubt(): called at the begin of a
    term; decisions wait for what it cannot believe.
    """

    def __init__(  # noqa: PLR0913 - its parts by their names
        self,
        replica: Replica,
        inventory: Inventory,
        control_loop: ControlLoop,
        reconciler: Reconciler,
        object_watch: ObjectWatch,
        clock: Clock,
        *,
        watches: NamespaceWatches,
        prepare: Callable[[IsIn], Awaitable[None]],
        doubt: Callable[[], None],
    ) -> None:
        self.shards = 1
        self.replica, self._inventory, self._control_loop = replica, inventory, control_loop
        self._reconciler, self._object_watch, self._clock = reconciler, object_watch, clock
        self._watches, self._prepare, self._doubt = watches, prepare, doubt
        # The last term in which this replica took over the objects, -1 before the first. In another one the decisions
        # known here may be days old.
        self._decided_in = -1

    @property
    def is_ready(self) -> bool:
        """Whether the objects were listed, and one namespace."""
        return self._object_watch.listed.is_set() and self._watches.is_any_listed

    @property
    def state(self) -> str:
        replica = self.replica
        text = "leading" if replica.term else f"waiting: {replica.holder or 'nobody'} leads"
        if (seconds := replica.free_in) is not None:
            text = f"{text}, and does not renew the Lease: this replica takes it in {seconds:.0f} s"
        return text

    @property
    def shards_served(self) -> int:
        return int(self._decided_in == self.replica.term)

    @property
    def held(self) -> frozenset[int]:
        return frozenset({0} if self.shards_served and self._watches.is_any_served else ())

    def serves(self, namespace: str) -> bool:
        return self._decided_in == self.replica.term and self._watches.are_served(namespace)

    async def synced(self) -> None:
        started = self._clock.monotonic()
        while not (self._object_watch.listed.is_set() and self._watches.is_any_served):
            await asyncio.sleep(0.05)
            if self._clock.monotonic() - started > _SYNC_SECONDS:
                LOG.warning("the first lists are still not there after %d s", _SYNC_SECONDS)
                started = self._clock.monotonic()
        await self._prepare(lambda _: True)
        LOG.info("ready: %d CronHPA objects", len(self._inventory.items))

    async def run(self, _taken: Callable[[], None] = lambda: None) -> None:
        """Takes over the whole fleet: there is no other part beside which it is taken."""
        while True:
            term = await self.replica.acquired()
            leading = asyncio.create_task(self._lead(term), name=f"control loop, term {term}")
            lost = asyncio.create_task(self.replica.lost(term), name="end of the term")
            try:
                await asyncio.wait((leading, lost), return_when=asyncio.FIRST_COMPLETED)
                if leading.done():
                    leading.result()
            finally:
                for task in (leading, lost):
                    task.cancel()
                await asyncio.gather(leading, lost, return_exceptions=True)
            await self._control_loop.close(0)
            # Before the memories, and other state with them, are read from the statuses again.
            for state in self._inventory:
                self._reconciler.loads.flush(state)

    async def _lead(self, term: int) -> None:
        """
        Reconciles in a term of leadership, beginning with the memories that another leader left in the statuses.

        If nobody else has led since this replica led, its own memories are at least as new as those of the statuses.

        A replica that was cut off may have missed an HPA on one of its targets, or a planned event: it waits for the
        next list of them, and goes on without one that fails for a minute.
        """
        begun = self._clock.now()
        unread: set[str] | None = set() if self._object_watch.listed_term == term else None
        while unread is None:
            try:
                unread = await self._object_watch.list_again(term)
            except ClusterError as error:
                LOG.warning("list of the CronHPA objects: %s; nothing is decided before it", error.message)
                await asyncio.sleep(_LIST_RETRY_SECONDS)
            except Exception:
                LOG.exception("the list of CronHPA objects failed; nothing is decided before it")
                await asyncio.sleep(_LIST_RETRY_SECONDS)
        self._watches.doubt_hpas()
        self._doubt()
        knows_all = self.replica.unbroken_since <= self._decided_in
        self._inventory.take_over(unread, knows_all=knows_all)
        self._decided_in = term
        await self._control_loop.run(begun, goes_on=knows_all)
