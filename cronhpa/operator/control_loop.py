"""
The control loop: which objects are due, in which tasks they are reconciled, when each is due again.

A reconciliation that hangs delays only those that wait for the same answer; one that fails costs only its own object.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.kube.metrics import MetricReader, PodMetricsByName, list_pod_metrics
from cronhpa.operator.clock import Clock
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.delaying_queue import DelayingQueue, Key, following
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.lag import LagHistogram
from cronhpa.operator.metric_queries import MetricQueries
from cronhpa.operator.needs import Need, need
from cronhpa.operator.object_state import ObjectState
from cronhpa.operator.pending_write import PendingWrite
from cronhpa.operator.reconciler import Cluster, Reconciler
from cronhpa.operator.turn_trace import UNTRACED, TurnTrace
from cronhpa.operator.writer import Writer

LOG = logging.getLogger(__name__)

# A longer reconciliation is given up, and the next one tries again: every request in it has a shorter deadline.
_RECONCILE_SECONDS = 40
# An unreadable spec waits for its edit; meanwhile its condition is checked this often.
_UNREADABLE_PERIOD = 60 * SECOND
_CLOCK_STEP = 5 * SECOND
# So many decisions are made before they are written: scale-ups of all of them come first.
_SLICE = 500
# So many repeated turns count as one decision in a pass of the event loop.
_REPEATED_PER_STEP = 8
# Half of the shortest period: every tick has a list of its own.
_LIST_SHARED_SECONDS = 0.5


class LoopMetrics(Struct):
    """
    reconciles, errors, lists: counters for /metrics. last_tick: when the loop ran last, for /healthz.
    tick_duration: of the last group of reconciliations. lag, write_lag: from the instant at which an object was due to
    its decision, and to the end of its writes. duration: of a decision, with the answers that it waits for.
    """

    reconciles: int = 0
    errors: int = 0
    lists: int = 0
    last_tick: Nanoseconds = 0
    tick_duration: Nanoseconds = 0
    lag: LagHistogram = field(default_factory=LagHistogram)
    write_lag: LagHistogram = field(default_factory=LagHistogram)
    duration: LagHistogram = field(default_factory=LagHistogram)


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
        clock: Clock,
        trace: TurnTrace = UNTRACED,
    ) -> None:
        self.metrics = LoopMetrics()
        self._cluster = cluster
        self._inventory = inventory
        self._reconciler = reconciler
        self._writer = writer
        self._trace = trace
        self._clock = clock.now
        self._monotonic = clock.monotonic
        self._queue = DelayingQueue()
        self._yield = CooperativeYield()
        self._has_new = asyncio.Event()
        # Begin of each reconciliation under way, and those of them that are due again at their end.
        self._under_way: dict[Key, Nanoseconds] = {}
        self._dirty: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # The newest LIST of each namespace, empty before it is sent; for a moment.
        self._lists: dict[str, list[asyncio.Task[PodMetricsByName | Absent]]] = {}

    def enqueue(self, key: Key) -> None:
        """Makes an object due now, or at the end of its reconciliation that is under way."""
        if key in self._under_way:
            self._dirty.add(key)
            return
        self._queue.put(key, self._clock())
        self._has_new.set()

    def forget(self, key: Key) -> None:
        """Removes an object that is gone from the queue."""
        self._queue.drop(key)

    def oldest_reconcile(self) -> Nanoseconds:
        """How long the longest reconciliation under way has taken; 0 without one."""
        return self._clock() - min(self._under_way.values()) if self._under_way else 0

    def note_tick(self) -> None:
        """Notes that the process makes progress, for /healthz."""
        self.metrics.last_tick = self._clock()

    async def run(self) -> None:
        """Reconciles until cancelled."""
        elapsed, now = self._monotonic(), self._clock()
        while True:
            elapsed_before, before = elapsed, now
            elapsed, now = self._monotonic(), self._clock()
            step = now - before - round((elapsed - elapsed_before) * SECOND)
            if abs(step) > _CLOCK_STEP:
                self._follow_clock(step, now)
            self.metrics.last_tick = now
            for namespace, due in self._queue.pop(now).items():
                self._begin(namespace, due, now)
            at = self._queue.next_at()
            wait = 1.0 if at is None else min(1.0, max(0.0, (at - self._clock()) / SECOND))
            # Not wait_for: Python 3.11's forgets a cancellation that comes at the moment at which the event is set.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._has_new.wait()
            self._has_new.clear()

    def _follow_clock(self, step: Nanoseconds, now: Nanoseconds) -> None:
        """The wall clock was set: every object is due, and what its memory holds is as old as before."""
        way = "forward" if step > 0 else "back"
        LOG.warning("the clock stepped %s by %d s: every object is due", way, abs(step) // SECOND)
        self._queue.clear()
        for state in self._inventory:
            state.memory = state.memory.shifted(step)
            self._queue.put(state.key, now)

    async def close(self, seconds: float) -> None:
        """Waits this long for the reconciliations under way: half of one is a scale without its status."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        # Those that were given up have not ended, and must not look as if they were under way for ever.
        self._under_way.clear()
        self._dirty.clear()

    def _begin(self, namespace: str, due: Mapping[Key, Nanoseconds], now: Nanoseconds) -> None:
        if not self._cluster.is_synced(namespace):
            for key in due:
                self._queue.put(key, now + SECOND)
            return
        states = []
        for key, due_at in due.items():
            state = self._inventory.items.get(key)
            if key in self._under_way:
                self._dirty.add(key)
            elif state is not None and not self._reconciler.serves(state):
                self._queue.put(key, following(namespace, _period(state), now))
            elif state is not None:
                self._under_way[key] = now
                state.due_at = due_at
                states.append(state)
        reader = MetricReader(self._cluster.client, self._cluster.discovery)
        queries = MetricQueries(self._listing(namespace), reader, self._cluster.sources)
        groups: dict[Need, list[ObjectState]] = defaultdict(list)
        for state in states:
            groups[need(state, now)].append(state)
        for state in groups.pop(Need.OTHERS, ()):
            self._spawn(self._reconcile_group([state], queries), namespace)
        for of, group in groups.items():
            if any(map(self._reconciler.fast_path.may_take, group)):
                self._spawn(self._repeat_or_reconcile(group, queries, of), namespace)
            else:
                self._spawn(self._reconcile_group(group, queries), namespace)

    def _spawn(self, work: Coroutine[Any, Any, None], namespace: str) -> None:
        task = asyncio.create_task(work, name=f"reconcile {namespace}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _listing(self, namespace: str) -> Callable[[], Awaitable[PodMetricsByName | Absent]]:
        """
        The LIST of a namespace's pod metrics: sent at the first call, shared by all calls and by the ticks of a moment.

        At a shared edge objects are due one by one, as their writes end.
        """
        request = self._lists.get(namespace)
        if request is None:
            request = self._lists[namespace] = []
            asyncio.get_running_loop().call_later(_LIST_SHARED_SECONDS, self._lists.pop, namespace)

        async def listed() -> PodMetricsByName | Absent:
            if not request:
                self.metrics.lists += 1
                request.append(asyncio.create_task(list_pod_metrics(self._cluster.client, namespace)))
            return await asyncio.shield(request[0])

        return listed

    async def _repeat_or_reconcile(self, states: Sequence[ObjectState], queries: MetricQueries, of: Need) -> None:
        """Takes the turns that repeat the last one first: they are most, and cost a third of the others."""
        listed = None
        if of is Need.POD_METRICS:
            try:
                async with asyncio.timeout(_RECONCILE_SECONDS):
                    listed = await queries.list_pod_metrics()
            except TimeoutError:
                for state in states:
                    self._give_up(state)
                    self._end(state)
                return
            except Exception:  # each turn says so itself
                LOG.debug("the pod metrics of %s", states[0].namespace, exc_info=True)
        left = []
        for count, state in enumerate(states):
            if count % _REPEATED_PER_STEP == 0:
                await self._yield.step()
            begun = self._clock()
            if self._repeats(state, listed):
                repeated = self._clock()
                self.metrics.duration.note(repeated - begun)
                self.metrics.lag.note(repeated - state.due_at)
                self._end(state)
            else:
                left.append(state)
        if left:
            # In a task of its own: this one would hold the metrics of the namespace's pods until the last write.
            self._spawn(self._reconcile_group(left, queries), states[0].namespace)

    def _repeats(self, state: ObjectState, listed: PodMetricsByName | Absent | None) -> bool:
        try:
            return self._reconciler.fast_path.take(state, listed)
        except Exception:
            LOG.exception("the turn of %s/%s could not be repeated, and is decided", *state.key)
            return False

    async def _reconcile_group(self, states: Sequence[ObjectState], queries: MetricQueries) -> None:
        begun = self._clock()
        async with asyncio.TaskGroup() as writes:
            for first in range(0, len(states), _SLICE):
                batch = await self._decide(states[first : first + _SLICE], queries)
                # The writes of a slice do not wait for the decisions of the next: a namespace may have 10,000 objects.
                writes.create_task(self._writer.flush(batch, self._end))
            del queries  # writes may wait for long, and the metrics of a namespace's pods are a megabyte
        self.metrics.tick_duration = max(self._clock() - begun, 0)

    async def _decide(self, states: Sequence[ObjectState], queries: MetricQueries) -> list[PendingWrite]:
        batch = []
        for state in states:
            await self._yield.step()
            begun = self._clock()
            pending = await self._reconcile(state, queries)
            decided = self._clock()
            self.metrics.duration.note(decided - begun)
            self.metrics.lag.note(decided - state.due_at)
            if pending is not None and self._reconciler.fast_path.checks:
                await self._compare(pending, queries)
            if pending is None:
                self._end(state)
            else:
                batch.append(pending)
        return batch

    async def _compare(self, pending: PendingWrite, queries: MetricQueries) -> None:
        """Compares a decided turn with what the fast path says of it."""
        is_of_pods = need(pending.state, pending.turn.now) is Need.POD_METRICS
        listed = await queries.list_pod_metrics() if is_of_pods else None
        try:
            self._reconciler.fast_path.compare(pending, listed)
        except Exception:
            LOG.exception("the turn of %s/%s could not be compared", *pending.state.key)
            self._reconciler.fast_path.unequal += 1

    async def _reconcile(self, state: ObjectState, queries: MetricQueries) -> PendingWrite | None:
        """The decision to write, if any. A reconciliation that fails or takes too long ends here."""
        try:
            with self._trace.turn(state):
                async with asyncio.timeout(_RECONCILE_SECONDS):
                    return await self._reconciler.reconcile(state, queries)
        except TimeoutError:
            self._give_up(state)
        except Exception:
            LOG.exception("the turn of %s/%s failed", *state.key)
            self._note_failed(state)
        return None

    def _give_up(self, state: ObjectState) -> None:
        LOG.warning("the turn of %s/%s took longer than %d s and is given up", *state.key, _RECONCILE_SECONDS)
        self._note_failed(state)

    def _note_failed(self, state: ObjectState) -> None:
        self.metrics.errors += 1
        if state.next_edge is not None and state.next_edge <= self._clock():
            state.next_edge = None  # this edge caused the failed reconciliation; the next period tries again

    def _end(self, state: ObjectState) -> None:
        """Makes a reconciled object due again: a period later, at its next edge, or at once if it is dirty."""
        self.metrics.reconciles += 1
        self._under_way.pop(state.key, None)
        is_dirty = state.key in self._dirty
        self._dirty.discard(state.key)
        state.reconciled_at = now = self._clock()
        self.metrics.write_lag.note(now - state.due_at)
        self._trace.end(state)
        if self._inventory.items.get(state.key) is None:
            return
        at = now if is_dirty else following(state.namespace, _period(state), now)
        if state.next_edge is not None:
            # An edge that passed during the reconciliation has not been decided upon yet.
            at = min(at, max(now, state.next_edge))
        self._queue.put(state.key, at)
        self._has_new.set()


def _period(state: ObjectState) -> Nanoseconds:
    return state.spec.options.sync_period if state.spec is not None else _UNREADABLE_PERIOD
