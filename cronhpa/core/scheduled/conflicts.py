"""
Schedules that contradict each other or themselves, now or when they come next: what is told, not what is decided.

It is looked for when a spec or one of its windows has changed, and not at every turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from cronhpa.core.instant import DAY, MINUTE, Nanoseconds, format_instant
from cronhpa.core.scheduled import windows
from cronhpa.core.scheduled.bounds import contradiction, settled_at
from cronhpa.core.spec import CronWindow, Schedule, Spec

# Of 50 schedules that all contradict each other the first to come are told: 100 instants cost 5 ms.
_INSTANTS_MAX = 100
# What a condition's message has room for, with names of 63 characters.
_TOLD_MAX = 10
# How often a window is looked through for starts within its own duration: that is half a millisecond.
_LOOK_AGAIN = 30 * DAY


class Conflict(Struct, frozen=True):
    """
    text: who contradicts whom, the same each time that it comes. start: None where it holds already; end: None where
    nothing ends it by itself.
    """

    reason: str
    text: str
    start: Nanoseconds | None = None
    end: Nanoseconds | None = None

    def __str__(self) -> str:
        since = "" if self.start is None else f"from {format_instant(self.start)} "
        until = "" if self.end is None else f"until {format_instant(self.end)} "
        return f"{since}{until}{self.text}"


def conflicts(spec: Spec, now: Nanoseconds) -> tuple[Conflict, ...]:
    """
    What contradicts each other in the windows that are open at `now` and in the next one of each schedule.

    The first occurrence of each is told, in the order in which they come. Behind them windows that never open, or never
    close though they have an end, and such as are longer than the time between their starts.
    """
    readable = [item for item in spec.schedules if item.problem is None and not item.suspend]
    # Only floors above the lowest cap can contradict, and caps below the highest floor: most objects have none.
    highest = max((spec.min_replicas, *(item.floor for item in readable if item.floor is not None)))
    lowest = min((spec.max_replicas, *(item.cap for item in readable if item.cap is not None)))
    torn = [
        item
        for item in readable
        if (item.floor is not None and item.floor > lowest) or (item.cap is not None and item.cap < highest)
    ]
    instants = sorted({*(start for item in torn for start in (now, *_starts(item, now))), *_meetings(torn, now)})
    found: dict[str, Conflict] = {}
    for at in instants[:_INSTANTS_MAX]:
        settled = settled_at(spec, at)
        text = contradiction(settled)
        if text and text not in found:
            ends = (settled.low.proposal.until, settled.high.proposal.until)
            end = min((end for end in ends if end is not None), default=None)
            found[text] = Conflict("Contradiction", text, None if at == now else at, end)
    return (*found.values(), *(odd for item in readable for odd in _oddities(item, now)))[:_TOLD_MAX]


def _starts(schedule: Schedule, now: Nanoseconds) -> Iterator[Nanoseconds]:
    """The next start of a schedule after `now`."""
    state = windows.state(schedule.window, now)
    if state.is_open and state.until is not None:
        state = windows.state(schedule.window, state.until)
    if not state.is_open and state.until is not None:
        yield state.until


def _meetings(schedules: list[Schedule], now: Nanoseconds) -> Iterator[Nanoseconds]:
    """Where a floor and a lower cap meet: the first start of one within the open or the next window of the other."""
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
    found = windows.state(one.window, begin)
    if not found.is_open and found.until is not None and (end is None or found.until < end):
        yield found.until


def _oddities(schedule: Schedule, now: Nanoseconds) -> Iterator[Conflict]:
    window = schedule.window
    if not isinstance(window, CronWindow):
        return
    if windows.never_opens(window, now):
        yield Conflict("NeverOpens", f"Schedule/{schedule.name} never opens: exclude and only leave it no start")
    if window.end is not None and windows.never_closes(window, now):
        yield Conflict(
            "NeverCloses",
            f"Schedule/{schedule.name} never closes: each of its ends comes at the instant of a start",
        )
    if window.duration is not None and windows.overlaps_itself(window, now - now % _LOOK_AGAIN) is not None:
        yield Conflict(
            "OverlapsItself",
            f"Schedule/{schedule.name} starts again before its {window.duration // MINUTE} minutes are over: "
            "it stays open from one start into the next",
        )
