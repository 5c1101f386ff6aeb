"""Running tasks by namespace: a replica that releases a shard ends the tasks of the shard's namespaces."""

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
        """Waits `seconds` for the tasks of some namespaces, and cancels those that take longer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        # In a loop, because the end of a task may start another one.
        while tasks := [task for task, namespace in self._tasks.items() if among(namespace) and not task.done()]:
            _, late = await asyncio.wait(tasks, timeout=max(until - loop.time(), 0))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
