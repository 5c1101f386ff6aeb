"""cronhpa.operator.leader.shard_election: shards among replicas that come, leave, freeze and die, in virtual time."""

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_shards import INSTALLATION, TIMING, ModelLeases, ShardReplica
from virtual_time import live

from cronhpa.operator.leader.shard_election import replica_lease, shard_lease

SHARDS = 16
# Nobody takes a shard of a dead replica before its Lease has run out, and everybody looks each second.
TAKEN_WITHIN = TIMING.lease + 5


async def until(seconds):
    await asyncio.sleep(max(seconds - asyncio.get_running_loop().time(), 0))


def shares(replicas):
    return sorted(len(replica.held) for replica in replicas if not replica.is_dead)


async def with_replicas(count, seconds=0.01, **of_each):
    leases = ModelLeases(lambda: seconds)
    return leases, [ShardReplica(leases, f"replica-{number}", SHARDS, **of_each) for number in range(count)]


def test_the_first_replica_holds_all_shards_at_once_and_the_leases_say_so():
    async def story():
        leases, (one,) = await with_replicas(1)
        await until(1)
        assert set(range(SHARDS)) == one.held
        assert "replica-0" == leases.leases[shard_lease(INSTALLATION, 7, SHARDS)].spec.holder
        assert "replica-0" == leases.leases[replica_lease(INSTALLATION, 0)].spec.holder
        assert SHARDS + 1 == len(leases.leases)
        await one.leave()

    live(story)


def test_a_second_replica_gets_half_within_seconds_and_none_before_it_is_empty():
    async def story():
        leases, (one,) = await with_replicas(1, emptying=2.0)
        await until(5)
        other = ShardReplica(leases, "other", SHARDS)
        await until(7)
        # Given up, and not empty yet.
        assert (16, 0) == (len(one.held), len(other.held))
        await until(12)
        assert [8, 8] == shares([one, other])
        assert not one.held & other.held

    live(story)


def test_the_shards_of_a_dead_replica_are_taken_when_its_leases_have_run_out():
    async def story():
        _, replicas = await with_replicas(4)
        await until(30)
        assert [4, 4, 4, 4] == shares(replicas)
        replicas[1].kill()
        lost = set(range(SHARDS)) - set().union(*(replica.held for replica in replicas))
        assert 4 == len(lost)
        await until(30 + TIMING.lease - TIMING.retry)
        assert not lost & set().union(*(replica.held for replica in replicas))
        await until(30 + TAKEN_WITHIN)
        assert [5, 5, 6] == shares(replicas)

    live(story)


def test_the_shards_of_a_replica_that_ends_are_taken_within_two_seconds():
    async def story():
        _, replicas = await with_replicas(2)
        await until(20)
        await replicas[0].leave()
        await until(22)
        assert set(range(SHARDS)) == replicas[1].held

    live(story)


def test_replicas_beyond_the_shards_wait_for_one():
    async def story():
        leases = ModelLeases(lambda: 0.01)
        replicas = [ShardReplica(leases, f"replica-{number}", 2) for number in range(3)]
        await until(10)
        assert [0, 1, 1] == shares(replicas)
        next(replica for replica in replicas if replica.held).kill()
        await until(10 + TAKEN_WITHIN + TIMING.lease)
        assert [1, 1] == shares(replicas)

    live(story)


def test_renewals_come_as_often_as_of_a_single_lease():
    async def story():
        leases, (one,) = await with_replicas(1)
        await until(10)
        before = leases.version
        await until(70)
        # 17 Leases each two seconds; a step may be a look late.
        assert 17 * 60 / 3 <= leases.version - before <= 17 * 60 / 2 + 17
        await one.leave()

    live(story)


@st.composite
def disturbances(draw):
    """(seconds since the last one, what happens, to which of the replicas)."""
    what = st.sampled_from(["join", "join", "leave", "kill", "freeze", "delete"])
    return draw(st.lists(st.tuples(st.floats(0.1, 40), what, st.integers(0, 99)), min_size=1, max_size=6))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), disturbances(), st.integers(0, 2**32))
def test_whatever_befalls_replicas_no_shard_has_two_and_each_has_one_soon(count, events, seed):
    """
    No instant at which two processes may write in a shard. A shard is without a replica for no longer than a Lease and
    five seconds after the last disturbance, and in the end all have fair shares.
    """
    live(lambda: _lived(count, events, random.Random(seed)))


async def _lived(count, events, dice):  # noqa: C901 - one story
    leases = ModelLeases(lambda: dice.uniform(0.001, 0.15))
    replicas, loop = [], asyncio.get_running_loop()
    disturbed = 0.0

    def join():
        replicas.append(
            ShardReplica(
                leases,
                f"replica-{len(replicas)}",
                SHARDS,
                offset=dice.uniform(0, 1e6),
                rate=dice.uniform(0.995, 1.005),
                emptying=dice.uniform(0, 3),
            )
        )

    async def watch(seconds):
        nonlocal without
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(0.1)
            for shard in range(SHARDS):
                writers = [replica.name for replica in replicas if replica.may_write(shard)]
                assert len(writers) <= 1, (loop.time(), shard, writers)
                if any(shard in replica.held for replica in replicas):
                    without[shard] = loop.time()
                since = max(without[shard], disturbed)
                assert loop.time() - since <= TAKEN_WITHIN, (loop.time(), shard)

    without = dict.fromkeys(range(SHARDS), 0.0)
    for _ in range(count):
        join()
    for seconds, what, which in events:
        await watch(seconds)
        alive = [replica for replica in replicas if not replica.is_dead]
        chosen = alive[which % len(alive)]
        if what == "join":
            join()
        elif what == "delete":
            # A replica that is dead or frozen may have held some: twice the wait.
            leases.leases.clear()
            disturbed = max(disturbed, loop.time() + TAKEN_WITHIN)
            continue
        elif what == "freeze":
            chosen.freeze()
            loop.call_later(dice.uniform(1, 60), chosen.thaw)
        elif len(alive) > 1:
            await (chosen.leave() if what == "leave" else asyncio.sleep(0, chosen.kill()))
        disturbed = loop.time() + (60 if what == "freeze" else 0)
    await watch(max(disturbed - loop.time(), 0) + 60)

    held = Counter(shard for replica in replicas for shard in replica.held)
    assert {1} == set(held.values())
    assert SHARDS == len(held)
    assert max(shares(replicas)) - min(shares(replicas)) <= 1
