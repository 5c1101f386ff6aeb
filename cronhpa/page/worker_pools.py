"""
The page's two worker processes, started at their first task and ended when they are idle.

One computes the views that people wait for, the other the runs that take a minute: a long run delays no view, and
neither delays a decision or a forecast.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from cronhpa.forecasting.pool import ProcessPool, WorkerError, WorkerPool
from cronhpa.page.questions import ENCODER
from cronhpa.page.rights import BusyError, UnavailableError
from cronhpa.ports.fair_places import FairPlaces
from cronhpa.ports.loop_share import LoopShare

_IDLE_SECONDS = 300.0


class PageWorker:
    """
    One process, whose time namespaces share: the tasks of several take turns.

    waiting_max: tasks of one namespace that may wait for it. seconds: the deadline of a task. share: of the event loop.
    """

    def __init__(self, waiting_max: int, seconds: float, share: LoopShare, pool: WorkerPool | None = None) -> None:
        self._pool = pool or ProcessPool(1)
        self._waiting_max, self._seconds, self._share = waiting_max, seconds, share
        # The tasks that wait or run, by namespace.
        self._tasks: Counter[str] = Counter()
        self._places = FairPlaces(1)
        self._end: asyncio.TimerHandle | None = None

    async def run(self, task: Callable[[bytes], bytes], question: Struct, namespace: str = "") -> bytes:
        """
        The result of the task. namespace: of its object; empty for a task of the whole fleet.

        A question may hold ten megabytes of calendars: it is encoded when it has its place.

        Raises BusyError, and UnavailableError for a task without a result.
        """
        if self._tasks[namespace] >= self._waiting_max:
            raise BusyError
        self._tasks[namespace] += 1
        if self._end is not None:
            self._end.cancel()
        try:
            async with self._places.place(namespace):
                await self._share.available()
                payload = self._share.called(partial(ENCODER.encode, question))
                return await self._pool.run(task, payload, self._seconds)
        except WorkerError as problem:
            raise UnavailableError(f"this could not be computed: {problem}") from problem
        finally:
            self._tasks[namespace] -= 1
            if not self._tasks[namespace]:
                del self._tasks[namespace]
            if not self._tasks:
                self._end = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._rest)

    def _rest(self) -> None:
        # A pool starts its process again at the next task.
        self._ending = asyncio.ensure_future(self._pool.close())

    async def close(self) -> None:
        if self._end is not None:
            self._end.cancel()
        await self._pool.close()
