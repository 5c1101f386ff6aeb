"""
cronhpa.operator.leader.replica, cronhpa.operator.leader.thread_loop: the election's thread beside the operator's loop,
with an API server of one Lease.
"""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import web
from kubernetes.client import Configuration

from cronhpa.kube.client import Client
from cronhpa.kube.clock import Clock
from cronhpa.kube.lease import LeaseName
from cronhpa.operator.leader.election import LeaseTiming
from cronhpa.operator.leader.replica import ElectedReplica, LeaderElectionConfig, OnlyReplica

NAME = LeaseName("cronhpa-system", "cronhpa")
COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/cronhpa-system/leases"
TIMING = LeaseTiming(lease=15.0, renew_deadline=10.0, retry=0.05)
# What is waited for comes at once; a busy machine may take its time.
PATIENCE = 60.0


class AheadClock:
    """The machine's clock, and what a test adds to it, in seconds: a Lease runs out when the test says so."""

    def __init__(self):
        self.ahead = 0.0
        self.clock = Clock(time.time_ns, lambda: time.monotonic() + self.ahead)


class LeaseServer:
    """
    An API server with one Lease, in a thread of its own: it answers while the test's loop is busy.

    answers_after: seconds between a write and its answer.
    """

    def __init__(self):
        self.lease = None
        self.version = 0
        self.answers_after = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        self.configuration = Configuration()
        self.configuration.host = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _start(self):
        app = web.Application()
        app.router.add_post(COLLECTION, self._put)
        app.router.add_get(f"{COLLECTION}/cronhpa", self._get)
        app.router.add_put(f"{COLLECTION}/cronhpa", self._put)
        runner = web.AppRunner(app, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    async def _get(self, _request):
        return web.json_response(self.lease or {}, status=200 if self.lease else 404)

    async def _put(self, request):
        body = await request.json()
        current_version = "" if self.lease is None else str(self.version)
        if body["metadata"].get("resourceVersion", "") != current_version:
            return web.json_response({"message": "it was changed"}, status=409)
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        await asyncio.sleep(self.answers_after)
        return web.json_response(body)

    @property
    def holder(self):
        return None if self.lease is None else self.lease["spec"].get("holderIdentity")

    def version_after(self, version):
        """The next version that is written, seen by a test whose loop stands still meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while self.version <= version:
            assert time.monotonic() < deadline, "nobody renews the Lease"
            time.sleep(0.01)
        return self.version

    def close(self):
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


@pytest.fixture
def server():
    opened = LeaseServer()
    yield opened
    opened.close()


def replica(server, identity, clock=None):
    connect = partial(Client, server.configuration, timeout_seconds=5)
    return ElectedReplica(LeaderElectionConfig(connect, NAME, identity, TIMING, (clock or AheadClock()).clock))


@asynccontextmanager
async def running(*candidates):
    """The candidates take part; at the end each has ended, and so has its thread."""
    others = election_threads()
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    try:
        async with asyncio.timeout(2 * PATIENCE):
            yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await threads_ended(but=others)


def election_threads():
    return {thread for thread in threading.enumerate() if thread.name == "election"}


async def threads_ended(but=frozenset()):
    """Waits until no thread of an election is left but these, which others may still run."""
    async with asyncio.timeout(PATIENCE):
        while election_threads() - but:  # noqa: ASYNC110 - a thread tells no loop of its end
            await asyncio.sleep(0.01)


async def test_the_first_candidate_leads_and_the_lease_says_so(server):
    one = replica(server, "one")
    assert (0, "", True) == (one.term, one.holder, one.fence("") <= 0)

    async with running(one):
        await one.first_look()
        assert 1 == await one.acquired()
        assert ("one", "one") == (one.holder, server.holder)
        assert one.fence("") > 0


async def test_a_release_wakes_who_waits_for_the_end_of_the_term_and_ends_the_thread(server):
    one = replica(server, "one")
    async with running(one) as (election,):
        term = await one.acquired()
        waiting = asyncio.create_task(one.lost(term))
        await asyncio.sleep(0.1)
        assert not waiting.done()

        await one.release()

        await asyncio.wait_for(waiting, PATIENCE)
        assert (0, "") == (one.term, server.holder)
        assert one.fence("") <= 0
        await threads_ended()
        # An election that was ended on purpose is no error.
        await asyncio.wait_for(election, PATIENCE)


async def test_who_waits_leads_soon_after_a_release(server):
    one, other = replica(server, "one"), replica(server, "other")
    async with running(one):
        await one.acquired()
        async with running(other):
            # Not by its first look alone: `first_look` waits for no longer than `retry`, here 50 ms.
            async with asyncio.timeout(PATIENCE):
                while other.holder != "one":
                    await other.changed()
            assert 0 == other.term
            acquiring = asyncio.create_task(other.acquired())

            await one.release()

            # Of a Lease that was given up a second is left, and it is looked at every 50 ms.
            assert 1 == await asyncio.wait_for(acquiring, PATIENCE)
            assert "other" == server.holder
            assert one.fence("") <= 0 < other.fence("")


async def test_a_candidate_that_is_cancelled_gives_the_lease_up(server):
    one = replica(server, "one")
    async with running(one):
        await one.acquired()

    assert ("", 0) == (server.holder, one.term)


async def test_a_release_in_the_middle_of_a_renewal_gives_the_lease_up_all_the_same(server):
    """The renewal is done and its answer on the way: the version that the replica knows is not the newest one."""
    one = replica(server, "one")
    async with running(one):
        await one.acquired()
        server.answers_after = 0.5
        version_before = server.version
        async with asyncio.timeout(PATIENCE):
            while server.version == version_before:  # noqa: ASYNC110 - another thread renews
                await asyncio.sleep(0.01)

        server.answers_after = 0.0
        await one.release()

    assert "" == server.holder


async def test_a_loop_that_is_stuck_does_not_renew_and_leads_anew_once_it_goes_on(server):
    """
    For 25 s the loop may only be busy, and the Lease is renewed every 5 s. From 30 s on it is not: 15 s later it has
    run out, and one that can decide may lead.
    """
    time_of = AheadClock()
    one = replica(server, "one", time_of)
    async with running(one):
        await one.acquired()

        # The loop is stuck from here on: nothing is awaited.
        version = server.version
        for _ in range(5):
            time_of.ahead += 5
            # The first write after a step of the clock may have begun before it.
            version = server.version_after(server.version_after(version))
        time_of.ahead += 6
        time.sleep(0.5)  # noqa: ASYNC251 - a write that has begun ends
        version = server.version
        time.sleep(0.5)  # noqa: ASYNC251 - ten looks at the Lease
        renewed, time_of.ahead = server.version > version, time_of.ahead + 15

        assert not renewed
        assert one.fence("") <= 0
        async with asyncio.timeout(PATIENCE):
            await one.lost(1)
            assert 2 == await one.acquired()


async def test_what_ends_the_elections_thread_ends_the_candidate(server):
    def broken():
        raise ValueError("no such file: ca.crt")

    one = ElectedReplica(LeaderElectionConfig(broken, NAME, "one", TIMING, AheadClock().clock))

    with pytest.raises(RuntimeError, match=r"the election ended with ValueError: no such file: ca\.crt"):
        await asyncio.wait_for(one.run(), PATIENCE)
    await one.release()
    assert 0 == one.term


@pytest.mark.parametrize("steps", [1, 2, 5])
async def test_a_candidate_that_is_cancelled_at_once_leaves_no_thread(server, steps):
    """The thread is started and its loop is not: nothing can be told to it yet."""
    one = replica(server, "one")
    async with running(one):
        for _ in range(steps):
            await asyncio.sleep(0)

    assert server.holder in {None, ""}


async def test_a_candidate_whose_first_look_hangs_is_ended_all_the_same(server):
    """The end of the replica does not wait for an answer that takes ten minutes."""
    server.answers_after = 600.0
    one = replica(server, "one")
    async with running(one):
        async with asyncio.timeout(PATIENCE):
            while server.version == 0:  # noqa: ASYNC110 - another thread writes
                await asyncio.sleep(0.01)
        await asyncio.wait_for(one.release(), PATIENCE)


async def test_a_candidate_that_never_ran_has_nothing_to_release(server):
    await asyncio.wait_for(replica(server, "one").release(), PATIENCE)


async def test_the_only_candidate_leads_from_the_start_and_may_always_write():
    only = OnlyReplica()

    assert (1, None, float("inf")) == (await only.acquired(), only.lease, only.fence(""))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(only.lost(1), 0.05)
