"""The file: what it survives, who may use it at once, and which releases read it."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from cronhpa.core.model.instant import HOUR, MILLISECOND, SECOND
from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.database.schema import SCHEMA
from cronhpa.history.database.series import STEP, RecordedBatch, Series
from cronhpa.history.database.sqlite import SqliteDatabase
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.store import Store
from history.samples import API, NOON, WEB, WatchedDatabase, everything, forecast, raw, sample, write_version_1


@pytest.fixture
def store(file_store):
    return file_store


_RECORDER = """
import sys
from pathlib import Path
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.history.store import Store
store, at = Store(Path(sys.argv[1])), int(sys.argv[2])
for i in range(10**6):
    names = [Series("shop", f"web-{k}", "cpu") for k in range(20)]
    store.loads.record([LoadSample(name, at + i * 15 * 10**9, float(i)) for name in names])
    print(i, flush=True)
"""


def test_what_was_recorded_before_kill_9_is_there(tmp_path):
    path = tmp_path / "history.db"
    recorder = subprocess.Popen([sys.executable, "-c", _RECORDER, str(path), str(NOON)], stdout=subprocess.PIPE)
    committed = [int(recorder.stdout.readline()) for _ in range(100)][-1]
    recorder.send_signal(signal.SIGKILL)
    committed = max([committed, *(int(line) for line in recorder.stdout.read().split(b"\n")[:-1])])
    recorder.communicate()

    store = Store(path)

    assert [("ok",)] == raw(path, "PRAGMA integrity_check")
    for k in range(20):
        start, high = everything(store, Series("shop", f"web-{k}", "cpu"))[-1]
        # One batch may have been committed whose line was not printed any more.
        assert high in {float(committed), committed + 1.0}
        assert start == (NOON + int(high) * 15 * SECOND) // STEP * STEP
    store.close()


_ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from cronhpa.history.database.database import Fault
from cronhpa.history.database.series import LoadSample, RecordedBatch, Series
from cronhpa.history.store import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write that is too long fails, as on a full disk
store, at = Store(Path(sys.argv[1])), int(sys.argv[2])
batch = lambda i: [LoadSample(Series("shop", f"web-{k}", "cpu"), at + i * 15 * 10**9, float(i)) for k in range(200)]
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
outcomes = [store.loads.record(batch(i)) for i in range(200)]
good = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, RecordedBatch)]
bad = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, Fault)]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(good[-1], bad[0], len(bad), type(store.loads.record(batch(300))).__name__, store.compact(at + 10**13))
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
    assert [("ok",)] == raw(path, "PRAGMA integrity_check")
    recorded = dict(everything(store, Series("shop", "web-7", "cpu")))
    # Every step that was full before the first refusal has its maximum: 20 batches of 15 s each.
    whole = range(int(first_bad) // 20)
    assert [20.0 * step + 19 for step in whole] == [recorded[NOON + step * STEP] for step in whole]
    assert 300.0 == recorded[NOON + 15 * STEP]
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
    assert 60 == len(store.loads.series())
    assert {3} == {len(everything(store, series)) for series in store.loads.series()}
    assert {49.0} == {everything(store, series)[-1][1] for series in store.loads.series()}
    store.close()


def answers_meanwhile(folder, *, fill, change, read):
    """
    What a reader gives while another process changes its file: just before the reader's first statement, in the next
    file before its second, and so on to its last.
    """
    answers, statements = [], []
    while len(statements) >= len(answers):
        statements.clear()
        path = folder / f"{len(answers)}.db"
        with closing(Store(path)) as other:
            fill(other)

            def run(statement, other=other):
                statements.append(statement)
                if len(statements) == len(answers) + 1:
                    assert change(other) is None

            watched = Store(path, lambda path, run=run: WatchedDatabase(SqliteDatabase.open(path), run))
            with closing(watched) as reader:
                answers.append(read(reader))
    return answers[:-1]  # the reader of the last file had ended before the change


FIVE_HOURS = [sample(60 * minute, 1.0) for minute in range(300)]


def test_a_reader_misses_no_step_while_another_process_compacts(tmp_path):
    """Five hours are 60 steps; compaction makes three hours of them a row of the day."""
    answers = answers_meanwhile(
        tmp_path,
        fill=lambda store: store.loads.record(FIVE_HOURS),
        change=lambda store: store.compact(NOON + 5 * HOUR),
        read=everything,
    )

    assert [60] * len(answers) == [len(steps) for steps in answers] != []


def test_a_reader_misses_no_minute_while_another_process_compacts(tmp_path):
    answers = answers_meanwhile(
        tmp_path,
        fill=lambda store: store.loads.record(FIVE_HOURS),
        change=lambda store: store.compact(NOON + 5 * HOUR),
        read=lambda store: store.loads.minutes(WEB, NOON, NOON + 5 * HOUR),
    )

    assert [300] * len(answers) == [len(minutes) for minutes in answers] != []


def test_a_reader_sees_one_fit_whole_while_another_process_saves_a_newer_one(tmp_path):
    """The one that was the newest when the reader began."""
    old, new = Fit("m", 1, 1, b"old"), Fit("m", 2, 2, b"new")

    answers = answers_meanwhile(
        tmp_path,
        fill=lambda store: store.fits.save(old, {WEB: FitInfo(1)}),
        change=lambda store: store.fits.save(new, {WEB: FitInfo(2)}),
        read=lambda store: store.fits.newest([WEB]),
    )

    assert [[(old, [WEB])]] * len(answers) == answers != []


def test_a_lock_that_another_process_never_gives_back_is_a_fault(tmp_path):
    path = tmp_path / "history.db"
    store = Store(path, lambda path: SqliteDatabase.open(path, lock_timeout=50 * MILLISECOND))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        outcome = store.loads.record([sample(0, 1.0)])

    assert isinstance(outcome, Fault)
    assert "database is locked" in outcome.message
    assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
    store.close()


def test_a_refused_transaction_keeps_nothing_and_the_next_one_goes_on(store):
    """The ids that the refused transaction had given to new series are void."""
    many = [sample(0, 2.0, Series("shop", f"web-{i}", "cpu")) for i in range(1000)]
    store.loads.record([sample(0, 1.0)])
    full = "SELECT RAISE(ABORT, 'database or disk is full')"
    raw(store.address, f"CREATE TRIGGER no_room BEFORE INSERT ON step WHEN NEW.series > 500 BEGIN {full}; END")

    outcome = store.loads.record(many)

    assert Fault(f"{store.address}: database or disk is full: nothing was recorded") == outcome
    assert [(NOON, 1.0)] == everything(store)
    assert [WEB] == store.loads.series()
    raw(store.address, "DROP TRIGGER no_room")
    assert RecordedBatch(1000) == store.loads.record(many)
    assert [(NOON, 2.0)] == everything(store, many[999].series)
    assert 1001 == len(store.loads.series())


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
    raw(path, "PRAGMA user_version = 7")

    with pytest.raises(StoreError, match=f"schema version 7: this release reads version {SCHEMA.version}"):
        Store(path)
    with pytest.raises(StoreError, match=f"schema version 7: this release reads versions 1 to {SCHEMA.version}"):
        Store.open_to_read(path)


def test_a_damaged_day_is_a_fault_for_its_reader_only(store):
    store.loads.backfill(WEB, [(NOON, 1.0)])
    store.loads.backfill(API, [(NOON, 2.0)])
    raw(store.address, "UPDATE day SET highs = x'ff' WHERE series = (SELECT id FROM series WHERE name = 'web')")

    with pytest.raises(StoreError, match="a day is written in form"):
        everything(store)
    assert [(NOON, 2.0)] == everything(store, API)


def test_a_value_that_does_not_fit_its_column_is_a_fault_and_leaves_the_file_to_others(store):
    """Half a blob, a text for a number: damage that SQLite itself does not see."""
    store.loads.backfill(WEB, [(NOON, 1.0)])
    store.forecasts.save([(WEB, forecast(NOON))])
    raw(store.address, "UPDATE day SET highs = x'01ffff'")
    raw(store.address, "UPDATE forecast SET value = x'81'")
    other = Store(store.address)

    for read in (lambda: everything(store), store.forecasts.newest):
        with pytest.raises(StoreError, match=str(store.address)):
            read()
    assert isinstance(store.loads.backfill(WEB, [(NOON, 2.0)]), Fault)
    assert RecordedBatch(1) == other.loads.record([sample(0, 3.0, API)])
    other.close()


def test_a_number_of_more_than_64_bits_is_a_fault_and_the_next_write_goes_on(store):
    """Found: such an instant in a tenant's event raised OverflowError, by which the operator closed its store."""
    insert = "INSERT INTO report VALUES ('prod', 'sale', ?, '{}')"

    outcome = store.database.write(lambda db: db.execute(insert, (-(2**63) - 1,)))

    assert isinstance(outcome, Fault)
    assert "nothing was recorded" in outcome.message
    assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])


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

    other = Store(store.address)

    with pytest.raises(KeyboardInterrupt):
        store.forecasts.save(batch())
    assert RecordedBatch(1) == other.loads.record([sample(0, 3.0)])
    assert RecordedBatch(1) == store.loads.record([sample(0, 4.0)])
    other.close()


def test_a_store_of_version_1_keeps_its_history_and_fits(tmp_path):
    path = tmp_path / "history.db"
    write_version_1(path)

    store = Store(path)

    assert [(NOON, 2.5), (NOON + STEP, 2.5)] == everything(store)
    assert {WEB: FitInfo(5)} == store.fits.infos()
    assert store.forecasts.save([(WEB, forecast(NOON))]) is None
    assert {WEB: forecast(NOON)} == store.forecasts.newest()
    store.close()


def test_a_store_of_version_1_that_is_opened_to_read_stays_as_it_is(tmp_path):
    path = tmp_path / "history.db"
    write_version_1(path)
    before = path.read_bytes()

    with closing(Store.open_to_read(path)) as store:
        steps, series, refused = everything(store), store.loads.series(), store.loads.record([sample(0, 9.0)])

    assert ([(NOON, 2.5), (NOON + STEP, 2.5)], [WEB]) == (steps, series)
    assert Fault(f"{path}: attempt to write a readonly database: nothing was recorded") == refused
    assert before == path.read_bytes()


def test_a_table_that_an_earlier_release_lacks_cannot_be_read(tmp_path):
    write_version_1(tmp_path / "history.db")

    with (
        closing(Store.open_to_read(tmp_path / "history.db")) as store,
        pytest.raises(StoreError, match="no such table: minutes"),
    ):
        store.loads.minutes(WEB, 0, 2**63)


def test_a_reader_sees_what_the_operator_has_just_written(store):
    with closing(Store.open_to_read(store.address)) as reader:
        store.loads.record([sample(0, 1.0)])
        first = everything(reader)
        store.loads.record([sample(0, 2.0)])

        assert ([(NOON, 1.0)], [(NOON, 2.0)]) == (first, everything(reader))


def test_opening_to_read_makes_no_file(tmp_path):
    with pytest.raises(StoreError, match=r"none\.db: .*: an existing, readable file is needed"):
        Store.open_to_read(tmp_path / "none.db")

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"buy milk\n" * 1000], ids=["empty", "text"])
def test_a_file_that_is_no_store_cannot_be_opened_to_read(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)

    with pytest.raises(StoreError, match=r"notes\.txt: (schema version 0|file is not a database)"):
        Store.open_to_read(path)
