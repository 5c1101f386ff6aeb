"""
The starts and ends of a window on its dates.

- A start on a date that `exclude` names, or that `only` does not name, is dropped: it opens nothing and acts as an end.
  The date is the written one, even if a gap moves the start past midnight.
- Of several starts at one instant, one kept start is enough.
- If an end is written later than a start and a gap moves both to one instant, the end closes the window at once: a
  window inside a gap is empty on that day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import TypeAlias

from msgspec import Struct

from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.spec import CronWindow
from cronhpa.core.schedules import calendars, cron
from cronhpa.core.schedules.wall_clock import (
    ONE_DAY,
    dates_near_change,
    steady_midnight,
    steady_offset,
    to_instants,
    utc_midnight,
)

# How far ahead a start is searched that the exceptions keep.
_EXCEPTION_YEARS = 10


class Occurrence(Struct, frozen=True, gc=False):
    """Consecutive starts without a close between them, from the first to the last; or one end."""

    first: Nanoseconds
    last: Nanoseconds
    opens: bool


# Runs of a date without a clock change, counted from its midnight, by (kept start, start, end): most dates are alike.
PlainDays: TypeAlias = dict[tuple[bool, bool, bool], tuple[Occurrence, ...]]


def next_date(window: CronWindow, day: date, *, is_open: bool) -> date | None:
    """The first date from `day` on at which the window may open or close, or an open one may start again."""
    if not is_open:
        return start_date(window, day, is_kept=True)
    if window.duration is not None:
        return cron.date_from(window.start, day)
    assert window.end is not None
    closing = (cron.date_from(window.end, day), start_date(window, day, is_kept=False))
    return min((at for at in closing if at is not None), default=None)


def start_date(window: CronWindow, day: date, *, is_kept: bool) -> date | None:
    """The first date from `day` on with starts that the exceptions keep; without `is_kept`, with starts they drop."""
    if window.exclude is None and window.only is None:
        return cron.date_from(window.start, day) if is_kept else None
    last = day + _EXCEPTION_YEARS * 365 * ONE_DAY
    candidate: date | None = day
    while candidate is not None:
        candidate = cron.date_from(window.start, candidate)
        if candidate is None or candidate > last or _is_kept(window, candidate) == is_kept:
            break
        candidate = _kept_date(window, candidate, last) if is_kept else _dropped_date(window, candidate, last)
    return None if candidate is None or candidate > last else candidate


def _is_kept(window: CronWindow, day: date) -> bool:
    is_among = window.only is None or calendars.contains(window.only, day)
    return is_among and not (window.exclude is not None and calendars.contains(window.exclude, day))


def _kept_date(window: CronWindow, day: date, last: date) -> date | None:
    """The first date from `day` to `last` that the exceptions keep, whether it has starts or not."""
    candidate: date | None = day
    while candidate is not None and not _is_kept(window, candidate):
        if window.only is not None:
            candidate = calendars.first_in(window.only, candidate, last)
        if candidate is not None and window.exclude is not None:
            candidate = calendars.first_outside(window.exclude, candidate, last)
    return candidate


def _dropped_date(window: CronWindow, day: date, last: date) -> date | None:
    """The first date from `day` to `last` that the exceptions drop, whether it has starts or not."""
    first_dropped = (
        None if window.only is None else calendars.first_outside(window.only, day, last),
        None if window.exclude is None else calendars.first_in(window.exclude, day, last),
    )
    return min((dropped for dropped in first_dropped if dropped is not None), default=None)


def occurrences_on(window: CronWindow, day: date, plain: PlainDays) -> tuple[Iterable[Occurrence], date]:
    """
    The occurrences of a date, ascending, and the date after it. Near a clock change: those of all dates near it.

    plain: occurrences of dates without a clock change, counted from their midnight; new ones are added.
    """
    offset = steady_offset(window.zone, day)
    if offset is None:
        first, last = dates_near_change(window.zone, day)
        return _near_change(window, first, last, plain), last + ONE_DAY
    return _from_midnight(window, day, utc_midnight(day) - offset, plain), day + ONE_DAY


def _from_midnight(window: CronWindow, day: date, midnight: Nanoseconds, plain: PlainDays) -> Iterator[Occurrence]:
    """The occurrences of a date that begins at the instant `midnight`, no part of which is skipped or repeated."""
    is_start, is_end = _is_named(window.start, day), _is_named(window.end, day)
    is_kept = is_start and _is_kept(window, day)
    occurrences = plain.get((is_kept, is_start, is_end))
    if occurrences is None:
        occurrences = _on_plain_day(window, is_kept=is_kept, is_start=is_start, is_end=is_end)
        plain[is_kept, is_start, is_end] = occurrences
    return (Occurrence(midnight + one.first, midnight + one.last, one.opens) for one in occurrences)


def _on_plain_day(window: CronWindow, *, is_kept: bool, is_start: bool, is_end: bool) -> tuple[Occurrence, ...]:
    """The occurrences of a date without a clock change near it, in nanoseconds from its midnight."""
    starts = [minute * MINUTE for minute in cron.minutes(window.start)] if is_start else []
    ends = [minute * MINUTE for minute in cron.minutes(window.end)] if is_end and window.end is not None else []
    return _joined(starts if is_kept else [], ends if is_kept else [*ends, *starts], window.duration)


def _near_change(window: CronWindow, first: date, last: date, plain: PlainDays) -> Iterator[Occurrence]:
    """The occurrences of all these dates. Those that the change touches are joined: a fold mixes two dates."""
    touched: list[date] = []
    day = first
    while day <= last:
        midnight = steady_midnight(window.zone, day)
        if midnight is None:
            touched.append(day)
        else:
            yield from _at_change(window, touched)
            touched = []
            yield from _from_midnight(window, day, midnight, plain)
        day += ONE_DAY
    yield from _at_change(window, touched)


def _at_change(window: CronWindow, days: Iterable[date]) -> tuple[Occurrence, ...]:
    """The occurrences of dates of which a clock change skips or repeats a part."""
    dropped: list[Nanoseconds] = []
    # By instant, the latest wall time that means it: later entries replace earlier ones.
    kept: dict[Nanoseconds, Nanoseconds] = {}
    ends: dict[Nanoseconds, Nanoseconds] = {}
    for day in days:
        if _is_named(window.start, day):
            starts = _by_instant(window.start, window.zone, day, is_end=False)
            if _is_kept(window, day):
                kept |= starts
            else:
                dropped += starts
        if window.end is not None and _is_named(window.end, day):
            ends |= _by_instant(window.end, window.zone, day, is_end=True)
    opening = [at for at, wall in kept.items() if ends.get(at, wall) <= wall]
    return _joined(opening, [*dropped, *ends], window.duration)


def _by_instant(text: str, zone: str, day: date, *, is_end: bool) -> dict[Nanoseconds, Nanoseconds]:
    """The instants that a cron text means on a date, each with the latest wall time that means it, as if in UTC."""
    minutes, midnight = cron.minutes(text), utc_midnight(day)
    instants = to_instants(minutes, zone, day, is_end=is_end)
    return {at: midnight + minute * MINUTE for at, minute in zip(instants, minutes, strict=True)}


def _is_named(text: str | None, day: date) -> bool:
    return text is not None and day.day in cron.days_of(text, day.year, day.month)


def _joined(
    starts: list[Nanoseconds], closing: list[Nanoseconds], duration: Nanoseconds | None
) -> tuple[Occurrence, ...]:
    """Starts and ends in order, without those that change nothing. A start hides an end at the same instant."""
    occurrences: list[Occurrence] = []
    opening = set(starts)
    for at in sorted(opening.union(closing)):
        opens = at in opening
        if (
            occurrences
            and occurrences[-1].opens == opens
            and (duration is None or not opens or at - occurrences[-1].last <= duration)
        ):
            occurrences[-1] = Occurrence(occurrences[-1].first, at if opens else occurrences[-1].last, opens)
        else:
            occurrences.append(Occurrence(at, at, opens))
    return tuple(occurrences)
