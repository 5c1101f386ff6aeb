"""
The operator's forecasts: when workers fit and forecast which series, and the newest answers in memory.

The controller process never imports pandas, numpy or a method, which would cost 200 MB and seconds. No worker can delay
or break a decision: a worker that hangs or dies costs its own forecasts and is replaced.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import MILLISECOND, MINUTE, SECOND, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.spec import Spec
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
from cronhpa.history.address import PostgresAddress, StoreAddress
from cronhpa.history.database import StoreError
from cronhpa.history.fits import FitInfo
from cronhpa.history.series import Series
from cronhpa.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

# A task of so many forecasts takes about a tenth of a second: a crash costs little.
FORECASTS_PER_TASK = 120
# A day's fit takes a hundred times as long as a forecast from it.
FITS_PER_TASK = 10
# A cluster takes many at once; the process that waits for it holds 65 kB of history for each.
_FITS_PER_CLUSTER_TASK = 500
# A series whose task failed alone waits for so long: a fit that hangs would occupy its worker again and again.
_RETRY_AFTER: Nanoseconds = 10 * MINUTE
# A series with too little history is tried again after ten seconds, so that an imported past counts at once, and later
# by the 5 ms that each of several such series takes.
_FIT_AGAIN: Nanoseconds = 10 * SECOND
_FIT_AGAIN_EACH: Nanoseconds = 5 * MILLISECOND
# A series that nobody asks for is kept for so long: an answer that was under way would bring it back.
_FORGOTTEN_AFTER: Nanoseconds = 10 * MINUTE
WORKER_NEEDS = ("numpy",)

# Requests hold specs, and specs hold instants of the years 1 to 9999, beyond the integers of MessagePack.
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

    `latest` answers from memory and never waits; `refresh` and `fit` ask the workers. A restarted operator begins with
    the forecasts that the store kept, with their issue times: the caller judges their age. `problems` are the errors of
    the last rounds, in sentences for people.
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
        workers: they fit and forecast, and read the store. None: one process of our own.
        cluster: on which fits are computed. A second process waits for it, so that forecasts do not.
        deadline_seconds, fit_deadline_seconds: of a task of several series, with the start of its worker.
        share_percent: of a worker's time, the most that fits may take.
        on_first: called with every series that gets its first forecast.
        by_whom: text to append to "has not been forecast yet".
        forecast_task, fit_task: what the workers run, functions that a new process can import by their names.
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
        self._told = store if isinstance(store, PostgresAddress) else str(store)
        self._forecast_task = forecast_task
        self._fit_task = fit_task
        self._latest: dict[Series, Forecast | Absent] = {}
        self._fits: dict[Series, FitInfo] = {}
        self._digests: dict[Series, tuple[Spec, str]] = {}
        # Series of a task that failed, and when they may be asked for again.
        self._suspects: dict[Series, Nanoseconds] = {}
        # Series with too little history, and when they are looked at again.
        self._next_fit_at: dict[Series, Nanoseconds] = {}
        self._wanted_at: dict[Series, Nanoseconds] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        self._refreshing, self._fitting = asyncio.Lock(), asyncio.Lock()
        # Why the store cannot be opened, found by a task: the other tasks of its round would each wait in vain.
        self._unopened = {"forecast": "", "fit": ""}
        self._load_file()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(problem for found in self._problems.values() for problem in found))

    def latest(self, series: Series) -> Forecast | Absent:
        """The newest forecast of a series, however old, or why there is none."""
        unknown = Absent("Learning", f"{series.metric} has not been forecast yet{self._by_whom}")
        return self._latest.get(series, unknown)

    async def load(self, store: Store) -> None:
        """
        Take over the forecasts and fits of a store, which another replica may have written. Raises StoreError.

        Of two forecasts of a series the newer one stays. A forecast that the store no longer has is forgotten.
        """
        forecasts, fits = await asyncio.to_thread(lambda: (store.forecasts.newest(), store.fits.infos()))
        for series in [one for one, known in self._latest.items() if isinstance(known, Forecast)]:
            if series not in forecasts:
                del self._latest[series]
        for series, kept in forecasts.items():
            known = self._latest.get(series)
            if not isinstance(known, Forecast) or known.issued_at < kept.issued_at:
                self._latest[series] = kept
        self._fits = fits

    async def refresh(self, subjects: Iterable[ForecastTarget], now: Nanoseconds) -> None:
        """
        Forecast the subjects that were fitted. A series that cannot be forecast keeps its last, aging forecast.

        After a task failed, each of its series gets a task of its own until it succeeds: a series that kills the worker
        costs the others one round.
        """
        async with self._refreshing:
            wanted = {each.series: each for each in subjects}
            self._forget_unwanted(wanted, now)
            if self._abstained(wanted):
                return
            self._unopened["forecast"] = ""
            fitted = [each for series, each in wanted.items() if self._may_be_forecast(series)]
            tasks = self._split(fitted, FORECASTS_PER_TASK, now)
            self._problems["forecast"] = await _in_turn(
                tasks, self._workers.width, lambda task: self._refresh(task, now)
            )

    async def fit(self, subjects: Iterable[ForecastTarget], now: Nanoseconds) -> None:
        """Fit the series that are due, and forecast them at once."""
        async with self._fitting:
            wanted = {each.series: each for each in subjects}
            if self._abstained(wanted):
                return
            self._unopened["fit"] = ""
            chosen = [
                each
                for each in await asyncio.to_thread(self._due, wanted, now)
                if _has_come(self._next_fit_at.get(each.series, now), now)
            ]
            tasks = self._split(chosen, FITS_PER_TASK if self._cluster is None else _FITS_PER_CLUSTER_TASK, now)
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
        """Forget series that were not wanted for ten minutes: the object was deleted, or names another metric."""
        for series in (*self._latest, *self._fits, *self._suspects, *self._next_fit_at, *self._digests):
            # A series from the store waits as long for its object to be listed.
            self._wanted_at.setdefault(series, now)
        self._wanted_at.update(dict.fromkeys(wanted, now))
        # After the clock was set back no series was wanted in the future.
        self._wanted_at = {series: min(at, now) for series, at in self._wanted_at.items()}
        for series in [one for one, at in self._wanted_at.items() if now - at >= _FORGOTTEN_AFTER]:
            self.forget(series)

    async def close(self) -> None:
        """End the workers, whatever they are doing."""
        await self._workers.close()
        await self._fit_workers.close()

    def _load_file(self) -> None:
        """Read the store if it is a file. A PostgreSQL is read by `load`, because it may keep its readers waiting."""
        if isinstance(self._store, PostgresAddress) or not self._store.exists():
            return
        try:
            store = Store(self._store)
        except StoreError as problem:
            self._problems["store"] = (str(problem),)
            return
        try:
            self._latest.update(store.forecasts.newest())
            self._fits.update(store.fits.infos())
        except (StoreError, msgspec.MsgspecError, TypeError, ValueError) as problem:
            # Somebody else may have written anything into the file: what cannot be read is fitted again.
            self._problems["store"] = (str(problem),)
        finally:
            store.close()

    def _abstained(self, series: Iterable[Series]) -> bool:
        """Whether all of these series abstain because a package that the workers need is not installed."""
        missing = [name for name in WORKER_NEEDS if importlib.util.find_spec(name) is None]
        if not missing:
            return False
        verb = "is" if len(missing) == 1 else "are"
        message = f"{' and '.join(missing)} {verb} not installed: install cronhpa[forecast] where the operator runs"
        self._latest.update({each: Absent("NotInstalled", message) for each in series})
        self._problems["store"] = (message,)
        return True

    def _may_be_forecast(self, series: Series) -> bool:
        """Whether there is a fit with something to gain; one without says nothing until the next."""
        latest = self._latest.get(series)
        is_idle = isinstance(latest, Absent) and latest.reason == NOTHING_TO_GAIN
        return series in self._fits and not is_idle

    def _due(self, wanted: dict[Series, ForecastTarget], now: Nanoseconds) -> list[ForecastTarget]:
        """Those whose turn it is. In a thread: 10,000 digests take half a second once, and are kept."""
        for series, subject in wanted.items():
            known = self._digests.get(series)
            if known is None or known[0] is not subject.spec:
                self._digests[series] = (subject.spec, digest(subject.spec))
        return [wanted[each] for each in due({each: self._digests[each][1] for each in wanted}, self._fits, now)]

    def _split(self, subjects: Sequence[ForecastTarget], size: int, now: Nanoseconds) -> list[list[ForecastTarget]]:
        """Tasks of the trusted series, in their order; then a task for each suspect that may be retried now."""
        trusted = [each for each in subjects if each.series not in self._suspects]
        tasks = [trusted[i : i + size] for i in range(0, len(trusted), size)]
        suspects = [each for each in subjects if each.series in self._suspects]
        return tasks + [[each] for each in suspects if _has_come(self._suspects[each.series], now)]

    async def _refresh(self, task: list[ForecastTarget], now: Nanoseconds) -> str | None:
        """Why the forecasts, or the storing of them, failed; None where they did not."""
        if self._unopened["forecast"]:
            return self._note_unopened(task, self._unopened["forecast"])
        ask = _ASKS.encode(WorkerRequest(self._told, task, now))
        began = self._monotonic()
        try:
            found = _ANSWERS.decode(await self._workers.run(self._forecast_task, ask, self._deadline_seconds))
        except (WorkerError, msgspec.MsgspecError) as problem:
            self.work.forecast_failures += len(task)
            return self._suspect(task, "forecast", str(problem), now)
        finally:
            self.work.forecast_seconds += self._monotonic() - began
        self._trust(task)
        if found.fault is not None and not found.answers:
            self._unopened["forecast"] = found.fault.message
            return self._note_unopened(task, found.fault.message)
        for series, value in found.answers:
            is_first = isinstance(value, Forecast) and not isinstance(self._latest.get(series), Forecast)
            self._latest[series] = value
            self.work.forecasts += isinstance(value, Forecast)
            if is_first:
                self._on_first(series)
        return found.fault.message if found.fault else None

    async def _fit_and_rest(self, task: list[ForecastTarget], now: Nanoseconds) -> str | None:
        began = self._monotonic()
        try:
            problem = await self._fit(task, now)
        finally:
            self.work.waiting -= len(task)
        await asyncio.sleep((self._monotonic() - began) * (100 / self._share_percent - 1))
        return problem

    async def _fit(self, task: list[ForecastTarget], now: Nanoseconds) -> str | None:
        """Why the fits, or the storing of them, failed; None if they did not."""
        if self._unopened["fit"]:
            return self._note_unopened(task, self._unopened["fit"])
        began = self._monotonic()
        try:
            ask = _ASKS.encode(WorkerRequest(self._told, task, now, self._cluster))
            answer = await self._fit_workers.run(self._fit_task, ask, self._fit_deadline_seconds)
            found = _FITS.decode(answer)
        except (WorkerError, msgspec.MsgspecError) as error:
            self.work.fit_failures += len(task)
            return self._suspect(task, "fit", str(error), now)
        finally:
            self.work.fit_seconds += self._monotonic() - began
        self._trust(task)
        if found.fault is not None and not found.fits and not found.absent:
            self._unopened["fit"] = found.fault.message
            return self._note_unopened(task, found.fault.message)
        fits = dict(found.fits)
        if found.fault is not None:
            # A fit that could not be kept is of no use to a forecast: what there was stays, and it is made again.
            self._next_fit_at.update(dict.fromkeys(fits, now + _RETRY_AFTER))
            fits = {}
        self._fits.update(fits)
        self.work.fits += len(fits)
        for series in fits:
            self._next_fit_at.pop(series, None)
        for series, absent in found.absent:
            self._fits.pop(series, None)
            self._latest[series] = absent
            self._next_fit_at[series] = now + _FIT_AGAIN + len(self._next_fit_at) * _FIT_AGAIN_EACH
        fitted = [each for each in task if each.series in fits]
        problem = await self._refresh(fitted, now) if fitted else None
        return found.fault.message if found.fault else problem

    def _trust(self, task: list[ForecastTarget]) -> None:
        for each in task:
            self._suspects.pop(each.series, None)

    def _suspect(self, task: list[ForecastTarget], what: str, why: str, now: Nanoseconds) -> str:
        """Remember a failed task. A series that has a forecast keeps it; one that has none says why."""
        for each in task:
            self._suspects[each.series] = now if len(task) > 1 else now + _RETRY_AFTER
        self._explain(task, why)
        others = f" and {len(task) - 1} more" if len(task) > 1 else ""
        return f"{what} of {task[0].series}{others}: {why}"

    def _note_unopened(self, task: list[ForecastTarget], why: str) -> str:
        """No series is suspected: the store is none's fault, and all go on together once it can be opened."""
        self._explain(task, why)
        return why

    def _explain(self, task: list[ForecastTarget], why: str) -> None:
        """Why there is no forecast, for those that have none from before."""
        for each in task:
            if not isinstance(self._latest.get(each.series), Forecast):
                message = f"{each.series.metric} could not be forecast: {why}"
                self._latest[each.series] = Absent("ForecastFailed", message)


def _has_come(at: Nanoseconds, now: Nanoseconds) -> bool:
    """Whether it is time; what lies further ahead than anything is put off was put off before a clock stepped back."""
    return at <= now or at > now + _RETRY_AFTER


async def _in_turn(
    tasks: Sequence[list[ForecastTarget]], width: int, work: Callable[[list[ForecastTarget]], Awaitable[str | None]]
) -> tuple[str, ...]:
    """
    The problems that came up while so many tasks at a time were worked on.

    A task is written down when its turn comes, a millisecond each: 200 of them at once would hold up the loop.
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
