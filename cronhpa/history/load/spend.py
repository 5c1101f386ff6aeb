"""The pod-seconds that forecasts added, by hour of the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cronhpa.core.model.instant import DAY, HOUR, Nanoseconds
from cronhpa.history.database.forgetting import forget
from cronhpa.history.database.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cronhpa.history.database.database import Connection, Database, Fault

# A budget is averaged over seven days; the eighth keeps the first hour of the seven whole.
SPEND_KEPT: Nanoseconds = 8 * DAY


class Spend(Struct, frozen=True):
    """Pod-seconds of one object's pods within one hour of the clock."""

    series: Series
    hour: int
    """The hour, counted from the Unix epoch."""
    extra: float
    """Pod-seconds that the forecast added."""
    base: float
    """Pod-seconds without the forecast."""


class HourlySpend:
    """Keeps what the forecasts of all series spent in each hour."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, spends: Iterable[Spend]) -> Fault | None:
        """Add pod-seconds to those of the same series and hour."""
        upsert = """
            INSERT INTO spend VALUES (?, ?, ?, ?) ON CONFLICT (hour, series)
            DO UPDATE SET extra = spend.extra + excluded.extra, base = spend.base + excluded.base
        """

        def work(db: Connection) -> None:
            find_or_add = self._database.ids.find_or_add
            rows = [(spend.hour, find_or_add(db, spend.series), spend.extra, spend.base) for spend in spends]
            db.executemany(upsert, rows)

        return self._database.write(work)

    def since(self, begin: Nanoseconds) -> list[Spend]:
        """The spend of all series in the hours that begin at `begin` or later, in order of the hours."""
        query = """
            SELECT s.namespace, s.name, s.metric, spend.hour, spend.extra, spend.base
            FROM spend JOIN series s ON s.id = spend.series WHERE spend.hour >= ? ORDER BY spend.hour
        """
        values = (-(-begin // HOUR),)
        return self._database.read(lambda db: [Spend(Series(*row[:3]), *row[3:]) for row in db.execute(query, values)])

    def of(self, several: Sequence[Series], begin: Nanoseconds, end: Nanoseconds) -> list[Spend]:
        """The spend of some series in the hours that begin in [begin, end), in order of the hours."""
        query = """
            WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
            SELECT hour, extra, base FROM clock CROSS JOIN spend WHERE hour = at AND series = ?
        """
        first, last = -(-begin // HOUR), -(-end // HOUR) - 1

        def work(db: Connection) -> list[Spend]:
            ids = self._database.ids.find_all(db, several)
            found = [
                Spend(one, *row) for one, number in ids.items() for row in db.execute(query, (first, last, number))
            ]
            return sorted(found, key=lambda spend: spend.hour)

        return [] if last < first else self._database.read(work)

    def total(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> tuple[float, float]:
        """(extra, base) of one series, summed over the hours that begin in [since, until)."""
        spends = self.of([series], since, until)
        return sum((spend.extra for spend in spends), 0.0), sum((spend.base for spend in spends), 0.0)

    def compact(self, db: Connection, now: Nanoseconds) -> None:
        """
        Forget hours that are too old to keep, and those of series that are gone.

        Part of `Store.compact`, which gives the transaction.
        """
        forget(db, "spend", "hour", (now - SPEND_KEPT) // HOUR, DAY // HOUR)
        db.execute("DELETE FROM spend WHERE series NOT IN (SELECT id FROM series)")
