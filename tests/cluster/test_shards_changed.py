"""
cronhpa.kube.shard_scope, cronhpa.operator.objects.owners: another number of shards, by a rolling update under load.

Replicas with the former number and with the next one run at once. An object is left to whoever holds the Lease that its
status names, so each object changes hands once.
"""

import re
import signal
import time
from itertools import groupby, pairwise

import pytest

from cluster.test_shards import swayed
from testbed.control_plane import RELEASE
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT
from testbed.replicas import ElectionTiming, started_replica
from testbed.wait import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("no_operator")]

COUNTS = (2, 4, 3)
TIMING = ElectionTiming(15, 10, 2)  # by default
# Twice the Lease, a look at it every five seconds, and starts on a busy machine.
_UNDECIDED_S = 60


@pytest.fixture
def replica(control_plane, tmp_path):
    """Starts a replica by its name and its number of shards; all end with the test."""
    control_plane.install_chart(values={"shards": COUNTS[0]})
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    started = []

    def start(name, shards):
        folder = tmp_path / name
        folder.mkdir()
        started.append(started_replica(kubeconfig, folder, name, RELEASE, TIMING, shards=str(shards)))
        return started[-1]

    yield start
    for operator in started:
        if operator.is_running:
            operator.kill()
    control_plane.install_chart()
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    for lease in control_plane.get(leases)["items"]:
        if lease["metadata"]["name"] != RELEASE:
            control_plane.delete(f"{leases}/{lease['metadata']['name']}")


@pytest.fixture
def busy(control_plane, plant, namespace):
    yield from swayed(control_plane, plant, namespace, 8)


def test_each_object_changes_hands_once_at_two_four_and_three_shards(control_plane, replica, busy, record_property):
    """As a StatefulSet does it: one replica ends and its next one starts, then the other one."""
    began, objects = time.time(), {(target.namespace, target.name) for target in busy}

    def writes():
        """(object, when, of how many shards the writer is one) of each write for an object"""
        return [
            ((write.namespace, write.name), write.began, int(match[1]))
            for write in control_plane.writes()
            if write.began > began
            and (match := re.search(r"\(of-(\d)-", write.agent))
            and write.resource in {"deployments/scale", "cronhpas/status"}
        ]

    def written_by(shards):
        return {written for written, _, count in writes() if count == shards}

    running = [replica(f"of-{COUNTS[0]}-{number}", COUNTS[0]) for number in range(2)]
    wait_until(lambda: written_by(COUNTS[0]) >= objects, within_s=60, every_s=1)
    for shards in COUNTS[1:]:
        # As `helm upgrade`: the right is to the Leases of the new number from the first moment on.
        control_plane.install_chart(values={"shards": shards})
        for number in range(2):
            running[number].signal(signal.SIGTERM)
            running[number].ended()
            running[number] = replica(f"of-{shards}-{number}", shards)
        wait_until(lambda count=shards: written_by(count) >= objects, within_s=90, every_s=1)

    gaps, hands = [], {}
    for written in objects:
        own = [(at, count) for where, at, count in writes() if where == written]
        hands[written] = tuple(count for count, _ in groupby(count for _, count in own))
        gaps += [after - before for (before, _), (after, _) in pairwise(own)]
    record_property(
        "told", f"shards 2, 4, 3: {len(writes())} writes, no write of an object for at most {max(gaps):.1f} s"
    )
    assert {COUNTS} == set(hands.values())
    assert max(gaps) < _UNDECIDED_S
