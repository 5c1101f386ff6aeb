"""cronhpa.history.past.waiting: what waits for the store, within a bound that namespaces share."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from cronhpa.history.past.waiting import Waiting


class One(NamedTuple):
    namespace: str
    size: int
    number: int = 0


def waiting(most, *several):
    kept = Waiting(most, size=lambda one: one.size)
    return kept, [kept.add(one) for one in several]


def test_the_namespace_with_the_most_bytes_gives_way_not_the_one_with_the_most_entries():
    """Of 10 + 3 * 2 there is no room for one of 2 if 16 may wait."""
    small = [One("prod", 2, number) for number in range(4)]

    kept, gone = waiting(16, One("tenant", 10), *small)

    assert ([0, 0, 0, 0, 1], small) == (gone, list(kept))


def test_what_is_put_back_comes_first_and_gives_way_first():
    kept, _ = waiting(4, *(One("prod", 1, number) for number in range(4)))
    taken = kept.take(2)
    kept.add(One("prod", 1, 4))

    assert 1 == kept.put_back(taken)
    assert [1, 2, 3, 4] == [one.number for one in kept]


def test_what_is_larger_than_the_bound_does_not_wait():
    kept, gone = waiting(4, One("prod", 3), One("tenant", 5), One("prod", 1, 1))

    assert ([0, 1, 0], [One("prod", 3), One("prod", 1, 1)]) == (gone, list(kept))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.sampled_from(["add", "take", "store"]))))
def test_whatever_comes_and_goes_none_is_lost_uncounted_and_the_bound_holds(steps):
    """What is stored was read before the entry of its step came, as by a write that takes its time."""
    kept, gone, done = waiting(12)[0], 0, 0
    for number, (namespace, size, then) in enumerate(steps):
        batch = list(kept)[:2]
        gone += kept.add(One(namespace, size, number))
        if then == "take":
            done += len(kept.take(1))
        elif then == "store":
            before = len(list(kept))
            kept.are_stored(batch)
            done += before - len(list(kept))
            assert not set(batch) & set(kept)
        assert sum(one.size for one in kept) <= 12
        assert len(list(kept)) == number + 1 - gone - done
        for of in "abc":
            numbers = [one.number for one in kept if one.namespace == of]
            assert numbers == sorted(numbers)
