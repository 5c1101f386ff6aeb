"""
The calendars of the operator's settings while it runs.

Each is read by itself, and again when its text has changed, or the days that are asked for. One that cannot be read
stays as it was, and says why and since when.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from cronhpa.calendars.definition import CalendarDefinition, checked_url, parse_calendars
from cronhpa.calendars.ics import BYTES_MAX, IcsError, around
from cronhpa.calendars.ics_process import UnansweredError, read_in_process
from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.schedules.calendar_days import forget
from cronhpa.sources.no_answer import NoAnswerError, refuse_status
from cronhpa.sources.parse import BYTES_MAX as SETTINGS_BYTES_MAX
from cronhpa.sources.server import SourceConnection

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Between two looks at the files: the kubelet brings a ConfigMap's change within a minute or so."""
AGAIN_SECONDS = 60.0
"""After a feed could not be read, or the process that reads a text was killed: it may have taken all memory."""
SLOW_SECONDS = 5.0
"""Of a calendar that takes longer than this, reading takes a twentieth of the time, however often it changes."""
_SLOW_SHARE = 0.05
_ACCEPT = "text/calendar, text/plain;q=0.5, */*;q=0.1"
_CONNECTIONS = 1
_ADDRESS_MAX = 4096


class CalendarFeeds:
    """path: the file of calendars. changed: called after each change of `calendars`."""

    def __init__(self, path: Path, now: Callable[[], Nanoseconds], changed: Callable[[], None]) -> None:
        self.calendars: dict[str, Calendar] = {}
        self.read_at: dict[str, Nanoseconds] = {}
        """When each was read well the last time: not of a calendar's value, which specs hold."""
        self.problem = ""
        """Why the file of calendars is not in force, "" while it is."""
        self._path, self._now, self._changed = path, now, changed
        self._feeds: dict[str, _Feed] = {}
        self._was_read = False
        self._was_settled = False
        # One text at a time: each takes a process.
        self._place = asyncio.Lock()

    @property
    def is_settled(self) -> bool:
        """
        Whether every calendar of the first file was read, or could not be.

        It stays so: a calendar that is added later, and hangs, must not hold up decisions.
        """
        if not self._was_settled:
            self._was_settled = self._was_read and all(feed.was_tried for feed in self._feeds.values())
        return self._was_settled

    async def follow(self) -> None:
        """Reads for ever; ends by being cancelled."""
        try:
            while True:
                await self._look()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for feed in self._feeds.values():
                await feed.close()

    async def _look(self) -> None:
        try:
            definitions = await asyncio.to_thread(self._definitions)
        except (OSError, ValueError) as error:
            if str(error) != self.problem:
                consequence = "the former ones stay" if self._feeds else "there are no calendars"
                LOG.error("the file of calendars cannot be used, %s: %s", consequence, error)  # noqa: TRY400 - not our fault
            self.problem = str(error)
        else:
            self.problem = ""
            await self._follow_only(definitions)
        self._was_read = True

    def _definitions(self) -> dict[str, CalendarDefinition]:
        with self._path.open("rb") as file:
            return parse_calendars(file.read(SETTINGS_BYTES_MAX + 1).decode(), str(self._path))

    async def _follow_only(self, definitions: dict[str, CalendarDefinition]) -> None:
        for name in [name for name, feed in self._feeds.items() if definitions.get(name) != feed.definition]:
            await self._feeds.pop(name).close()
            if name not in definitions:
                del self.calendars[name]
                self.read_at.pop(name, None)
                self._note_change()
        for name in definitions.keys() - self._feeds.keys():
            # What was read in another place under this name stays until the new one was read.
            self.calendars.setdefault(name, Calendar(name))
            self._feeds[name] = _Feed(definitions[name], self.calendars[name], self._read, self._put, self._now)

    async def _read(self, text: bytes) -> tuple[tuple[CalendarEvent, ...] | IcsError, float]:
        """The events of a text, or why there are none; and how many seconds that took."""
        async with self._place:
            began = asyncio.get_running_loop().time()
            try:
                found: tuple[CalendarEvent, ...] | IcsError = await read_in_process(text, around(self._now()))
            except IcsError as error:
                found = error
            return found, asyncio.get_running_loop().time() - began

    def _put(self, calendar: Calendar) -> None:
        if not calendar.problem:
            self.read_at[calendar.name] = self._now()
        if self.calendars.get(calendar.name) != calendar:
            self.calendars[calendar.name] = calendar
            self._note_change()

    def _note_change(self) -> None:
        forget()
        self._changed()


class _Feed:
    """
    One calendar, followed by a task of its own.

    calendar: as it is known. read: a text -> its events, or its problem, and the seconds that it took. put: takes the
    calendar after each reading.
    """

    def __init__(
        self,
        definition: CalendarDefinition,
        calendar: Calendar,
        read: Callable[[bytes], Awaitable[tuple[tuple[CalendarEvent, ...] | IcsError, float]]],
        put: Callable[[Calendar], None],
        now: Callable[[], Nanoseconds],
    ) -> None:
        self.definition = definition
        self.was_tried = False
        self._calendar, self._read_text, self._put, self._now = calendar, read, put, now
        self._connection = SourceConnection(definition, connections_max=_CONNECTIONS)
        # The newest text by its digest, with the first day that was read of it, and what is wrong with it.
        self._seen: tuple[bytes, Nanoseconds] | None = None
        self._refused = ""
        self._task = asyncio.create_task(self._follow(), name=f"calendar {calendar.name}")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()

    async def _follow(self) -> None:
        definition = self.definition
        while True:
            rest = await self._read()
            self.was_tried = True
            is_far = definition.file is None and not self._calendar.problem
            pause = LOOK_SECONDS if definition.file is not None else AGAIN_SECONDS
            await asyncio.sleep(max(definition.refresh_seconds if is_far else pause, rest))

    async def _read(self) -> float:
        """Returns for how many seconds no text is to be read."""
        name = self._calendar.name
        problem, events, rest = "", self._calendar.events, 0.0
        try:
            text = await self._text()
            digest = (hashlib.sha256(text).digest(), around(self._now()).begin)
            if digest != self._seen:
                found, took = await self._read_text(text)
                self._refused = str(found) if isinstance(found, IcsError) else ""
                events = events if isinstance(found, IcsError) else found
                self._seen = digest
                rest = took / _SLOW_SHARE if took > SLOW_SECONDS else 0.0
                if isinstance(found, UnansweredError):
                    self._seen, rest = None, max(rest, AGAIN_SECONDS)
            problem = self._refused
        except NoAnswerError as error:
            problem = error.message
            if problem != self._calendar.problem:
                LOG.warning("calendar %s: %s (%s)", name, problem, error.cause)
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or type(error).__name__}"
        except ValueError as error:
            problem = f"its address cannot be used: {error}"
        except Exception:
            LOG.exception("calendar %s", name)
            problem = "reading it failed: the operator's log says why"
        self._note(events, problem)
        return rest

    def _note(self, events: tuple[CalendarEvent, ...] | None, problem: str) -> None:
        name, before = self._calendar.name, self._calendar
        # Once a day: events that are over leave the specs.
        begin = self._now() // DAY * DAY
        if not problem:
            if before.problem or before.events is None:
                LOG.info("calendar %s: %d events are read", name, len(events or ()))
            self._calendar = Calendar(name, events, begin=begin)
        else:
            if problem != before.problem:
                consequence = "it stays as it was" if events is not None else "it was never read"
                LOG.warning("calendar %s: %s; %s", name, problem, consequence)
            since = before.since if before.problem and before.since is not None else self._now()
            self._calendar = Calendar(name, events, problem, since, begin)
        self._put(self._calendar)

    async def _text(self) -> bytes:
        """The calendar's text. Raises NoAnswerError, OSError, or ValueError for an address that is none."""
        definition = self.definition
        if definition.file is not None:
            return await asyncio.to_thread(_content, definition.file, BYTES_MAX + 1)
        address = definition.url
        if address is None:
            assert definition.url_file is not None
            address = (await asyncio.to_thread(_content, definition.url_file, _ADDRESS_MAX)).decode().strip()
        response, body = await self._connection.read(
            "GET", checked_url(address), bytes_max=BYTES_MAX, headers={"Accept": _ACCEPT}
        )
        refuse_status(response.status)
        return body


def _content(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        return file.read(bytes_max)
