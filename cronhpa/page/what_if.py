"""
What-if runs: one at a time, some that wait; an answer is kept for a while.

A caller has one run, which the next one replaces. A run has a name that cannot be guessed, and only the caller that
began it gets its answer. Namespaces take turns. If there is no room, a run of the namespace with the most runs gives
way to one of a namespace with fewer: whoever may make accounts in one namespace takes no room of another.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from cronhpa.page.questions import RerunQuestion, rerun
from cronhpa.page.rights import BusyError, UnavailableError
from cronhpa.page.worker_pools import PageWorker

# Characters of YAML. The API server takes far longer objects, but nobody writes such a one.
TEXT_MAX = 64 * 1024
RUNS_MAX = 32
"""Runs that wait, run, or have an answer."""
_ENCODER = msgspec.json.Encoder()


class _WhatIfRun:
    def __init__(self, caller: str, namespace: str, task: asyncio.Task[bytes], progress: Path | None) -> None:
        self.caller, self.namespace, self.task, self._progress = caller, namespace, task, progress

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

    def begin(self, caller: str, rerun_question: RerunQuestion) -> str:
        """Begins a run; returns its name. Raises BusyError."""
        for name in [name for name, run in self._runs.items() if run.caller == caller]:
            self._runs.pop(name).end()
        if len(self._runs) >= RUNS_MAX:
            self._runs.pop(self._giving_way(rerun_question.namespace)).end()
        path = _progress_file()
        question = replace(rerun_question, progress="" if path is None else str(path))
        task = asyncio.create_task(self._worker.run(rerun, question, rerun_question.namespace), name="what if")
        if path is not None:
            # Not within the task: a task that is cancelled before its first step runs none of its code.
            task.add_done_callback(lambda _: _forget(path))
        name = secrets.token_urlsafe(16)
        self._runs[name] = _WhatIfRun(caller, rerun_question.namespace, task, path)
        return name

    def _giving_way(self, namespace: str) -> str:
        """The run that gives way to a new one of a namespace. Raises BusyError if none does."""
        counts = Counter(run.namespace for run in self._runs.values())
        done = {
            name: counts[run.namespace]
            for name, run in self._runs.items()
            if run.task.done() and counts[run.namespace] >= counts[namespace]
        }
        if done:
            return max(done, key=lambda name: done[name])
        largest, count = counts.most_common(1)[0]
        if count <= counts[namespace] + 1:
            raise BusyError
        # The newest: it has waited least.
        return next(name for name, run in reversed(self._runs.items()) if run.namespace == largest)

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
