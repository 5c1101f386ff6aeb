"""Tasks under way, each for a namespace: a replica that gives up a shard ends those of the shard's namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class NamespaceTasks:
    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}

    def spawn(self, work: Coroutine[Any, Any, None], namespace: str) -> None:
        task = asyncio.create_task(work, name=f"reconcile {namespace}")
        self._tasks[task] = namespace
        task.add_done_callback(self._tasks.pop)

    async def close(self, seconds: float, among: Callable[[str], bool]) -> None:
        """Waits this long for the tasks of some namespaces, and cancels those that take longer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        # Again and again: the end of one may be the begin of another.
        while tasks := [task for task, namespace in self._tasks.items() if among(namespace) and not task.done()]:
            _, late = await asyncio.wait(tasks, timeout=max(until - loop.time(), 0))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
