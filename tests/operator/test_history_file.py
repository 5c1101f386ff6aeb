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
        assert not keeper.is_open
        again = asyncio.create_task(keeper.keep_history())
        async with asyncio.timeout(60):
            for _ in range(2):  # the second one is taken once the first one is written
                loads.append(SAMPLE)
                while loads:  # noqa: ASYNC110 - a thread writes them
                    await asyncio.sleep(0.01)
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


def test_loads_wait_while_the_store_cannot_be_written_and_the_oldest_give_way(tmp_path):
    """
    Room for three. Found: what the store refused was lost, so that minutes of a database that was down were gaps in the
    past of every object.
    """
    store, recorded = FullDisk(), []
    answers = iter([Fault("down"), Fault("down"), RecordedBatch(3)])

    def record(batch):
        answer = next(answers)
        recorded.extend(batch if isinstance(answer, RecordedBatch) else ())
        return answer

    store.loads.record = record
    loads = deque(maxlen=3)
    keeper = learning(tmp_path / "history.db", loads, open_store=lambda _: store)

    async def scenario():
        keeping = asyncio.create_task(keeper.keep_history())
        while not keeper.is_open:  # noqa: ASYNC110 - a thread opens it
            await asyncio.sleep(0)
        keeping.cancel()
        for first in (0, 2, 4):
            loads.extend(LoadSample(SERIES, 10**18 + number, 3.0) for number in (first, first + 1))
            await keeper.flush()

    asyncio.run(scenario())

    assert [3, 4, 5] == [sample.at - 10**18 for sample in recorded]
    assert not loads


def test_loads_that_come_while_others_are_refused_stay_behind_them(tmp_path):
    """Two wait, and two more come while the store is asked: of the four there is room for three."""
    loads, store = deque(maxlen=3), FullDisk()
    keeper = learning(tmp_path / "history.db", loads, open_store=lambda _: store)

    def refuse(_):
        loads.extend(LoadSample(SERIES, number, 3.0) for number in (2, 3))
        return Fault("down")

    store.loads.record = refuse

    async def scenario():
        keeping = asyncio.create_task(keeper.keep_history())
        while not keeper.is_open:  # noqa: ASYNC110 - a thread opens it
            await asyncio.sleep(0)
        keeping.cancel()
        loads.extend(LoadSample(SERIES, number, 3.0) for number in (0, 1))
        await keeper.flush()

    asyncio.run(scenario())

    assert [1, 2, 3] == [sample.at for sample in loads]
