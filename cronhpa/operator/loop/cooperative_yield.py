"""Bounds the work in one pass of the event loop, so that timers, sockets and other tasks run in between."""

from __future__ import annotations

import asyncio

# A few milliseconds of decisions or writes. A pass may also include steps that waited in the pass before.
_STEPS_PER_PASS = 25


class CooperativeYield:
    """
    Allows a number of steps in one pass of the event loop, counted over all tasks that share this value.

    If each task counted for itself, an edge that objects of 200 namespaces share would allow 200 times the steps.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_STEPS_PER_PASS)

    async def step(self) -> None:
        """Continues in this pass of the event loop if a place is left, else in a later one, first come first served."""
        await self._places.acquire()
        asyncio.get_running_loop().call_soon(self._places.release)
