"""Bounds the work in one pass of the event loop, so that timers, sockets and other tasks are served in between."""

from __future__ import annotations

import asyncio

# A few milliseconds of decisions or of writes. One pass may also do what the pass before left over.
_STEPS_PER_PASS = 25


class CooperativeYield:
    """
    Allows so many steps in one pass of the event loop, counted over all tasks that share this value.

    If each task counted for itself, an edge that the objects of 200 namespaces share would allow 200 times as many.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_STEPS_PER_PASS)

    async def step(self) -> None:
        """Continues in this pass of the event loop if a place is left, else in a later one, first come first served."""
        await self._places.acquire()
        asyncio.get_running_loop().call_soon(self._places.release)
