"""
cronhpa.operator.leader.shard_handover, cronhpa.operator.leader.sharded_replica: whole replicas that share shards, in
virtual time.

Each write is held against the Leases as the API has them at that instant.
"""

import asyncio
import logging
import random
from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest
from kubernetes.client import Configuration
from lives import CPU, cronhpa, deployment, until
from simulated_replica import LEASE, TIMING, SimulatedReplica, Unjudged
from simulated_shards import SHARDS, SimulatedShardReplica
from simulated_world import LEASES, World
from virtual_time import live

from cronhpa.core.model.instant import SECOND
from cronhpa.kube.client import Client
from cronhpa.kube.clock import Clock
from cronhpa.kube.shard_scope import ShardScope, shard_of
from cronhpa.operator.leader.replica import LeaderElectionConfig
from cronhpa.operator.leader.shard_election import HeldShards, shard_lease
from cronhpa.operator.leader.shard_handover import ShardHandover
from cronhpa.operator.leader.sharded_replica import ShardedReplica

AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}
NAMESPACES = [f"team-{number}" for number in range(12)]


class ShardedProcess(SimulatedShardReplica):
    @property
    def objects(self):
        return {namespace for namespace, _ in self.controller.inventory.items}

    def serves(self, namespace):
        """Whether it decides the objects there, and may write what it decides."""
        may_write = self.candidate.fence(f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas/shop") > 0
        return may_write and self.controller.handover.serves(namespace)

    @property
    def served(self):
        handover: Any = self.controller.handover  # of shards: `served` is its own
        return set(handover.served)


class Cluster:
    """An object in each namespace; foreign: writes by a process that does not have the Lease of the object's shard."""

    def __init__(self, processes):
        self.world = World(random.Random(7))
        self.world.check = self._check
        self.foreign, self.decided = [], defaultdict(list)
        # For how long nobody served a namespace, at most.
        self.unserved = dict.fromkeys(NAMESPACES, 0.0)
        for namespace in NAMESPACES:
            deployment(self.world, namespace=namespace)
            cronhpa(self.world, namespace=namespace, metrics=[CPU])
            self.world.load[namespace, "shop"] = 1000
        # Released by those who led before: without Leases, the first ones wait for leaders that may be there.
        for shard in range(SHARDS):
            name = shard_lease(LEASE, shard, SHARDS)
            self.world.create(LEASES, name.namespace, name.name, spec={"holderIdentity": "", "leaseDurationSeconds": 1})
        self.processes = [self.process(f"replica-{number}") for number in range(processes)]
        self._looking = asyncio.create_task(self._look())

    def process(self, who):
        made = ShardedProcess(self.world, who, self)
        made.start()
        return made

    def note(self, who, spec, _decision, _term):
        self.decided[spec.namespace].append((asyncio.get_running_loop().time(), who))

    def note_standing(self, who, namespace, name): ...

    def _check(self, client, plural, below, resource, _body):
        if plural == LEASES or resource is None:
            return
        namespace = resource["metadata"]["namespace"]
        name = shard_lease(LEASE, shard_of(namespace, SHARDS), SHARDS).name
        lease = self.world.objects[LEASES].get((LEASE.namespace, name), {"spec": {}})
        if lease["spec"].get("holderIdentity") != client.who:
            self.foreign.append((client.who, plural, below, namespace))

    async def _look(self):
        since = dict.fromkeys(NAMESPACES, asyncio.get_running_loop().time())
        while True:
            await asyncio.sleep(0.5)
            now = asyncio.get_running_loop().time()
            for namespace in NAMESPACES:
                serving = [
                    process.who for process in self.processes if process.is_running and process.serves(namespace)
                ]
                assert len(serving) <= 1, (namespace, serving)
                if serving:
                    since[namespace] = now
                self.unserved[namespace] = max(self.unserved[namespace], now - since[namespace])

    async def stop(self):
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking
        for process in self.processes:
            if process.is_running:
                await process.stop()
        assert [] == self.foreign
        assert [] == [error for process in self.processes for error in process.failed]


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.ERROR)


def test_one_replica_decides_for_all_and_names_the_leases_of_the_shards():
    async def story():
        cluster = Cluster(1)
        await until(60)
        assert set(NAMESPACES) == cluster.processes[0].objects == set(cluster.decided)
        named = {
            namespace: cluster.world.objects["cronhpas"][namespace, "shop"]["status"]["operator"]
            for namespace in NAMESPACES
        }
        assert {
            namespace: f"{LEASE}-shard-{shard_of(namespace, SHARDS)}-of-{SHARDS}" for namespace in NAMESPACES
        } == named
        await cluster.stop()

    live(story)


def test_a_second_replica_decides_its_half_and_the_first_forgets_it():
    async def story():
        cluster = Cluster(1)
        await until(60)
        cluster.processes.append(cluster.process("late"))
        await until(120)
        one, late = cluster.processes
        assert 2 == len(one.served) == len(late.served)
        assert set(NAMESPACES) == one.objects | late.objects
        assert not one.objects & late.objects
        for namespace in late.objects:
            who = [name for _, name in cluster.decided[namespace]]
            assert {"late"} == {*who[who.index("late") :]}
        await cluster.stop()

    live(story)


def test_what_is_decided_by_two_is_never_decided_at_once_whatever_ends_and_comes():
    async def story():
        cluster = Cluster(3)
        await until(90)
        cluster.processes.sort(key=lambda process: -len(process.objects))
        await cluster.processes[0].kill()
        await until(90 + TIMING.lease + 5 + 20)
        assert set(NAMESPACES) == set().union(*(process.objects for process in cluster.processes[1:]))
        cluster.processes += [cluster.process("late"), cluster.process("later")]
        # One of the two waits for the Lease of the dead replica: there are as many as shards.
        await until(175 + TIMING.lease + 20)
        assert [1, 1, 1, 1] == sorted(len(process.served) for process in cluster.processes[1:])
        await cluster.processes[1].stop()
        await until(320)
        assert SHARDS == sum(len(process.served) for process in cluster.processes[2:])
        await cluster.stop()
        # The last renewal was up to a retry before the kill. Each looks every four seconds: so late it sees that
        # renewal and the end of the Lease.
        assert TIMING.lease - TIMING.retry < max(cluster.unserved.values()) <= TIMING.lease + 2 * TIMING.retry / 2 + 3

    live(story)


@pytest.mark.parametrize("refusal", [403, 500])
def test_shards_are_taken_over_though_their_planned_events_cannot_be_listed(refusal):
    """
    Found: a replica whose right to list them was taken away while it ran never served the shards of one that ended, so
    nothing was decided in these. Where a list fails, it is waited for: a minute or two.
    """

    async def story():
        cluster = Cluster(0)
        cluster.world.kinds |= {("/apis/cronhpa.io/v1alpha1", "plannedevents"): "PlannedEvent"}
        cluster.processes = [cluster.process(f"replica-{number}") for number in range(2)]
        await until(90)
        one, other = cluster.processes
        (cluster.world.unlistable if refusal == 403 else cluster.world.failing).add("plannedevents")
        cluster.world.cut_watches("plannedevents")
        await until(100)
        await one.kill()
        await until(100 + TIMING.lease + (20 if refusal == 403 else 140))
        assert SHARDS == len(other.served)
        await cluster.stop()

    live(story)


def test_shards_wait_for_the_events_of_the_cluster_that_a_replica_may_have_missed():
    """
    It is cut off from 60 to 200 s, and loses its shards. At 150 s there is an event of the cluster, for which others
    scale to six. Found: who took the shards back before it could list the event scaled down.
    """

    async def story():
        cluster = Cluster(0)
        world = cluster.world
        world.kinds |= {("/apis/cronhpa.io/v1alpha1", "clusterplannedevents"): "ClusterPlannedEvent"}
        for namespace in NAMESPACES:
            world.edit("cronhpas", namespace, "shop", spec={"behavior": AT_ONCE})
        cluster.processes = [cluster.process("replica")]
        await until(60)
        cluster.processes[0].cut()
        world.failing.add("clusterplannedevents")
        await until(150)
        window = {"name": "doors", "from": "2027-01-15T07:02", "to": "2027-01-15T08:00", "minReplicas": 6}
        world.create("clusterplannedevents", "", "sale", spec={"selector": {}, "reason": "a", "schedules": [window]})
        for namespace in NAMESPACES:
            world.edit("deployments", namespace, "shop", spec={"replicas": 6})
        await until(200)
        cluster.processes[0].mend()
        await until(235)
        world.failing.clear()
        await until(400)
        assert SHARDS == len(cluster.processes[0].served)
        assert {6} == {world.replicas(namespace, "shop") for namespace in NAMESPACES}
        assert [] == [(before, after) for _, _, before, after in world.scalings if after < before]
        await cluster.stop()

    live(story)


def test_a_load_that_changes_during_the_handover_is_scaled_for():
    async def story():
        cluster = Cluster(1)
        await until(60)
        cluster.processes.append(cluster.process("late"))
        for namespace in NAMESPACES:
            cluster.world.load[namespace, "shop"] = 3000
        await until(120)
        assert {6} == {cluster.world.replicas(namespace, "shop") for namespace in NAMESPACES}
        await cluster.stop()

    live(story)


def test_who_is_cut_off_for_good_says_so_although_it_watches_nothing_any_more():
    """
    It loses its shards, and so has nothing to watch. Found: it was taken for a replica without a shard, so /healthz
    never failed, and nobody started it anew with the address or the certificate that the API server has by now.
    """

    async def story():
        cluster = Cluster(SHARDS + 1)
        await until(800)
        idle, *_, serving = sorted(cluster.processes, key=lambda process: len(process.served))
        assert not idle.served
        assert serving.served
        assert idle.controller.unanswered_seconds < 100
        serving.cut()
        await until(1500)
        assert not serving.served
        assert 600 < serving.controller.unanswered_seconds
        await cluster.stop()

    live(story)


def test_a_kind_of_target_that_may_not_be_listed_keeps_nobody_from_serving():
    """
    Its targets are read one by one, with or without shards.

    Found: a takeover waited for a list of each kind that this process watches, also of one that is always refused.
    """

    async def story():
        cluster = Cluster(1)
        cluster.world.unlistable.add("statefulsets")
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
        cronhpa(cluster.world, "db", namespace="team-0", scaleTargetRef=target)
        await until(60)
        cluster.processes.append(cluster.process("late"))
        await until(150)
        one, late = cluster.processes
        assert 2 == len(one.served) == len(late.served)
        await late.stop()
        await until(210)
        assert set(range(SHARDS)) == one.served
        await cluster.stop()

    live(story)


def test_a_shard_is_served_although_its_hpas_may_not_be_listed():
    """A takeover waits a minute for them. Found: it waited for ever, and so did every object in the shard."""

    async def story():
        cluster = Cluster(1)
        cluster.world.unlistable.add("horizontalpodautoscalers")
        await until(50)
        assert not cluster.processes[0].served
        await until(120)
        assert set(range(SHARDS)) == cluster.processes[0].served
        await cluster.stop()

    live(story)


def test_replicas_with_shards_wait_for_the_leader_without_and_go_on_where_it_was():
    """A rolling update to shards: the object's status names the Lease of the installation while that is renewed."""

    async def story():
        world, wrote = World(random.Random(7)), []
        world.check = lambda client, plural, *_: None if plural in {LEASES, "events"} else wrote.append(client.who)
        deployment(world, namespace="team-0")
        cronhpa(world, namespace="team-0", metrics=[CPU])
        world.load["team-0", "shop"] = 1000
        former = SimulatedReplica(world, "former", Unjudged())
        former.start()
        await until(60)
        process = ShardedProcess(world, "sharded", Unjudged())
        process.start()
        await until(120)
        assert {"former"} == set(wrote)
        await former.stop()
        wrote.clear()
        world.load["team-0", "shop"] = 3000
        await until(120 + TIMING.lease + 30)
        assert {"sharded"} == set(wrote)
        assert 6 == world.replicas("team-0", "shop")
        await process.stop()

    live(story)


def test_a_replica_that_is_cut_off_serves_nothing_when_others_do():
    async def story():
        cluster = Cluster(2)
        await until(60)
        one, other = cluster.processes
        one.cut()
        await until(60 + TIMING.lease + 10)
        assert set(range(SHARDS)) == other.served
        assert not [namespace for namespace in NAMESPACES if one.serves(namespace)]
        one.mend()
        await until(240)
        assert 2 == len(one.served) == len(other.served)
        await cluster.stop()

    live(story)


class Holder:
    """A replica that holds what the test says, once it says that something changed."""

    def __init__(self, scope):
        self.scope, self.held, self.leaving, self.empty = scope, {}, frozenset(), {}
        self._change = asyncio.Event()

    def terms(self):
        return self.held

    def note_empty(self, terms):
        self.empty = dict(terms)

    def lease_of(self, namespace):
        return shard_lease(LEASE, self.scope.shard_of(namespace), self.scope.shards)

    def now(self, held, leaving=()):
        self.held, self.leaving = held, frozenset(leaving)
        self._change.set()

    async def changed(self):
        await self._change.wait()
        self._change.clear()


def test_a_shard_that_is_had_again_is_begun_after_the_end_of_its_last_term():
    """
    Reconciliations of the last term end at 11 s, when the Lease was lost at 3 s and had again at 5 s.

    Found: the shard was served from 5 s on, and at 11 s its reconciliations were cancelled, its objects forgotten, and
    its lists of 5 s were believed for the new ones.
    """

    async def story():
        holder, forgotten, taken = Holder(ShardScope(2)), [], []

        class Loop:
            async def run(self):
                await asyncio.Event().wait()

            async def close(self, seconds, _among):
                await asyncio.sleep(seconds)

        class Objects:
            items = ()

            def drop_all(self, _among):
                forgotten.append(asyncio.get_running_loop().time())

            def take_over(self, *, among):
                assert among(NAMESPACES[0]) == (shard_of(NAMESPACES[0], 2) == 0)
                taken.append(asyncio.get_running_loop().time())

        async def at_once(*_):
            pass

        made = ShardHandover(
            holder, Objects(), Loop(), listed=lambda _: True, prepare=at_once, flushed=at_once, doubt=list
        )
        running = asyncio.create_task(made.run())
        for at, held, leaving in ((0, {0: 1}, ()), (1, {0: 1}, {0}), (3, {}, {0}), (5, {0: 2}, ())):
            await until(at)
            holder.now(held, leaving)
        await until(20)
        running.cancel()
        assert {0: 2} == made.served
        assert frozenset({0}) == holder.scope.held
        return [round(at) for at in forgotten], [round(at) for at in taken]

    assert ([3, 11], [0, 11]) == live(story)


async def test_a_write_is_fenced_by_the_lease_of_its_namespaces_shard():
    now = [100.0]
    clock = Clock(lambda: round(now[0] * SECOND), lambda: now[0])
    scope = ShardScope(SHARDS)
    held = HeldShards(scope, TIMING, clock.monotonic)
    held.shards[scope.shard_of("team-1")].renewed(100.0, 1, "me")
    paths = {
        "/apis/cronhpa.io/v1alpha1/namespaces/team-1/cronhpas/shop/status": True,
        "/api/v1/namespaces/team-1/events": True,
        "/api/v1/namespaces/team-0/events": scope.shard_of("team-0") == scope.shard_of("team-1"),
        "/apis/cronhpa.io/v1alpha1/clusterplannedevents/sale/status": True,
        "/api/v1/namespaces/default/events": True,
        "/apis/cronhpa.io/v1alpha1/namespaces/default/cronhpas/shop/status": False,
    }
    assert scope.shard_of("default") != scope.shard_of("team-1")

    assert paths == {path: held.fence(path) > 0 for path in paths}
    now[0] += TIMING.renew_deadline
    assert not any(held.fence(path) > 0 for path in paths)


async def test_a_replica_with_shards_says_what_it_has_and_leads_if_it_has_any():
    clock = Clock(lambda: 0, lambda: 0.0)
    config = LeaderElectionConfig(lambda: Client(Configuration()), LEASE, "me", TIMING, clock)
    replica = ShardedReplica(config, ShardScope(SHARDS))

    assert (0, "", "0 of 4 shards", {}) == (replica.term, replica.holder, replica.part, dict(replica.terms()))
    assert replica.fence("/api/v1/namespaces/team-1/events") <= 0
    assert str(replica.lease_of("team-1")) == f"{LEASE}-shard-{shard_of('team-1', SHARDS)}-of-{SHARDS}"
