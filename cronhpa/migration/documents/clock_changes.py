"""
Times of a cron text that a clock change skips or repeats.

Other schedulers skip a time in the gap of spring; which of two equal times in autumn they take is up to their library.
Here a time in the gap moves to the first instant after the gap; of two equal times a start takes the first, an end the
second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronhpa.core.schedules import cron
from cronhpa.migration.documents.document import FieldReader

_AHEAD = 400
_MINUTE = timedelta(minutes=1)


def remark_clock_changes(at: FieldReader, key: str, texts: Iterable[str], zone: str, wall: datetime) -> None:
    """A remark for the first of the texts that names a time within a clock change of the coming year."""
    for text in texts:
        for begin, end in _changes(zone, wall.date().toordinal()):
            affected = next(cron.forwards(text, begin - _MINUTE), None)
            if affected is not None and affected < end:
                at.remark(
                    key,
                    f"the clock of {zone} skips or repeats {affected:%Y-%m-%d %H:%M}",
                    "in the gap of spring the source skips that time, here it is the first time after the gap; of two "
                    "equal times of autumn a start here is the first and an end the second",
                )
                return


@lru_cache(maxsize=64)
def _changes(zone: str, day: int) -> tuple[tuple[datetime, datetime], ...]:
    """(begin, end) in local time of each span that a clock change of the next 400 days skips or repeats."""
    return tuple(_spans(ZoneInfo(zone), datetime.fromordinal(day).replace(tzinfo=UTC)))


def _spans(zone: ZoneInfo, first: datetime) -> Iterator[tuple[datetime, datetime]]:
    for number in range(_AHEAD):
        low, high = first + timedelta(days=number), first + timedelta(days=number + 1)
        before, after = (moment.astimezone(zone).utcoffset() for moment in (low, high))
        if before == after or before is None or after is None:
            continue
        while high - low > _MINUTE:
            middle = low + (high - low) // 2
            low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
        change = high.replace(second=0, microsecond=0, tzinfo=None)
        yield change + min(before, after), change + max(before, after)
