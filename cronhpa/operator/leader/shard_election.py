"""
The holders of shards: a Lease for each shard, and a Lease for each replica.

The Leases of shards are taken and renewed as any other Lease (`election`), each with its own fence. The Leases of
replicas tell the number of replicas, so that each takes no more than its share; a replica takes any free one. All have
fixed names, so that RBAC rules can name them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from cronhpa.kube.clock import Clock
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.lease import Lease, LeaseName
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.leader.election import Elector, Leadership, LeaseStore, LeaseTiming, never_led
from cronhpa.operator.leader.shard_plan import plan

LOG = logging.getLogger(__name__)

_EVENTS_OF_CLUSTER = "/api/v1/namespaces/default/events"
_NAMESPACE = re.compile(r"/namespaces/([^/]+)/")


class ListedLeases(LeaseStore, Protocol):
    """`kube.lease.Leases`, or a model of it in tests."""

    async def in_namespace(self, namespace: str) -> Mapping[LeaseName, Lease]: ...


def shard_lease(installation: LeaseName, shard: int, shards: int, *, by_server: bool = False) -> LeaseName:
    """
    The Lease of a shard.

    The name includes how namespaces are divided: while replicas with two divisions run, the statuses tell the owner of
    each object.
    """
    return LeaseName(
        installation.namespace, f"{installation.name}-{'range' if by_server else 'shard'}-{shard}-of-{shards}"
    )


def replica_lease(installation: LeaseName, number: int) -> LeaseName:
    return LeaseName(installation.namespace, f"{installation.name}-replica-{number}")


class HeldShards:
    """
    A process's view of the shards of a scope; the election's thread writes all of it except `empty`.

    leaving: shards to release. empty: by shard, the term in which nothing is decided or written any more; these shards
    are released at the next step.
    """

    def __init__(self, scope: ShardScope, timing: LeaseTiming, monotonic: Callable[[], float]) -> None:
        self.scope = scope
        self.shards = tuple(Leadership(timing, monotonic) for _ in range(scope.shards))
        self.leaving: frozenset[int] = frozenset()
        self.empty: Mapping[int, int] = {}

    def terms(self) -> dict[int, int]:
        """The term of each shard that is held."""
        return {shard: term for shard, leadership in enumerate(self.shards) if (term := leadership.term)}

    def fence(self, path: str) -> float:
        """
        Seconds from now within which a write to a path must end, by the Lease of its namespace's shard.

        The statuses of ClusterPlannedEvents are in no namespace and their events in `default`: each replica that holds
        a shard writes its part of them.
        """
        match = _NAMESPACE.search(path)
        if match is None or path.startswith(_EVENTS_OF_CLUSTER):
            return max(leadership.write_seconds() for leadership in self.shards)
        return self.shards[self.scope.shard_of(match[1])].write_seconds()


class ShardElection:
    """
    Takes and renews the Leases of a fair share of the shards, and releases those above it.

    shards, replicas: their Leases, all in one namespace. identity: of this replica, unlike that of any other.
    changed() is called after each change of `held`.
    may_lead: whether the process makes progress; one that is stuck gives its Leases to replicas that do.
    may_have_led: whether a replica may have led by a shard's Lease, asked where there is none at the first look.
    """

    def __init__(  # noqa: PLR0913 - its parts by their names
        self,
        leases: ListedLeases,
        shards: Sequence[LeaseName],
        replicas: Sequence[LeaseName],
        identity: str,
        held: HeldShards,
        clock: Clock,
        *,
        changed: Callable[[], None],
        may_lead: Callable[[], bool] = lambda: True,
        may_have_led: Callable[[LeaseName], Awaitable[bool]] = never_led,
    ) -> None:
        self._leases, self._namespace, self._identity = leases, shards[0].namespace, identity
        self._held, self._clock, self._changed = held, clock, changed
        timing = self._timing = held.shards[0].timing

        def elector(
            name: LeaseName, leadership: Leadership, may_have_led: Callable[[LeaseName], Awaitable[bool]] = may_have_led
        ) -> tuple[LeaseName, Elector]:
            quiet: Callable[[], None] = lambda: None  # noqa: E731 - one notification, at the end of a step
            return name, Elector(
                leases, name, identity, leadership, clock, changed=quiet, may_lead=may_lead, may_have_led=may_have_led
            )

        self._shards = dict(map(elector, shards, held.shards))
        # Nobody writes by the Lease of a replica.
        self._replicas = dict(elector(name, Leadership(timing, clock.monotonic), never_led) for name in replicas)
        self._problem = ""

    async def run(self) -> None:
        """Takes, renews and releases Leases until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(self._timing.retry / 2)

    async def step(self) -> None:
        """Lists all Leases, renews those that are due, and takes or releases at most one; none if the list failed."""
        before = self._held.terms()
        electors = [*self._shards.values(), *self._replicas.values()]
        due = [elector for elector in electors if elector.leadership.is_leading and self._is_due(elector.leadership)]
        is_seen, *_ = await asyncio.gather(self._look(), *(elector.step() for elector in due))
        if is_seen:
            await self._take_part()
            await self._move()
        if before != self._held.terms() or self._held.leaving:
            self._changed()

    async def release(self) -> None:
        """Releases all Leases and ends the election."""
        await asyncio.gather(*(elector.release() for elector in (*self._replicas.values(), *self._shards.values())))
        self._changed()

    def _is_due(self, leadership: Leadership) -> bool:
        # Looks are twice as frequent as renewals.
        return leadership.unrenewed_seconds() > 0.75 * self._timing.retry

    async def _look(self) -> bool:
        """Whether the Leases could be listed."""
        try:
            async with asyncio.timeout(self._timing.renew_deadline / 2):
                leases = await self._leases.in_namespace(self._namespace)
        except (ClusterError, TimeoutError) as error:
            text = error.message if isinstance(error, ClusterError) else "the API server does not answer"
            if text != self._problem:
                LOG.warning("Leases of %s: %s", self._namespace, text)
                self._problem = text
            return False
        self._problem = ""
        for electors in (self._shards, self._replicas):
            for name, elector in electors.items():
                elector.observe(leases.get(name))
        return True

    async def _take_part(self) -> None:
        """Takes a free Lease of a replica, if this replica has none."""
        if any(elector.leadership.is_leading for elector in self._replicas.values()):
            return
        free = next((elector for elector in self._replicas.values() if not elector.holder), None)
        if free is not None:
            await free.step()

    async def _move(self) -> None:
        held, electors = self._held, tuple(self._shards.values())
        terms, empty = held.terms(), held.empty
        done = {shard for shard in held.leaving & terms.keys() if empty.get(shard) == terms[shard]}
        await asyncio.gather(*(electors[shard].give_up() for shard in done))
        if not any(elector.leadership.is_leading for elector in self._replicas.values()):
            return
        # A shard in `leaving` stays there, whatever has changed since: its objects may be deleted from memory already.
        leaving = frozenset(shard for shard in held.leaving if electors[shard].leadership.is_leading)
        holders = [elector.holder for elector in electors]
        live = (elector.holder for elector in self._replicas.values())
        move = plan(holders, live, self._identity, leaving)
        held.leaving = leaving.union(move.give)
        # Whoever sees first that a Lease was deleted puts one in its place, so that the wait for its holder begins.
        deleted = {shard for shard, elector in enumerate(electors) if elector.is_deleted}
        await asyncio.gather(*(electors[shard].step() for shard in deleted.union(move.take) - done))
