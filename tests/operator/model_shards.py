"""Replicas that share shards, in virtual time: an API with Leases, processes that come, leave, freeze and die."""

import asyncio
from contextlib import suppress

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.kube.clock import Clock
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.lease import Lease, LeaseMeta, LeaseName
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.leader.election import LeaseTiming
from cronhpa.operator.leader.shard_election import HeldShards, ShardElection, replica_lease, shard_lease

INSTALLATION = LeaseName("cronhpa-system", "cronhpa")
START = parse_instant("2027-01-15T07:00:00Z")
TIMING = LeaseTiming()


def lease_names(shards):
    """Those of the shards, and those of the replicas."""
    numbers = range(shards)
    return [shard_lease(INSTALLATION, number, shards) for number in numbers], [
        replica_lease(INSTALLATION, number) for number in numbers
    ]


class ModelLeases:
    """The API's Leases by name. seconds(): how long a request is under way."""

    def __init__(self, seconds):
        self.leases = {}
        self.version = 0
        self.seconds = seconds
        self._led = set()

    async def may_have_led(self, name):
        """Whether an object may name the Lease: once there was one."""
        return name in self._led

    async def get(self, name):
        return await self._answer(lambda: self.leases.get(name))

    async def in_namespace(self, namespace):
        return await self._answer(
            lambda: {name: lease for name, lease in self.leases.items() if name.namespace == namespace}
        )

    async def create(self, name, spec):
        return await self._answer(lambda: self._put(name, None, spec))

    async def replace(self, name, before, spec):
        return await self._answer(lambda: self._put(name, before.version, spec))

    async def _answer(self, work):
        await asyncio.sleep(self.seconds())
        answer = work()
        await asyncio.sleep(self.seconds())
        return answer

    def _put(self, name, version, spec):
        lease = self.leases.get(name)
        if version is not None and lease is None:
            raise ClusterError(404, "NotFound", "the Lease was deleted")
        if (version is None) != (lease is None) or (lease is not None and version != lease.version):
            raise ClusterError(409, "Conflict", "the Lease was changed")
        self.version += 1
        self._led.add(name)
        self.leases[name] = Lease(LeaseMeta(str(self.version), name=name.name), spec)
        return self.leases[name]


class ReachedLeases:
    """The Leases as one process reaches them: not while it is frozen or cut off, and never once it is dead."""

    def __init__(self, leases):
        self._leases = leases
        self.is_open = asyncio.Event()
        self.is_open.set()

    def __getattr__(self, verb):
        async def asked(*given):
            await self.is_open.wait()
            answer = await getattr(self._leases, verb)(*given)
            await self.is_open.wait()
            return answer

        return asked


class ShardReplica:
    """
    One process. offset, rate: its monotonic clock against the loop's. emptying: seconds from when a shard is to be
    given up until nothing is decided in it any more.
    """

    def __init__(self, leases, name, shards, *, offset=0.0, rate=1.0, emptying=0.5):
        def monotonic():
            return offset + rate * asyncio.get_running_loop().time()

        self.name = name
        self.is_dead = False
        self._emptying = emptying
        self._leaving = set()
        self._reached = ReachedLeases(leases)
        self.held_shards = HeldShards(ShardScope(shards), TIMING, monotonic)
        clock = Clock(lambda: START + round(monotonic() * SECOND), monotonic)
        self.election = ShardElection(
            self._reached,
            *lease_names(shards),
            name,
            self.held_shards,
            clock,
            changed=self._changed,
            may_have_led=leases.may_have_led,
        )
        self._task = asyncio.create_task(self.election.run())

    def may_write(self, shard):
        """Whether a write may begin in a shard. A process that is frozen begins none."""
        return not self.is_dead and self.held_shards.shards[shard].write_seconds() > 0

    @property
    def held(self):
        return set() if self.is_dead else set(self.held_shards.terms())

    def freeze(self):
        self._reached.is_open.clear()

    def thaw(self):
        self._reached.is_open.set()

    def kill(self):
        self.is_dead = True
        self.freeze()
        self._task.cancel()

    async def leave(self):
        """Releases all Leases, as at SIGTERM."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                await self.election.release()
        self.is_dead = True

    def _changed(self):
        terms = self.held_shards.terms()
        for shard in self.held_shards.leaving & terms.keys():
            if (shard, terms[shard]) not in self._leaving:
                self._leaving.add((shard, terms[shard]))
                asyncio.get_running_loop().call_later(self._emptying, self._emptied, shard, terms[shard])

    def _emptied(self, shard, term):
        self.held_shards.empty = {**self.held_shards.empty, shard: term}
