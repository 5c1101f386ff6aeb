"""
Cron texts of other schedulers become windows.

The other schedulers parse with robfig/cron or forks of it: `?` is `*`, weekdays are 0 to 6, an optional first field has
seconds. Windows are compared and derived in wall time, without clock changes: robfig/cron skips a time in a spring gap,
and a window of ours opens at the first instant after the gap.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from itertools import groupby, islice, pairwise, takewhile

from msgspec import Struct

from cronhpa.core.schedules import cron
from cronhpa.migration.documents.document import Json

# A pattern of weekdays repeats after a week. With days of the month and months it takes up to 28 years; eight years
# have every date, 29 February included, on most weekdays.
_ROUND = timedelta(days=15)
_YEARS = timedelta(days=8 * 366)
_EVENTS_MAX = 4000
_DATES_AHEAD = timedelta(days=2 * 366)
_DAY_FIELDS = slice(2, 4)
_SEVEN = re.compile(r"7(?:-.*|/.*)?|[^/]*-7(?:/.*)?")

Event = tuple[datetime, int]


def five_fields(text: str) -> str:
    """The text with `*` instead of `?`: the same times, in fields that cron accepts here."""
    return " ".join(field.replace("?", "*") for field in text.split())


def names_weekday_7(text: str) -> bool:
    """Whether five fields name Sunday as 7, which robfig/cron refuses."""
    *_, weekdays = text.split()
    return not text.startswith("@") and any(_SEVEN.fullmatch(part) for part in weekdays.split(","))


def without_seconds(text: str) -> tuple[str, str]:
    """The last five fields of a text that begins with seconds, and the seconds field. A missing weekday becomes `*`."""
    seconds, _, others = five_fields(text).partition(" ")
    rest = others.split()
    return " ".join([*rest, "*"] if len(rest) == 4 else rest), seconds  # noqa: PLR2004 - minute, hour, day, month


class Difference(Struct, frozen=True):
    """Two consecutive edges."""

    first: datetime
    second: datetime
    is_open: bool
    """Whether our window is open between them; the source is in the opposite state."""


def difference(start: str, end: str, wall: datetime, *, tie_is_active: bool) -> Difference | None:
    """
    The first interval where "the next edge is an end" (KEDA, Crane) and "the last edge is a start" (here) differ.

    The two rules agree while starts and ends alternate. Between two ends the source is active and our window closed;
    between two starts it is the other way round. Of a start and an end at the same time the start counts here.
    tie_is_active: whether the source is active before such a pair, as if the end stood alone. None: no difference.
    """
    for (first, kinds), (second, following) in pairwise(_edges((start, end), wall)):
        is_open, is_active = 0 in kinds, 1 in following and (tie_is_active or 0 not in following)
        if is_open != is_active:
            return Difference(first, second, is_open)
    return None


def overlap(one: tuple[str, str], other: tuple[str, str], wall: datetime) -> datetime | None:
    """The first time at which two windows, each given as (start, end), are open together; None: never."""
    is_open = [False, False]
    for at, edges in _edges((*one, *other), wall):
        for window in (0, 1):
            # An end first: one window may begin where the other ends.
            is_open[window] = 2 * window in edges or (is_open[window] and 2 * window + 1 not in edges)
        if all(is_open):
            return at
    return None


class Job(Struct, frozen=True):
    """A job that sets a count."""

    name: str
    size: int
    cron: str | None = None
    """Five fields; None for a job that runs once, at `once`."""
    once: datetime | None = None
    order: int = 0
    """Of two jobs in the same minute, the one with the higher order counts."""


class DaysOff(Struct, frozen=True):
    """Days on which no job runs."""

    weekdays: frozenset[int] = frozenset()
    """0 is Sunday."""
    dates: tuple[str, ...] = ()
    """Cron texts of days, such as `0 0 15 11 *`."""

    def until(self, wall: datetime) -> frozenset[date]:
        """The dates of the next two years."""
        end = wall.replace(hour=0, minute=0) - timedelta(minutes=1) + _DATES_AHEAD
        begin = wall.replace(hour=0, minute=0) - timedelta(minutes=1)
        return frozenset(
            at.date() for text in self.dates for at in takewhile(lambda at: at <= end, cron.forwards(text, begin))
        )


class Windows(Struct, frozen=True):
    of: tuple[tuple[Job, Json], ...]
    """Jobs with their windows, as fields of a schedule."""
    replaced: tuple[Job, ...] = ()
    """Jobs whose count the next job replaces at once."""


def next_time(text: str, wall: datetime) -> datetime | None:
    """The first wall time after `wall` that a cron text names."""
    return next(iter(cron.forwards(text, wall)), None)


class NoWindows(Exception):  # noqa: N818 - an answer, not an error
    """The jobs have no windows; the text says why."""


def jobs_to_windows(jobs: Sequence[Job], wall: datetime, off: DaysOff | None = None) -> Windows:
    """
    Each job with its windows: from each of its times to the next time of any job.

    wall: the local time from which jobs are considered. off: days without jobs; dates are written out for two years.
    Raises NoWindows, with the reason, if no cron text has the ends of a job's windows.
    """
    off = off or DaysOff()
    recurring = [job for job in jobs if job.cron is not None]
    replaced = _replaced(recurring, wall)
    recurring = [job for job in recurring if job not in replaced]
    dates = off.until(wall)
    out = _recurring(recurring, wall, off.weekdays)
    if dates:
        left_out = {"dates": [{"from": day.isoformat(), "to": day.isoformat()} for day in sorted(dates)]}
        out = [(job, fields | {"exclude": left_out}) for job, fields in out]
        out += _on_days_off(recurring, wall, off.weekdays, dates)
    texts = [job.cron or "" for job in recurring]
    for job in jobs:
        if job.once is not None and not _is_off(job.once, off.weekdays, dates):
            later = [other.once for other in jobs if other.once is not None and other.once > job.once]
            following = [_next_kept(text, job.once, off.weekdays, dates) for text in texts]
            nexts = [at for at in (*later, *following) if at is not None]
            if not nexts:
                raise NoWindows(f"nothing follows {job.name}, so nothing ends what it sets")
            out.append((job, {"from": _minute(job.once), "to": _minute(min(nexts))}))
    return Windows(tuple(out), tuple(replaced))


def _replaced(jobs: Sequence[Job], wall: datetime) -> list[Job]:
    """Jobs that a job of a higher order replaces each time. Raises NoWindows for two jobs of one order in a minute."""
    events = list(_merged([job.cron or "" for job in jobs], wall))
    times: dict[datetime, list[int]] = {}
    for at, index in events:
        times.setdefault(at, []).append(index)
    last: set[int] = set()
    for at, indices in times.items():
        highest = max(jobs[index].order for index in indices)
        winners = [index for index in indices if jobs[index].order == highest]
        if len(winners) > 1:
            raise NoWindows(f"two jobs run at {at:%a %Y-%m-%d %H:%M}, and chance decides which counts")
        last.add(winners[0])
    return [job for index, job in enumerate(jobs) if index not in last]


def _recurring(jobs: Sequence[Job], wall: datetime, off: AbstractSet[int]) -> list[tuple[Job, Json]]:
    if not jobs:
        return []
    texts = [job.cron or "" for job in jobs]
    every = list(_merged(texts, wall))
    events = _kept(every, jobs, off, frozenset())
    followers = {
        index: {j for (_, i), (_, j) in pairwise(events) if i == index and j != i} for index in range(len(texts))
    }
    alone = [index for index, others in followers.items() if not others]
    if alone:
        raise NoWindows("a job is followed by no other, so nothing ends what it sets")
    if events == every and all(len(others) == 1 for others in followers.values()):
        return [
            (jobs[index], {"start": texts[index], "end": texts[next(iter(others))]})
            for index, others in followers.items()
        ]
    if not _is_weekly(texts):
        raise NoWindows(
            "a job is followed by one job on some dates and by another on others, and the dates are not weekdays alone"
        )
    return [(jobs[index], fields) for index, fields in _by_weekday(events)]


def _kept(events: Sequence[Event], jobs: Sequence[Job], off: AbstractSet[int], dates: AbstractSet[date]) -> list[Event]:
    """The events that count: none on a day off; of several in one minute, the one of the highest order."""
    return [
        max(of_minute, key=lambda event: jobs[event[1]].order)
        for at, of_minute in groupby(events, lambda event: event[0])
        if not _is_off(at, off, dates)
    ]


def _on_days_off(
    jobs: Sequence[Job], wall: datetime, off: AbstractSet[int], dates: AbstractSet[date]
) -> list[tuple[Job, Json]]:
    """
    Windows for dates off, on which the count of the last job that ran goes on: from the first job that does not run to
    the next job that does.
    """
    texts = [job.cron or "" for job in jobs]
    begin = wall - timedelta(days=60)  # early enough for the last job before a date off that is near
    merged = heapq.merge(*(_times(text, index, begin) for index, text in enumerate(texts)))
    events = _kept(list(_until(merged, wall + _DATES_AHEAD + _ROUND)), jobs, off, frozenset())
    out: list[tuple[Job, Json]] = []
    before: int | None = None
    since: datetime | None = None
    for at, index in events:
        if at.date() in dates:
            since = since or at
            continue
        if since is not None and before is not None and at > wall:
            out.append((jobs[before], {"from": _minute(since), "to": _minute(at)}))
        before, since = index, None
    return out


def _is_off(at: datetime, off: AbstractSet[int], dates: AbstractSet[date]) -> bool:
    return at.isoweekday() % 7 in off or at.date() in dates


def _next_kept(text: str, at: datetime, off: AbstractSet[int], dates: AbstractSet[date]) -> datetime | None:
    times = islice(cron.forwards(text, at), _EVENTS_MAX)
    return next((moment for moment in times if not _is_off(moment, off, dates)), None)


def _by_weekday(events: Sequence[Event]) -> list[tuple[int, Json]]:
    """
    Windows for jobs whose followers differ from weekday to weekday: one for each pair of times of day, start and end.

    Each end of a group is the event right after a start of the group, so the first end after a start belongs to it.
    """
    # The first window may have begun before `wall`, so it is left out.
    edges = [(at, following, index) for (at, index), (following, _) in pairwise(_without_repeats(events))][1:]
    week = edges[0][0] + timedelta(days=7)
    key = lambda edge: (edge[2], edge[0].time(), edge[1].time())  # noqa: E731 - used twice, in sort and group
    grouped = groupby(sorted((edge for edge in edges if edge[0] < week), key=key), key=key)
    out = []
    for (index, opens, closes), group in grouped:
        members = list(group)
        starts = _weekdays([at for at, _, _ in members])
        ends = _weekdays([at for _, at, _ in members])
        fields = {
            "start": f"{opens.minute} {opens.hour} * * {starts}",
            "end": f"{closes.minute} {closes.hour} * * {ends}",
        }
        out.append((index, fields))
    return out


def _without_repeats(events: Sequence[Event]) -> list[Event]:
    """The events without repeats, in which a job sets its own count again."""
    return [event for number, event in enumerate(events) if number == 0 or events[number - 1][1] != event[1]]


def _weekdays(moments: Sequence[datetime]) -> str:
    return ",".join(str(day) for day in sorted({moment.isoweekday() % 7 for moment in moments}))


def _edges(texts: Sequence[str], wall: datetime) -> Iterator[tuple[datetime, set[int]]]:
    """The times of all texts after `wall`, each with the indices of the texts that name it."""
    by_time: Iterator[tuple[datetime, Iterable[Event]]] = groupby(_merged(texts, wall), lambda event: event[0])
    return ((at, {index for _, index in events}) for at, events in by_time)


def _merged(texts: Sequence[str], wall: datetime) -> Iterator[Event]:
    """The times of all texts after `wall`, in order, each with the index of its text, until the pattern repeats."""
    if _is_weekly(texts):
        # No limit on events: one text alone can have 1440 times a day.
        return _until(heapq.merge(*(_times(text, index, wall) for index, text in enumerate(texts))), wall + _ROUND)
    events = _until(heapq.merge(*(_times(text, index, wall) for index, text in enumerate(texts))), wall + _YEARS)
    return islice(events, _EVENTS_MAX)


def _times(text: str, index: int, wall: datetime) -> Iterator[Event]:
    return ((at, index) for at in cron.forwards(text, wall))


def _until(events: Iterable[Event], until: datetime) -> Iterator[Event]:
    return takewhile(lambda event: event[0] <= until, events)


def _is_weekly(texts: Sequence[str]) -> bool:
    return all(text.split()[_DAY_FIELDS] == ["*", "*"] or text in {"@hourly", "@daily", "@midnight"} for text in texts)


def _minute(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M")
