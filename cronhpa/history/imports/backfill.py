"""Fills gaps of the load history from a Prometheus: the first time all 28 days, later the time since the last query."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, Nanoseconds
from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.database.series import STEP, STEPS_KEPT
from cronhpa.history.imports.files import Imported
from cronhpa.history.imports.prometheus import PrometheusError, PrometheusUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cronhpa.core.model.spec import TargetRef
    from cronhpa.history.database.series import Series
    from cronhpa.history.imports.files import Backfill
    from cronhpa.history.imports.prometheus import Prometheus
    from cronhpa.history.load.load_history import LoadHistory

LOG = logging.getLogger(__name__)

# A Prometheus may receive samples late, and an operator that was killed lost its last minutes: ask for them again.
_OVERLAP: Nanoseconds = HOUR


# A query without an answer is sent again after so long.
_AGAIN_SECONDS = 600.0
# The pause after an unusable answer. It doubles each time, up to the time above.
_REST_SECONDS = 60.0


class Backfills:
    """
    Imports the past of each object from Prometheus once, and again after a restart.

    After an unusable answer all objects wait, so that a broken Prometheus is not asked once for each of them. The
    object of that answer goes to the end of the line.
    """

    def __init__(self, elapsed_seconds: Callable[[], float]) -> None:
        self._elapsed_seconds = elapsed_seconds
        self._asked_again_at: dict[Series, float] = {}
        self._rests_until = -math.inf
        self._rest_seconds = _REST_SECONDS

    async def run_round(
        self,
        open_prometheus: Callable[[], Prometheus],
        loads: LoadHistory,
        wanted: Iterable[tuple[Series, TargetRef, str | None]],
        now: Callable[[], Nanoseconds],
    ) -> None:
        """
        Queries the past of each wanted series that is due, until Prometheus needs a pause.

        wanted: each with its target, and the container whose usage it is; None for that of whole pods.
        open_prometheus: called only if a series is due, as its queries may change meanwhile.
        """
        measured = {series: (target, container) for series, target, container in wanted}
        # Deleted objects are forgotten: tenants choose the names, and there is no end of them.
        self._asked_again_at = {series: at for series, at in self._asked_again_at.items() if series in measured}
        begun = self._elapsed_seconds()
        due = [series for series in measured if begun >= self._asked_again_at.get(series, -math.inf)]
        if not due or begun < self._rests_until:
            return
        async with open_prometheus() as prometheus:
            for series in due:
                is_done = await self._ask(prometheus, loads, series, *measured[series], now())
                self._asked_again_at[series] = math.inf if is_done else self._elapsed_seconds() + _AGAIN_SECONDS
                if self._elapsed_seconds() < self._rests_until:
                    return

    async def _ask(
        self,
        prometheus: Prometheus,
        loads: LoadHistory,
        series: Series,
        target: TargetRef,
        container: str | None,
        now: Nanoseconds,
    ) -> bool:
        """Whether Prometheus answered, and the store kept the answer."""
        try:
            imported = await backfill(loads, prometheus, series, target, now, container=container)
        except PrometheusUnusableError as problem:
            LOG.warning("history of %s: %s; others wait %d s", series, problem, self._rest_seconds)
            self._rests_until = self._elapsed_seconds() + self._rest_seconds
            self._rest_seconds = min(2 * self._rest_seconds, _AGAIN_SECONDS)
            return False
        except StoreError as problem:
            # The store failed, whatever the series: it would lose the answers about the others, too.
            LOG.warning("history of %s: %s; others wait %d s", series, problem, _REST_SECONDS)
            self._rests_until = self._elapsed_seconds() + _REST_SECONDS
            return False
        except PrometheusError as problem:
            LOG.warning("history of %s: %s", series, problem)
            return False
        self._rest_seconds = _REST_SECONDS
        if imported is not None:
            LOG.info("history of %s: %d five-minute maxima from Prometheus", series, imported.steps)
        return True


async def backfill(
    loads: LoadHistory,
    prometheus: Prometheus,
    series: Series,
    target: TargetRef,
    now: Nanoseconds,
    *,
    container: str | None = None,
) -> Imported | None:
    """
    Add the load that Prometheus has of a series; None where Prometheus has none.

    container: whose usage it is; None: that of whole pods.
    Raises PrometheusError, and StoreError where the store cannot be read or written.
    """
    asked_until = await asyncio.to_thread(loads.backfilled_until, series)
    begin = now - STEPS_KEPT if asked_until is None else max(asked_until - _OVERLAP, now - STEPS_KEPT)
    query = prometheus.query_for(series, target, container)
    imported = await import_range(loads.backfill, prometheus, series, query, (begin, now))
    fault = await asyncio.to_thread(loads.note_backfill, series, now)
    if fault is not None:
        raise StoreError(fault.message)
    return imported


async def import_range(
    record: Backfill, prometheus: Prometheus, series: Series, query: str, span: tuple[Nanoseconds, Nanoseconds]
) -> Imported | None:
    """
    Add the answers of a query over (begin, end] to a series; None where the answers have no load.

    record: called for each answer that has values.

    A value describes the time up to its instant, so it belongs to the minute that ends there: the value at noon belongs
    to the minute before noon.
    Where the store has a value already, the larger value wins. A value that is no load (negative, infinite) counts as a
    gap. Raises PrometheusError, and StoreError where the store cannot be written.
    """
    begin, end = span
    rows = refused = 0
    steps: set[Nanoseconds] = set()
    async for answers in prometheus.load(query, begin + 1, end + 1):
        points = [(at - 1, value) for at, value in answers]
        if not points:
            continue
        recorded = await asyncio.to_thread(record, series, points, width=MINUTE)
        if isinstance(recorded, Fault):
            raise StoreError(recorded.message)
        refused += len(recorded.refused)
        rows += recorded.samples
        refused_at = {sample.at for sample in recorded.refused}
        steps.update(at - at % STEP for at, _ in points if at not in refused_at)
    if not steps:
        return None
    return Imported(rows=rows, gaps=refused, steps=len(steps), first=min(steps), last=max(steps) + STEP)


def span_of(days: float, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
    """The last `days` before now, at most as many as the store keeps."""
    return now - min(round(days * DAY), STEPS_KEPT), now
