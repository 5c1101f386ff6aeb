"""
The operator's store: loads, fits, forecasts, spend, past decisions and reports of events in one database.

    store = Store(path)
    store.loads.record(batch)
    store.loads.history(series, since, until)
    store.forecasts.newest()

The store chooses the database by its address: a file, or a PostgreSQL. Its parts know transactions and portable SQL
alone (`database`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cronhpa.history.database.address import PortableAddress, PostgresAddress, StoreAddress
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.sqlite import SqliteDatabase
from cronhpa.history.load.fits import Fits
from cronhpa.history.load.forecasts import Forecasts
from cronhpa.history.load.load_history import LoadHistory
from cronhpa.history.load.spend import HourlySpend
from cronhpa.history.past.decisions import DecisionHistory
from cronhpa.history.past.event_reports import EventReports

if TYPE_CHECKING:
    from collections.abc import Callable

    from cronhpa.core.model.instant import Nanoseconds
    from cronhpa.history.database.database import Connection, Database, Fault
    from cronhpa.history.database.postgres import PostgresDatabase


class Store:
    """
    One open store, for any thread, one thread at a time. Another process opens a store of its own.

    Instants are integer nanoseconds. `now` is an argument.
    """

    def __init__(
        self, address: StoreAddress | PortableAddress, open_database: Callable[[StoreAddress], Database] | None = None
    ) -> None:
        """
        Open the store to write and read. Raises StoreError.

        address: a text is the path of a file. By default tables are made where there are none, and migrated where an
        earlier release made them.
        """
        self.address: StoreAddress = Path(address) if isinstance(address, str) else address
        self.database = (open_database or _open)(self.address)
        self.loads = LoadHistory(self.database)
        self.fits = Fits(self.database)
        self.forecasts = Forecasts(self.database)
        self.spend = HourlySpend(self.database)
        self.decisions = DecisionHistory(self.database)
        self.reports = EventReports(self.database)

    @classmethod
    def open_unmigrated(cls, address: StoreAddress) -> Store:
        """As `Store(address)`, but a store of an earlier release is refused: its operator may be using it."""
        return cls(address, _open_unmigrated)

    @classmethod
    def open_to_read(cls, address: StoreAddress | PortableAddress) -> Store:
        """Open an existing store, of this release or an earlier one, and change nothing in it. Raises StoreError."""
        return cls(address, _open_to_read)

    def compact(self, now: Nanoseconds) -> Fault | None:
        """
        Pack the loads of past hours into days, and forget everything that is too old to keep.

        Meant for once an hour. Later writes use the freed space, so the file stops growing after 28 days.
        """

        def work(db: Connection) -> None:
            # The loads first: they say which series are gone.
            self.loads.compact(db, now)
            self.fits.compact(db)
            self.forecasts.compact(db, now)
            self.spend.compact(db, now)
            self.reports.compact(db, now)

        return self.database.write(work)

    def close(self) -> None:
        self.database.close()


def _open(address: StoreAddress) -> Database:
    return _postgres().open(address) if isinstance(address, PostgresAddress) else SqliteDatabase.open(address)


def _open_unmigrated(address: StoreAddress) -> Database:
    if isinstance(address, PostgresAddress):
        return _postgres().open_unmigrated(address)
    return SqliteDatabase.open_unmigrated(address)


def _open_to_read(address: StoreAddress) -> Database:
    if isinstance(address, PostgresAddress):
        return _postgres().open_to_read(address)
    return SqliteDatabase.open_to_read(address)


def _postgres() -> type[PostgresDatabase]:
    try:
        from cronhpa.history.database.postgres import PostgresDatabase  # noqa: PLC0415 - psycopg: for who has a PostgreSQL
    except ImportError as problem:
        raise StoreError(f"{problem}: install cronhpa[postgresql] for a store in PostgreSQL") from None
    return PostgresDatabase
