"""cronhpa.history.past.event_reports: the numbers of a sale for the next one, a year later."""

from contextlib import closing

import pytest

from cronhpa.core.model.instant import DAY, HOUR, parse_instant
from cronhpa.history.past.event_reports import REPORTS_OF_EVENT, EventReports, PastReport, WaitingReports
from cronhpa.history.store import Store
from history.samples import NOON


@pytest.fixture
def store(address):
    with closing(Store(address)) as opened:
        yield opened


def report(opened, peak=4, name="sale", namespace="prod"):
    return PastReport(namespace, name, opened, {"reason": "Black Friday", "peakPods": peak})


def test_the_reports_of_last_year_are_kept_and_those_of_three_years_ago_are_not(store):
    old, last, today = (report(NOON - years * 365 * DAY) for years in (3, 1, 0))
    assert store.reports.record([old, last, today]) is None

    store.compact(NOON)

    assert [today, last] == store.reports.newest()


def test_a_report_that_is_written_again_replaces_the_former_one(store):
    """As after a suspension within the window; the same name in another namespace, or of the cluster, is another."""
    others = [report(NOON, namespace=""), report(NOON, namespace="other")]
    store.reports.record([report(NOON, peak=4), *others])

    store.reports.record([report(NOON, peak=9)])

    assert [*others, report(NOON, peak=9)] == store.reports.newest()


@pytest.mark.parametrize(("window_from", "kept_as"), [("1600-01-01T00:00:00Z", 0), ("9998-12-31T00:00:00Z", 2**63 - 1)])
def test_a_report_of_any_year_is_kept_and_costs_no_other_one(store, window_from, kept_as):
    """
    Found: a tenant's window `from: 1600-01-01T00:00` is -11,676,096,000 s, -1.17e19 ns, and an integer of a database
    has 64 bits: 9.22e18. The report waited on, and with each flush the store of all was closed for a minute.
    """
    old = report(parse_instant(window_from))

    assert store.reports.record([report(NOON), old, report(NOON + HOUR)]) is None

    assert {kept_as, NOON, NOON + HOUR} == {one.opened for one in store.reports.newest()}


def test_an_event_that_opens_each_hour_displaces_its_own_reports_alone(store):
    hourly = [report(NOON + hour * HOUR, name="hourly") for hour in range(REPORTS_OF_EVENT + 5)]
    store.reports.record([report(NOON - DAY), *hourly])

    store.compact(NOON)

    assert [*reversed(hourly[5:]), report(NOON - DAY)] == store.reports.newest()


def test_many_reports_of_a_tenant_displace_none_of_others(store):
    """Of ten that are kept in all the other two namespaces have three, however old; the tenant has its seven newest."""
    few = EventReports(store.database, reports_max=10)
    others = [report(NOON - days * DAY, namespace=name) for days, name in ((30, "prod"), (29, "prod"), (28, ""))]
    few.record([*others, *(report(NOON + hour * HOUR, name=f"e{hour}", namespace="evil") for hour in range(20))])

    store.database.write(lambda db: few.compact(db, NOON))

    assert [*(f"e{hour}" for hour in range(19, 12, -1)), *["sale"] * 3] == [one.name for one in few.newest()]


def test_of_more_reports_than_may_wait_the_oldest_of_the_crowded_namespace_go():
    waiting = WaitingReports(most=4)
    waiting.add(report(NOON))
    for hour in range(6):
        waiting.add(report(NOON + hour * HOUR, name=f"e{hour}", namespace="evil"))

    assert ["sale", "e3", "e4", "e5"] == [one.name for one in waiting]


def test_a_report_that_came_while_others_were_stored_waits_on():
    """Meanwhile one that was being stored gave way."""
    waiting = WaitingReports(most=2)
    for hour in range(2):
        waiting.add(report(NOON + hour * HOUR, name=f"e{hour}"))
    batch = list(waiting)
    waiting.add(report(NOON, name="e2"))

    waiting.are_stored(batch)

    assert ["e2"] == [one.name for one in waiting]


def test_all_reports_together_are_bounded(store):
    few = EventReports(store.database, reports_max=3)
    few.record(report(NOON + hour * HOUR, name=f"e{hour}") for hour in range(5))

    store.database.write(lambda db: few.compact(db, NOON))

    assert ["e4", "e3", "e2"] == [one.name for one in few.newest()]


def test_of_many_windows_of_one_instant_as_many_are_kept_as_of_others(store):
    few = EventReports(store.database, reports_max=3)
    few.record(report(NOON, name=f"e{number}") for number in range(5))

    store.database.write(lambda db: few.compact(db, NOON))

    assert 3 == len(few.newest())
