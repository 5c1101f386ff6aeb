"""
What came of planned events: the report of each window that closed, for two years, also of events that were deleted.

Of an event the newest 200 reports are kept, and 100,000 of all together: an event may open each minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cronhpa.core.model.instant import DAY, Nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cronhpa.history.database.database import Connection, Database, Fault

REPORTS_KEPT: Nanoseconds = 730 * DAY
REPORTS_OF_EVENT = 200
REPORTS_MAX = 100_000


class PastReport(NamedTuple):
    """The report of a window of an event."""

    namespace: str
    """"" for a ClusterPlannedEvent."""
    name: str
    opened: Nanoseconds
    body: dict[str, Any]
    """The report as in the status, with the event's reason and the number of its objects."""


class EventReports:
    """Keeps reports by event and start. Instants are integer nanoseconds."""

    def __init__(self, database: Database, reports_max: int = REPORTS_MAX) -> None:
        self._database = database
        self._reports_max = reports_max

    def record(self, batch: Iterable[PastReport]) -> Fault | None:
        """Keep reports; a report of the same event and start replaces the former one."""
        rows = [(one.namespace, one.name, one.opened, msgspec.json.encode(one.body).decode()) for one in batch]
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
        db.execute("DELETE FROM report WHERE opened < ?", (now - REPORTS_KEPT,))
        many = "SELECT namespace, name FROM report GROUP BY namespace, name HAVING count(*) > ?"
        of_event = "SELECT opened FROM report WHERE namespace = ? AND name = ? ORDER BY opened DESC LIMIT 1 OFFSET ?"
        for event in db.execute(many, (REPORTS_OF_EVENT,)).fetchall():
            (newest,) = db.execute(of_event, (*event, REPORTS_OF_EVENT)).fetchone()
            db.execute("DELETE FROM report WHERE namespace = ? AND name = ? AND opened <= ?", (*event, newest))
        of_all = "SELECT opened FROM report ORDER BY opened DESC LIMIT 1 OFFSET ?"
        row = db.execute(of_all, (self._reports_max,)).fetchone()
        if row is not None:
            db.execute("DELETE FROM report WHERE opened <= ?", (row[0],))
