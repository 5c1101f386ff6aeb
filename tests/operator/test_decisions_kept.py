"""cronhpa.operator.learning: decisions on their way to a store that is slow, full or damaged cost no decision."""

import asyncio
import json
import threading
import time
from collections import deque
from types import SimpleNamespace

import pytest
from lives import Life, ModelWatch, cronhpa, deployment, timeline, until
from model_api import START, ModelApi, ModelClient
from virtual_time import live

from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.history.database.database import Fault
from cronhpa.history.past.event_reports import PastReport, WaitingReports
from cronhpa.history.store import Store
from cronhpa.kube.clock import Clock
from cronhpa.operator.app import Operator
from cronhpa.operator.learning import Learning, LearningPauses
from cronhpa.operator.loop.budget_trackers import BudgetTrackers
from cronhpa.operator.settings import Settings
from cronhpa.operator.writes.decision_recorder import DecisionRecorder


def keeper(path, recorder, **more):
    clock, pauses = Clock(time.time_ns, time.monotonic), LearningPauses(flush=0.01)
    return Learning(
        path,
        clock,
        None,
        objects=(),
        loads=deque(),
        budgets=BudgetTrackers(),
        decisions=recorder,
        pauses=pauses,
        **more,
    )


def lived(then=None):
    """A life in which the load goes up and down; the recorder, with what was decided, and the scalings."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        cronhpa(api)
        async with Life(api) as life:
            recorder = life.controller.writer.decisions
            for load in (1000, 4000, 1000):
                api.load["prod", "shop"] = load
                await asyncio.sleep(400)
                if then is not None:
                    then(recorder)
            return recorder, timeline(api)

    return live(scenario)


async def flushed(learning, times=1):
    keeping = asyncio.create_task(learning.keep_history())
    while not learning.is_open:  # noqa: ASYNC110 - a thread opens it
        await asyncio.sleep(0.001)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    for _ in range(times):
        await learning.flush()


def test_what_was_decided_is_in_the_store_after_a_flush(tmp_path):
    path = tmp_path / "history.db"
    recorder, scalings = lived()

    asyncio.run(flushed(keeper(path, recorder)))

    store = Store.open_to_read(path)
    decisions = store.decisions.between("prod", "shop", 0, 2**62, 100)
    points = store.decisions.points("prod", "shop", 0, 2**62)
    store.close()
    assert len(scalings) <= len(decisions) == recorder.kept
    # A point every five minutes of twenty.
    assert 4 <= len(points) <= 5


@pytest.mark.parametrize("is_restarted", [False, True])
def test_explained_after_a_clock_that_was_ahead_each_hour_has_what_was_decided_in_it(tmp_path, is_restarted):
    """
    Right until 8:00, an hour ahead until 8:20, then right: 1 pod, from 8:10 on 4. Found: of 8:30 it was told that 1
    pod is in force, because the 4 had been decided by the wrong clock, at 9:10.
    """
    path, recorders = tmp_path / "history.db", []

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=1)
        api.load["prod", "shop"] = 500
        cronhpa(api, behavior={"scaleUp": {"policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]}})

        async def lived(seconds):
            async with Life(api) as life:
                recorders.append(life.controller.writer.decisions)
                await ahead_and_back(seconds)

        async def ahead_and_back(seconds):
            for second, offset, load in seconds:
                await until(second)
                api.clock_offset, api.load["prod", "shop"] = offset * SECOND, load

        steps = [(3600, 3600, 500), (4200, 3600, 2000), (4800, 0, 2000), (6000, 0, 2000)]
        if is_restarted:
            await lived(steps[:3])
            await lived(steps[3:])
        else:
            await lived(steps)

    live(scenario)
    for recorder in recorders:
        asyncio.run(flushed(keeper(path, recorder)))

    store = Store.open_to_read(path)
    found = {
        minute: json.loads(bytes(store.decisions.at("prod", "shop", START + minute * MINUTE).body))["status"]
        for minute in (59, 90, 99)
    }
    store.close()
    assert {59: 1, 90: 4, 99: 4} == {minute: status["desiredReplicas"] for minute, status in found.items()}


def test_reports_of_events_are_in_the_store_after_a_flush_and_wait_no_more(tmp_path):
    path, report = tmp_path / "history.db", PastReport("prod", "sale", 5, {"peakPods": 9})
    waiting = WaitingReports()
    waiting.add(report)

    asyncio.run(flushed(keeper(path, None, reports=waiting)))

    store = Store.open_to_read(path)
    kept = store.reports.newest()
    store.close()
    assert ([report], []) == (kept, list(waiting))


class Faulty:
    """A store of which each write of decisions gives the next of these answers, and then nothing."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.recorded = []
        self.spend = SimpleNamespace(since=lambda _: [])
        self.decisions = SimpleNamespace(record=self._record, record_points=lambda _: None, tidy=lambda _: None)

    def _record(self, kept):
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            self.recorded += kept
        return answer


def test_a_full_disk_is_told_once_and_what_was_decided_waits_for_room(tmp_path, caplog):
    recorder, _ = lived()
    full = Fault("disk full")
    store = Faulty(full, full, full)

    asyncio.run(flushed(keeper(tmp_path / "history.db", recorder, open_store=lambda _: store), times=4))

    instants = [change.decision.at for change in store.recorded]
    assert len(instants) > 2
    assert sorted(instants) == instants
    assert 1 == sum("disk full" in record.message for record in caplog.records)


def test_points_of_the_timeline_that_a_full_disk_refused_are_written_once_there_is_room(tmp_path):
    """Found: what the store refused was gone, and the timeline had a gap."""
    recorder, _ = lived()
    answers, written = [Fault("disk full"), Fault("disk full")], []
    store = Faulty()

    def record_points(points):
        if answers:
            return answers.pop()
        return written.extend(point.at for *_, point in points)

    store.decisions.record_points = record_points

    asyncio.run(flushed(keeper(tmp_path / "history.db", recorder, open_store=lambda _: store), times=3))

    assert 4 <= len(written) <= 5
    assert sorted(written) == written


def test_points_that_wait_for_a_full_disk_are_bounded_and_the_oldest_goes():
    full, _ = lived()
    recorder = DecisionRecorder(points_max=2)
    points = full.take_points(100)

    recorder.put_back_points(points)

    assert points[-2:] == recorder.take_points(100)
    assert len(points) - 2 == recorder.dropped["queue"]


def test_while_nothing_can_be_written_memory_is_bounded_and_what_is_lost_is_counted(tmp_path):
    full, _ = lived()
    changes = full.take(100)
    recorder = DecisionRecorder(
        bytes_max=sum(len(one.decision.body) + len(one.decision.inputs) for one in changes[-2:])
    )

    recorder.put_back(changes)

    assert changes[-2:] == recorder.take(100)
    assert len(changes) - 2 == recorder.dropped["queue"] > 0


def test_a_store_that_takes_nothing_changes_no_decision(tmp_path):
    """The same load, the same scalings: once with a store, once with one that drops everything at once."""

    def drop(recorder):
        recorder.take(100)
        recorder.take_points(100)

    assert lived()[1] == lived(drop)[1]


def test_a_hanging_store_delays_no_decision(tmp_path):
    """A write hangs in a thread until the loop has turned twenty times since it began, or for ten seconds."""
    recorder, _ = lived()
    store = Faulty()
    writes, turned = threading.Event(), threading.Event()

    def hang(_):
        writes.set()
        turned.wait(10)

    store.decisions.record = hang

    async def scenario():
        learning = keeper(tmp_path / "history.db", recorder, open_store=lambda _: store)
        flushing = asyncio.create_task(flushed(learning))
        passes = 0
        while not flushing.done():
            await asyncio.sleep(0.01)
            passes += writes.is_set()
            if passes == 20:
                turned.set()

    asyncio.run(scenario())
    assert turned.is_set()


@pytest.mark.parametrize(("port", "listeners"), [(None, 2), (0, 3)])
async def test_past_decisions_are_told_where_a_port_is_set_and_at_this_machine_alone(tmp_path, port, listeners):
    settings = Settings(
        store=tmp_path / "history.db", listen_host="0.0.0.0", listen_port=0, probe_port=0, history_port=port
    )
    clock = Clock(time.time_ns, time.monotonic)
    api = ModelApi()
    operator = Operator(settings, ModelClient(api), clock, watch=ModelWatch(api))
    stop = asyncio.Event()
    running = asyncio.create_task(operator.run(stop))
    while not operator.listeners:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    addresses = [listener.address[0] for listener in operator.listeners]
    stop.set()
    await running

    assert listeners == len(addresses)
    assert addresses[2:] in ([], ["127.0.0.1"])
