"""Reads a calendar in a process of its own: the event loop goes on, and a text that takes too long is given up."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from cronhpa.calendars.ics import BYTES_MAX, IcsError
from cronhpa.calendars.ics_worker import SECONDS_MAX, IcsAnswer
from cronhpa.core.model.calendar import CalendarEvent
from cronhpa.core.model.spec import Span

# A busy node gives a niced process less than a processor.
_WAIT_FACTOR = 3.0


async def read_in_process(text: bytes, span: Span, *, seconds: int = SECONDS_MAX) -> tuple[CalendarEvent, ...]:
    """
    The events within a span. seconds: of the processor, at most.

    Raises IcsError, also for a text whose reading takes too much time or memory, and OSError where no process starts.
    """
    if len(text) > BYTES_MAX:
        raise IcsError(f"it has more than {BYTES_MAX >> 20} MiB: name a calendar with fewer events")
    command = (sys.executable, "-m", "cronhpa.calendars.ics_worker", *map(str, (span.begin, span.end, seconds)))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(_WAIT_FACTOR * seconds):
            written, _ = await process.communicate(text)
    except TimeoutError:
        raise IcsError(_too_long(seconds)) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        answer = msgspec.json.decode(written, type=IcsAnswer)
    except msgspec.DecodeError:
        # Killed by its limit.
        is_killed = (process.returncode or 0) < 0
        raise IcsError(_too_long(seconds) if is_killed else "the process that reads it failed") from None
    if answer.problem:
        raise IcsError(answer.problem)
    return answer.events


def _too_long(seconds: int) -> str:
    return f"its events cannot be expanded within {seconds} s: shorten rules that begin long ago or recur by the hour"
