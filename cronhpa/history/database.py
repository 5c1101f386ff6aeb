"""
The recorder: load history, fits, forecasts and what they cost, in one SQLite file.

It keeps five-minute maxima for 28 days and single minutes for nine; five-minute means would hide the jumps that scaling
is about, and five-minute maxima in which minute they came. A gap is a missing row, never a zero. Several processes open
the file at once.

Two levels, because a minute's batch of 10,000 series takes 12 ms in a table keyed (time, series), where its rows lie
together, and 206 ms keyed (series, time): what is newest are rows of `step` and `minute`, what is older blobs of `day`
and `minutes`, one for each series and UTC day: 24 bits a step, 8 bits a minute. `compact` moves them; reading joins the
two. 28 days of 10,000 series take 400 MB, their nine days of minutes 200 MB, the rows of three hours 40 MB.

What goes wrong while writing (disk full, file locked, file damaged) is a `Fault`, a value to report: the operator goes
on without history. What goes wrong while opening or reading raises StoreError.
"""

from __future__ import annotations

import math
import sqlite3
import sys
import threading
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, HOUR, MINUTE, Nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

STEP: Nanoseconds = 5 * MINUTE
STEPS_KEPT: Nanoseconds = 28 * DAY
# A day is tried minute by minute once it is over, after a week in which minutes like its own are looked for; a day is
# left for those who come late.
MINUTES_KEPT: Nanoseconds = 9 * DAY
# A day of forecasts, one for each step, is what coverage is counted on: 288 outcomes tell 0.95 within 0.013.
FORECASTS_KEPT: Nanoseconds = DAY

# What a spend is averaged over, and a day, so that its first hour is whole.
SPEND_KEPT: Nanoseconds = 8 * DAY

_SCHEMA_VERSION = 3
_INSTANT_END = 2**63  # SQLite's integers end there
_STEPS_PER_DAY = DAY // STEP
# Steps stay rows this long: a late sample still finds its row, and the hourly compaction has whole hours to move.
_ROWS_KEPT: Nanoseconds = 2 * HOUR
# A forecast looks at the minutes of two hours and five minutes: those it finds as rows.
MINUTE_ROWS_KEPT: Nanoseconds = 3 * HOUR
_MINUTES_PER_DAY = DAY // MINUTE
_MINUTES_PER_STEP = STEP // MINUTE
# A packed minute is so many 255ths of its step's maximum; 0 is a gap.
_WHOLE_STEP = 255
# The first byte of a day's blob names how the rest is written: 288 little-endian doubles or floats, NaN for a gap.
# Three days of floats share a page of 4096 bytes, a day of doubles took one for itself.
_DOUBLES, _FLOATS = b"\0", b"\1"
_FLOAT_MAX = 3.4e38

_SCHEMA = """
CREATE TABLE series (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, name TEXT NOT NULL, metric TEXT NOT NULL,
    UNIQUE (namespace, name, metric)
);
-- Times are counted in steps, minutes and days since the Unix epoch.
CREATE TABLE minute (minute INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (minute, series)) WITHOUT ROWID;
CREATE TABLE step (step INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (step, series)) WITHOUT ROWID;
CREATE TABLE day (series INTEGER, day INTEGER, highs BLOB NOT NULL, PRIMARY KEY (series, day));
CREATE TABLE minutes (series INTEGER, day INTEGER, shares BLOB NOT NULL, PRIMARY KEY (series, day));
-- One fit is of many series: methods work on wide frames.
CREATE TABLE fit (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, fitted_at INTEGER NOT NULL, trained_until INTEGER NOT NULL,
    state BLOB NOT NULL
);
-- digest: of what mattered in the object's spec when it was fitted. choice: what was found to suit it, or why nothing.
CREATE TABLE fitted (
    series INTEGER PRIMARY KEY, fit INTEGER NOT NULL, digest TEXT NOT NULL DEFAULT '', choice BLOB NOT NULL DEFAULT x''
);
CREATE INDEX fitted_by_fit ON fitted (fit);
-- The newest forecast.
CREATE TABLE forecast (series INTEGER PRIMARY KEY, start INTEGER NOT NULL, value BLOB NOT NULL);
-- What the newest forecast of each step said of the one after it: a load, and how many percent stay below it.
CREATE TABLE stated (
    step INTEGER, series INTEGER, load REAL NOT NULL, percent INTEGER NOT NULL, PRIMARY KEY (step, series)
) WITHOUT ROWID;
-- Pod-seconds that the forecast added within an hour, and those that there would have been without it.
CREATE TABLE spend (
    hour INTEGER, series INTEGER, extra REAL NOT NULL, base REAL NOT NULL, PRIMARY KEY (hour, series)
) WITHOUT ROWID;
-- Until when another source was asked for the history of a series.
CREATE TABLE backfill (series INTEGER PRIMARY KEY, until INTEGER NOT NULL);
"""
# What makes a file of an earlier version one of the next. Forecasts live for a day: those of earlier ones are let go.
_MIGRATIONS = {
    1: """
ALTER TABLE fitted ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE fitted ADD COLUMN choice BLOB NOT NULL DEFAULT x'';
DROP TABLE forecast;
CREATE TABLE forecast (series INTEGER, start INTEGER, value BLOB NOT NULL, PRIMARY KEY (series, start)) WITHOUT ROWID;
CREATE TABLE spend (
    hour INTEGER, series INTEGER, extra REAL NOT NULL, base REAL NOT NULL, PRIMARY KEY (hour, series)
) WITHOUT ROWID;
CREATE TABLE backfill (series INTEGER PRIMARY KEY, until INTEGER NOT NULL)
""",
    2: """
DROP TABLE forecast;
CREATE TABLE forecast (series INTEGER PRIMARY KEY, start INTEGER NOT NULL, value BLOB NOT NULL);
CREATE TABLE stated (
    step INTEGER, series INTEGER, load REAL NOT NULL, percent INTEGER NOT NULL, PRIMARY KEY (step, series)
) WITHOUT ROWID;
CREATE TABLE minutes (series INTEGER, day INTEGER, shares BLOB NOT NULL, PRIMARY KEY (series, day))
""",
}

_FORECASTS = msgspec.msgpack.Encoder()
_FORECAST = msgspec.msgpack.Decoder(Forecast)

# What reading a damaged file comes to, as SQLite has no checksums: names that are no UTF-8, a text for a number, half a
# blob.
_UNREADABLE = (sqlite3.Error, msgspec.MsgspecError, TypeError, ValueError)

T = TypeVar("T")


class Series(Struct, frozen=True, order=True):
    """Whose load: `metric` is the metric's name as in the object's spec (`cpu`)."""

    namespace: str
    name: str
    metric: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} {self.metric}"


class LoadSample(Struct, frozen=True, gc=False):
    """The load of a whole target at an instant, in the metric's own unit (cores, bytes, requests per second)."""

    series: Series
    at: Nanoseconds
    value: float


class RecordedBatch(Struct, frozen=True, tag=True):
    """refused: samples that are no load (negative, NaN, above 3.4e38, not in 1970 to 2262); they were left out."""

    samples: int
    refused: tuple[LoadSample, ...] = ()


class Fault(Struct, frozen=True, tag=True):
    """Why nothing was written, in a sentence for people. Everything written earlier is still there."""

    message: str


class Fit(Struct, frozen=True):
    """What a method learnt from several series, and until when it had looked."""

    model: str
    fitted_at: Nanoseconds
    trained_until: Nanoseconds
    state: bytes


class FitInfo(Struct, frozen=True):
    """
    When a series was fitted last, and for what.

    digest: of what mattered in the object's spec then. choice: what was found to suit it, as the worker wrote it.
    """

    fitted_at: Nanoseconds
    digest: str = ""
    choice: bytes = b""


class Spend(Struct, frozen=True):
    """
    What a forecast cost within one hour of the clock, in pod-seconds.

    extra: of pods that would not have been there without it. base: of those that would.
    """

    series: Series
    hour: int
    extra: float
    base: float


class IssuedQuantile(Struct, frozen=True):
    """What was forecast for the step that starts at `start`: so many percent of loads are below `load`."""

    start: Nanoseconds
    load: float
    percent: int


class Coverage(Struct, frozen=True):
    """How much is known of a series: from the first to the end of the last step, and in how many steps."""

    series: Series
    first: Nanoseconds
    last: Nanoseconds
    steps: int


class StoreError(Exception):
    """The store cannot be opened or read."""


class Store:
    """
    One open connection, for any thread, one at a time. Open another one for another process.

    Instants are integer nanoseconds, and `now` is always given.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it. Raises StoreError where that cannot be done."""
        self.path = path
        self._lock = threading.Lock()
        self._ids: dict[Series, int] = {}
        try:
            self._db = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as problem:
            raise StoreError(f"{path}: {problem}: a path to a file in an existing, writable folder is needed") from None
        try:
            self._prepare()
        except _UNREADABLE as problem:
            self._db.close()
            raise StoreError(f"{path}: {problem}: a SQLite file written by cronhpa is needed") from None

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def record(self, batch: Iterable[LoadSample]) -> RecordedBatch | Fault:
        """Raise the maxima of the minute and the step of every sample, all in one transaction."""
        good: list[LoadSample] = []
        refused: list[LoadSample] = []
        for sample in batch:
            (good if is_load(sample.at, sample.value) else refused).append(sample)
        if not good:
            return RecordedBatch(0, tuple(refused))

        def work(db: sqlite3.Connection) -> RecordedBatch:
            rows = [(sample, self._id(db, sample.series)) for sample in good]
            _raise(db, "minute", ((sample.at // MINUTE, series, sample.value) for sample, series in rows))
            _raise(db, "step", ((sample.at // STEP, series, sample.value) for sample, series in rows))
            return RecordedBatch(len(good), tuple(refused))

        return self._write(work)

    def backfill(
        self, series: Series, maxima: Sequence[tuple[Nanoseconds, float]], *, width: Nanoseconds = MINUTE
    ) -> RecordedBatch | Fault:
        """
        Raise the maxima of one series by past values, (instant, value) in any order.

        width: what a value is the maximum of. MINUTE raises minutes and their steps, STEP steps alone, as nobody knows
        which minute it was. Meant for months at once: it writes days, not rows. The larger value wins where something
        is known already.
        """
        samples = [LoadSample(series, at, value) for at, value in maxima]
        good = [sample for sample in samples if is_load(sample.at, sample.value)]
        refused = tuple(sample for sample in samples if not is_load(sample.at, sample.value))
        if not good:
            return RecordedBatch(0, refused)

        def work(db: sqlite3.Connection) -> RecordedBatch:
            known = self._id(db, series)
            # The highest first: a share that is rounded again whenever its step rises is off by 0.2 % more each time.
            good.sort(key=lambda sample: sample.value, reverse=True)
            _merge_days(db, ((known, sample.at // width, sample.value) for sample in good), DAY // width)
            return RecordedBatch(len(good), refused)

        return self._write(work)

    def history(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> tuple[Nanoseconds, array[float]]:
        """
        (start of the first known step, maxima of every step from it to the last known one), NaN for a gap.

        Of the steps that start in [since, until); an empty array where none is known. 28 days take a millisecond.
        """
        first, end = -(-since // STEP), -(-until // STEP)

        def work(db: sqlite3.Connection) -> tuple[Nanoseconds, array[float]]:
            found = self._known_id(db, series)
            if found is None:
                return first * STEP, array("d")
            days = "SELECT day, highs FROM day WHERE series = ? AND day BETWEEN ? AND ? ORDER BY day"
            packed = db.execute(days, (found, first // _STEPS_PER_DAY, (end - 1) // _STEPS_PER_DAY)).fetchall()
            rows = _rows(db, "step", found, first, end)
            days_known = [(day, _unpack(blob)) for day, blob in packed]
            begin, highs = _joined(days_known, rows, _STEPS_PER_DAY)
            low, known = _trimmed(begin, highs, first, end)
            return low * STEP, known

        return self._read(work)

    def steps(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
        """(start, maximum) of every known step that starts in [since, until), in order."""
        first, highs = self.history(series, since, until)
        return [(first + i * STEP, high) for i, high in enumerate(highs) if not math.isnan(high)]

    def minutes(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
        """(start, maximum) of every known minute that starts in [since, until), in order; nine days are kept."""
        first, highs = self.minute_history(series, since, until)
        return [(first + i * MINUTE, high) for i, high in enumerate(highs) if not math.isnan(high)]

    def newest_minutes(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
        """As `minutes`, of the last three hours alone, in a third of the time."""
        first, end = -(-since // MINUTE), -(-until // MINUTE)

        def work(db: sqlite3.Connection) -> list[tuple[Nanoseconds, float]]:
            found = self._known_id(db, series)
            rows = [] if found is None else _rows(db, "minute", found, first, end)
            return [(minute * MINUTE, high) for minute, high in rows]

        return self._read(work)

    def minute_history(
        self, series: Series, since: Nanoseconds, until: Nanoseconds
    ) -> tuple[Nanoseconds, array[float]]:
        """
        (start of the first known minute, maxima of every minute from it to the last known one), NaN for a gap.

        Of the minutes that start in [since, until), within 0.4 % of a step's maximum where they are older than three
        hours, as the smallest share is 1 of 255; an empty array where none is known. Nine days take 3 ms.
        """
        first, end = -(-since // MINUTE), -(-until // MINUTE)

        def work(db: sqlite3.Connection) -> tuple[Nanoseconds, array[float]]:
            found = self._known_id(db, series)
            if found is None:
                return first * MINUTE, array("d")
            query = """
                SELECT day, shares, highs FROM minutes JOIN day USING (series, day)
                WHERE series = ? AND day BETWEEN ? AND ? ORDER BY day
            """
            days = (found, first // _MINUTES_PER_DAY, (end - 1) // _MINUTES_PER_DAY)
            packed = [(day, _spread(shares, _unpack(highs))) for day, shares, highs in db.execute(query, days)]
            rows = _rows(db, "minute", found, first, end)
            begin, highs = _joined(packed, rows, _MINUTES_PER_DAY)
            low, known = _trimmed(begin, highs, first, end)
            return low * MINUTE, known

        return self._read(work)

    def series(self) -> list[Series]:
        """Every series there is, in order of its name."""
        query = "SELECT namespace, name, metric FROM series ORDER BY namespace, name, metric"
        return self._read(lambda db: [Series(*row) for row in db.execute(query)])

    def extents(self) -> list[Coverage]:
        """How much is known of every series that has any steps. Reads everything: for people, not for ticks."""
        found = [(series, self.steps(series, 0, _INSTANT_END)) for series in self.series()]
        return [Coverage(s, steps[0][0], steps[-1][0] + STEP, len(steps)) for s, steps in found if steps]

    def save_fit(self, fit: Fit, series: Mapping[Series, FitInfo]) -> Fault | None:
        """
        Keep a fit as the newest of these series, and forget fits that are nobody's newest.

        The `fitted_at` of each is the fit's.
        """

        def work(db: sqlite3.Connection) -> None:
            columns = "INSERT INTO fit (model, fitted_at, trained_until, state) VALUES (?, ?, ?, ?)"
            made = db.execute(columns, (fit.model, fit.fitted_at, fit.trained_until, fit.state)).lastrowid
            link = "INSERT OR REPLACE INTO fitted (series, fit, digest, choice) VALUES (?, ?, ?, ?)"
            rows = [(self._id(db, each), made, learnt.digest, learnt.choice) for each, learnt in series.items()]
            db.executemany(link, rows)
            db.execute("DELETE FROM fit WHERE id NOT IN (SELECT fit FROM fitted)")

        return self._write(work)

    def learnt(self) -> dict[Series, FitInfo]:
        """When and for what every series was fitted last."""
        query = """
            SELECT s.namespace, s.name, s.metric, fit.fitted_at, f.digest, f.choice
            FROM series s JOIN fitted f ON f.series = s.id JOIN fit ON fit.id = f.fit
        """
        return self._read(lambda db: {Series(*row[:3]): FitInfo(*row[3:]) for row in db.execute(query)})

    def fits(self, series: Sequence[Series]) -> list[tuple[Fit, list[Series]]]:
        """The newest fits of these series, each with those of them that it is the newest of."""

        def work(db: sqlite3.Connection) -> list[tuple[Fit, list[Series]]]:
            members: dict[int, list[Series]] = {}
            for each in series:
                row = db.execute("SELECT fit FROM fitted WHERE series = ?", (self._known_id(db, each),)).fetchone()
                if row is not None:
                    members.setdefault(row[0], []).append(each)
            query = "SELECT model, fitted_at, trained_until, state FROM fit WHERE id = ?"
            return [(Fit(*db.execute(query, (fit,)).fetchone()), of) for fit, of in members.items()]

        return self._read(work)

    def save_forecasts(self, forecasts: Iterable[tuple[Series, Forecast]]) -> Fault | None:
        """Keep these forecasts as the newest of their series, and what each says of its second step."""

        def work(db: sqlite3.Connection) -> None:
            rows = [(self._id(db, series), each) for series, each in forecasts]
            db.executemany(
                "INSERT OR REPLACE INTO forecast VALUES (?, ?, ?)",
                ((series, each.start, _FORECASTS.encode(each)) for series, each in rows),
            )
            db.executemany(
                "INSERT OR REPLACE INTO stated VALUES (?, ?, ?, ?)",
                (
                    (each.start // STEP, series, each.load[1], each.quantile_percent)
                    for series, each in rows
                    if len(each.load) > 1
                ),
            )

        return self._write(work)

    def latest_forecasts(self) -> dict[Series, Forecast]:
        """The forecast of every series that was saved last, however long ago."""
        query = "SELECT s.namespace, s.name, s.metric, f.value FROM series s JOIN forecast f ON f.series = s.id"
        return self._read(lambda db: {Series(*row[:3]): _FORECAST.decode(row[3]) for row in db.execute(query)})

    def latest_forecast(self, series: Series) -> Forecast | None:
        """The forecast of one series that was saved last; None where there is none."""
        query = "SELECT value FROM forecast WHERE series = ?"

        def work(db: sqlite3.Connection) -> Forecast | None:
            row = db.execute(query, (self._known_id(db, series),)).fetchone()
            return None if row is None else _FORECAST.decode(row[0])

        return self._read(work)

    def stated(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> list[IssuedQuantile]:
        """What was said of the steps that start in [since, until), a step ahead, in order; a day is kept."""
        query = """
            WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
            SELECT at, load, percent FROM clock CROSS JOIN stated ON step = at AND series = ?
        """
        first, last = -(-since // STEP) - 1, -(-until // STEP) - 2

        def work(db: sqlite3.Connection) -> list[IssuedQuantile]:
            rows = db.execute(query, (first, last, self._known_id(db, series))) if first <= last else ()
            return [IssuedQuantile((step + 1) * STEP, load, percent) for step, load, percent in rows]

        return self._read(work)

    def add_spend(self, spent: Iterable[Spend]) -> Fault | None:
        """Add to what is known of these hours."""

        def work(db: sqlite3.Connection) -> None:
            rows = [(each.hour, self._id(db, each.series), each.extra, each.base) for each in spent]
            db.executemany(
                "INSERT INTO spend VALUES (?, ?, ?, ?) ON CONFLICT (hour, series) "
                "DO UPDATE SET extra = extra + excluded.extra, base = base + excluded.base",
                rows,
            )

        return self._write(work)

    def spend(self, since: Nanoseconds) -> list[Spend]:
        """What was spent in the hours that begin at or after `since`, in order of the hours; eight days are kept."""
        query = """
            SELECT s.namespace, s.name, s.metric, spend.hour, spend.extra, spend.base
            FROM spend JOIN series s ON s.id = spend.series WHERE spend.hour >= ? ORDER BY spend.hour
        """
        rows = (-(-since // HOUR),)
        return self._read(lambda db: [Spend(Series(*row[:3]), *row[3:]) for row in db.execute(query, rows)])

    def spent(self, series: Series, since: Nanoseconds) -> tuple[float, float]:
        """(extra, base) of one series over the hours from `since` on: a look-up for each hour."""
        query = """
            WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
            SELECT total(extra), total(base) FROM clock CROSS JOIN spend ON hour = at AND series = ?
        """

        def work(db: sqlite3.Connection) -> tuple[float, float]:
            (last,) = db.execute("SELECT max(hour) FROM spend").fetchone()
            first = -(-since // HOUR)
            if last is None or last < first:
                return 0.0, 0.0
            extra, base = db.execute(query, (first, last, self._known_id(db, series))).fetchone()
            return extra, base

        return self._read(work)

    def note_backfill(self, series: Series, until: Nanoseconds) -> Fault | None:
        """Another source was asked for the history up to then."""
        row = "INSERT OR REPLACE INTO backfill VALUES (?, ?)"

        def work(db: sqlite3.Connection) -> None:
            db.execute(row, (self._id(db, series), until))

        return self._write(work)

    def backfilled_until(self, series: Series) -> Nanoseconds | None:
        """Until when another source was asked for the history; None where it never was."""
        query = "SELECT until FROM backfill WHERE series = ?"

        def work(db: sqlite3.Connection) -> Nanoseconds | None:
            row = db.execute(query, (self._known_id(db, series),)).fetchone()
            return None if row is None else row[0]

        return self._read(work)

    def compact(self, now: Nanoseconds) -> Fault | None:
        """
        Move steps and minutes older than some hours into days, and forget what is too old to keep.

        Meant for once an hour. Space is used again by what is written later: the file stops growing at what 28 days
        need.
        """
        oldest_row, oldest_minute = (now - _ROWS_KEPT) // STEP, (now - MINUTE_ROWS_KEPT) // MINUTE

        def work(db: sqlite3.Connection) -> None:
            moved = db.execute("SELECT series, step, high FROM step WHERE step < ?", (oldest_row,)).fetchall()
            _merge_days(db, moved, _STEPS_PER_DAY)
            db.execute("DELETE FROM step WHERE step < ?", (oldest_row,))
            moved = db.execute("SELECT series, minute, high FROM minute WHERE minute < ?", (oldest_minute,)).fetchall()
            _merge_days(db, moved, _MINUTES_PER_DAY)
            db.execute("DELETE FROM minute WHERE minute < ?", (oldest_minute,))
            db.execute("DELETE FROM minutes WHERE day < ?", ((now - MINUTES_KEPT) // DAY,))
            db.execute("DELETE FROM day WHERE day < ?", ((now - STEPS_KEPT) // DAY,))
            db.execute("DELETE FROM forecast WHERE start < ?", (now - FORECASTS_KEPT,))
            db.execute("DELETE FROM stated WHERE step < ?", ((now - FORECASTS_KEPT) // STEP,))
            db.execute("DELETE FROM spend WHERE hour < ?", ((now - SPEND_KEPT) // HOUR,))
            self._forget_silent_series(db)
            # Before another thread may write: it would name a series that is gone.
            self._ids.clear()

        return self._write(work)

    def _forget_silent_series(self, db: sqlite3.Connection) -> None:
        """A series of which nothing is known any more goes, with its fits."""
        db.execute("""
            DELETE FROM series WHERE id NOT IN (SELECT series FROM day) AND id NOT IN (SELECT series FROM step)
                AND id NOT IN (SELECT series FROM minute)
        """)
        for table in ("fitted", "forecast", "stated", "spend", "backfill"):
            db.execute(f"DELETE FROM {table} WHERE series NOT IN (SELECT id FROM series)")  # noqa: S608 - literals
        db.execute("DELETE FROM fit WHERE id NOT IN (SELECT fit FROM fitted)")

    def _prepare(self) -> None:
        """
        Pragmas, and the schema where there is none.

        With WAL, synchronous=NORMAL keeps every commit through a kill -9; a power loss may cost the last of them.
        """
        # The controller writes while a worker reads and writes: wait for the other's transaction, do not fail.
        self._db.execute("PRAGMA busy_timeout = 10000")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        if self._version() in {0, *_MIGRATIONS}:
            self._db.execute("BEGIN IMMEDIATE")
            # Another process may have been first while this one waited for the lock: the version is read again.
            while (version := self._version()) in {0, *_MIGRATIONS}:
                for statement in (_MIGRATIONS[version] if version else _SCHEMA).split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {version + 1 if version else _SCHEMA_VERSION}")
            self._db.execute("COMMIT")
        if self._version() != _SCHEMA_VERSION:
            version = self._version()
            self._db.close()
            raise StoreError(
                f"{self.path}: schema version {version}: this release reads version {_SCHEMA_VERSION}; "
                "use the release that wrote it, or move the file away"
            )

    def _version(self) -> int:
        version: int = self._db.execute("PRAGMA user_version").fetchone()[0]
        return version

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T | Fault:
        """One transaction: all of `work`, or nothing and a Fault."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                done = work(self._db)
                self._db.execute("COMMIT")
            except _UNREADABLE as problem:
                self._undo()
                return Fault(f"{self.path}: {problem}: nothing was recorded")
            except BaseException:
                # A transaction left open would keep every other process out.
                self._undo()
                raise
            return done

    def _undo(self) -> None:
        # Names given out within the transaction must not be believed.
        self._ids.clear()
        with suppress(sqlite3.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """All of `work` on one state of the file: between two looks at it another process may move rows into days."""
        with self._lock:
            try:
                self._db.execute("BEGIN")
                return work(self._db)
            except _UNREADABLE as problem:
                raise StoreError(f"{self.path}: {problem}") from None
            finally:
                with suppress(sqlite3.Error):
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")

    def _id(self, db: sqlite3.Connection, series: Series) -> int:
        """The row of a series, made where there is none."""
        found = self._known_id(db, series)
        if found is None:
            key = (series.namespace, series.name, series.metric)
            db.execute("INSERT INTO series (namespace, name, metric) VALUES (?, ?, ?)", key)
            found = self._known_id(db, series)
            assert found is not None
        return found

    def _known_id(self, db: sqlite3.Connection, series: Series) -> int | None:
        if series not in self._ids:
            query = "SELECT id FROM series WHERE namespace = ? AND name = ? AND metric = ?"
            row = db.execute(query, (series.namespace, series.name, series.metric)).fetchone()
            if row is None:
                return None
            self._ids[series] = row[0]
        return self._ids[series]


def is_load(at: Nanoseconds, value: float) -> bool:
    """Whether a value can be a load at all: not negative, below 3.4e38, at an instant between 1970 and 2262."""
    return 0 <= value <= _FLOAT_MAX and 0 <= at < _INSTANT_END


def _raise(db: sqlite3.Connection, table: str, rows: Iterable[tuple[int, int, float]]) -> None:
    """Raise the maxima of `minute` or `step`, whose first column is named like the table."""
    db.executemany(
        f"INSERT INTO {table} VALUES (?, ?, ?) "  # noqa: S608 - one of two literals
        f"ON CONFLICT ({table}, series) DO UPDATE SET high = max(high, excluded.high)",
        rows,
    )


def _rows(db: sqlite3.Connection, table: str, series: int, first: int, end: int) -> list[tuple[int, float]]:
    """(time, high) of one series in `minute` or `step`: a look-up for each time, as the key begins with it."""
    # Apart, each is one look at the key's end; `SELECT min(x), max(x)` together reads the whole table.
    ends = f"SELECT (SELECT min({table}) FROM {table}), (SELECT max({table}) FROM {table})"  # noqa: S608 - a literal
    oldest, newest = db.execute(ends).fetchone()
    if oldest is None or max(first, oldest) > min(end - 1, newest):
        return []
    query = f"""
        WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
        SELECT at, high FROM clock CROSS JOIN {table} ON {table} = at AND series = ?
    """  # noqa: S608 - one of two literals
    return db.execute(query, (max(first, oldest), min(end - 1, newest), series)).fetchall()


def _merge_days(db: sqlite3.Connection, rows: Iterable[tuple[int, int, float]], per_day: int) -> None:
    """
    Raise the maxima of days by (series, time, high). per_day: how many such times a day has.

    Minutes raise the steps that they lie in.
    """
    days: dict[tuple[int, int], _Day] = {}
    for series, at, high in rows:
        number, offset = divmod(at, per_day)
        day = days.get((series, number))
        if day is None:
            day = days[series, number] = _Day.read(db, series, number)
        if per_day == _MINUTES_PER_DAY:
            day.raise_minute(offset, high)
        else:
            day.raise_step(offset, high)
    for (series, number), day in days.items():
        db.execute("INSERT OR REPLACE INTO day VALUES (?, ?, ?)", (series, number, _pack(day.highs)))
        if day.shares is not None:
            db.execute("INSERT OR REPLACE INTO minutes VALUES (?, ?, ?)", (series, number, day.shares))


class _Day:
    """
    Of one series: highs, the maxima of 288 steps; shares, 1440 minutes in 255ths of their step's, None where none is.

    Only what is raised is touched: an hour of 10,000 series is moved at once.
    """

    __slots__ = ("highs", "shares")

    def __init__(self, highs: array[float], shares: bytearray | None) -> None:
        self.highs = highs
        self.shares = shares

    @classmethod
    def read(cls, db: sqlite3.Connection, series: int, day: int) -> _Day:
        row = db.execute("SELECT highs FROM day WHERE series = ? AND day = ?", (series, day)).fetchone()
        if row is None:
            return cls(array("d", [math.nan]) * _STEPS_PER_DAY, None)
        packed = db.execute("SELECT shares FROM minutes WHERE series = ? AND day = ?", (series, day)).fetchone()
        return cls(_unpack(row[0]), bytearray(packed[0]) if packed else None)

    def raise_step(self, step: int, high: float) -> None:
        before = self.highs[step]
        if before >= high:
            return
        self.highs[step] = high
        if self.shares is not None and before >= 0:
            for i in range(step * _MINUTES_PER_STEP, (step + 1) * _MINUTES_PER_STEP):
                if self.shares[i]:
                    self.shares[i] = max(1, round(self.shares[i] * before / high))

    def raise_minute(self, minute: int, high: float) -> None:
        step = minute // _MINUTES_PER_STEP
        self.raise_step(step, high)
        if self.shares is None:
            self.shares = bytearray(_MINUTES_PER_DAY)
        most = self.highs[step]
        share = max(1, round(_WHOLE_STEP * high / most)) if most > 0 else _WHOLE_STEP
        self.shares[minute] = max(self.shares[minute], share)


def _lift(highs: array[float], place: int, high: float) -> None:
    highs[place] = high if math.isnan(highs[place]) else max(high, highs[place])


def _spread(shares: bytes, highs: array[float]) -> array[float]:
    """The maxima of 1440 minutes, NaN for a gap."""
    units = [high / _WHOLE_STEP for high in highs for _ in range(_MINUTES_PER_STEP)]
    return array("d", [unit * share if share else math.nan for unit, share in zip(units, shares, strict=True)])


def _joined(
    days: Sequence[tuple[int, array[float]]], rows: Sequence[tuple[int, float]], per_day: int
) -> tuple[int, array[float]]:
    """(time of the first, maxima of every time) of whole days and of single rows, NaN for a gap."""
    starts = [*(day * per_day for day, _ in days[:1]), *(at for at, _ in rows[:1])]
    ends = [*((day + 1) * per_day for day, _ in days[-1:]), *(at + 1 for at, _ in rows[-1:])]
    if not starts:
        return 0, array("d")
    begin = min(starts)
    highs = array("d", [math.nan]) * (max(ends) - begin)
    for day, known in days:
        highs[day * per_day - begin : (day + 1) * per_day - begin] = known
    for at, high in rows:
        _lift(highs, at - begin, high)
    return begin, highs


def _pack(highs: array[float]) -> bytes:
    return _FLOATS + little_endian(array("f", highs)).tobytes()


def _unpack(blob: bytes) -> array[float]:
    form = blob[:1]
    if form not in {_DOUBLES, _FLOATS}:
        raise sqlite3.DatabaseError(
            f"a day is written in form {form!r}: this release reads {_DOUBLES!r} and {_FLOATS!r}"
        )
    highs = array("d" if form == _DOUBLES else "f")
    highs.frombytes(blob[1:])
    return array("d", little_endian(highs))


def little_endian(values: array[float]) -> array[float]:
    """The same doubles in the file's byte order, or back from it."""
    if sys.byteorder == "little":
        return values
    swapped = array(values.typecode, values)
    swapped.byteswap()
    return swapped


def _trimmed(begin: int, highs: array[float], first: int, end: int) -> tuple[int, array[float]]:
    """Of maxima from time `begin` on those within [first, end), from the first known one to the last."""
    low, high = max(first - begin, 0), min(end - begin, len(highs))
    while low < high and math.isnan(highs[low]):
        low += 1
    while low < high and math.isnan(highs[high - 1]):
        high -= 1
    if low >= high:
        return first, array("d")
    return begin + low, highs[low:high]
