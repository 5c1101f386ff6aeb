"""
The row ids of series: looked up once, then cached.

Another process may forget a series, whose id then stands for nothing. `check` drops the cache when that has happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronhpa.history.database import Connection
    from cronhpa.history.series import Series


class SeriesIds:
    """A cache of ids. Every method runs within a transaction of the database that owns the cache."""

    def __init__(self) -> None:
        self._ids: dict[Series, int] = {}
        self._table_state: tuple[int, int | None] | None = None

    def find(self, db: Connection, series: Series) -> int | None:
        """The id of a series; None where the database does not have the series."""
        cached = self._ids.get(series)
        if cached is not None:
            return cached
        query = "SELECT id FROM series WHERE namespace = ? AND name = ? AND metric = ?"
        row = db.execute(query, (series.namespace, series.name, series.metric)).fetchone()
        if row is None:
            return None
        series_id: int = row[0]
        self._ids[series] = series_id
        return series_id

    def find_or_add(self, db: Connection, series: Series) -> int:
        """The id of a series, which is added where the database does not have the series."""
        series_id = self.find(db, series)
        if series_id is not None:
            return series_id
        insert = "INSERT INTO series (namespace, name, metric) VALUES (?, ?, ?) RETURNING id"
        ((added,),) = db.execute(insert, (series.namespace, series.name, series.metric)).fetchall()
        self._ids[series] = added
        self._table_state = None
        return int(added)

    def check(self, db: Connection) -> None:
        """
        Drop the cache if a series was forgotten since the last check; for a database that others have written to.

        Ids are never given twice. So as long as this process adds no series, the number of series and their largest id
        together are the same again only if every series of the cache is still there.
        """
        table_state = db.execute("SELECT count(*), max(id) FROM series").fetchone()
        if table_state != self._table_state:
            self._ids.clear()
            self._table_state = table_state

    def clear(self) -> None:
        """Drop the cache: ids of this transaction are void, or series were forgotten."""
        self._ids.clear()
