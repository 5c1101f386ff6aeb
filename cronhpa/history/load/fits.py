"""Fits of forecasting methods, and the newest fit of each series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.history.database.series import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cronhpa.history.database.database import Connection, Database, Fault


class Fit(Struct, frozen=True):
    """The parameters that a method fitted to several series, and the end of the history that it was fitted to."""

    model: str
    fitted_at: Nanoseconds
    trained_until: Nanoseconds
    state: bytes


class FitInfo(Struct, frozen=True):
    """When a series was fitted last, and for which spec."""

    fitted_at: Nanoseconds
    digest: str = ""
    """Digest of the parts of the object's spec that the fit depends on."""
    choice: bytes = b""
    """The chosen policy, or why there is none, as the worker wrote it."""


class Fits:
    """Keeps the newest fit of every series."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, fit: Fit, members: Mapping[Series, FitInfo]) -> Fault | None:
        """
        Keep a fit as the newest of its members, and forget every fit that is the newest of no series.

        Of a member's FitInfo, digest and choice are kept; `fitted_at` is the fit's.
        """
        insert = "INSERT INTO fit (model, fitted_at, trained_until, state) VALUES (?, ?, ?, ?) RETURNING id"
        link = """
            INSERT INTO fitted (series, fit, digest, choice) VALUES (?, ?, ?, ?) ON CONFLICT (series)
            DO UPDATE SET fit = excluded.fit, digest = excluded.digest, choice = excluded.choice
        """

        def work(db: Connection) -> None:
            ((fit_id,),) = db.execute(insert, (fit.model, fit.fitted_at, fit.trained_until, fit.state)).fetchall()
            find_or_add = self._database.ids.find_or_add
            rows = [(find_or_add(db, series), fit_id, info.digest, info.choice) for series, info in members.items()]
            db.executemany(link, rows)
            _forget_unused(db)

        return self._database.write(work)

    def infos(self) -> dict[Series, FitInfo]:
        """When and for which spec every series was fitted last."""
        query = """
            SELECT s.namespace, s.name, s.metric, fit.fitted_at, f.digest, f.choice
            FROM series s JOIN fitted f ON f.series = s.id JOIN fit ON fit.id = f.fit
        """
        return self._database.read(lambda db: {Series(*row[:3]): FitInfo(*row[3:]) for row in db.execute(query)})

    def newest(self, series: Sequence[Series]) -> list[tuple[Fit, list[Series]]]:
        """The newest fit of each of these series, as pairs of a fit and the series that share it."""
        query = "SELECT model, fitted_at, trained_until, state FROM fit WHERE id = ?"

        def work(db: Connection) -> list[tuple[Fit, list[Series]]]:
            series_by_id = {series_id: member for member, series_id in self._database.ids.find_all(db, series).items()}
            if not series_by_id:
                return []
            marks = ", ".join("?" * len(series_by_id))
            link = f"SELECT fit, series FROM fitted WHERE series IN ({marks}) ORDER BY series"  # noqa: S608 - question marks
            members: dict[int, list[Series]] = {}
            for fit_id, series_id in db.execute(link, [*series_by_id]):
                members.setdefault(fit_id, []).append(series_by_id[series_id])
            return [(Fit(*db.execute(query, (fit_id,)).fetchone()), of) for fit_id, of in members.items()]

        return self._database.read(work)

    def compact(self, db: Connection) -> None:
        """Forget the fits of series that are gone. Part of `Store.compact`, which gives the transaction."""
        db.execute("DELETE FROM fitted WHERE series NOT IN (SELECT id FROM series)")
        _forget_unused(db)


def _forget_unused(db: Connection) -> None:
    db.execute("DELETE FROM fit WHERE id NOT IN (SELECT fit FROM fitted)")
