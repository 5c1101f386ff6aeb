"""
The load of every series: maxima of steps for 28 days, of single minutes for nine.

Maxima, because five-minute means would hide the jumps that scaling is about. Single minutes, because five-minute maxima
hide the minute of a jump. A gap is a missing row, never a zero.

The newest samples are rows, older ones days (`packing`). `compact` moves rows into days; reading joins the two.
"""

from __future__ import annotations

import math
from array import array
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, Nanoseconds
from cronhpa.core.model.levelled import levelled
from cronhpa.history.database.database import question_marks
from cronhpa.history.database.forgetting import forget
from cronhpa.history.database.series import (
    INSTANT_END,
    MINUTES_KEPT,
    STEP,
    STEPS_KEPT,
    Coverage,
    LoadSample,
    RecordedBatch,
    Series,
    is_load,
)
from cronhpa.history.load.packing import (
    MINUTES_PER_DAY,
    STEPS_PER_DAY,
    DayMaxima,
    join,
    pack_steps,
    trim,
    unpack_minutes,
    unpack_steps,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cronhpa.history.database.database import Connection, Database, Fault

# Late samples can still raise the rows of their steps, and the hourly compaction moves whole hours.
_STEP_ROWS_KEPT: Nanoseconds = 2 * HOUR
# Each forecast reads all minute rows of its object: a row costs far more than a minute of a packed day.
MINUTE_ROWS_KEPT: Nanoseconds = HOUR

# Five for each of 10,000 objects. One that was seen once takes 7.2 kB for 28 days: 360 MB in all.
SERIES_MAX = 50_000

# Stands for a time without a row. No load is negative.
NO_ROW = -1.0
# Columns of a statement: SQLite takes longer for each column, the more of them a statement has.
_COLUMNS_MAX = 25


class PackedDay(NamedTuple):
    """A UTC day, counted since the Unix epoch, as `packing` writes it; shares is None if no minute is recorded."""

    day: int
    highs: bytes
    shares: bytes | None


class PackedRows(NamedTuple):
    first: int
    highs: list[tuple[float, ...]]
    """For each step or minute from `first` on, the maximum of each series; NO_ROW without one."""


class PackedLoads(NamedTuple):
    """Loads of several series as they are kept."""

    series: list[Series]
    """The requested series that the store has, in the order of the columns of rows."""
    days: dict[Series, list[PackedDay]]
    """The days of each requested series, in order of time."""
    steps: PackedRows
    minutes: PackedRows


class LoadHistory:
    """Records and reads loads. Instants are integer nanoseconds; every span is [since, until)."""

    def __init__(self, database: Database, series_max: int = SERIES_MAX) -> None:
        self._database = database
        self._series_max = series_max

    def record(self, batch: Iterable[LoadSample]) -> RecordedBatch | Fault:
        """Raise the maxima of the minute and the step of every sample, all in one transaction."""
        accepted, refused = _sorted_out(batch)
        if not accepted:
            return RecordedBatch(0, refused)

        def work(db: Connection) -> RecordedBatch:
            find_or_add = self._database.ids.find_or_add
            samples = [(sample.at, find_or_add(db, sample.series), sample.value) for sample in accepted]
            _raise_rows(db, "minute", ((at // MINUTE, series_id, high) for at, series_id, high in samples))
            _raise_rows(db, "step", ((at // STEP, series_id, high) for at, series_id, high in samples))
            return RecordedBatch(len(accepted), refused)

        return self._database.write(work)

    def backfill(
        self, series: Series, maxima: Sequence[tuple[Nanoseconds, float]], *, width: Nanoseconds = MINUTE
    ) -> RecordedBatch | Fault:
        """
        Raise the maxima of one series by past values, (instant, value) in any order.

        width: the time that each value is the maximum of. MINUTE raises minutes and their steps. STEP raises steps
        alone, because a step's maximum does not tell its minute.
        Where the store has a value already, the larger value wins. Writes days, not rows: meant for months at once.
        """
        accepted, refused = _sorted_out(LoadSample(series, at, value) for at, value in maxima)
        if not accepted:
            return RecordedBatch(0, refused)
        # The highest first: each time that a step rises, the shares of its minutes are rounded anew.
        accepted.sort(key=lambda sample: sample.value, reverse=True)

        def work(db: Connection) -> RecordedBatch:
            series_id = self._database.ids.find_or_add(db, series)
            rows = ((series_id, sample.at // width, sample.value) for sample in accepted)
            _merge_into_days(db, rows, DAY // width)
            return RecordedBatch(len(accepted), refused)

        return self._database.write(work)

    def history(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> tuple[Nanoseconds, array[float]]:
        """
        (start of the first step with a value, maxima of every step up to the last with a value), NaN for a gap.

        Of the steps that start in [since, until). Without any value the array is empty.
        """
        first, end = -(-since // STEP), -(-until // STEP)

        def work(db: Connection) -> tuple[Nanoseconds, array[float]]:
            series_id = self._database.ids.find(db, series)
            if series_id is None:
                return first * STEP, array("d")
            query = "SELECT day, highs FROM day WHERE series = ? AND day BETWEEN ? AND ? ORDER BY day"
            span = (series_id, first // STEPS_PER_DAY, (end - 1) // STEPS_PER_DAY)
            days = [(day, unpack_steps(highs)) for day, highs in db.execute(query, span)]
            begin, highs = join(days, _rows(db, "step", series_id, first, end), STEPS_PER_DAY)
            low, highs = trim(begin, highs, first, end)
            return low * STEP, highs

        return self._database.read(work)

    def packed(
        self, series: Sequence[Series], since: Nanoseconds, until: Nanoseconds, *, minutes: bool = True
    ) -> PackedLoads:
        """
        The loads of several series as the store keeps them, read from one state of the store.

        Whole days from the day of `since` on, and the rows of [since, until). minutes: False reads steps alone.
        At most a thousand series: each is a parameter of a statement.
        """

        def work(db: Connection) -> PackedLoads:
            series_by_id = {series_id: member for member, series_id in self._database.ids.find_all(db, series).items()}
            days: dict[Series, list[PackedDay]] = {member: [] for member in series}
            query = f"""
                SELECT series, day, highs, {"shares" if minutes else "NULL"}
                FROM day {"LEFT JOIN minutes USING (series, day)" if minutes else ""}
                WHERE series IN ({question_marks(series_by_id)}) AND day BETWEEN ? AND ? ORDER BY day
            """  # noqa: S608 - literals and question marks
            for series_id, *day in db.execute(query, (*series_by_id, since // DAY, (until - 1) // DAY)):
                days[series_by_id[series_id]].append(PackedDay(*day))
            steps = _columns(db, "step", [*series_by_id], -(-since // STEP), -(-until // STEP))
            of_minutes = -(-since // MINUTE), -(-until // MINUTE) if minutes else 0
            return PackedLoads(
                [*series_by_id.values()], days, steps, _columns(db, "minute", [*series_by_id], *of_minutes)
            )

        return self._database.read(work)

    def steps(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
        """(start, maximum) of every step that has a value and starts in [since, until), in order."""
        return _without_gaps(*self.history(series, since, until), STEP)

    def minute_history(
        self, series: Series, since: Nanoseconds, until: Nanoseconds
    ) -> tuple[Nanoseconds, array[float]]:
        """
        (start of the first minute with a value, maxima of every minute up to the last with one), NaN for a gap.

        Of the minutes that start in [since, until). A minute of a packed day is off by at most 1/255 of its step's
        maximum each time that the minute was rounded. Without any value the array is empty.
        """
        first, end = -(-since // MINUTE), -(-until // MINUTE)

        def work(db: Connection) -> tuple[Nanoseconds, array[float]]:
            series_id = self._database.ids.find(db, series)
            if series_id is None:
                return first * MINUTE, array("d")
            query = """
                SELECT day, shares, highs FROM minutes JOIN day USING (series, day)
                WHERE series = ? AND day BETWEEN ? AND ? ORDER BY day
            """
            span = (series_id, first // MINUTES_PER_DAY, (end - 1) // MINUTES_PER_DAY)
            days = [
                (day, unpack_minutes(shares, unpack_steps(highs))) for day, shares, highs in db.execute(query, span)
            ]
            begin, highs = join(days, _rows(db, "minute", series_id, first, end), MINUTES_PER_DAY)
            low, highs = trim(begin, highs, first, end)
            return low * MINUTE, highs

        return self._database.read(work)

    def minutes(self, series: Series, since: Nanoseconds, until: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
        """(start, maximum) of every minute that has a value and starts in [since, until), in order."""
        return _without_gaps(*self.minute_history(series, since, until), MINUTE)

    def series(self) -> list[Series]:
        """Every series of the store, in order of namespace, name and metric."""
        query = "SELECT namespace, name, metric FROM series ORDER BY namespace, name, metric"
        return self._database.read(lambda db: [Series(*row) for row in db.execute(query)])

    def coverage(self) -> list[Coverage]:
        """The coverage of every series that has a step. Reads all steps of the store: for a person, not for a loop."""
        steps_by_series = [(series, self.steps(series, 0, INSTANT_END)) for series in self.series()]
        return [
            Coverage(series, steps[0][0], steps[-1][0] + STEP, len(steps)) for series, steps in steps_by_series if steps
        ]

    def note_backfill(self, series: Series, until: Nanoseconds) -> Fault | None:
        """Note that another source was asked for the history of a series up to `until`."""
        upsert = "INSERT INTO backfill VALUES (?, ?) ON CONFLICT (series) DO UPDATE SET until = excluded.until"

        def work(db: Connection) -> None:
            db.execute(upsert, (self._database.ids.find_or_add(db, series), until))

        return self._database.write(work)

    def backfilled_until(self, series: Series) -> Nanoseconds | None:
        """The end of the history that another source was asked for; None if no source was asked."""
        query = "SELECT until FROM backfill WHERE series = ?"

        def work(db: Connection) -> Nanoseconds | None:
            row = db.execute(query, (self._database.ids.find(db, series),)).fetchone()
            return None if row is None else row[0]

        return self._database.read(work)

    def compact(self, db: Connection, now: Nanoseconds) -> None:
        """
        Move old rows into days, forget the oldest day if it is too old, and forget every series without a sample.

        Of too many series those are forgotten, in the namespaces with the most, that were not seen for the longest
        time; none of the last two hours, which objects have that exist.

        Part of `Store.compact`, which gives the transaction.
        """
        for table, oldest, per_day in (
            ("step", (now - _STEP_ROWS_KEPT) // STEP, STEPS_PER_DAY),
            ("minute", (now - MINUTE_ROWS_KEPT) // MINUTE, MINUTES_PER_DAY),
        ):
            rows = db.execute(f"SELECT series, {table}, high FROM {table} WHERE {table} < ?", (oldest,))  # noqa: S608 - one of two literals
            _merge_into_days(db, rows.fetchall(), per_day)
            db.execute(f"DELETE FROM {table} WHERE {table} < ?", (oldest,))  # noqa: S608 - one of two literals
        # All at once: a backfill brings four weeks of them.
        db.execute("DELETE FROM minutes WHERE day < ?", ((now - MINUTES_KEPT) // DAY,))
        forget(db, "day", "day", (now - STEPS_KEPT) // DAY, 1)
        self._share(db)
        db.execute("""
            DELETE FROM series WHERE id NOT IN (SELECT series FROM day) AND id NOT IN (SELECT series FROM step)
                AND id NOT IN (SELECT series FROM minute)
        """)
        db.execute("DELETE FROM backfill WHERE series NOT IN (SELECT id FROM series)")
        self._database.ids.clear()

    def _share(self, db: Connection) -> None:
        unseen = """
            SELECT day.series FROM day JOIN series ON series.id = day.series
            WHERE namespace = ? AND day.series NOT IN (SELECT series FROM step)
            GROUP BY day.series ORDER BY max(day), count(*), day.series LIMIT ?
        """
        counts = dict(db.execute("SELECT namespace, count(*) FROM series GROUP BY namespace").fetchall())
        for namespace, kept in levelled(counts, self._series_max).items():
            if kept < counts[namespace]:
                gone = db.execute(unseen, (namespace, counts[namespace] - kept)).fetchall()
                for table in ("day", "minutes"):
                    db.executemany(f"DELETE FROM {table} WHERE series = ?", gone)  # noqa: S608 - one of two literals


def _sorted_out(samples: Iterable[LoadSample]) -> tuple[list[LoadSample], tuple[LoadSample, ...]]:
    """(samples that are loads, the others)."""
    accepted: list[LoadSample] = []
    refused: list[LoadSample] = []
    for sample in samples:
        (accepted if is_load(sample.at, sample.value) else refused).append(sample)
    return accepted, tuple(refused)


def _without_gaps(first: Nanoseconds, highs: array[float], width: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
    return [(first + place * width, high) for place, high in enumerate(highs) if not math.isnan(high)]


def _raise_rows(db: Connection, table: str, rows: Iterable[tuple[int, int, float]]) -> None:
    """Raise the maxima of `minute` or `step` by (time, series, high). The table's first column has the table's name."""
    db.executemany(
        f"INSERT INTO {table} VALUES (?, ?, ?) ON CONFLICT ({table}, series) "  # noqa: S608 - one of two literals
        f"DO UPDATE SET high = excluded.high WHERE excluded.high > {table}.high",
        rows,
    )


def _ends(db: Connection, table: str, first: int, end: int) -> tuple[int, int] | None:
    """The first and the last time of [first, end) for which `minute` or `step` may have rows; None without one."""
    # Two subqueries are two look-ups at the ends of the key; `SELECT min(x), max(x)` together reads the whole table.
    ends = f"SELECT (SELECT min({table}) FROM {table}), (SELECT max({table}) FROM {table})"  # noqa: S608 - a literal
    oldest, newest = db.execute(ends).fetchone()
    if oldest is None or max(first, oldest) > min(end - 1, newest):
        return None
    return max(first, oldest), min(end - 1, newest)


def _rows(db: Connection, table: str, series_id: int, first: int, end: int) -> list[tuple[int, float]]:
    """(time, high) of one series in `minute` or `step`: one look-up for each time, as the key begins with the time."""
    ends = _ends(db, table, first, end)
    if ends is None:
        return []
    # SQLite keeps the order of a CROSS JOIN: the clock first, then the table by its key.
    query = f"""
        WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
        SELECT at, high FROM clock CROSS JOIN {table} WHERE {table} = at AND series = ? ORDER BY at
    """  # noqa: S608 - one of two literals
    return db.execute(query, (*ends, series_id)).fetchall()


def _columns(db: Connection, table: str, series_ids: Sequence[int], first: int, end: int) -> PackedRows:
    """Rows of `minute` or `step`, with a column for each series: faster than a row for each value."""
    ends = _ends(db, table, first, end)
    if ends is None or not series_ids:
        return PackedRows(first, [])
    column = f"coalesce((SELECT high FROM {table} WHERE {table} = at AND series = ?), {NO_ROW})"  # noqa: S608 - literals
    parts = []
    for begin in range(0, len(series_ids), _COLUMNS_MAX):
        part = series_ids[begin : begin + _COLUMNS_MAX]
        query = f"""
            WITH RECURSIVE clock (at) AS (SELECT ? UNION ALL SELECT at + 1 FROM clock WHERE at < ?)
            SELECT {", ".join([column] * len(part))} FROM clock ORDER BY at
        """  # noqa: S608 - literals and question marks
        parts.append(db.execute(query, (*ends, *part)).fetchall())
    return PackedRows(ends[0], [tuple(chain.from_iterable(rows)) for rows in zip(*parts, strict=True)])


def _merge_into_days(db: Connection, rows: Iterable[tuple[int, int, float]], per_day: int) -> None:
    """
    Raise the maxima of days by (series, time, high). Minutes raise their steps, too.

    per_day: how many times a day has, `STEPS_PER_DAY` or `MINUTES_PER_DAY`.
    """
    days: dict[tuple[int, int], DayMaxima] = {}
    for series_id, at, high in rows:
        day, offset = divmod(at, per_day)
        maxima = days.get((series_id, day))
        if maxima is None:
            maxima = days[series_id, day] = _read_day(db, series_id, day)
        if per_day == MINUTES_PER_DAY:
            maxima.raise_minute(offset, high)
        else:
            maxima.raise_step(offset, high)
    keep_steps = "INSERT INTO day VALUES (?, ?, ?) ON CONFLICT (series, day) DO UPDATE SET highs = excluded.highs"
    keep_minutes = (
        "INSERT INTO minutes VALUES (?, ?, ?) ON CONFLICT (series, day) DO UPDATE SET shares = excluded.shares"
    )
    db.executemany(keep_steps, ((*key, pack_steps(maxima.highs)) for key, maxima in days.items()))
    db.executemany(keep_minutes, ((*key, maxima.shares) for key, maxima in days.items() if maxima.shares is not None))


def _read_day(db: Connection, series_id: int, day: int) -> DayMaxima:
    steps = db.execute("SELECT highs FROM day WHERE series = ? AND day = ?", (series_id, day)).fetchone()
    if steps is None:
        return DayMaxima.empty()
    minutes = db.execute("SELECT shares FROM minutes WHERE series = ? AND day = ?", (series_id, day)).fetchone()
    return DayMaxima.unpack(steps[0], None if minutes is None else minutes[0])
