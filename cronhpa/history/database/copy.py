"""
A store's content into another store, whichever databases the two are in.

Both stores have the same tables, and ids of their own. A row that both have is overwritten from the source, so an
interrupted copy can be run again. A row that only the target has stays. So do the parts of a packed day that only the
target has: of replicas with files of their own, each has the hours in which it led.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.history.database.database import Fault, StoreError, question_marks
from cronhpa.history.database.series import STEP
from cronhpa.history.database.sqlite import backup
from cronhpa.history.load.packing import merged_minutes, merged_steps
from cronhpa.history.past.decisions import merge_blocks
from cronhpa.history.past.points import merged_points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cronhpa.history.database.database import Connection, Database
    from cronhpa.history.store import Store


T = TypeVar("T")


class IdTable(NamedTuple):
    """A table whose rows other tables refer to by id."""

    name: str
    columns: tuple[str, ...]
    names: tuple[str, ...] = ()
    """The columns that make a row unique; () if none do."""


class Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The primary key."""
    part: str
    """The column by which the table is read, a few series or one time at once."""
    merged: Callable[[bytes, bytes], bytes] | None = None
    """The last column of a row that both stores have, from that of the source and that of the target; None: that of the
    source. Raises ValueError where one of them is damaged."""


_ID_TABLES = (
    IdTable("series", ("namespace", "name", "metric"), ("namespace", "name", "metric")),
    IdTable("object", ("namespace", "name", "last", "bytes"), ("namespace", "name")),
    IdTable("fit", ("model", "fitted_at", "trained_until", "state")),
)
_TABLES = (
    Table("day", ("series", "day", "highs"), ("series", "day"), "series", merged_steps),
    Table("minutes", ("series", "day", "shares"), ("series", "day"), "series", merged_minutes),
    Table("step", ("step", "series", "high"), ("step", "series"), "step"),
    Table("minute", ("minute", "series", "high"), ("minute", "series"), "minute"),
    Table("fitted", ("series", "fit", "digest", "choice"), ("series",), "series"),
    Table("forecast", ("series", "start", "value"), ("series",), "series"),
    Table("stated", ("step", "series", "load", "percent"), ("step", "series"), "step"),
    Table("spend", ("hour", "series", "extra", "base"), ("hour", "series"), "hour"),
    Table("backfill", ("series", "until"), ("series",), "series"),
    Table("decided", ("object", "first", "last", "packed"), ("object", "first"), "object"),
    Table("points", ("object", "day", "thinned", "packed"), ("object", "day"), "object", merged_points),
    Table(
        "point",
        ("step", "object", "replicas", "ready", "load", "floor", "cap", "forecast"),
        ("step", "object"),
        "step",
    ),
    Table("report", ("namespace", "name", "opened", "body"), ("namespace", "name", "opened"), "opened"),
)
# A series has 28 days of at most 1.2 kB, so these are 2 MB.
_SERIES_AT_ONCE = 50

Row = tuple[object, ...]
# By table: the ids of the target by those of the source.
Ids = dict[str, dict[int, int]]


class Copied(NamedTuple):
    """Rows of a table: in the source before, in the target afterwards."""

    table: str
    source: int
    target: int


def copy_store(
    source: Store, target: Store, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> list[Copied]:
    """
    Copy everything, a transaction for each part, and count both ends.

    progress: called with the rows copied and all rows. Raises StoreError where one end cannot be read or written.
    """
    names = [table.name for table in (*_ID_TABLES, *_TABLES)]
    before = {name: _count(source.database, name) for name in names}
    total, done = sum(before.values()), 0
    ids: Ids = {}
    for id_table in _ID_TABLES:
        ids[id_table.name] = _copy_ids(source.database, target.database, id_table)
        done += before[id_table.name]
        progress(done, total)
    for table in _TABLES:
        for rows in _parts(source.database, table, [*ids["series"]]):
            renamed = _renamed(table, rows, ids)
            is_decided = table.name == "decided"
            work = partial(merge_blocks, rows=renamed) if is_decided else partial(_upsert, table, rows=renamed)
            _write(target.database, work)
            done += len(rows)
            progress(min(done, total), total)
    # A copy that is run again has left its first fits behind.
    _write(target.database, lambda db: db.execute("DELETE FROM fit WHERE id NOT IN (SELECT fit FROM fitted)"))
    return [Copied(name, before[name], _count(target.database, name)) for name in names]


def copy_file(path: Path, copy: Path) -> Path:
    """Copy a SQLite file as of one instant while others write to it; returns the copy. Raises StoreError."""
    return backup(path, copy)


def newest_step(store: Store) -> Nanoseconds | None:
    """The end of the newest step that a store has of any series; None where it has none."""

    (step,), (day,) = store.database.read(
        lambda db: [db.execute(f"SELECT max({table}) FROM {table}").fetchone() for table in ("step", "day")]  # noqa: S608 - literals
    )
    if step is not None:
        return int(step + 1) * STEP
    if day is None:
        return None
    # After two hours without a load all steps are packed into days.
    steps_by_series = (store.loads.steps(series, day * DAY, 2**63) for series in store.loads.series())
    return max(steps[-1][0] + STEP for steps in steps_by_series if steps)


def _count(database: Database, table: str) -> int:
    counted: int = database.read(lambda db: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - a literal
    return counted


def _copy_ids(source: Database, target: Database, table: IdTable) -> dict[int, int]:
    columns = ", ".join(table.columns)
    every = source.read(lambda db: [row[0] for row in db.execute(f"SELECT id FROM {table.name} ORDER BY id")])  # noqa: S608 - literals
    ids: dict[int, int] = {}
    for begin in range(0, len(every), _SERIES_AT_ONCE):
        part = every[begin : begin + _SERIES_AT_ONCE]
        query = f"SELECT id, {columns} FROM {table.name} WHERE id IN ({question_marks(part)}) ORDER BY id"  # noqa: S608 - literals
        rows = _rows(source, query, part)
        ids |= _write(target, partial(_ids, table, rows))
    return ids


def _ids(table: IdTable, rows: list[Row], db: Connection) -> dict[int, int]:
    return {int(str(source_id)): _id(db, table, tuple(row)) for source_id, *row in rows}


def _id(db: Connection, table: IdTable, row: Row) -> int:
    """The id of this row in the target. The row is added if the target does not have it."""
    if table.names:
        where = " AND ".join(f"{name} = ?" for name in table.names)
        named = [value for name, value in zip(table.columns, row, strict=True) if name in table.names]
        present = db.execute(f"SELECT id FROM {table.name} WHERE {where}", named).fetchone()  # noqa: S608 - literals
        if present is not None:
            return int(present[0])
    columns, marks = ", ".join(table.columns), question_marks(row)
    insert = f"INSERT INTO {table.name} ({columns}) VALUES ({marks}) RETURNING id"  # noqa: S608 - literals
    return int(db.execute(insert, row).fetchall()[0][0])


def _parts(source: Database, table: Table, series: Sequence[int]) -> Iterator[list[Row]]:
    """All rows of a table that belong to a series, some at a time."""
    columns = ", ".join(table.columns)
    if table.part == "series":
        parts: Iterable[Sequence[object]] = (
            series[i : i + _SERIES_AT_ONCE] for i in range(0, len(series), _SERIES_AT_ONCE)
        )
    else:
        times = f"SELECT DISTINCT {table.part} FROM {table.name} ORDER BY {table.part}"  # noqa: S608 - literals
        parts = _rows(source, times, ())
    for part in parts:
        query = f"SELECT {columns} FROM {table.name} WHERE {table.part} IN ({question_marks(part)})"  # noqa: S608 - literals
        yield _rows(source, query, part)


def _rows(database: Database, query: str, values: Sequence[object]) -> list[Row]:
    return database.read(lambda db: [tuple(row) for row in db.execute(query, tuple(values))])


def _renamed(table: Table, rows: Iterable[Row], ids: Mapping[str, Mapping[int, int]]) -> list[Row]:
    """The rows with the target's ids, without rows of series that were added or removed during the copy."""
    renamed = []
    for row in rows:
        values = [
            ids[column].get(value) if column in ids and isinstance(value, int) else value
            for column, value in zip(table.columns, row, strict=True)
        ]
        if not any(value is None for column, value in zip(table.columns, values, strict=True) if column in ids):
            renamed.append(tuple(values))
    return renamed


def _upsert(table: Table, db: Connection, rows: list[Row]) -> None:
    if table.merged is not None:
        rows = [_merged(table, table.merged, db, row) for row in rows]
    others = [column for column in table.columns if column not in table.key]
    new_values = ", ".join(f"{column} = excluded.{column}" for column in others)
    db.executemany(
        f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({question_marks(table.columns)}) "  # noqa: S608 - literals
        f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {new_values}",
        rows,
    )


def _merged(table: Table, merged: Callable[[bytes, bytes], bytes], db: Connection, row: Row) -> Row:
    """
    A row with those parts of its packed value, too, that the target alone has.

    Of two values of which one is damaged the whole one stays; of two damaged ones that of the source.
    """
    where = " AND ".join(f"{column} = ?" for column in table.key)
    key = [value for column, value in zip(table.columns, row, strict=True) if column in table.key]
    present = db.execute(f"SELECT {table.columns[-1]} FROM {table.name} WHERE {where}", key).fetchone()  # noqa: S608 - literals
    if present is None:
        return row
    *before, packed = row
    assert isinstance(packed, bytes)
    # If the first raises, one of the two is damaged: not the target's if that can be merged with itself.
    for own in (packed, present[0]):
        with suppress(ValueError):
            return (*before, merged(own, present[0]))
    return row


def _write(database: Database, work: Callable[[Connection], T]) -> T:
    outcome = database.write(work)
    if isinstance(outcome, Fault):
        raise StoreError(outcome.message)
    return outcome
