"""
The planned events as last seen, and the objects that they pick.

An event is written into the specs of the objects that it picks (`core/schedules/events`), so whatever decides, records
or explains knows ordinary schedules only. A change of an event marks the objects whose schedules it changes: they are
decided in their next period, and all others are left as they are.

"Not listed yet" is not "no event": nothing is decided before the first lists. Where a list keeps failing, decisions go
on after a minute and scale nothing down. A cluster without the CRDs has no events. An operator without the right to
list them, or the namespaces that one selects, sees none; what one kept up before a restart stays up (`former_events`).
The log says so once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct, field

from cronhpa.api.identity import CLUSTER_EVENT_PLURAL, EVENT_PLURAL, GROUP, VERSION
from cronhpa.api.parse_event import parse_event
from cronhpa.core.model.decision import CLUSTER_EVENT_PREFIX, EVENT_PREFIX
from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import LabelSelector, Spec
from cronhpa.core.schedules.events import (
    MAX_EVENT_SCHEDULES,
    ExpectedReplicas,
    is_over,
    taken_over,
    with_events,
    with_unknown_events,
)
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.informer import Informer
from cronhpa.kube.label_selector import Selector, SelectorError, parse_selector, selector_text
from cronhpa.kube.pods import ObjectMeta
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.loop.cooperative_yield import CooperativeYield
from cronhpa.operator.objects.former_events import FormerEvents
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_state import Key, ObjectState

LOG = logging.getLogger(__name__)

MAX_EVENTS_OF_NAMESPACE = 100
"""
Of more events in a namespace those count that are not over and whose names come first: each costs time for each of its
objects.
"""
_ABSENT_SECONDS = 60.0
_AGAIN_SECONDS = 1.0
_WAITED_SECONDS = 60.0
_OVER_SECONDS = 60.0
# Of a watch that was cut off it is not known for two minutes. These lists are short.
_HEARD_SECONDS = 10.0
_MOMENT_SECONDS = 5.0
_UNREADABLE = "planned events cannot be listed: what they ask for is not known"
_FORBIDDEN = (
    "planned events may not be listed any more, and one was in force here: grant list and watch of plannedevents and"
    " clusterplannedevents again; nothing is scaled down until it would have closed"
)
_NAMESPACES_FORBIDDEN = (
    "namespaces may not be listed any more, and an event that selects them was in force here: grant list and watch of"
    " namespaces again; nothing is scaled down until it would have closed"
)
_ABSENT: dict[int, str] = {HTTPStatus.NOT_FOUND: "is not installed", HTTPStatus.FORBIDDEN: "may not be listed"}
_EVERYTHING = Selector(())
_NAMESPACES = path_of("api", "v1", "namespaces")
# The replicas that the expected load of an event asks of an object: as `ExpectedReplicas`.
ExpectedOf = Callable[[Spec, Key, PlannedEvent, EventSchedule], int | Absent | None]


class _EventMeta(ObjectMeta, frozen=True, rename="camel"):
    generation: int = 0


class RawEvent(Struct, frozen=True):
    metadata: _EventMeta = _EventMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _LabelledMeta(ObjectMeta, frozen=True, rename="camel"):
    labels: dict[str, str] | None = None


class _Namespace(Struct, frozen=True):
    metadata: _LabelledMeta = _LabelledMeta()


class SeenEvent(Struct):
    """An event as last seen."""

    event: PlannedEvent
    selector: Selector
    namespaces: Selector
    generation: int = 0
    uid: str = ""
    version: str = ""
    """The resource version of this text and status."""
    status: dict[str, Any] = field(default_factory=dict)
    """The status as the API serves it."""
    text: bytes = b""
    """The spec as the API serves it."""
    over_at: Nanoseconds | None = None
    """When it was seen that no window of it opens any more."""

    def is_over(self, now: Nanoseconds) -> bool:
        """Whether it was seen to be over: what was seen by a clock that was set back since does not count."""
        return self.over_at is not None and self.over_at <= now

    @property
    def kind(self) -> str:
        return "PlannedEvent" if self.event.namespace else "ClusterPlannedEvent"

    @property
    def namespace(self) -> str:
        return self.event.namespace

    @property
    def name(self) -> str:
        return self.event.name

    def picks(self, namespace: str, labels: Mapping[str, str], labels_of_namespace: Mapping[str, str] | None) -> bool:
        """
        Whether it concerns an object with these labels. A namespaced event concerns its own namespace alone.

        labels_of_namespace: None while they are unknown: an event that selects namespaces concerns none of those, also
        if it excludes some, because it may exclude this one.
        """
        if self.event.namespace:
            return self.event.namespace == namespace and self.selector.matches(labels)
        if not self.selector.matches(labels):
            return False
        if self.event.namespace_selector is None:
            return True
        return labels_of_namespace is not None and self.namespaces.matches(labels_of_namespace)


class PlannedEvents:
    """
    namespaces: those that are watched; none: all of them. ClusterPlannedEvents are read in either case, if the operator
    has the right; those that select namespaces need the right to list namespaces, too.
    """

    def __init__(
        self,
        client: Client,
        inventory: Inventory,
        now: Callable[[], Nanoseconds],
        namespaces: tuple[str, ...] = (),
        scope: ShardScope | None = None,
        expected: ExpectedOf = lambda *_: None,
    ) -> None:
        # By namespace ("" for ClusterPlannedEvents), then by name.
        self._events: defaultdict[str, dict[str, SeenEvent]] = defaultdict(dict)
        # Those of them that count, until an event of the namespace changes.
        self._counted: dict[str, Sequence[SeenEvent]] = {}
        self._client, self._inventory, self._now = client, inventory, now
        self._scope = scope or ShardScope()
        self._expected = expected
        self.any_seen = asyncio.Event()
        """Whether there was a planned event: most clusters have none."""
        self._namespaces: dict[str, dict[str, str]] = {}
        self.informers: list[Informer[Any]] = []
        """Those of events and of namespaces."""
        # Those of them that list the namespaces of this replica's shards.
        self._scoped: list[Informer[Any]] = []
        # Paths of kinds that the API does not serve, or does not let us list.
        self._absent: set[str] = set()
        # Those of them whose lists are refused: for them, former events hold.
        self._forbidden: set[str] = set()
        self._former = FormerEvents(now)
        # Paths whose first list has been failing for a minute.
        self._unreadable: set[str] = set()
        self._was_synced = self._is_doubted = False
        self._doubts: dict[str, asyncio.Task[None]] = {}
        # Namespaces whose objects are to be looked at again; "" stands for all.
        self._changed: set[str] = set()
        self._is_taking_over = False
        # The version of the scope in which the events were listed that are written in the objects.
        self._taken_over = -1
        self._has_changed = asyncio.Event()
        self._yield = CooperativeYield()
        for namespace in namespaces or ("",):
            within = ("namespaces", namespace) if namespace else ()
            self._follow(path_of("apis", GROUP, VERSION, *within, EVENT_PLURAL), RawEvent, self._on_event, scope)
        self.is_limited = bool(namespaces)
        self._follow(path_of("apis", GROUP, VERSION, CLUSTER_EVENT_PLURAL), RawEvent, self._on_event, None)
        self._follow(_NAMESPACES, _Namespace, self._on_namespace, None)
        inventory.expand_with(self.written_in)

    def _follow(self, path: str, kind: type[Any], changed: Callable[..., None], scope: ShardScope | None) -> None:
        informer = Informer(self._client, path, kind, changed, keep=False, scope=scope, may_vanish=kind is RawEvent)
        self.informers.append(informer)
        if scope is not None:
            self._scoped.append(informer)

    @property
    def is_synced(self) -> bool:
        """
        Whether all events were listed once, and written in the objects that they pick.

        It stays so until `doubt`: somebody who edits events all the time must not hold up decisions.
        """
        if not self._was_synced:
            self._was_synced = self._is_idle and self._are_listed
        return self._was_synced

    @property
    def _are_listed(self) -> bool:
        """Whether all events that can be listed were, since the last doubt."""
        unlisted = self._absent | self._unreadable
        return all(informer.synced.is_set() or informer.path in unlisted for informer in self.informers)

    @property
    def _is_idle(self) -> bool:
        return not self._changed and not self._is_taking_over

    @property
    def _listed(self) -> int:
        """The version of the scope in which all events were listed that can be."""
        unlisted = self._absent | self._unreadable
        return min((one.listed_scope for one in self._scoped if one.path not in unlisted), default=sys.maxsize)

    def is_listed(self, version: int) -> bool:
        """
        Whether the events were listed in this version of the scope, or a later one, and written in their objects.

        What was edited since then does not count: somebody may edit events all the time.
        """
        return self._taken_over >= version or (self._is_idle and self._listed >= version)

    def __iter__(self) -> Iterator[SeenEvent]:
        return iter([seen for events in self._events.values() for seen in events.values()])

    def doubt(self) -> None:
        """
        A replica that was cut off may have missed an event: decisions wait a moment for the next list, and scale
        nothing down until it comes.
        """
        for informer in self.informers:
            is_known = informer.synced.is_set() and informer.path not in self._absent
            if is_known and informer.doubt(_HEARD_SECONDS):
                self._was_synced, self._is_doubted = False, True
                if informer.path not in self._doubts:
                    task = self._doubts[informer.path] = asyncio.create_task(self._doubt(informer, _MOMENT_SECONDS))
                    task.add_done_callback(partial(self._end_doubt, informer.path))

    def _end_doubt(self, path: str, _: asyncio.Task[None]) -> None:
        del self._doubts[path]

    async def run(self) -> None:
        """Keeps the events up to date, and the specs of the objects with them, until cancelled."""
        each = (part for informer in self.informers for part in (self._watch(informer), self._doubt(informer)))
        await asyncio.gather(self._refresh_always(), self._give_place(), self._doubt_later(), *each)

    @property
    def knows_namespaces(self) -> bool:
        """Whether the labels of namespaces may be read."""
        return _NAMESPACES not in self._absent

    def picks(self, seen: SeenEvent, state: ObjectState) -> bool:
        """Whether an event concerns an object."""
        return seen.picks(state.namespace, state.served.labels, self._namespaces.get(state.namespace))

    def leaves_out(self, seen: SeenEvent, state: ObjectState) -> bool:
        """Whether an object that the event concerns has too many events to take this one over."""
        picking = self._picking(state.namespace, state.served.labels)
        return seen.event not in taken_over((one.event for one in picking), self._now())

    def expected_of(self, state: ObjectState) -> ExpectedReplicas:
        """The replicas that the load of an event asks of an object; None while its usual load is not known."""
        own = state.served.parsed.own
        assert own is not None
        return lambda event, stated: self._expected(own, state.key, event, stated)

    def _picking(self, namespace: str, labels: Mapping[str, str]) -> Iterator[SeenEvent]:
        labels_of_namespace = self._namespaces.get(namespace)
        for within in ("", namespace):
            for seen in self._counted_of(within) if self._events.get(within) else ():
                if seen.picks(namespace, labels, labels_of_namespace):
                    yield seen

    def _counted_of(self, namespace: str) -> Sequence[SeenEvent]:
        counted = self._counted.get(namespace)
        if counted is None:
            events = self._events[namespace]
            now = self._now()
            # Whether one is over is not worked out here: of thousands, that would keep the event loop.
            counted = sorted(events.values(), key=lambda seen: (seen.is_over(now), seen.name))
            counted = self._counted[namespace] = counted[:MAX_EVENTS_OF_NAMESPACE]
        return counted

    def written_in(self, spec: Spec, key: Key, labels: Mapping[str, str]) -> Spec:
        """The spec of an object with the schedules of events that it takes over; the spec itself if there is none."""
        events = [seen.event for seen in self._picking(key[0], labels) if seen.event.schedules]
        if events:
            taken = taken_over(events, self._now())
            spec = with_events(spec, taken, lambda event, stated: self._expected(spec, key, event, stated))
        if self._unreadable:
            return with_unknown_events(spec, _UNREADABLE)
        return self._with_former(spec, key, labels) if self._forbidden else spec

    def _with_former(self, spec: Spec, key: Key, labels: Mapping[str, str]) -> Spec:
        """The spec, with an unreadable schedule for each kind of events that were in force and may not be read now."""
        state = self._inventory.items.get(key)
        if state is None:
            return spec
        for path in self._forbidden:
            if path == _NAMESPACES and not self._may_be_picked(labels):
                continue
            of_cluster = path == _NAMESPACES or path.endswith(CLUSTER_EVENT_PLURAL)
            if self._former.was_in_force(state, of_cluster=of_cluster):
                prefix = CLUSTER_EVENT_PREFIX if of_cluster else EVENT_PREFIX
                problem = _NAMESPACES_FORBIDDEN if path == _NAMESPACES else _FORBIDDEN
                spec = with_unknown_events(spec, problem, prefix)
        return spec

    def _may_be_picked(self, labels: Mapping[str, str]) -> bool:
        """Whether an event that selects namespaces concerns an object with these labels in one of them."""
        events = self._counted_of("") if self._events.get("") else ()
        return any(seen.event.namespace_selector is not None and seen.selector.matches(labels) for seen in events)

    def look_again(self, namespace: str = "") -> None:
        """The objects of a namespace, or of all, take over what their events ask for now."""
        # Later some may be over, and others count.
        self._counted = {of: events for of, events in self._counted.items() if namespace not in {"", of}}
        self._changed.add(namespace)
        self._has_changed.set()

    async def _give_place(self) -> None:
        """Where not all events have place, looks again when one of them is over: another one may take its place."""
        await self.any_seen.wait()
        while True:
            await asyncio.sleep(_OVER_SECONDS)
            ended = set[str]()
            for seen in self:
                await self._yield.step()
                now = self._now()
                if not seen.is_over(now) and is_over(seen.event, now):
                    seen.over_at = now
                    ended.add(seen.namespace)
            if ended:
                crowded = self._crowded
                for namespace in crowded if "" in ended else crowded & ended:
                    self.look_again(namespace)

    @property
    def _crowded(self) -> set[str]:
        """The namespaces whose objects may have more events than they take over; "" for all of them."""
        counts = Counter[str]()
        for seen in self:
            counts[seen.namespace] += len(seen.event.schedules)
        of_cluster = counts[""]
        return {of for of, count in counts.items() if count + (of_cluster if of else 0) > MAX_EVENT_SCHEDULES}

    async def _watch(self, informer: Informer[Any]) -> None:
        told = ""
        while True:
            try:
                await self._client.get(informer.path, msgspec.Raw, {"limit": "1"})
            except ClusterError as error:
                reason = _ABSENT.get(error.status)
                if reason is None:
                    LOG.warning("list of %s: %s", informer.path, error.message)
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                if told != reason:
                    told = reason
                    # An operator of some namespaces is given no other right by default.
                    level = logging.INFO if self.is_limited and informer not in self._scoped else logging.WARNING
                    LOG.log(level, "%s %s: no planned event holds by it (%s)", informer.path, reason, error)
                self._absent.add(informer.path)
                self._note_readable(informer.path)
                self._note_forbidden(informer.path, is_forbidden=error.status == HTTPStatus.FORBIDDEN)
                await asyncio.sleep(_ABSENT_SECONDS)
            except Exception:
                LOG.exception("list of %s: it is tried again", informer.path)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                self._absent.discard(informer.path)
                await informer.run()
                told = ""

    async def _doubt(self, informer: Informer[Any], seconds: float = _WAITED_SECONDS) -> None:
        """Lets decisions go on without a list that does not come in time; they scale nothing down until it does."""
        try:
            async with asyncio.timeout(seconds):
                await informer.synced.wait()
        except TimeoutError:
            if informer.path not in self._absent:
                LOG.warning("%s is not listed: decisions go on without it, and scale nothing down", informer.path)
                self._unreadable.add(informer.path)
                self.look_again()
        await informer.synced.wait()
        self._note_readable(informer.path)
        # Not before: until its first list what was in force is as unknown as without the right.
        self._note_forbidden(informer.path, is_forbidden=False)

    async def _doubt_later(self) -> None:
        """As `_doubt`, of lists after the first: those of other shards, and those that a right was taken from."""
        late_before = set[str]()
        while True:
            await asyncio.sleep(_WAITED_SECONDS)
            listed = {informer.path for informer in self.informers if self._is_listed(informer)}
            late = {informer.path for informer in self._scoped if informer.synced.is_set()} - listed - self._absent
            for path in (late & late_before) - self._unreadable:
                LOG.warning("%s is not listed: decisions go on without it, and scale nothing down", path)
                self._unreadable.add(path)
                self.look_again()
            for path in listed - self._absent:
                self._note_readable(path)
                self._note_forbidden(path, is_forbidden=False)
            late_before = late

    def _is_listed(self, informer: Informer[Any]) -> bool:
        version = self._scope.version if informer in self._scoped else 0
        return informer.is_current and informer.listed_scope >= version

    def _note_readable(self, path: str) -> None:
        if path in self._unreadable:
            self._unreadable.discard(path)
            self.look_again()

    def _note_forbidden(self, path: str, *, is_forbidden: bool) -> None:
        """Notes whether a list is refused: each minute, because an event that was in force may have closed since."""
        before = path in self._forbidden
        if is_forbidden:
            self._forbidden.add(path)
        else:
            self._forbidden.discard(path)
        if before != is_forbidden or (is_forbidden and self._former.any_in_force(self._inventory.items)):
            self.look_again()

    def _on_event(self, namespace: str, name: str, raw: RawEvent | None) -> None:
        before = self._events.get(namespace, {}).get(name)
        if raw is None:
            if before is not None:
                del self._events[namespace][name]
                if not self._events[namespace]:
                    del self._events[namespace]
                self.look_again(namespace)
            return
        status = _decoded(raw.status)
        text = bytes(raw.spec)
        # By the text: an event that was made anew, or a restored store, may have the same generation.
        if before is not None and before.text == text:
            before.status, before.generation = status, raw.metadata.generation
            before.version, before.uid = raw.metadata.resource_version, raw.metadata.uid
            return
        seen = seen_event(name, namespace, _decoded(raw.spec), raw.metadata.generation, status)
        seen.text, seen.version, seen.uid = text, raw.metadata.resource_version, raw.metadata.uid
        now = self._now()
        seen.over_at = now if is_over(seen.event, now) else None
        self._events[namespace][name] = seen
        self.any_seen.set()
        self.look_again(namespace)

    def _on_namespace(self, _: str, name: str, raw: _Namespace | None) -> None:
        labels = {} if raw is None else raw.metadata.labels or {}
        if self._namespaces.get(name) != labels:
            self._namespaces[name] = labels
            if raw is None:
                del self._namespaces[name]
            if self._events.get(""):
                self.look_again(name)

    async def _refresh_always(self) -> None:
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            # What changes meanwhile is looked at in the next round.
            listed, changed, self._changed = self._listed, self._changed, set()
            are_listed, self._is_doubted = self._are_listed, False
            self._is_taking_over = True
            for namespace in changed:
                for state in self._inventory.in_namespace(namespace):
                    await self._yield.step()
                    try:
                        self._inventory.expand(state, due_within=MINUTE)
                    except Exception:
                        LOG.exception("the planned events of %s/%s cannot be taken over: it stays as it is", *state.key)
            self._is_taking_over = False
            self._taken_over = listed
            self._was_synced |= are_listed and not self._is_doubted


def seen_event(name: str, namespace: str, spec: Any, generation: int, status: dict[str, Any]) -> SeenEvent:
    """An event with its selectors; one whose selectors cannot be read is refused as a whole."""
    return seen_of(parse_event(name, namespace, spec), generation, status)


def seen_of(event: PlannedEvent, generation: int = 0, status: dict[str, Any] | None = None) -> SeenEvent:
    """As `seen_event`, of an event that was parsed."""
    status = status or {}
    try:
        selector = _selector(event.selector)
        namespaces = _EVERYTHING if event.namespace_selector is None else _selector(event.namespace_selector)
    except SelectorError as error:
        problem = f"spec.selector: {error}"
        refused = PlannedEvent(event.name, event.namespace, problems=(*event.problems, problem))
        return SeenEvent(refused, _EVERYTHING, _EVERYTHING, generation, status=status)
    return SeenEvent(event, selector, namespaces, generation, status=status)


def _selector(stated: LabelSelector) -> Selector:
    expressions = [(one.key, one.operator, one.values) for one in stated.match_expressions]
    return parse_selector(selector_text(stated.match_labels, expressions))


def _decoded(text: msgspec.Raw) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
