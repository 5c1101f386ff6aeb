"""Questions of the page to its worker processes: values that cross the border of a process, and the tasks by name."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from cronhpa.core.model.calendar import Calendar
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.model.prices import Prices
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.history.database.address import PortableAddress

# Shown back and ahead of now: as long as every decision is kept.
SPAN: Nanoseconds = 7 * DAY


class ViewQuestion(Struct, frozen=True):
    """An object as it is now, as JSON."""

    store: PortableAddress
    """The address of the store."""
    namespace: str
    name: str
    own_zone: str
    """The time zone of the object."""
    zone: str
    """The time zone in which the caller reads times."""
    now: Nanoseconds
    body: bytes
    options: ControllerOptions
    """The operator's."""
    events: bytes = b""
    """As of `LiveObject`."""
    calendars: tuple[Calendar, ...] = ()
    """As of `LiveObject`."""


class DecisionQuestion(Struct, frozen=True):
    """The decision that was in force at an instant."""

    store: PortableAddress
    namespace: str
    name: str
    zone: str
    at: Nanoseconds
    now: Nanoseconds


class ScheduledObject(Struct, frozen=True, gc=False):
    """The inputs of an object's coming bounds."""

    namespace: str
    name: str
    spec: bytes
    """The spec as written, packed."""
    memory: dict[str, Any] = {}
    """The memory, for leads and start-up time."""
    events: bytes = b""
    """As of `LiveObject`."""


class EdgesQuestion(Struct, frozen=True):
    objects: list[ScheduledObject]
    now: Nanoseconds
    until: Nanoseconds
    options: ControllerOptions
    """The operator's."""
    calendars: tuple[Calendar, ...] = ()
    """Those that the objects name."""


class BoundsEdge(Struct, frozen=True, array_like=True, gc=False):
    """A change of an object's bounds."""

    at: Nanoseconds
    object: int
    """Place of the object in the question."""
    before: int
    after: int
    """The minimum before and after."""
    cap_before: int
    cap_after: int
    """The maximum before and after."""
    what: tuple[str, ...]
    """The schedules that open, close or begin to lead."""


class EdgesAnswer(Struct, frozen=True):
    edges: list[BoundsEdge]
    minimums: list[int] = []
    """The minimum in force at the beginning, of each object; 0 where it is unknown."""
    open_now: list[tuple[str, ...]] = []
    """The schedules that are open at the beginning, of each object."""
    unread: int = 0
    """Number of objects whose spec cannot be read."""
    cut: int = 0
    """Number of objects with more edges than are listed."""


class RerunQuestion(Struct, frozen=True):
    """Decide the last week again."""

    store: PortableAddress
    namespace: str
    name: str
    now: Nanoseconds
    body: bytes
    text: str
    """YAML of the changed object, or of its spec alone."""
    options: ControllerOptions
    """The operator's."""
    events: bytes = b""
    """As of `LiveObject`: they hold in both runs."""
    calendars: tuple[Calendar, ...] = ()
    """Those that there are."""
    prices: Prices = Prices()
    progress: str = ""
    """A file into which the task writes the share that is done, from 0 to 1; "" for none."""


ENCODER = msgspec.msgpack.Encoder()


def object_view(payload: bytes) -> bytes:
    """Runs in a worker: an encoded ViewQuestion to JSON."""
    from cronhpa.page.object_view import view_of  # noqa: PLC0415 - imported where it is computed

    return view_of(msgspec.msgpack.decode(payload, type=ViewQuestion))


def past_decision(payload: bytes) -> bytes:
    """Runs in a worker: an encoded DecisionQuestion to JSON, `null` if nothing is kept."""
    from cronhpa.page.object_view import decision_of  # noqa: PLC0415 - as above

    return decision_of(msgspec.msgpack.decode(payload, type=DecisionQuestion))


def coming_edges(payload: bytes) -> bytes:
    """Runs in a worker: an encoded EdgesQuestion to an encoded EdgesAnswer."""
    from cronhpa.page.edges import edges_of  # noqa: PLC0415 - as above

    return ENCODER.encode(edges_of(msgspec.msgpack.decode(payload, type=EdgesQuestion)))


def rerun(payload: bytes) -> bytes:
    """Runs in a worker: an encoded RerunQuestion to JSON."""
    from cronhpa.page.rerun import rerun_of  # noqa: PLC0415 - as above

    return rerun_of(msgspec.msgpack.decode(payload, type=RerunQuestion))
