"""
An event loop with real sockets whose clock stands still while anything happens, and jumps to the next timer once
nothing does: a deadline rings when all that could come has come, however busy the machine is.

Client and server run in it. What is given to a thread is done at once, in its place.
"""

# mypy: disable-error-code="override"

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# What is sent on loopback can be read at once; a machine whose cores all spin may take a moment.
_SETTLED_SECONDS = 0.02


class _Settled(selectors.DefaultSelector):
    """now: seconds, which pass only here."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is left to happen: a test waits for what nobody will do"
        happened = super().select(min(timeout, _SETTLED_SECONDS))
        if not happened:
            self.now += max(timeout, 0)
        return happened


class ServedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Settled()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(self, _executor, func, *args):
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller gets the error
            future.set_exception(error)
        return future


def serve_in_time(scenario: Coroutine[Any, Any, T]) -> T:
    """What a scenario returns that is run in such a loop; it begins at 0 s."""

    async def lived() -> T:
        result = await scenario
        await asyncio.sleep(1)  # until what was closed is
        return result

    with asyncio.Runner(loop_factory=ServedLoop) as runner:
        return runner.run(lived())
