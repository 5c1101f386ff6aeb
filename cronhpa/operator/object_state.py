"""What the operator knows of one CronHPA object."""

from __future__ import annotations

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


class ObjectState:
    """
    One CronHPA object as last seen, and what this process remembers of it.

    status: what the API is known to hold at resource version `version`, read from its text: as dicts, statuses would be
    a fifth of a fleet's memory. operator: the installation that it names. memory: what this process knows beyond it.
    zone: the object's time zone.
    told: the text of the status up to which its events were told, None before the first turn of this process.
    resumed: this process has taken up the memory. uncertain: the last scale write may or may not have been done.
    contest: whether somebody sets back what is written, None before the first write.
    unseen_since: since when fewer pods are seen than the target says it has, None while none is missing.
    misseen_since: since when other pods are seen Ready than its controller says, in seconds of the event loop's clock.
    surplus_since: since when more pods are seen than the target says it has, by the same clock. surplus: what the API
    server has confirmed of that; None before.
    altered: the fields of the status that the API dropped or changed as we wrote them, such as those of a newer release
    than its CRD.
    in_doubt: the last status write may or may not have been done. written: when the status was written last, or read at
    the start; None before. drifts: that instant, the interval of drifted numbers, and when they may be written next.
    next_edge: when a schedule changes next. reconciled_at: when the last one of its own ended. due_at: when the newest
    reconciliation was due. said: what the status says, and of which decision; None where that is not known.
    other_operator: why another installation serves it, "" if this one does.
    complaint: the last logged failure of a status write, "" once a write succeeds.
    conflicts: schedules that contradict each other; checked: their generation, and until when they hold.
    quiet: generation, and the instant until which a decision computes nothing of its schedules anew.
    forecast: the series that is forecast for it, None without a forecast.
    context: of the turn under way, while it is traced.
    newest: the newest decision, None before the first of this process; shortage: how long the pods were too few.
    rest: where its turns are taken with those of others; kept_memory, kept_newest: without those turns.
    spec_text: the spec as it was written, packed; noted: what was noted of its decisions last (`decision_recorder`).
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
        "problems",
        "quiet",
        "reconciled_at",
        "rest",
        "resumed",
        "said",
        "shortage",
        "spec",
        "spec_text",
        "status_text",
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
        self.status_text = b"{}"
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
        return status_of(self.status_text)

    @status.setter
    def status(self, status: Status) -> None:
        named = status.get("operator")
        self.status_text, self.operator = text_of(status), named if isinstance(named, str) else None

    @property
    def period(self) -> Nanoseconds:
        """How often a turn is due."""
        return _UNREADABLE_PERIOD if self.spec is None else self.spec.options.sync_period

    @property
    def target(self) -> TargetKey | None:
        if self.spec is None:
            return None
        ref = self.spec.target
        return (self.namespace, api_group(ref.api_version), ref.kind, ref.name)


def status_of(text: bytes) -> Status:
    """The status that a text of an object's state holds."""
    return _DECODER.decode(text)


def text_of(status: Status) -> bytes:
    """The text of a status."""
    return _ENCODER.encode(status)


def api_group(api_version: str) -> str:
    """The group of `group/version`; "" for the core group."""
    return api_version.rpartition("/")[0]


def path_to(state: ObjectState, *below: str) -> str:
    """An object's path in the API."""
    return path_of("apis", GROUP, VERSION, "namespaces", state.namespace, PLURAL, state.name, *below)
