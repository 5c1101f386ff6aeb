"""What happens to the history's file while it is open."""

import asyncio

import pytest
from model_api import ModelApi, ModelClient

from cronhpa.history.database import Fault, StoreError
from cronhpa.history.series import LoadSample, RecordedBatch, Series
from cronhpa.history.store import Store
from cronhpa.operator import app
from cronhpa.operator.app import Operator
from cronhpa.operator.settings import Settings

SERIES = Series("prod", "shop", "cpu")


def vanish(path):
    path.unlink()


def replace(path):
    other = path.with_name("other.db")
    Store(other).close()
    other.rename(path)


@pytest.mark.parametrize("befall", [vanish, replace])
def test_a_file_that_is_gone_is_noticed_and_opened_anew(tmp_path, monkeypatch, befall):
    """Else what is measured goes to a file without a name, and is lost with the process."""
    monkeypatch.setattr(app, "_FLUSH_SECONDS", 0.01)
    path = tmp_path / "history.db"
    operator = Operator(Settings(store=path), ModelClient(ModelApi()))

    async def scenario():
        keeping = asyncio.create_task(operator._keep_history())
        while not path.exists():  # noqa: ASYNC110 - a thread makes it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        befall(path)
        with pytest.raises(StoreError, match="removed or replaced"):
            await asyncio.wait_for(keeping, 5)
        operator._cycle.loads.append(LoadSample(SERIES, 10**18, 3.0))
        again = asyncio.create_task(operator._keep_history())
        await asyncio.sleep(0.3)
        again.cancel()

    asyncio.run(scenario())

    assert [SERIES] == Store(path).loads.series()


def test_what_keeps_the_history_from_being_written_is_told_once(tmp_path, monkeypatch, caplog):
    """Not every five seconds for as long as a disk is full; and anew when it is full again."""
    operator = Operator(Settings(store=tmp_path / "history.db"), ModelClient(ModelApi()))
    operator._store = Store(tmp_path / "history.db")
    answers = iter([Fault("disk full"), Fault("disk full"), RecordedBatch(1), Fault("disk full")])
    monkeypatch.setattr(operator._store.loads, "record", lambda _: next(answers))

    async def scenario():
        for _ in range(4):
            operator._cycle.loads.append(LoadSample(SERIES, 10**18, 3.0))
            await operator._flush_loads()

    asyncio.run(scenario())

    assert 2 == sum("disk full" in record.message for record in caplog.records)
