"""This replica among others that each decide for some shards: the fence of each write, and which shards are held."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cronhpa.kube.client import Client
from cronhpa.kube.lease import LeaseName, Leases
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.clock import Clock
from cronhpa.operator.election import LeaseTiming
from cronhpa.operator.replica import ElectedReplica, Election
from cronhpa.operator.shard_election import Holdings, ShardElection, replica_lease, shard_lease


class ShardedReplica(ElectedReplica):
    """scope: which namespaces are in which shard, and which of them this process watches. It leads if it holds any."""

    def __init__(
        self,
        connect: Callable[[], Client],
        lease: LeaseName,
        identity: str,
        timing: LeaseTiming,
        clock: Clock,
        scope: ShardScope,
    ) -> None:
        super().__init__(connect, lease, identity, timing, clock)
        self.scope = scope
        shards = range(scope.shards)
        self._leases = tuple(shard_lease(lease, shard, scope.shards, by_server=scope.by_server) for shard in shards)
        # More replicas than shards have nothing to do.
        self._replicas = tuple(replica_lease(lease, number) for number in shards)
        self._holdings = Holdings(scope, timing, clock.monotonic)

    @property
    def term(self) -> int:
        return int(bool(self._holdings.terms()))

    @property
    def holder(self) -> str:
        return self._identity if self.term else ""

    @property
    def part(self) -> str:
        return f"{len(self._holdings.terms())} of {self.scope.shards} shards"

    @property
    def leaving(self) -> frozenset[int]:
        """The shards that are to be given up."""
        return self._holdings.leaving

    def terms(self) -> Mapping[int, int]:
        """The term in which each shard is held that is."""
        return self._holdings.terms()

    def lease_of(self, namespace: str) -> LeaseName:
        """The Lease by which the objects of a namespace are decided."""
        return self._leases[self.scope.shard_of(namespace)]

    def note_empty(self, terms: Mapping[int, int]) -> None:
        """Notes the shards, by their terms, in which nothing is decided or written any more: they may be given up."""
        self._holdings.empty = dict(terms)

    def fence(self, path: str) -> float:
        return self._holdings.fence(path)

    def _election_by(self, leases: Leases) -> Election:
        return ShardElection(
            leases,
            self._leases,
            self._replicas,
            self._identity,
            self._holdings,
            self._clock,
            changed=self._tell_change,
            may_lead=self._may_lead,
        )
