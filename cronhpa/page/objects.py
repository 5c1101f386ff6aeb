"""The objects that the page shows, as the process that serves it knows them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
from msgspec import Struct

Json = dict[str, Any]


class LiveObject(Struct, frozen=True, gc=False):
    """
    A CronHPA as last seen.

    version: changes with the status. spec: as it was written, JSON packed by zlib, empty where it cannot be told. zone:
    in which its times are told.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    version: int
    zone: str
    spec: bytes
    status: Json

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def body(self) -> Json:
        """The object as the API serves it."""
        spec = msgspec.json.decode(zlib.decompress(self.spec)) if self.spec else {}
        meta = {"namespace": self.namespace, "name": self.name, "uid": self.uid, "generation": self.generation}
        return {"metadata": meta, "spec": spec if isinstance(spec, dict) else {}, "status": self.status}


class Leader(Struct, frozen=True):
    """leads: whether this replica decides. holder: who does, as far as this one knows; "" where nobody is known."""

    leads: bool
    holder: str = ""


class Objects(Protocol):
    """What is known live: of a replica that does not lead, what its watches tell it."""

    def all(self) -> Iterable[LiveObject]: ...

    def get(self, namespace: str, name: str) -> LiveObject | None: ...

    def namespaces(self) -> Iterable[str]: ...

    def leader(self) -> Leader: ...
