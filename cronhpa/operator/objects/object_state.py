"""
What the operator knows of one CronHPA object, in four parts:

- `served`: what the API serves. Without it each period would read the object.
- `local`: what this process remembers beside the memory in the status: the newest decision, what it rests on, how long
  it stands, and what was noticed since. A restart loses it.
- `writes`: what was written, so that no status, event or past decision is written twice, and what is read again because
  the answer to a write was lost.
- `due`: when the object is due.

A field that one file alone uses is here as well: so it is forgotten with the object.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextvars import Context
from typing import Any

import msgspec
from msgspec import Struct, field

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.api.patch import Path
from cronhpa.api.status_text import Status
from cronhpa.core.forecasts.floor import forecast_metric
from cronhpa.core.model.decision import Decision
from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Pod
from cronhpa.core.model.reconciliation import PlaceholderProblem, Reconciliation
from cronhpa.core.model.spec import ControllerOptions, Spec
from cronhpa.core.standing import Standing
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.kube.client import path_of
from cronhpa.kube.pod_indexer import MatchedPods
from cronhpa.kube.scale import WatchedTarget
from cronhpa.operator.objects.replica_conflict import ReplicaConflict
from cronhpa.operator.objects.under_provisioned import UnderProvisioned
from cronhpa.operator.writes.written_status import WrittenStatus

# (namespace, name) of an object.
Key = tuple[str, str]
# (namespace, API group, kind, name) of a scale target.
TargetKey = tuple[str, str, str, str]

# Recorded changes at once: enough for a quarter of an hour in which every reconciliation of 15 s is a change.
BURST = 60
# An unreadable spec waits for its edit; meanwhile its condition is checked this often.
_UNREADABLE_PERIOD = 60 * SECOND
# The first pause before a scale that the API server wants later. With 12 doublings it is longer than any period.
_RETRIED_AFTER, _DOUBLINGS = SECOND, 12
# The upstream's: after a failure at an edge an object with a longer one does not wait for its own.
_PERIOD = ControllerOptions().sync_period
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Status] = msgspec.json.Decoder(dict)
# Of zlib: the lowest level, and small tables. To clear the default tables takes far longer than to compress a text of a
# few kilobytes.
_LEVEL, _WINDOW_BITS, _MEMORY_LEVEL = 1, 12, 5
_PACKED_EMPTY = zlib.compress(b"{}")


class ParsedSpec(Struct):
    """The spec of an object as it was written, and what is read of it."""

    text: bytes = b""
    """As it was written: compressed JSON."""
    stated_defaults: tuple[str, ...] = ()
    """Paths of its fields that hold their default because somebody wrote it."""
    zone: str = "UTC"
    """The object's time zone."""
    problems: tuple[str, ...] = ()
    """Why it cannot be read."""
    written: Spec | None = None
    """As it was written; None while it cannot be read."""
    own: Spec | None = None
    """With the days of its calendars."""
    expanded: Spec | None = None
    """With the schedules of its planned events, too: it is decided on."""


class ServedObject(Struct):
    """The object as the API serves it."""

    version: int = -1
    """The newest resource version seen."""
    generation: int = -1
    """The generation of the spec."""
    checksum: int = 0
    """Of the text of the spec, as it was read last."""
    parsed: ParsedSpec = field(default_factory=ParsedSpec)
    """The spec."""
    readable_spec: Spec | None = None
    """The newest spec that could be read, as it was written; None if there was none."""
    labels: dict[str, str] = field(default_factory=dict)
    """The labels by which planned events pick the object."""
    packed_status: bytes = _PACKED_EMPTY
    """The status as compressed JSON, decoded on demand: dicts would take far more memory."""
    operator: str | None = None
    """The installation that the status names."""
    altered: frozenset[Path] = frozenset()
    """Fields of the status that the API dropped or changed when we wrote them, as those of a newer release."""

    @property
    def spec(self) -> Spec | None:
        """The spec that is decided on; None while it cannot be read."""
        return self.parsed.expanded

    @property
    def status(self) -> Status:
        return unpacked(self.packed_status)

    @status.setter
    def status(self, status: Status) -> None:
        named = status.get("operator")
        self.packed_status, self.operator = packed(status), named if isinstance(named, str) else None


class Ownership(Struct):
    """Who scales a target: replaced when an autoscaler of the target comes, goes or is edited."""

    is_current: bool = True


class WatchedInputs(Struct, gc=False):
    """What a decision rests on besides the object itself and the usage of its pods."""

    target: WatchedTarget
    match: MatchedPods
    """The pods that the target's selector matches."""
    pods: tuple[Pod, ...]
    """Those of them that count."""
    ownership: Ownership
    pod_names: tuple[str, ...]
    load: tuple[int, Series] | None
    """The index of the metric that is the object's load, and the series of the load."""

    @property
    def is_current(self) -> bool:
        """Whether nothing of it has changed, as far as the watches tell."""
        return self.match.is_current and self.ownership.is_current and self.target.is_current


class LocalState(Struct):
    """What this process remembers of the object. After a restart it is read from the status, or begun anew."""

    resumed: bool = False
    """Whether this process has resumed the memory that the status had at its start."""
    standing: Standing | None = None
    """How long the latest decision stands; None if the next period must be decided."""
    inputs: WatchedInputs | None = None
    """The target, pods and owners on which the decision rests."""
    ownership: Ownership | None = None
    """Who scaled the target at the decision, also where no watch tells of the target."""
    changed: bool = True
    """Whether the next period must be decided: the object has a new version, a write of it failed, or another one began
    to count its pods."""
    latest: Reconciliation | None = None
    """The newest reconciliation of this process."""
    minute_load: LoadSample | None = None
    """The highest load of the current minute, not stored yet."""
    under_provisioned: UnderProvisioned = field(default_factory=UnderProvisioned)
    """The time for which the pods were too few."""
    replica_conflict: ReplicaConflict = field(default_factory=ReplicaConflict)
    """Whether another writer sets back the replicas."""
    conflicts_until: Nanoseconds = 0
    """The instant from which on contradictions of the schedules are looked for again; `latest` has those found."""
    unseen_since: Nanoseconds | None = None
    """Since when fewer pods are seen than the target's status states; None while none is missing."""
    other_operator: str = ""
    """Names another installation that serves the object; "" if this one does."""
    placeholder_problem: PlaceholderProblem | None = None
    """What keeps its placeholders from holding room."""
    remembered: Memory = Memory()
    """The memory after the newest reconciliation; a decision that stands only adds recommendations to it."""
    clock_step: Nanoseconds = 0
    """By how much the clock was set since the newest observation."""

    @property
    def memory(self) -> Memory:
        """The memory, with the periods for which the decision stands; it may be newer than that of the status."""
        return self.remembered if self.standing is None else self.standing.newest_memory

    @property
    def may_stand(self) -> bool:
        """Whether the decision stands unless pods, owners, usage or the instant end it: the object is as it was."""
        return self.standing is not None and not self.changed

    def remember(self, memory: Memory) -> None:
        """Takes over a memory. No decision stands over it that was made before."""
        self.remembered, self.standing = memory, None

    @property
    def latest_decision(self) -> Decision | None:
        """The newest decision, with the numbers of the newest period."""
        if self.standing is not None:
            return self.standing.newest_decision
        return None if self.latest is None else self.latest.decision


class RecordedChange(Struct):
    """The last change of the object's decision, and how many more changes may be recorded."""

    key: tuple[object, ...] = ()
    """The parts by which the change differs from a repetition of the one before."""
    waits: bool = False
    """Whether the change is not recorded yet, because the object changes too often."""
    step: int = -1
    """The step of the last recorded point."""
    allowed: float = BURST
    """How many changes may be recorded at once."""
    counted_at: Nanoseconds = 0
    """When `allowed` was computed."""
    left_out: int = 0
    """The changes that were never recorded, since the last one that was."""


class WriteState(Struct):
    """What this process has written of the object."""

    status: WrittenStatus | None = None
    """What the status in the API says; None if that is not known."""
    status_at: Nanoseconds | None = None
    """When the status was written last, or read at the start; None before."""
    reported: bytes | None = None
    """The packed status up to which events were written; None before the first reconciliation of this process."""
    own: bytes = b""
    """The packed status that was written or taken over last: another one is somebody else's."""
    failure: str = ""
    """The last logged failure of a status write; "" once a write succeeds."""
    status_unknown: bool = False
    """Whether the result of the last status write is unknown."""
    scale_unknown: bool = False
    """Whether the result of the last scale write is unknown."""
    change: RecordedChange = field(default_factory=RecordedChange)
    """The last recorded change of the decision."""


class Due(Struct):
    """When the object is due."""

    at: Nanoseconds = 0
    """When the newest reconciliation was due."""
    next_edge: Nanoseconds | None = None
    """When a schedule changes next, if that makes the object due."""
    retry_after: Nanoseconds | None = None
    """How long after the reconciliation the object is due again if it failed: a period may be an hour."""
    refusals: int = 0
    """How many times in a row the API server wanted it later."""
    trace: Context | None = None
    """The context of the reconciliation under way, while it is traced."""

    def retry(self, seconds: float | None = None) -> None:
        """
        The object is due again after a period of the upstream, or as long as the API server wants at least: then each
        pause is twice the last, because it is busy.
        """
        if seconds is None:
            self.retry_after = _PERIOD
            return
        self.retry_after = max(round(seconds * SECOND), _RETRIED_AFTER << min(self.refusals, _DOUBLINGS))
        self.refusals += 1


class ObjectState:
    """One CronHPA object."""

    kind = "CronHPA"
    __slots__ = ("created", "due", "key", "local", "name", "namespace", "served", "uid", "writes")

    def __init__(self, namespace: str, name: str, uid: str, created: Nanoseconds) -> None:
        self.namespace = namespace
        self.name = name
        self.key: Key = (namespace, name)
        self.uid = uid
        self.created = created
        self.served = ServedObject()
        self.local = LocalState()
        self.writes = WriteState()
        self.due = Due()

    def replace_memory(self, memory: Memory) -> None:
        """Takes over a memory that no reconciliation left: the next period is decided, and its status rendered."""
        self.local.remember(memory)
        self.local.changed, self.writes.status = True, None

    def follow_clock(self, step: Nanoseconds) -> None:
        """The clock was set by `step`: what the memory holds is as old as before."""
        self.replace_memory(self.local.memory.shifted(step))
        self.local.under_provisioned.follow_clock(step)
        self.local.clock_step += step

    def memory_after(self, change: Callable[[Memory], Memory]) -> Memory:
        """The memory after a change whose instants are of the clock at the newest observation."""
        step = self.local.clock_step
        return change(self.local.memory.shifted(-step)).shifted(step) if step else change(self.local.memory)

    @property
    def period(self) -> Nanoseconds:
        """The time between two reconciliations, or between two looks whether another installation is gone."""
        spec = self.served.spec
        period = _UNREADABLE_PERIOD if spec is None else spec.options.sync_period
        return min(period, _PERIOD) if self.local.other_operator else period

    @property
    def load_series(self) -> Series | None:
        """The series of the load that pods share; None without one."""
        name = None if self.served.spec is None else forecast_metric(self.served.spec)
        return None if name is None else Series(self.namespace, self.name, name)

    @property
    def target(self) -> TargetKey | None:
        """The target, also while the spec cannot be read; None if it never could be."""
        if self.served.readable_spec is None:
            return None
        ref = self.served.readable_spec.target
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


def spec_text(spec: Any) -> bytes:
    """A spec as it was written, as compressed JSON, since it is rarely read; empty if JSON cannot represent it."""
    try:
        return compressed(_ENCODER.encode(spec))
    except (TypeError, ValueError, RecursionError):
        return b""


def api_group(api_version: str) -> str:
    """The group of `group/version`; "" for the core group."""
    return api_version.rpartition("/")[0]


def path_to(state: ObjectState, *below: str) -> str:
    """An object's path in the API."""
    return path_of("apis", GROUP, VERSION, "namespaces", state.namespace, PLURAL, state.name, *below)
