"""
cronhpa.operator.leader.election: every way in which the first requests of two replicas can go.

A request is answered, refused, done without an answer, never done, or its process is frozen behind it.
"""

import asyncio
from itertools import product

import pytest
from model_leases import TIMING, ModelLeases, Replica
from virtual_time import live

# Longer than a request may take; a process frozen for longer than a Lease lasts.
WAYS = [("", 0.0), ("refused", 0.0), ("lost", 12.0), ("hangs", 12.0), ("frozen", 20.0)]
# Each trouble costs at most its time, a Lease's duration and a look.
CALM_AFTER = 3 * (20 + TIMING.lease + TIMING.retry)


async def lived(ways):
    """How many may write at each look: while the first requests go these ways, and at the end."""
    leases, coming = ModelLeases(), iter(ways)
    leases.trouble = lambda: next(coming, ("", 0.0))
    replicas = [Replica(leases, "one"), Replica(leases, "two", offset=1e5, rate=1.01)]
    writers = []

    def look():
        writers.append(sum(replica.may_write for replica in replicas))

    for replica in replicas:
        replica.on_change = look
    tasks = [asyncio.create_task(replica.run()) for replica in replicas]
    while asyncio.get_running_loop().time() < CALM_AFTER:
        await asyncio.sleep(0.37)
        look()
    for replica, task in zip(replicas, tasks, strict=True):
        replica.is_dead = True
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return writers, next(coming, None)


def all_ways(requests):
    for ways in product(WAYS, repeat=requests):
        writers, unmet = live(lambda ways=ways: lived(ways))
        assert unmet is None, ways
        assert max(writers) == 1, ways
        assert writers[-1] == 1, ways


def test_whatever_becomes_of_the_first_three_requests_one_leads_in_the_end_and_never_two():
    all_ways(3)


@pytest.mark.long
def test_whatever_becomes_of_the_first_five_requests_one_leads_in_the_end_and_never_two():
    """3,125 beginnings."""
    all_ways(5)
