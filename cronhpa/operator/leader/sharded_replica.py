"""This replica with shards: the shards that it holds, and the fence of each write."""

from __future__ import annotations

from collections.abc import Mapping

from cronhpa.kube.lease import LeaseName, Leases
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.leader.replica import ElectedReplica, Election, LeaderElectionConfig
from cronhpa.operator.leader.shard_election import HeldShards, ShardElection, replica_lease, shard_lease
from cronhpa.operator.objects.installations import NamedLeases


class ShardedReplica(ElectedReplica):
    """scope: maps namespaces to shards, and has those that this process watches. It leads if it holds any shard."""

    def __init__(self, config: LeaderElectionConfig, scope: ShardScope) -> None:
        super().__init__(config)
        self.scope = scope
        lease, shards = config.lease, range(scope.shards)
        self._leases = tuple(shard_lease(lease, shard, scope.shards, by_server=scope.by_server) for shard in shards)
        # No more Leases than shards: further replicas would have no work.
        self._replicas = tuple(replica_lease(lease, number) for number in shards)
        self._held = HeldShards(scope, config.timing, config.clock.monotonic)

    @property
    def term(self) -> int:
        return int(bool(self._held.terms()))

    @property
    def holder(self) -> str:
        return self._identity if self.term else ""

    @property
    def part(self) -> str:
        return f"{len(self._held.terms())} of {self.scope.shards} shards"

    @property
    def leaving(self) -> frozenset[int]:
        """The shards to release."""
        return self._held.leaving

    def terms(self) -> Mapping[int, int]:
        """The term of each shard that is held."""
        return self._held.terms()

    def lease_of(self, namespace: str) -> LeaseName:
        """The Lease of a namespace's shard."""
        return self._leases[self.scope.shard_of(namespace)]

    def note_empty(self, terms: Mapping[int, int]) -> None:
        """Marks shards, with their terms, in which nothing is decided or written any more: they may be released."""
        self._held.empty = dict(terms)

    def fence(self, path: str) -> float:
        return self._held.fence(path)

    def _election_by(self, leases: Leases, named: NamedLeases) -> Election:
        return ShardElection(
            leases,
            self._leases,
            self._replicas,
            self._identity,
            self._held,
            self._clock,
            changed=self._tell_change,
            may_lead=self._may_lead,
            may_have_led=named.may_serve,
        )
