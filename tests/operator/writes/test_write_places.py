"""
cronhpa.operator.writes.write_places: the most urgent first, over all namespaces, and never more than there are places.
"""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import live

from cronhpa.operator.writes.write_places import Urgency, WritePlaces

UP, DOWN, REPORT = Urgency.SCALE_UP, Urgency.SCALE_DOWN, Urgency.STATUS


def order_of(writes, *, total=1, in_namespace=1, cancelled=()):
    """
    The order in which writes (namespace, urgency) get their places, a second each, and the most that had one at once.

    The first ones take what is free. cancelled: numbers of those that give up after half a second.
    """

    async def scenario():
        places, order, under_way, most = WritePlaces(total, in_namespace), [], [], 0

        async def write(number, namespace, urgency):
            nonlocal most
            async with places.place(namespace, urgency):
                order.append(number)
                under_way.append(namespace)
                most = max(most, len(under_way))
                assert under_way.count(namespace) <= in_namespace
                try:
                    await asyncio.sleep(1)
                finally:
                    under_way.remove(namespace)

        tasks = [asyncio.create_task(write(number, *one)) for number, one in enumerate(writes)]
        await asyncio.sleep(0.5)
        for number in cancelled:
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return order, most

    return live(scenario)


def test_scalings_overtake_the_reports_of_every_namespace():
    """10,000 reports of a window that opened kept the scale-downs of the same edge waiting for a minute."""
    writes = [("a", REPORT), ("a", REPORT), ("b", REPORT), ("b", DOWN), ("c", DOWN), ("c", UP)]

    order, _ = order_of(writes)

    assert [0, 5, 3, 4, 1, 2] == order


def test_places_are_busy_for_a_second_after_a_scaling():
    async def scenario():
        places, seen = WritePlaces(), []
        for urgency, seconds in ((REPORT, 0.0), (DOWN, 0.9), (REPORT, 0.2)):
            async with places.place("a", urgency):
                await asyncio.sleep(seconds)
            seen.append(places.is_busy)
        return seen

    assert [False, True, False] == live(scenario)


def test_a_full_namespace_leaves_its_turn_to_the_others():
    """Both places of `a` are taken: its third scale-up waits, and the report of `b` goes first."""
    order, most = order_of([("a", UP), ("a", UP), ("a", UP), ("b", REPORT)], total=4, in_namespace=2)

    assert [0, 1, 3, 2] == order
    assert 3 == most


def test_who_gives_up_waiting_takes_no_place():
    order, _ = order_of([("a", UP), ("a", UP), ("b", DOWN), ("a", REPORT)], cancelled=[1])

    assert [0, 2, 3] == order


def test_who_gives_up_while_writing_gives_the_place_back():
    order, _ = order_of([("a", UP), ("b", DOWN)], cancelled=[0])

    assert [0, 1] == order


def reports_beside(scalings, namespaces, seconds):
    """
    The most reports under way beside scale writes, and the time at which the last of 40 reports is done.

    A scale write each 0.1 s for so many seconds. A report takes 0.5 s; their namespaces take turns.
    """

    async def scenario():
        places, under_way, most = WritePlaces(), 0, 0
        loop = asyncio.get_running_loop()

        async def report(number):
            nonlocal under_way, most
            async with places.place(f"team-{number % namespaces}", REPORT):
                under_way += 1
                if loop.time() < seconds:
                    most = max(most, under_way)
                await asyncio.sleep(0.5)
                under_way -= 1

        async def scale():
            while scalings and loop.time() < seconds:
                async with places.place("busy", UP):
                    await asyncio.sleep(0.1)

        scaling = asyncio.create_task(scale())
        await asyncio.sleep(0.01)
        await asyncio.gather(*(report(number) for number in range(40)))
        await scaling
        return most, loop.time()

    return live(scenario)


@pytest.mark.parametrize(("namespaces", "beside"), [(10, 8), (1, 2)], ids=["of many namespaces", "of one"])
def test_reports_take_few_places_while_somebody_is_scaled(namespaces, beside):
    """Found: of 200 objects the last ones were scaled after 7 s, as statuses of the first stood before them."""
    most, _ = reports_beside(scalings=True, namespaces=namespaces, seconds=2)

    assert beside == most


def test_reports_take_all_places_a_second_after_the_last_scale_write():
    """8 at a time until 3 s: 6 x 8 = 48 by then; without scale writes 40 of ten namespaces at once."""
    _, end = reports_beside(scalings=True, namespaces=10, seconds=0.2)
    _, undisturbed = reports_beside(scalings=False, namespaces=10, seconds=0)

    assert 0.5 <= undisturbed < 0.6
    # The last scale write began at 0.1 s. Until 1.1 s 8 at 0.01, 0.51 and 1.01 s; the other 16 at 1.1 s.
    assert 1.6 <= end < 1.7


def test_a_scale_write_that_hangs_holds_reports_back_for_a_second():
    async def scenario():
        places, loop = WritePlaces(), asyncio.get_running_loop()

        async def hang():
            async with places.place("a", UP):
                await asyncio.sleep(60)

        hanging = asyncio.create_task(hang())
        await asyncio.sleep(0)

        async def report():
            async with places.place("b", REPORT):
                await asyncio.sleep(0.4)

        await asyncio.gather(*(report() for _ in range(16)))
        hanging.cancel()
        return loop.time()

    # 2 at 0, 0.4 and 0.8 s, the other ten at 1 s.
    assert 1.4 <= live(scenario) < 1.5


def test_reports_of_steps_that_never_end_let_the_other_reports_through():
    """
    Found: two reports of a namespace at a time, 0.1 s each, are 20 a second; 30 a second of steps came before all
    others. A status without a step was never written, and after three minutes the liveness probe ended the process.

    All 16 places of the namespace carry 30 scale writes and 30 reports of 0.1 s a second: that takes six.
    """

    async def scenario():
        places, loop, steps = WritePlaces(), asyncio.get_running_loop(), set()
        written_at = longest = 0.0

        async def step():
            nonlocal longest
            async with places.place("a", UP):
                await asyncio.sleep(0.1)
            began = loop.time()
            async with places.place("a", Urgency.SCALED_STATUS):
                await asyncio.sleep(0.1)
            longest = max(longest, loop.time() - began)

        async def report():
            nonlocal written_at
            async with places.place("a", REPORT):
                await asyncio.sleep(0.1)
            written_at = loop.time()

        for number in range(60 * 30):
            steps.add(asyncio.create_task(step()))
            if number == 30:
                steps.add(asyncio.create_task(report()))
            await asyncio.sleep(1 / 30)
        return written_at or loop.time(), longest

    written_at, longest = live(scenario)

    assert written_at < 15
    assert longest < 15


def test_a_thousand_reports_that_wait_cost_what_a_thousand_cost():
    """Found: each further one looked at all before it, 4,500,000 entries for 3,000 reports: seven seconds of CPU."""

    async def scenario():
        places = WritePlaces()

        async def write(namespace, urgency):
            async with places.place(namespace, urgency):
                await asyncio.sleep(0.01)

        await write("b", UP)
        begun = time.process_time()
        await asyncio.gather(*(write("a", REPORT) for _ in range(3000)))
        return time.process_time() - begun

    assert live(scenario) < 2


writes = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([UP, DOWN, REPORT])), max_size=30)


@given(writes, st.integers(1, 5), st.integers(1, 3), st.data())
def test_everybody_gets_a_place_and_nobody_more_than_there_are(writes, total, in_namespace, data):
    cancelled = data.draw(st.sets(st.integers(0, len(writes) - 1)) if writes else st.just(set()))

    order, most = order_of(writes, total=total, in_namespace=in_namespace, cancelled=cancelled)

    assert most <= total
    assert set(range(len(writes))) - cancelled <= set(order)
    assert len(order) == len(set(order))


async def test_only_a_write_that_waits_is_told_so():
    places, waits = WritePlaces(1, 1), []

    async def write(name):
        async with places.place("shop", UP, lambda: waits.append(name)):
            await asyncio.sleep(0.01)

    await asyncio.gather(write("first"), write("second"), write("third"))

    assert ["second", "third"] == waits


async def test_a_write_that_fails_before_its_wait_leaves_its_place_to_others():
    places, goes_on = WritePlaces(1, 1), asyncio.Event()

    async def holds():
        async with places.place("shop", UP):
            await goes_on.wait()

    def fails():
        raise ValueError("a status that cannot be packed")

    holding = asyncio.create_task(holds())
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="cannot be packed"):
        async with places.place("shop", REPORT, fails):
            pass
    goes_on.set()
    await holding

    async with asyncio.timeout(60), places.place("shop", REPORT):
        pass
