"""The recorder: maxima, gaps, days, bounds, and what it survives."""

import math
import signal
import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.history.database import (
    STEP,
    Coverage,
    Fault,
    Fit,
    FitInfo,
    IssuedQuantile,
    LoadSample,
    RecordedBatch,
    Series,
    Spend,
    Store,
    StoreError,
)

NOON = parse_instant("2026-03-01T12:00:00Z")
WEB = Series("shop", "web", "cpu")
API = Series("shop", "api", "cpu")


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "history.db")
    yield opened
    opened.close()


def everything(store, series=WEB):
    return store.steps(series, 0, 2**63)


def sample(seconds, value, series=WEB):
    return LoadSample(series, NOON + seconds * SECOND, value)


def forecast(start, *, load=(1.0, 2.0), issued_at=None):
    return Forecast(
        metric="cpu",
        issued_at=start if issued_at is None else issued_at,
        start=start,
        step=STEP,
        load=load,
        ceiling=3.3,
        model="PeriodicAutoregression",
        quantile_percent=95,
        trained_until=NOON,
        coverage_percent=94,
    )


def test_of_many_samples_the_largest_of_each_five_minutes_is_kept(store):
    store.record([sample(0, 1.0), sample(299, 3.0), sample(60, 2.0), sample(300, 0.5)])

    assert [(NOON, 3.0), (NOON + STEP, 0.5)] == everything(store)


def test_of_many_samples_the_largest_of_each_minute_is_kept(store):
    store.record([sample(0, 1.0), sample(59, 3.0), sample(45, 2.0), sample(60, 0.5)])

    assert [(NOON, 3.0), (NOON + MINUTE, 0.5)] == store.minutes(WEB, NOON, NOON + HOUR)


def test_a_smaller_value_later_does_not_lower_a_maximum(store):
    store.record([sample(0, 3.0)])
    store.record([sample(15, 1.0)])

    assert [(NOON, 3.0)] == everything(store)


def test_a_gap_stays_a_gap(store):
    store.record([sample(0, 1.0), sample(1200, 2.0)])

    assert [(NOON, 1.0), (NOON + 4 * STEP, 2.0)] == everything(store)


def test_series_are_told_apart_by_namespace_name_and_metric(store):
    others = [API, Series("other", "web", "cpu"), Series("shop", "web", "memory")]

    store.record([sample(0, 1.0), *(sample(0, 9.0, other) for other in others)])

    assert [(NOON, 1.0)] == everything(store)
    assert sorted([WEB, *others]) == store.series()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.001, 3.5e38])
def test_what_is_no_load_is_refused_and_the_rest_of_the_batch_kept(store, value):
    outcome = store.record([sample(0, value), sample(0, 1.0, API)])

    assert 1 == outcome.samples
    assert [WEB] == [each.series for each in outcome.refused]
    assert [] == everything(store)
    assert [(NOON, 1.0)] == everything(store, API)


@pytest.mark.parametrize("at", [-1, 2**63])
def test_an_instant_that_cannot_be_counted_is_refused(store, at):
    assert RecordedBatch(0, (LoadSample(WEB, at, 1.0),)) == store.record([LoadSample(WEB, at, 1.0)])


def test_reading_gives_the_steps_that_start_in_the_span(store):
    store.record([sample(0, 1.0), sample(300, 2.0), sample(600, 3.0)])

    assert [(NOON + STEP, 2.0)] == store.steps(WEB, NOON + 1, NOON + 2 * STEP)


def test_nothing_is_known_of_a_series_never_recorded(store):
    assert [] == everything(store)
    assert [] == store.minutes(WEB, 0, 2**63)
    assert [] == store.fits([WEB])
    assert {} == store.latest_forecasts()


def test_what_was_recorded_is_there_after_closing_and_opening(tmp_path):
    first = Store(tmp_path / "history.db")
    first.record([sample(0, 0.1)])
    first.close()

    assert [(NOON, 0.1)] == everything(Store(tmp_path / "history.db"))


@settings(max_examples=60, deadline=None)
@given(
    moves=st.lists(
        st.one_of(
            st.tuples(st.integers(0, 3 * 86_400), st.floats(0, 2**40, width=32)),
            st.just("compact"),
            st.lists(st.tuples(st.integers(0, 3 * 86_400), st.floats(0, 2**40, width=32)), min_size=1, max_size=4),
        ),
        max_size=25,
    )
)
def test_recording_backfilling_and_compacting_in_any_order_keep_every_maximum(tmp_path_factory, moves):
    store = Store(tmp_path_factory.mktemp("store") / "history.db")
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
            store.record([sample(*move)])
        else:
            store.backfill(WEB, [(NOON + seconds * SECOND, value) for seconds, value in move])

    assert sorted(expected.items()) == everything(store)
    found = store.minutes(WEB, 0, 2**63)
    assert sorted(by_minute) == [start for start, _ in found]
    for start, high in found:
        # Rounded to a 255th of its step, once more with each time that the step rises.
        assert abs(high - by_minute[start]) <= expected[start - start % STEP] * (len(moves) + 1) / 255
    store.close()


def test_minutes_are_the_same_before_and_after_they_are_packed(store):
    store.record([sample(60 * minute, load) for minute, load in enumerate([10.0, 2.0, 0.0, 51.0, 25.5, 7.0])])

    before = store.minutes(WEB, NOON, NOON + HOUR)
    store.compact(NOON + 4 * HOUR)

    # 10 of 51 are 50 of 255, 2 are 10; a load of zero is kept as one 255th, as 0 is a gap; 7 is a step of its own.
    assert [10.0, 2.0, 0.0, 51.0, 25.5, 7.0] == [high for _, high in before]
    packed = [high for _, high in store.minutes(WEB, NOON, NOON + HOUR)]
    assert [10.0, 2.0, 0.2, 51.0, 25.6, 7.0] == pytest.approx(packed)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_packed_minutes_are_within_a_255th_of_their_steps_maximum_in_whatever_order_they_came(
    tmp_path_factory, highs, order
):
    """A minute of nothing is no gap: it is written as 1 of 255."""
    store = Store(tmp_path_factory.mktemp("store") / "history.db")
    for minute in order.sample(range(len(highs)), len(highs)):
        store.backfill(WEB, [(NOON + minute * MINUTE, highs[minute])])

    found = [high for _, high in store.minutes(WEB, NOON, NOON + STEP)]

    store.close()
    # Steps are kept with 24 bits.
    assert pytest.approx(highs, abs=max(highs) / 255 * (1 + 1e-6) + 1e-40) == found


def test_the_newest_minutes_are_those_of_the_last_three_hours(store):
    store.record([sample(0, 1.0), sample(3600, 2.0)])
    store.compact(NOON + 3 * HOUR + 60 * SECOND)

    assert [(NOON + HOUR, 2.0)] == store.newest_minutes(WEB, NOON, NOON + 4 * HOUR)
    assert [(NOON, 1.0), (NOON + HOUR, 2.0)] == store.minutes(WEB, NOON, NOON + 4 * HOUR)


def test_a_past_of_minutes_is_kept_by_the_minute(store):
    store.backfill(WEB, [(NOON, 1.0), (NOON + 3 * MINUTE, 3.0)])

    assert (NOON, [1.0, pytest.approx(math.nan, nan_ok=True), pytest.approx(math.nan, nan_ok=True), 3.0]) == (
        store.minute_history(WEB, 0, 2**63)[0],
        list(store.minute_history(WEB, 0, 2**63)[1]),
    )


def test_compacting_forgets_what_is_too_old_to_keep(store):
    now = NOON + 30 * DAY
    old, kept = now - 29 * DAY, now - 28 * DAY + STEP
    store.backfill(WEB, [(old, 1.0), (kept, 2.0)])
    store.record([LoadSample(WEB, now - 10 * DAY, 3.0), LoadSample(WEB, now - MINUTE, 4.0)])

    store.compact(now)

    assert [kept, now - 10 * DAY, now - STEP] == [start for start, _ in everything(store)]
    assert [(now - MINUTE, 4.0)] == store.minutes(WEB, 0, 2**63)


def test_a_series_of_which_nothing_is_left_is_forgotten_with_its_fit_and_forecasts(store):
    store.record([sample(0, 1.0), LoadSample(API, NOON + 40 * DAY, 1.0)])
    store.save_fit(Fit("m", NOON, NOON, b"state"), {WEB: FitInfo(NOON)})
    store.add_spend([Spend(WEB, NOON // HOUR, 1.0, 1.0)])
    store.save_forecasts([(WEB, forecast(NOON + 40 * DAY))])

    store.compact(NOON + 40 * DAY)

    assert [API] == store.series()
    assert [] == store.fits([WEB])
    assert ({}, {}, []) == (store.latest_forecasts(), store.learnt(), store.spend(0))


def test_a_forgotten_series_that_comes_back_begins_empty(store):
    store.record([sample(0, 1.0), LoadSample(API, NOON + 40 * DAY, 1.0)])
    store.compact(NOON + 40 * DAY)

    store.record([LoadSample(WEB, NOON + 40 * DAY, 5.0)])

    assert [(NOON + 40 * DAY, 5.0)] == everything(store)
    assert [(NOON + 40 * DAY, 1.0)] == everything(store, API)


def test_the_file_stops_growing_at_what_28_days_need(store):
    """Sixty days, compacted twice a day: what the last twenty add is what the earlier ones left."""
    sizes = []
    for half in range(120):
        start = NOON + half * DAY // 2
        store.record([LoadSample(WEB, start + i * STEP, 1.0) for i in range(144)])
        store.compact(start + DAY // 2)
        sizes.append(store._db.execute("PRAGMA page_count").fetchone()[0])

    assert sizes[80] == sizes[-1]
    # 29 days of 1153 bytes, three to a page of 4096 bytes, and a few dozen pages of everything else.
    assert sizes[-1] <= 10 + 40


def test_the_newest_forecast_is_kept_with_its_issue_time(store):
    """The one that was saved last, also after a clock that stepped back."""
    first, again, back = forecast(NOON), forecast(NOON, issued_at=NOON + MINUTE), forecast(NOON - HOUR)
    store.record([sample(0, 1.0)])

    kept = []
    for each in (first, again, back):
        store.save_forecasts([(WEB, each)])
        kept.append((store.latest_forecasts(), store.latest_forecast(WEB)))

    assert [({WEB: each}, each) for each in (first, again, back)] == kept
    assert store.latest_forecast(API) is None


def test_what_forecasts_said_of_the_step_after_theirs_is_kept_for_a_day(store):
    """The newest of each step counts: of the two made within the first, the second."""
    store.record([sample(0, 1.0)])
    for each in (
        forecast(NOON, load=(1.0, 2.0)),
        forecast(NOON, load=(1.0, 3.0), issued_at=NOON + MINUTE),
        forecast(NOON + STEP, load=(1.0, 4.0)),
        forecast(NOON + 2 * STEP, load=(5.0,)),
    ):
        store.save_forecasts([(WEB, each)])
    percent = forecast(NOON).quantile_percent
    first, second = IssuedQuantile(NOON + STEP, 3.0, percent), IssuedQuantile(NOON + 2 * STEP, 4.0, percent)

    assert [first, second] == store.stated(WEB, NOON, NOON + DAY)
    assert [second] == store.stated(WEB, NOON + STEP + 1, NOON + DAY)
    assert [first] == store.stated(WEB, NOON, NOON + 2 * STEP)
    assert [] == store.stated(WEB, NOON, NOON)

    store.compact(NOON + DAY + STEP)

    assert [second] == store.stated(WEB, NOON, NOON + DAY)


def test_a_forecast_of_more_than_a_day_ago_is_forgotten(store):
    store.record([sample(0, 1.0)])
    store.save_forecasts([(WEB, forecast(NOON))])

    store.compact(NOON + DAY + STEP)

    assert {} == store.latest_forecasts()


def learnt(fit, *series, digest="spec", choice=b"choice"):
    return {each: FitInfo(fit.fitted_at, digest, choice) for each in series}


def test_a_newer_fit_takes_the_place_of_the_older_for_its_series_only(store):
    both, newer = Fit("m", NOON, NOON, b"both"), Fit("m", NOON + DAY, NOON + DAY, b"newer")
    store.save_fit(both, learnt(both, WEB, API))
    store.save_fit(newer, learnt(newer, WEB, digest="edited", choice=b"other"))

    assert [(newer, [WEB]), (both, [API])] == store.fits([WEB, API])
    assert {WEB: FitInfo(NOON + DAY, "edited", b"other"), API: FitInfo(NOON, "spec", b"choice")} == store.learnt()


def test_a_fit_that_is_nobodys_newest_is_gone(store):
    for fit in (Fit("m", NOON, NOON, b"old"), Fit("m", NOON + DAY, NOON, b"new")):
        store.save_fit(fit, learnt(fit, WEB, API))

    assert 1 == store._db.execute("SELECT count(*) FROM fit").fetchone()[0]


def test_spend_adds_up_within_an_hour_and_is_kept_for_eight_days(store):
    hour = NOON // HOUR
    store.record([sample(0, 1.0), sample(0, 1.0, API)])

    store.add_spend([Spend(WEB, hour, 60.0, 600.0), Spend(API, hour, 0.0, 5.0)])
    store.add_spend([Spend(WEB, hour, 15.0, 100.0), Spend(WEB, hour + 1, 1.0, 2.0)])

    whole = [Spend(WEB, hour, 75.0, 700.0), Spend(API, hour, 0.0, 5.0), Spend(WEB, hour + 1, 1.0, 2.0)]
    assert whole == store.spend(NOON)
    assert [(76.0, 702.0), (0.0, 5.0)] == [store.spent(each, NOON) for each in (WEB, API)]
    assert [(1.0, 2.0), (0.0, 0.0)] == [store.spent(WEB, at) for at in (NOON + MINUTE, NOON + DAY)]
    assert whole[2:] == store.spend(NOON + MINUTE)
    store.compact(NOON + 8 * DAY)
    assert whole == store.spend(0)
    store.compact(NOON + 8 * DAY + HOUR)
    assert whole[2:] == store.spend(0)


def test_history_is_an_array_from_the_first_known_step_to_the_last_with_gaps_between(store):
    store.record([sample(0, 1.0), sample(1200, 2.0)])
    store.backfill(WEB, [(NOON + 300 * SECOND, 3.0)])

    first, highs = store.history(WEB, NOON - DAY, NOON + DAY)

    assert NOON == first
    assert ["1.0", "3.0", "nan", "nan", "2.0"] == [str(high) for high in highs]


def test_extents_say_from_when_to_when_and_how_much(store):
    store.record([sample(0, 1.0), sample(1200, 2.0)])

    assert [Coverage(WEB, NOON, NOON + 5 * STEP, 2)] == store.extents()


def test_a_full_disk_is_a_fault_to_report_and_what_was_recorded_stays(store):
    store.record([sample(0, 1.0)])
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    # SQLite answers SQLITE_FULL at this bound exactly as it does when the disk has no room.
    store._db.execute(f"PRAGMA max_page_count = {pages}")

    outcome = store.record([sample(0, 1.0, Series("shop", f"web-{i}", "cpu")) for i in range(1000)])

    assert isinstance(outcome, Fault)
    assert "database or disk is full: nothing was recorded" in outcome.message
    assert [(NOON, 1.0)] == everything(store)
    assert [WEB] == store.series()


def test_recording_goes_on_when_the_disk_has_room_again(store):
    store.record([sample(0, 1.0)])
    store._db.execute("PRAGMA max_page_count = 1")
    many = [sample(0, 2.0, Series("shop", f"web-{i}", "cpu")) for i in range(1000)]
    assert isinstance(store.record(many), Fault)

    store._db.execute("PRAGMA max_page_count = 1073741823")

    assert RecordedBatch(1000) == store.record(many)
    assert [(NOON, 2.0)] == everything(store, many[999].series)


_RECORDER = """
import sys
from pathlib import Path
from cronhpa.history.database import LoadSample, Series, Store
store, at = Store(Path(sys.argv[1])), int(sys.argv[2])
for i in range(10**6):
    store.record([LoadSample(Series("shop", f"web-{k}", "cpu"), at + i * 15 * 10**9, float(i)) for k in range(20)])
    print(i, flush=True)
"""


def test_what_was_recorded_before_kill_9_is_there(tmp_path):
    path = tmp_path / "history.db"
    recorder = subprocess.Popen([sys.executable, "-c", _RECORDER, str(path), str(NOON)], stdout=subprocess.PIPE)
    committed = [int(recorder.stdout.readline()) for _ in range(100)][-1]
    recorder.send_signal(signal.SIGKILL)
    committed = max([committed, *(int(line) for line in recorder.stdout.read().split(b"\n")[:-1])])
    recorder.wait()

    store = Store(path)

    assert [("ok",)] == store._db.execute("PRAGMA integrity_check").fetchall()
    for k in range(20):
        start, high = everything(store, Series("shop", f"web-{k}", "cpu"))[-1]
        # One batch may have been committed whose line was not printed any more.
        assert high in {float(committed), committed + 1.0}
        assert start == (NOON + int(high) * 15 * SECOND) // STEP * STEP
    store.close()


_ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from cronhpa.history.database import Fault, RecordedBatch, LoadSample, Series, Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write that is too long fails, as on a full disk
store, at = Store(Path(sys.argv[1])), int(sys.argv[2])
batch = lambda i: [LoadSample(Series("shop", f"web-{k}", "cpu"), at + i * 15 * 10**9, float(i)) for k in range(200)]
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
outcomes = [store.record(batch(i)) for i in range(200)]
good = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, RecordedBatch)]
bad = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, Fault)]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(good[-1], bad[0], len(bad), type(store.record(batch(300))).__name__, store.compact(at + 10**13))
"""


def test_a_disk_that_fills_up_costs_what_does_not_fit_and_nothing_before_or_after(tmp_path):
    """The file system refuses whatever would make a file longer than 400 kB; then there is room again."""
    path = tmp_path / "history.db"
    command = [sys.executable, "-c", _ON_A_FULL_DISK, str(path), str(NOON)]
    good, first_bad, bad, after, compacted = subprocess.run(
        command, capture_output=True, check=True, text=True
    ).stdout.split()

    assert 10 < int(first_bad)
    assert int(good) < 199
    assert int(bad) > 50
    assert ("RecordedBatch", "None") == (after, compacted)
    store = Store(path)
    assert [("ok",)] == store._db.execute("PRAGMA integrity_check").fetchall()
    known = dict(everything(store, Series("shop", "web-7", "cpu")))
    # Every step that was full before the first refusal has its maximum: 20 batches of 15 s each.
    whole = range(int(first_bad) // 20)
    assert [20.0 * step + 19 for step in whole] == [known[NOON + step * STEP] for step in whole]
    assert 300.0 == known[NOON + 15 * STEP]
    store.close()


def test_several_processes_write_at_once_without_losing_anything(tmp_path):
    path = tmp_path / "history.db"
    Store(path).close()
    once = (
        _RECORDER.replace("10**6", "50")
        .replace("web-{k}", "web-{k}-{os.getpid()}")
        .replace("import sys", "import os, sys")
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", once, str(path), str(NOON)], stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    assert [0, 0, 0] == [writer.wait() for writer in writers]

    store = Store(path)

    # 50 batches of 15 s are 12.5 minutes: three steps of each of 20 series of each of 3 processes.
    assert 60 == len(store.series())
    assert {3} == {len(everything(store, series)) for series in store.series()}
    assert {49.0} == {everything(store, series)[-1][1] for series in store.series()}
    store.close()


@pytest.fixture
def meanwhile(store):
    """What another process does as soon as the store begins a statement that holds some words."""
    other = Store(store.path)
    faults = []

    def do(words, work):
        def look(statement):
            if words in statement and not faults:
                faults.append(work(other))

        store._db.set_trace_callback(look)

    yield do
    other.close()
    assert [None] == faults


def test_who_reads_while_another_process_compacts_misses_no_step(store, meanwhile):
    """Five hours of steps, of which three become a day after the days were read and before the rows are."""
    store.record([sample(60 * minute, 1.0) for minute in range(300)])
    meanwhile("(SELECT min(", lambda other: other.compact(NOON + 5 * HOUR))

    assert 60 == len(everything(store))


def test_who_reads_while_another_process_compacts_misses_no_minute(store, meanwhile):
    store.record([sample(60 * minute, 1.0) for minute in range(300)])
    meanwhile("(SELECT min(", lambda other: other.compact(NOON + 5 * HOUR))

    assert 300 == len(store.minutes(WEB, NOON, NOON + 5 * HOUR))


def test_who_reads_a_fit_while_another_process_keeps_a_newer_one_reads_the_one_before(store, meanwhile):
    old = Fit("m", 1, 1, b"old")
    store.save_fit(old, {WEB: FitInfo(1)})
    meanwhile("SELECT model", lambda other: other.save_fit(Fit("m", 2, 2, b"new"), {WEB: FitInfo(2)}))

    assert [(old, [WEB])] == store.fits([WEB])


def test_a_lock_that_another_process_never_gives_back_is_a_fault(tmp_path):
    store = Store(tmp_path / "history.db")
    store._db.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(tmp_path / "history.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    outcome = store.record([sample(0, 1.0)])

    assert isinstance(outcome, Fault)
    assert "database is locked" in outcome.message
    other.close()
    assert RecordedBatch(1) == store.record([sample(0, 1.0)])
    store.close()


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"nowhere/history\.db: .*an existing, writable folder is needed"):
        Store(tmp_path / "nowhere" / "history.db")


def test_a_file_that_is_no_store_is_named_and_left_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n" * 1000)

    with pytest.raises(StoreError, match="a SQLite file written by cronhpa is needed"):
        Store(path)

    assert "buy milk\n" * 1000 == path.read_text()


def test_a_store_of_a_later_release_is_refused(tmp_path):
    path = tmp_path / "history.db"
    Store(path).close()
    later = sqlite3.connect(path)
    later.execute("PRAGMA user_version = 7")
    later.close()

    with pytest.raises(StoreError, match="schema version 7: this release reads version 3"):
        Store(path)


def test_a_damaged_day_is_a_fault_for_its_reader_only(store):
    store.backfill(WEB, [(NOON, 1.0)])
    store.backfill(API, [(NOON, 2.0)])
    store._db.execute("UPDATE day SET highs = x'ff' WHERE series = (SELECT id FROM series WHERE name = 'web')")

    with pytest.raises(StoreError, match="a day is written in form"):
        everything(store)
    assert [(NOON, 2.0)] == everything(store, API)


def test_a_value_that_is_none_of_its_column_is_a_fault_and_leaves_the_file_to_others(store):
    """Half a blob, a text for a number: damage that SQLite itself does not see."""
    store.backfill(WEB, [(NOON, 1.0)])
    store.save_forecasts([(WEB, forecast(NOON))])
    store._db.execute("UPDATE day SET highs = x'01ffff'")
    store._db.execute("UPDATE forecast SET value = x'81'")
    other = Store(store.path)

    for read in (lambda: everything(store), store.latest_forecasts):
        with pytest.raises(StoreError, match=str(store.path)):
            read()
    assert isinstance(store.backfill(WEB, [(NOON, 2.0)]), Fault)
    assert RecordedBatch(1) == other.record([sample(0, 3.0, API)])
    other.close()


def test_a_file_with_damaged_names_is_no_store(tmp_path):
    path = tmp_path / "history.db"
    Store(path).close()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE step", b"CREATE \xff\xff\xffLE step"))

    with pytest.raises(StoreError, match="a SQLite file written by cronhpa is needed"):
        Store(path)


def test_an_interrupted_write_leaves_the_file_to_others(store):
    def batch():
        yield WEB, forecast(NOON)
        raise KeyboardInterrupt

    other = Store(store.path)

    with pytest.raises(KeyboardInterrupt):
        store.save_forecasts(batch())
    assert RecordedBatch(1) == other.record([sample(0, 3.0)])
    assert RecordedBatch(1) == store.record([sample(0, 4.0)])
    other.close()


_VERSION_1 = """
CREATE TABLE series (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, name TEXT NOT NULL, metric TEXT NOT NULL,
    UNIQUE (namespace, name, metric)
);
CREATE TABLE minute (minute INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (minute, series)) WITHOUT ROWID;
CREATE TABLE step (step INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (step, series)) WITHOUT ROWID;
CREATE TABLE day (series INTEGER, day INTEGER, highs BLOB NOT NULL, PRIMARY KEY (series, day));
CREATE TABLE fit (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, fitted_at INTEGER NOT NULL, trained_until INTEGER NOT NULL,
    state BLOB NOT NULL
);
CREATE TABLE fitted (series INTEGER PRIMARY KEY, fit INTEGER NOT NULL);
CREATE INDEX fitted_by_fit ON fitted (fit);
CREATE TABLE forecast (
    series INTEGER, start INTEGER, issued_at INTEGER NOT NULL, step INTEGER NOT NULL, load BLOB NOT NULL,
    ceiling REAL NOT NULL, model TEXT NOT NULL, quantile_percent INTEGER NOT NULL, trained_until INTEGER NOT NULL,
    coverage_percent INTEGER, PRIMARY KEY (series, start)
);
INSERT INTO series VALUES (7, 'shop', 'web', 'cpu');
INSERT INTO fit VALUES (1, 'm', 5, 4, x'00');
INSERT INTO fitted VALUES (7, 1);
PRAGMA user_version = 1;
"""


def test_a_store_of_version_1_keeps_its_history_and_fits(tmp_path):
    path = tmp_path / "history.db"
    earlier = sqlite3.connect(path)
    earlier.executescript(_VERSION_1)
    earlier.execute("INSERT INTO step VALUES (?, 7, 2.5)", (NOON // STEP,))
    earlier.commit()
    earlier.close()

    store = Store(path)

    assert [(NOON, 2.5)] == everything(store)
    assert {WEB: FitInfo(5)} == store.learnt()
    assert store.save_forecasts([(WEB, forecast(NOON))]) is None
    assert {WEB: forecast(NOON)} == store.latest_forecasts()
    store.close()
