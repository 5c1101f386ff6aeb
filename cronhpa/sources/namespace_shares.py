"""
What one namespace gets of the process that reads pods' pages: threads, and CPU time.

Tenants write the pages, so no bound here depends on the form of a page. A thread charges the CPU time that it used, and
one thread of a namespace works at a time: the others wait for the network or for their turn.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Self, TypeVar

from cronhpa.sources.no_answer import NoAnswerError

NAMESPACE_SHARE = 0.3
# A scrape has so much of its object's period, and a millisecond for each pod that is asked: a page of some kB takes a
# third of one, and the first scrape of 1,000 pods asks 707.
OBJECT_SHARE = 0.2
POD_SECONDS = 0.001
# A pause of so long may be made up for at once, and periods may be as long: objects of 15 s scrape in a burst.
BURST_SECONDS = 15.0

J = TypeVar("J")


class TooCostlyError(NoAnswerError):
    """The CPU time of a namespace or an object is used up."""


class CpuBudget:
    """CPU time to use, in seconds: `most` at first; it grows by `share` of the time that passes, up to `most`."""

    def __init__(self, share: float, most: float, message: str, clock: Callable[[], float]) -> None:
        self._share, self._most, self._message, self._clock = share, most, message, clock
        self._left, self._at = most, clock()
        self._lock = threading.Lock()

    def spend(self, seconds: float) -> None:
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + (now - self._at) * self._share) - seconds
            self._at = now

    def refuse_more(self) -> None:
        """Raises TooCostlyError if nothing is left."""
        if self._left <= 0:
            raise TooCostlyError("PagesTooCostly", self._message)


def scrape_budget(period_seconds: float, pods: int, clock: Callable[[], float]) -> CpuBudget:
    """The CPU time of one scrape of so many pods of an object."""
    message = (
        f"its pods' pages take CPU time of more than {OBJECT_SHARE:.0%} of its period: "
        "shorten them, or lengthen syncPeriodSeconds"
    )
    return CpuBudget(0.0, OBJECT_SHARE * min(period_seconds, BURST_SECONDS) + POD_SECONDS * pods, message, clock)


class NamespaceShare:
    """turn: is held by the one thread that works for the namespace."""

    def __init__(self, clock: Callable[[], float]) -> None:
        message = f"the pages of its namespace's pods take more than {NAMESPACE_SHARE:.0%} of a CPU: shorten them"
        self.turn = threading.Lock()
        self.budget = CpuBudget(NAMESPACE_SHARE, NAMESPACE_SHARE * BURST_SECONDS, message, clock)


class Reading:
    """
    A thread's work on one page: within it the thread has its namespace's turn, except while it `waits`.

    cpu_clock: seconds of CPU time of the calling thread.
    """

    def __init__(
        self,
        share: NamespaceShare,
        budget: CpuBudget,
        deadline: float,
        clock: Callable[[], float],
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._turn, self._budgets, self._deadline = share.turn, (budget, share.budget), deadline
        self._clock, self._cpu_clock = clock, cpu_clock
        self._charged_until = cpu_clock()
        self._has_turn = False

    def __enter__(self) -> Self:
        self._take_turn()
        try:
            self.check()
        except NoAnswerError:
            self._end_turn()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._charge()
        if self._has_turn:
            self._end_turn()

    def check(self) -> None:
        """Charges the CPU time used so far. Raises TooCostlyError, and TimeoutError after the deadline."""
        self._charge()
        for budget in self._budgets:
            budget.refuse_more()
        self.seconds_left()

    def seconds_left(self) -> float:
        """More than 0. Raises TimeoutError after the deadline."""
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        return left

    @contextmanager
    def waits(self) -> Iterator[float]:
        """Gives the turn to others while this thread waits for the network, for at most the seconds that it gets."""
        self.check()
        self._end_turn()
        try:
            yield self.seconds_left()
        finally:
            self._take_turn()
        # Others of the namespace may have used its budget up meanwhile.
        self.check()

    def _take_turn(self) -> None:
        if not self._turn.acquire(timeout=self.seconds_left()):
            raise TimeoutError
        self._has_turn = True

    def _end_turn(self) -> None:
        self._has_turn = False
        self._turn.release()

    def _charge(self) -> None:
        now = self._cpu_clock()
        for budget in self._budgets:
            budget.spend(now - self._charged_until)
        self._charged_until = now


class FairQueue(Generic[J]):
    """
    Jobs for a number of threads. A namespace runs at most as many as threads are free: alone half of them.

    So a namespace whose jobs all hang leaves a quarter to the next one of that kind, an eighth to the third, and so on
    (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998, with a factor of 1).
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._waiting: dict[str, deque[J]] = {}
        self._running: dict[str, int] = {}
        self._changed = threading.Condition()

    def put(self, namespace: str, jobs: list[J]) -> None:
        with self._changed:
            self._waiting.setdefault(namespace, deque()).extend(jobs)
            self._changed.notify(len(jobs))

    @property
    def unfinished(self) -> int:
        """Jobs that wait or run."""
        with self._changed:
            return sum(map(len, self._waiting.values())) + sum(self._running.values())

    def get(self) -> tuple[str, J]:
        """The next job, of each namespace in turn. Waits for one. Whoever gets it calls `done`."""
        with self._changed:
            while (namespace := self._next()) is None:
                self._changed.wait()
            # The namespace goes to the end of the row.
            jobs = self._waiting.pop(namespace)
            job = jobs.popleft()
            if jobs:
                self._waiting[namespace] = jobs
            self._running[namespace] = self._running.get(namespace, 0) + 1
            return namespace, job

    def done(self, namespace: str) -> None:
        with self._changed:
            self._running[namespace] -= 1
            if not self._running[namespace]:
                del self._running[namespace]
            self._changed.notify(2)

    def _next(self) -> str | None:
        free = self._threads - sum(self._running.values())
        return next((namespace for namespace in self._waiting if self._running.get(namespace, 0) < free), None)
