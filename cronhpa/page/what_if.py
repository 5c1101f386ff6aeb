"""
What-if runs: one at a time, a few that wait, the answer kept for a while for whoever asked.

A caller has one run: another one takes its place. A run is known by a number that nobody guesses, and told to the
caller who began it alone.
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

# Characters of YAML: as much as the API server takes of an object would be hundreds of times what anybody writes.
TEXT_MAX = 64 * 1024
_RUNS_MAX = 8
_ENCODER = msgspec.json.Encoder()


class _WhatIfRun:
    def __init__(self, caller: str, task: asyncio.Task[bytes], progress: Path | None) -> None:
        self.caller, self.task, self._progress = caller, task, progress

    def share(self) -> float | None:
        """How much is done, from 0 to 1; None where that is not known."""
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
        """Begins a run; its name. Raises BusyError."""
        for name in [name for name, each in self._runs.items() if each.caller == caller]:
            self._runs.pop(name).end()
        if sum(not each.task.done() for each in self._runs.values()) >= _RUNS_MAX:
            raise BusyError
        while len(self._runs) >= _RUNS_MAX:
            self._runs.pop(next(name for name, each in self._runs.items() if each.task.done()))
        path = _progress_file()
        question = ENCODER.encode(replace(asked, progress="" if path is None else str(path)))
        task = asyncio.create_task(self._run(question), name="what if")
        if path is not None:
            # Not within the task: one that is cancelled before its first step runs nothing of it.
            task.add_done_callback(lambda _: _forget(path))
        name = secrets.token_urlsafe(16)
        self._runs[name] = _WhatIfRun(caller, task, path)
        return name

    def answer(self, caller: str, name: str) -> bytes | None:
        """JSON: {"done": share} while it runs, {"result": ...} after it. None for a run that is not the caller's."""
        found = self._runs.get(name)
        if found is None or found.caller != caller:
            return None
        if not found.task.done():
            return _ENCODER.encode({"done": found.share()})
        try:
            return _ENCODER.encode({"result": Raw(found.task.result())})
        except BusyError:
            problem = "too many runs are waiting: try it again in a minute"
        except UnavailableError as error:
            problem = str(error)
        return _ENCODER.encode({"result": {"problems": [problem]}})

    async def _run(self, question: bytes) -> bytes:
        return await self._worker.run(rerun, question)

    async def close(self) -> None:
        tasks = [each.task for each in self._runs.values()]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _progress_file(folder: Callable[[], str] = tempfile.gettempdir) -> Path | None:
    """None where nothing can be written: a run is then told without its progress."""
    try:
        handle, name = tempfile.mkstemp(prefix="what-if-", dir=folder())
    except OSError:
        return None
    os.close(handle)
    return Path(name)
