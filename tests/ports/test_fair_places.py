"""cronhpa.ports.fair_places: places and turns are shared out by key, whatever one key asks for."""

import asyncio

import pytest
from virtual_time import live

from cronhpa.ports.fair_places import FairPace, FairPlaces
from cronhpa.ports.token_bucket import Pace


async def use(places, key, seconds, log=None, wait_seconds=None):
    """Has a place for these seconds; returns how long it waited for it."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    async with places.place(key, wait_seconds):
        waited = clock() - begun
        if log is not None:
            log.append(key)
        await asyncio.sleep(seconds)
    return waited


def begin(places, key, seconds, count=1, log=None):
    return [asyncio.create_task(use(places, key, seconds, log)) for _ in range(count)]


async def end(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_free_place_goes_to_the_key_that_has_fewest():
    """`a` has all four places, which end one after the other. Two go to `b`; then each has two."""

    async def scenario():
        places, log = FairPlaces(4), []
        tasks = [task for seconds in (5, 6, 7, 8) for task in begin(places, "a", seconds, 1, log)]
        tasks += begin(places, "a", 90, 9, log)
        await asyncio.sleep(1)
        tasks += begin(places, "b", 90, 9, log)
        await asyncio.sleep(9)
        order = "".join(log)
        await end(tasks)
        return order

    assert "aaaa" + "bbaa" == live(scenario)


def test_keys_with_equally_many_places_take_turns_however_many_requests_each_has():
    """The second request of `a` comes before the others do."""

    async def scenario():
        places, log = FairPlaces(1), []
        tasks = begin(places, "a", 1, 4, log)
        await asyncio.sleep(0)
        tasks += [*begin(places, "b", 1, 2, log), *begin(places, "c", 1, 1, log)]
        await asyncio.gather(*tasks)
        return "".join(log)

    assert "a" + "abc" + "ab" + "a" == live(scenario)


def test_a_key_alone_has_its_share_and_another_finds_a_place_at_once():
    async def scenario():
        places, log = FairPlaces(4, of_one=3), []
        tasks = begin(places, "a", 5, 10, log)
        await asyncio.sleep(1)
        had = len(log)
        waited = await use(places, "b", 0)
        await end(tasks)
        return had, waited

    had, waited = live(scenario)
    assert (3, pytest.approx(0, abs=0.01)) == (had, waited)


def test_any_number_of_keys_that_hang_leave_places_for_those_that_are_answered():
    """
    A hundred keys hang for 5 s each, over and over. Each hangs once before it is known: 100 / 4 times 5 s. From then on
    they have three of the four places together.
    """

    async def scenario():
        places = FairPlaces(4, of_one=3, slow_seconds=1)

        async def hang(key):
            while True:
                await use(places, key, 5)

        tasks = [asyncio.create_task(hang(f"slow-{number}")) for number in range(100)]
        await asyncio.sleep(130)
        waits = []
        for _ in range(30):
            waits.append(await use(places, "fast", 0.1))
            await asyncio.sleep(0.9)
        await end(tasks)
        return waits

    assert pytest.approx(0, abs=0.01) == max(live(scenario))


def test_a_new_key_waits_for_one_place_at_most_while_keys_that_are_not_known_yet_hang():
    async def scenario():
        places = FairPlaces(4, of_one=3, slow_seconds=1)
        tasks = [*begin(places, "a", 5, 9), *begin(places, "b", 5, 9)]
        await asyncio.sleep(0.5)
        waited = await use(places, "c", 0)
        await end(tasks)
        return waited

    assert pytest.approx(4.5, abs=0.01) == live(scenario)


def test_a_slow_key_is_fast_again_after_a_quick_request_a_minute_later():
    """Of four places `b`, which hangs, has three. While `a` is slow, too, none is left for it."""

    async def scenario():
        slow: BaseException
        places = FairPlaces(4, of_one=3, slow_seconds=1)
        await asyncio.gather(use(places, "a", 2), use(places, "b", 2))
        hanging = begin(places, "b", 90, 3)
        await asyncio.sleep(30)
        [slow] = await asyncio.gather(use(places, "a", 0, wait_seconds=5), return_exceptions=True)
        await end(hanging)
        await asyncio.sleep(60)
        await use(places, "a", 0)
        hanging = begin(places, "b", 90, 3)
        await asyncio.sleep(0)
        fast = await use(places, "a", 0, wait_seconds=5)
        await end(hanging)
        return type(slow), fast

    slow, fast = live(scenario)
    assert (TimeoutError, pytest.approx(0, abs=0.01)) == (slow, fast)


def test_whoever_waits_too_long_or_is_cancelled_takes_no_place():
    async def scenario():
        places, log = FairPlaces(1), []
        (holder,) = begin(places, "a", 3, 1, log)
        await asyncio.sleep(0)
        (gone,) = begin(places, "b", 1, 1, log)
        late = asyncio.create_task(use(places, "c", 1, log, wait_seconds=2))
        await asyncio.sleep(1)
        gone.cancel()
        with pytest.raises(TimeoutError):
            await late
        left = [places.waiting(key) for key in "bc"]
        await holder
        waited = await use(places, "d", 1, log)
        return log, left, waited

    log, left, waited = live(scenario)
    assert (["a", "d"], [0, 0], pytest.approx(0, abs=0.01)) == (log, left, waited)


def test_a_place_that_is_granted_to_a_task_cancelled_in_the_same_moment_is_given_on():
    async def scenario():
        places, log = FairPlaces(1), []
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def hold():
            async with places.place("a"):
                begun.set()
                await go_on.wait()
            gone.cancel()  # it has the place, and has not gone on yet

        holder = asyncio.create_task(hold())
        await begun.wait()
        (gone,) = begin(places, "b", 1, 1, log)
        waiting = begin(places, "c", 1, 1, log)
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(holder, gone, *waiting, return_exceptions=True)
        return log

    assert ["c"] == live(scenario)


def test_turns_of_a_pace_are_shared_out_by_key():
    """`a` wants a hundred turns, `b` three: at ten a second `b` has every other one, its third after 0.6 s."""

    async def scenario():
        clock = asyncio.get_running_loop().time
        pace = FairPace(Pace(10, 1))
        ended = {}

        async def turn(key):
            async with pace.turn(key):
                ended[key] = clock()

        tasks = [asyncio.create_task(turn("a")) for _ in range(100)]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(turn("b")) for _ in range(3)]
        await asyncio.gather(*tasks)
        return ended

    ended = live(scenario)
    assert (pytest.approx(10.2, abs=0.01), pytest.approx(0.6, abs=0.11)) == (ended["a"], ended["b"])
