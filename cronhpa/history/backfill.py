"""Fills gaps of the load history from a Prometheus: the first time all 28 days, later the time since the last query."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cronhpa.core.instant import DAY, HOUR, Nanoseconds
from cronhpa.history.database import Fault, StoreError
from cronhpa.history.files import Imported
from cronhpa.history.series import STEP, STEPS_KEPT

if TYPE_CHECKING:
    from cronhpa.core.spec import TargetRef
    from cronhpa.history.load_history import LoadHistory
    from cronhpa.history.prometheus import Prometheus
    from cronhpa.history.series import Series

# A Prometheus may receive samples late, and an operator that was killed lost its last minutes: ask for them again.
_OVERLAP: Nanoseconds = HOUR


async def backfill(
    loads: LoadHistory, prometheus: Prometheus, series: Series, target: TargetRef, now: Nanoseconds
) -> Imported | None:
    """
    Add the load that Prometheus has of a series; None where Prometheus has none.

    Raises PrometheusError, and StoreError where the store cannot be read or written.
    """
    asked_until = await asyncio.to_thread(loads.backfilled_until, series)
    begin = now - STEPS_KEPT if asked_until is None else max(asked_until - _OVERLAP, now - STEPS_KEPT)
    query = prometheus.query_for(series, target)
    imported = await import_range(loads, prometheus, series, query, (begin, now))
    fault = await asyncio.to_thread(loads.note_backfill, series, now)
    if fault is not None:
        raise StoreError(fault.message)
    return imported


async def import_range(
    loads: LoadHistory, prometheus: Prometheus, series: Series, query: str, span: tuple[Nanoseconds, Nanoseconds]
) -> Imported | None:
    """
    Add the answers of a query over [begin, end) to a series; None where the answers have no load.

    Where the store has a value already, the larger value wins. A value that is no load (negative, infinite) counts as a
    gap. Raises PrometheusError, and StoreError where the store cannot be written.
    """
    begin, end = span
    rows = refused = 0
    steps: set[Nanoseconds] = set()
    async for points in prometheus.load(query, begin, end):
        recorded = await asyncio.to_thread(loads.backfill, series, points)
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
