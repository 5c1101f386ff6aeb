"""cronhpa.operator.learning: over a PostgreSQL, data of a replica that begins to decide, and faults."""

import asyncio
import socket
import time
from collections import deque
from contextlib import asynccontextmanager, closing
from itertools import count

import pytest

from core.situations import forecast, spec
from cronhpa.core.forecasts.budget import PodHour
from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings
from cronhpa.forecasting.messages import ForecastTarget
from cronhpa.forecasting.service import ForecastService
from cronhpa.history.database.address import PostgresAddress
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.load.spend import Spend
from cronhpa.history.store import Store
from cronhpa.kube.clock import Clock
from cronhpa.operator.learning import Learning, LearningPauses
from cronhpa.operator.loop.budget_trackers import BudgetTrackers

SHOP = Series("prod", "shop", "requests")
ALLOWED = spec(forecast=ForecastSettings(budget_percent=5))


def made_now(cores=3.5):
    now = time.time_ns()
    return forecast(cores, cores, metric="requests", issued_at=now, start=now)


class Replica:
    """The learning of one operator, which leads when the test says so."""

    def __init__(self, address, **pauses):
        self.leads = False
        self.on_look = lambda: None
        self.loads = deque()
        self.budgets = BudgetTrackers()
        self.service = ForecastService(address, time.monotonic)
        self.learning = Learning(
            address,
            Clock(time.time_ns, time.monotonic),
            self.service,
            objects=(),
            loads=self.loads,
            budgets=self.budgets,
            is_leading=self.look,
            pauses=LearningPauses(**{"flush": 0.02, "forecast": 0.05, "idle": 0.02, "restart": 0.1, **pauses}),
        )

    def look(self):
        """Learning looks who leads."""
        self.on_look()
        return self.leads

    def knows_a_forecast(self):
        return not isinstance(self.service.latest(SHOP), Absent)


# An hour that is over. Of a week of such hours 6,048,000 pod-seconds are expected: 168 times 36,000.
BASE = 36_000.0


def permille(budgets, minutes=0):
    """The used budget of the last seven days, `minutes` from now; it is computed once a minute."""
    budgets.limit(SHOP, ALLOWED, made_now(), time.time_ns() + minutes * MINUTE)
    return budgets.used_permille(SHOP)


@asynccontextmanager
async def running(*replicas):
    tasks = []
    for name, part in [part for replica in replicas for part in replica.learning.working()]:
        if name == "history":
            tasks.append(asyncio.create_task(part))
        else:
            part.close()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.fixture
def address(new_schema):
    return new_schema()


async def test_a_replica_that_waits_has_the_forecasts_of_the_leader_before_it_leads(address):
    """So its first decision has the floor, and needs no database."""
    waiting = Replica(address)
    with closing(Store(address)) as leader:
        leader.fits.save(Fit("m", 1, 1, b""), {SHOP: FitInfo(1)})
        async with running(waiting):
            first = made_now()
            leader.forecasts.save([(SHOP, first)])
            await until(waiting.knows_a_forecast)
            assert first == waiting.service.latest(SHOP)

            newer = made_now(4.5)
            leader.forecasts.save([(SHOP, newer)])
            await until(lambda: newer == waiting.service.latest(SHOP))

            waiting.leads = True
            await until(lambda: waiting.learning.is_open)
            assert newer == waiting.service.latest(SHOP)


async def test_a_new_process_waits_for_what_others_learnt_and_no_longer_than_it_may(address):
    with closing(Store(address)) as leader:
        leader.forecasts.save([(SHOP, made_now())])
    fresh = Replica(address)
    fresh.leads = True
    async with running(fresh):
        await fresh.learning.first_look()
        assert fresh.knows_a_forecast()
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/x?connect_timeout=600"
        mute = Replica(PostgresAddress(url), first_look=0.2)
        mute.leads = True
        async with running(mute):
            # The connection is given up after ten minutes; a decision does not wait for that.
            async with asyncio.timeout(60):
                await mute.learning.first_look()
            assert not mute.knows_a_forecast()
            silent.close()


async def test_terms_that_begin_again_and_again_count_no_spend_twice(address):
    """360,000 pod-seconds by one leader are 60 permille of a week; 180,000 more by another make 89."""
    hour = time.time_ns() // HOUR - 1
    one, other = Replica(address), Replica(address)
    async with running(one, other):
        one.leads = True
        await until(lambda: one.learning.is_open)
        one.budgets.restore([Spend(SHOP, hour, 360_000.0, BASE)])
        await until(lambda: stored(address) == [Spend(SHOP, hour, 360_000.0, BASE)])
        for leader, follower in ((other, one), (one, other), (other, one)):
            follower.leads = False
            await until(lambda follower=follower: not follower.learning.is_open)
            leader.leads = True
            await until(lambda leader=leader: leader.learning.is_open)
        assert (60, 60) == (permille(one.budgets), permille(other.budgets))

        other.budgets.restore([Spend(SHOP, hour, 180_000.0, 0.0)])
        await until(lambda: stored(address) == [Spend(SHOP, hour, 540_000.0, BASE)])
        minutes = count(2, 2)
        await until(lambda: permille(one.budgets, next(minutes) % 40) == 89)


def test_hours_are_restated_in_any_order_and_the_last_week_is_kept():
    tracker = BudgetTracker()
    tracker.add(1000, PodHour(1.0, 10.0))

    for _ in range(2):
        tracker.restate({1001: PodHour(2.0, 20.0), 1000: PodHour(3.0, 30.0), 833: PodHour(4.0, 40.0)})
        tracker.add(1001, PodHour())

    assert {1000: PodHour(3.0, 30.0), 1001: PodHour(2.0, 20.0)} == tracker.hours
    assert [1000, 1001] == list(tracker.hours)


def test_what_is_not_stored_yet_comes_on_top_of_what_is():
    """100,000 stored and 50,000 not: 25 permille of a week, however often the store is read."""
    hour = time.time_ns() // HOUR - 1
    budgets = BudgetTrackers()
    budgets.restore([Spend(SHOP, hour, 50_000.0, 0.0)])

    for _ in range(3):
        budgets.load([Spend(SHOP, hour, 100_000.0, BASE)])

    assert 25 == permille(budgets)
    assert [Spend(SHOP, hour, 50_000.0, 0.0)] == budgets.drain()


async def test_a_replica_that_waits_makes_and_migrates_nothing(address):
    """In a rolling update the leader is of the older release."""
    waiting = Replica(address)
    async with running(waiting):
        await waiting.learning.first_look()
        with pytest.raises(StoreError, match="it has no tables of cronhpa"):
            Store.open_to_read(address)


async def test_loads_that_a_replica_saw_are_stored_before_another_one_leads(address):
    one = Replica(address)
    one.leads = True
    async with running(one):
        await until(lambda: one.learning.is_open)
        one.loads.append(LoadSample(SHOP, time.time_ns(), 3.0))
        one.leads = False
        await until(lambda: not one.learning.is_open)

        with closing(Store.open_to_read(address)) as store:
            assert [SHOP] == store.loads.series()


async def test_loads_that_are_told_a_moment_after_the_end_of_a_term_are_stored(address):
    """Who was told first that it leads no more, the reconciliations or the history, is chance: here the history is."""
    one, told = Replica(address), []
    one.leads = True

    def look():
        if not one.leads and not told:
            told.append(LoadSample(SHOP, time.time_ns(), 3.0))
            asyncio.get_running_loop().call_soon(one.loads.append, told[0])

    one.on_look = look
    async with running(one):
        await until(lambda: one.learning.is_open)
        one.leads = False
        await until(lambda: told and not one.learning.is_open)

        assert not one.loads
        with closing(Store.open_to_read(address)) as store:
            assert [SHOP] == store.loads.series()


async def test_a_database_that_is_down_at_the_start_is_named_once_and_found_when_it_is_back(address, caplog):
    down = Replica(PostgresAddress("postgresql://app:geheim@127.0.0.1:1/x"))
    async with running(down):
        await until(lambda: "127.0.0.1:1" in caplog.text)
        await asyncio.sleep(0.3)

    assert "geheim" not in caplog.text
    assert 1 == sum("127.0.0.1:1/x" in record.message for record in caplog.records)


class DownPool:
    """Workers that cannot open the store."""

    width = 2

    def __init__(self):
        self.asked = 0

    async def run(self, task, payload, _seconds):
        self.asked += 1
        await asyncio.sleep(0)
        return task(payload)

    async def close(self):
        pass


async def test_a_store_that_is_down_stops_a_round_of_forecasts_and_suspects_no_object():
    """Of 1,000 objects in 20 tasks two are under way when it is noticed; the next round asks for fifty again."""
    pool = DownPool()
    service = ForecastService(PostgresAddress("postgresql://127.0.0.1:1/x"), time.monotonic, workers=pool)
    targets = [ForecastTarget(Series("prod", f"shop-{i}", "requests"), ALLOWED) for i in range(1000)]
    now = 1_800_000_000 * SECOND

    await service.fit(targets, now)
    first = pool.asked
    await service.fit(targets, now + SECOND)

    assert (2, 4) == (first, pool.asked)
    assert 1 == len(service.problems)
    answers = {service.latest(target.series) for target in targets}
    assert {"ForecastFailed"} == {answer.reason for answer in answers}
    assert all("127.0.0.1:1" in answer.message for answer in answers)


async def test_a_forecast_that_is_older_than_the_known_one_is_not_taken_over(address):
    service = ForecastService(address, time.monotonic)
    with closing(Store(address)) as store:
        older, newer = made_now(1.0), made_now(2.0)
        store.forecasts.save([(SHOP, newer)])
        await service.load(store)
        store.forecasts.save([(SHOP, older)])
        await service.load(store)

        assert newer == service.latest(SHOP)


def stored(address):
    with closing(Store.open_to_read(address)) as store:
        return store.spend.since(0)


async def test_who_takes_a_shard_reads_what_another_replica_learnt_of_it(address):
    """With shards both decide, each for its own: nobody follows."""
    one, other = Replica(address), Replica(address)
    one.leads = other.leads = True
    hour = time.time_ns() // HOUR - 1
    async with running(one, other):
        await until(lambda: one.learning.is_open and other.learning.is_open)
        with closing(Store(address)) as store:
            store.fits.save(Fit("m", 1, 1, b""), {SHOP: FitInfo(1)})
            store.forecasts.save([(SHOP, made_now())])
        other.budgets.restore([Spend(SHOP, hour, 360_000.0, BASE)])
        await until(lambda: stored(address) == [Spend(SHOP, hour, 360_000.0, BASE)])
        assert not one.knows_a_forecast()

        one.learning.read_again()

        await until(one.knows_a_forecast)
        await until(lambda: permille(one.budgets) == 60)
