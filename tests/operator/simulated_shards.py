"""A replica of the simulated world that shares shards with others."""

from __future__ import annotations

import asyncio
from typing import Any

from model_shards import lease_names
from simulated_replica import LEASE, TIMING, SimulatedReplica
from simulated_world import SimulatedClient

from cronhpa.kube.clock import Clock
from cronhpa.kube.lease import LeaseName, Leases
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.leader.shard_election import HeldShards, ShardElection, shard_lease
from cronhpa.operator.objects.installations import NamedLeases

SHARDS = 4


class ShardCandidate:
    """`operator.sharded_replica.ShardedReplica` in the event loop of the operator: virtual time has no threads."""

    lease = LEASE
    timing = TIMING
    part = holder = ""
    free_in = None

    def __init__(self, client: SimulatedClient, clock: Clock, shards: int) -> None:
        self.scope = ShardScope(shards)
        self._shards = shards
        self._held = HeldShards(self.scope, TIMING, clock.monotonic)
        self.fence = self._held.fence
        self._change = asyncio.Event()
        self._election = ShardElection(
            Leases(client),
            *lease_names(shards),
            client.who,
            self._held,
            clock,
            changed=self._change.set,
            may_have_led=NamedLeases(client, ()).may_serve,
        )

    @property
    def term(self) -> int:
        return int(bool(self.terms()))

    @property
    def leaving(self) -> frozenset[int]:
        return self._held.leaving

    def terms(self) -> dict[int, int]:
        return self._held.terms()

    def note_empty(self, terms: dict[int, int]) -> None:
        self._held.empty = dict(terms)

    def lease_of(self, namespace: str) -> LeaseName:
        return shard_lease(LEASE, self.scope.shard_of(namespace), self._shards)

    async def changed(self) -> None:
        await self._change.wait()
        self._change.clear()

    async def run(self) -> None:
        await self._election.run()

    async def release(self) -> None:
        await self._election.release()


class SimulatedShardReplica(SimulatedReplica):
    def candidate_by(self, clock: Clock) -> Any:
        return ShardCandidate(self.lease_client, clock, SHARDS)

    def term_of(self, namespace: str) -> int:
        return int(self.candidate.terms().get(self.candidate.scope.shard_of(namespace), 0))
