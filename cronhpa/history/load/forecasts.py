"""The newest forecast of every series, and the quantiles that forecasts issued during the last day."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.history.database.database import question_marks
from cronhpa.history.database.series import STEP, Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cronhpa.history.database.database import Connection, Database, Fault

T = TypeVar("T")

# Coverage is counted over a day of issued quantiles. The standard error of a share of 0.95 among the 288 outcomes of a
# day is sqrt(0.95 * 0.05 / 288) = 0.013.
FORECASTS_KEPT: Nanoseconds = DAY

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Forecast)


class IssuedQuantile(NamedTuple):
    """A forecast for the step that starts at `start`: `percent` of loads stay below `load`."""

    start: Nanoseconds
    load: float
    percent: int


class IssuedCoverage(Struct, frozen=True, tag="Forecast"):
    """The fields of a Forecast that state how often its quantile held: no other field is decoded."""

    start: Nanoseconds
    quantile_percent: int
    coverage_percent: int | None = None


_COVERAGE_DECODER = msgspec.msgpack.Decoder(IssuedCoverage)


class Forecasts:
    """Keeps forecasts, and the quantiles that they issued one step ahead."""

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

    def newest_of(self, series: Sequence[Series]) -> dict[Series, Forecast]:
        """The forecasts of these series that were saved last; those that have none are left out."""
        return self._newest(series, _DECODER)

    def newest_coverages(self, series: Sequence[Series]) -> dict[Series, IssuedCoverage]:
        """The coverage that the newest forecasts of these series state; series without a forecast are left out."""
        return self._newest(series, _COVERAGE_DECODER)

    def _newest(self, series: Sequence[Series], decoder: msgspec.msgpack.Decoder[T]) -> dict[Series, T]:
        def work(db: Connection) -> dict[Series, T]:
            series_by_id = self._ids(db, series)
            query = f"SELECT series, value FROM forecast WHERE series IN ({question_marks(series_by_id)})"  # noqa: S608 - question marks
            return {
                series_by_id[series_id]: decoder.decode(value)
                for series_id, value in db.execute(query, [*series_by_id])
            }

        return self._database.read(work)

    def issued_quantiles(
        self, series: Sequence[Series], since: Nanoseconds, until: Nanoseconds
    ) -> dict[Series, list[IssuedQuantile]]:
        """The quantiles that were issued one step ahead for the steps that start in [since, until), in order."""
        # A row stands at the step in which its quantile was issued, one step earlier.
        first, last = -(-since // STEP) - 1, -(-until // STEP) - 2

        def work(db: Connection) -> dict[Series, list[IssuedQuantile]]:
            issued: dict[Series, list[IssuedQuantile]] = {member: [] for member in series}
            if first > last:
                return issued
            series_by_id = self._ids(db, series)
            query = f"""
                WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
                SELECT series, (at + 1) * {STEP}, load, percent FROM clock CROSS JOIN stated
                WHERE step = at AND series IN ({question_marks(series_by_id)}) ORDER BY at
            """  # noqa: S608 - question marks
            for series_id, *quantile in db.execute(query, (first, last, *series_by_id)):
                issued[series_by_id[series_id]].append(IssuedQuantile._make(quantile))
            return issued

        return self._database.read(work)

    def _ids(self, db: Connection, series: Sequence[Series]) -> dict[int, Series]:
        """Those of the series that the store has, by their ids."""
        return {series_id: member for member, series_id in self._database.ids.find_all(db, series).items()}

    def compact(self, db: Connection, now: Nanoseconds) -> None:
        """
        Forget forecasts that are too old to keep, and those of series that are gone.

        Part of `Store.compact`, which gives the transaction.
        """
        db.execute("DELETE FROM forecast WHERE start < ?", (now - FORECASTS_KEPT,))
        db.execute("DELETE FROM stated WHERE step < ?", ((now - FORECASTS_KEPT) // STEP,))
        db.execute("DELETE FROM forecast WHERE series NOT IN (SELECT id FROM series)")
        db.execute("DELETE FROM stated WHERE series NOT IN (SELECT id FROM series)")
