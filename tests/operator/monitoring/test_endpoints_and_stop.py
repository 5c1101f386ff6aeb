"""cronhpa.operator.app, cronhpa.operator.monitoring.endpoints: probes, scrapers and the stop, in real time."""

import asyncio
import re
import time

import aiohttp
import pytest
from lives import Life, cronhpa, deployment, status
from model_api import Fault, ModelApi, ModelClient
from prometheus_client.parser import text_string_to_metric_families

from cronhpa.core.model.instant import SECOND
from cronhpa.forecasting.work_counts import WorkCounts
from cronhpa.history.database.series import Series
from cronhpa.history.store import Store
from cronhpa.kube.clock import Clock
from cronhpa.operator.app import Operator
from cronhpa.operator.leader.replica import OnlyReplica
from cronhpa.operator.monitoring.endpoints import Endpoints
from cronhpa.operator.monitoring.object_metrics import ObjectMetrics
from cronhpa.operator.monitoring.operator_metrics import OperatorMetrics
from cronhpa.operator.settings import Settings


class Silent:
    """A watch that tells nothing, or ends with an error."""

    is_by_kopf = False

    def __init__(self, error=None):
        self._error = error

    async def run(self, _objects):
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


class Process:
    """`Operator.run` as the command runs it, without kopf: the operator sees only the first list of the objects."""

    def __init__(self, api, tmp_path, watch=None, tracing=None, replica=None):
        self.client = ModelClient(api, timeout_seconds=3)
        self.passed = 0  # nanoseconds by which both clocks are ahead of the machine
        settings = Settings(store=tmp_path / "history.db", listen_host="127.0.0.1", listen_port=0, probe_port=0)
        clock = Clock(lambda: time.time_ns() + self.passed, lambda: time.monotonic() + self.passed / SECOND)
        self.operator = Operator(
            settings, self.client, clock, watch=watch or Silent(), tracing=tracing, replica=replica
        )
        self.loop = self.operator.controller.control_loop
        self.stop = asyncio.Event()

    async def __aenter__(self):
        self.task = asyncio.create_task(self.operator.run(self.stop))
        while not self.operator.listeners:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await self.task

    async def get(self, path, listener=0):
        host, port = self.operator.listeners[listener].address
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as answer:
            return answer.status, await answer.text()

    async def ready(self):
        async with asyncio.timeout(60):
            while (await self.get("/readyz"))[0] != 200:  # noqa: ASYNC110 - it is what a kubelet does
                await asyncio.sleep(0.02)


def shop(replicas=2, load=1000, **spec):
    api = ModelApi()
    api.clock_offset = time.time_ns() - api.now()
    deployment(api, replicas=replicas)
    api.load["prod", "shop"] = load
    cronhpa(api, **spec)
    return api


async def eventually(check):
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110 - what is waited for is anybody's state, not an event
            await asyncio.sleep(0.01)


async def test_ready_when_the_first_lists_are_there_and_healthy_before(tmp_path):
    api = shop()
    goes_on = asyncio.Event()
    api.faults = [Fault("GET", "/pods$", waits=goes_on)]
    async with Process(api, tmp_path) as process:
        await asyncio.sleep(0.1)
        assert (503, "the first lists are not there yet\n") == await process.get("/readyz")
        assert (200, "ok\n") == await process.get("/healthz")
        assert 0 == process.loop.metrics.reconciles
        goes_on.set()
        await process.ready()


class Waiting(OnlyReplica):
    """A replica that waits for the Lease of another one."""

    term = 0
    holder = "gone"
    free_in = None

    async def acquired(self):
        await asyncio.Event().wait()


async def test_a_waiting_replica_says_who_leads_and_when_it_takes_a_lease_that_is_not_renewed(tmp_path):
    async with Process(shop(), tmp_path) as process:
        await process.ready()
        process.operator.controller.handover.replica = Waiting()
        assert (200, "ok, waiting: gone leads\n") == await process.get("/readyz")

        process.operator.controller.handover.replica.free_in = 41.6

        said = "ok, waiting: gone leads, and does not renew the Lease: this replica takes it in 42 s\n"
        assert (200, said) == await process.get("/readyz")


class NextTerm(OnlyReplica):
    """A replica that leads again, and lists the objects still."""

    term = unbroken_since = 2


async def test_decisions_of_a_former_term_are_no_metrics_of_the_next_one(tmp_path):
    """Found: from the begin of a term until its list, a scrape showed replicas of days ago."""
    async with Process(shop(), tmp_path) as process:
        await eventually(lambda: process.loop.metrics.reconciles)
        process.operator.controller.handover.replica = NextTerm()
        _, text = await process.get("/metrics")

    assert "cronhpa_decision_lag_seconds_count" in text
    assert 'name="shop"' not in text


async def test_a_waiting_replica_is_healthy_however_long_it_waits(tmp_path):
    """Found: its loop does not run, so "no tick" was told after half a minute, and the kubelet restarted it."""
    async with Process(shop(), tmp_path, replica=Waiting()) as process:
        await process.ready()
        process.passed = 3600 * SECOND

        assert (200, "ok\n") == await process.get("/healthz")


async def test_a_reconciliation_that_never_ends_is_not_healthy(tmp_path):
    """Every request has a deadline, so only a bug hangs for 200 s, which pass here."""
    api = shop(2, 2000)
    goes_on = asyncio.Event()
    api.faults = [Fault("PATCH", "/scale$", waits=goes_on)]
    async with Process(api, tmp_path) as process:
        await process.ready()
        await eventually(lambda: process.loop.oldest_seconds)
        process.passed = 200 * SECOND
        tick = process.loop.metrics.last_tick
        await eventually(lambda: process.loop.metrics.last_tick > tick + 199 * SECOND)
        code, text = await process.get("/healthz")
        goes_on.set()

    assert 503 == code
    assert re.fullmatch("a reconciliation takes 20[0-5] s already\n", text)


async def test_a_loop_that_stands_still_is_not_healthy(tmp_path):
    """Half a minute passes without a tick."""
    now = [time.time_ns()]
    process = Process(shop(), tmp_path)
    controller = process.operator.controller
    running = asyncio.create_task(controller.control_loop.run())
    await asyncio.sleep(0)
    objects = ObjectMetrics(controller.inventory, controller.targets.ready)
    own = OperatorMetrics(controller, process.client, (), WorkCounts(), None, "unknown")
    healthz = Endpoints(own, objects, controller, Clock(lambda: now[0], time.monotonic)).probes["/healthz"]

    now[0] = controller.control_loop.metrics.last_tick + 30 * SECOND
    assert [b"ok\n"] == healthz().body
    now[0] += SECOND
    assert [b"no tick for 31 s\n"] == healthz().body
    running.cancel()


async def test_the_metrics_can_be_read_by_prometheus(tmp_path):
    api = shop(2, 2000)
    cronhpa(api, "odd", maxReplicas="many")
    async with Process(api, tmp_path) as process:
        await process.ready()
        await eventually(lambda: process.loop.metrics.reconciles >= 2)
        _, text = await process.get("/metrics")

    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert 2 == samples["cronhpa_objects",]
    assert 1 == samples["cronhpa_scale_writes_total", "up"]
    assert 4 == samples["cronhpa_object_desired_replicas", "prod", "shop"]
    assert ("cronhpa_watch_silent_seconds", "/api/v1/pods") in samples
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


async def test_a_stop_ends_the_reconciliation_under_way_and_keeps_its_load(tmp_path):
    """The scale write is answered after the stop: its status, its event and the load that was seen are there still."""
    api = shop(2, 2000)
    goes_on = asyncio.Event()
    fault = Fault("PATCH", "/scale$", applied=True, waits=goes_on)
    api.faults = [fault]
    async with Process(api, tmp_path) as process:
        await process.ready()
        await eventually(lambda: fault.met and process.operator.learning.is_open)
        process.stop.set()
        await asyncio.sleep(0.2)
        assert not process.task.done()
        goes_on.set()
        await asyncio.wait_for(process.task, 60)

    assert 4 == api.replicas("prod", "shop")
    assert "lastScaleTime" in status(api)
    assert ["SuccessfulRescale"] == [event["reason"] for event in api.objects["events"].values()]
    now = time.time_ns()
    history = Store(tmp_path / "history.db").loads.steps(Series("prod", "shop", "cpu"), now - 900 * SECOND, now)
    assert [2.0] == [load for _, load in history]


async def test_no_reconciliation_begins_after_the_stop(tmp_path):
    api = shop(2, 1000, syncPeriodSeconds=1)
    async with Process(api, tmp_path) as process:
        await process.ready()
        await eventually(lambda: process.loop.metrics.reconciles)
        process.stop.set()
        await process.task
        asked = len(api.asked)
        await asyncio.sleep(1.1)

    assert asked == len(api.asked)


async def test_a_part_that_ends_with_an_error_ends_the_process(tmp_path):
    """The kubelet starts it anew; a process that only looks alive would scale nothing."""
    process = Process(shop(), tmp_path, Silent(RuntimeError("a bug of ours")))

    with pytest.raises(RuntimeError, match="a bug of ours"):
        await asyncio.wait_for(process.operator.run(process.stop), 60)


@pytest.mark.parametrize("rounds", range(4))
def test_the_loop_ends_when_cancelled_in_the_moment_it_is_poked(rounds):
    """So many rounds of the event loop after the enqueue: in some of them Python 3.11's wait_for forgets it."""

    async def scenario():
        life = Life(ModelApi())
        loop = asyncio.create_task(life.control_loop.run())
        await asyncio.sleep(0.05)
        life.control_loop.enqueue(("prod", "shop"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        loop.cancel()
        await asyncio.wait((loop,), timeout=2)
        return loop.cancelled()

    assert asyncio.run(scenario())
