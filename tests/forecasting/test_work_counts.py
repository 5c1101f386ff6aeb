"""cronhpa.forecasting.work_counts: what the service has its workers do is counted, and what fails is, too."""

from __future__ import annotations

import msgspec

from cronhpa.core.model.spec import ForecastSettings, Spec, TargetRef
from cronhpa.forecasting.messages import FitResponse, ForecastResponse, ForecastTarget, WorkerRequest, digest
from cronhpa.forecasting.pool import WorkerError
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.database.series import Series
from cronhpa.history.load.fits import FitInfo

WEB, API = (Series("shop", name, "cpu") for name in ("web", "api"))


class Workers:
    """Workers that take two seconds for a task, fit and forecast all, or fail at all."""

    width = 1

    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_broken = False
        self.waiting: list[int] = []
        self.service: ForecastService | None = None

    async def run(self, task, payload, _seconds):
        self.seconds += 2.0
        self.waiting.append(self.service.work.waiting)
        if self.is_broken:
            raise WorkerError("the worker process died")
        asked = msgspec.json.decode(payload, type=WorkerRequest)
        if task == "fit":
            fitted = [(subject.series, FitInfo(asked.now, digest(subject.spec))) for subject in asked.subjects]
            return msgspec.msgpack.encode(FitResponse(fitted, [], None))
        return msgspec.msgpack.encode(ForecastResponse([], None))

    async def close(self):
        pass


def targets():
    spec = Spec(TargetRef("apps/v1", "Deployment", "web"), 1, 9, forecast=ForecastSettings())
    return [ForecastTarget(series, spec) for series in (WEB, API)]


def service(tmp_path, workers):
    made = ForecastService(
        tmp_path / "none.db", lambda: workers.seconds, workers=workers, fit_task="fit", forecast_task="forecast"
    )
    workers.service = made
    return made


async def test_two_objects_that_are_fitted_and_forecast_are_counted_with_the_time_they_took(tmp_path):
    """A task of two fits, 2 s, and a task of their forecasts, 2 s: nobody waits at the end."""
    workers = Workers()
    made = service(tmp_path, workers)
    await made.fit(targets(), 0)

    assert (2, 0, 0) == (made.work.fits, made.work.fit_failures, made.work.forecast_failures)
    assert (2.0, 2.0) == (made.work.fit_seconds, made.work.forecast_seconds)
    assert ([2, 2], 0) == (workers.waiting, made.work.waiting)


async def test_objects_of_a_task_that_fails_are_failures_and_wait_no_more(tmp_path):
    workers = Workers()
    workers.is_broken = True
    made = service(tmp_path, workers)
    await made.fit(targets(), 0)

    assert (0, 2, 0) == (made.work.fits, made.work.fit_failures, made.work.waiting)
