"""
The load history's database in one SQLite file: opening, schema, migrations, transactions and faults.

All that is SQLite's own is here. Several processes open the file at once.

Loads have two levels. New ones are rows of `step` and `minute`, keyed (time, series), so that a minute's batch of all
series writes neighbouring rows. Old ones are blobs of `day` and `minutes`, one for each series and UTC day (`packing`).

A write that goes wrong (disk full, file locked, file damaged) gives a `Fault`: the operator goes on without history.
Opening and reading raise StoreError.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.history.database import Connection, Fault, StoreError
from cronhpa.history.series_ids import SeriesIds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

SCHEMA_VERSION = 4

# What was decided. last: the digest of the newest kept decision. bytes: of the object's blobs in `decided`.
# Times of `decided` are nanoseconds; those of points are counted in steps and days since the Unix epoch.
_DECISIONS = """
CREATE TABLE object (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, name TEXT NOT NULL, last TEXT NOT NULL,
    bytes INTEGER NOT NULL, UNIQUE (namespace, name)
);
CREATE TABLE decided (
    object INTEGER, first INTEGER, last INTEGER NOT NULL, packed BLOB NOT NULL, PRIMARY KEY (object, first)
);
CREATE TABLE point (
    step INTEGER, object INTEGER, replicas INTEGER NOT NULL, ready INTEGER, load REAL, floor INTEGER NOT NULL,
    cap INTEGER NOT NULL, forecast INTEGER, PRIMARY KEY (step, object)
) WITHOUT ROWID;
CREATE TABLE points (
    object INTEGER, day INTEGER, thinned INTEGER NOT NULL, packed BLOB NOT NULL, PRIMARY KEY (object, day)
)"""
_SCHEMA = f"""
CREATE TABLE series (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, name TEXT NOT NULL, metric TEXT NOT NULL,
    UNIQUE (namespace, name, metric)
);
-- Times are counted in steps, minutes and days since the Unix epoch.
CREATE TABLE minute (minute INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (minute, series)) WITHOUT ROWID;
CREATE TABLE step (step INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (step, series)) WITHOUT ROWID;
CREATE TABLE day (series INTEGER, day INTEGER, highs BLOB NOT NULL, PRIMARY KEY (series, day));
CREATE TABLE minutes (series INTEGER, day INTEGER, shares BLOB NOT NULL, PRIMARY KEY (series, day));
-- One fit covers many series: methods work on wide frames.
CREATE TABLE fit (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, fitted_at INTEGER NOT NULL, trained_until INTEGER NOT NULL,
    state BLOB NOT NULL
);
-- digest: of the parts of the object's spec that the fit depends on. choice: the chosen policy, or why there is none.
CREATE TABLE fitted (
    series INTEGER PRIMARY KEY, fit INTEGER NOT NULL, digest TEXT NOT NULL DEFAULT '', choice BLOB NOT NULL DEFAULT x''
);
CREATE INDEX fitted_by_fit ON fitted (fit);
-- The newest forecast.
CREATE TABLE forecast (series INTEGER PRIMARY KEY, start INTEGER NOT NULL, value BLOB NOT NULL);
-- For each step, the quantile that the newest forecast of the step before it had issued.
CREATE TABLE stated (
    step INTEGER, series INTEGER, load REAL NOT NULL, percent INTEGER NOT NULL, PRIMARY KEY (step, series)
) WITHOUT ROWID;
-- Pod-seconds of an hour: those that the forecast added, and those without the forecast.
CREATE TABLE spend (
    hour INTEGER, series INTEGER, extra REAL NOT NULL, base REAL NOT NULL, PRIMARY KEY (hour, series)
) WITHOUT ROWID;
-- The end of the history that was asked of another source.
CREATE TABLE backfill (series INTEGER PRIMARY KEY, until INTEGER NOT NULL);
{_DECISIONS};
"""
# By version: the statements that make a file of it one of the next version. Forecasts live for a day, so a migration
# drops those of earlier releases.
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
    3: _DECISIONS,
}

# SQLite has no checksums. A damaged file gives names that are not UTF-8, text in place of a number, or half a blob.
_UNREADABLE = (sqlite3.Error, msgspec.MsgspecError, TypeError, ValueError)

LOCK_TIMEOUT: Nanoseconds = 10 * SECOND


class SqliteDatabase:
    """
    One open connection to a file. Another process opens a connection of its own.

    `open` makes or migrates the file; `open_to_read` leaves it as it is.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._lock = threading.Lock()
        self._ids = SeriesIds()
        self._data_version = -1

    @classmethod
    def open(cls, path: Path, *, lock_timeout: Nanoseconds = LOCK_TIMEOUT) -> SqliteDatabase:
        """
        Open the file, make it where there is none, migrate it where an earlier release wrote it.

        lock_timeout: how long a write waits for a writing transaction of another connection.
        Raises StoreError.
        """
        try:
            connection = _connected(str(path), lock_timeout)
        except sqlite3.Error as problem:
            raise StoreError(f"{path}: {problem}: a path to a file in an existing, writable folder is needed") from None
        return cls._checked(path, connection, _prepare)

    @classmethod
    def open_to_read(cls, path: Path) -> SqliteDatabase:
        """
        Open a file to read it, whatever release wrote it; nothing is made or migrated, and `write` gives a Fault.

        Series and steps are the same in all versions. Reading a table that the file's version lacks raises StoreError.
        Raises StoreError.
        """
        try:
            connection = _connected(f"{path.absolute().as_uri()}?mode=ro", LOCK_TIMEOUT)
        except sqlite3.Error as problem:
            raise StoreError(f"{path}: {problem}: an existing, readable file is needed") from None
        return cls._checked(path, connection, _check_readable)

    @classmethod
    def _checked(
        cls, path: Path, connection: sqlite3.Connection, check: Callable[[sqlite3.Connection, Path], None]
    ) -> SqliteDatabase:
        try:
            check(connection, path)
        except StoreError:
            connection.close()
            raise
        except _UNREADABLE as problem:
            connection.close()
            raise StoreError(f"{path}: {problem}: a SQLite file written by cronhpa is needed") from None
        return cls(path, connection)

    @property
    def ids(self) -> SeriesIds:
        return self._ids

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def write(self, work: Callable[[Connection], T]) -> T | Fault:
        """Run `work` as one transaction: commit all of it, or nothing and return a Fault."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._check_ids()
                outcome = work(self._connection)
                self._connection.execute("COMMIT")
            except _UNREADABLE as problem:
                self._undo()
                return Fault(f"{self._path}: {problem}: nothing was recorded")
            except BaseException:
                # An open transaction would keep every other process from writing.
                self._undo()
                raise
            return outcome

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one unchanging state of the file: between two statements another process may compact it."""
        with self._lock:
            try:
                self._connection.execute("BEGIN")
                self._check_ids()
                return work(self._connection)
            except _UNREADABLE as problem:
                raise StoreError(f"{self._path}: {problem}") from None
            finally:
                self._roll_back()

    def _check_ids(self) -> None:
        # data_version changes with each commit of another connection, and with none of this connection.
        (data_version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if data_version != self._data_version:
            self._ids.check(self._connection)
            self._data_version = data_version

    def _undo(self) -> None:
        # Ids that the transaction gave to new series are void.
        self._ids.clear()
        self._roll_back()

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _connected(address: str, lock_timeout: Nanoseconds) -> sqlite3.Connection:
    """address: a path, or a URI that begins with `file:///`."""
    return sqlite3.connect(
        address,
        timeout=lock_timeout / SECOND,
        isolation_level=None,
        check_same_thread=False,
        uri=address.startswith("file:///"),
    )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """
    Set the pragmas, then make or migrate the schema.

    With WAL, synchronous=NORMAL keeps every commit through a kill -9; a power loss may cost the last commits.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if _version(connection) in {0, *_MIGRATIONS}:
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have migrated the file while this process waited for the lock: read the version again.
        while (version := _version(connection)) in {0, *_MIGRATIONS}:
            for statement in (_MIGRATIONS[version] if version else _SCHEMA).split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1 if version else SCHEMA_VERSION}")
        connection.execute("COMMIT")
    version = _version(connection)
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: schema version {version}: this release reads version {SCHEMA_VERSION}; "
            "use the release that wrote it, or move the file away"
        )


def _check_readable(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError for a file of a later release, or one that has no tables of the load history."""
    version = _version(connection)
    if version not in {*_MIGRATIONS, SCHEMA_VERSION}:
        raise StoreError(
            f"{path}: schema version {version}: this release reads versions {min(_MIGRATIONS)} to {SCHEMA_VERSION}; "
            "use the release that wrote it"
        )


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version
