"""
Worker processes for fits and forecasts.

A task is a function from bytes to bytes that a new process can import by its name. No task can delay or break a
decision: a task that hangs or dies has no answer, and its process is replaced.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import multiprocessing
import os
import resource
import signal
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

_NICENESS = 10
# Several times the memory of a fit. Worker and controller together stay below the chart's limit of 1 GiB, at which the
# kernel may end all processes of the container.
_MEMORY_MAX = 768 * 2**20
# Ended at the first deadline, no process would ever start where processors are so busy that a start takes longer.
_DEADLINES_TO_START = 5


class WorkerError(Exception):
    """Why a task gave no answer, worded to follow "could not be forecast: "."""


class WorkerPool(Protocol):
    width: int
    """The number of tasks that the pool runs at a time."""

    async def run(self, task: Callable[[bytes], bytes], payload: bytes, seconds: float) -> bytes:
        """
        The task's answer to the payload. seconds: the deadline from its start; one as long for the start of a process.

        Raises WorkerError.
        """

    async def close(self) -> None:
        """Ends all running tasks."""


class ProcessPool:
    """
    A number of processes, started when they are first needed.

    Each is a pool of one process: in a pool of several, a process that dies breaks the tasks of the others. One that is
    still starting at the deadline of a task goes on for the next one; the fifth ends it.
    imports: a module that a process imports as part of its start; empty for none.
    """

    def __init__(self, count: int, imports: str = "") -> None:
        self.width = count
        self._lanes = [_Lane(imports) for _ in range(count)]
        # The lane that became free last is used first: with little work one process suffices.
        self._free: asyncio.LifoQueue[_Lane] = asyncio.LifoQueue()
        for lane in reversed(self._lanes):
            self._free.put_nowait(lane)

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the running processes."""
        return tuple(lane.pid for lane in self._lanes if lane.pid is not None)

    async def run(self, task: Callable[[bytes], bytes], payload: bytes, seconds: float) -> bytes:
        lane = await self._free.get()
        try:
            return await lane.run(task, payload, seconds)
        finally:
            self._free.put_nowait(lane)

    async def close(self) -> None:
        for lane in self._lanes:
            lane.end()


class _Lane:
    """A pool of one process, which is known from its first moment: it can be killed whatever it is doing."""

    def __init__(self, imports: str) -> None:
        self._imports = imports.encode()
        self._pool: ProcessPoolExecutor | None = None
        self._process: BaseProcess | None = None
        self._starting: asyncio.Future[bytes] | None = None
        self._deadlines_missed = 0
        self._is_frozen = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run(self, task: Callable[[bytes], bytes], payload: bytes, seconds: float) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            pool = await self._started_pool(seconds)
            async with asyncio.timeout(seconds):
                answer = await loop.run_in_executor(pool, _work, task, payload)
                if not self._is_frozen:
                    # Modules stay imported: garbage collections of later tasks need not scan them. A flag records the
                    # freeze, because `gc.get_freeze_count` scans them, too.
                    await loop.run_in_executor(pool, gc.freeze)
                    self._is_frozen = True
                return answer
        except TimeoutError:
            self.end()
            raise WorkerError(f"no answer within {seconds:g} s") from None
        except BrokenExecutor:
            # The process has ended, and its id may belong to another process by now: do not kill it. It left no child,
            # which would have its pipes: its end would be noticed at the deadline alone.
            self._process = None
            self.end()
            raise WorkerError("the worker process died") from None
        except asyncio.CancelledError:
            if self._starting is None:
                self.end()
            raise
        except WorkerError:
            raise
        except Exception as problem:
            # No process can be started, or an answer or an error cannot be pickled.
            raise WorkerError(f"{type(problem).__name__}: {problem}") from problem

    async def _started_pool(self, seconds: float) -> ProcessPoolExecutor:
        """Raises WorkerError if the process has not started within `seconds`, or cannot import its module."""
        pool = self._pool or self._spawn()
        starting = self._starting
        if starting is not None:
            done, _ = await asyncio.wait([starting], timeout=seconds)
            if not done:
                self._deadlines_missed += 1
                if self._deadlines_missed == _DEADLINES_TO_START:
                    self.end()
                raise WorkerError(f"the worker process did not start within {seconds:g} s")
            if starting.cancelled():
                raise WorkerError("the worker process was ended while it started")
            try:
                await starting
            except WorkerError:
                self.end()
                raise
            self._starting = None
        return pool

    def _spawn(self) -> ProcessPoolExecutor:
        # spawn, because forking a process with threads and a running loop may deadlock the child.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_start)
        others = multiprocessing.active_children()
        try:
            self._starting = asyncio.get_running_loop().run_in_executor(self._pool, _work, _import, self._imports)
        finally:
            self._process = next((child for child in multiprocessing.active_children() if child not in others), None)
            if self._starting is None:
                self.end()
        return self._pool

    def end(self) -> None:
        """End the process, whatever it is doing; the next task starts another."""
        pool, process, starting = self._pool, self._process, self._starting
        self._pool = self._process = self._starting = None
        self._deadlines_missed, self._is_frozen = 0, False
        if starting is not None:
            starting.cancel()
        if process is not None and process.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()  # early in its start it has no group of its own
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _import(module: bytes) -> bytes:
    """Runs in a worker process, before its first task."""
    if module:
        importlib.import_module(module.decode())
    return b""


def _work(task: Callable[[bytes], bytes], payload: bytes) -> bytes:
    """
    Runs in a worker process: the task's answer.

    Turns all errors into WorkerError. Otherwise the controller would take some of them for its own: a CancelledError,
    which a dask client raises when its scheduler dies, would end the operator, and a TimeoutError would look like the
    task's deadline.
    """
    try:
        return task(payload)
    except BaseException as problem:
        raise WorkerError(f"{type(problem).__name__}: {problem}") from problem


def use_one_thread() -> None:
    """For a process that fits, before it imports numpy: with threads of BLAS the same fits took three times as long."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _start() -> None:
    """Runs first in a process."""
    use_one_thread()
    # A group of its own: what a method of another package has forked ends with the worker.
    os.setpgid(0, 0)
    os.nice(_NICENESS)
    with suppress(OSError, ValueError):  # a system that has no such limit, or a lower one
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_MAX, _MEMORY_MAX))
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """Ends this process with its parent. It would outlive a killed operator, because it has both ends of its queue."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)
