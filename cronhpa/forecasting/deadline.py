"""
How long a method may take: one that hangs costs its own answers, and the others go on.

An alarm of the process interrupts Python code, and code in C when it returns; a process that ignores the alarm is
killed by its pool. Outside the main thread, as in a dask worker, nothing is interrupted: a late answer is not used.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TypeVar

from cronhpa.forecasting.policy import Attempts

# A method that swallows the first alarm is interrupted again.
_AGAIN_SECONDS = 1.0

T = TypeVar("T")


class OverrunError(BaseException):
    """Time is up. No Exception: a method that goes on after any Exception would go on after this one, too."""


class Deadlines:
    """The time of the methods in one task of a worker, in which several objects wait for their turn."""

    def __init__(self, seconds: float, objects_max: int = 3) -> None:
        """
        seconds: of a method for one object, all its calls together. objects_max: after a method was late for so many
        objects, the other objects of the task go on without it.
        """
        self.seconds = seconds
        self.objects_max = objects_max
        self.late: Counter[str] = Counter()

    def attempts(self) -> TimedAttempts:
        """For the methods of one object."""
        return TimedAttempts(self)


class TimedAttempts(Attempts):
    """As Attempts, and a method that takes too long costs itself alone, too."""

    def __init__(self, deadlines: Deadlines) -> None:
        super().__init__()
        self._deadlines = deadlines
        self._left: dict[str, float] = {}

    def __call__(self, name: str, work: Callable[[], T], /) -> T | None:
        left = self._left.get(name, self._deadlines.seconds)
        if left <= 0:
            return None
        if self._deadlines.late[name] >= self._deadlines.objects_max:
            self.failures[name] = f"no answer for {self._deadlines.late[name]} other objects"
            return None
        begin = time.monotonic()  # noqa: TID251 - a deadline of real seconds in a worker process
        try:
            answer = _interrupted(left, partial(super().__call__, name, work))
        except OverrunError:
            answer = None
        self._left[name] = left - (time.monotonic() - begin)  # noqa: TID251 - as above
        if self._left[name] > 0:
            return answer
        # Where the alarm interrupts nothing, and where the method swallowed it.
        self._deadlines.late[name] += 1
        self.failures[name] = f"no answer within {self._deadlines.seconds:g} s"
        return None


def _interrupted(seconds: float, work: Callable[[], T]) -> T:
    """The result of the work; raises OverrunError within it after so many seconds, in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    if not _alarm.is_set:
        with alarmed():
            return _interrupted(seconds, work)
    # Twice, because the alarm may ring in the inner `finally`; the next one is a second away.
    try:
        try:
            _alarm.is_armed = True
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
            return work()
        finally:
            _alarm.is_armed = False
    finally:
        _alarm.is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


class _Alarm:
    """What the process does when its alarm rings. is_set: whether it is the process's handler now."""

    def __init__(self) -> None:
        self.is_set = False
        self.is_armed = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_armed:
            raise OverrunError


_alarm = _Alarm()


@contextmanager
def alarmed() -> Iterator[None]:
    """Answer the process's alarm, in the main thread: once around many attempts, as a handler takes time to set."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _alarm)
    _alarm.is_set = True
    try:
        yield
    finally:
        _alarm.is_set = False
        signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
