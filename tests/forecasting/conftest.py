"""What tests of the operator's side ask for: a path of a store, and services that are closed at the end."""

import time

import pytest

from cronhpa.forecasting.service import ForecastService
from forecasting.worker_tasks import fits_all


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


@pytest.fixture
async def made():
    """A way to make forecast services that are closed at the end."""
    open_ones = []

    def make(path, **settings):
        settings = {"fit_task": fits_all, **settings}
        open_ones.append(ForecastService(path, time.monotonic, **settings))
        return open_ones[-1]

    yield make
    for database in open_ones:
        await database.close()
