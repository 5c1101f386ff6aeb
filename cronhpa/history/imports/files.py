"""
Load history in files, in and out of the store.

As CSV: `timestamp,value`, RFC 3339, optionally gzipped, empty for a gap. A name that ends in .parquet means Parquet.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from functools import lru_cache, partial
from typing import IO, TYPE_CHECKING, Protocol, cast

from msgspec import Struct

from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds, format_instant, parse_instant
from cronhpa.core.model.printable import shortened
from cronhpa.history.database.database import Fault
from cronhpa.history.database.series import STEP, STEPS_KEPT, RecordedBatch, Series, is_load
from cronhpa.history.load.load_history import LoadHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

HEADER = ("timestamp", "value")
_GZIP_MAGIC = b"\x1f\x8b"
_LINES_PER_REPORT = 10_000
# No load history exceeds these limits; they bound the cost of a small file that unpacks to gigabytes. 28 days by the
# second have 2.4 million rows, and a line of a time and a number has 50 characters.
LINE_MAX = 64 * 1024
ROWS_MAX = 20_000_000
TEXT_MAX = 2**30
POINTS_MAX = 2_500_000
ENOUGH = "28 days by the second are 2,419,200"
# How much of a header or field an error quotes: anybody may have written it.
TOLD_MAX = 200
# Minutes in memory: those of 28 days, and a margin, so that old ones are dropped many at a time.
_MINUTES_HELD = 100_000
# A file with fewer values a step, such as an export of our own steps, does not tell the minute of a maximum.
_MINUTES_PER_STEP_MIN = 2


class Imported(Struct, frozen=True):
    """Lines more than 28 days before the newest are read and counted, but not kept."""

    rows: int
    """Lines with a value."""
    gaps: int
    """Lines without a value."""
    steps: int
    """Five-minute maxima that were kept, from `first` to `last`."""
    first: Nanoseconds
    last: Nanoseconds


class HistoryError(Exception):
    """A file that is no load history: where, what was found, what is accepted."""

    def __init__(self, path: Path, where: str, finding: str, accepted: str) -> None:
        super().__init__(f"{path}{', ' if where else ''}{where}: {finding}: {accepted}")


class CsvError(HistoryError):
    def __init__(self, path: Path, line: int, finding: str, accepted: str) -> None:
        super().__init__(path, f"line {line}", finding, accepted)


class Backfill(Protocol):
    """Raises the maxima of a series, as `LoadHistory.backfill` does."""

    def __call__(
        self, series: Series, maxima: Sequence[tuple[Nanoseconds, float]], /, *, width: Nanoseconds
    ) -> RecordedBatch | Fault: ...


def import_file(
    backfill: Backfill,
    series: Series,
    path: Path,
    *,
    now: Nanoseconds,
    shift: Nanoseconds = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Imported:
    """
    As `import_csv`, also for a Parquet file, by its name.

    Raises HistoryError, and ImportError where pyarrow is not installed.
    """
    if not is_parquet(path):
        return import_csv(backfill, series, path, now=now, shift=shift, progress=progress)
    from cronhpa.history.imports import parquet  # noqa: PLC0415 - pyarrow, for Parquet alone

    return _import(backfill, series, path, parquet.rows(path), now, shift)


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() in {".parquet", ".pq"}


def import_csv(
    backfill: Backfill,
    series: Series,
    path: Path,
    *,
    now: Nanoseconds,
    shift: Nanoseconds = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Imported:
    """
    Add a file to a series: all of the file, or nothing. Where the store has a value already, the larger one wins.

    Minutes are kept if the file has two or more of them a step on average, else steps alone.
    backfill: called once, after all of the file was read.
    now: values of more than a day later are refused. shift: added to every timestamp, so that an old record can stand
    for the days before now.
    progress: called now and then with bytes read and bytes in all.
    Raises CsvError for a text that cannot be read, OSError where the file or the store cannot be used.
    """
    return _import(backfill, series, path, _lines(path, progress), now, shift)


# The number of a line or row from 1 on, the instant, the value or None for a gap.
Row = tuple[int, Nanoseconds, float | None]


def _import(
    backfill: Backfill, series: Series, path: Path, values: Iterable[Row], now: Nanoseconds, shift: Nanoseconds
) -> Imported:
    """All of the rows into the store, or nothing."""
    minutes: dict[Nanoseconds, float] = {}
    rows = gaps = 0
    oldest = 0
    for at, value in _loads(path, values, shift, latest=now + DAY):
        if value is None:
            gaps += 1
            continue
        rows += 1
        minute = at - at % MINUTE
        if minute < oldest:
            continue
        minutes[minute] = max(value, minutes.get(minute, 0.0))
        if len(minutes) > _MINUTES_HELD:
            oldest = _oldest_kept(minutes)
            minutes = {at: high for at, high in minutes.items() if at >= oldest}
    if not minutes:
        raise HistoryError(path, "", f"{gaps} gaps and no value", "at least one value is needed")
    oldest, last = _oldest_kept(minutes), max(minutes) // STEP * STEP
    points = sorted((at, high) for at, high in minutes.items() if at >= oldest)
    steps = len({at // STEP for at, _ in points})
    width = MINUTE if len(points) >= _MINUTES_PER_STEP_MIN * steps else STEP
    outcome = backfill(series, points, width=width)
    if isinstance(outcome, Fault):
        raise OSError(outcome.message)
    return Imported(rows=rows, gaps=gaps, steps=steps, first=points[0][0] // STEP * STEP, last=last + STEP)


def _oldest_kept(minutes: Iterable[Nanoseconds]) -> Nanoseconds:
    """The first instant of the 28 days that end with the newest minute."""
    return max(minutes) // STEP * STEP - STEPS_KEPT + STEP


def _loads(
    path: Path, values: Iterable[Row], shift: Nanoseconds = 0, *, latest: Nanoseconds = 2**63
) -> Iterator[tuple[Nanoseconds, float | None]]:
    """(instant moved by `shift`, value or None). Raises HistoryError for a value that is no load, or after `latest`."""
    for number, at, value in values:
        moved = at + shift
        if value is not None and (moved > latest or not is_load(moved, value)):
            where = f"{'row' if is_parquet(path) else 'line'} {number}"
            if not is_load(moved, value):
                accepted = "a number from 0 to 3.4e38 in the years 1970 to 2261 is accepted"
                raise HistoryError(path, where, f"{value} at {format_instant(at)}", accepted)
            problem = f"{format_instant(moved)} is yet to come"
            accepted = (
                f"times to {format_instant(latest)} are accepted: what is 28 days older than the newest is dropped"
            )
            raise HistoryError(path, where, problem, accepted)
        yield moved, value


def export_csv(loads: LoadHistory, series: Series, out: IO[str]) -> int:
    """
    Write the five-minute maxima of a series, a line for every step from the first to the last, empty where unknown.

    Returns the number of lines with a value; 0 where the store knows nothing of the series.
    Raises StoreError where the store cannot be read.
    """
    steps = loads.steps(series, 0, 2**63)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    expected = steps[0][0] if steps else 0
    for start, high in steps:
        for gap in range(expected, start, STEP):
            writer.writerow((format_instant(gap), ""))
        writer.writerow((format_instant(start), repr(high)))
        expected = start + STEP
    return len(steps)


def read_points(
    path: Path, *, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> list[tuple[Nanoseconds, float]]:
    """
    The values of a CSV or Parquet file as they were recorded, in order of time; of several at one instant the largest.

    Raises HistoryError for content that cannot be read, OSError where the file cannot be used, and ImportError for a
    Parquet file where pyarrow is not installed.
    """
    values = _lines(path, progress)
    if is_parquet(path):
        from cronhpa.history.imports import parquet  # noqa: PLC0415 - pandas and pyarrow, for Parquet alone

        values = parquet.rows(path)
    loads: dict[Nanoseconds, float] = {}
    for at, value in _loads(path, values):
        if value is not None:
            loads[at] = max(value, loads.get(at, 0.0))
            if len(loads) > POINTS_MAX:
                raise HistoryError(
                    path, "", f"more than {POINTS_MAX:,} times", "28 days by the second, and no more, are accepted"
                )
    return sorted(loads.items())


def _lines(path: Path, progress: Callable[[int, int], None]) -> Iterator[Row]:
    """Every line below the header."""
    total = path.stat().st_size
    with path.open("rb") as raw:
        zipped = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        raw.seek(0)
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw) if zipped else raw)
        # utf-8-sig: spreadsheets put a byte order mark before the header.
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        reader = csv.reader(_bounded(path, text), strict=True)
        try:
            header = next(reader, [])
            if tuple(header) != HEADER:
                finding = f"the header is {shortened(','.join(header), TOLD_MAX)!r}" if header else "there is no header"
                raise CsvError(path, 1, finding, f"{','.join(HEADER)!r} is accepted")
            for fields in reader:
                if fields:
                    yield _parse(path, reader.line_num, fields)
                if reader.line_num % _LINES_PER_REPORT == 0:
                    progress(raw.tell(), total)
        except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as problem:
            line = reader.line_num + 1
            raise CsvError(path, line, str(problem), "CSV text in UTF-8, plain or gzipped, is accepted") from None
    progress(total, total)


def _bounded(path: Path, text: IO[str]) -> Iterator[str]:
    """The lines of a text. Raises CsvError beyond LINE_MAX characters of a line, ROWS_MAX lines or TEXT_MAX in all."""
    left = TEXT_MAX
    for number, line in enumerate(iter(partial(text.readline, LINE_MAX + 1), ""), start=1):
        if len(line) > LINE_MAX:
            raise CsvError(path, number, f"more than {LINE_MAX:,} characters", "timestamp,value is accepted")
        left -= len(line)
        if left < 0 or number > ROWS_MAX:
            finding = f"{number - 1:,} lines of {(TEXT_MAX - left) / 2**20:,.0f} MiB so far"
            accepted = f"{ROWS_MAX:,} lines and {TEXT_MAX // 2**20:,} MiB are accepted"
            raise CsvError(path, number, finding, f"{accepted}: {ENOUGH}")
        yield line


# A file with many lines for each minute repeats few texts of a time.
_instant = lru_cache(maxsize=64)(parse_instant)


def _parse(path: Path, line: int, fields: list[str]) -> Row:
    if len(fields) != len(HEADER):
        raise CsvError(path, line, f"{len(fields)} fields", "timestamp,value is accepted")
    stamp, text = fields
    try:
        at = _instant(stamp)
    except (ValueError, OverflowError):
        example = "an RFC 3339 time with an offset, such as 2026-03-01T06:00:00Z, is accepted"
        raise CsvError(path, line, f"timestamp {shortened(stamp, TOLD_MAX)!r}", example) from None
    try:
        value = float(text)
    except ValueError:
        if not text.strip():
            return line, at, None
        value = math.inf
    if math.isnan(value):
        return line, at, None
    if not 0 <= value < math.inf:
        accepted = "a number at or above zero, or nothing for a gap, is accepted"
        raise CsvError(path, line, f"value {shortened(text, TOLD_MAX)!r}", accepted)
    return line, at, value
