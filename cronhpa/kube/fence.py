"""The fence of a client: which writes may still be sent, and the last moment at which one is kept back."""

from __future__ import annotations

import math
from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractStreamWriter

# For how many seconds from now a write to a path may be under way; 0 or less: none may begin.
Fence = Callable[[str], float]

NOT_LEADING = "NotLeading"
FENCED = "this process does not lead any more, or cannot renew its Lease: it writes nothing"


def unfenced(path: str) -> float:
    """The fence of a process without an election: it lets every write pass."""
    del path
    return math.inf


class FencedBody(aiohttp.BytesPayload):
    """
    A body that is not sent any more once the fence is closed.

    A connection takes milliseconds to be made, and a frozen process can wake up between the check before a request and
    the request itself: this is the last moment before the bytes leave. The server refuses a request without its body.
    """

    def __init__(self, body: bytes, fence: Fence, path: str) -> None:
        super().__init__(body)
        self._fence, self._path = fence, path

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._fence(self._path) <= 0:
            raise ConnectionAbortedError(FENCED)
        await super().write_with_length(writer, content_length)
