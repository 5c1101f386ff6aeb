"""The newest forecast of every series, and the quantiles that forecasts of the last day had issued."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import DAY, Nanoseconds
from cronhpa.history.series import STEP, Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cronhpa.history.database import Connection, Database, Fault

# Coverage is counted over a day of issued quantiles. The standard error of a share of 0.95 among the 288 outcomes of a
# day is sqrt(0.95 * 0.05 / 288) = 0.013.
FORECASTS_KEPT: Nanoseconds = DAY

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Forecast)


class IssuedQuantile(Struct, frozen=True):
    """A forecast for the step that starts at `start`: `percent` of loads stay below `load`."""

    start: Nanoseconds
    load: float
    percent: int


class Forecasts:
    """Keeps forecasts, and what they said one step ahead."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, forecasts: Iterable[tuple[Series, Forecast]]) -> Fault | None:
        """Keep these forecasts as the newest of their series, and from each the quantile of its second step."""
        keep_forecast = """
            INSERT INTO forecast VALUES (?, ?, ?) ON CONFLICT (series)
            DO UPDATE SET start = excluded.start, value = excluded.value
        """
        keep_quantile = """
            INSERT INTO stated VALUES (?, ?, ?, ?) ON CONFLICT (step, series)
            DO UPDATE SET load = excluded.load, percent = excluded.percent
        """

        def work(db: Connection) -> None:
            find_or_add = self._database.ids.find_or_add
            rows = [(find_or_add(db, series), forecast) for series, forecast in forecasts]
            db.executemany(
                keep_forecast, ((series_id, forecast.start, _ENCODER.encode(forecast)) for series_id, forecast in rows)
            )
            db.executemany(
                keep_quantile,
                (
                    (forecast.start // STEP, series_id, forecast.load[1], forecast.quantile_percent)
                    for series_id, forecast in rows
                    if len(forecast.load) > 1
                ),
            )

        return self._database.write(work)

    def newest(self) -> dict[Series, Forecast]:
        """The forecast of every series that was saved last, however old."""
        query = "SELECT s.namespace, s.name, s.metric, f.value FROM series s JOIN forecast f ON f.series = s.id"
        return self._database.read(
            lambda db: {Series(*row[:3]): _DECODER.decode(row[3]) for row in db.execute(query)},
        )

    def newest_of(self, series: Series) -> Forecast | None:
        """The forecast of one series that was saved last; None where there is none."""
        query = "SELECT value FROM forecast WHERE series = ?"

        def work(db: Connection) -> Forecast | None:
            row = db.execute(query, (self._database.ids.find(db, series),)).fetchone()
            return None if row is None else _DECODER.decode(row[0])

        return self._database.read(work)

    def issued_quantiles(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> list[IssuedQuantile]:
        """The quantiles that were issued one step ahead for the steps that start in [since, until), in order."""
        query = """
            WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
            SELECT at, load, percent FROM clock CROSS JOIN stated WHERE step = at AND series = ? ORDER BY at
        """
        # A row stands at the step in which its quantile was issued, one step earlier.
        first, last = -(-since // STEP) - 1, -(-until // STEP) - 2

        def work(db: Connection) -> list[IssuedQuantile]:
            if first > last:
                return []
            rows = db.execute(query, (first, last, self._database.ids.find(db, series)))
            return [IssuedQuantile((step + 1) * STEP, load, percent) for step, load, percent in rows]

        return self._database.read(work)

    def compact(self, db: Connection, now: Nanoseconds) -> None:
        """
        Forget forecasts that are too old to keep, and those of series that are gone.

        Part of `Store.compact`, which gives the transaction.
        """
        db.execute("DELETE FROM forecast WHERE start < ?", (now - FORECASTS_KEPT,))
        db.execute("DELETE FROM stated WHERE step < ?", ((now - FORECASTS_KEPT) // STEP,))
        db.execute("DELETE FROM forecast WHERE series NOT IN (SELECT id FROM series)")
        db.execute("DELETE FROM stated WHERE series NOT IN (SELECT id FROM series)")
