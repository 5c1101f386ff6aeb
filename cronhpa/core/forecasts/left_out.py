"""
The days and hours that forecasts do not learn from, because the spec says that they are no usual ones.

Events that happen once (own schedules, planned events, events of calendars), and the days that `exclude` names: a sale
must not become next Friday's forecast. What recurs is learnt: it comes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time

from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.model.spec import CronWindow, Days, Span, Spec
from cronhpa.core.schedules import calendars
from cronhpa.core.schedules.wall_clock import ONE_DAY, to_instant, utc_date
from cronhpa.core.schedules.windows import once

# The oldest day that is evaluated, two weeks ago, is so by a history of 28 days.
_LEARNT_DAYS = 45


def around_today(now: Nanoseconds) -> Span:
    """The days that an operator's fits and evaluations may touch; the same all day."""
    today = now - now % DAY
    return Span(today - _LEARNT_DAYS * DAY, today + 2 * DAY)


def left_out(spec: Spec, around: Span) -> tuple[Span, ...]:
    """What touches a span and is left out of fits and of the daily evaluation; ascending and disjoint."""
    cached: tuple[Span, tuple[Span, ...]] | None = spec.computed.get(__name__)
    if cached is None or cached[0] != around:
        cached = (around, _joined(sorted((span.begin, span.end) for span in _spans(spec, around))))
        spec.computed[__name__] = cached
    return cached[1]


def _spans(spec: Spec, around: Span) -> Iterator[Span]:
    excluded: dict[str, set[Days]] = {}
    for schedule in spec.schedules:
        if schedule.problem is not None or schedule.suspend:
            continue
        if not isinstance(schedule.window, CronWindow):
            yield from _within(Span(*once(schedule.window)), around)
        elif schedule.window.exclude is not None:
            excluded.setdefault(schedule.window.zone, set()).add(schedule.window.exclude)
    for span in spec.calendar_spans:
        yield from _within(span, around)
    for zone, several in excluded.items():
        day, last = utc_date(around.begin), utc_date(around.end)
        while day <= last:
            if any(calendars.contains(days, day) for days in several):
                yield Span(_midnight(day, zone), _midnight(day + ONE_DAY, zone))
            day += ONE_DAY


def _within(span: Span, around: Span) -> Iterator[Span]:
    begin, end = max(span.begin, around.begin), min(span.end, around.end)
    if begin < end:
        yield Span(begin, end)


def _midnight(day: date, zone: str) -> Nanoseconds:
    return to_instant(datetime.combine(day, time()), zone, is_end=False)


def _joined(spans: list[tuple[Nanoseconds, Nanoseconds]]) -> tuple[Span, ...]:
    """Spans that overlap or touch, as one."""
    joined: list[Span] = []
    for begin, end in spans:
        if joined and begin <= joined[-1].end:
            joined[-1] = Span(joined[-1].begin, max(end, joined[-1].end))
        else:
            joined.append(Span(begin, end))
    return tuple(joined)
