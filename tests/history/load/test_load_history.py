"""Maxima of steps and minutes, their gaps, and the days that they are packed into."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.history.database.series import STEP, Coverage, LoadSample, RecordedBatch, Series
from cronhpa.history.load.load_history import NO_ROW, LoadHistory
from cronhpa.history.store import Store
from history.samples import API, NOON, WEB, everything, sample


def test_of_many_samples_the_largest_of_each_five_minutes_is_kept(store):
    store.loads.record([sample(0, 1.0), sample(299, 3.0), sample(60, 2.0), sample(300, 0.5)])

    assert [(NOON, 3.0), (NOON + STEP, 0.5)] == everything(store)


def test_of_many_samples_the_largest_of_each_minute_is_kept(store):
    store.loads.record([sample(0, 1.0), sample(59, 3.0), sample(45, 2.0), sample(60, 0.5)])

    assert [(NOON, 3.0), (NOON + MINUTE, 0.5)] == store.loads.minutes(WEB, NOON, NOON + HOUR)


def test_a_smaller_value_later_does_not_lower_a_maximum(store):
    store.loads.record([sample(0, 3.0)])
    store.loads.record([sample(15, 1.0)])

    assert [(NOON, 3.0)] == everything(store)


def test_a_gap_stays_a_gap(store):
    store.loads.record([sample(0, 1.0), sample(1200, 2.0)])

    assert [(NOON, 1.0), (NOON + 4 * STEP, 2.0)] == everything(store)


def test_namespace_name_and_metric_identify_a_series(store):
    others = [API, Series("other", "web", "cpu"), Series("shop", "web", "memory")]

    store.loads.record([sample(0, 1.0), *(sample(0, 9.0, other) for other in others)])

    assert [(NOON, 1.0)] == everything(store)
    assert sorted([WEB, *others]) == store.loads.series()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.001, 3.5e38])
def test_a_sample_that_is_no_load_is_refused_and_the_rest_of_the_batch_kept(store, value):
    outcome = store.loads.record([sample(0, value), sample(0, 1.0, API)])

    assert 1 == outcome.samples
    assert [WEB] == [refused.series for refused in outcome.refused]
    assert [] == everything(store)
    assert [(NOON, 1.0)] == everything(store, API)


@pytest.mark.parametrize("at", [-1, 2**63])
def test_an_instant_that_cannot_be_counted_is_refused(store, at):
    assert RecordedBatch(0, (LoadSample(WEB, at, 1.0),)) == store.loads.record([LoadSample(WEB, at, 1.0)])


def test_reading_gives_the_steps_that_start_in_the_span(store):
    store.loads.record([sample(0, 1.0), sample(300, 2.0), sample(600, 3.0)])

    assert [(NOON + STEP, 2.0)] == store.loads.steps(WEB, NOON + 1, NOON + 2 * STEP)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 3 * 86_400), st.floats(0, 2**40, width=32)),
        st.just("compact"),
        st.lists(st.tuples(st.integers(0, 3 * 86_400), st.floats(0, 2**40, width=32)), min_size=1, max_size=4),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(moves=MOVES)
def test_recording_backfilling_and_compacting_in_any_order_keep_every_maximum(tmp_path_factory, moves):
    assert_every_maximum_is_kept(Store(tmp_path_factory.mktemp("store") / "history.db"), moves)


@settings(max_examples=15, deadline=None)
@given(moves=MOVES)
def test_a_postgresql_keeps_every_maximum_in_any_order_too(new_schema, moves):
    assert_every_maximum_is_kept(Store(new_schema()), moves)


def assert_every_maximum_is_kept(store, moves):
    expected, by_minute = {}, {}
    for move in moves:
        if move == "compact":
            assert store.compact(NOON + 3 * DAY) is None
            continue
        samples = [move] if isinstance(move, tuple) else move
        for seconds, value in samples:
            start = NOON + seconds * SECOND // STEP * STEP
            expected[start] = max(value, expected.get(start, 0.0))
            minute = NOON + seconds * SECOND // MINUTE * MINUTE
            by_minute[minute] = max(value, by_minute.get(minute, 0.0))
        if isinstance(move, tuple):
            store.loads.record([sample(*move)])
        else:
            store.loads.backfill(WEB, [(NOON + seconds * SECOND, value) for seconds, value in move])

    assert sorted(expected.items()) == everything(store)
    minutes = store.loads.minutes(WEB, 0, 2**63)
    assert sorted(by_minute) == [start for start, _ in minutes]
    for start, high in minutes:
        # Rounded to a 255th of its step, once more with each time that the step rises.
        assert abs(high - by_minute[start]) <= expected[start - start % STEP] * (len(moves) + 1) / 255
    store.close()


def test_minutes_are_the_same_before_and_after_they_are_packed(store):
    store.loads.record([sample(60 * minute, load) for minute, load in enumerate([10.0, 2.0, 0.0, 51.0, 25.5, 7.0])])

    before = store.loads.minutes(WEB, NOON, NOON + HOUR)
    store.compact(NOON + 4 * HOUR)

    # 10 of 51 are 50 of 255, 2 are 10; a load of zero is kept as one 255th, as 0 is a gap; 7 is a step of its own.
    assert [10.0, 2.0, 0.0, 51.0, 25.5, 7.0] == [high for _, high in before]
    packed = [high for _, high in store.loads.minutes(WEB, NOON, NOON + HOUR)]
    assert [10.0, 2.0, 0.2, 51.0, 25.6, 7.0] == pytest.approx(packed)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_packed_minutes_are_within_a_255th_of_their_steps_maximum_in_whatever_order_they_came(
    tmp_path_factory, highs, order
):
    """A minute of nothing is no gap: it is written as 1 of 255."""
    store = Store(tmp_path_factory.mktemp("store") / "history.db")
    for minute in order.sample(range(len(highs)), len(highs)):
        store.loads.backfill(WEB, [(NOON + minute * MINUTE, highs[minute])])

    packed = [high for _, high in store.loads.minutes(WEB, NOON, NOON + STEP)]

    store.close()
    # Steps are kept with 24 bits.
    assert pytest.approx(highs, abs=max(highs) / 255 * (1 + 1e-6) + 1e-40) == packed


def test_a_past_of_minutes_is_kept_by_the_minute(store):
    store.loads.backfill(WEB, [(NOON, 1.0), (NOON + 3 * MINUTE, 3.0)])

    assert (NOON, [1.0, pytest.approx(math.nan, nan_ok=True), pytest.approx(math.nan, nan_ok=True), 3.0]) == (
        store.loads.minute_history(WEB, 0, 2**63)[0],
        list(store.loads.minute_history(WEB, 0, 2**63)[1]),
    )


def test_very_many_names_of_a_tenant_take_no_history_of_others(store):
    """
    Found: each name that is seen once is kept for 28 days, in 7.2 kB. Here six series are kept: two of shop, however
    old, and four of the tenant's ten, those of the newest day; of one day that which has more days, then the newest.
    """
    few = LoadHistory(store.database, series_max=6)
    shop = [(WEB, NOON - 20 * DAY), (API, NOON - 19 * DAY)]
    steady = Series("tenant", "steady", "cpu")
    often = [(steady, NOON - 2 * DAY), (steady, NOON - DAY + 4 * HOUR)]
    once = [(Series("tenant", f"x{hour}", "cpu"), NOON - DAY + hour * HOUR) for hour in range(4, 13)]
    few.record(LoadSample(series, at, 1.0) for series, at in (*shop, *often, *once))

    store.database.write(lambda db: few.compact(db, NOON + 3 * HOUR))

    # x12 is at midnight, all others are of the day before.
    assert [API, WEB, *(Series("tenant", name, "cpu") for name in ("steady", "x10", "x11", "x12"))] == few.series()


def test_a_load_of_the_last_two_hours_is_kept_however_many_there_are(store):
    few = LoadHistory(store.database, series_max=2)
    many = [Series("tenant", f"x{number}", "cpu") for number in range(5)]
    few.record(LoadSample(series, NOON + number * HOUR, 1.0) for number, series in enumerate(many))

    store.database.write(lambda db: few.compact(db, NOON + 4 * HOUR))

    assert many[2:] == few.series()


def test_compacting_forgets_loads_that_are_too_old_to_keep(store):
    now = NOON + 30 * DAY
    old, kept = now - 29 * DAY, now - 28 * DAY + STEP
    store.loads.backfill(WEB, [(old, 1.0), (kept, 2.0)])
    store.loads.record([LoadSample(WEB, now - 10 * DAY, 3.0), LoadSample(WEB, now - MINUTE, 4.0)])

    store.compact(now)

    assert [kept, now - 10 * DAY, now - STEP] == [start for start, _ in everything(store)]
    assert [(now - MINUTE, 4.0)] == store.loads.minutes(WEB, 0, 2**63)


def test_history_is_an_array_from_the_first_known_step_to_the_last_with_gaps_between(store):
    store.loads.record([sample(0, 1.0), sample(1200, 2.0)])
    store.loads.backfill(WEB, [(NOON + 300 * SECOND, 3.0)])

    first, highs = store.loads.history(WEB, NOON - DAY, NOON + DAY)

    assert NOON == first
    assert ["1.0", "3.0", "nan", "nan", "2.0"] == [str(high) for high in highs]


def test_coverage_says_from_when_to_when_and_how_much(store):
    store.loads.record([sample(0, 1.0), sample(1200, 2.0)])

    assert [Coverage(WEB, NOON, NOON + 5 * STEP, 2)] == store.loads.coverage()


def test_the_end_of_the_backfill_is_noted_for_each_series(store):
    before = store.loads.backfilled_until(WEB)
    for until in (NOON, NOON + DAY):
        assert store.loads.note_backfill(WEB, until) is None

    assert (None, NOON + DAY, None) == (before, store.loads.backfilled_until(WEB), store.loads.backfilled_until(API))


def test_a_backfill_of_steps_raises_steps_and_adds_no_minutes(store):
    store.loads.backfill(WEB, [(NOON, 3.0), (NOON + STEP, 4.0)], width=STEP)

    assert [(NOON, 3.0), (NOON + STEP, 4.0)] == everything(store)
    assert [] == store.loads.minutes(WEB, 0, 2**63)


@pytest.mark.parametrize("count", [1, 25, 26, 60])
def test_the_rows_of_many_series_have_a_column_for_each(store, count):
    """Series n has the load n in the first minute, and every other series n + 100 in the second."""
    several = [Series("shop", f"app-{n}", "cpu") for n in range(count)]
    store.loads.record([LoadSample(series, NOON, float(n)) for n, series in enumerate(several)])
    store.loads.record([LoadSample(series, NOON + MINUTE, n + 100.0) for n, series in enumerate(several) if n % 2])

    packed = store.loads.packed(several, NOON, NOON + 2 * MINUTE)

    places = [several.index(series) for series in packed.series]
    first = tuple(float(n) for n in places)
    second = tuple(n + 100.0 if n % 2 else NO_ROW for n in places)
    assert list(range(count)) == sorted(places)
    assert [first, second][: 1 + (count > 1)] == packed.minutes.highs
