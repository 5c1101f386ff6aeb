"""The ids of series, when another process forgets a series that this one still writes."""

import pytest

from cronhpa.core.model.instant import DAY, MINUTE
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.history.store import Store
from history.samples import API, NOON, WEB, everything

LATER = NOON + 40 * DAY


@pytest.fixture
def other(store):
    """Another process's connection to the same file."""
    opened = Store(store.address)
    yield opened
    opened.close()


def test_a_series_that_another_process_forgot_is_recorded_under_its_name_again(store, other):
    """Otherwise its loads have an id without a name, and no other process sees them."""
    store.loads.record([LoadSample(WEB, NOON, 1.0)])
    other.compact(LATER)

    store.loads.record([LoadSample(WEB, LATER, 5.0)])

    assert [(LATER, 5.0)] == everything(other)
    assert [WEB] == other.loads.series()


def test_a_series_that_another_process_forgot_and_made_anew_is_read_as_the_new_one(store, other):
    store.loads.record([LoadSample(WEB, NOON, 1.0)])
    other.compact(LATER)
    other.loads.record([LoadSample(WEB, LATER, 7.0)])

    assert [(LATER, 7.0)] == everything(store)
    store.loads.record([LoadSample(WEB, LATER + MINUTE, 8.0)])
    assert [(LATER, 8.0)] == everything(other)


def test_as_many_series_may_come_as_were_forgotten(store, other):
    """The number of series is the same before and after, their largest id is not."""
    store.loads.record([LoadSample(WEB, NOON, 1.0)])
    other.compact(LATER)
    other.loads.record([LoadSample(API, LATER, 2.0)])

    store.loads.record([LoadSample(WEB, LATER, 5.0)])

    assert [(LATER, 5.0)] == everything(other)
    assert [(LATER, 2.0)] == everything(store, API)


def test_the_loads_of_more_series_than_a_statement_asks_for_are_read_each_under_its_name(store, other):
    """Another process asks for 1,001, in three statements; of these the store has every second one."""
    series = [Series("shop", f"app-{number}", "cpu") for number in range(1001)]
    store.loads.record([LoadSample(member, NOON, float(place)) for place, member in enumerate(series) if place % 2])

    loads = other.loads.packed(series, NOON, NOON + MINUTE)

    assert series[1::2] == loads.series
    assert [tuple(float(place) for place in range(1, 1001, 2))] == loads.minutes.highs


def test_series_that_another_process_adds_leave_the_others_theirs(store, other):
    store.loads.record([LoadSample(WEB, NOON, 1.0)])
    other.loads.record([LoadSample(API, NOON, 2.0)])

    store.loads.record([LoadSample(WEB, NOON, 3.0), LoadSample(API, NOON, 4.0)])

    assert ([(NOON, 3.0)], [(NOON, 4.0)]) == (everything(other), everything(other, API))
