"""
cronhpa.operator.leader.sharded_replica, cronhpa.operator.leader.shard_handover: replicas of the real operator that
share 16 shards.

Who wrote for which object, and when, is read off the API server's audit log: each write lies between two writes of the
Lease of its object's shard by the same replica.
"""

import json
import random
import re
import signal
import threading
import time
from contextlib import suppress
from urllib.parse import urlencode

import psutil
import pytest

from cronhpa.kube.shard_scope import shard_of, shard_selector
from testbed.control_plane import RELEASE, ControlPlane
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT
from testbed.plant import Plant
from testbed.replicas import ElectionTiming, started_replica
from testbed.twin import Scaled, cron_hpa
from testbed.wait import wait_until

SHARDS = 16
AGENT = re.compile(r"\((replica-\d+)\)")
SHARD = re.compile(rf"{RELEASE}-(?:shard|range)-(\d+)-of-{SHARDS}")


class Fleet:
    """Replicas of one installation."""

    def __init__(self, plane, folder, timing, *, by_server=False):
        self._by_server = by_server
        self.plane, self._folder = plane, folder
        self.lease, self._timing = timing.lease_duration, timing
        self._kubeconfig = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
        self._count, self.began = 0, time.time()
        self.running = {}

    def start(self):
        self._count += 1
        name = f"replica-{self._count}"
        folder = self._folder / name
        folder.mkdir()
        self.running[name] = started_replica(
            self._kubeconfig,
            folder,
            name,
            RELEASE,
            self._timing,
            shards=str(SHARDS),
            shard_selector=str(self._by_server),
        )
        return name

    def stop(self):
        for operator in self.running.values():
            if operator.is_running:
                operator.kill()

    def holders(self):
        """By shard, as the Leases say."""
        listed = self.plane.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
        held = dict.fromkeys(range(SHARDS), "")
        for listed_object in listed:
            if match := SHARD.fullmatch(listed_object["metadata"]["name"]):
                held[int(match[1])] = listed_object["spec"].get("holderIdentity") or ""
        return held

    def shares(self):
        holders = list(self.holders().values())
        return sorted(holders.count(name) for name, operator in self.running.items() if operator.is_running)

    def served(self):
        """By replica that answers: how many shards it serves, as it says itself."""
        told = {}
        for name, operator in self.running.items():
            with suppress(OSError):  # it is ending
                if operator.is_running:
                    told[name] = int(operator.get("/readyz").split()[1])
        return told

    def are_served(self, *shares):
        return sorted(self.served().values()) == sorted(shares)

    def writes(self):
        return [write for write in self.plane.writes() if write.began > self.began and AGENT.search(write.agent)]

    def foreign_writes(self):
        """
        Writes for an object by a replica other than the one whose write of its shard's Lease was the last before it
        was answered, or that has given the Lease up: (write, who had the Lease).
        """
        holder, foreign, decided = {}, [], {}
        for write in self.writes():
            name = AGENT.search(write.agent)[1]
            if write.resource == "leases":
                if match := SHARD.fullmatch(write.name):
                    holder[int(match[1])] = name
                continue
            shard = shard_of(write.namespace, SHARDS, by_server=self._by_server)
            decided.setdefault(name, set()).add((write.namespace, write.name))
            if holder.get(shard) != name:
                foreign.append((write, holder.get(shard)))
        return foreign, decided


@pytest.fixture
def fleet(control_plane, tmp_path, no_operator):
    """The chart's rights are to one Lease unless it is installed with shards."""
    control_plane.install_chart(values={"shards": SHARDS})
    made = Fleet(control_plane, tmp_path, ElectionTiming(3, 2, 0.4))
    yield made
    made.stop()
    control_plane.install_chart()
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    for lease in control_plane.get(leases)["items"]:
        # Objects of other tests name the Lease without shards: an operator that did not find it would wait.
        if lease["metadata"]["name"] != "cronhpa":
            control_plane.delete(f"{leases}/{lease['metadata']['name']}")


@pytest.fixture
def busy(control_plane, plant, namespace):
    yield from swayed(control_plane, plant, namespace, 8)


def swayed(plane, plant, prefix, count):
    """Objects in namespaces of their own, whose load changes all the time: each is written all the time."""
    # The server's hash would have names in one shard that differ at their end alone.
    names = [f"{number}-{prefix[:40].strip('-')}" for number in range(count)]
    plane.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names))
    made = [Scaled(plane, name, replicas=2) for name in names]
    loads = [plant.add_target(target.namespace, target.labels, 1.0) for target in made]
    over = threading.Event()

    def sway():
        while not over.wait(1.0):
            for load in loads:
                plant.set_load(load, random.uniform(0.5, 4))

    thread = threading.Thread(target=sway)
    thread.start()
    yield made
    over.set()
    thread.join()
    plane.kubectl("delete", "namespace", *names, "--wait=false")


def has_written_since(fleet, name, at):
    return any(
        f"({name})" in write.agent and write.began > at and write.resource != "leases" for write in fleet.writes()
    )


@pytest.mark.slow
def test_two_replicas_share_the_objects_and_one_takes_those_of_a_killed_one(fleet, busy, record_property):
    first = fleet.start()
    wait_until(lambda: fleet.are_served(16))
    busy[0].says("Ready", "True", "Deciding")
    joined = time.time()
    second = fleet.start()
    wait_until(lambda: fleet.are_served(8, 8), within_s=60)
    shared = time.time() - joined
    wait_until(lambda: has_written_since(fleet, second, joined))

    fleet.running[first].signal(signal.SIGKILL)
    killed = time.time()
    wait_until(lambda: set(fleet.holders().values()) == {second}, within_s=60)
    taken = time.time() - killed
    wait_until(lambda: fleet.are_served(16), within_s=60)
    served = time.time() - killed

    foreign, decided = fleet.foreign_writes()
    record_property(
        "told", f"shards: shared after {shared:.1f} s, taken {taken:.1f} s after SIGKILL, served {served:.1f}"
    )
    assert [] == foreign
    assert {first, second} == set(decided)


def test_the_api_server_divides_by_the_hash_that_the_selector_is_made_for(control_plane):
    """Each half has the namespaces whose shards are in it, of a built-in kind and of ours."""
    names = {f"{number}-divided" for number in range(8)}
    control_plane.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names))
    for name in names:
        meta = {"name": "any", "namespace": name}
        control_plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}, cron_hpa("any", name))
    for half in (range(8), range(8, 16)):
        asked = urlencode({"shardSelector": shard_selector(half, SHARDS)})
        expected = {name for name in names if shard_of(name, SHARDS, by_server=True) in half}
        assert expected
        for path in ("/api/v1/configmaps", "/apis/cronhpa.io/v1alpha1/cronhpas"):
            listed = control_plane.get(f"{path}?{asked}")["items"]
            assert expected == {listed_object["metadata"]["namespace"] for listed_object in listed} & names
    control_plane.kubectl("delete", "namespace", *names, "--wait=false")


def usage(operators):
    """(CPU seconds, MB) of each process."""
    seen = [psutil.Process(operator.pid) for operator in operators]
    return [(sum(process.cpu_times()[:2]), process.memory_info().rss / 1e6) for process in seen]


@pytest.mark.long
@pytest.mark.parametrize("by_server", [False, True], ids=["discarded here", "left out by the server"])
@pytest.mark.usefixtures("no_operator")
def test_four_replicas_share_the_objects_and_each_is_decided_by_one_at_every_instant(
    tmp_path, record_property, by_server
):
    """Leases as by default: 15 s. One ends, one is killed, two come; sixteen objects in as many namespaces."""
    with ControlPlane(audit=True, shards_lists=by_server) as plane, Plant(plane.admin_kubeconfig) as plant:
        plane.install_chart(values={"shards": SHARDS, "advanced": {"shardSelector": by_server}})
        fleet = Fleet(plane, tmp_path, ElectionTiming(15, 10, 2), by_server=by_server)
        swaying = swayed(plane, plant, "of-the-fleet", 16)
        next(swaying)
        try:
            _lived(fleet, record_property, by_server)
        finally:
            fleet.stop()
            next(swaying, None)


def _lived(fleet, record_property, by_server):
    names = [fleet.start() for _ in range(4)]
    wait_until(lambda: fleet.are_served(4, 4, 4, 4), within_s=60)
    before, began = usage(fleet.running.values()), time.time()
    time.sleep(30)
    after, seconds = usage(fleet.running.values()), time.time() - began
    told = ", ".join(
        f"{100 * (end[0] - begin[0]) / seconds:.1f} % of a core and {end[1]:.0f} MB"
        for begin, end in zip(before, after, strict=True)
    )
    record_property("told", f"four replicas, 16 objects of 1 s, by_server={by_server}: {told}")

    fleet.running[names[0]].signal(signal.SIGKILL)
    killed = time.time()
    wait_until(lambda: names[0] not in fleet.holders().values(), within_s=15 + 5)
    taken = time.time() - killed
    wait_until(lambda: fleet.are_served(5, 5, 6), within_s=20)
    served = time.time() - killed
    fleet.running[names[1]].signal(signal.SIGTERM)
    ended = time.time()
    wait_until(lambda: fleet.are_served(8, 8), within_s=30)
    handed = time.time() - ended
    names += [fleet.start(), fleet.start()]
    wait_until(lambda: fleet.are_served(4, 4, 4, 4), within_s=60)
    time.sleep(10)

    foreign, decided = fleet.foreign_writes()
    written = len(fleet.writes())
    record_property(
        "told",
        f"by_server={by_server}: {written} writes, {len(foreign)} by another than the shard's holder; after SIGKILL "
        f"taken {taken:.1f} s, served {served:.1f} s; after SIGTERM served {handed:.1f} s",
    )
    assert [] == foreign
    assert set(names) <= set(decided)
    if by_server:
        asked = [line for line in (fleet.plane.folder / "audit.log").open() if "shardSelector" in line]
        assert asked


@pytest.mark.slow
def test_two_replicas_tell_one_story_of_a_cluster_event_and_then_are_silent(fleet, busy, control_plane):
    """
    Each replica knows half of the eight objects, one of which is short: totals and conditions are those of all, and a
    condition of one replica is not undone by the other.
    """
    first, second = fleet.start(), fleet.start()
    wait_until(lambda: fleet.are_served(8, 8), within_s=60)
    name = f"sale-{time.time_ns()}"
    window = {"name": "doors", "from": "2999-11-27T06:00", "to": "2999-11-28T00:00", "minReplicas": 9}
    names = [target.namespace for target in busy]
    only = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]
    spec = {"selector": {}, "namespaceSelector": {"matchExpressions": only}, "reason": "a sale", "schedules": [window]}
    for number, target in enumerate(busy):
        change = json.dumps({"spec": {"maxReplicas": 20 if number else 8}})
        control_plane.kubectl("patch", "cronhpa", target.name, "-n", target.namespace, "--type=merge", "-p", change)
    control_plane.apply({
        "apiVersion": "cronhpa.io/v1alpha1", "kind": "ClusterPlannedEvent", "metadata": {"name": name}, "spec": spec,
    })  # fmt: skip
    path = f"/apis/cronhpa.io/v1alpha1/clusterplannedevents/{name}"
    told = wait_until(
        lambda: control_plane.get(path).get("status", {}),
        lambda status: status.get("objects") == len(busy),
        within_s=90,
        every_s=1,
    )
    assert (len(busy) * 9 - 1, 1) == (told["pods"], told["short"])
    assert {16} == {row["of"] for row in told["shards"]}

    time.sleep(40)
    seen = {json.dumps(control_plane.get(path)["status"]["conditions"]) for _ in range(20) if not time.sleep(1)}
    control_plane.kubectl("delete", "clusterplannedevent", name)

    (conditions,) = seen
    fits = next(one for one in json.loads(conditions) if one["type"] == "Fits")
    assert ("False", True) == (fits["status"], names[0] in fits["message"])
    writers = {AGENT.search(write.agent)[1] for write in fleet.writes() if write.resource.startswith("clusterplanned")}
    assert writers == {first, second}
