"""The fence of a client: which writes may still be sent, and the last moment at which one is kept back."""

from __future__ import annotations

import math
from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractStreamWriter

# For how many seconds from now a write may be under way; 0 or less: none may begin.
Fence = Callable[[], float]

NOT_LEADING = "NotLeading"
FENCED = "this process does not lead any more, or cannot renew its Lease: it writes nothing"


def unfenced() -> float:
    """The fence of a process that no other one takes the place of."""
    return math.inf


class FencedBody(aiohttp.BytesPayload):
    """
    A body that is not sent any more once the fence is closed.

    A connection takes milliseconds to be made, and a frozen process can wake up between the check before a request and
    the request itself: this is the last moment before the bytes leave. The server refuses a request without its body.
    """

    def __init__(self, body: bytes, fence: Fence) -> None:
        super().__init__(body)
        self._fence = fence

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._fence() <= 0:
            raise ConnectionAbortedError(FENCED)
        await super().write_with_length(writer, content_length)
