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

from cronhpa.operator.leader.election import LEASE_SECONDS_MAX, UNKNOWN
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
        self.timing = TIMING
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
        self.running[name] = started_replica(kubeconfig, folder, name, lease, self.timing, **settings)
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
            # Where a Lease was missing, nobody leads for its duration.
            return name if name not in {other_than, UNKNOWN} else ""

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


@pytest.mark.slow
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


@pytest.mark.long
def test_a_replica_that_waits_passes_the_probes_of_the_kubelet_for_longer_than_a_loop_may_stand_still(replicas):
    """Found: each replica that waited for the Lease failed /healthz after half a minute, and was restarted for ever."""
    replicas.start()
    leader = replicas.leader()
    replicas.start()
    for _ in range(8):
        time.sleep(5)
        for operator in replicas.running.values():
            assert "ok\n" == operator.probe()
            assert operator.probe("/readyz").startswith("ok, ")
    assert leader == replicas.leader()


@pytest.mark.slow
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


BY_DEFAULT = ElectionTiming(15, 10, 2)
# Three cores need six pods and one needs two; at most two pods go in ten seconds.
WINDOW, PERIOD, STEP = 40, 10, 2
SLOWLY_DOWN = {
    "scaleDown": {
        "stabilizationWindowSeconds": WINDOW,
        "policies": [{"type": "Pods", "value": STEP, "periodSeconds": PERIOD}],
    }
}
# A decision each second on a sample of the second before it, and a renewal every two.
SEEN_S, SLACK_S = 6, 3


class Waves:
    """Loads of targets that rise for some seconds and fall for a minute, each in its own time: `loads` has them all."""

    def __init__(self, plane, namespace, plant, count, seed):
        self._plant, self._draw, self._over = plant, random.Random(seed), threading.Event()
        self.loads = {}
        """By name of a target: (second since 1970, cores) of each change."""
        targets = [Scaled(plane, namespace, f"wave-{n}", replicas=2, behavior=SLOWLY_DOWN) for n in range(count)]
        self._threads = [threading.Thread(target=self._move, args=(target,)) for target in targets]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _move(self, target):
        load = self._plant.add_target(target.namespace, target.labels, 1.0)
        changes = self.loads[target.name] = [(time.time(), 1.0)]
        while not self._over.wait(self._draw.uniform(WINDOW + 10, WINDOW + 30)):
            for cores, seconds in ((3.0, self._draw.uniform(8, 25)), (1.0, 0)):
                self._plant.set_load(load, cores)
                changes.append((time.time(), cores))
                self._over.wait(seconds)


def was_six_needed(changes, at):
    """Whether the load had needed six pods for so long that whoever led has seen it."""
    then, cores = max(change for change in changes if change[0] <= at) if changes[0][0] <= at else (at, 0)
    return cores == 3.0 and at - then >= SEEN_S


def seen_six_needed(changes, renewals):
    """The renewals of a Lease by replicas that led for some seconds already and then saw a load that needs six pods."""
    return [at for at, led_since in renewals if at - led_since >= SEEN_S and was_six_needed(changes, at)]


def renewals_of(writes):
    """(when a replica renewed the Lease, since when it had led)"""
    holder, since, renewals = "", 0.0, []
    for write in writes:
        if write.resource == "leases":
            if write.holder != holder:
                holder, since = write.holder, write.ended
            renewals.append((write.ended, since))
    return renewals


def scale_downs(writes, name):
    """(second, from, to, how many came and went within the policy's period before it)"""
    count, changes, downs = 2, [], []
    for write in writes:
        if write.replicas is not None and write.name == name:
            if write.replicas < count:
                recent = [step for at, step in changes if write.began - at < PERIOD - 1]
                downs.append((write.began, count, write.replicas, sum(recent)))
            changes.append((write.began, write.replicas - count))
            count = write.replicas
    return downs


def wrong_scale_downs(writes, loads):
    """
    Those that came too early or went too low: below two pods; below six within the window after a leader saw a load
    that needs six; more than two pods in ten seconds.
    """
    renewals, wrong, count = renewals_of(writes), [], 0
    for name, changes in loads.items():
        six = seen_six_needed(changes, renewals)
        for at, old, new, recent in scale_downs(writes, name):
            count += 1
            early = [at - seen for seen in six if seen < at < seen + WINDOW - SLACK_S]
            if new < 2 or early or old - new > STEP + recent:
                wrong.append((name, at, old, new, recent, early))
    return wrong, count


KILLS, FREEZES, FROZEN_S = 6, 4, 40


@pytest.mark.long
@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("tenth", range(5))
def test_fifty_kills_and_freezes_of_40_s_under_the_default_lease_overlap_no_writes_and_hasten_no_scale_down(
    control_plane, replicas, namespace, plant, record_property, tenth
):
    """
    In five runs of some six minutes: thirty SIGKILLs, twenty SIGSTOPs, the Lease of 15 s.

    The audit log says who held the Lease and who wrote. One target is written all the time; four have a window of 40 s.
    """
    replicas.timing = BY_DEFAULT
    replicas.start()
    replicas.start()
    draw = random.Random(tenth)
    ways = draw.sample([signal.SIGKILL] * KILLS + [signal.SIGSTOP] * FREEZES, KILLS + FREEZES)
    gaps = []
    with Waves(control_plane, namespace, plant, 4, tenth) as waves:
        replicas.leader()
        for how in ways:
            time.sleep(draw.uniform(3, 12))
            leader = replicas.leader()
            operator, began = replicas.running[leader], time.time()
            operator.signal(how)
            replicas.leader(other_than=leader)
            gaps.append(time.time() - began)
            if how is signal.SIGSTOP:
                time.sleep(max(began + FROZEN_S - time.time(), 0))
                operator.signal(signal.SIGCONT)
            else:
                operator.ended()
                replicas.forget(leader)
                replicas.start()
        time.sleep(WINDOW)
    taken, late = replicas.handovers()
    wrong, downs = wrong_scale_downs(replicas.writes(), waves.loads)

    written = sum(write.resource != "leases" for write in replicas.writes())
    record_property(
        "told",
        f"{KILLS} SIGKILLs, {FREEZES} SIGSTOPs of {FROZEN_S} s, Lease of 15 s: {written} writes, {len(late)} by one"
        f" that does not lead; {downs} scale-downs, {len(wrong)} early or low; led after {max(gaps):.1f} s",
    )
    assert late == []
    assert wrong == []
    assert len(taken) >= KILLS + FREEZES
    assert downs > 10


@pytest.mark.faults
def test_a_minute_without_an_api_server_under_two_replicas_overlaps_no_writes_and_hastens_no_scale_down(
    control_plane, replicas, namespace, plant, record_property
):
    """
    The Lease of 15 s runs out meanwhile: one of the two leads after it. What fell just before keeps its window of 90 s;
    what rose meanwhile is followed.
    """
    replicas.timing = BY_DEFAULT
    longer = {"scaleDown": {"stabilizationWindowSeconds": 90}}
    falling = Scaled(control_plane, namespace, "falling", replicas=2, behavior=longer)
    rising = Scaled(control_plane, namespace, "rising", replicas=2)
    falls = plant.add_target(namespace, falling.labels, 3.0)
    rises = plant.add_target(namespace, rising.labels, 1.0)
    replicas.start()
    replicas.start()
    falling.reaches(6, within_s=40)
    time.sleep(SEEN_S)

    plant.set_load(falls, 1.0)
    fell = time.time()
    time.sleep(2)
    control_plane.components["kube-apiserver"].kill()
    plant.set_load(rises, 3.0)
    time.sleep(60)
    control_plane.restart("kube-apiserver")
    back = time.time()
    rising.reaches(6, within_s=60)
    followed = time.time() - back
    falling.reaches(2, within_s=120)
    _, late = replicas.handovers()

    downs = [write.began - fell for write in replicas.writes() if write.name == "falling" and write.replicas == 2]
    record_property("told", f"60 s without an API server: a step followed {followed:.1f} s after it; down at {downs} s")
    assert late == []
    assert [True] == [at >= 90 - SLACK_S for at in downs]
    assert all(operator.is_running for operator in replicas.running.values())
    assert all("Traceback" not in operator.log.read_text() for operator in replicas.running.values())
