"""The process that reads one calendar: its text on standard input, its events or its problem on standard output."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress

import msgspec

from cronhpa.calendars.ics import IcsError, read_ics
from cronhpa.core.model.calendar import CalendarEvent
from cronhpa.core.model.spec import Span

SECONDS_MAX = 30
"""Of the processor, unless it is told otherwise."""
_MEMORY_MAX = 512 * 2**20
_NICENESS = 10


class IcsAnswer(msgspec.Struct, frozen=True):
    events: tuple[CalendarEvent, ...] = ()
    problem: str = ""
    """Why there are no events; "" if there are."""


def main() -> None:
    os.nice(_NICENESS)
    begin, end, seconds = map(int, sys.argv[1:])
    for kind, soft, hard in (
        (resource.RLIMIT_DATA, _MEMORY_MAX, _MEMORY_MAX),
        # At the soft limit a signal that tells it from a kill for memory; it would leave a core.
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with suppress(OSError, ValueError):  # a system that has no such limit, or a lower one
            resource.setrlimit(kind, (soft, hard))
    try:
        answer = IcsAnswer(read_ics(sys.stdin.buffer.read(), Span(begin, end)))
    except IcsError as error:
        answer = IcsAnswer(problem=str(error))
    except MemoryError:
        answer = IcsAnswer(problem=f"reading it takes more than {_MEMORY_MAX >> 20} MiB of memory")
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
