"""The days of the calendars that objects and events name, read from files: `--ics NAME=FILE`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cronhpa.cli.objects.event_documents import EventDocument
from cronhpa.cli.objects.object_inputs import ObjectInput

if TYPE_CHECKING:
    from cronhpa.core.model.calendar import Calendars


def objects_with_days(given: Sequence[ObjectInput], calendars: Calendars) -> list[ObjectInput]:
    """The objects with the days of the calendars that they name. One that no file was named for is told."""
    from cronhpa.core.schedules.calendar_days import calendars_of, with_calendars

    return [replace(one, spec=with_calendars(one.spec, _known(calendars, calendars_of(one.spec)))) for one in given]


def events_with_days(documents: Sequence[EventDocument], calendars: Calendars) -> list[EventDocument]:
    """The events likewise: one that names a calendar without a file has `problems`, and no schedules."""
    from cronhpa.core.schedules.calendar_days import calendars_in, event_with_calendars

    out = []
    for document in documents:
        names = {name for one in document.event.schedules for name in calendars_in(one.schedule.window)}
        event = event_with_calendars(document.event, _known(calendars, names))
        out.append(replace(document, event=event))
    return out


def _known(calendars: Calendars, names: Iterable[str]) -> Calendars:
    from cronhpa.core.model.calendar import Calendar

    missing = {name for name in names if name not in calendars}
    return {**calendars, **{name: Calendar(name, problem=f"name its file: --ics {name}=FILE") for name in missing}}
