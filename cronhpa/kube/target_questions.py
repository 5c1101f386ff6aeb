"""Questions to the API server about targets that are watched: a watch can lose an event and look alive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cronhpa.kube.errors import ClusterError

T = TypeVar("T")

_NOT_FOUND = 404
_ASKED_SECONDS = 60.0
# Somebody's ten thousand objects may name targets that are not there, or one whose pods come and go.
_ASKED_MAX = 1000
# How many are sent at a time, and how long one waits for its place: writes share the client's places with them.
_AT_ONCE = 16
_WAIT_SECONDS = 5.0


class TargetQuestions:
    """Each key is (namespace, API group, kind, name) of a target; `get` is the request."""

    def __init__(self) -> None:
        # Those asked for within this minute.
        self._asked: set[tuple[str, str, str, str]] = set()
        self._since = 0.0
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def missing(self, key: tuple[str, str, str, str], get: Callable[[], Awaitable[T]]) -> T | None:
        """A target that its watch lacks; None where it is not there, or may not be asked for. Raises ClusterError."""
        stated = await self.known(key, get)
        if stated is not None:
            self._asked.discard(key)
        return stated

    async def known(self, key: tuple[str, str, str, str], get: Callable[[], Awaitable[T]]) -> T | None:
        """
        A target as the API server knows it; None where it is not there, or may not be asked for.

        Raises ClusterError.
        """
        now = asyncio.get_running_loop().time()
        if now - self._since > _ASKED_SECONDS:
            self._since = now
            self._asked.clear()
        if not self._is_free(key):
            return None
        # Before the answer: others ask for the same target meanwhile.
        self._asked.add(key)
        try:
            return await self._ask(get)
        except ClusterError as error:
            if error.status == _NOT_FOUND:
                return None
            self._asked.discard(key)
            raise

    def _is_free(self, key: tuple[str, str, str, str]) -> bool:
        return key not in self._asked and len(self._asked) < _ASKED_MAX

    async def _ask(self, get: Callable[[], Awaitable[T]]) -> T | None:
        """The answer; None if other questions keep all places. Raises ClusterError."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            return None
        try:
            return await get()
        finally:
            self._places.release()
