"""cronhpa.operator.learning: a history file that is removed or replaced while it is open."""

import asyncio
import time
from collections import deque
from types import SimpleNamespace

import pytest

from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.database.series import LoadSample, RecordedBatch, Series
from cronhpa.history.store import Store
from cronhpa.kube.clock import Clock
from cronhpa.operator.learning import Learning, LearningPauses
from cronhpa.operator.loop.budget_trackers import BudgetTrackers

SERIES = Series("prod", "shop", "cpu")
SAMPLE = LoadSample(SERIES, 10**18, 3.0)


def learning(path, loads, **more):
    """The keeping of a history, without anything that forecasts."""
    clock, pauses = Clock(time.time_ns, time.monotonic), LearningPauses(flush=0.01)
    return Learning(path, clock, None, objects=(), loads=loads, budgets=BudgetTrackers(), pauses=pauses, **more)


def vanish(path):
    path.unlink()


def replace(path):
    other = path.with_name("other.db")
    Store(other).close()
    other.rename(path)


@pytest.mark.parametrize("befall", [vanish, replace])
def test_a_file_that_is_gone_is_noticed_and_opened_anew(tmp_path, befall):
    """Else what is measured goes to a file without a name, and is lost with the process."""
    path = tmp_path / "history.db"
    loads = deque()
    keeper = learning(path, loads)

    async def scenario():
        keeping = asyncio.create_task(keeper.keep_history())
        while not keeper.is_open:  # noqa: ASYNC110 - a thread opens it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        befall(path)
        with pytest.raises(StoreError, match="removed or replaced"):
            await asyncio.wait_for(keeping, 60)
        loads.append(SAMPLE)
        again = asyncio.create_task(keeper.keep_history())
        await asyncio.sleep(0.3)
        again.cancel()

    asyncio.run(scenario())

    assert [SERIES] == Store(path).loads.series()


class FullDisk:
    """A store whose answers are given: a fault, or that the loads were recorded."""

    def __init__(self, *answers):
        self._answers = iter(answers)
        self.loads = SimpleNamespace(record=lambda _: next(self._answers))
        self.spend = SimpleNamespace(since=lambda _: [])


def test_what_keeps_the_history_from_being_written_is_told_once(tmp_path, caplog):
    """Not every five seconds for as long as a disk is full; and anew when it is full again."""
    full = Fault("disk full")
    store = FullDisk(full, full, RecordedBatch(1), full)
    loads = deque()
    keeper = learning(tmp_path / "history.db", loads, open_store=lambda _: store)

    async def scenario():
        keeping = asyncio.create_task(keeper.keep_history())
        while not keeper.is_open:  # noqa: ASYNC110 - a thread opens it
            await asyncio.sleep(0)
        keeping.cancel()
        for _ in range(4):
            loads.append(SAMPLE)
            await keeper.flush()

    asyncio.run(scenario())

    assert 2 == sum("disk full" in record.message for record in caplog.records)
