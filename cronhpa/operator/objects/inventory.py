"""The CronHPA objects as last seen, in whatever order lists and watches deliver them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any
from zlib import crc32

import msgspec
from msgspec.structs import replace

from cronhpa.api.parse import SpecError, parse_spec
from cronhpa.api.status_memory import read_memory
from cronhpa.api.written_spec import stated_defaults
from cronhpa.core.model.calendar import Calendars
from cronhpa.core.model.instant import Nanoseconds, parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.planned_event import PlannedEvent
from cronhpa.core.model.printable import shortened
from cronhpa.core.model.spec import ControllerOptions, Placeholders, Spec
from cronhpa.core.schedules.calendar_days import event_with_calendars, with_calendars
from cronhpa.core.schedules.wall_clock import known_zone
from cronhpa.kube.depth import DEPTH_MAX, decoded
from cronhpa.kube.errors import UNREADABLE, ClusterError
from cronhpa.kube.resource_versions import SeenVersions, version_number, version_of
from cronhpa.operator.objects.object_state import Key, ObjectState, ParsedSpec, TargetKey, spec_text, text_of
from cronhpa.operator.objects.owners import age, former_owner, is_active
from cronhpa.operator.objects.replica_conflict import ReplicaConflict
from cronhpa.operator.objects.under_provisioned import UnderProvisioned

LOG = logging.getLogger(__name__)

# Up to this number of objects on one target, all are considered as rivals, and a change there makes all of them due.
RIVALS_FEW = 8
# The largest number of characters of a text from outside in one line of the log.
_LOGGED_MAX = 300
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    name: str
    namespace: str
    uid: str
    creation_timestamp: str
    resource_version: str = "0"
    generation: int = 0
    labels: dict[str, str] | None = None
    # Text: they are read after an edit alone.
    annotations: msgspec.Raw = msgspec.Raw(b"{}")
    managed_fields: msgspec.Raw = msgspec.Raw(b"[]")


class _Object(msgspec.Struct, frozen=True):
    """
    An object as the API serves it. Its spec and status stay text, because most changes are echoes of our own status
    writes and need no decoding.
    """

    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Uid(msgspec.Struct):
    uid: str


class _Identified(msgspec.Struct):
    metadata: _Uid


_OBJECT = msgspec.json.Decoder(_Object)


class Inventory:
    """
    The objects by (namespace, name).

    changed(key) is called for an object that was created or whose spec changed, gone(state) for a deleted one,
    retargeted(target) for a target on which an object has come, gone or been edited because of which others may hold,
    expanded(state) for an object to whose spec planned events or calendars wrote, whether it is due by that or not.
    holds: whether the objects of a namespace are this replica's; those of others are discarded. usual_placeholders: of
    objects that state none.
    """

    def __init__(
        self,
        defaults: ControllerOptions,
        changed: Callable[[Key], None],
        gone: Callable[[ObjectState], None],
        retargeted: Callable[[TargetKey], None] = lambda _: None,
        expanded: Callable[[ObjectState], None] = lambda _: None,
        holds: Callable[[str], bool] = lambda _: True,
        usual_placeholders: Placeholders | None = None,
    ) -> None:
        self._holds = holds
        self._usual_placeholders = usual_placeholders
        self.items: dict[Key, ObjectState] = {}
        self._defaults = defaults
        self._changed = changed
        self._expanded = expanded
        self._gone = gone
        self._retargeted = retargeted
        self._by_namespace: dict[str, dict[Key, ObjectState]] = defaultdict(dict)
        self._by_target: dict[TargetKey, dict[Key, ObjectState]] = defaultdict(dict)
        # Of a target with many objects the oldest active one, until one of them comes, goes or is edited.
        self._oldest_on: dict[TargetKey, tuple[ObjectState, ...]] = {}
        # uids of objects that were deleted since the last list began: a page of that list may still have them.
        self._deleted: set[str] = set()
        self._seen = SeenVersions()
        self._expand: Callable[[Spec, Key, Mapping[str, str]], Spec] = lambda spec, *_: spec
        self.calendars: Calendars = {}
        """Those that specs name."""

    def __iter__(self) -> Iterator[ObjectState]:
        return iter(tuple(self.items.values()))

    def in_namespace(self, namespace: str) -> tuple[ObjectState, ...]:
        """The objects of a namespace; of all namespaces for ""."""
        return tuple((self._by_namespace.get(namespace, {}) if namespace else self.items).values())

    def on_target(self, target: TargetKey) -> tuple[ObjectState, ...]:
        """The objects that scale this target."""
        return tuple(self._by_target.get(target, {}).values())

    def rivals_on(self, target: TargetKey) -> tuple[ObjectState, ...]:
        """
        The objects of `on_target` that may make another one hold: all of them if they are few, else the oldest active
        one.

        A tenant may have ten thousand objects on one target, and each decision needs the rivals.
        """
        states = self._by_target.get(target, {})
        if len(states) <= RIVALS_FEW:
            return tuple(states.values())
        if target not in self._oldest_on:
            oldest = min(filter(is_active, states.values()), key=age, default=None)
            self._oldest_on[target] = () if oldest is None else (oldest,)
        return self._oldest_on[target]

    def count_on(self, target: TargetKey) -> int:
        return len(self._by_target.get(target, ()))

    def put(self, body: Mapping[str, Any] | msgspec.Raw) -> str:
        """
        Stores an object as the API serves it, unless a newer version is known; returns its uid.

        Raises one of UNREADABLE for a body that is not an object of the API.
        """
        return decoded(self._put, _text(body))

    def note_written(self, state: ObjectState, version: int) -> bool:
        """
        Notes the version that a status write made; whether it is the newest one.

        If it is not, somebody wrote later, and the watch has delivered that version already.
        """
        self._seen.note(version)
        if self._seen.is_outdated(version, state.served.version):
            return False
        state.served.version = version
        return True

    def _put(self, text: bytes | msgspec.Raw) -> str:
        """Stores an object that was delivered by an event, or read alone."""
        served = decoded(_OBJECT.decode, text)
        meta, version = served.metadata, version_number(served.metadata.resource_version)
        self._seen.note(version)
        state = self.items.get((meta.namespace, meta.name))
        if state is None or not self._seen.is_outdated(version, state.served.version):
            self._store(served, version)
        return meta.uid

    def _put_listed(self, text: bytes | msgspec.Raw) -> str:
        """Stores an object of a list."""
        served = decoded(_OBJECT.decode, text)
        meta, version = served.metadata, version_number(served.metadata.resource_version)
        self._seen.note(version)
        state = self.items.get((meta.namespace, meta.name))
        if state is not None:
            if self._seen.is_outdated_in_list(version, state.served.version):
                return meta.uid
            if meta.generation == state.served.generation and not _has_spec(state, served.spec):
                # Two edits have this generation, and maybe this version: one before a restore of the store, and one
                # after it.
                self.drop(state.key)
        self._store(served, version)
        return meta.uid

    def _store(self, served: _Object, version: int) -> None:
        meta = served.metadata
        if meta.uid in self._deleted or not self._holds(meta.namespace):
            return
        key = (meta.namespace, meta.name)
        state = self.items.get(key)
        # A generation falls only where the store was restored: what was derived from the later specs ends.
        if state is None or state.uid != meta.uid or meta.generation < state.served.generation:
            if state is not None:
                self.drop(key)
            state = ObjectState(*key, meta.uid, parse_instant(meta.creation_timestamp))
            self.items[key] = self._by_namespace[meta.namespace][key] = state
        if version != state.served.version:
            # The next patch is relative to the status in the API, whoever wrote it.
            status = msgspec.json.decode(served.status)
            state.served.status = status if isinstance(status, dict) else {}
            state.served.version = version
            state.local.changed = True
        labels = meta.labels or {}
        is_relabelled = labels != state.served.labels
        state.served.labels = labels
        if meta.generation == state.served.generation:
            if is_relabelled:
                self.expand(state)
            return
        is_new = state.served.generation < 0
        state.served.generation = meta.generation
        state.local.changed = True
        before = state.target
        state.served.parsed, state.served.checksum = self._parsed(state, served), crc32(served.spec)
        state.served.readable_spec = state.served.parsed.written or state.served.readable_spec
        if is_new:
            if state.served.readable_spec is None:
                state.served.readable_spec = former_owner(state.namespace, served.spec, state.served.status)
            self._read_memory(state)
        self._index(state, before)
        if _is_retargeted(state, before):
            # These belong to the former target and its pods.
            state.replace_memory(Memory())
            state.local.replica_conflict, state.local.unseen_since = ReplicaConflict(), None
        self._changed(key)

    def expand_with(self, expand: Callable[[Spec, Key, Mapping[str, str]], Spec]) -> None:
        """Sets the function that writes planned events into specs: spec, key and labels of an object -> Spec."""
        self._expand = expand

    def read_days_of(self, calendars: Calendars) -> None:
        """Sets the calendars that specs name; `expand` takes over what they hold now."""
        self.calendars = calendars

    def with_days(self, event: PlannedEvent) -> PlannedEvent:
        """A planned event with the days of the calendars that it names."""
        return event_with_calendars(event, self.calendars)

    def expand(self, state: ObjectState, *, due_within: Nanoseconds = 0) -> None:
        """
        Takes over what the calendars and planned events of an object ask for now; one for which nothing changes stays
        as it is.

        due_within: one that is decided within this time anyway is not made due: an edit of an event is no storm.
        """
        written = state.served.parsed.written
        if written is None:
            return
        own = with_calendars(written, self.calendars)
        spec = self._with_events(own, state)
        if spec == state.served.spec:
            return
        state.served.parsed.own, state.served.parsed.expanded = own, spec
        state.local.changed = True
        self._expanded(state)
        if state.period > due_within:
            self._changed(state.key)

    def _with_events(self, own: Spec, state: ObjectState) -> Spec:
        """The spec with the schedules of planned events, which may name calendars, too."""
        return with_calendars(self._expand(own, state.key, state.served.labels), self.calendars)

    def apply_event(self, kind: str | None, body: Mapping[str, Any] | msgspec.Raw) -> None:
        """
        Applies one event of a watch.

        kind: BOOKMARK, whose object has a version alone; DELETED; another type, or None in a first list.
        """
        try:
            if kind == "BOOKMARK":
                self._seen.note(version_of(_text(body)))
            elif kind == "DELETED":
                meta = decoded(_OBJECT.decode, _text(body)).metadata
                self._seen.note(version_number(meta.resource_version))
                self._deleted.add(meta.uid)
                self.drop((meta.namespace, meta.name), meta.uid)
            else:
                self.put(body)
        except UNREADABLE:
            LOG.exception("an event of a CronHPA cannot be read and is skipped")

    def put_listed(self, raw: msgspec.Raw) -> str:
        """
        Stores an object of a list and returns its uid. If the object cannot be read, its former version stays.

        Raises ClusterError for an object without a uid.
        """
        try:
            return decoded(self._put_listed, raw)
        except UNREADABLE:
            LOG.exception("a CronHPA of a list cannot be read and is skipped")
        try:
            return msgspec.json.decode(raw, type=_Identified).metadata.uid
        except UNREADABLE as error:
            raise ClusterError(0, "Malformed", f"the list holds an object without a uid: {error}") from error

    def drop(self, key: Key, uid: str | None = None) -> None:
        """Forgets an object; if a uid is given, only the object with this uid."""
        state = self.items.get(key)
        if state is None or (uid is not None and state.uid != uid):
            return
        del self.items[key]
        del self._by_namespace[state.namespace][key]
        if not self._by_namespace[state.namespace]:
            del self._by_namespace[state.namespace]
        if state.target is not None:
            self._unindex(state, state.target)
        self._gone(state)

    def drop_all(self, among: Callable[[str], bool]) -> None:
        """Forgets the objects of some namespaces."""
        for state in self:
            if among(state.namespace):
                self.drop(state.key)

    def begin_list(self) -> None:
        """Call it before a list is requested: the list contains everything that happened before."""
        self._deleted.clear()
        self._seen.begin_list()

    def note_list_version(self, version: int) -> None:
        """Call it with the version of a list, before its objects are stored."""
        if self._seen.note_list(version):
            LOG.warning("the CronHPA objects went back to version %d: they are taken anew", version)

    def take_over(
        self,
        unread: Container[str] = (),
        *,
        knows_all: bool = False,
        among: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """
        Reads memories from the statuses again, unless this process made all decisions since.

        Makes every object due. A target with an intended change is read again: the watch may not have delivered it yet.
        unread: namespaces that could not be listed; each of their objects is read by itself. among: the namespaces.
        """
        for state in self:
            if not among(state.namespace):
                continue
            if not knows_all:
                self.resume(state)
            state.writes.status_unknown = state.namespace in unread
            state.local.changed = True  # a write of the former term may have been cancelled
            self._changed(state.key)

    def resume(self, state: ObjectState) -> None:
        """Reads an object's memory from its status again; one of another target is not the object's."""
        self._read_memory(state)
        if _is_retargeted(state, None):
            state.replace_memory(Memory())
        local, writes = state.local, state.writes
        local.resumed = state.writes.status_unknown = False
        local.latest, local.replica_conflict = None, ReplicaConflict()
        local.under_provisioned = UnderProvisioned()
        writes.scale_unknown = local.memory.intent is not None
        writes.status_at = writes.reported = None  # the other process wrote the events of its statuses
        writes.change.key = ()  # and recorded its decisions: an equal one of ours is in force from now on

    def _parsed(self, state: ObjectState, served: _Object) -> ParsedSpec:
        """The spec of an object, or its problems: an invalid spec affects only its own object."""
        parsed = ParsedSpec(spec_text(served.spec), _stated_defaults(served))
        try:
            text = msgspec.json.decode(served.spec) or {}
            parsed.zone = _zone(text)
            written = parse_spec(text, state.namespace, self._defaults)
            if self._usual_placeholders is not None:
                written = replace(written, usual_placeholders=self._usual_placeholders)
            parsed.written = written
            parsed.own = with_calendars(written, self.calendars)
            parsed.expanded = self._with_events(parsed.own, state)
        except SpecError as error:
            parsed.problems = tuple(str(problem) for problem in error.problems)
        except Exception as error:
            LOG.exception("the spec of %s/%s cannot be read", *state.key)
            parsed.problems = (f"spec: {type(error).__name__}: {error}",)
        return parsed

    def _read_memory(self, state: ObjectState) -> None:
        remembered = read_memory(state.served.status, self._defaults)
        state.replace_memory(remembered.memory)
        if remembered.problem is not None:
            LOG.warning(
                "status.memory of %s/%s is damaged, and begun anew with the current count: %s",
                *state.key,
                shortened(remembered.problem, _LOGGED_MAX),
            )

    def _index(self, state: ObjectState, before: TargetKey | None) -> None:
        if before is not None and before != state.target:
            self._unindex(state, before)
        if state.target is not None:
            self._by_target[state.target][state.key] = state
            self._note_rival(state, state.target)

    def _unindex(self, state: ObjectState, target: TargetKey) -> None:
        self._by_target[target].pop(state.key, None)
        if not self._by_target[target]:
            del self._by_target[target]
        self._note_rival(state, target)

    def _note_rival(self, state: ObjectState, target: TargetKey) -> None:
        """An object on a target has come, gone or been edited. Nobody holds because of one that is not the oldest."""
        oldest = self._oldest_on.get(target, ())
        if self.count_on(target) > RIVALS_FEW and any(age(other) < age(state) for other in oldest):
            return
        self._oldest_on.pop(target, None)
        self._retargeted(target)


def _stated_defaults(served: _Object) -> tuple[str, ...]:
    """The defaults that somebody wrote; none where that cannot be read: a page of the browser alone shows them."""
    try:
        spec = msgspec.json.decode(served.spec, type=dict[str, Any])
        annotations = msgspec.json.decode(served.metadata.annotations)
        managed = msgspec.json.decode(served.metadata.managed_fields)
        last_applied = annotations.get(_LAST_APPLIED, "") if isinstance(annotations, dict) else ""
        return stated_defaults(spec, last_applied, managed if isinstance(managed, list) else [])
    except UNREADABLE:
        return ()


def _has_spec(state: ObjectState, spec: msgspec.Raw) -> bool:
    """Whether an object's spec is this one, however its text is written."""
    checksum, text = crc32(spec), state.served.parsed.text
    if checksum == state.served.checksum:
        return True
    if not text or msgspec.json.decode(text_of(text)) != msgspec.json.decode(spec):
        return False
    state.served.checksum = checksum
    return True


def _is_retargeted(state: ObjectState, before: TargetKey | None) -> bool:
    if state.served.spec is None:
        return False
    if before is None:  # edited while no operator ran, or while the spec was unreadable
        target = f"{state.served.spec.target.kind}/{state.served.spec.target.name}"
        return bool(state.served.status.get("target", target) != target)
    return before != state.target


def _zone(spec: Any) -> str:
    return known_zone(spec.get("timeZone") if isinstance(spec, dict) else None)


def _text(body: Mapping[str, Any] | msgspec.Raw) -> bytes | msgspec.Raw:
    return body if isinstance(body, msgspec.Raw) else msgspec.json.encode(plain(body))


def plain(value: Any, levels: int = DEPTH_MAX) -> Any:
    """
    Mappings as plain dicts and lists, because those of kopf are read-only. Values below `levels` become "", as in
    `kube.depth`: the parser accepts deep nesting, and the recursion here needs two calls for each level.
    """
    if not isinstance(value, Mapping | list | tuple):
        return value
    if levels == 0:
        return ""
    if isinstance(value, Mapping):
        return {key: plain(entry, levels - 1) for key, entry in value.items()}
    return [plain(entry, levels - 1) for entry in value]
