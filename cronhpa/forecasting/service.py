"""
The operator's forecasts: sends tasks to workers, and keeps the newest answers in memory.

The controller process never imports pandas, numpy or a method: that would cost memory and a slow start. No worker can
delay or break a decision: a worker that hangs or dies loses its own forecasts and is replaced.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import MILLISECOND, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import Spec
from cronhpa.forecasting.messages import (
    NOTHING_TO_GAIN,
    DaskCluster,
    FitResponse,
    ForecastResponse,
    ForecastTarget,
    WorkerRequest,
    digest,
)
from cronhpa.forecasting.pool import ProcessPool, WorkerError, WorkerPool
from cronhpa.forecasting.refit_schedule import due
from cronhpa.forecasting.work_counts import WorkCounts
from cronhpa.history.database.address import StoreAddress, file_of, portable
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import Series
from cronhpa.history.load.fits import FitInfo
from cronhpa.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

# Small enough that a crash loses a fraction of a second of work.
FORECASTS_PER_TASK = 120
# A fit takes far longer than a forecast.
FITS_PER_TASK = 10
# A cluster takes many at once; the process that waits for it holds the history of each.
_FITS_PER_CLUSTER_TASK = 500
# Of a fit's request for several series. With the days of calendars one spec may have megabytes: they are encoded where
# the event loop waits, and decoded within the memory of a worker.
_FIT_BYTES = 2**22
# The wait of a series whose own task failed: a fit that hangs would occupy its worker again and again.
_RETRY_AFTER: Nanoseconds = 10 * MINUTE
# A series with too little history is tried again after this time, so that an imported past counts soon. With many such
# series the wait is longer by the time that each of them takes.
_FIT_AGAIN: Nanoseconds = 10 * SECOND
_FIT_AGAIN_EACH: Nanoseconds = 5 * MILLISECOND
# A series that no object needs is kept for this time: the answer of a running task would bring it back.
_FORGOTTEN_AFTER: Nanoseconds = 10 * MINUTE
WORKER_NEEDS = ("numpy",)

# Not MessagePack: requests contain specs with instants of the years 1 to 9999, which exceed its integers.
_ASKS = msgspec.json.Encoder()
_ASK = msgspec.json.Decoder(WorkerRequest)
_ENCODER = msgspec.msgpack.Encoder()
_ANSWERS = msgspec.msgpack.Decoder(ForecastResponse)
_FITS = msgspec.msgpack.Decoder(FitResponse)


def forecast(payload: bytes) -> bytes:
    """Runs in a worker: encoded WorkerRequest to encoded ForecastResponse."""
    from cronhpa.forecasting import worker  # noqa: PLC0415 - imports numpy: only here, only in the worker

    return _ENCODER.encode(worker.forecast(_ASK.decode(payload)))


def fit(payload: bytes) -> bytes:
    """Runs in a worker: encoded WorkerRequest to encoded FitResponse."""
    from cronhpa.forecasting import worker  # noqa: PLC0415 - imports numpy: only here, only in the worker

    return _ENCODER.encode(worker.fit(_ASK.decode(payload)))


class ForecastService:
    """
    Forecasts for the operator's loop.

    `latest` answers from memory and never waits; `refresh` and `fit` wait for the workers. A restarted operator begins
    with the stored forecasts and their issue times: the caller checks their age. `problems` are the errors of the last
    rounds, in sentences for people.
    """

    def __init__(  # noqa: PLR0913 - settings by their names, each with a default
        self,
        store: StoreAddress,
        monotonic: Callable[[], float],
        *,
        workers: WorkerPool | None = None,
        cluster: DaskCluster | None = None,
        deadline_seconds: float = 60.0,
        fit_deadline_seconds: float = 300.0,
        share_percent: int = 100,
        on_first: Callable[[Series], None] = lambda _series: None,
        by_whom: str = "",
        forecast_task: Callable[[bytes], bytes] = forecast,
        fit_task: Callable[[bytes], bytes] = fit,
    ) -> None:
        """
        No process is started before it is needed.

        monotonic: seconds of a clock that never goes back, for the share of time.
        workers: fit, forecast, and read the store. None: one process.
        cluster: computes the fits. A second process waits for it, so that forecasts need not wait.
        deadline_seconds, fit_deadline_seconds: of a task of several series; as long again for the start of its worker.
        share_percent: the largest share of a worker's time for fits.
        on_first: called with every series that gets its first forecast.
        by_whom: text to append to "has not been forecast yet".
        forecast_task, fit_task: the functions that workers run; a new process must be able to import them by name.
        """
        self.work = WorkCounts()
        self._store = store
        self._monotonic = monotonic
        self._workers = workers if workers is not None else ProcessPool(1)
        self._cluster = cluster
        self._fit_workers = self._workers if cluster is None else ProcessPool(1)
        self._deadline_seconds = deadline_seconds
        self._fit_deadline_seconds = fit_deadline_seconds
        self._share_percent = share_percent
        self._on_first = on_first
        self._by_whom = by_whom
        self._portable_store = portable(store)
        self._forecast_task = forecast_task
        self._fit_task = fit_task
        self._latest: dict[Series, Forecast | Absent] = {}
        self._fits: dict[Series, FitInfo] = {}
        self._digests: dict[Series, tuple[Spec, str]] = {}
        # Series of a failed task, and when they may be tried again.
        self._suspects: dict[Series, Nanoseconds] = {}
        # Series with too little history, and when they are tried again.
        self._next_fit_at: dict[Series, Nanoseconds] = {}
        self._wanted_at: dict[Series, Nanoseconds] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        self._refreshing, self._fitting = asyncio.Lock(), asyncio.Lock()
        # Why a task could not open the store. The other tasks of the round are skipped: each would wait in vain.
        self._unopened = {"forecast": "", "fit": ""}
        self._load_file()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(problem for problems in self._problems.values() for problem in problems))

    def latest(self, series: Series) -> Forecast | Absent:
        """The newest forecast of a series, however old, or why there is none."""
        unknown = Absent("Learning", f"{series.metric} has not been forecast yet{self._by_whom}")
        return self._latest.get(series, unknown)

    async def load(self, store: Store) -> None:
        """
        Load the forecasts and fits of a store that another replica may have written. Raises StoreError.

        The newer of two forecasts of a series stays. A forecast that is no longer in the store is deleted.
        """
        forecasts, fits = await asyncio.to_thread(lambda: (store.forecasts.newest(), store.fits.infos()))
        for series in [series for series, latest in self._latest.items() if isinstance(latest, Forecast)]:
            if series not in forecasts:
                del self._latest[series]
        for series, forecast in forecasts.items():
            latest = self._latest.get(series)
            if not isinstance(latest, Forecast) or latest.issued_at < forecast.issued_at:
                self._latest[series] = forecast
        self._fits = fits

    async def refresh(self, subjects: Iterable[ForecastTarget], now: Nanoseconds) -> None:
        """
        Forecast the subjects that were fitted. A series that cannot be forecast keeps its last, aging forecast.

        After a task failed, each of its series gets a task of its own until it succeeds: a series that kills the worker
        costs the others one round.
        """
        async with self._refreshing:
            wanted = {subject.series: subject for subject in subjects}
            self._forget_unwanted(wanted, now)
            if self._abstained(wanted):
                return
            self._unopened["forecast"] = ""
            fitted = [subject for series, subject in wanted.items() if self._may_be_forecast(series)]
            tasks = self._split(fitted, FORECASTS_PER_TASK, now)
            self._problems["forecast"] = await _in_turn(
                tasks, self._workers.width, lambda task: self._refresh(task, now)
            )

    async def fit(self, subjects: Iterable[ForecastTarget], now: Nanoseconds) -> None:
        """Fit the series that are due, and forecast them at once."""
        async with self._fitting:
            wanted = {subject.series: subject for subject in subjects}
            if self._abstained(wanted):
                return
            self._unopened["fit"] = ""
            chosen = [
                subject
                for subject in await asyncio.to_thread(self._due, wanted, now)
                if _has_come(self._next_fit_at.get(subject.series, now), now)
            ]
            tasks = self._split(chosen, FITS_PER_TASK if self._cluster is None else _FITS_PER_CLUSTER_TASK, now)
            tasks = await asyncio.to_thread(lambda: [part for task in tasks for part in _of_few_bytes(task)])
            width = self._fit_workers.width
            self.work.waiting = sum(map(len, tasks))
            self._problems["fit"] = await _in_turn(tasks, width, lambda task: self._fit_and_rest(task, now))

    def forget(self, series: Series) -> None:
        """Drop a series from memory; its history stays in the store until it expires."""
        self._latest.pop(series, None)
        self._fits.pop(series, None)
        self._digests.pop(series, None)
        self._suspects.pop(series, None)
        self._next_fit_at.pop(series, None)
        self._wanted_at.pop(series, None)

    def _forget_unwanted(self, wanted: Iterable[Series], now: Nanoseconds) -> None:
        """Forget series that no object needed for ten minutes: the object was deleted, or names another metric."""
        for series in (*self._latest, *self._fits, *self._suspects, *self._next_fit_at, *self._digests):
            # A series from the store waits as long for its object to be listed.
            self._wanted_at.setdefault(series, now)
        self._wanted_at.update(dict.fromkeys(wanted, now))
        # After the clock was set back, instants in the future become now.
        self._wanted_at = {series: min(at, now) for series, at in self._wanted_at.items()}
        for series in [one for one, at in self._wanted_at.items() if now - at >= _FORGOTTEN_AFTER]:
            self.forget(series)

    async def close(self) -> None:
        """Ends the workers and their tasks."""
        await self._workers.close()
        await self._fit_workers.close()

    def _load_file(self) -> None:
        """Read the store if it is a file. A database server is read by `load`: it may keep its readers waiting."""
        file = file_of(self._store)
        if file is None or not file.exists():
            return
        try:
            store = Store(file)
        except StoreError as problem:
            self._problems["store"] = (str(problem),)
            return
        try:
            self._latest.update(store.forecasts.newest())
            self._fits.update(store.fits.infos())
        except (StoreError, msgspec.MsgspecError, TypeError, ValueError) as problem:
            # The file may contain anything: series that cannot be read are fitted again.
            self._problems["store"] = (str(problem),)
        finally:
            store.close()

    def _abstained(self, series: Iterable[Series]) -> bool:
        """Makes these series abstain if a package that the workers need is not installed; tells whether it does."""
        missing = [name for name in WORKER_NEEDS if importlib.util.find_spec(name) is None]
        if not missing:
            return False
        verb = "is" if len(missing) == 1 else "are"
        message = f"{' and '.join(missing)} {verb} not installed: install cronhpa[forecast] where the operator runs"
        self._latest.update({one: Absent("NotInstalled", message) for one in series})
        self._problems["store"] = (message,)
        return True

    def _may_be_forecast(self, series: Series) -> bool:
        """Whether there is a fit with something to gain; without one there are no forecasts until the next fit."""
        latest = self._latest.get(series)
        is_idle = isinstance(latest, Absent) and latest.reason == NOTHING_TO_GAIN
        return series in self._fits and not is_idle

    def _due(self, wanted: dict[Series, ForecastTarget], now: Nanoseconds) -> list[ForecastTarget]:
        """The series to fit now. Runs in a thread: the first digests of many series take long; they are cached."""
        for series, subject in wanted.items():
            cached = self._digests.get(series)
            if cached is None or cached[0] is not subject.spec:
                self._digests[series] = (subject.spec, digest(subject.spec))
        return [
            wanted[series] for series in due({series: self._digests[series][1] for series in wanted}, self._fits, now)
        ]

    def _split(self, subjects: Sequence[ForecastTarget], size: int, now: Nanoseconds) -> list[list[ForecastTarget]]:
        """Tasks of the trusted series, in their order; then a task for each suspect that may be retried now."""
        trusted = [subject for subject in subjects if subject.series not in self._suspects]
        tasks = [trusted[i : i + size] for i in range(0, len(trusted), size)]
        suspects = [subject for subject in subjects if subject.series in self._suspects]
        return tasks + [[subject] for subject in suspects if _has_come(self._suspects[subject.series], now)]

    async def _refresh(self, task: list[ForecastTarget], now: Nanoseconds) -> str | None:
        """Why the forecasts could not be made or stored; None if they were."""
        if self._unopened["forecast"]:
            return self._note_unopened(task, self._unopened["forecast"])
        ask = _ASKS.encode(WorkerRequest(self._portable_store, [subject.of_forecasts for subject in task], now))
        began = self._monotonic()
        try:
            response = _ANSWERS.decode(await self._workers.run(self._forecast_task, ask, self._deadline_seconds))
        except (WorkerError, msgspec.MsgspecError) as problem:
            self.work.forecast_failures += len(task)
            return self._suspect(task, "forecast", str(problem), now)
        finally:
            self.work.forecast_seconds += self._monotonic() - began
        self._trust(task)
        if response.fault is not None and not response.answers:
            self._unopened["forecast"] = response.fault.message
            return self._note_unopened(task, response.fault.message)
        for series, value in response.answers:
            is_first = isinstance(value, Forecast) and not isinstance(self._latest.get(series), Forecast)
            self._latest[series] = value
            self.work.forecasts += isinstance(value, Forecast)
            if is_first:
                self._on_first(series)
        return response.fault.message if response.fault else None

    async def _fit_and_rest(self, task: list[ForecastTarget], now: Nanoseconds) -> str | None:
        began = self._monotonic()
        try:
            problem = await self._fit(task, now)
        finally:
            self.work.waiting -= len(task)
        await asyncio.sleep((self._monotonic() - began) * (100 / self._share_percent - 1))
        return problem

    async def _fit(self, task: list[ForecastTarget], now: Nanoseconds) -> str | None:
        """Why the fits could not be made or stored; None if they were."""
        if self._unopened["fit"]:
            return self._note_unopened(task, self._unopened["fit"])
        began = self._monotonic()
        try:
            ask = _ASKS.encode(WorkerRequest(self._portable_store, task, now, self._cluster))
            answer = await self._fit_workers.run(self._fit_task, ask, self._fit_deadline_seconds)
            response = _FITS.decode(answer)
        except (WorkerError, msgspec.MsgspecError) as error:
            self.work.fit_failures += len(task)
            return self._suspect(task, "fit", str(error), now)
        finally:
            self.work.fit_seconds += self._monotonic() - began
        self._trust(task)
        if response.fault is not None and not response.fits and not response.absent:
            self._unopened["fit"] = response.fault.message
            return self._note_unopened(task, response.fault.message)
        fits = dict(response.fits)
        if response.fault is not None:
            # Forecasts read fits from the store: without it the former fit stays in use, and the fit is repeated.
            self._next_fit_at.update(dict.fromkeys(fits, now + _RETRY_AFTER))
            fits = {}
        self._fits.update(fits)
        self.work.fits += len(fits)
        for series in fits:
            self._next_fit_at.pop(series, None)
        for series, absent in response.absent:
            self._fits.pop(series, None)
            self._latest[series] = absent
            self._next_fit_at[series] = now + _FIT_AGAIN + len(self._next_fit_at) * _FIT_AGAIN_EACH
        fitted = [subject for subject in task if subject.series in fits]
        problem = await self._refresh(fitted, now) if fitted else None
        return response.fault.message if response.fault else problem

    def _trust(self, task: list[ForecastTarget]) -> None:
        for subject in task:
            self._suspects.pop(subject.series, None)

    def _suspect(self, task: list[ForecastTarget], what: str, why: str, now: Nanoseconds) -> str:
        """Records a failed task. A series that has a forecast keeps it; the others get the reason."""
        for subject in task:
            self._suspects[subject.series] = now if len(task) > 1 else now + _RETRY_AFTER
        self._explain(task, why)
        others = f" and {len(task) - 1} more" if len(task) > 1 else ""
        return f"{what} of {task[0].series}{others}: {why}"

    def _note_unopened(self, task: list[ForecastTarget], why: str) -> str:
        """Records that the store cannot be opened. No series becomes a suspect: all continue once it can be opened."""
        self._explain(task, why)
        return why

    def _explain(self, task: list[ForecastTarget], why: str) -> None:
        """Records why there is no forecast, for series that have none."""
        for subject in task:
            if not isinstance(self._latest.get(subject.series), Forecast):
                message = f"{subject.series.metric} could not be forecast: {why}"
                self._latest[subject.series] = Absent("ForecastFailed", message)


def _has_come(at: Nanoseconds, now: Nanoseconds) -> bool:
    """Whether the time has come. True also for times further ahead than any wait: the clock was set back since then."""
    return at <= now or at > now + _RETRY_AFTER


def _of_few_bytes(task: list[ForecastTarget]) -> Iterator[list[ForecastTarget]]:
    """A task in parts of at most _FIT_BYTES, or of one series. Runs in a thread: each series is encoded for it."""
    part: list[ForecastTarget] = []
    size = 0
    for subject in task:
        more = len(_ASKS.encode(subject))
        if part and size + more > _FIT_BYTES:
            yield part
            part, size = [], 0
        part.append(subject)
        size += more
    yield part


async def _in_turn(
    tasks: Sequence[list[ForecastTarget]], width: int, work: Callable[[list[ForecastTarget]], Awaitable[str | None]]
) -> tuple[str, ...]:
    """
    The problems of the tasks. width: the number of tasks at a time.

    A task is encoded when its turn comes: encoding hundreds of them at once would delay the loop.
    """
    waiting = deque(tasks)
    problems: list[str] = []

    async def work_on() -> None:
        while waiting:
            problem = await work(waiting.popleft())
            if problem:
                problems.append(problem)

    await asyncio.gather(*(work_on() for _ in range(min(width, len(waiting)))))
    return tuple(problems)
