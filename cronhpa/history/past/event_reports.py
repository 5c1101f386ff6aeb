"""
What came of planned events: the report of each window that closed, for two years, also of events that were deleted.

Of an event the newest 200 reports are kept, and 100,000 of all together, in equal shares of namespaces: an event may
open each minute, and a tenant may make very many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.model.levelled import levelled
from cronhpa.history.database.forgetting import forget
from cronhpa.history.database.series import INSTANT_END
from cronhpa.history.past.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cronhpa.history.database.database import Connection, Database, Fault

REPORTS_KEPT: Nanoseconds = 730 * DAY
REPORTS_OF_EVENT = 200
REPORTS_MAX = 100_000
REPORTS_WAITING = 1000


class PastReport(NamedTuple):
    """The report of a window of an event."""

    namespace: str
    """"" for a ClusterPlannedEvent."""
    name: str
    opened: Nanoseconds
    body: dict[str, Any]
    """The report as in the status, with the event's reason and the number of its objects."""


class WaitingReports(Waiting[PastReport]):
    """Reports that wait for the store, at most so many."""

    def __init__(self, most: int = REPORTS_WAITING) -> None:
        super().__init__(most, size=lambda _: 1)


class EventReports:
    """Keeps reports by event and start. Instants are integer nanoseconds."""

    def __init__(self, database: Database, reports_max: int = REPORTS_MAX) -> None:
        self._database = database
        self._reports_max = reports_max

    def record(self, batch: Iterable[PastReport]) -> Fault | None:
        """
        Keep reports; a report of the same event and start replaces the former one.

        A window may open in any year from 1 to 9999, a database has integers from 1970 to 2262: others are kept as of
        the nearest. The body has the true start.
        """
        rows = [
            (
                one.namespace,
                one.name,
                min(max(one.opened, 0), INSTANT_END - 1),
                msgspec.json.encode(one.body).decode(),
            )
            for one in batch
        ]
        insert = """
            INSERT INTO report (namespace, name, opened, body) VALUES (?, ?, ?, ?)
            ON CONFLICT (namespace, name, opened) DO UPDATE SET body = excluded.body
        """

        def work(db: Connection) -> None:
            db.executemany(insert, rows)

        return self._database.write(work)

    def newest(self, at_most: int = REPORTS_MAX) -> list[PastReport]:
        """The newest reports of all events, the newest first."""
        query = "SELECT namespace, name, opened, body FROM report ORDER BY opened DESC, namespace, name LIMIT ?"

        def work(db: Connection) -> list[PastReport]:
            rows = db.execute(query, (at_most,))
            return [PastReport(namespace, name, at, msgspec.json.decode(body)) for namespace, name, at, body in rows]

        return self._database.read(work)

    def compact(self, db: Connection, now: Nanoseconds) -> None:
        """Forget what is too old, and what is too much of one event or of all."""
        forget(db, "report", "opened", now - REPORTS_KEPT, DAY)
        many = "SELECT namespace, name FROM report GROUP BY namespace, name HAVING count(*) > ?"
        of_event = "SELECT opened FROM report WHERE namespace = ? AND name = ? ORDER BY opened DESC LIMIT 1 OFFSET ?"
        for event in db.execute(many, (REPORTS_OF_EVENT,)).fetchall():
            (newest,) = db.execute(of_event, (*event, REPORTS_OF_EVENT)).fetchone()
            db.execute("DELETE FROM report WHERE namespace = ? AND name = ? AND opened <= ?", (*event, newest))
        counts = dict(db.execute("SELECT namespace, count(*) FROM report GROUP BY namespace").fetchall())
        of_namespace = """
            SELECT opened, name FROM report WHERE namespace = ? ORDER BY opened DESC, name DESC LIMIT 1 OFFSET ?
        """
        for namespace, kept in levelled(counts, self._reports_max).items():
            if kept < counts[namespace]:
                newest = db.execute(of_namespace, (namespace, kept)).fetchone()
                db.execute("DELETE FROM report WHERE namespace = ? AND (opened, name) <= (?, ?)", (namespace, *newest))
