"""
cronhpa.operator.leader.replica, cronhpa.kube.lease: two replicas of the real operator on one Lease.

The replica that decides and writes after SIGTERM, SIGKILL, SIGSTOP and a partition. Each replica reaches the API server
through a proxy of its own, so that one of them can be cut off.
"""

import json
import random
import signal
import statistics
import threading
import time
import urllib.error
from http import HTTPStatus

import pytest

from cronhpa.operator.leader.election import LEASE_SECONDS_MAX
from testbed.fault_proxy import FaultProxy
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT
from testbed.replicas import ElectionTiming, started_replica
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("no_operator")

# Short, so that many handovers fit into a test; the rules are those of 15, 10 and 2 s.
TIMING = ElectionTiming(3, 2, 0.4)
LEASE_S = TIMING.lease_duration
LEASE = "handover"
LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
PARTITION = "partition"
WAYS = (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, PARTITION)


class Replicas:
    """The replicas of one installation: `start` one, see who leads, look for writes of those that did not."""

    def __init__(self, plane, folder):
        self._plane, self._folder = plane, folder
        self._kubeconfig = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
        self._count, self._began = 0, time.time()
        self.running = {}
        self.proxies = {}

    def start(self, lease=LEASE, **settings):
        self._count += 1
        name = f"replica-{self._count}"
        folder = self._folder / name
        folder.mkdir()
        self.proxies[name] = proxy = FaultProxy(self._plane.url, self._plane.ca_file)
        proxy.__enter__()
        kubeconfig = proxy.kubeconfig(self._kubeconfig, folder)
        self.running[name] = started_replica(kubeconfig, folder, name, lease, TIMING, **settings)
        return name

    @property
    def lease(self):
        """Its spec; empty if there is none."""
        try:
            return self._plane.get(LEASE_PATH)["spec"]
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return {}

    def stated(self, **spec):
        """Somebody edits the Lease."""
        patch = json.dumps({"spec": spec})
        self._plane.kubectl("patch", "lease", LEASE, "--namespace", NAMESPACE, "--type=merge", "-p", patch)

    def leader(self, other_than="", within_s=60):
        def holder():
            name = self.lease.get("holderIdentity") or ""
            return name if name != other_than else ""

        return wait_until(holder, within_s=within_s, every_s=0.02)

    def stop(self):
        for operator in self.running.values():
            if operator.is_running:
                operator.signal(signal.SIGCONT)
                operator.kill()
        for name in tuple(self.proxies):
            self.forget(name)

    def forget(self, name):
        """The proxy of a replica that has ended ends, too."""
        self.running.pop(name, None)
        self.proxies.pop(name).__exit__(None, None, None)

    def writes(self):
        """Those of these replicas: another test's have the same names."""
        return [write for write in self._plane.writes() if write.began > self._began and "(replica-" in write.agent]

    def handovers(self):
        """
        (replica, its first write of the Lease) for each time that another one took it; and the writes of replicas at
        a time at which another one had the Lease.
        """
        taken, late, holder = [], [], ""
        for write in self.writes():
            name = write.agent.partition("(")[2].rstrip(")")
            if write.resource == "leases":
                # A Lease in the place of a deleted one names nobody: whoever held that one may still write.
                if write.holder == name != holder:
                    holder = name
                    taken.append((name, write))
            elif name != holder:
                late.append((write, holder))
        return taken, late


@pytest.fixture
def replicas(control_plane, tmp_path):
    # The chart's right is to the Lease of the release's name.
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    meta = {"name": LEASE, "namespace": NAMESPACE}
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    control_plane.apply(api | {"kind": "Role", "metadata": meta, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": LEASE}
    control_plane.apply(api | {"kind": "RoleBinding", "metadata": meta, "roleRef": role, "subjects": [subject]})
    made = Replicas(control_plane, tmp_path)
    yield made
    made.stop()
    control_plane.kubectl("delete", "lease", LEASE, "--namespace", NAMESPACE, "--ignore-not-found")


@pytest.fixture
def busy(control_plane, namespace, plant):
    """A target whose load changes all the time, so that the leader writes all the time."""
    shop = Scaled(control_plane, namespace, replicas=2)
    load = plant.add_target(namespace, shop.labels, 1.0)
    over = threading.Event()

    def sway():
        while not over.wait(0.7):
            plant.set_load(load, random.uniform(0.5, 8))

    thread = threading.Thread(target=sway)
    thread.start()
    yield shop
    over.set()
    thread.join()


def decided_since(plane, name, at):
    """When this replica wrote for the first time, apart from the Lease, after an instant."""
    return next(
        (
            write.ended
            for write in plane.writes()
            if write.began > at and write.resource != "leases" and f"({name})" in write.agent
        ),
        None,
    )


def hand_over(plane, replicas, how):
    """Takes the leader away; returns (seconds until another one leads, seconds until it writes its first decision)."""
    leader = replicas.leader()
    operator = replicas.running[leader]
    time.sleep(random.uniform(0, 1))
    began = time.time()
    if how == PARTITION:
        replicas.proxies[leader].cut()
    else:
        operator.signal(how)
    successor = replicas.leader(other_than=leader)
    took = time.time() - began
    wrote = wait_until(lambda: decided_since(plane, successor, began), within_s=30) - began
    if how == PARTITION:
        time.sleep(random.uniform(0, 2))
        replicas.proxies[leader].mend()
    elif how == signal.SIGSTOP:
        time.sleep(random.uniform(0, 2))
        operator.signal(signal.SIGCONT)
    else:
        operator.ended()
        replicas.forget(leader)
        replicas.start()
    return took, wrote


@pytest.mark.usefixtures("busy")
def test_after_sigterm_sigkill_sigstop_and_a_partition_another_replica_decides_and_the_old_one_writes_nothing(
    control_plane, replicas, record_property
):
    """How soon is for the long test to judge, on a machine that does nothing else."""
    replicas.start()
    replicas.start()

    stopped = hand_over(control_plane, replicas, signal.SIGTERM)
    killed = hand_over(control_plane, replicas, signal.SIGKILL)
    frozen = hand_over(control_plane, replicas, signal.SIGSTOP)
    parted = hand_over(control_plane, replicas, PARTITION)
    time.sleep(3)
    taken, late = replicas.handovers()

    told = f"SIGTERM {stopped}, SIGKILL {killed}, SIGSTOP {frozen}, partition {parted}"
    record_property("told", f"handover, (s to lead, s to write): {told}")
    assert late == []
    assert len(taken) >= 5


@pytest.mark.usefixtures("busy")
def test_a_second_installation_holds_while_the_first_ones_lease_is_renewed(control_plane, replicas, busy):
    replicas.start()
    busy.says("Ready", "True", "Deciding")
    other = replicas.start(lease="cronhpa")

    wait_until(lambda: [text for text in busy.events() if text.startswith("OtherOperator")])
    time.sleep(3)
    wrote = {write.resource for write in replicas.writes() if f"({other})" in write.agent}
    assert wrote <= {"leases", "events"}

    replicas.running["replica-1"].kill()
    killed = time.time()

    wait_until(lambda: decided_since(control_plane, other, killed), within_s=LEASE_S + 30)


LONGEST = 2**31 - 1


@pytest.mark.faults
def test_a_lease_that_states_68_years_for_a_holder_that_is_gone_is_taken_after_a_minute(
    control_plane, replicas, busy, record_property
):
    first = replicas.start()
    busy.says("Ready", "True", "Deciding")
    replicas.stated(holderIdentity="nobody", leaseDurationSeconds=LONGEST)
    began = time.time()
    waiting = wait_until(
        lambda: said if "nobody leads, and" in (said := replicas.running[first].get("/readyz")) else ""
    )

    leader = replicas.leader(other_than="nobody", within_s=LEASE_SECONDS_MAX + 20)
    took = time.time() - began
    wait_until(lambda: decided_since(control_plane, first, began), within_s=20)

    record_property("told", f"taken after {took:.1f} s; /readyz: {waiting.strip()}")
    assert leader == first
    assert LEASE_SECONDS_MAX - 2 <= took
    log = replicas.running[first].log.read_text()
    assert f"nobody, which holds it for {LONGEST} s, has not renewed it" in log


@pytest.mark.faults
@pytest.mark.usefixtures("busy")
def test_a_lease_that_stated_68_years_is_taken_soon_after_somebody_deletes_it(control_plane, replicas, record_property):
    first = replicas.start()
    replicas.leader()
    replicas.stated(holderIdentity="nobody", leaseDurationSeconds=LONGEST)
    time.sleep(2)
    assert control_plane.delete(LEASE_PATH)
    began = time.time()

    wait_until(lambda: replicas.leader() == first, within_s=LEASE_S + 10)
    took = time.time() - began
    wait_until(lambda: decided_since(control_plane, first, began), within_s=20)

    record_property("told", f"taken {took:.1f} s after the deletion")


@pytest.mark.faults
@pytest.mark.usefixtures("busy")
def test_while_somebody_deletes_the_lease_and_replicas_start_one_writes(control_plane, replicas, record_property):
    """
    Twenty deletions a second for as long as three replicas take to start, one after the other; then one deletion and
    the leader killed. The audit log says who wrote, and who held the Lease last.
    """
    replicas.start()
    replicas.leader()
    over, deletions = threading.Event(), []

    def delete():
        while not over.wait(0.05):
            deletions.append(control_plane.delete(LEASE_PATH))

    deleting = threading.Thread(target=delete)
    deleting.start()
    try:
        for _ in range(3):
            replicas.start()
            time.sleep(2 * LEASE_S)
    finally:
        over.set()
        deleting.join()
    wait_until(lambda: replicas.leader() in replicas.running, within_s=LEASE_S + 10)
    leader = replicas.leader()
    replicas.running[leader].kill()
    control_plane.delete(LEASE_PATH)
    killed = time.time()
    successor = wait_until(
        lambda: name if (name := replicas.leader()) in replicas.running and name != leader else "",
        within_s=2 * LEASE_S + 10,
    )
    took = time.time() - killed
    wait_until(lambda: decided_since(control_plane, successor, killed), within_s=20)
    taken, late = replicas.handovers()

    writes = [write for write in replicas.writes() if write.resource != "leases"]
    record_property(
        "told",
        f"{sum(deletions)} deletions, {len(writes)} writes, {len(taken)} takeovers, {len(late)} late writes;"
        f" after a kill and a deletion the next one led in {took:.1f} s",
    )
    assert late == []
    assert sum(deletions) > 50


@pytest.mark.long
@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("fifty", range(4))
def test_no_write_by_a_replica_that_does_not_lead_in_two_hundred_handovers(
    control_plane, replicas, record_property, fifty
):
    """
    In four runs, of some eight minutes each.

    At SIGTERM the Lease of 3 s is released, else it lasts 3 s from its last renewal; the objects are due every second.
    """
    replicas.start()
    replicas.start()
    draw = random.Random(fifty)
    times = {how: [] for how in WAYS}
    for _ in range(50):
        how = draw.choice(WAYS)
        times[how].append(hand_over(control_plane, replicas, how))
    taken, late = replicas.handovers()

    for how, seen in times.items():
        called = getattr(how, "name", how)
        for label, column in (("lead", 0), ("write", 1)):
            seconds = sorted(row[column] for row in seen)
            listed_seconds, median = " ".join(f"{second:.2f}" for second in seconds), statistics.median(seconds)
            record_property(
                "told", f"{called}, {len(seconds)} handovers, seconds to {label}: {median:.2f} of {listed_seconds}"
            )
            # Who leads is promised of each; a first write waits for a load that asks for one.
            judged = seconds[-1] if label == "lead" else median
            assert judged <= (0 if how is signal.SIGTERM else LEASE_S) + 2 + 1
    assert late == []
    assert len(taken) >= 50
