"""The objects that the page shows, as its own process has them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from cronhpa.core.model.calendar import Calendar

Json = dict[str, Any]
STATED_DEFAULTS = "statedDefaults"
"""Where `body` has them in the metadata: no field of the API."""


class ObjectMark(NamedTuple):
    """What tells whether an object changed; it costs far less than the object."""

    key: tuple[str, str]
    uid: str
    generation: int
    version: int
    """Changes with the status."""
    schedules: Any
    """Equal while the spec, and the planned events and calendars of the object, ask for the same."""


class LiveObject(Struct, frozen=True, gc=False):
    """A CronHPA as last seen."""

    namespace: str
    name: str
    uid: str
    generation: int
    version: int
    """Changes with the status."""
    zone: str
    """The time zone in which its times are shown."""
    spec: bytes
    """The spec as written, JSON packed by zlib; empty if it is unknown."""
    packed_status: bytes
    """JSON packed by zlib."""
    events: bytes = b""
    """The schedules of the planned events that pick it, by msgpack; empty if there are none."""
    calendars: tuple[Calendar, ...] = ()
    """The calendars that its spec names, as far as there are such."""
    stated_defaults: tuple[str, ...] = ()
    """Paths of fields of the spec that hold their default because somebody wrote it."""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def status(self) -> Json:
        status: Json = msgspec.json.decode(zlib.decompress(self.packed_status))
        return status

    def body(self) -> Json:
        """The object as the API serves it."""
        spec = msgspec.json.decode(zlib.decompress(self.spec)) if self.spec else {}
        meta: Json = {"namespace": self.namespace, "name": self.name, "uid": self.uid, "generation": self.generation}
        if self.stated_defaults:
            meta[STATED_DEFAULTS] = self.stated_defaults
        return {"metadata": meta, "spec": spec if isinstance(spec, dict) else {}, "status": self.status}


class Leader(Struct, frozen=True):
    leads: bool
    """Whether this replica decides."""
    holder: str = ""
    """The replica that decides, as far as this one knows; "" if unknown."""
    part: str = ""
    """The part of the fleet that this replica is limited to, in words; "" for everything."""


class Objects(Protocol):
    """The live objects; in a replica that does not lead, as its watches deliver them."""

    def marks(self) -> Iterable[ObjectMark]: ...

    def get(self, namespace: str, name: str) -> LiveObject | None: ...

    def namespaces(self) -> Iterable[str]: ...

    def leader(self) -> Leader: ...

    def calendars(self) -> Iterable[Calendar]:
        """All that there are: a changed object may name others than it did."""
        ...
