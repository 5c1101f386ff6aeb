"""All parts of the store together: what it keeps, and what it forgets."""

import sqlite3
from contextlib import closing

from cronhpa.core.model.instant import DAY, HOUR
from cronhpa.history.database.series import STEP, LoadSample
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.load.spend import Spend
from cronhpa.history.past.event_reports import PastReport
from cronhpa.history.store import Store
from history.samples import API, NOON, WEB, everything, forecast, sample


def test_nothing_is_known_of_a_series_never_recorded(store):
    assert [] == everything(store)
    assert [] == store.loads.minutes(WEB, 0, 2**63)
    assert [] == store.fits.newest([WEB])
    assert {} == store.forecasts.newest()


def test_what_was_recorded_is_there_after_closing_and_opening(address):
    first = Store(address)
    first.loads.record([sample(0, 0.1)])
    first.close()

    with closing(Store(address)) as again:
        assert [(NOON, 0.1)] == everything(again)


def test_a_series_of_which_nothing_is_left_is_forgotten_with_its_fit_and_forecasts(store):
    store.loads.record([sample(0, 1.0), LoadSample(API, NOON + 40 * DAY, 1.0)])
    store.fits.save(Fit("m", NOON, NOON, b"state"), {WEB: FitInfo(NOON)})
    store.spend.add([Spend(WEB, NOON // HOUR, 1.0, 1.0)])
    store.forecasts.save([(WEB, forecast(NOON + 40 * DAY))])
    store.loads.note_backfill(WEB, NOON)

    store.compact(NOON + 40 * DAY)

    assert [API] == store.loads.series()
    assert [] == store.fits.newest([WEB])
    assert ({}, {}, []) == (store.forecasts.newest(), store.fits.infos(), store.spend.since(0))
    assert store.loads.backfilled_until(WEB) is None
    assert {WEB: []} == store.forecasts.issued_quantiles([WEB], NOON + 40 * DAY, NOON + 41 * DAY)


def test_a_forgotten_series_that_comes_back_begins_empty(store):
    store.loads.record([sample(0, 1.0), LoadSample(API, NOON + 40 * DAY, 1.0)])
    store.compact(NOON + 40 * DAY)

    store.loads.record([LoadSample(WEB, NOON + 40 * DAY, 5.0)])

    assert [(NOON + 40 * DAY, 5.0)] == everything(store)
    assert [(NOON + 40 * DAY, 1.0)] == everything(store, API)


def pages(path):
    reader = sqlite3.connect(path)
    (count,) = reader.execute("PRAGMA page_count").fetchone()
    reader.close()
    return count


def test_the_file_stops_growing_at_what_28_days_need(file_store):
    """Sixty days, compacted twice a day: the last twenty reuse the space that earlier days left."""
    sizes = []
    for half in range(120):
        start = NOON + half * DAY // 2
        file_store.loads.record([LoadSample(WEB, start + i * STEP, 1.0) for i in range(144)])
        file_store.compact(start + DAY // 2)
        sizes.append(pages(file_store.address))

    assert sizes[80] == sizes[-1]
    # 29 days of 1153 bytes, three to a page of 4096 bytes, and a few dozen pages of everything else.
    assert sizes[-1] <= 10 + 40


def test_a_clock_that_is_ahead_by_years_forgets_no_more_than_the_oldest_day(store):
    """Found: one compaction by a wrong clock, of one of several replicas, forgot four weeks of all objects."""
    store.loads.record([LoadSample(WEB, NOON + day * DAY, 1.0) for day in range(28)])
    store.spend.add([Spend(WEB, NOON // HOUR + hour, 1.0, 1.0) for hour in range(7 * 24)])
    store.reports.record([PastReport("prod", "sale", NOON + day * DAY, {}) for day in (0, 14)])
    assert store.compact(NOON + 27 * DAY) is None

    assert store.compact(NOON + 3000 * DAY) is None

    assert [NOON + day * DAY for day in range(1, 28)] == [at for at, _ in everything(store)]
    assert [NOON + 14 * DAY] == [past.opened for past in store.reports.newest()]
    assert len(store.spend.since(0)) == 5 * 24
