"""
Deadlines for methods: a method that hangs loses its own answers, and the other methods go on.

An alarm of the process interrupts Python code, and C code when it returns; a process that ignores the alarm is killed
by its pool. Outside the main thread, as in a dask worker, nothing is interrupted, and a late answer is discarded.
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
    """Time is up. Not an Exception: a method may catch every Exception and go on."""


class Deadlines:
    """The time limits of methods in one task of a worker, which has several objects."""

    def __init__(self, seconds: float, objects_max: int = 3) -> None:
        """
        seconds: for all calls of a method for one object. objects_max: after a method was late for this many objects,
        the other objects of the task go on without it.
        """
        self.seconds = seconds
        self.objects_max = objects_max
        self.late: Counter[str] = Counter()

    def attempts(self) -> TimedAttempts:
        """For the methods of one object."""
        return TimedAttempts(self)


class TimedAttempts(Attempts):
    """Attempts in which a method that takes too long counts as failed, too."""

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
        # The alarm interrupted nothing, or the method caught it.
        self._deadlines.late[name] += 1
        self.failures[name] = f"no answer within {self._deadlines.seconds:g} s"
        return None


def _interrupted(seconds: float, work: Callable[[], T]) -> T:
    """The result of the work. In the main thread, OverrunError is raised inside the work after these seconds."""
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
    """The process's handler of its alarm. is_set: whether the handler is installed now."""

    def __init__(self) -> None:
        self.is_set = False
        self.is_armed = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_armed:
            raise OverrunError


_alarm = _Alarm()


@contextmanager
def alarmed() -> Iterator[None]:
    """Handles the process's alarm, in the main thread. Use it once around many attempts: installing takes time."""
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
