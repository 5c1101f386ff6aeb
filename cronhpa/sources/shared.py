"""
Answers that several objects share: one request a period, however many objects ask.

An object never gets the same answer in two of its periods: it sends the next request, and the other objects share that
one. So no answer is older than a period, and requests are not doubled, whatever the phases of the periods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

# A reconciliation between two periods, at an edge or after an edit, takes an answer that is no older than this.
_MOMENT_SECONDS = 0.5
# An answer is dropped after so long. Old answers are looked for once in so many requests.
_KEPT_SECONDS = 600.0
_LOOKED_AT = 1000


class _Shared(Generic[T]):
    __slots__ = ("begun", "served", "task")

    def __init__(self, task: asyncio.Task[T], begun: float) -> None:
        self.task = task
        self.begun = begun
        self.served: set[Hashable] = set()


class SharedAnswers(Generic[T]):
    """Answers by question. clock: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_question: dict[Hashable, _Shared[T]] = {}
        self._until_look = _LOOKED_AT

    async def ask(
        self, question: Hashable, asker: Hashable, period_seconds: float, send: Callable[[], Awaitable[T]]
    ) -> T:
        """The answer to a question: a shared one if there is one that may be, else that of `send`."""
        now = self._clock()
        shared = self._by_question.get(question)
        if shared is None or not self._may_share(shared, asker, now - shared.begun, period_seconds):
            self._forget_old(now)
            shared = self._by_question[question] = _Shared(asyncio.ensure_future(_awaited(send)), now)
        shared.served.add(asker)
        return await asyncio.shield(shared.task)

    @staticmethod
    def _may_share(shared: _Shared[T], asker: Hashable, age: float, period_seconds: float) -> bool:
        if not shared.task.done():
            return True  # a second request to a server that is slow already would not make it faster
        if age < min(_MOMENT_SECONDS, period_seconds / 2):
            return True
        return asker not in shared.served and age < period_seconds

    def _forget_old(self, now: float) -> None:
        self._until_look -= 1
        if self._until_look > 0:
            return
        self._until_look = _LOOKED_AT
        old = [question for question, shared in self._by_question.items() if now - shared.begun > _KEPT_SECONDS]
        for question in old:
            del self._by_question[question]


async def _awaited(send: Callable[[], Awaitable[T]]) -> T:
    return await send()
