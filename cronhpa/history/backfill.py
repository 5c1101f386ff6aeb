"""What the store lacks of an object's load, asked of a Prometheus: all of 28 days once, later what came since."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cronhpa.core.instant import DAY, HOUR, Nanoseconds
from cronhpa.history.database import STEP, STEPS_KEPT, Fault, StoreError
from cronhpa.history.files import Imported

if TYPE_CHECKING:
    from cronhpa.core.spec import TargetRef
    from cronhpa.history.database import Series, Store
    from cronhpa.history.prometheus import Prometheus

# Samples come late to a Prometheus that others write to; and a recorder that was down missed its last minutes.
_OVERLAP: Nanoseconds = HOUR


async def backfill(
    store: Store, prometheus: Prometheus, series: Series, target: TargetRef, now: Nanoseconds
) -> Imported | None:
    """
    Add what is missing; None where Prometheus knows nothing.

    Raises PrometheusError, and StoreError where the store cannot be read or written.
    """
    asked = await asyncio.to_thread(store.backfilled_until, series)
    begin = now - STEPS_KEPT if asked is None else max(asked - _OVERLAP, now - STEPS_KEPT)
    found = await import_range(store, prometheus, series, prometheus.query_for(series, target), (begin, now))
    fault = await asyncio.to_thread(store.note_backfill, series, now)
    if fault is not None:
        raise StoreError(fault.message)
    return found


async def import_range(
    store: Store, prometheus: Prometheus, series: Series, query: str, span: tuple[Nanoseconds, Nanoseconds]
) -> Imported | None:
    """
    Add the answers of a query over [begin, end) to a series; None where there are none.

    The larger value wins where something is known already; what is no load (negative, infinite) counts as a gap.
    Raises PrometheusError, and StoreError where the store cannot be written.
    """
    begin, end = span
    rows = refused = 0
    steps: set[Nanoseconds] = set()
    async for part in prometheus.load(query, begin, end):
        recorded = await asyncio.to_thread(store.backfill, series, part)
        if isinstance(recorded, Fault):
            raise StoreError(recorded.message)
        refused += len(recorded.refused)
        rows += recorded.samples
        no_load = {sample.at for sample in recorded.refused}
        steps.update(at - at % STEP for at, _ in part if at not in no_load)
    if not steps:
        return None
    return Imported(rows=rows, gaps=refused, steps=len(steps), first=min(steps), last=max(steps) + STEP)


def span_of(days: float, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
    """The last days, at most those that the store keeps."""
    return now - min(round(days * DAY), STEPS_KEPT), now
