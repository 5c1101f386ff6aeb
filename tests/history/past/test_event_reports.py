"""cronhpa.history.past.event_reports: the numbers of a sale for the next one, a year later."""

from contextlib import closing

import pytest

from cronhpa.core.model.instant import DAY, HOUR
from cronhpa.history.past.event_reports import REPORTS_OF_EVENT, EventReports, PastReport
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


def test_an_event_that_opens_each_hour_displaces_its_own_reports_alone(store):
    hourly = [report(NOON + hour * HOUR, name="hourly") for hour in range(REPORTS_OF_EVENT + 5)]
    store.reports.record([report(NOON - DAY), *hourly])

    store.compact(NOON)

    assert [*reversed(hourly[5:]), report(NOON - DAY)] == store.reports.newest()


def test_all_reports_together_are_bounded(store):
    few = EventReports(store.database, reports_max=3)
    few.record(report(NOON + hour * HOUR, name=f"e{hour}") for hour in range(5))

    store.database.write(lambda db: few.compact(db, NOON))

    assert ["e4", "e3", "e2"] == [one.name for one in few.newest()]
