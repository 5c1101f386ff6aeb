"""
The row ids of series: looked up once, many in one query, then cached.

Another process may forget a series, and the series' id is then void. `check` drops the cache if that has happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpa.history.database.database import Connection
    from cronhpa.history.database.series import Series

# Each takes three parameters of a statement.
_SERIES_MAX = 500


class SeriesIds:
    """A cache of ids. Every method runs within a transaction of the database that owns the cache."""

    def __init__(self) -> None:
        self._ids: dict[Series, int] = {}
        self._table_state: tuple[int, int | None] | None = None

    def find(self, db: Connection, series: Series) -> int | None:
        """The id of a series; None where the database does not have the series."""
        cached = self._ids.get(series)
        return cached if cached is not None else self.find_all(db, [series]).get(series)

    def find_all(self, db: Connection, several: Sequence[Series]) -> dict[Series, int]:
        """The ids of those of the series that the database has, in order."""
        unknown = [series for series in several if series not in self._ids]
        for begin in range(0, len(unknown), _SERIES_MAX):
            part = unknown[begin : begin + _SERIES_MAX]
            rows = ", ".join(f"({place}, ?, ?, ?)" for place in range(len(part)))
            query = f"""
                WITH asked (place, namespace, name, metric) AS (VALUES {rows})
                SELECT place, id FROM asked JOIN series USING (namespace, name, metric)
            """  # noqa: S608 - numbers and question marks
            names = [text for series in part for text in (series.namespace, series.name, series.metric)]
            self._ids |= {part[place]: series_id for place, series_id in db.execute(query, names)}
        return {series: self._ids[series] for series in several if series in self._ids}

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

        No id is given twice. So while this process adds no series, an unchanged number of series and an unchanged
        largest id mean that every series of the cache is still there.
        """
        table_state = db.execute("SELECT count(*), max(id) FROM series").fetchone()
        if table_state != self._table_state:
            self._ids.clear()
            self._table_state = table_state

    def clear(self) -> None:
        """Drop the cache, because the transaction that gave ids was undone, or series were forgotten."""
        self._ids.clear()
