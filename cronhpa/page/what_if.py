"""
What-if runs: one at a time, a few that wait; an answer is kept for a while.

A caller has one run, which the next one replaces. A run has a name that cannot be guessed, and only the caller that
began it gets its answer.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from cronhpa.page.questions import ENCODER, RerunQuestion, rerun
from cronhpa.page.rights import BusyError, UnavailableError
from cronhpa.page.worker_pools import PageWorker

# Characters of YAML. The API server takes far longer objects, but nobody writes such a one.
TEXT_MAX = 64 * 1024
_RUNS_MAX = 8
_ENCODER = msgspec.json.Encoder()


class _WhatIfRun:
    def __init__(self, caller: str, task: asyncio.Task[bytes], progress: Path | None) -> None:
        self.caller, self.task, self._progress = caller, task, progress

    def share(self) -> float | None:
        """The share that is done, from 0 to 1; None if it is unknown."""
        if self._progress is None:
            return None
        try:
            return float(self._progress.read_text("ascii") or 0)
        except (OSError, ValueError):
            return 0.0

    def end(self) -> None:
        self.task.cancel()


class WhatIf:
    def __init__(self, worker: PageWorker) -> None:
        self._worker = worker
        self._runs: dict[str, _WhatIfRun] = {}

    def begin(self, caller: str, asked: RerunQuestion) -> str:
        """Begins a run; returns its name. Raises BusyError."""
        for name in [name for name, run in self._runs.items() if run.caller == caller]:
            self._runs.pop(name).end()
        if sum(not run.task.done() for run in self._runs.values()) >= _RUNS_MAX:
            raise BusyError
        while len(self._runs) >= _RUNS_MAX:
            self._runs.pop(next(name for name, run in self._runs.items() if run.task.done()))
        path = _progress_file()
        question = ENCODER.encode(replace(asked, progress="" if path is None else str(path)))
        task = asyncio.create_task(self._run(question), name="what if")
        if path is not None:
            # Not within the task: a task that is cancelled before its first step runs none of its code.
            task.add_done_callback(lambda _: _forget(path))
        name = secrets.token_urlsafe(16)
        self._runs[name] = _WhatIfRun(caller, task, path)
        return name

    def answer(self, caller: str, name: str) -> bytes | None:
        """JSON: {"done": share} while it runs, {"result": ...} after it. None for a run that is not the caller's."""
        run = self._runs.get(name)
        if run is None or run.caller != caller:
            return None
        if not run.task.done():
            return _ENCODER.encode({"done": run.share()})
        try:
            return _ENCODER.encode({"result": Raw(run.task.result())})
        except BusyError:
            problem = "too many runs are waiting: try it again in a minute"
        except UnavailableError as error:
            problem = str(error)
        return _ENCODER.encode({"result": {"problems": [problem]}})

    async def _run(self, question: bytes) -> bytes:
        return await self._worker.run(rerun, question)

    async def close(self) -> None:
        tasks = [run.task for run in self._runs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _progress_file(folder: Callable[[], str] = tempfile.gettempdir) -> Path | None:
    """A new file; None if no file can be written, and the run has no progress then."""
    try:
        handle, name = tempfile.mkstemp(prefix="what-if-", dir=folder())
    except OSError:
        return None
    os.close(handle)
    return Path(name)
