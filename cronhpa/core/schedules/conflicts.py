"""
Conflicts: schedules that contradict each other or themselves, now or at their next window. They change no decision.

Callers look for conflicts when a spec or one of its windows has changed, not at every reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from cronhpa.core.model.instant import DAY, MINUTE, Nanoseconds, format_instant
from cronhpa.core.model.spec import CronWindow, Schedule, Spec
from cronhpa.core.schedules import windows
from cronhpa.core.schedules.ranks import contradiction, settled_at

# Bounds the CPU time for 50 schedules that all contradict each other: later instants are left out.
_INSTANTS_MAX = 100
# A condition's message has room for this many, with names of 63 characters.
_TOLD_MAX = 10
# Windows are searched for starts within their own duration once in this time.
_LOOK_AGAIN = 30 * DAY


class Conflict(Struct, frozen=True):
    reason: str
    text: str
    """Names the sources of both bounds; equal for each occurrence."""
    start: Nanoseconds | None = None
    """None if the conflict holds now."""
    end: Nanoseconds | None = None
    """None if the end is not known."""
    sources: tuple[str, ...] = ()
    """The names of the schedules that state the bounds, "" for the spec."""

    def __str__(self) -> str:
        since = "" if self.start is None else f"from {format_instant(self.start)} "
        until = "" if self.end is None else f"until {format_instant(self.end)} "
        return f"{since}{until}{self.text}"


def conflicts(spec: Spec, now: Nanoseconds) -> tuple[Conflict, ...]:
    """
    The conflicts among the windows that are open at `now` and the next window of each schedule.

    First contradictions between bounds, each at its first occurrence, in order of time. Then windows that never open,
    that are not known to close in spite of an `end`, or that are longer than the time between their starts.
    """
    readable = [schedule for schedule in spec.schedules if schedule.problem is None and not schedule.suspend]
    # Only floors above the lowest cap can contradict, and caps below the highest floor: most objects have none.
    highest = max((spec.min_replicas, *(schedule.floor for schedule in readable if schedule.floor is not None)))
    lowest = min((spec.max_replicas, *(schedule.cap for schedule in readable if schedule.cap is not None)))
    torn = [
        schedule
        for schedule in readable
        if (schedule.floor is not None and schedule.floor > lowest)
        or (schedule.cap is not None and schedule.cap < highest)
        or schedule.is_relative
    ]
    instants = sorted(
        {*(start for schedule in torn for start in (now, *_starts(schedule, now))), *_meetings(torn, now)}
    )
    contradictions: dict[str, Conflict] = {}
    for at in instants[:_INSTANTS_MAX]:
        settled = settled_at(spec, at)
        text = contradiction(settled)
        if text and text not in contradictions:
            ends = (settled.low.proposal.until, settled.high.proposal.until)
            end = min((end for end in ends if end is not None), default=None)
            sources = settled.low.by.name, settled.high.by.name
            contradictions[text] = Conflict("Contradiction", text, None if at == now else at, end, sources)
    return (*contradictions.values(), *(odd for schedule in readable for odd in _oddities(schedule, now)))[:_TOLD_MAX]


def _starts(schedule: Schedule, now: Nanoseconds) -> Iterator[Nanoseconds]:
    """The next start of a schedule after `now`."""
    state = windows.state(schedule.window, now)
    if state.is_open and state.until is not None:
        state = windows.state(schedule.window, state.until)
    if not state.is_open and state.until is not None:
        yield state.until


def _meetings(schedules: list[Schedule], now: Nanoseconds) -> Iterator[Nanoseconds]:
    """Instants at which a floor meets a lower cap: the first start of one in the open or next window of the other."""
    for one in schedules:
        for other in schedules:
            if one.floor is not None and other.cap is not None and one.floor > other.cap:
                yield from _start_within(one, other, now)
                yield from _start_within(other, one, now)


def _start_within(one: Schedule, other: Schedule, now: Nanoseconds) -> Iterator[Nanoseconds]:
    state = windows.state(other.window, now)
    begin = now if state.is_open else state.until
    if begin is None:
        return
    end = windows.state(other.window, begin).until
    state = windows.state(one.window, begin)
    if not state.is_open and state.until is not None and (end is None or state.until < end):
        yield state.until


def _oddities(schedule: Schedule, now: Nanoseconds) -> Iterator[Conflict]:
    window = schedule.window
    if not isinstance(window, CronWindow):
        return

    def odd(reason: str, text: str) -> Conflict:
        return Conflict(reason, f"Schedule/{schedule.name} {text}", sources=(schedule.name,))

    if windows.never_opens(window, now):
        yield odd("NeverOpens", "never opens: exclude and only leave it no start")
    if window.end is not None and windows.never_closes(window, now):
        yield odd("NeverCloses", "is not known to close: each end that was looked at comes at the instant of a start")
    if window.duration is not None and windows.overlaps_itself(window, now - now % _LOOK_AGAIN) is not None:
        yield odd(
            "OverlapsItself",
            f"starts again before its {window.duration // MINUTE} minutes are over: "
            "it stays open from one start into the next",
        )
