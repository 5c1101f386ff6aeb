"""
Very many pods and changes in a tenant's namespace, beside a neighbour whose load moves: `make test-faults`.

The control plane is one of its own, which other tests need not clean.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from statistics import quantiles
from urllib.error import HTTPError

import aiohttp
import pytest

from cronhpa.core.model.instant import SECOND
from testbed.control_plane import ControlPlane
from testbed.objects import deployment
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.twin import Scaled, cron_hpa
from testbed.usage import cpu_seconds, resident_bytes
from testbed.wait import wait_until

pytestmark = pytest.mark.faults

CROWD = "crowd"
_WRITES_AT_ONCE = 32
# Pods of a real size have 4 kB; these are as the API server completes them, 1.2 kB.
_POD = {"schedulerName": "nobody", "containers": [{"name": "app", "image": "none"}]}
_NUMBERS = count()


@pytest.fixture(scope="module")
def plane():
    with ControlPlane() as plane:
        plane.install_chart()
        plane.create("/api/v1/namespaces", [{"metadata": {"name": name}} for name in (CROWD, "neighbour")])
        yield plane


@pytest.fixture(scope="module")
def neighbour(plane):
    """A target that follows a queue of 10 for each pod, by a metrics API that tells nothing of pods."""
    with Plant(plane.admin_kubeconfig, window=SECOND, delay=SECOND // 5) as plant:
        queue = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
        freely = {"policies": [{"type": "Pods", "value": 20, "periodSeconds": 1}], "stabilizationWindowSeconds": 0}
        plant.set_external_metric("neighbour", "queue", 20)
        shop = Scaled(
            plane, "neighbour", replicas=2, metrics=[{"type": "External", "external": queue}],
            behavior={"scaleUp": freely, "scaleDown": freely},
        )  # fmt: skip
        yield shop, plant


class Crowd:
    """Writes to the API server, 32 at a time, as admin."""

    def __init__(self, plane, session):
        self.plane, self._session, self._places = plane, session, asyncio.Semaphore(_WRITES_AT_ONCE)
        self.took = []
        """The seconds of each write."""

    async def write(self, method, path, body=None):
        async with self._places:
            begun = time.monotonic()
            async with self._session.request(method, f"{self.plane.url}{path}", json=body) as answer:
                await answer.read()
                assert answer.status < 300 or answer.status == 404, await answer.text()
            self.took.append(time.monotonic() - begun)

    async def add_pods(self, number):
        """Their names."""
        names = [f"pod-{next(_NUMBERS)}" for _ in range(number)]
        path = f"/api/v1/namespaces/{CROWD}/pods"
        bodies = ({"metadata": {"name": name, "labels": {"app": "crowd"}}, "spec": _POD} for name in names)
        await asyncio.gather(*(self.write("POST", path, body) for body in bodies))
        return names

    async def remove_pods(self, names):
        path = f"/api/v1/namespaces/{CROWD}/pods"
        await asyncio.gather(*(self.write("DELETE", f"{path}/{name}?gracePeriodSeconds=0") for name in names))


@asynccontextmanager
async def crowding(plane):
    headers = {"Authorization": f"Bearer {plane.admin_token}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=plane.tls)) as session:
        yield Crowd(plane, session)


@pytest.fixture
def operator(plane, neighbour, tmp_path):
    with Operator(plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT), tmp_path) as operator:
        neighbour[0].says("Ready", "True", "Deciding", within_s=60)
        yield operator


def steps(neighbour, operator):
    """Seconds from a change of the queue to the count for it, five times; and those of the slowest of five probes."""
    shop, plant = neighbour
    times, probes = [], []
    for wanted in (8, 2, 8, 2, 8):
        begun = time.monotonic()
        plant.set_external_metric("neighbour", "queue", 10 * wanted)
        wait_until(lambda wanted=wanted: shop.replicas == wanted, within_s=120, every_s=0.05)
        times.append(time.monotonic() - begun)
        begun = time.monotonic()
        healthy(operator)
        probes.append(time.monotonic() - begun)
    plant.set_external_metric("neighbour", "queue", 20)
    wait_until(lambda: shop.replicas == 2, within_s=120)
    return times, max(probes)


def healthy(operator):
    try:
        assert operator.probe() == "ok\n"
    except HTTPError as problem:
        pytest.fail(f"/healthz: {problem.read().decode()}\n{operator.tail(5)}")


def told(seen, operator, more):
    times, probe = seen
    seconds = " ".join(f"{one:.1f}" for one in times)
    return f"{more}: steps {seconds} s, slowest probe {probe:.2f} s, {resident_bytes(operator.pid) / 2**20:.0f} MiB"


async def test_fifty_thousand_pods_of_one_namespace_delay_no_neighbour(plane, neighbour, operator, record_property):
    """They come at the pace of the API server, and are there at a restart. No object targets them."""
    before, idle = resident_bytes(operator.pid), await asyncio.to_thread(steps, neighbour, operator)
    record_property("told", told(idle, operator, "alone"))
    async with crowding(plane) as crowd:
        begun = time.monotonic()
        names, seen = [], []
        while len(names) < 50_000:
            names += await crowd.add_pods(5_000)
            if len(names) in {10_000, 30_000}:
                seen.append(await asyncio.to_thread(steps, neighbour, operator))
        record_property("told", f"50,000 pods in {time.monotonic() - begun:.0f} s, among them:")
        crowded = await asyncio.to_thread(steps, neighbour, operator)
        grown = resident_bytes(operator.pid) - before
        for some in (*seen, crowded):
            record_property("told", told(some, operator, "with them"))
        begun = time.monotonic()
        operator.kill()
        operator.start()
        ready = time.monotonic() - begun
        again = await asyncio.to_thread(steps, neighbour, operator)
        record_property("told", told(again, operator, f"a restart among them: ready after {ready:.1f} s"))

    assert grown < 250 * 2**20
    assert ready < 60
    assert max(crowded[0] + again[0]) < 15
    assert max(crowded[1], again[1]) < 2


async def test_pods_that_come_and_go_all_the_time_delay_no_neighbour(plane, neighbour, operator, record_property):
    """200 a second, or as many as the API server takes: each is made, its status changes, it goes."""
    before = cpu_seconds(operator.pid)
    is_over = asyncio.Event()
    gone = 0

    async def churn(crowd):
        nonlocal gone
        while not is_over.is_set():
            begun = time.monotonic()
            names = await crowd.add_pods(100)
            path = f"/api/v1/namespaces/{CROWD}/pods"
            await asyncio.gather(
                *(crowd.write("PUT", f"{path}/{name}/status", running(name)) for name in names),
            )
            await crowd.remove_pods(names)
            gone += len(names)
            await asyncio.sleep(max(0.0, begun + 0.5 - time.monotonic()))

    async with crowding(plane) as crowd:
        begun = time.monotonic()
        churning = asyncio.create_task(churn(crowd))
        seen = []
        while time.monotonic() - begun < 30:
            seen.append(await asyncio.to_thread(steps, neighbour, operator))
        seconds = time.monotonic() - begun
        is_over.set()
        await churning
    used = (cpu_seconds(operator.pid) - before) / seconds
    pace = gone / seconds
    for some in seen:
        record_property("told", told(some, operator, f"{pace:.0f} pods a second, {used:.0%} of a core"))

    assert pace > 20
    assert max(one for times, _ in seen for one in times) < 15
    assert max(probe for _, probe in seen) < 2


async def test_an_edge_that_hundreds_of_objects_share_is_acted_upon_at_once(
    plane, neighbour, operator, record_property
):
    """300 objects of one window, of a period of 15 s; the neighbour's steps are taken meanwhile."""
    start = (datetime.now(UTC) + timedelta(seconds=105)).replace(second=0, microsecond=0)
    edge = {"name": "edge", "start": f"{start.minute} {start.hour} * * *", "durationMinutes": 30, "leadTimeSeconds": 0}
    schedules = [edge | {"minReplicas": 2}]
    names = [f"edge-{number}" for number in range(300)]
    deployments = f"/apis/apps/v1/namespaces/{CROWD}/deployments"
    async with crowding(plane) as crowd:
        made = [deployment(name, namespace=CROWD, replicas=1) for name in names]
        await asyncio.gather(*(crowd.write("POST", deployments, one) for one in made))
        objects = [cron_hpa(name, CROWD, metrics=None, schedules=schedules, syncPeriodSeconds=15) for name in names]
        await asyncio.gather(*(crowd.write("POST", cron_hpas(CROWD), one) for one in objects))
        assert datetime.now(UTC) < start
        await asyncio.sleep(start.timestamp() - time.time())
        stepping = asyncio.create_task(asyncio.to_thread(steps, neighbour, operator))

        def are_two():
            counts = {one["metadata"]["name"]: one["spec"]["replicas"] for one in plane.get(deployments)["items"]}
            return all(counts.get(name) == 2 for name in names)

        await asyncio.to_thread(wait_until, are_two, within_s=60)
        seconds = time.time() - start.timestamp()
        seen = await stepping
        for path in (cron_hpas(CROWD), deployments):
            await asyncio.gather(*(crowd.write("DELETE", f"{path}/{name}") for name in names))
    record_property("told", told(seen, operator, f"300 objects of an edge are scaled {seconds:.1f} s after it"))

    assert seconds < 30
    assert max(seen[0]) < 15


async def test_objects_made_at_once_delay_no_neighbour_for_long(plane, neighbour, operator, record_property):
    """
    1,500, as fast as the API server takes them. Their targets do not exist: each gets a status and an event. A step of
    the neighbour is some five requests, or ten where the target's status changes, and a second: what delays it is the
    server, which takes seconds for each on two busy cores. So a step takes no longer than twelve of its slow requests.
    """
    names, seen = [f"new-{number}" for number in range(1_500)], []
    queue = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    fields = {"metrics": [{"type": "External", "external": queue}], "syncPeriodSeconds": 15}
    async with crowding(plane) as crowd:
        begun = time.monotonic()
        making = asyncio.gather(
            *(crowd.write("POST", cron_hpas(CROWD), cron_hpa(name, CROWD, **fields)) for name in names)
        )
        while not making.done():
            seen.append(await asyncio.to_thread(steps, neighbour, operator))
        request = quantiles(crowd.took, n=20)[-1]
        seconds = time.monotonic() - begun
        record_property(
            "told", f"1,500 objects in {seconds:.0f} s, {request:.1f} s a slow request, then their statuses:"
        )
        while len(seen) < 2 or not all(one.get("status") for one in plane.get(cron_hpas(CROWD))["items"]):
            seen.append(await asyncio.to_thread(steps, neighbour, operator))
        record_property("told", f"all have one after {time.monotonic() - begun:.0f} s")
        for some in seen:
            record_property("told", told(some, operator, "among them"))
        await asyncio.gather(*(crowd.write("DELETE", f"{cron_hpas(CROWD)}/{name}") for name in names))

    assert max(one for times, _ in seen for one in times) < 5 + 12 * request
    assert max(probe for _, probe in seen) < 5


def cron_hpas(namespace):
    return f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas"


def running(name):
    return {
        "metadata": {"name": name},
        "status": {"phase": "Running", "podIP": "10.1.2.3", "conditions": [{"type": "Ready", "status": "True"}]},
    }
