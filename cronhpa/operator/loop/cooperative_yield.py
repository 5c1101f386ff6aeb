"""Bounds the work in one pass of the event loop, so that timers, sockets and other tasks run in between."""

from __future__ import annotations

import asyncio
import time

# A few milliseconds of decisions or writes. A pass may also include steps that waited in the pass before.
_STEPS_PER_PASS = 25
# Of CPU: one tenant's objects may be made so that each takes as long as hundreds of others.
_SECONDS_PER_PASS = 0.05


class CooperativeYield:
    """
    Allows a number of steps, and a time, in one pass of the event loop, over all tasks that share this value.

    If each task counted for itself, an edge that objects of 200 namespaces share would allow 200 times the steps.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_STEPS_PER_PASS)
        # The CPU time at the first step of this pass.
        self._begun: float | None = None

    async def step(self) -> None:
        """Continues in this pass of the event loop if a place is left, else in a later one, first come first served."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        loop.call_soon(self._places.release)
        while self._begun is not None and time.thread_time() - self._begun > _SECONDS_PER_PASS:  # noqa: ASYNC110 - a pass
            await asyncio.sleep(0)
        if self._begun is None:
            self._begun = time.thread_time()
            loop.call_soon(self._end_pass)

    def _end_pass(self) -> None:
        self._begun = None
