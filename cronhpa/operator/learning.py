"""
The side job beside scaling: writes loads, spend and decisions to the store, imports the past from Prometheus, fits,
forecasts and compacts.

No failure here stops decisions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.forecasts.left_out import around_today, left_out
from cronhpa.core.model.instant import HOUR, Nanoseconds
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.database.address import StoreAddress, file_of
from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.database.series import LoadSample
from cronhpa.history.imports.backfill import Backfills
from cronhpa.history.imports.prometheus import Prometheus
from cronhpa.history.load.spend import SPEND_KEPT
from cronhpa.history.past.event_reports import WaitingReports
from cronhpa.history.store import Store
from cronhpa.kube.clock import Clock
from cronhpa.operator.loop.budget_trackers import BudgetTrackers
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.writes.decision_recorder import DecisionRecorder

LOG = logging.getLogger(__name__)

# Between two passes of the event loop: a millisecond or so.
_OBJECTS_PER_PASS = 500
# In one transaction of the store: two minutes of 10,000 objects; and of what is encoded and packed, which takes longer.
_LOADS_AT_ONCE = 20_000
_DECISIONS_AT_ONCE = 500
_POINTS_AT_ONCE = 5000
# Each takes a look at the 192 hours for which spend is kept.
_SPEND_READ_AT_ONCE = 100


class LearningPauses(Struct, frozen=True):
    """Seconds between two rounds of each part; restart: before a part that failed is started again."""

    forecast: float = 60.0
    fit: float = 5.0
    flush: float = 5.0
    compact: float = 3600.0
    backfill: float = 10.0
    restart: float = 60.0
    # While no object asks for a forecast, and between two checks whether this replica leads.
    idle: float = 2.0
    # The longest wait of a new process for the forecasts of other replicas.
    first_look: float = 2.0


class Learning:
    """
    store: the address of the history; replicas share a database server. objects: returns the objects that ask for a
    forecast, or more. loads, budgets: the loads and the spend of the reconciler since the last flush. decisions,
    reports: wait for the store; None: none are kept.
    is_leading: whether this replica decides; otherwise it learns nothing.
    open_prometheus: opens the Prometheus from which the past is imported; None without one. open_store: opens the
    history.
    """

    def __init__(  # noqa: PLR0913 - its parts by their names, three of them with a default
        self,
        store: StoreAddress,
        clock: Clock,
        service: ForecastService,
        *,
        objects: Iterable[ObjectState],
        loads: deque[LoadSample],
        budgets: BudgetTrackers,
        decisions: DecisionRecorder | None = None,
        reports: WaitingReports | None = None,
        open_prometheus: Callable[[], Prometheus] | None = None,
        open_store: Callable[[StoreAddress], Store] = Store,
        is_leading: Callable[[], bool] = lambda: True,
        pauses: LearningPauses | None = None,
    ) -> None:
        self._path = store
        self._clock = clock
        self._service = service
        self._objects = objects
        self._loads = loads
        self._budgets = budgets
        self._decisions = decisions
        self._reports = WaitingReports() if reports is None else reports
        self._open_prometheus = open_prometheus
        self._open_store = open_store
        self._is_leading = is_leading
        self._pauses = pauses or LearningPauses()
        self._store: Store | None = None
        self._is_shared = file_of(store) is None
        self._looked = asyncio.Event()
        self._spend_known_until: Nanoseconds = 0
        self._is_outdated = False
        # The last fault that was logged, "" after a flush that succeeded.
        self._history_problem = ""

    @property
    def store(self) -> Store | None:
        """The history while this replica writes it; None while it is not open."""
        return self._store

    @property
    def is_open(self) -> bool:
        """Whether the history has been opened."""
        return self._store is not None

    def read_again(self) -> None:
        """Makes a shared history be read again, because this replica took over objects of another one."""
        self._spend_known_until, self._is_outdated = 0, self._is_shared

    def working(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """The parts to run, by name. Each is restarted after a failure, and runs until cancelled."""
        parts = [("history", self.keep_history), ("fits", self.keep_fits), ("forecasts", self.keep_forecasts)]
        if self._open_prometheus is not None:
            parts.append(("backfill", self.keep_backfilled))
        return [(name, self._supervised(part)) for name, part in parts]

    async def _supervised(self, part: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await part()
            except (OSError, StoreError) as error:
                LOG.warning("history in %s: %s", self._path, error)
            except Exception:
                LOG.exception("learning failed; it is started again")
            await asyncio.sleep(self._pauses.restart)

    async def first_look(self) -> None:
        """
        Waits, at most two seconds, until a store that replicas share was read: then the first decisions of a new
        process have the forecasts of other replicas.
        """
        if self._is_shared:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pauses.first_look):
                    await self._looked.wait()

    async def keep_history(self) -> None:
        """
        Opens the history, flushes new data to it, and compacts it, until cancelled.

        If replicas share the history, a replica that does not lead only reads the leader's forecasts and fits. It does
        not migrate the schema: the leader may be of an earlier release. Raises StoreError if the history cannot be
        opened, or if its file is removed or replaced.
        """
        while True:
            if self._is_shared and not self._is_leading():
                await self._follow()
            await self._lead()

    async def _follow(self) -> None:
        """Reads the leader's forecasts and fits, for the first decisions after a handover; until this replica leads."""
        logged = ""
        while not self._is_leading():
            try:
                store = await asyncio.to_thread(Store.open_to_read, self._path)
                try:
                    await self._take_over(store)
                finally:
                    await asyncio.to_thread(store.close)
                logged = ""
            except StoreError as problem:
                if str(problem) != logged:
                    logged = str(problem)
                    LOG.warning("history in %s: %s", self._path, problem)
            self._looked.set()
            again = self._clock.monotonic() + self._pauses.forecast
            while not self._is_leading() and self._clock.monotonic() < again:  # noqa: ASYNC110 - a thread may elect
                await asyncio.sleep(min(self._pauses.idle, self._pauses.forecast))

    async def _lead(self) -> None:
        """Opens the history, writes it, and closes it after a failure or the end of a term."""
        try:
            store = await asyncio.to_thread(self._open_store, self._path)
            try:
                await self._take_over(store)
                self._looked.set()
                await self._write(store)
            except Exception:  # one that is cancelled stays open for the last flush
                await self._close(store)
                raise
            await self._close(store)
        finally:
            self._looked.set()

    async def _close(self, store: Store) -> None:
        self._store = None
        await asyncio.to_thread(store.close)

    async def _write(self, store: Store) -> None:
        """Flushes new data and compacts; if the history is shared, until another replica leads."""
        self._store = store
        file = _identity(self._path)
        compacted = self._clock.monotonic()
        while self._is_leading() or not self._is_shared:
            await asyncio.sleep(self._pauses.flush)
            if _identity(self._path) != file:
                # The open connection would write to a deleted file, and the workers would read another one.
                raise StoreError("the file was removed or replaced while it was open; it is opened anew in a minute")
            await self.flush()
            await self._read_spend(store)
            if self._is_outdated:
                self._is_outdated = False
                await self._take_over(store)
            if self._clock.monotonic() - compacted > self._pauses.compact:
                compacted = self._clock.monotonic()
                await asyncio.to_thread(store.compact, self._clock.now())
        # The last reconciliations of a term end a moment after it, and then report the loads of the current minute.
        await asyncio.sleep(self._pauses.flush)
        await self.flush()

    async def _take_over(self, store: Store) -> None:
        """Reads the spend since the last time, and from a shared store also the forecasts."""
        now = self._clock.now()
        since = max(now - SPEND_KEPT, self._spend_known_until - HOUR)
        self._budgets.load(await asyncio.to_thread(store.spend.since, since - since % HOUR))
        self._spend_known_until = now
        if self._is_shared:
            await self._service.load(store)

    async def _read_spend(self, store: Store) -> None:
        """Reads what objects that have come spent before."""
        series, now = self._budgets.unread(_SPEND_READ_AT_ONCE), self._clock.now()
        if not series:
            return
        with suppress(StoreError):  # a flush tells of a store that is away; they are read after a later one
            spend = await asyncio.to_thread(store.spend.of, series, now - SPEND_KEPT, now)
            self._budgets.load(spend, read=series)

    async def flush(self) -> None:
        """
        Writes loads, spend and decisions to the store.

        If it cannot be written, all of them wait, within bounds.
        """
        store = self._store
        if store is None:
            return
        spend = self._budgets.drain()
        problem = await self._flush_loads(store)
        # After one failure nothing else is written in this flush: wait for a slow store only once.
        if problem is None and spend:
            problem = await asyncio.to_thread(store.spend.add, spend)
        if problem is not None:
            self._budgets.restore(spend)
        if problem is None and self._decisions is not None:
            problem = await self._flush_decisions(store, self._decisions)
        if problem is None and (reports := list(self._reports)):
            problem = await asyncio.to_thread(store.reports.record, reports)
            if problem is None:
                self._reports.are_stored(reports)
        self._log_problem(problem)

    async def _flush_loads(self, store: Store) -> Fault | None:
        """Writes all waiting loads. Returns the fault that stopped it; None if all were written."""
        loads = self._loads
        while batch := [loads.popleft() for _ in range(min(_LOADS_AT_ONCE, len(loads)))]:
            recorded = await asyncio.to_thread(store.loads.record, batch)
            if isinstance(recorded, Fault):
                # Beyond the bound the oldest give way.
                room = len(batch) if loads.maxlen is None else loads.maxlen - len(loads)
                loads.extendleft(reversed(batch[max(len(batch) - room, 0) :]))
                return recorded
        return None

    async def _flush_decisions(self, store: Store, decisions: DecisionRecorder) -> Fault | None:
        """Writes all waiting decisions and points. Returns the fault that stopped it; None if all were written."""
        while batch := decisions.take(_DECISIONS_AT_ONCE):
            fault = await asyncio.to_thread(store.decisions.record, batch)
            if fault is not None:
                decisions.put_back(batch)
                return fault
            decisions.kept += len(batch)
        while points := decisions.take_points(_POINTS_AT_ONCE):
            fault = await asyncio.to_thread(store.decisions.record_points, points)
            if fault is not None:
                decisions.put_back_points(points)
                return fault
        return await asyncio.to_thread(store.decisions.tidy, self._clock.now())

    def _log_problem(self, problem: Fault | None) -> None:
        """Logs a problem once, not at every flush while a disk is full."""
        logged, self._history_problem = self._history_problem, "" if problem is None else problem.message
        if problem is not None and problem.message != logged:
            LOG.warning("history in %s: %s", self._path, problem.message)

    async def keep_backfilled(self) -> None:
        """Imports the past of each object from Prometheus, once in each process, until cancelled."""
        assert self._open_prometheus is not None
        backfills = Backfills(self._clock.monotonic)
        while True:
            await asyncio.sleep(self._pauses.backfill)
            wanted = [target for state in self._objects if (target := target_of(state)) is not None]
            if self._store is not None and self._is_leading():
                targets = ((one.series, one.spec.target, one.spec.container_of(one.series.metric)) for one in wanted)
                await backfills.run_round(self._open_prometheus, self._store.loads, targets, self._clock.now)

    async def keep_fits(self) -> None:
        """Fits the objects whose fit is due, until cancelled."""
        await self._keep(self._fit, self._pauses.fit)

    async def _fit(self, targets: Iterable[ForecastTarget], now: Nanoseconds) -> None:
        # In a thread: once a day the days of one object may take a third of a second, those of 500 several.
        await self._service.fit(await asyncio.to_thread(_with_left_out, targets, now), now)

    async def keep_forecasts(self) -> None:
        """Forecasts all fitted objects again and again, until cancelled."""
        await self._keep(self._service.refresh, self._pauses.forecast)

    async def _keep(
        self, work: Callable[[Iterable[ForecastTarget], Nanoseconds], Awaitable[None]], pause: float
    ) -> None:
        logged: tuple[str, ...] = ()
        while True:
            targets: list[ForecastTarget] = []
            for count, state in enumerate(tuple(self._objects) if self._is_leading() else ()):
                target = target_of(state)
                if target is not None:
                    targets.append(target)
                if count % _OBJECTS_PER_PASS == 0:
                    await asyncio.sleep(0)
            if targets:
                await work(targets, self._clock.now())
            for problem in self._service.problems:
                if problem not in logged:
                    LOG.warning("forecasts: %s", problem)
            logged = self._service.problems
            await asyncio.sleep(pause if targets else min(pause, self._pauses.idle))


def target_of(state: ObjectState) -> ForecastTarget | None:
    """The inputs of an object's forecast; None if the object asks for no forecast."""
    spec, series = state.served.spec, state.load_series
    if spec is None or spec.forecast is None or series is None:
        return None
    memory = state.local.memory
    return ForecastTarget(series, spec, memory.lead_start_up(spec), memory.request_per_pod.get(series.metric))


def _with_left_out(targets: Iterable[ForecastTarget], now: Nanoseconds) -> list[ForecastTarget]:
    around = around_today(now)
    return [replace(target, left_out=left_out(target.spec, around)) for target in targets]


def _identity(store: StoreAddress) -> tuple[int, int] | None:
    """Device and inode of a store's file; None if there is no file, or if the store is a database server."""
    file = file_of(store)
    if file is None:
        return None
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
