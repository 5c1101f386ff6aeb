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
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.history.database.database import Connection, Fault, StoreError
from cronhpa.history.database.schema import SCHEMA, Schema
from cronhpa.history.database.series_ids import SeriesIds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


def backup(path: Path, copy: Path) -> Path:
    """Copy a file as of one instant while others write to it; returns the copy. Raises StoreError."""
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.Error as problem:
        raise StoreError(f"{path}: {problem}") from problem
    return copy


# SQLite has no checksums. A damaged file gives names that are not UTF-8, text in place of a number, or half a blob. An
# OverflowError is a number to be written that has more than 64 bits.
_UNREADABLE = (sqlite3.Error, msgspec.MsgspecError, TypeError, ValueError, OverflowError)

LOCK_TIMEOUT: Nanoseconds = 10 * SECOND


class SqliteDatabase:
    """
    One open connection to a file. Another process opens a connection of its own.

    `open` makes or migrates the file; `open_unmigrated` makes it, and refuses one of an earlier release; `open_to_read`
    leaves it as it is.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, version: int) -> None:
        self._path = path
        self._connection = connection
        self._version = version
        self._lock = threading.Lock()
        self._ids = SeriesIds()
        self._data_version = -1

    @classmethod
    def open(cls, path: Path, *, lock_timeout: Nanoseconds = LOCK_TIMEOUT, schema: Schema = SCHEMA) -> SqliteDatabase:
        """
        Open the file, make it where there is none, migrate it where an earlier release wrote it.

        lock_timeout: how long a write waits for a writing transaction of another connection.
        Raises StoreError.
        """
        return cls._checked(path, _connected_to_write(path, lock_timeout), partial(_migrate, schema))

    @classmethod
    def open_unmigrated(cls, path: Path, *, schema: Schema = SCHEMA) -> SqliteDatabase:
        """As `open`, but refuse a file of an earlier release: its operator may be using it. Raises StoreError."""
        return cls._checked(path, _connected_to_write(path, LOCK_TIMEOUT), partial(_make, schema))

    @classmethod
    def open_to_read(cls, path: Path, *, schema: Schema = SCHEMA) -> SqliteDatabase:
        """
        Open a file to read it, whatever release wrote it; nothing is made or migrated, and `write` gives a Fault.

        Series and steps are the same in all versions. Reading a table that the file's version lacks raises StoreError.
        Raises StoreError.
        """
        try:
            connection = _connected(f"{path.absolute().as_uri()}?mode=ro", LOCK_TIMEOUT)
        except sqlite3.Error as problem:
            raise StoreError(f"{path}: {problem}: an existing, readable file is needed") from None
        return cls._checked(path, connection, partial(_check_readable, schema))

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
        return cls(path, connection, _version(connection))

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
            except StoreError as problem:
                self._undo()
                return Fault(f"{problem}: nothing was recorded")
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
            if _version(self._connection) != self._version:
                raise StoreError(f"{self._path}: a process of another release migrated it while it was open")
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


def _connected_to_write(path: Path, lock_timeout: Nanoseconds) -> sqlite3.Connection:
    try:
        return _connected(str(path), lock_timeout)
    except sqlite3.Error as problem:
        raise StoreError(f"{path}: {problem}: a path to a file in an existing, writable folder is needed") from None


def _connected(address: str, lock_timeout: Nanoseconds) -> sqlite3.Connection:
    """address: a path, or a URI that begins with `file:///`."""
    return sqlite3.connect(
        address,
        timeout=lock_timeout / SECOND,
        isolation_level=None,
        check_same_thread=False,
        uri=address.startswith("file:///"),
    )


def _migrate(schema: Schema, connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or migrate them."""
    _set_pragmas(connection)
    if _version(connection) in {0, *schema.migrations}:
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have migrated the file while this process waited for the lock: read the version again.
        while (version := _version(connection)) in {0, *schema.migrations}:
            script, reached = (schema.migrations[version], version + 1) if version else (schema.tables, schema.version)
            _run(connection, script, reached)
        connection.execute("COMMIT")
    _check_current(schema, connection, path)


def _make(schema: Schema, connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables where there are none."""
    if _version(connection) == 0:
        _set_pragmas(connection)
        connection.execute("BEGIN IMMEDIATE")
        if _version(connection) == 0:
            _run(connection, schema.tables, schema.version)
        connection.execute("COMMIT")
    _check_current(schema, connection, path)
    # Again for each connection: `synchronous` is a setting of the connection, not of the file.
    _set_pragmas(connection)


def _set_pragmas(connection: sqlite3.Connection) -> None:
    """With WAL, synchronous=NORMAL keeps every commit through a kill -9; a power loss may cost the last commits."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _run(connection: sqlite3.Connection, script: str, reached: int) -> None:
    for statement in script.split(";\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {reached}")


def _check_current(schema: Schema, connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    if version in schema.migrations:
        raise StoreError(
            f"{path}: schema version {version} of an earlier release, whose operator may be using it: this release "
            f"writes version {schema.version}; upgrade the operator, which migrates it"
        )
    if version != schema.version:
        raise StoreError(
            f"{path}: schema version {version}: this release reads version {schema.version}; "
            "use the release that wrote it, or move the file away"
        )


def _check_readable(schema: Schema, connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError for a file of a later release, or one that has no tables of the load history."""
    version = _version(connection)
    if version not in {*schema.migrations, schema.version}:
        raise StoreError(
            f"{path}: schema version {version}: this release reads versions {min(schema.migrations)} to "
            f"{schema.version}; "
            "use the release that wrote it"
        )


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version
