"""cronhpa.forecasting.pool: what a worker process is, what it imports, and when it ends."""

import os
import subprocess
import sys
import time

import pytest

from cronhpa.core.model.forecast import Forecast
from cronhpa.forecasting import service as module
from cronhpa.forecasting.pool import ProcessPool
from cronhpa.history.database.series import Series
from forecasting.worker_tasks import MIDNIGHT, WEB, is_running, subjects, tells_its_environment


async def test_the_worker_is_nice_and_has_one_thread_for_algebra_before_numpy_is_there(path, made):
    forecaster = made(path, forecast_task=tells_its_environment)

    await forecaster.fit(subjects(WEB), MIDNIGHT)

    niceness = min(os.nice(0) + 10, 19)
    assert isinstance(forecaster.latest(Series(f"1/{niceness}/no numpy", "", "cpu")), Forecast)


async def test_without_the_forecast_extra_it_abstains_and_says_what_to_install(path, made, monkeypatch):
    monkeypatch.setattr(module, "WORKER_NEEDS", ("msgspec", "no_such_package"))
    workers = ProcessPool(1)
    forecaster = made(path, workers=workers)

    await forecaster.fit(subjects(WEB), MIDNIGHT)

    assert "NotInstalled" == forecaster.latest(WEB).reason
    assert "no_such_package is not installed: install cronhpa[forecast]" in forecaster.latest(WEB).message
    assert () == workers.pids


@pytest.mark.slow
def test_the_controller_imports_no_pandas_numpy_or_method():
    services = ("forecasting.service", "history.database.database", "history.imports.files")
    modules = ", ".join(f"cronhpa.{name}" for name in (*services, "cli.commands.history", "operator.app"))
    unwanted = {"pandas", "numpy", "scipy", "statsmodels", "distributed", "pyarrow", "cronhpa_models"}
    check = f"import sys, {modules}; print(sorted({unwanted} & set(sys.modules)))"

    assert "[]\n" == subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True).stdout


def test_the_worker_imports_pandas_and_statsmodels_only_for_a_method_that_needs_them():
    """They would take a second and 120 MB of each worker; the operator's own methods need neither."""
    check = (
        "import sys, cronhpa.forecasting.worker; print(sorted({'pandas', 'statsmodels', 'scipy'} & set(sys.modules)))"
    )

    assert "[]\n" == subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True).stdout


_OPERATOR = """
import asyncio, sys, time
from pathlib import Path
from cronhpa.core.model.spec import ForecastSettings, Spec, TargetRef
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.database.series import Series
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.pool import ProcessPool
async def main():
    workers = ProcessPool(1)
    forecaster = ForecastService(Path(sys.argv[1]), time.monotonic, workers=workers)
    web = Series("shop", "web", "cpu")
    spec = Spec(TargetRef("apps/v1", "Deployment", "web"), 1, 9, forecast=ForecastSettings())
    await forecaster.fit([ForecastTarget(web, spec)], 10**18)
    wanted = {"pandas", "numpy", "cronhpa_models"} & set(sys.modules)
    print(*workers.pids, forecaster.latest(web).reason, sorted(wanted), flush=True)
    await asyncio.sleep(60)
if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_worker_does_not_outlive_an_operator_that_was_killed(path, tmp_path):
    script = tmp_path / "as_operator.py"
    script.write_text(_OPERATOR)
    operator = subprocess.Popen([sys.executable, str(script), str(path)], stdout=subprocess.PIPE, text=True)
    pid, reason, modules = operator.stdout.readline().split(maxsplit=2)

    operator.kill()
    operator.wait()

    assert ("NoPodLoad", "[]\n") == (reason, modules)
    deadline = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(pid)
