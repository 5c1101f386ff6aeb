"""What forecasts spent, hour by hour."""

from msgspec.structs import replace

from cronhpa.core.model.instant import DAY, HOUR, MINUTE
from cronhpa.history.load.spend import Spend
from history.samples import API, NOON, WEB, sample


def test_spend_adds_up_within_an_hour_and_is_kept_for_eight_days(store):
    hour = NOON // HOUR
    store.loads.record([sample(0, 1.0), sample(0, 1.0, API)])

    store.spend.add([Spend(WEB, hour, 60.0, 600.0), Spend(API, hour, 0.0, 5.0)])
    store.spend.add([Spend(WEB, hour, 15.0, 100.0), Spend(WEB, hour + 1, 1.0, 2.0)])

    whole = [Spend(WEB, hour, 75.0, 700.0), Spend(API, hour, 0.0, 5.0), Spend(WEB, hour + 1, 1.0, 2.0)]
    assert whole == store.spend.since(NOON)
    assert [(76.0, 702.0), (0.0, 5.0)] == [store.spend.total(series, NOON, NOON + DAY) for series in (WEB, API)]
    assert [(1.0, 2.0), (0.0, 0.0)] == [
        store.spend.total(WEB, at, NOON + 2 * DAY) for at in (NOON + MINUTE, NOON + DAY)
    ]
    assert [(75.0, 700.0), (0.0, 0.0)] == [store.spend.total(WEB, NOON, until) for until in (NOON + HOUR, NOON)]
    assert whole[2:] == store.spend.since(NOON + MINUTE)
    store.compact(NOON + 8 * DAY)
    assert whole == store.spend.since(0)
    store.compact(NOON + 8 * DAY + HOUR)
    assert whole[2:] == store.spend.since(0)


def test_the_spend_of_some_series_is_what_is_told_of_all(store):
    hour = NOON // HOUR
    of_web = [Spend(WEB, hour + later, 1.0 + later, 10.0) for later in range(3)]
    store.spend.add([*of_web, Spend(API, hour + 1, 7.0, 70.0)])

    assert of_web[:2] == store.spend.of([WEB], NOON, NOON + 2 * HOUR)
    assert store.spend.since(NOON) == store.spend.of([WEB, API], NOON, NOON + DAY)
    assert [] == store.spend.of([replace(WEB, name="unknown")], NOON, NOON + DAY) == store.spend.of([WEB], NOON, NOON)
