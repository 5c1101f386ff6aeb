"""
The control loop: which objects are due, in which tasks they are reconciled, when each is due again.

A reconciliation that hangs delays only those that wait for the same answer; one that fails costs only its own object.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.kube.metrics import MetricReader, PodMetricsByName
from cronhpa.operator.clock import Clock
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.delaying_queue import DelayingQueue, Key, following
from cronhpa.operator.held_lists import HeldLists
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.loop_metrics import LoopMetrics, note_lags
from cronhpa.operator.metric_queries import MetricQueries
from cronhpa.operator.namespace_tasks import NamespaceTasks
from cronhpa.operator.needs import Need, need
from cronhpa.operator.object_state import ObjectState
from cronhpa.operator.pending_write import PendingWrite
from cronhpa.operator.pod_metric_lists import PodMetricLists
from cronhpa.operator.reconciler import Cluster, Reconciler
from cronhpa.operator.rest import Rest, Rests
from cronhpa.operator.turn_trace import UNTRACED, TurnTrace
from cronhpa.operator.writer import Writer

LOG = logging.getLogger(__name__)

# A longer reconciliation is given up, and the next one tries again: every request in it has a shorter deadline.
_RECONCILE_SECONDS = 40
_CLOCK_STEP = 5 * SECOND
# So many decisions are made before they are written: scale-ups of all of them come first.
_SLICE = 500
_REPEATED_PER_STEP = 32  # repeated turns that count as one decision in a pass of the event loop


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
        # (monotonic, wall clock) when it was looked at last.
        self._looked: tuple[float, Nanoseconds] | None = None
        # Begin of each reconciliation under way, and those of them that are due again at their end.
        self._under_way: dict[Key, Nanoseconds] = {}
        self._dirty: set[Key] = set()
        self._rests = Rests()
        self._tasks = NamespaceTasks()
        self.lists = PodMetricLists(cluster.client, inventory)
        self._held = HeldLists(self._queue.put, self._has_new.set)

    def enqueue(self, key: Key) -> None:
        """Makes an object due now, or at the end of its reconciliation that is under way."""
        if key in self._under_way:
            self._dirty.add(key)
            return
        self._queue.put(key, self._clock())
        self._has_new.set()

    def forget(self, state: ObjectState) -> None:
        """Removes an object that is gone from the queue."""
        self._queue.drop(state.key)
        self._held.drop(state.key)
        self._wake(state)

    def oldest_reconcile(self) -> Nanoseconds:
        """How long the longest reconciliation under way has taken; 0 without one."""
        return self._clock() - min(self._under_way.values()) if self._under_way else 0

    def note_tick(self) -> None:
        """Notes that the process makes progress, for /healthz."""
        self.metrics.last_tick = self._clock()

    async def run(self, *, goes_on: bool = False) -> None:
        """
        Reconciles until cancelled.

        goes_on: the memories are those of the last run, and a clock that was set since then counts.
        """
        if self._looked is None or not goes_on:
            self._looked = self._monotonic(), self._clock()
        while True:
            elapsed_before, before = self._looked
            self._looked = elapsed, now = self._monotonic(), self._clock()
            step = now - before - round((elapsed - elapsed_before) * SECOND)
            if abs(step) > _CLOCK_STEP:
                self._follow_clock(step, now)
            self.metrics.last_tick = now
            for namespace, due in self._queue.pop(now).items():
                self._begin(namespace, due, now)
            at = self._queue.next_at()
            wait = 1.0 if at is None else min(1.0, max(0.0, (at - self._clock()) / SECOND))
            # A timer of its own rather than a timeout: this is done every second of a quiet life.
            timer = asyncio.get_running_loop().call_later(wait, self._has_new.set)
            try:
                await self._has_new.wait()
            finally:
                timer.cancel()
            self._has_new.clear()

    def _follow_clock(self, step: Nanoseconds, now: Nanoseconds) -> None:
        """The wall clock was set: every object is due, and what its memory holds is as old as before."""
        LOG.warning("the clock stepped by %+d s: every object is due", step // SECOND)
        self._queue.clear()
        self._held.clear()
        for state in self._inventory:
            self._wake(state)
            state.memory = state.memory.shifted(step)
            self._queue.put(state.key, now)

    async def close(self, seconds: float, among: Callable[[str], bool] = lambda _: True) -> None:
        """
        Waits this long for the reconciliations under way: half of one is a scale without its status.

        among: the namespaces in which they are.
        """
        await self._tasks.close(seconds, among)
        # Those that were given up have not ended, and must not look as if they were under way for ever.
        for key in [key for key in self._under_way if among(key[0])]:
            del self._under_way[key]
            self._dirty.discard(key)

    def _begin(self, namespace: str, due: Mapping[Key, Nanoseconds], now: Nanoseconds) -> None:
        if not self._cluster.is_synced(namespace):
            for key in due:
                self._queue.put(key, now + SECOND)
            return
        measured, unmeasured, others = list[ObjectState](), list[ObjectState](), list[ObjectState]()
        rests: list[Rest] = []
        for key, due_at in self._held.with_waiting(namespace, due).items():
            state, rest = self._inventory.items.get(key), self._rests.get(key)
            if key in self._under_way:
                self._dirty.add(key)
            elif self._held.is_held(namespace) and (
                rest is not None or (state is not None and need(state, now, self._cluster.targets) is Need.POD_METRICS)
            ):
                self._held.wait(namespace, key, due_at)
            elif rest is not None:
                self._under_way[key] = now
                rest.due_at = due_at
                rests.append(rest)
            elif state is not None and self._is_begun(state, due_at, now):
                if state.spec is None or not self._reconciler.fast_path.may_take(state):
                    others.append(state)
                else:
                    (measured if state.spec.metrics else unmeasured).append(state)
        reader = MetricReader(self._cluster.client, self._cluster.discovery)
        queries = MetricQueries(self.lists.of(namespace), reader, self._cluster.sources)
        listed = self._begin_unlisted(others, queries)
        if measured or rests or listed:
            self._tasks.spawn(self._reconcile_listed(namespace, measured, rests, listed, queries), namespace)
        if unmeasured:
            self._tasks.spawn(self._repeat_or_reconcile(unmeasured, (), None, queries, Need.NOTHING, now), namespace)

    def _is_begun(self, state: ObjectState, due_at: Nanoseconds, now: Nanoseconds) -> bool:
        """Whether a turn of an object is under way from now on: it is not where another installation serves it."""
        self._wake(state)
        self._held.drop(state.key)
        if not self._reconciler.serves(state):
            self._queue.put(state.key, following(state.namespace, state.period, now))
            return False
        self._under_way[state.key] = now
        state.due_at = due_at
        return True

    def _wake(self, state: ObjectState) -> None:
        """The next turn of an object is its own."""
        rest = state.rest
        if rest is None:
            return
        rest.leave((state,))
        if not rest.members and rest.key not in self._under_way:
            self._rests.forget(rest)
            self._queue.drop(rest.key)
            self._held.drop(rest.key)

    def _begin_unlisted(self, states: Sequence[ObjectState], queries: MetricQueries) -> list[ObjectState]:
        """Begins the turns that do not read the list of the namespace's pod metrics; the objects whose turns do."""
        now = self._clock()
        groups: dict[Need, list[ObjectState]] = defaultdict(list)
        for state in states:
            groups[need(state, now, self._cluster.targets)].append(state)
        for state in groups[Need.OTHERS]:
            self._tasks.spawn(self._reconcile_group([state], queries, now), state.namespace)
        if states and self._cluster.blindness(states[0].namespace) is not None:
            groups[Need.NOTHING] += groups.pop(Need.POD_METRICS, ())  # a list would not be read
        if unlisted := groups[Need.NOTHING]:
            self._tasks.spawn(self._reconcile_group(unlisted, queries, now), unlisted[0].namespace)
        return groups[Need.POD_METRICS]

    async def _reconcile_listed(
        self,
        namespace: str,
        states: list[ObjectState],
        rests: Sequence[Rest],
        others: Sequence[ObjectState],
        queries: MetricQueries,
    ) -> None:
        """Takes turns that read one list of the namespace's pod metrics. others: those that do not repeat the last."""
        asked, listed = self._clock(), None
        async with self._held.holding(namespace):
            try:
                async with asyncio.timeout(_RECONCILE_SECONDS):
                    listed = await queries.list_pod_metrics(None)
            except TimeoutError:
                for rest in rests:
                    states += self._end_together(rest, 0, rest.leave_all())
                for state in (*states, *others):
                    self._give_up(state)
                self._end([*states, *others])
                return
            except Exception:  # each turn says so itself
                LOG.debug("the pod metrics of %s", namespace, exc_info=True)
            for rest in rests:
                await self._yield.step()
                begun = self._clock()
                count, woken = self._reconciler.fast_path.take_together(rest, listed)
                if count:
                    self.metrics.duration.note((self._clock() - begun) // count, count)
                states += self._end_together(rest, count, woken)
            await self._repeat_or_reconcile(states, others, listed, queries, Need.POD_METRICS, asked)

    async def _repeat_or_reconcile(
        self,
        states: Sequence[ObjectState],
        others: Sequence[ObjectState],
        listed: PodMetricsByName | Absent | None,
        queries: MetricQueries,
        of: Need,
        asked: Nanoseconds,
    ) -> None:
        """Takes turns of a namespace that repeat the last one; decides the rest, and others. asked: for their list."""
        left = [*others]
        for first in range(0, len(states), _REPEATED_PER_STEP):
            await self._yield.step()
            begun = self._clock()
            repeated, unlike = self._reconciler.fast_path.take(states[first : first + _REPEATED_PER_STEP], listed)
            left += unlike
            if repeated:
                ended = self._clock()
                self.metrics.duration.note((ended - begun) // len(repeated), len(repeated))
                note_lags(self.metrics.lag, repeated, ended)
                self._end_repeated(repeated, of)
        await self._reconcile_group(self._begin_unlisted(left, queries), queries, asked)

    async def _reconcile_group(self, states: Sequence[ObjectState], queries: MetricQueries, begun: Nanoseconds) -> None:
        """Decides turns. Their writes go on in tasks of their own: this one may hold a list of pod metrics."""
        for first in range(0, len(states), _SLICE):
            batch = await self._decide(states[first : first + _SLICE], queries, None if first else begun)
            # The writes of a slice do not wait for the decisions of the next: a namespace may have 10,000.
            if batch:
                self._tasks.spawn(self._write(batch, begun), batch[0].state.namespace)

    async def _write(self, batch: list[PendingWrite], begun: Nanoseconds) -> None:
        await self._writer.flush(batch, lambda state: self._end((state,)))
        self.metrics.tick_duration = max(self._clock() - begun, 0)

    async def _decide(
        self, states: Sequence[ObjectState], queries: MetricQueries, waited_since: Nanoseconds | None
    ) -> list[PendingWrite]:
        batch = []
        for state in states:
            await self._yield.step()
            begun, waited_since = waited_since or self._clock(), None
            pending = await self._reconcile(state, queries)
            decided = self._clock()
            self.metrics.duration.note(decided - begun)
            self.metrics.lag.note(decided - state.due_at)
            if pending is not None and self._reconciler.fast_path.checks:
                await self._compare(pending, queries)
            if pending is None:
                self._end((state,))
            else:
                batch.append(pending)
        return batch

    async def _compare(self, pending: PendingWrite, queries: MetricQueries) -> None:
        """Compares a decided turn with what the fast path says of it."""
        is_of_pods = need(pending.state, pending.turn.now, self._cluster.targets) is Need.POD_METRICS
        self._reconciler.fast_path.compare(pending, await queries.list_pod_metrics(None) if is_of_pods else None)

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

    def _end(self, states: Sequence[ObjectState]) -> None:
        """Makes reconciled objects of a namespace due again."""
        for at, ended in self._ended(states).items():
            self._queue.put_together([state.key for state in ended], at)
        self._has_new.set()

    def _end_repeated(self, states: Sequence[ObjectState], of: Need) -> None:
        """The same, where turns were repeated: those that need the pod metrics and nothing else come to rest."""
        now = self._clock()
        for at, ended in self._ended(states).items():
            own = []
            for state in ended:
                # Who is due earlier than by its period is so for a reason of its own.
                is_regular = of is Need.POD_METRICS and at == following(state.namespace, state.period, now)
                rest = self._rests.open_to(state.namespace, state.period) if is_regular else None
                if rest is None or rest.key in self._under_way:
                    own.append(state.key)
                    continue
                self._reconciler.fast_path.join(rest, state)
                self._queue.put(rest.key, at)
                if state.next_edge is not None:
                    self._queue.put(state.key, state.next_edge)
            self._queue.put_together(own, at)
        self._has_new.set()

    def _end_together(self, rest: Rest, count: int, woken: Sequence[ObjectState]) -> list[ObjectState]:
        """Makes objects at rest due again, so many of which repeated their turn; those woken whose own turn begins."""
        now = self._clock()
        self.metrics.reconciles += count
        if count:
            self.metrics.lag.note(now - rest.due_at, count)
            self.metrics.write_lag.note(now - rest.due_at, count)
        self._under_way.pop(rest.key, None)
        self._dirty.discard(rest.key)
        if rest.members:
            self._queue.put(rest.key, following(rest.namespace, rest.period, now))
            self._has_new.set()
        else:
            self._rests.forget(rest)
        return [state for state in woken if self._is_begun(state, rest.due_at, now)]

    def _ended(self, states: Sequence[ObjectState]) -> dict[Nanoseconds, list[ObjectState]]:
        """Notes the end of turns; when they are due again: a period later, at the next edge, or at once if dirty."""
        now = self._clock()
        self.metrics.reconciles += len(states)
        note_lags(self.metrics.write_lag, states, now)
        grid: dict[Nanoseconds, Nanoseconds] = {}
        due: dict[Nanoseconds, list[ObjectState]] = defaultdict(list)
        for state in states:
            key, period = state.key, state.period
            self._under_way.pop(key, None)
            state.reconciled_at = now
            if state.context is not None:
                self._trace.end(state)
            at = grid.get(period) or grid.setdefault(period, following(state.namespace, period, now))
            if self._dirty and key in self._dirty:
                self._dirty.discard(key)
                at = now
            if state.next_edge is not None:
                # An edge that passed during the reconciliation has not been decided upon yet.
                at = min(at, max(now, state.next_edge))
            if key in self._inventory.items:
                due[at].append(state)
        return due
