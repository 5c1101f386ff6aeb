"""cronhpa.operator.write_places: the most urgent first, over all namespaces, and never more than there are places."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from virtual_time import live

from cronhpa.operator.write_places import WritePlaces

UP, DOWN, REPORT = range(3)


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


writes = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([UP, DOWN, REPORT])), max_size=30)


@given(writes, st.integers(1, 5), st.integers(1, 3), st.data())
def test_everybody_gets_a_place_and_nobody_more_than_there_are(writes, total, in_namespace, data):
    cancelled = data.draw(st.sets(st.integers(0, len(writes) - 1)) if writes else st.just(set()))

    order, most = order_of(writes, total=total, in_namespace=in_namespace, cancelled=cancelled)

    assert most <= total
    assert set(range(len(writes))) - cancelled <= set(order)
    assert len(order) == len(set(order))
