"""The spec by which the operator decides: the written one with its calendars, and the planned events that pick it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.calendar import Calendar
from cronhpa.core.model.spec import ControllerOptions, Schedule, Spec
from cronhpa.core.schedules.calendar_days import with_calendars

_SCHEDULES = msgspec.msgpack.Decoder(tuple[Schedule, ...])


def effective_spec(
    text: Any, namespace: str, options: ControllerOptions, events: bytes, calendars: Sequence[Calendar] = ()
) -> Spec:
    """
    The spec of a written one.

    options: the operator's. events: packed as in `LiveObject`. Raises SpecError.
    """
    return with_packed(parse_spec(text, namespace, options), events, calendars)


def with_packed(spec: Spec, events: bytes, calendars: Sequence[Calendar] = ()) -> Spec:
    """The spec with packed schedules of events, and what its calendars hold."""
    if events:
        spec = replace(spec, schedules=(*spec.schedules, *_SCHEDULES.decode(events)))
    return with_calendars(spec, {calendar.name: calendar for calendar in calendars})
