"""
An event loop whose clock jumps to the next timer wherever nothing is left to do: an hour of reconciliations takes a
moment.

It serves what has no real input and output: it asks no selector, and what is given to a thread is done at once, in its
place. Every pass of the loop takes a microsecond of its time, so that a timer that is a rounding error away comes
nearer with each; timers of one instant ring in the order in which they were set.

What runs in a context of `process_context` is a process of its own, which can be frozen as by SIGSTOP.
"""

# mypy: disable-error-code="override, attr-defined"
# The loop replaces private parts of asyncio's own.

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")

_PASS_SECONDS = 1e-6
_RESOLUTION = 1e-9
# More timers than this are looked through for those that were cancelled, each time their number has doubled.
_TIMERS = 256


_PROCESS: ContextVar[object] = ContextVar("process", default=None)


def process_context(process: object) -> Context:
    """For the tasks of one process; what they start belongs to it, too."""
    context = copy_context()
    context.run(_PROCESS.set, process)
    return context


class Call:
    """`asyncio.Handle` and `TimerHandle` without what a debugger asks for: an hour makes a hundred thousand of them."""

    __slots__ = ("_when", "args", "callback", "context")

    def __init__(self, callback, args, context, when=0.0):
        self.callback, self.args, self._when = callback, args, when
        self.context = copy_context() if context is None else context

    def when(self):
        return self._when

    def cancel(self):
        self.callback = self.args = self.context = None

    def cancelled(self):
        return self.callback is None


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._seconds = 0.0
        self._timers: list[tuple[float, int, Call]] = []
        self._set = 0
        self._tidied_at = _TIMERS
        self._held: dict[object, list[Call]] = {}

    def freeze(self, process: object) -> None:
        """Stops a process: its callbacks and timers wait for `thaw`."""
        self._held[process] = []

    def thaw(self, process: object) -> None:
        self._ready.extend(self._held.pop(process))

    def time(self) -> float:
        return self._seconds

    def spend(self, seconds: float) -> None:
        """The callback that runs takes this long."""
        self._seconds += seconds

    def call_soon(self, callback, *args, context=None):
        call = Call(callback, args, context)
        self._ready.append(call)
        return call

    def call_soon_threadsafe(self, callback, *args, context=None):
        """There is one thread. An asynchronous generator that is not read to its end is closed by this."""
        return self.call_soon(callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None):
        timer = Call(callback, args, context, when)
        self._set += 1
        heappush(self._timers, (when, self._set, timer))
        if len(self._timers) > self._tidied_at:
            self._tidy()
        return timer

    def _tidy(self) -> None:
        """Drops the timers that were cancelled."""
        timers = self._timers
        timers[:] = [timer for timer in timers if timer[2].callback is not None]
        heapify(timers)
        self._tidied_at = max(_TIMERS, 2 * len(timers))

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self._seconds + delay, callback, *args, context=context)

    def run_in_executor(self, _executor, func, *args):
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller gets the error
            future.set_exception(error)
        return future

    def _run_once(self) -> None:
        """All passes until the loop is stopped, in one call: an hour has thirty thousand of them."""
        timers, ready, held = self._timers, self._ready, self._held
        is_stopped = self._stopping
        while True:
            if not ready and not is_stopped:
                while timers and timers[0][2].callback is None:
                    heappop(timers)
                if not timers:
                    raise RuntimeError("nothing is left to happen: a test waits for what nobody will do")
                self._seconds = max(self._seconds, timers[0][0])
            self._seconds += _PASS_SECONDS
            end = self._seconds + _RESOLUTION
            while timers and timers[0][0] < end:
                ready.append(heappop(timers)[2])
            for _ in range(len(ready)):
                call = ready.popleft()
                if call.callback is None:
                    continue
                if held and (process := call.context.get(_PROCESS)) in held:
                    held[process].append(call)
                    continue
                try:
                    call.context.run(call.callback, *call.args)
                except Exception as error:  # noqa: BLE001 - as every event loop
                    self.call_exception_handler({"message": f"in {call.callback}", "exception": error, "handle": call})
            is_stopped = self._stopping
            if is_stopped:
                return


def live(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a scenario returns that is run in virtual time; it begins at 0 s."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario())
