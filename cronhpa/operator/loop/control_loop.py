"""
The control loop: which objects are due, in which tasks they are reconciled, when each is due again.

A reconciliation that hangs delays only those that wait for the same answer; one that fails costs only its own object.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from math import ceil
from typing import Any, Protocol

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.sync_grid import following
from cronhpa.kube.clock import Clock
from cronhpa.kube.metrics import PodMetricsByName
from cronhpa.operator.loop.cooperative_yield import CooperativeYield
from cronhpa.operator.loop.delaying_queue import DelayingQueue
from cronhpa.operator.loop.loop_metrics import LoopMetrics, note_lags
from cronhpa.operator.loop.metric_apis import SHARED_SECONDS, MetricQueries
from cronhpa.operator.loop.observer import Cluster
from cronhpa.operator.loop.reconciler import Reconciler, WaitsFor
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_state import Key, ObjectState
from cronhpa.operator.writes.writer import Writer

LOG = logging.getLogger(__name__)

# A longer reconciliation is given up, and the next one tries again: every request in it has a shorter deadline.
_RECONCILE_SECONDS = 40
# At the end: what reads or decides leaves nothing half done, and the next leader does it anew.
_READS_SECONDS = 2.0
_CLOCK_STEP = 5 * SECOND
# So many decisions are made before they are written: scale-ups of all of them come first.
_SLICE = 500
# So many decisions that stand count as one that is made, in a pass of the event loop.
_STANDING_PER_STEP = 32


class ReconciliationTrace(Protocol):
    """Learns of the begin of a reconciliation, and of its end after the last write."""

    def reconciliation(self, state: ObjectState) -> AbstractContextManager[object]:
        """Begins the reconciliation of an object, which is the current one within the block."""

    def end(self, state: ObjectState) -> None:
        """Ends it: its writes are done."""


class Untraced:
    def reconciliation(self, _state: ObjectState) -> AbstractContextManager[object]:
        return nullcontext()

    def end(self, _state: ObjectState) -> None:
        pass


class NamespaceTasks:
    """Running tasks by namespace: a replica that releases a shard ends the tasks of the shard's namespaces."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._writes: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], namespace: str, *, writes: bool = False) -> None:
        task = asyncio.create_task(work, name=f"reconcile {namespace}")
        self._tasks[task] = namespace
        task.add_done_callback(self._tasks.pop)
        if writes:
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def close(self, seconds: float, among: Callable[[str], bool]) -> None:
        """
        Waits `seconds` for the writes of some namespaces, and two at most for what reads or decides; cancels the tasks
        that take longer.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        await self._end(min(until, loop.time() + _READS_SECONDS), among, self._writes)
        await self._end(until, among, set())

    async def _end(self, until: float, among: Callable[[str], bool], but: AbstractSet[asyncio.Task[None]]) -> None:
        loop = asyncio.get_running_loop()
        # In a loop, because the end of a task may start another one.
        while tasks := [
            task for task, namespace in self._tasks.items() if among(namespace) and task not in but and not task.done()
        ]:
            _, late = await asyncio.wait(tasks, timeout=max(until - loop.time(), 0))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class ControlLoop:
    """
    Reconciles the objects that are due, in separate tasks:

    - the objects of a namespace that need its pod metrics: together, after one LIST;
    - the objects that need no metric: together, at once;
    - each object that needs an answer of its own: alone.

    A hanging answer thus delays only the objects that asked for it. No object is reconciled twice at the same time.
    """

    def __init__(
        self,
        cluster: Cluster,
        inventory: Inventory,
        reconciler: Reconciler,
        writer: Writer,
        queue: DelayingQueue,
        clock: Clock,
        trace: ReconciliationTrace | None = None,
    ) -> None:
        self.metrics = LoopMetrics()
        self._cluster = cluster
        self._inventory = inventory
        self._reconciler = reconciler
        self._writer = writer
        self._trace = trace or Untraced()
        self._clock = clock.now
        self._monotonic = clock.monotonic
        self._queue = queue
        self._yield = CooperativeYield()
        # (monotonic, wall clock) when they were read last.
        self._read_at: tuple[float, Nanoseconds] | None = None
        self._tasks = NamespaceTasks()

    def enqueue(self, key: Key) -> None:
        """Makes an object due as soon as it can be measured, or at the end of its reconciliation that is under way."""
        state, now = self._inventory.items.get(key), self._clock()
        self._queue.put(key, now if state is None else _measurable_at(state, now))

    def forget(self, state: ObjectState) -> None:
        """Removes an object that is gone from the queue."""
        self._queue.drop(state.key)

    @property
    def oldest_seconds(self) -> float:
        """How long the longest reconciliation under way has taken, without its waits for a place; 0 without one."""
        return self._queue.oldest_seconds

    async def run(self, since: Nanoseconds | None = None, *, goes_on: bool = False) -> None:
        """
        Reconciles until cancelled.

        since: when the term began, None for now. goes_on: the memories are those of the last run, and a clock that was
        set since then counts. Else another replica may have decided before the term: each object is due since then.
        """
        if not goes_on:
            self._read_at = None
            now = self._clock()
            self._make_all_due(now if since is None else min(since, now))
        try:
            while True:
                now = self.metrics.last_tick = self._read_clock()
                for namespace, due in self._queue.pop(now).items():
                    self._begin(namespace, due, now)
                await self._queue.wait_until_due(self._clock(), 1.0)
        finally:
            self.metrics.last_tick = None

    def _read_clock(self) -> Nanoseconds:
        """The wall clock. If it was set since it was read last, queue and memories follow it."""
        elapsed, now = self._monotonic(), self._clock()
        elapsed_before, before = self._read_at or (elapsed, now)
        self._read_at = elapsed, now
        step = now - before - round((elapsed - elapsed_before) * SECOND)
        if abs(step) > _CLOCK_STEP:
            self._follow_clock(step, now)
        return now

    def _follow_clock(self, step: Nanoseconds, now: Nanoseconds) -> None:
        """The wall clock was set: every object is due, and what its memory holds is as old as before."""
        LOG.warning("the clock stepped by %+d s: every object is due", step // SECOND)
        for state in self._inventory:
            state.follow_clock(step)
        self._make_all_due(now)

    def _make_all_due(self, now: Nanoseconds) -> None:
        self._queue.clear()
        for state in self._inventory:
            self._queue.put(state.key, _measurable_at(state, now))

    async def close(self, seconds: float, among: Callable[[str], bool] = lambda _: True) -> None:
        """
        Waits this long for the reconciliations under way: half of one is a scale without its status.

        among: the namespaces in which they are.
        """
        await self._tasks.close(seconds, among)
        # Those that were given up have not ended, and must not look as if they were under way for ever.
        for key in [key for key in self._queue.under_way if among(key[0])]:
            self._queue.end(key)

    def _begin(self, namespace: str, due: Mapping[Key, Nanoseconds], now: Nanoseconds) -> None:
        """Begins the reconciliations of a namespace that are due, in a task for each answer that they wait for."""
        if not self._cluster.serves(namespace):
            for key in due:
                self._queue.put(key, now + SECOND)
            return
        groups = self._group(namespace, due, now)
        queries = self._cluster.metrics.queries(namespace)
        for state in groups[WaitsFor.OWN_REQUEST]:
            self._tasks.spawn(self._reconcile_group([state], None, queries, now), namespace)
        if group := groups[WaitsFor.NOTHING]:
            self._tasks.spawn(self._reconcile_group(group, None, queries, now), namespace)
        if group := groups[WaitsFor.POD_METRICS]:
            self._tasks.spawn(self._reconcile_after_list(namespace, group, queries), namespace)

    def _group(
        self, namespace: str, due: Mapping[Key, Nanoseconds], now: Nanoseconds
    ) -> dict[WaitsFor, list[ObjectState]]:
        """The objects that are reconciled from now on, by the answer that they wait for."""
        groups: dict[WaitsFor, list[ObjectState]] = {kind: [] for kind in WaitsFor}
        is_blind = self._cluster.watches.pods_unknown(namespace) is not None
        list_seconds = self._cluster.metrics.list_wait_seconds(namespace)
        for key, due_at in due.items():
            state = self._inventory.items.get(key)
            if state is None:
                continue
            kind = self._reconciler.waits_for(state, now)
            if kind is WaitsFor.POD_METRICS and is_blind:
                kind = WaitsFor.NOTHING  # a LIST would not be read
            if list_seconds and kind is WaitsFor.POD_METRICS:
                self._queue.postpone(key, due_at, now + ceil(list_seconds * SECOND))
            # While its decision stands nothing is written; `reconcile` asks where it does not.
            elif state.local.may_stand or self._reconciler.follow_installation(state, now):
                self._queue.begin(key)
                state.due.at = due_at
                groups[kind].append(state)
            else:
                self._queue.put(key, following(namespace, state.period, now))
        return groups

    async def _reconcile_after_list(self, namespace: str, states: list[ObjectState], queries: MetricQueries) -> None:
        """Reconciles a group after one LIST of the pod metrics; objects that waited for its end are due then."""
        try:
            async with self._cluster.metrics.using_list(namespace):
                requested_at, pod_metrics = self._clock(), None
                try:
                    async with asyncio.timeout(_RECONCILE_SECONDS):
                        pod_metrics = await queries.pod_metrics()
                except TimeoutError:
                    self._give_up(states)
                    self._end(states)
                    return
                except Exception:  # each reconciliation says so itself
                    LOG.debug("the pod metrics of %s", namespace, exc_info=True)
                await self._reconcile_group(states, pod_metrics, queries, requested_at)
        finally:
            if not self._cluster.metrics.list_wait_seconds(namespace):  # else the namespace uses another one
                self._queue.resume(namespace)

    async def _reconcile_group(
        self,
        states: Sequence[ObjectState],
        pod_metrics: PodMetricsByName | Absent | None,
        queries: MetricQueries,
        begun: Nanoseconds,
    ) -> None:
        """Reconciles a group. Its writes go on in tasks of their own: this one may use a LIST."""
        undecided = [*states] if self._reconciler.standing.checks else await self._without_standing(states, pod_metrics)
        if len(states) > 1:
            undecided = self._spawn_own_requests(undecided, queries)
        waited_since: Nanoseconds | None = begun  # the first decision counts as long as the answer for which it waited
        for first in range(0, len(undecided), _SLICE):
            batch = []
            for state in undecided[first : first + _SLICE]:
                await self._yield.step()
                reconciliation = await self._reconcile(state, queries, waited_since or self._clock())
                waited_since = None
                if reconciliation is not None:
                    batch.append((state, reconciliation))
                elif self._reconciler.is_rejected(state):
                    self._tasks.spawn(self._reject(state), state.namespace, writes=True)
                else:
                    self._end((state,))
            # The writes of a slice do not wait for the decisions of the next: a namespace may have 10,000.
            if batch:
                self._tasks.spawn(self._write(batch, begun), batch[0][0].namespace, writes=True)

    async def _without_standing(
        self, states: Sequence[ObjectState], pod_metrics: PodMetricsByName | Absent | None
    ) -> list[ObjectState]:
        """Ends the reconciliations of objects whose decisions stand; returns the other objects."""
        undecided: list[ObjectState] = []
        for first in range(0, len(states), _STANDING_PER_STEP):
            await self._yield.step()
            begun = self._clock()
            standing: list[ObjectState] = []
            for state in states[first : first + _STANDING_PER_STEP]:
                try:
                    stands = self._reconciler.standing.note_if_stands(state, pod_metrics, begun)
                except Exception:
                    LOG.exception("whether the decision on %s/%s stands cannot be told: it is made anew", *state.key)
                    state.local.changed, stands = True, False
                (standing if stands else undecided).append(state)
            if standing:
                ended = self._clock()
                self.metrics.duration.note((ended - begun) // len(standing), len(standing))
                note_lags(self.metrics.lag, standing, ended)
                self._end(standing)
        return undecided

    def _spawn_own_requests(self, states: Sequence[ObjectState], queries: MetricQueries) -> list[ObjectState]:
        """Begins tasks for objects that turn out to wait for an answer of their own; returns the others."""
        now, others = self._clock(), []
        for state in states:
            if self._reconciler.waits_for(state, now, is_decided=True) is WaitsFor.OWN_REQUEST:
                self._tasks.spawn(self._reconcile_group([state], None, queries, now), state.namespace)
            else:
                others.append(state)
        return others

    async def _reconcile(self, state: ObjectState, queries: MetricQueries, since: Nanoseconds) -> Reconciliation | None:
        """What is to be written of an object, if anything. A reconciliation that fails or takes too long ends here."""
        reconciliation = None
        # Whatever made it due since it began to wait for the pod metrics is observed from here on.
        if self._inventory.items.get(state.key) is state:
            self._queue.observes(state.key)
        try:
            with self._trace.reconciliation(state):
                async with asyncio.timeout(_RECONCILE_SECONDS):
                    reconciliation = await self._reconciler.reconcile(state, queries, self._read_clock)
            if reconciliation is not None and self._writer.is_written(state, reconciliation):
                reconciliation = None
        except TimeoutError:
            self._give_up((state,))
        except Exception:
            LOG.exception("the reconciliation of %s/%s failed", *state.key)
            self._note_failed(state)
        decided = self._clock()
        self.metrics.duration.note(decided - since)
        self.metrics.lag.note(decided - state.due.at)
        return reconciliation

    async def _write(self, batch: list[tuple[ObjectState, Reconciliation]], begun: Nanoseconds) -> None:
        await self._writer.flush(batch, lambda state: self._end((state,)))
        self.metrics.tick_duration = max(self._clock() - begun, 0)

    async def _reject(self, state: ObjectState) -> None:
        """Says in its status that a spec cannot be read. As for other writes, the wait for a place has no deadline."""
        try:
            await self._writer.reject(state, self._clock())
        except Exception:
            LOG.exception("that the spec of %s/%s cannot be read could not be written", *state.key)
            self._note_failed(state)
        finally:
            self._end((state,))

    def _give_up(self, states: Iterable[ObjectState]) -> None:
        for state in states:
            LOG.warning("reconciling %s/%s took longer than %d s and is given up", *state.key, _RECONCILE_SECONDS)
            self._note_failed(state)

    def _note_failed(self, state: ObjectState) -> None:
        self.metrics.errors += 1
        state.local.changed = True
        state.due.retry()
        if state.due.next_edge is not None and state.due.next_edge <= self._clock():
            state.due.next_edge = None  # in the past it would make the object due all the time

    def _end(self, states: Sequence[ObjectState]) -> None:
        """Makes reconciled objects of a namespace due again: a period later, at the next edge, or now if dirty."""
        now = self._clock()
        self.metrics.reconciles += len(states)
        note_lags(self.metrics.write_lag, states, now)
        grid: dict[Nanoseconds, Nanoseconds] = {}
        due: dict[Nanoseconds, list[Key]] = defaultdict(list)
        for state in states:
            key, period, next_edge = state.key, state.period, state.due.next_edge
            is_dirty = self._queue.end(key)
            if state.due.trace is not None:
                self._trace.end(state)
            at = grid.get(period) or grid.setdefault(period, following(state.namespace, period, now))
            if is_dirty:
                at = now
            if next_edge is not None:
                # An edge that passed during the reconciliation has not been decided upon yet.
                at = min(at, max(now, next_edge))
            if state.due.retry_after is not None:
                # Within a long period a scale-up must not wait for the next one.
                at, state.due.retry_after = min(at, now + state.due.retry_after), None
            if state.local.standing is None:  # a decision that stands scales nothing
                at = max(at, _measurable_at(state, now))
            if key in self._inventory.items:
                due[at].append(key)
        for at, keys in due.items():
            self._queue.put_together(keys, at)


def _measurable_at(state: ObjectState, now: Nanoseconds) -> Nanoseconds:
    """From when on the usage of an object is measured that is not under way: if it scaled last, after that step."""
    if state.local.latest is None or not state.local.latest.scales:
        return now
    return now + round(SHARED_SECONDS * SECOND)  # what was measured before the step is shared no longer then
