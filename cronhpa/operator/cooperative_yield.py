"""How much is done in one pass of the loop, so that timers, sockets and other tasks wait for no crowd."""

from __future__ import annotations

import asyncio

# Two to five milliseconds of decisions, or of writes. One pass may do what was left of the one before as well.
_TURNS = 25


class CooperativeYield:
    """
    So many turns between two looks of the loop at its timers and sockets, whichever tasks take them.

    Where each task counted for itself, an edge that the objects of 200 namespaces share would be 200 times as many.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_TURNS)

    async def take(self) -> None:
        """Goes on in this pass of the loop where it has a place left, else in one of the next, in order."""
        await self._places.acquire()
        asyncio.get_running_loop().call_soon(self._places.release)
