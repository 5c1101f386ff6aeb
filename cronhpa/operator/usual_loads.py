"""
The usual loads that planned events refer to, read from the history beside scaling.

An object whose usual load was not read yet is not one without a history: while an event that needs it holds, or soon
will, nothing is scaled down for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct

from cronhpa.core.forecasts.floor import forecast_source, replicas_for
from cronhpa.core.model.instant import HOUR, MINUTE, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import CronWindow, OnceWindow, Spec
from cronhpa.core.schedules import windows
from cronhpa.core.schedules.calendar_days import schedule_with_calendars
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import Series
from cronhpa.history.load.usual_load import usual_load
from cronhpa.history.store import Store
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_state import Key
from cronhpa.operator.objects.planned_events import PlannedEvents

LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0
# The objects of an event ask one after the other.
_BATCH_SECONDS = 0.5
_READ_AGAIN = HOUR
# Longer than the longest lead of most objects. Earlier than that an unread load matters to nobody.
_SOON = 15 * MINUTE
_SLICE = 20
NOT_READ = Absent("UsualLoadNotRead", "the usual load has not been read from the history yet")


class _Occurrence(Struct, frozen=True):
    """An occurrence of a window, for the load of one object."""

    series: Series
    start: Nanoseconds
    end: Nanoseconds
    window: CronWindow | OnceWindow


class UsualLoads:
    """inventory: the objects. now: the clock. `expected` is given to the planned events."""

    def __init__(self, inventory: Inventory, now: Callable[[], Nanoseconds]) -> None:
        self._inventory, self._now = inventory, now
        # The load of each window, None if the history is too short for it, and when it was read.
        self._loads: dict[_Occurrence, tuple[float | None, Nanoseconds]] = {}
        self._wanted: set[_Occurrence] = set()
        # Those of them that are unread although their event comes soon; their objects know it.
        self._overdue: set[_Occurrence] = set()
        self._is_asked_anew = asyncio.Event()
        self._looked: Nanoseconds = 0

    def expected(self, spec: Spec, key: Key, _: PlannedEvent, event_schedule: EventSchedule) -> int | Absent | None:
        """
        The replicas for the load that a schedule of an event expects; None if the usual load is not known.

        Absent while it was not read and the event comes soon.
        """
        occurrence = self._occurrence(spec, key, event_schedule)
        if occurrence is None or event_schedule.expected_load_percent is None:
            return None
        self._wanted.add(occurrence)
        known = self._loads.get(occurrence)
        if known is None:
            # After a restart an event may hold already: its objects wait for this.
            self._is_asked_anew.set()
            return NOT_READ if self._is_soon(occurrence) else None
        load = known[0]
        state = self._inventory.items.get(key)
        if load is None or state is None:
            return None
        return replicas_for(spec, load * event_schedule.expected_load_percent / 100, state.local.memory.request_per_pod)

    async def keep(self, events: PlannedEvents, store: Callable[[], Store | None]) -> None:
        """Reads what events ask for, until cancelled. store: the history while it is open."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_BATCH_SECONDS if self._overdue else _LOOK_SECONDS):
                    await self._is_asked_anew.wait()
            self._is_asked_anew.clear()
            await asyncio.sleep(_BATCH_SECONDS)
            # What is over needs no load: a replica that waits reads no history, for weeks.
            now = self._now()
            self._wanted = {one for one in self._wanted if now < one.end}
            overdue = {one for one in self._wanted if one not in self._loads and self._is_soon(one)}
            for namespace in {one.series.namespace for one in overdue - self._overdue}:
                events.look_again(namespace)
            self._overdue = overdue
            history = store()
            if history is None or not self._wanted:
                continue
            wanted, self._wanted = self._wanted, set()
            try:
                changed = await self._read(history, wanted)
            except (OSError, StoreError) as error:
                LOG.warning("the usual loads of planned events cannot be read: %s", error)
                self._wanted |= wanted
                continue
            for namespace in changed:
                events.look_again(namespace)
            now = self._now()
            if now - self._looked > _READ_AGAIN:
                # Windows move on: the next occurrence is asked for when its objects are looked at.
                self._looked = now
                events.look_again()

    async def _read(self, history: Store, wanted: set[_Occurrence]) -> set[str]:
        """Reads what is not known or old; returns the namespaces in which a load changed."""
        changed: set[str] = set()
        now = self._now()
        due = [one for one in wanted if one not in self._loads or now - self._loads[one][1] > _READ_AGAIN]
        for first in range(0, len(due), _SLICE):
            batch = due[first : first + _SLICE]
            loads = await asyncio.to_thread(_read, history, batch)
            for one, load in zip(batch, loads, strict=True):
                if one not in self._loads or self._loads[one][0] != load:
                    changed.add(one.series.namespace)
                self._loads[one] = load, now
        self._loads = {one: known for one, known in self._loads.items() if now < one.end + HOUR}
        return changed

    def _is_soon(self, occurrence: _Occurrence) -> bool:
        return occurrence.start - self._now() <= _SOON

    def _occurrence(self, spec: Spec, key: Key, event_schedule: EventSchedule) -> _Occurrence | None:
        source = forecast_source(spec)
        schedule = schedule_with_calendars(event_schedule.schedule, self._inventory.calendars)
        window = schedule.window
        found = None if schedule.problem else windows.occurrence(window, self._now())
        return None if source is None or found is None else _Occurrence(Series(*key, source.name), *found, window)


def _read(store: Store, occurrences: list[_Occurrence]) -> list[float | None]:
    return [_usual_load(store, one) for one in occurrences]


def _usual_load(store: Store, occurrence: _Occurrence) -> float | None:
    """The usual load of one object; None also after an error of ours, which must not end the operator for all."""
    try:
        return usual_load(
            partial(store.loads.steps, occurrence.series), occurrence.window, occurrence.start, occurrence.end
        )
    except (OSError, StoreError):
        raise
    except Exception:
        LOG.exception("the usual load of %s is taken for unknown", occurrence)
        return None
