"""Reads a calendar in a process of its own: the event loop goes on, and a text that takes too long is given up."""

from __future__ import annotations

import asyncio
import signal
import sys

import msgspec

from cronhpa.calendars.ics import BYTES_MAX, IcsError
from cronhpa.calendars.ics_worker import SECONDS_MAX, IcsAnswer
from cronhpa.core.model.calendar import CalendarEvent
from cronhpa.core.model.spec import Span

# A busy node gives a niced process less than a processor.
_WAIT_FACTOR = 3.0


class UnansweredError(IcsError):
    """The process did not say what is wrong, as one that the kernel kills for memory: the text may be a good one."""


async def read_in_process(
    text: bytes, span: Span, *, seconds: int = SECONDS_MAX, wait_factor: float = _WAIT_FACTOR
) -> tuple[CalendarEvent, ...]:
    """
    The events within a span. seconds: of the processor, at most. wait_factor: how many times as long it may take.

    Raises IcsError, also for a text whose reading takes too much time or memory; UnansweredError if another reading may
    succeed; OSError where no process starts.
    """
    if len(text) > BYTES_MAX:
        raise IcsError(f"it has more than {BYTES_MAX >> 20} MiB: name a calendar with fewer events")
    command = (sys.executable, "-m", "cronhpa.calendars.ics_worker", *map(str, (span.begin, span.end, seconds)))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(wait_factor * seconds):
            written, _ = await process.communicate(text)
    except TimeoutError:
        why = "see whether the operator's node is busy, or its limit of cpu low"
        within = f"{seconds} s of the processor in {wait_factor * seconds:g} s"
        raise UnansweredError(f"the process that reads it got less than {within}: {why}") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        answer = msgspec.json.decode(written, type=IcsAnswer)
    except msgspec.DecodeError:
        if process.returncode == -signal.SIGXCPU:
            rule = "shorten rules that begin long ago or recur by the hour"
            raise IcsError(f"its events cannot be expanded within {seconds} s: {rule}") from None
        raise UnansweredError(_unanswered(process.returncode or 0)) from None
    if answer.problem:
        raise IcsError(answer.problem)
    return answer.events


def _unanswered(returncode: int) -> str:
    if returncode == -signal.SIGKILL:
        return "the process that reads it was killed: see whether the operator has enough memory"
    return f"the process that reads it ended without an answer, with {returncode}: report it with the calendar's text"
