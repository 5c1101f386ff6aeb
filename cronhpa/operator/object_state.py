"""Everything that the operator holds of one CronHPA object."""

from __future__ import annotations

import zlib
from contextvars import Context
from typing import TYPE_CHECKING

import msgspec

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.api.patch import Path
from cronhpa.api.turn import Status
from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.scheduled.conflicts import Conflict
from cronhpa.core.spec import Spec
from cronhpa.history.series import Series
from cronhpa.kube.client import path_of
from cronhpa.operator.contest import Contest
from cronhpa.operator.delaying_queue import Key
from cronhpa.operator.newest import Newest, Shortage
from cronhpa.operator.noted import Noted
from cronhpa.operator.repeatable import Surplus, TargetKey
from cronhpa.operator.said import Said

if TYPE_CHECKING:
    from cronhpa.operator.rest import Rest

# An unreadable spec waits for its edit; meanwhile its condition is checked this often.
_UNREADABLE_PERIOD = 60 * SECOND
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Status] = msgspec.json.Decoder(dict)
# Of zlib: the lowest level, and small tables. To clear the default tables takes far longer than to compress a text of a
# few kilobytes.
_LEVEL, _WINDOW_BITS, _MEMORY_LEVEL = 1, 12, 5
_PACKED_EMPTY = zlib.compress(b"{}")


class ObjectState:
    """
    One CronHPA object as last seen, and this process's own state of it.

    status: the status in the API at resource version `version`, decoded on demand: dicts would take far more
    memory. operator: the installation that the status names. memory: may be newer than the status.
    zone: the object's time zone.
    told: the packed status up to which events were written, None before the first turn of this process.
    resumed: this process has resumed the memory. uncertain: the result of the last scale write is unknown.
    contest: whether another writer sets back the replicas, None before the first write.
    unseen_since: since when fewer pods are seen than the target's status states, None while none is missing.
    misseen_since: since when other pods are seen Ready than the target's status states, by the event loop's clock.
    surplus_since: since when more pods are seen than the target's status states, by the same clock. surplus: the excess
    that the API server has confirmed; None before.
    altered: the fields of the status that the API dropped or changed when we wrote them, such as those of a newer
    release than its CRD.
    in_doubt: the result of the last status write is unknown. written: when the status was written last, or read at the
    start; None before. drifts: that instant, the interval of drifted numbers, and when they may be written next.
    next_edge: when a schedule changes next. reconciled_at: when the last one of its own ended. due_at: when the newest
    reconciliation was due. said: the content of the status and its decision; None if that is not known.
    other_operator: names another installation that serves the object, "" if this one does.
    complaint: the last logged failure of a status write, "" once a write succeeds.
    conflicts: schedules that contradict each other; checked: their generation, and until when they are valid.
    quiet: generation, and the instant until which a decision finds all results of its schedules in caches.
    forecast: the series of its forecast, None without a forecast.
    context: of the current turn, while it is traced.
    newest: the newest decision, None before the first of this process; shortage: the time for which pods were too few.
    rest: the group in which it rests; kept_memory, kept_newest: without the turns of that group.
    spec_text: the spec as it was written, compressed; noted: the last recorded change (`decision_recorder`).
    """

    __slots__ = (
        "altered",
        "checked",
        "complaint",
        "conflicts",
        "contest",
        "context",
        "created",
        "drifts",
        "due_at",
        "forecast",
        "generation",
        "in_doubt",
        "kept_memory",
        "kept_newest",
        "key",
        "misseen_since",
        "name",
        "namespace",
        "next_edge",
        "noted",
        "operator",
        "other_operator",
        "packed_status",
        "problems",
        "quiet",
        "reconciled_at",
        "rest",
        "resumed",
        "said",
        "shortage",
        "spec",
        "spec_text",
        "surplus",
        "surplus_since",
        "told",
        "uid",
        "uncertain",
        "unseen_since",
        "version",
        "written",
        "zone",
    )

    def __init__(self, namespace: str, name: str, uid: str, created: Nanoseconds) -> None:
        self.namespace = namespace
        self.name = name
        self.key: Key = (namespace, name)
        self.uid = uid
        self.created = created
        self.version = -1
        self.generation = -1
        self.spec: Spec | None = None
        self.zone = "UTC"
        self.problems: tuple[str, ...] = ()
        self.spec_text = b""
        self.noted = Noted()
        self.rest: Rest | None = None
        self.kept_newest: Newest | None = None
        self.shortage = Shortage()
        self.context: Context | None = None
        self.packed_status = _PACKED_EMPTY
        self.operator: str | None = None
        self.told: bytes | None = None
        self.kept_memory = Memory()
        self.resumed = False
        self.uncertain = False
        self.contest: Contest | None = None
        self.misseen_since: float | None = None
        self.surplus_since: float | None = None
        self.surplus: Surplus | None = None
        self.unseen_since: Nanoseconds | None = None
        self.altered: frozenset[Path] = frozenset()
        self.in_doubt = False
        self.complaint = ""
        self.other_operator = ""
        self.said: Said | None = None
        self.written: Nanoseconds | None = None
        self.drifts: tuple[Nanoseconds | None, Nanoseconds, Nanoseconds] = (None, 0, 0)
        self.next_edge: Nanoseconds | None = None
        self.conflicts: tuple[Conflict, ...] = ()
        self.checked: tuple[int, Nanoseconds] | None = None
        self.quiet: tuple[int, Nanoseconds] = (-1, 0)
        self.forecast: Series | None = None
        self.reconciled_at: Nanoseconds | None = None
        self.due_at: Nanoseconds = 0

    @property
    def memory(self) -> Memory:
        if self.rest is not None:
            self.rest.catch_up(self)
        return self.kept_memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self.kept_memory = memory

    @property
    def newest(self) -> Newest | None:
        if self.rest is not None:
            self.rest.catch_up(self)
        return self.kept_newest

    @newest.setter
    def newest(self, newest: Newest | None) -> None:
        self.kept_newest = newest

    @property
    def status(self) -> Status:
        return unpacked(self.packed_status)

    @status.setter
    def status(self, status: Status) -> None:
        named = status.get("operator")
        self.packed_status, self.operator = packed(status), named if isinstance(named, str) else None

    @property
    def period(self) -> Nanoseconds:
        """The time between two turns."""
        return _UNREADABLE_PERIOD if self.spec is None else self.spec.options.sync_period

    @property
    def target(self) -> TargetKey | None:
        if self.spec is None:
            return None
        ref = self.spec.target
        return (self.namespace, api_group(ref.api_version), ref.kind, ref.name)


def packed(status: Status) -> bytes:
    """A status as JSON, compressed in the format of zlib: less than a fifth is left."""
    return compressed(_ENCODER.encode(status))


def compressed(text: bytes) -> bytes:
    """A text in the format of zlib. It is of a few kilobytes: a longer one would be smaller with other settings."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return packer.compress(text) + packer.flush()


def unpacked(status: bytes) -> Status:
    """The status of `packed`."""
    return _DECODER.decode(text_of(status))


def text_of(status: bytes) -> bytes:
    """The JSON of `packed`."""
    return zlib.decompress(status)


def api_group(api_version: str) -> str:
    """The group of `group/version`; "" for the core group."""
    return api_version.rpartition("/")[0]


def path_to(state: ObjectState, *below: str) -> str:
    """An object's path in the API."""
    return path_of("apis", GROUP, VERSION, "namespaces", state.namespace, PLURAL, state.name, *below)
