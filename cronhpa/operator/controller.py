"""
The part of the operator that scales: informers, inventory, control loop, and the changes that make an object due.

It does not listen on ports and does not learn, so a test can run it alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from cronhpa.calendars.feeds import CalendarFeeds
from cronhpa.core.decide import Decide
from cronhpa.core.decide import decide as decide_with
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.history.database.series import Series
from cronhpa.kube.client import Client
from cronhpa.kube.clock import Clock
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.informer import Informer
from cronhpa.kube.lease import Leases
from cronhpa.kube.pod_owners import PodOwners
from cronhpa.kube.scale import Targets
from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.leader.handover import FleetHandover, Handover, IsIn
from cronhpa.operator.leader.replica import OnlyReplica, Replica
from cronhpa.operator.leader.shard_handover import ShardHandover, ShardHolder
from cronhpa.operator.learning import target_of
from cronhpa.operator.loop.control_loop import ControlLoop, ReconciliationTrace
from cronhpa.operator.loop.delaying_queue import DelayingQueue
from cronhpa.operator.loop.metric_apis import MetricApis
from cronhpa.operator.loop.observer import Cluster
from cronhpa.operator.loop.reconciler import LatestForecasts, Reconciler
from cronhpa.operator.objects.counted_pods import CountedPods
from cronhpa.operator.objects.installations import Installations
from cronhpa.operator.objects.inventory import RIVALS_FEW, Inventory
from cronhpa.operator.objects.namespace_watches import NamespaceWatches
from cronhpa.operator.objects.object_state import Key, ObjectState, TargetKey
from cronhpa.operator.objects.object_watch import ObjectWatch, Watch
from cronhpa.operator.objects.owners import Hpa, Owners
from cronhpa.operator.objects.planned_events import PlannedEvents
from cronhpa.operator.objects.vertical_autoscalers import VerticalAutoscalers
from cronhpa.operator.usual_loads import UsualLoads
from cronhpa.operator.writes.event_recorder import EventRecorder
from cronhpa.operator.writes.event_status_writer import EventStatusWriter
from cronhpa.operator.writes.placeholder_settings import NO_PLACEHOLDERS, PlaceholderSettings
from cronhpa.operator.writes.placeholder_writer import PlaceholderWriter
from cronhpa.operator.writes.write_places import WritePlaces
from cronhpa.operator.writes.writer import Writer
from cronhpa.sources.metric_sources import MetricSources

LOG = logging.getLogger(__name__)

# The first decisions wait this long for the lists of targets. After that, each target is read by itself.
_TARGETS_SECONDS = 15.0


class Controller:
    """
    namespaces: empty for all. forecasts: the newest forecasts, in memory. watch: of the CronHPA objects.
    calendars: the file of calendars.
    """

    def __init__(  # noqa: PLR0913 - its parts by their names, seven of them with a default
        self,
        client: Client,
        clock: Clock,
        forecasts: LatestForecasts,
        *,
        options: ControllerOptions,
        watch: Watch,
        namespaces: tuple[str, ...] = (),
        decide: Decide = decide_with,
        replica: Replica | None = None,
        trace: ReconciliationTrace | None = None,
        sources: MetricSources | None = None,
        calendars: Path | None = None,
        check_standing: bool = False,
        placeholders: PlaceholderSettings = NO_PLACEHOLDERS,
    ) -> None:
        self.replica = replica or OnlyReplica()
        sharded = self.replica if isinstance(self.replica, ShardHolder) else None
        shards = ShardScope() if sharded is None else sharded.scope
        self.installations = Installations(
            self.replica.lease,
            Leases(client),
            self.replica.timing.lease,
            clock.monotonic,
            own_of=None if sharded is None else sharded.lease_of,
        )
        self.sources = sources or MetricSources(clock.now)
        self.owners = Owners()
        self.counted_pods = CountedPods()
        self.inventory = Inventory(
            options,
            self._on_object,
            self._on_gone,
            self._on_rivals,
            expanded=self._note_room,
            holds=shards.holds,
            usual_placeholders=placeholders.usual,
        )
        self.object_watch = ObjectWatch(
            client, self.inventory, namespaces, watch, term=lambda: self.replica.term, scope=shards
        )
        # A list that shows that the API's store was restored: the watch of the objects may not have noticed it.
        restored = self.object_watch.begin_again
        discovery = Discovery(client)
        self.targets = Targets(client, discovery, self._on_target, namespaces, shards, restored)
        places, queue = WritePlaces(), DelayingQueue(clock.monotonic)
        self.events = EventRecorder(client, places)
        self.writer = Writer(client, self.targets, self.events, self.inventory, self.installations, places, queue)
        self._client = client
        self._forecasts = forecasts
        # The objects with a forecast, kept up to date because learning reads them every two seconds; their series.
        self.forecast_objects: dict[Key, ObjectState] = {}
        self._forecast_series: dict[Key, Series] = {}
        self.watches = NamespaceWatches(client, namespaces, shards, self._on_hpa, restored)
        self.vertical_autoscalers = VerticalAutoscalers(client, namespaces, self.inventory)
        self.usual_loads = UsualLoads(self.inventory, clock.now)
        self.planned_events = PlannedEvents(
            client, self.inventory, clock.now, namespaces, shards, self.usual_loads.expected
        )
        self.calendars: CalendarFeeds | None = None
        if calendars is not None:
            self.calendars = CalendarFeeds(calendars, clock.now, self.planned_events.look_again)
            self.inventory.read_days_of(self.calendars.calendars)
        self.metric_apis = MetricApis(client, discovery, self.sources)
        cluster = Cluster(
            self._serves,
            self.metric_apis,
            self.watches,
            self.targets,
            self.owners,
            self.installations,
            self.counted_pods,
            PodOwners(client, discovery),
            self.vertical_autoscalers,
        )
        self.reconciler = Reconciler(
            cluster, self.inventory, self.writer, forecasts, decide, check_standing=check_standing
        )
        self.event_statuses = EventStatusWriter(
            client,
            self.planned_events,
            self.inventory,
            self.targets,
            self.events,
            serves=self._serves,
            clock=clock.now,
            scope=shards,
            namespaces=namespaces,
            held=self._held,
        )
        self.placeholders = PlaceholderWriter(
            client,
            discovery,
            self.targets,
            self._serves,
            clock,
            settings=placeholders,
            lease=self.replica.lease,
            namespaces=namespaces,
        )
        self.control_loop = ControlLoop(cluster, self.inventory, self.reconciler, self.writer, queue, clock, trace)
        self.handover: Handover
        if sharded is None:
            self.handover = FleetHandover(
                self.replica,
                self.inventory,
                self.control_loop,
                self.reconciler,
                self.object_watch,
                clock,
                watches=self.watches,
                prepare=self._watch_targets,
                doubt=self.planned_events.doubt,
            )
        else:
            self.handover = ShardHandover(
                sharded,
                self.inventory,
                self.control_loop,
                listed=self._is_listed,
                prepare=self._watch_targets,
                flushed=self.events.flushed,
                doubt=self.planned_events.doubt,
            )

    @property
    def informers(self) -> list[Informer[Any]]:
        """The informers of pods, of HorizontalPodAutoscalers, and of the kinds of targets."""
        return [*self.watches.informers, *self.targets.informers]

    @property
    def unanswered_seconds(self) -> float:
        """Seconds since the API server answered a request or sent anything on a watch."""
        at = self._client.succeeded_at
        return 0.0 if at is None else asyncio.get_running_loop().time() - at

    def watching(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """The coroutines that run beside the control loop, by name; each runs until cancelled."""
        return [
            *((f"watch {informer.path}", informer.run()) for informer in self.watches.informers),
            ("lists of CronHPA objects", self.object_watch.list_periodically()),
            ("watch of CronHPA objects", self.object_watch.watch()),
            ("events", self.events.run()),
            ("other installations", self.installations.run()),
            ("vertical autoscalers", self.vertical_autoscalers.run()),
            ("planned events", self.planned_events.run()),
            ("statuses of planned events", self.event_statuses.run()),
            ("placeholders", self.placeholders.run()),
            *(() if self.calendars is None else (("calendars", self.calendars.follow()),)),
        ]

    async def _watch_targets(self, is_in: IsIn) -> None:
        """Begins to watch the kinds of targets of the objects in some namespaces, and waits a while for their lists."""
        served = (
            (state.namespace, state.served.spec.target)
            for state in self.inventory
            if state.served.spec is not None and is_in(state.namespace)
        )
        await self.targets.watch(served, _TARGETS_SECONDS)

    def _is_listed(self, version: int) -> bool:
        """
        Whether everything was listed in this version of the scope, or in a later one, but for lists that are overdue.

        Does not wait for targets of a kind that cannot be listed: they are read one by one.
        """
        of_targets = [informer.listed_scope for informer in self.targets.informers if informer.is_current]
        listed = min(self.object_watch.listed_scope, self.watches.listed_scope, *of_targets)
        return listed >= version and self.planned_events.is_listed(version)

    def on_first_forecast(self, series: Series) -> None:
        """A first forecast makes its object due at once. A newer one does not: rate policies count reconciliations."""
        self.control_loop.enqueue((series.namespace, series.name))

    def _serves(self, namespace: str) -> bool:
        return self._are_read and self.handover.serves(namespace)

    @property
    def _are_read(self) -> bool:
        """Whether the planned events and calendars were read, which are parts of specs; it stays so."""
        return (self.calendars is None or self.calendars.is_settled) and self.planned_events.is_synced

    def _held(self) -> frozenset[int]:
        """The shards in which this replica decides; {0} without shards."""
        return self.handover.held if self._are_read else frozenset()

    def _on_object(self, key: Key) -> None:
        state = self.inventory.items[key]
        # While it cannot be read it may ask for the same: what was learned and spent for it stays.
        if state.served.spec is not None:
            self._note_forecast(state)
        self._note_room(state)
        self.control_loop.enqueue(key)

    def _on_rivals(self, target: TargetKey) -> None:
        """An object on a target has come, gone or been edited: the others may have to hold, or no longer."""
        self.owners.note_change(target)
        self._enqueue_on(target)

    def _note_forecast(self, state: ObjectState) -> None:
        key, forecast_target = state.key, target_of(state)
        series = None if forecast_target is None else forecast_target.series
        before = self._forecast_series.pop(key, None)
        if before is not None and series != before:
            self._forget_series(before)
        if series is None:
            self.forecast_objects.pop(key, None)
        else:
            self.forecast_objects[key], self._forecast_series[key] = state, series

    def _note_room(self, state: ObjectState) -> None:
        spec = state.served.spec
        # Nothing raises the floor of the others ahead of time.
        if spec is not None and spec.room is not None and (spec.is_timed or spec.forecast is not None):
            self.placeholders.note(state)
        else:
            self.placeholders.objects.pop(state.key, None)

    def _on_gone(self, state: ObjectState) -> None:
        self.reconciler.forget(state)
        self.control_loop.forget(state)
        self.events.forget(state)
        self.counted_pods.forget(state)
        self.placeholders.objects.pop(state.key, None)
        self.forecast_objects.pop(state.key, None)
        series = self._forecast_series.pop(state.key, None)
        if series is not None:
            self._forget_series(series)

    def _forget_series(self, series: Series) -> None:
        self.reconciler.budgets.forget(series)
        self._forecasts.forget(series)

    def _on_target(self, namespace: str, group: str, kind: str, name: str) -> None:
        self._enqueue_on((namespace, group, kind, name))

    def _on_hpa(self, namespace: str, name: str, hpa: Hpa | None) -> None:
        for target in self.owners.note_hpa(namespace, name, hpa):
            self._enqueue_on(target)

    def _enqueue_on(self, target: TargetKey) -> None:
        """
        Makes the objects on a target due. If they are very many, they wait for their next reconciliations: a tenant may
        change one of them, or another autoscaler, many times a second.
        """
        if self.inventory.count_on(target) <= RIVALS_FEW:
            for state in self.inventory.on_target(target):
                self.control_loop.enqueue(state.key)
