"""
The operator's way to forecasts: a worker process that computes them, and the newest of each in memory.

The controller process never imports pandas, numpy or a method (that alone would cost 200 MB and seconds). Nothing that
happens in the worker can delay or break a decision: one that hangs or dies costs its own forecasts and is replaced.
"""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import os
import signal
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import msgspec

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.learning.store import Fault, Series, Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# With floors of load / (0.9 x request) the 0.95 quantile left a seventh of reactive scaling's uncovered five-minute
# steps on k8s_app11 for 7 % more capacity, the 0.9 quantile a quarter for 5 %. On pure noise both are dear: an object
# without a rhythm should not forecast.
QUANTILE_PERCENT = 95

# Fifty fits take 1.4 s: long enough that starting a task costs nothing, short enough that a crash costs little.
_SERIES_PER_CHUNK = 50
_NICENESS = 10
_WORKER_NEEDS = ("numpy", "pandas")


class Work(msgspec.Struct, frozen=True):
    """What goes to the worker."""

    store: str
    series: list[Series]
    now: Nanoseconds
    quantile_percent: int


class Answers(msgspec.Struct, frozen=True):
    """What comes back: a value for each series, and why it could not be kept in the store."""

    answers: list[tuple[Series, Forecast | Absent]]
    fault: Fault | None


_ENCODER = msgspec.msgpack.Encoder()
_WORK = msgspec.msgpack.Decoder(Work)
_ANSWERS = msgspec.msgpack.Decoder(Answers)


def answer(payload: bytes) -> bytes:
    """Runs in the worker: encoded Work to encoded Answers."""
    from cronhpa.learning import worker  # noqa: PLC0415 - imports pandas: only here, only in the worker

    work = _WORK.decode(payload)
    answers, fault = worker.refresh(Path(work.store), work.series, work.now, work.quantile_percent)
    return _ENCODER.encode(Answers(answers, fault))


class Forecaster:
    """
    Forecasts for the operator's loop.

    `latest` answers from memory and never waits; `refresh` asks the worker. A restarted operator begins with what the
    store kept, with its issue time: whoever uses a forecast judges its age. `problems` says what went wrong in the last
    refresh, in sentences for people.
    """

    def __init__(
        self,
        store: Path,
        *,
        quantile_percent: int = QUANTILE_PERCENT,
        deadline_seconds: float = 60.0,
        series_per_chunk: int = _SERIES_PER_CHUNK,
        ask: Callable[[bytes], bytes] = answer,
    ) -> None:
        """
        No process is started before it is needed.

        deadline_seconds: for a chunk of series, the start of the worker (seconds) included.
        ask: what the worker runs, a function that a new process can import by its name.
        """
        self.problems: tuple[str, ...] = ()
        self._store = store
        self._quantile_percent = quantile_percent
        self._deadline_seconds = deadline_seconds
        self._series_per_chunk = series_per_chunk
        self._ask = ask
        self._latest: dict[Series, Forecast | Absent] = {}
        self._suspects: set[Series] = set()
        self._pool: ProcessPoolExecutor | None = None
        self._worker_pid: int | None = None
        self._refreshing = asyncio.Lock()
        self._load()

    def latest(self, series: Series) -> Forecast | Absent:
        """The newest forecast of a series, however old, or why there is none."""
        unknown = Absent("Learning", f"{series.metric} has not been forecast yet")
        return self._latest.get(series, unknown)

    async def refresh(self, series: Iterable[Series], now: Nanoseconds) -> None:
        """
        Forecast all of these anew, in chunks. What cannot be forecast keeps its last forecast, which grows old.

        Series that were in a chunk which failed go alone from then on, until they succeed: one that kills the worker
        costs the others one refresh.
        """
        async with self._refreshing:
            wanted = list(dict.fromkeys(series))
            missing = [name for name in _WORKER_NEEDS if importlib.util.find_spec(name) is None]
            if missing:
                self._abstain(wanted, missing)
                return
            problems: list[str] = []
            for chunk in self._chunks(wanted):
                problem = await self._refresh_chunk(chunk, now)
                if problem:
                    problems.append(problem)
            self.problems = tuple(problems)

    async def close(self) -> None:
        """End the worker, whatever it is doing."""
        self._end_worker()

    def _load(self) -> None:
        if not self._store.exists():
            return
        try:
            store = Store(self._store)
        except StoreError as problem:
            self.problems = (str(problem),)
            return
        try:
            self._latest.update(store.latest_forecasts())
        except StoreError as problem:
            self.problems = (str(problem),)
        finally:
            store.close()

    def _abstain(self, series: list[Series], missing: list[str]) -> None:
        message = f"{' and '.join(missing)} are not installed: install cronhpa[forecast] where the operator runs"
        self._latest.update({each: Absent("NotInstalled", message) for each in series})
        self.problems = (message,)

    def _chunks(self, series: list[Series]) -> list[list[Series]]:
        """Chunks of the trusted, then the suspects one by one."""
        trusted = [each for each in series if each not in self._suspects]
        size = self._series_per_chunk
        chunks = [trusted[i : i + size] for i in range(0, len(trusted), size)]
        return chunks + [[each] for each in series if each in self._suspects]

    async def _refresh_chunk(self, chunk: list[Series], now: Nanoseconds) -> str | None:
        """Why the chunk, or the storing of it, failed; None where it did not."""
        work = _ENCODER.encode(Work(str(self._store), chunk, now, self._quantile_percent))
        try:
            async with asyncio.timeout(self._deadline_seconds):
                pool = await self._started_pool()
                found = _ANSWERS.decode(await asyncio.get_running_loop().run_in_executor(pool, self._ask, work))
        except TimeoutError:
            self._end_worker()
            return self._suspect(chunk, f"no answer within {self._deadline_seconds:g} s")
        except BrokenExecutor:
            # The process is gone and its id may belong to another one by now: there is nothing to kill.
            self._worker_pid = None
            self._end_worker()
            return self._suspect(chunk, "the worker process died")
        except Exception as problem:  # noqa: BLE001 - whatever a method raises costs its own forecasts only
            return self._suspect(chunk, f"{type(problem).__name__}: {problem}")
        self._latest.update(found.answers)
        self._suspects.difference_update(chunk)
        return found.fault.message if found.fault else None

    def _suspect(self, chunk: list[Series], why: str) -> str:
        """Remember a failed chunk. A series that has a forecast keeps it; one that has none says why."""
        self._suspects.update(chunk)
        for each in chunk:
            if not isinstance(self._latest.get(each), Forecast):
                self._latest[each] = Absent("ForecastFailed", f"{each.metric} could not be forecast: {why}")
        others = f" and {len(chunk) - 1} more" if len(chunk) > 1 else ""
        return f"forecast of {chunk[0]}{others}: {why}"

    async def _started_pool(self) -> ProcessPoolExecutor:
        """The pool with its one worker running, whose process id is known: a hung worker can be killed."""
        if self._pool is None:
            # spawn, because forking a process with threads and a running loop may deadlock the child.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_start_worker)
            self._worker_pid = await asyncio.get_running_loop().run_in_executor(self._pool, os.getpid)
        return self._pool

    def _end_worker(self) -> None:
        pool, pid = self._pool, self._worker_pid
        self._pool = self._worker_pid = None
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _start_worker() -> None:
    """Runs first in the worker, before numpy is imported."""
    # One thread: with BLAS's own threads the same fits took three times as long.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.nice(_NICENESS)
    # Ctrl-C reaches the whole process group; the operator ends its worker itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A pool's worker outlives an operator that was killed: it holds both ends of its own queue."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
