"""
The election over a Lease, in virtual time: replicas with clocks of their own, an API that hangs, refuses and forgets.

What must always hold: while one replica may write, no other one may, or may still have a write under way.
"""

import asyncio
import logging
import math
import random
import re

import pytest
from model_leases import NAME, START, ModelLeases, Replica, two_running, until
from msgspec.structs import replace
from virtual_time import live

from cronhpa.kube.clock import Clock
from cronhpa.kube.lease import Lease, LeaseSpec
from cronhpa.operator.leader.election import UNKNOWN, Elector


def test_the_first_replica_leads_and_writes_itself_into_a_new_lease():
    async def scenario():
        leases = ModelLeases()
        one = Replica(leases, "one")
        await one.elector.step()
        return leases.lease.spec, one.leadership.term, one.leadership.write_seconds()

    spec, term, seconds = live(scenario)

    assert spec.holder_identity == "one"
    assert (spec.lease_duration_seconds, spec.lease_transitions) == (15, 0)
    assert spec.acquire_time == spec.renew_time
    assert re.fullmatch(r"2027-01-15T07:00:00\.\d{6}Z", spec.renew_time)
    assert term == 1
    # 15 s of the Lease less a margin of (15 - 10) / 5 = 1 s, less the 20 ms of a look and a creation.
    assert seconds == pytest.approx(14 - 0.02, abs=0.001)


def test_a_renewal_is_one_request():
    async def scenario():
        leases = ModelLeases()
        one = Replica(leases, "one")
        for _ in range(4):
            await one.elector.step()
        return leases.asked

    assert live(scenario) == ["get", "create", "replace", "replace", "replace"]


def test_another_replica_waits_while_the_lease_is_renewed_and_knows_who_leads():
    async def scenario():
        _, one, two, tasks = await two_running(offset=1e6)
        await until(300)
        for task in tasks:
            task.cancel()
        return one.terms, two.leadership.term, two.leadership.holder

    terms, term, holder = live(scenario)

    assert [number for _, number in terms] == [1]
    assert (term, holder) == (0, "one")


def test_a_released_lease_is_taken_within_a_second_and_counted_as_a_transition():
    async def scenario():
        leases, one, two, (first, second) = await two_running()
        await until(60)
        first.cancel()
        await one.elector.release()
        released = asyncio.get_running_loop().time()
        await until(70)
        second.cancel()
        return released, two.terms, leases.lease.spec, one.may_write

    released, terms, spec, may_write = live(scenario)

    assert not may_write
    # Who waits looks every 2 / 2 = 1 s, and takes it by two requests of 10 ms.
    assert terms[-1][0] - released <= 1.03
    assert (spec.holder_identity, spec.lease_transitions) == ("two", 0)


@pytest.mark.parametrize("was_done", [True, False])
def test_a_candidate_that_ends_while_it_takes_the_lease_leaves_it_free(was_done):
    """Its write was done, or it was not: nobody waited for the answer."""

    async def scenario():
        leases = ModelLeases()
        leases.trouble = lambda: ("", 0.0) if leases.asked[-1] != "create" else ("lost" if was_done else "hangs", 5.0)
        one = Replica(leases, "one")
        attempt = asyncio.create_task(one.elector.step())
        await until(1)
        attempt.cancel()
        taken = leases.lease is not None
        await one.elector.release()
        return taken, leases.lease

    taken, lease = live(scenario)

    assert was_done == taken
    assert lease is None or not lease.spec.holder


@pytest.mark.parametrize("is_lost", [True, False], ids=["its own renewal", "a foreign edit"])
def test_a_leader_that_releases_a_lease_that_it_could_not_read_again_writes_nothing_more(is_lost):
    """Its renewal meets a conflict, and the look that follows fails: it leads, and does not know the newest record."""

    async def scenario():
        leases = ModelLeases()
        one = Replica(leases, "one")
        await one.elector.step()
        if is_lost:
            leases.trouble = lambda: ("lost", 0.0)
            await one.elector.step()
        else:
            leases.put(leases.lease.version, replace(leases.lease.spec, lease_transitions=7))
        leases.trouble = lambda: ("refused", 0.0) if leases.asked[-1] == "get" else ("", 0.0)
        await one.elector.step()
        led = one.may_write
        leases.trouble = lambda: ("", 0.0)
        await one.elector.give_up()
        return led, one.may_write, leases.lease.spec.holder

    assert live(scenario) == (True, False, "")


def test_a_dead_leaders_lease_is_taken_after_its_duration_and_not_before():
    async def scenario():
        leases, _, two, (first, second) = await two_running()
        await until(60)
        first.cancel()
        died = asyncio.get_running_loop().time()
        await until(90)
        second.cancel()
        return two.terms[-1][0] - died, leases.lease.spec.lease_transitions

    took, transitions = live(scenario)

    # Renewed up to 2 s before its death, seen up to 1 s later; respected for 15 s from then, looked at every second.
    assert 13 <= took <= 17
    assert transitions == 1


def test_a_leader_that_cannot_renew_stops_writing_long_before_another_may_lead():
    async def scenario():
        leases = ModelLeases()
        one = Replica(leases, "one")
        task = asyncio.create_task(one.elector.run())
        await until(10)
        leases.trouble = lambda: ("hangs", math.inf)
        cut = asyncio.get_running_loop().time()
        while one.may_write:  # noqa: ASYNC110 - time passes virtually
            await asyncio.sleep(0.05)
        stopped = asyncio.get_running_loop().time() - cut
        while one.leadership.term:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)
        ended = asyncio.get_running_loop().time() - cut
        leases.trouble = lambda: ("", 0.0)
        await until(60)
        task.cancel()
        return stopped, ended, one.terms

    stopped, ended, terms = live(scenario)

    assert 8 <= stopped <= 10.1
    assert ended <= 15 + 5.1  # noticed at the end of a hanging request; the fence is closed since 10 s
    assert [number for _, number in terms] == [1, 0, 2]  # what others did meanwhile is unknown: a new term


def terms_around(trouble, meanwhile):
    """The last term after 100 s with a trouble of 40 s, and the first of those since which nobody else led."""

    async def scenario():
        leases = ModelLeases()
        one = Replica(leases, "one")
        task = asyncio.create_task(one.elector.run())
        await until(10)
        leases.trouble = lambda: trouble(leases)
        await until(50)
        meanwhile(leases)
        leases.trouble = lambda: ("", 0.0)
        await until(100)
        task.cancel()
        return one.leadership.term, one.leadership.unbroken_since

    return live(scenario)


def another_leads(leases):
    before = leases.lease.spec
    spec = LeaseSpec("two", 1, "later", "later", before.lease_transitions + 1)
    leases.put(leases.lease.version, spec)


def test_who_leads_again_knows_whether_somebody_else_led_in_between():
    refused = ("refused", 0.0)

    assert (2, 1) == terms_around(lambda _: refused, lambda _: None)
    assert (2, 2) == terms_around(lambda _: refused, another_leads)


def test_a_lease_that_was_deleted_meanwhile_may_have_been_another_ones():
    def deleted(leases):
        leases.lease = None

    assert (2, 2) == terms_around(lambda _: ("refused", 0.0), deleted)


def test_a_lease_taken_back_by_a_write_whose_answer_was_lost_was_another_ones_in_between():
    """At second 35 another replica has led and is dead; the next write takes the Lease, and its answer is lost."""
    done = []

    def trouble(leases):
        if asyncio.get_running_loop().time() < 35:
            return "refused", 0.0
        if not done:
            done.append(another_leads(leases))
        return ("lost", 0.0) if leases.asked[-1] == "replace" else ("", 0.0)

    def is_taken(leases):
        assert "one" == leases.lease.spec.holder

    assert (2, 2) == terms_around(trouble, is_taken)


@pytest.mark.parametrize("away", [0.5, 3, 6, 9, 12, 60])
@pytest.mark.parametrize("phase", [0, 0.7, 1.4])
@pytest.mark.parametrize("was_frozen", [False, True], ids=["waits", "was frozen"])
def test_a_restored_lease_that_names_a_replica_that_led_once_lets_no_two_write(away, phase, was_frozen):
    """
    Two leads at the backup; one took over at 20 s, and leads at the restore. Found: two took the Lease at once, while
    one wrote for another second, and went on with what it knew at the backup.

    was_frozen: from before one took over until after the restore, so that two never saw that. It renewed the Lease
    after the backup: the restored one is not what it wrote last.
    """

    async def scenario():
        leases = ModelLeases()
        one, two = Replica(leases, "one"), Replica(leases, "two")
        frozen = asyncio.create_task(two.run())
        await until(5)
        backup, version = leases.lease, leases.version
        await until(8)
        two.is_dead = True
        await frozen
        tasks = [asyncio.create_task(one.run())]

        def thaw():
            two.is_dead = False
            tasks.append(asyncio.create_task(two.run()))

        await until(40)
        if not was_frozen:
            thaw()
        await until(100 + phase)
        led = one.may_write, two.may_write
        leases.trouble = lambda: ("refused", 0.0)
        await asyncio.sleep(away)
        leases.lease, leases.version, leases.trouble = backup, version, lambda: ("", 0.0)
        if was_frozen:
            thaw()
        both = 0
        for _ in range(6000):
            await asyncio.sleep(0.005)
            both += one.may_write and two.may_write
        for task in tasks:
            task.cancel()
        return led, both, [(each.leadership.term, each.leadership.unbroken_since) for each in (one, two)]

    led, both, terms = live(scenario)

    assert (True, False) == led
    assert 0 == both
    # Whoever takes it then does so in a new term, since which nobody else has led.
    assert [(0, 1), (2, 2)] == sorted(terms)


def test_a_short_outage_costs_no_term():
    async def scenario():
        leases = ModelLeases()
        one = Replica(leases, "one")
        task = asyncio.create_task(one.elector.run())
        await until(10)
        leases.trouble = lambda: ("refused", 0.0)
        await until(18)
        leases.trouble = lambda: ("", 0.0)
        await until(60)
        task.cancel()
        return one.terms

    assert [number for _, number in live(scenario)] == [1]


def test_a_lease_with_the_own_identity_is_taken_up_at_once():
    """The container of a pod that starts again has the pod's uid in its identity: the one before it is dead."""

    async def scenario():
        leases = ModelLeases()
        await Replica(leases, "pod-uid").elector.step()
        again = Replica(leases, "pod-uid")
        await again.elector.step()
        return again.leadership.term

    assert live(scenario) == 1


def test_a_replica_whose_loop_is_stuck_lets_the_lease_go():
    async def scenario():
        leases = ModelLeases()
        one, two = Replica(leases, "one"), Replica(leases, "two")
        stuck = Elector(
            leases, NAME, "one", one.leadership, Clock(lambda: START, asyncio.get_running_loop().time),
            changed=lambda: None, may_lead=lambda: asyncio.get_running_loop().time() < 30,
        )  # fmt: skip
        tasks = [asyncio.create_task(stuck.run())]
        await until(0.5)
        tasks.append(asyncio.create_task(two.elector.run()))
        await until(60)
        for task in tasks:
            task.cancel()
        return one.leadership.term, two.leadership.term

    assert live(scenario) == (0, 1)


def troubled_hour(seed, deleted_seconds=0):  # noqa: C901 - one story with three replicas in it
    """
    An hour of three replicas with clocks up to 2 % apart, frozen, cut off, killed and stopped at random.

    deleted_seconds: at the end of each ten minutes, in which somebody deletes the Lease once a second.

    Returns (overlaps, handovers, seconds without a leader).
    """
    draw = random.Random(seed)
    leases = ModelLeases()

    def trouble():
        if draw.random() > 0.15:
            return "", 0.0
        return draw.choice(["refused", "lost", "hangs", "frozen"]), draw.uniform(0, 40)

    async def scenario():
        leases.trouble = trouble
        overlaps, begun, over = [], [], asyncio.Event()
        replicas = []

        def check():
            now = asyncio.get_running_loop().time()
            writers = [replica.name for replica in replicas if replica.may_write]
            if len(writers) > 1:
                overlaps.append((now, writers))

        async def lives(number):
            generation = 0
            while not over.is_set():
                generation += 1
                replica = Replica(
                    leases, f"{number}-{generation}", offset=draw.uniform(0, 1e6), rate=draw.uniform(0.99, 1.01)
                )
                replica.on_change = check
                replicas.append(replica)
                task = asyncio.create_task(replica.run())
                await asyncio.sleep(draw.expovariate(1 / 200))
                replica.is_dead = True
                task.cancel()
                if draw.random() < 0.5:
                    await replica.elector.release()
                begun.extend(at for at, term in replica.terms if term)
                # A killed process writes nothing, whatever its fence says.
                replicas.remove(replica)
                await asyncio.sleep(draw.expovariate(1 / 20))

        tasks = [asyncio.create_task(lives(number)) for number in range(3)]
        idle = 0
        for second in range(3600):
            await until(second + draw.random())
            if second % 600 >= 600 - deleted_seconds:
                leases.lease = None
            check()
            idle += not any(replica.may_write for replica in replicas)
        over.set()
        for replica in replicas:
            replica.is_dead = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return overlaps, len(begun), idle

    return live(scenario)


# `make test-long` draws a thousand of each.
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_never_two_may_write_in_an_hour_of_troubles(seed):
    overlaps, handovers, idle = troubled_hour(seed)

    assert overlaps == []
    assert handovers > 10
    assert idle < 1800  # troubled, but most of the time somebody leads


@pytest.mark.parametrize("seed", range(5))
def test_never_two_may_write_while_somebody_deletes_the_lease_again_and_again(seed):
    overlaps, handovers, _ = troubled_hour(seed, deleted_seconds=120)

    assert overlaps == []
    assert handovers > 10


@pytest.mark.long
@pytest.mark.parametrize("deleted_seconds", [0, 120])
def test_never_two_may_write_in_a_thousand_troubled_hours(deleted_seconds):
    handovers = 0
    for seed in range(1000):
        overlaps, begun, _ = troubled_hour(seed, deleted_seconds)
        assert overlaps == [], seed
        handovers += begun
    assert handovers > 10_000


def test_a_label_that_somebody_writes_all_the_time_is_no_sign_of_life():
    async def scenario():
        leases = ModelLeases()
        await Replica(leases, "dead").elector.step()
        two = Replica(leases, "two")
        task = asyncio.create_task(two.elector.run())
        for second in range(40):
            await until(second + 1)
            if two.leadership.term:
                break
            leases.put(leases.lease.version, leases.lease.spec)  # the same record, a new version
        task.cancel()
        return asyncio.get_running_loop().time()

    assert live(scenario) <= 17


def test_a_lease_that_is_deleted_is_made_again_by_its_holder_and_by_nobody_else_before_its_end():
    async def scenario():
        leases, one, two, tasks = await two_running()
        await until(20)
        leases.lease = None
        both = []
        for tenth in range(100):
            await until(20 + tenth / 10)
            both.append(one.may_write and two.may_write)
        for task in tasks:
            task.cancel()
        return any(both), one.terms, leases.lease.spec.holder

    both, terms, holder = live(scenario)

    assert not both
    assert [number for _, number in terms] == [1]
    assert holder == "one"


LONGEST = 2**31 - 1


def seconds_to_lead(of_holder, then=lambda _: None):
    """After how many seconds a replica leads that finds this record; `then` happens at second 10."""

    async def scenario():
        leases = ModelLeases()
        leases.put(None, of_holder)
        one = Replica(leases, "one")
        task = asyncio.create_task(one.elector.run())
        await until(10)
        then(leases)
        while not one.leadership.term:  # noqa: ASYNC110 - time passes virtually
            await asyncio.sleep(0.1)
        task.cancel()
        return asyncio.get_running_loop().time()

    return live(scenario)


def deleted(leases):
    leases.lease = None


def test_of_a_lease_that_states_68_years_a_minute_is_respected():
    # Taken at the first look, one a second, after 60 s.
    assert 60 <= seconds_to_lead(LeaseSpec("gone", LONGEST)) <= 62


def test_a_lease_with_a_longer_duration_than_the_own_is_respected_for_that():
    assert 45 <= seconds_to_lead(LeaseSpec("gone", 45)) <= 47


def test_a_lease_that_stated_68_years_and_was_deleted_is_taken_after_the_own_duration():
    # Deleted at second 10, seen within a second; then 15 s.
    assert 25 <= seconds_to_lead(LeaseSpec("gone", LONGEST), deleted) <= 28


def test_a_deleted_lease_of_a_longer_duration_than_the_own_is_respected_for_that():
    """Its holder may have renewed it just before, and believes in it for so long."""
    assert 55 <= seconds_to_lead(LeaseSpec("frozen", 45), deleted) <= 58


def test_a_replica_that_starts_without_a_lease_waits_where_an_object_names_it():
    """As after a deletion: the leader may not have noticed it yet."""

    async def scenario(*, was_led):
        leases = ModelLeases()
        leases.version = int(was_led)
        one = Replica(leases, "one")
        task = asyncio.create_task(one.elector.run())
        while not one.leadership.term:  # noqa: ASYNC110 - time passes virtually
            await asyncio.sleep(0.1)
        task.cancel()
        return asyncio.get_running_loop().time()

    assert 15 <= live(lambda: scenario(was_led=True)) <= 17
    assert live(lambda: scenario(was_led=False)) <= 0.2


def test_whether_an_object_names_the_lease_is_asked_once_though_the_lease_cannot_be_created():
    """The answer lists all objects: it is not asked for each second while somebody lacks the right to create."""

    async def scenario():
        leases, asked = ModelLeases(), []
        leases.trouble = lambda: ("refused", 0.0) if leases.asked[-1] == "create" else ("", 0.0)

        async def may_have_led(name):
            asked.append(name)
            return False

        one = Replica(leases, "one")
        clock = Clock(lambda: START, asyncio.get_running_loop().time)
        elector = Elector(leases, NAME, "one", one.leadership, clock, changed=lambda: None, may_have_led=may_have_led)
        for _ in range(10):
            await elector.step()
        return asked, leases.asked.count("create")

    assert live(scenario) == ([NAME], 10)


def test_a_replica_that_starts_while_the_lease_is_deleted_leaves_it_to_its_holder():
    """The holder renews every 2 s. At second 20.5 the Lease is deleted, and the other replica starts at once."""

    async def scenario():
        leases = ModelLeases()
        one, two = Replica(leases, "one"), Replica(leases, "two")
        tasks = [asyncio.create_task(one.elector.run())]
        await until(20.5)
        leases.lease = None
        tasks.append(asyncio.create_task(two.elector.run()))
        await until(20.6)
        between = leases.lease.spec
        both = False
        for tenth in range(400):
            await until(20.6 + tenth / 10)
            both |= one.may_write and two.may_write
        for task in tasks:
            task.cancel()
        return between, both, one.terms, leases.lease.spec.holder

    between, both, terms, holder = live(scenario)

    assert (between.holder, between.lease_duration_seconds) == (UNKNOWN, 15)
    assert not both
    assert [number for _, number in terms] == [1]
    assert holder == "one"


def test_it_says_who_holds_a_lease_that_is_not_renewed_and_when_it_is_taken(caplog):
    async def scenario():
        leases = ModelLeases()
        leases.put(None, LeaseSpec("gone", LONGEST))
        one = Replica(leases, "one")
        task = asyncio.create_task(one.elector.run())
        await until(9)
        early = one.leadership.free_in()
        await until(40)
        task.cancel()
        return early, one.leadership.free_in()

    with caplog.at_level(logging.WARNING):
        early, late = live(scenario)

    assert early is None  # a holder may miss renewals for 10 s
    assert late == pytest.approx(60 - 40, abs=0.1)
    (line,) = caplog.messages
    assert re.fullmatch(
        r"Lease cronhpa-system/cronhpa: gone, which holds it for 2147483647 s, has not renewed it for 10 s:"
        r" this replica takes it in (49|50) s",
        line,
    )


@pytest.mark.parametrize("is_first_look", [True, False])
def test_it_says_why_it_waits_where_there_is_no_lease_and_when_it_is_taken(is_first_look, caplog):
    """At the first look nobody knows whether there ever was one."""

    async def scenario():
        leases = ModelLeases()
        leases.version = 1  # objects name the Lease, or none
        if not is_first_look:
            leases.put(None, LeaseSpec("gone", 15))
        one = Replica(leases, "one")
        await one.elector.step()
        if not is_first_look:
            leases.lease = None
        # For longer than a holder may miss renewals: of one that nobody knows no second line tells.
        task = asyncio.create_task(one.elector.run())
        await until(14)
        task.cancel()

    with caplog.at_level(logging.WARNING):
        live(scenario)

    (line,) = caplog.messages
    assert line.startswith("Lease cronhpa-system/cronhpa: ")
    assert line.endswith(": a replica takes it in 15 s")
    assert ("there is none, and objects may name it or no Lease yet" in line) is is_first_look
    assert (": somebody deleted it" in line) is not is_first_look


def test_transitions_stop_at_what_the_field_holds():
    async def scenario():
        leases = ModelLeases()
        leases.put(None, LeaseSpec("", lease_transitions=2**31 - 1))
        leases.lease = Lease(leases.lease.metadata, LeaseSpec("gone", 1, lease_transitions=2**31 - 1))
        one = Replica(leases, "one")
        task = asyncio.create_task(one.elector.run())
        await until(10)
        task.cancel()
        return one.leadership.term, leases.lease.spec.lease_transitions

    assert live(scenario) == (1, 2**31 - 1)
