"""
What was decided: every kept decision for a week, and the one that was in force when it began; a point every five
minutes for a week, every hour for 90 days.

A decision is added to the newest block of its object (`past_decision`). A block ends when it is full, and with its UTC
day. New points are rows. Every six hours, each object at a minute of its own, `tidy` packs an object's points into days
(`points`), thins those that are a week old, and forgets what is too old. So the work comes in small transactions.

All decisions together take at most DECISIONS_BYTES_MAX. Beyond that the namespace with the most forgets the oldest of
its largest object: an object that changes its mind every second shortens its own past, not that of its neighbours, and
a tenant with very many objects that of their namespace.

An object's past belongs to its name. After its deletion it is kept for as long as decisions are: a week.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, Nanoseconds
from cronhpa.history.past.past_decision import PastDecision, is_full, pack, unpack
from cronhpa.history.past.points import POINT_STEP, Point, pack_points, thinned, unpack_points

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cronhpa.history.database.database import Connection, Database, Fault

DECISIONS_KEPT: Nanoseconds = 7 * DAY
POINTS_KEPT: Nanoseconds = 7 * DAY
HOURS_KEPT: Nanoseconds = 90 * DAY
# With 10,000 objects 55 kB each: some 145 changes. With their pages and the points, the store is 1.1 GB larger.
DECISIONS_BYTES_MAX = 550 * 10**6

_MINUTES_PER_ROUND = 6 * HOUR // MINUTE
# Points stay rows for so long: a late batch can still add to them.
_ROWS_KEPT: Nanoseconds = HOUR
# Rows are looked up step by step. One that a wrong clock has left in the year 1970 or 2200 must not make that millions.
_ROWS_AHEAD: Nanoseconds = DAY
# An object that has too much loses its oldest quarter at once.
_FORGOTTEN_SHARE = 4
_TRIMS_AT_ONCE = 200
# After a pause `tidy` makes up for so many minutes; the objects of earlier minutes wait for the next round.
_MINUTES_AT_ONCE = 10

_UPSERT = """
    INSERT INTO decided VALUES (?, ?, ?, ?)
    ON CONFLICT (object, first) DO UPDATE SET last = excluded.last, packed = excluded.packed
"""


class KeptDecision(NamedTuple):
    """A decision to be kept."""

    namespace: str
    name: str
    digest: str
    """Digest of the parts by which it differs from a repetition of the decision before."""
    decision: PastDecision


class DecisionHistory:
    """Keeps what was decided, by namespace and name. Instants are integer nanoseconds; spans are [since, until)."""

    def __init__(self, database: Database, bytes_max: int = DECISIONS_BYTES_MAX) -> None:
        self._database = database
        self._bytes_max = bytes_max
        self._tidied: int | None = None

    def record(self, batch: Iterable[KeptDecision]) -> Fault | None:
        """
        Keep decisions, in order, in one transaction.

        A decision with the digest of the object's last kept one is left out: a new process repeats the last decision.
        Not if it is older than a kept one, because the clock was set back: it is in force from then on, too.
        """
        decisions = list(batch)
        later = "SELECT 1 FROM decided WHERE object = ? AND last > ? LIMIT 1"
        note = "UPDATE object SET last = ?, bytes = bytes + ? WHERE id = ?"

        def work(db: Connection) -> None:
            for kept in decisions:
                object_id, last = _find_or_add(db, kept.namespace, kept.name)
                if last != kept.digest or db.execute(later, (object_id, kept.decision.at)).fetchone():
                    db.execute(note, (kept.digest, _add(db, object_id, kept.decision), object_id))

        return self._database.write(work)

    def record_points(self, batch: Iterable[tuple[str, str, Point]]) -> Fault | None:
        """Keep points of (namespace, name), in one transaction: the first of each object and step."""
        insert = "INSERT INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (step, object) DO NOTHING"
        points = list(batch)

        def work(db: Connection) -> None:
            db.executemany(insert, (_row(_find_or_add(db, *of)[0], point) for *of, point in points))

        return self._database.write(work)

    def at(self, namespace: str, name: str, instant: Nanoseconds) -> PastDecision | None:
        """The decision that was in force at an instant: the last one at or before it; None where none is kept."""
        query = "SELECT packed FROM decided WHERE object = ? AND first <= ? ORDER BY first DESC LIMIT 1"

        def work(db: Connection) -> PastDecision | None:
            row = db.execute(query, (_find(db, namespace, name), instant)).fetchone()
            return None if row is None else [decision for decision in unpack(row[0]) if decision.at <= instant][-1]

        return self._database.read(work)

    def after(self, namespace: str, name: str, instant: Nanoseconds) -> PastDecision | None:
        """The first kept decision after an instant."""
        query = "SELECT packed FROM decided WHERE object = ? AND last > ? ORDER BY first LIMIT 1"

        def work(db: Connection) -> PastDecision | None:
            row = db.execute(query, (_find(db, namespace, name), instant)).fetchone()
            return None if row is None else next(decision for decision in unpack(row[0]) if decision.at > instant)

        return self._database.read(work)

    def between(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds, at_most: int
    ) -> list[PastDecision]:
        """The first `at_most` decisions of [since, until), in order."""
        query = "SELECT packed FROM decided WHERE object = ? AND last >= ? AND first < ? ORDER BY first"

        def work(db: Connection) -> list[PastDecision]:
            decisions: list[PastDecision] = []
            for (packed,) in db.execute(query, (_find(db, namespace, name), since, until)):
                decisions += [decision for decision in unpack(packed) if since <= decision.at < until]
                if len(decisions) >= at_most:
                    break
            return decisions[:at_most]

        return self._database.read(work)

    def points(self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds) -> list[Point]:
        """The points of [since, until), in order."""
        packed = "SELECT packed FROM points WHERE object = ? AND day BETWEEN ? AND ? ORDER BY day"

        def work(db: Connection) -> list[Point]:
            object_id = _find(db, namespace, name)
            if object_id is None or until <= since:
                return []
            days = db.execute(packed, (object_id, since // DAY, (until - 1) // DAY))
            points = [point for (blob,) in days for point in unpack_points(blob)]
            points += _point_rows(db, object_id, since // POINT_STEP, -(-until // POINT_STEP))
            return sorted((point for point in points if since <= point.at < until), key=lambda point: point.at)

        return self._database.read(work)

    def first(self, namespace: str, name: str) -> Nanoseconds | None:
        """The instant of the oldest kept decision; None where none is kept."""
        query = "SELECT min(first) FROM decided WHERE object = ?"

        def work(db: Connection) -> Nanoseconds | None:
            instant: Nanoseconds | None = db.execute(query, (_find(db, namespace, name),)).fetchone()[0]
            return instant

        return self._database.read(work)

    def tidy(self, now: Nanoseconds) -> Fault | None:
        """
        Pack, thin and forget the decisions and points of the objects whose minute has come since the last call.

        Meant to be called every minute or oftener; within the same minute it does nothing.
        """
        minute = now // MINUTE
        if minute == self._tidied:
            return None
        begin = minute - 1 if self._tidied is None or self._tidied > minute else self._tidied
        phases = {at % _MINUTES_PER_ROUND for at in range(max(begin, minute - _MINUTES_AT_ONCE) + 1, minute + 1)}
        self._tidied = minute

        def work(db: Connection) -> None:
            db.execute("DELETE FROM point WHERE step < ?", ((now - HOURS_KEPT) // POINT_STEP,))
            for phase in sorted(phases):
                due = f"SELECT id FROM object WHERE id % {_MINUTES_PER_ROUND} = ?"  # noqa: S608 - a constant
                for (object_id,) in db.execute(due, (phase,)).fetchall():
                    _tidy(db, object_id, now)
            self._trim(db)

        return self._database.write(work)

    def _trim(self, db: Connection) -> None:
        """Forget the oldest decisions of the namespaces and objects that have the most, until all fit."""
        largest = "SELECT id, bytes FROM object WHERE namespace = ? ORDER BY bytes DESC LIMIT 1"
        sizes = dict(db.execute("SELECT namespace, sum(bytes) FROM object GROUP BY namespace").fetchall())
        for _ in range(_TRIMS_AT_ONCE):
            if sum(sizes.values()) <= self._bytes_max:
                return
            crowded = max(sizes, key=sizes.__getitem__)
            object_id, size = db.execute(largest, (crowded,)).fetchone()
            rows = db.execute("SELECT first, length(packed) FROM decided WHERE object = ? ORDER BY first", (object_id,))
            gone: list[tuple[int, int]] = []
            freed = 0
            for first, length in rows.fetchall():
                if freed * _FORGOTTEN_SHARE >= size and gone:
                    break
                gone.append((object_id, first))
                freed += length
            if not gone:
                # The count of bytes was wrong: a damaged file, or one that another release wrote to.
                freed = size
            db.executemany("DELETE FROM decided WHERE object = ? AND first = ?", gone)
            db.execute("UPDATE object SET bytes = bytes - ? WHERE id = ?", (freed, object_id))
            sizes[crowded] -= freed


def merge_blocks(db: Connection, rows: Sequence[Sequence[Any]]) -> None:
    """
    Add blocks of another store: rows of `decided`.

    Replicas with stores of their own lead in turns, so blocks of one store begin within those of another. Blocks that
    overlap become some that do not. Each row begins one of them: there are no fewer blocks afterwards. Of two decisions
    of an instant that of the rows stays.
    """
    blocks = "SELECT first, packed FROM decided WHERE object = ? AND first <= ? AND last >= ? ORDER BY first"
    # The newest decision may be of either store then: the next one is kept, whichever it repeats.
    forget_newest = "UPDATE object SET last = '' WHERE id = ? AND EXISTS (SELECT 1 FROM decided WHERE object = ?)"
    db.executemany(forget_newest, [(object_id, object_id) for object_id in {row[0] for row in rows}])
    for object_id, first, last, packed in rows:
        overlapped = db.execute(blocks, (object_id, last, first)).fetchall()
        decisions = {decision.at: decision for block in (*overlapped, (first, packed)) for decision in _block(block[1])}
        if first not in decisions:  # a damaged block stays as it is
            db.executemany(_UPSERT, [(object_id, first, last, packed)])
            continue
        parts: list[list[PastDecision]] = []
        for at in sorted(decisions):
            if not parts or at == first or is_full(parts[-1]):
                parts.append([])
            parts[-1].append(decisions[at])
        db.executemany("DELETE FROM decided WHERE object = ? AND first = ?", [(object_id, of) for of, _ in overlapped])
        db.executemany(_UPSERT, _rows(object_id, parts))


def _find(db: Connection, namespace: str, name: str) -> int | None:
    row = db.execute("SELECT id FROM object WHERE namespace = ? AND name = ?", (namespace, name)).fetchone()
    return None if row is None else row[0]


def _find_or_add(db: Connection, namespace: str, name: str) -> tuple[int, str]:
    """(id, digest of the last kept decision) of an object."""
    query = "SELECT id, last FROM object WHERE namespace = ? AND name = ?"
    row = db.execute(query, (namespace, name)).fetchone()
    if row is not None:
        return row[0], row[1]
    insert = "INSERT INTO object (namespace, name, last, bytes) VALUES (?, ?, '', 0) RETURNING id"
    ((added,),) = db.execute(insert, (namespace, name)).fetchall()
    return added, ""


def _add(db: Connection, object_id: int, decision: PastDecision) -> int:
    """Add a decision to the block that it belongs to, or to a new one; the bytes that the blocks grew by."""
    query = "SELECT first, packed FROM decided WHERE object = ? AND first <= ? ORDER BY first DESC LIMIT 1"
    row = db.execute(query, (object_id, decision.at)).fetchone()
    first, packed = (decision.at, b"") if row is None else row
    block = _block(packed) if first // DAY == decision.at // DAY else []
    before = [member for member in block if member.at <= decision.at]
    after = block[len(before) :]
    # After the clock stepped back, a decision goes between those of a block: blocks do not overlap. A full one ends at
    # it, because a clock that was ahead for hours would let it grow until it is too long to be read.
    if not block or (is_full(block) and not after):
        parts, packed = [[decision]], b""
    elif after and is_full(block):
        parts = [[*before, decision], after]
    else:
        parts = [[*before, decision, *after]]
    rows = _rows(object_id, parts)
    db.executemany(_UPSERT, rows)
    return sum(len(row[-1]) for row in rows) - len(packed)


def _rows(object_id: int, parts: Iterable[Sequence[PastDecision]]) -> list[tuple[int, Nanoseconds, Nanoseconds, bytes]]:
    return [(object_id, part[0].at, part[-1].at, pack(part)) for part in parts]


def _block(packed: bytes) -> list[PastDecision]:
    """The decisions of a block; of a damaged one none, so that the next decision begins another."""
    try:
        return unpack(packed)
    except ValueError:
        return []


def _row(object_id: int, point: Point) -> tuple[object, ...]:
    return (
        point.at // POINT_STEP,
        object_id,
        point.replicas,
        point.ready,
        point.load,
        point.floor,
        point.cap,
        point.forecast,
    )


def _point_rows(db: Connection, object_id: int, first: int, end: int) -> list[Point]:
    """The rows of the steps [first, end): one look-up for each step, as the key begins with the step."""
    oldest, newest = db.execute("SELECT (SELECT min(step) FROM point), (SELECT max(step) FROM point)").fetchone()
    if oldest is None or max(first, oldest) > min(end - 1, newest):
        return []
    # SQLite keeps the order of a CROSS JOIN: the clock first, then the table by its key.
    query = """
        WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
        SELECT at, replicas, ready, load, floor, cap, forecast
        FROM clock CROSS JOIN point WHERE step = at AND object = ? ORDER BY at
    """
    rows = db.execute(query, (max(first, oldest), min(end - 1, newest), object_id))
    return [Point(step * POINT_STEP, *row) for step, *row in rows]


def _tidy(db: Connection, object_id: int, now: Nanoseconds) -> None:
    newest = _newest(db, object_id, now)
    if newest is None or newest < now - DECISIONS_KEPT:
        db.execute("DELETE FROM decided WHERE object = ?", (object_id,))
        db.execute("DELETE FROM point WHERE object = ?", (object_id,))
        db.execute("DELETE FROM points WHERE object = ?", (object_id,))
        db.execute("DELETE FROM object WHERE id = ?", (object_id,))
        return
    _pack_points(db, object_id, now)
    _thin_points(db, object_id, now)
    # Whatever its age, the decision that was in force a week ago stays: a steady object makes no other.
    db.execute(
        """
        DELETE FROM decided WHERE object = ? AND first < (
            SELECT max(first) FROM decided WHERE object = ? AND first <= ?
        )
        """,
        (object_id, object_id, now - DECISIONS_KEPT),
    )
    (size,) = db.execute("SELECT sum(length(packed)) FROM decided WHERE object = ?", (object_id,)).fetchone()
    db.execute("UPDATE object SET bytes = ? WHERE id = ?", (size or 0, object_id))


def _newest(db: Connection, object_id: int, now: Nanoseconds) -> Nanoseconds | None:
    """The last instant that something is kept of for the object; None if nothing is of the time that is kept."""
    (decided,) = db.execute("SELECT max(last) FROM decided WHERE object = ?", (object_id,)).fetchone()
    (day,) = db.execute("SELECT max(day) FROM points WHERE object = ?", (object_id,)).fetchone()
    rows = _point_rows(db, object_id, (now - DECISIONS_KEPT) // POINT_STEP, (now + _ROWS_AHEAD) // POINT_STEP)
    ends = (decided, None if day is None else (day + 1) * DAY, rows[-1].at if rows else None)
    return max((end for end in ends if end is not None), default=None)


def _pack_points(db: Connection, object_id: int, now: Nanoseconds) -> None:
    (oldest,) = db.execute("SELECT min(step) FROM point").fetchone()
    end = (now - _ROWS_KEPT) // POINT_STEP
    if oldest is None or oldest >= end:
        return
    by_day: defaultdict[int, list[Point]] = defaultdict(list)
    rows = _point_rows(db, object_id, oldest, end)
    for point in rows:
        by_day[point.at // DAY].append(point)
    upsert = """
        INSERT INTO points VALUES (?, ?, 0, ?) ON CONFLICT (object, day)
        DO UPDATE SET packed = excluded.packed, thinned = 0
    """
    for day, added in by_day.items():
        row = db.execute("SELECT packed FROM points WHERE object = ? AND day = ?", (object_id, day)).fetchone()
        of_day = {point.at: point for point in (*added, *(unpack_points(row[0]) if row else ()))}
        db.execute(upsert, (object_id, day, pack_points([of_day[at] for at in sorted(of_day)])))
    db.executemany(
        "DELETE FROM point WHERE step = ? AND object = ?", [(point.at // POINT_STEP, object_id) for point in rows]
    )


def _thin_points(db: Connection, object_id: int, now: Nanoseconds) -> None:
    old = "SELECT day, packed FROM points WHERE object = ? AND day < ? AND thinned = 0"
    for day, packed in db.execute(old, (object_id, (now - POINTS_KEPT) // DAY)).fetchall():
        db.execute(
            "UPDATE points SET packed = ?, thinned = 1 WHERE object = ? AND day = ?",
            (pack_points(thinned(unpack_points(packed))), object_id, day),
        )
    db.execute("DELETE FROM points WHERE object = ? AND day < ?", (object_id, (now - HOURS_KEPT) // DAY))
