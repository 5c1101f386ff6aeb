"""An event loop in a thread of its own, for work that may neither wait for the operator's loop nor delay it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


def run_in_thread(name: str, work: Callable[[], Coroutine[Any, Any, None]], *, called: str) -> asyncio.Future[None]:
    """
    Starts a thread that runs `work` in a new event loop. Call it within a running loop: the end of `work` is reported
    to that loop.

    The future is done when the work has ended; it has a RuntimeError, with its cause, if an exception ended
    the work.
    name: of the thread. called: the name of the work in that error.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ending = RuntimeError(f"{called} ended with {type(error).__name__}: {error}")
            ending.__cause__ = error
            ended.set_exception(ending)

    def run() -> None:
        error: BaseException | None = None
        try:
            asyncio.run(work())
        except BaseException as caught:  # noqa: BLE001 - the waiter must learn of every error
            error = caught
        with suppress(RuntimeError):  # the caller's loop may be closed by now
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended
