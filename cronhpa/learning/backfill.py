"""What the store lacks of an object's load, asked of a Prometheus: all of 28 days once, later what came since."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING

from cronhpa.core.instant import DAY, HOUR, Nanoseconds
from cronhpa.learning.history import Imported
from cronhpa.learning.prometheus import PrometheusError, PrometheusUnusableError
from cronhpa.learning.store import STEP, STEPS_KEPT, Fault, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cronhpa.core.spec import TargetRef
    from cronhpa.learning.prometheus import Prometheus
    from cronhpa.learning.store import Series, Store

LOG = logging.getLogger(__name__)

# Samples come late to a Prometheus that others write to; and a recorder that was down missed its last minutes.
_OVERLAP: Nanoseconds = HOUR
# What was not answered is asked again so late.
_AGAIN_SECONDS = 600.0
# A Prometheus of no use is left alone so long, and twice as long each time up to the above.
_REST_SECONDS = 60.0


class Backfills:
    """
    Takes the past of each object from Prometheus once, and again after a restart.

    A Prometheus whose answers are of no use is not asked once for each object: the others wait, and the one that it was
    asked about goes behind them.
    """

    def __init__(self, prometheus: Prometheus, elapsed_seconds: Callable[[], float] = time.monotonic) -> None:
        self._prometheus = prometheus
        self._elapsed_seconds = elapsed_seconds
        self._asked_again_at: dict[Series, float] = {}
        self._rests_until = -math.inf
        self._rest_seconds = _REST_SECONDS

    async def run_round(
        self, store: Store, wanted: Iterable[tuple[Series, TargetRef]], now: Callable[[], Nanoseconds]
    ) -> None:
        """Asks about those of all objects whose turn it is."""
        targets = dict(wanted)
        # Who is gone is forgotten: names are a tenant's, and there is no end of them.
        self._asked_again_at = {each: at for each, at in self._asked_again_at.items() if each in targets}
        for series, target in targets.items():
            begun = self._elapsed_seconds()
            if begun < self._rests_until:
                return
            if begun >= self._asked_again_at.get(series, -math.inf):
                is_done = await self._ask(store, series, target, now())
                self._asked_again_at[series] = math.inf if is_done else self._elapsed_seconds() + _AGAIN_SECONDS

    async def _ask(self, store: Store, series: Series, target: TargetRef, now: Nanoseconds) -> bool:
        """Whether Prometheus answered, and what it said could be kept."""
        try:
            found = await backfill(store, self._prometheus, series, target, now)
        except PrometheusUnusableError as problem:
            LOG.warning("history of %s: %s; others wait %d s", series, problem, self._rest_seconds)
            self._rests_until = self._elapsed_seconds() + self._rest_seconds
            self._rest_seconds = min(2 * self._rest_seconds, _AGAIN_SECONDS)
            return False
        except (PrometheusError, StoreError) as problem:
            LOG.warning("history of %s: %s", series, problem)
            return False
        self._rest_seconds = _REST_SECONDS
        if found is not None:
            LOG.info("history of %s: %d five-minute maxima from Prometheus", series, found.steps)
        return True


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
