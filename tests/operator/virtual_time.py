"""
An event loop whose clock jumps to the next timer wherever nothing is left to do: an hour of turns takes a second.

It serves what has no real input and output. Every pass of the loop takes a microsecond of its time, so that a timer
that is a rounding error away comes nearer with each.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_PASS_SECONDS = 1e-6


class _Jumping(selectors.SelectSelector):
    """Waits for nothing: what it is asked to wait for has passed when it returns."""

    seconds = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nothing is left to happen: a test waits for what nobody will do")
        self.seconds += _PASS_SECONDS + (0.0 if ready else timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.seconds


def live(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a scenario returns that is run in virtual time; it begins at 0 s."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario())
