"""
The operator's store: loads, fits, forecasts, spend and past decisions in one database.

    store = Store(path)
    store.loads.record(batch)
    store.loads.history(series, since, until)
    store.forecasts.newest()

The store chooses the database. Its parts know transactions and portable SQL alone (`database`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpa.history.decisions import DecisionHistory
from cronhpa.history.fits import Fits
from cronhpa.history.forecasts import Forecasts
from cronhpa.history.load_history import LoadHistory
from cronhpa.history.spend import HourlySpend
from cronhpa.history.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cronhpa.core.instant import Nanoseconds
    from cronhpa.history.database import Connection, Database, Fault


class Store:
    """
    One open store, for any thread, one thread at a time. Another process opens a store of its own.

    Instants are integer nanoseconds. `now` is an argument.
    """

    def __init__(self, path: Path, open_database: Callable[[Path], Database] = SqliteDatabase.open) -> None:
        """
        Open the store to write and read. Raises StoreError.

        By default a file is made where there is none, and migrated where an earlier release wrote it.
        """
        self.path = path
        self._database = open_database(path)
        self.loads = LoadHistory(self._database)
        self.fits = Fits(self._database)
        self.forecasts = Forecasts(self._database)
        self.spend = HourlySpend(self._database)
        self.decisions = DecisionHistory(self._database)

    @classmethod
    def open_to_read(cls, path: Path) -> Store:
        """Open an existing store, of this release or an earlier one, and change nothing in it. Raises StoreError."""
        return cls(path, SqliteDatabase.open_to_read)

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

        return self._database.write(work)

    def close(self) -> None:
        self._database.close()
