"""
Writes the status of planned events: what each asks for, beforehand, and what came of it.

The replica that serves a namespace writes about its objects. With shards the rows of a ClusterPlannedEvent come from
several replicas: each replaces those of its shards, keeps the others', and adds to the report. A write carries the
resource version that it was computed from, so none undoes another's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from zlib import crc32

from cronhpa.api.event_status import (
    EVENT_NUMBERS,
    EventLook,
    EventSums,
    ObjectPart,
    ended_report,
    event_status,
    running_report,
    status_events,
)
from cronhpa.api.identity import CLUSTER_EVENT_PLURAL, EVENT_PLURAL, GROUP, VERSION
from cronhpa.core.model.decision import MetricProposal, WindowState
from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds, format_instant, parse_instant
from cronhpa.core.model.planned_event import PlannedEvent
from cronhpa.core.model.spec import Mode
from cronhpa.core.schedules.events import asked_of, phase, schedule_names, starts
from cronhpa.history.past.event_reports import PastReport, WaitingReports
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.resource_versions import version_number
from cronhpa.kube.scale import Targets
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_state import Key, ObjectState
from cronhpa.operator.objects.planned_events import PlannedEvents, RawEvent, SeenEvent
from cronhpa.operator.writes.event_recorder import EventRecorder

LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 15.0
# Numbers that move all the time are written once a minute; what people wait for, at once.
_DRIFT = MINUTE
_AT_ONCE = ("observedGeneration", "state", "objects", "short", "conditions", "nextEdge")
# Of CPU, in one pass of the event loop.
_PART_SECONDS = 0.02
# Of one core, at most, for all statuses together: very many events of very many objects make statuses late, and nothing
# else.
_CPU_SHARE = 0.05


class EventStatusWriter:
    """
    serves(namespace): whether this replica decides for a namespace now. held(): the shards in which it decides; {0}
    without shards, none while another replica leads.
    """

    def __init__(  # noqa: PLR0913 - its parts by their names
        self,
        client: Client,
        events: PlannedEvents,
        inventory: Inventory,
        targets: Targets,
        recorder: EventRecorder,
        *,
        serves: Callable[[str], bool],
        clock: Callable[[], Nanoseconds],
        scope: ShardScope,
        namespaces: tuple[str, ...],
        held: Callable[[], frozenset[int]],
    ) -> None:
        self._client, self._events, self._inventory, self._targets = client, events, inventory, targets
        self._recorder, self._serves, self._clock = recorder, serves, clock
        self._scope, self._held = scope, held
        # An operator of some namespaces has a row of its own in the status of a ClusterPlannedEvent, too.
        self._namespaces, self._row = namespaces, crc32(",".join(sorted(namespaces)).encode()) >> 1
        self._written_at: dict[Key, Nanoseconds] = {}
        self._looked: dict[Key, Nanoseconds] = {}
        self._sums: dict[Key, EventSums] = {}
        # Those whose status this replica wrote.
        self._told: dict[Key, SeenEvent] = {}
        # How long the last look at all events took.
        self._took: Nanoseconds = 0
        # The namespaces in which a write of this look had no answer: events of others do not wait for more of them.
        self._unanswered: set[str] = set()
        # Reports that wait for the store.
        self.ended = WaitingReports()

    async def run(self) -> None:
        """Looks at all events from time to time, once there is one, until cancelled."""
        await self._events.any_seen.wait()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._events.is_synced:
                await self.look()

    def served(self) -> Iterator[SeenEvent]:
        """The events of which this replica writes the status, those of the cluster included."""
        return (seen for seen in self._events if not seen.event.namespace or self._serves(seen.event.namespace))

    async def look(self) -> None:
        """Writes the status of each event that needs it."""
        keys, loop = {seen.event.key for seen in self._events}, asyncio.get_running_loop()
        begun = loop.time()
        self._unanswered.clear()
        for seen in self.served():
            if seen.event.namespace in self._unanswered:
                continue
            try:
                await self._look_at(seen)
            except Exception:
                LOG.exception("the status of %s %s is not written; it is tried again", *seen.event.key)
        self._took = round((loop.time() - begun) * SECOND)
        for key, seen in self._told.items():
            if key not in keys:
                self._keep(seen, running_report(seen.status), closed=format_instant(self._clock()))
        for known in (self._written_at, self._looked, self._sums, self._told):
            for key in [key for key in known if key not in keys]:
                known.pop(key)

    async def _look_at(self, seen: SeenEvent) -> None:
        begun = time.thread_time()
        event, now = self._inventory.with_days(seen.event), self._clock()
        stands, instants = phase(event, now), starts(event, now) or (now,)
        states = [state for state in self._inventory.in_namespace(event.namespace) if self._serves(state.namespace)]
        held = self._held()
        parts: list[ObjectPart] = []
        for state in states:
            if self._events.picks(seen, state):
                parts.extend(self._part(seen, event, state, instants))
            if time.thread_time() - begun > _PART_SECONDS:
                begun = await _rested(begun)
        begun = await _rested(begun)
        if not event.namespace and (not held or held != self._held()):
            return  # this replica leads nothing, or other shards than those in which it has looked
        others = () if event.namespace else [row for row in _rows(seen.status) if not self._serves(row["namespace"])]
        # Not the time in which another replica looked at it.
        elapsed = min(max(now - self._looked.get(event.key, now), 0), 2 * MINUTE + self._took)
        self._looked[event.key] = now
        shards = 1 if event.namespace else 0 if self._namespaces else self._scope.shards
        held = frozenset({self._row}) if shards == 0 else held
        aside = self._aside(seen)
        is_unread = bool(event.problems) and not seen.event.problems and not event.suspend
        look = EventLook(event, seen.generation, stands, tuple(parts), now, elapsed, shards, held, aside, is_unread)
        sums = self._sums.setdefault(event.key, EventSums())
        sums.add(look)
        status = event_status(look, seen.status, sums, others)
        previous = seen.status
        spent = time.thread_time() - begun
        if self._is_due(seen, status, now) and await self._write(seen, status):
            self._told[event.key] = seen
            self._keep(seen, ended_report(previous, status))
            sums.take_whole()
            self._written_at[event.key] = now
            for told in status_events(previous, status):
                self._recorder.record(seen, told, now)
        await asyncio.sleep(spent / _CPU_SHARE)

    def _keep(self, seen: SeenEvent, report: Mapping[str, Any] | None, **more: str) -> None:
        """Keeps a report that ended for the store; None is none."""
        if report is not None:
            about = {"reason": seen.event.reason, "objects": seen.status.get("objects", 0)}
            opened = parse_instant(report["opened"])
            self.ended.add(PastReport(seen.namespace, seen.name, opened, {**about, **report, **more}))

    def _part(
        self, seen: SeenEvent, event: PlannedEvent, state: ObjectState, instants: Sequence[Nanoseconds]
    ) -> Iterator[ObjectPart]:
        """event: that which was seen, with the days of its calendars."""
        own, spec, decision = state.served.parsed.own, state.served.spec, state.local.latest_decision
        if own is None or spec is None:
            yield ObjectPart(
                state.namespace,
                state.name,
                0,
                0,
                0,
                is_ready=False,
                is_unreadable=True,
                shard=self._shard_of(seen, state),
            )
            return
        expected = self._events.expected_of(state)
        # A later window of it may lack more than the next one: that is told beforehand, too.
        demand, *later = (asked_of(event, spec, at, expected) for at in instants)
        current = 0 if decision is None else decision.current
        ready = self._targets.ready(state.namespace, spec.target)
        wanted = [one.replicas for one in decision.metrics if isinstance(one, MetricProposal)] if decision else []
        names = schedule_names(event)
        conflicts = () if state.local.latest is None else state.local.latest.conflicts
        windows = () if decision is None else decision.windows
        yield ObjectPart(
            namespace=state.namespace,
            name=state.name,
            pods=demand.replicas,
            pods_now=current,
            short=max(one.short for one in (demand, *later)),
            is_ready=ready is not None and ready >= demand.replicas,
            requests=state.local.remembered.request_per_pod,
            is_leading=any(one.name in names and one.state is WindowState.LEADING for one in windows),
            is_at_max=decision is not None and current >= decision.maximum,
            is_under_provisioned=state.local.under_provisioned.is_short,
            unneeded=max(current - max(wanted), 0) if wanted else 0,
            is_load_unknown=any(
                event_schedule.expected_load_percent is not None
                and not isinstance(expected(event, event_schedule), int)
                for event_schedule in event.unsuspended
            ),
            is_preview=spec.mode is Mode.PREVIEW,
            is_elsewhere=bool(state.local.other_operator),
            is_left_out=bool(event.schedules)
            and not any(one.name in names for one in spec.schedules)
            and self._events.leaves_out(seen, state),
            is_percent_of_nothing=any(one.percent_of_nothing for one in (demand, *later)),
            shard=self._shard_of(seen, state),
            conflict=next((str(one) for one in conflicts if not names.isdisjoint(one.sources)), ""),
        )

    def _shard_of(self, seen: SeenEvent, state: ObjectState) -> int:
        if seen.event.namespace:
            return 0
        return self._row if self._namespaces else self._scope.shard_of(state.namespace)

    def _aside(self, seen: SeenEvent) -> str:
        """What keeps this operator from concerning all that a ClusterPlannedEvent selects; "" for nothing."""
        if seen.event.namespace:
            return ""
        asides = []
        if seen.event.namespace_selector is not None and not self._events.knows_namespaces:
            asides.append("the operator may not list namespaces, so namespaceSelector selects none: give it the right")
        if self._namespaces:
            asides.append(f"the operator acts in {', '.join(self._namespaces)} alone")
        return "; ".join(asides)

    def _is_due(self, seen: SeenEvent, status: Mapping[str, Any], now: Nanoseconds) -> bool:
        before = seen.status
        if any(before.get(key) != status.get(key) for key in _AT_ONCE):
            return True
        if ("closed" in (before.get("report") or {})) != ("closed" in (status.get("report") or {})):
            return True
        # The clock may step back.
        return before != status and not 0 <= now - self._written_at.get(seen.event.key, 0) < _DRIFT - SECOND

    async def _write(self, seen: SeenEvent, status: dict[str, Any]) -> bool:
        """Writes a status; whether it was written. Another one may have come first: the next look begins with that."""
        event = seen.event
        within = ("namespaces", event.namespace, EVENT_PLURAL) if event.namespace else (CLUSTER_EVENT_PLURAL,)
        path = path_of("apis", GROUP, VERSION, *within, event.name, "status")
        gone = {key: None for key in seen.status if key not in status}
        body = {"metadata": {"resourceVersion": seen.version}, "status": {**gone, **status}}
        try:
            written = await self._client.merge_patch(path, body, RawEvent)
        except ClusterError as error:
            if not error.status:
                self._unanswered.add(event.namespace)
            if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                LOG.warning("the status of %s %s is not written: %s", event.namespace, event.title, error.message)
            return False
        version = written.metadata.resource_version
        # Another replica may have written since, and the watch was faster than the answer.
        if version_number(version) >= version_number(seen.version):
            seen.status, seen.version = status, version
        return True


async def _rested(begun: float) -> float:
    """Waits in proportion to the CPU time since `begun`; returns the CPU time at which the next part begins."""
    await asyncio.sleep((time.thread_time() - begun) / _CPU_SHARE)
    return time.thread_time()


def _rows(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of namespaces of a status; those that cannot be read are left out."""
    return [
        row
        for row in status.get("namespaces") or ()
        if isinstance(row, dict)
        and isinstance(row.get("namespace"), str)
        and all(isinstance(row.get(number), int) for number in EVENT_NUMBERS)
    ]
