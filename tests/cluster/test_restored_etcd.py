"""
cronhpa.kube.resource_versions, cronhpa.operator.objects.object_watch: etcd is restored from a backup while the operator
runs.

Kubernetes' documentation has the API servers stopped for it, and the other components started anew; the operator goes
on. What happened since the backup has not happened then: counts, pods, edits, creations, deletions, the Lease.
"""

import threading
import time

import pytest

from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Scaled, cron_hpa
from testbed.wait import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("no_operator")]

# A list that fails is tried again after 22 s at most (kube/informer); the rest is a busy machine.
_WITHIN_S = 60
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/cronhpa"


class Counts:
    """The counts of all Deployments and StatefulSets of a namespace in a thread of its own, by name, as they change."""

    def __init__(self, plane, namespace):
        self._paths = [f"/apis/apps/v1/namespaces/{namespace}/{kind}" for kind in ("deployments", "statefulsets")]
        self._plane, self._over, self.seen = plane, threading.Event(), {}
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _watch(self):
        while not self._over.wait(0.1):
            for path in self._paths:
                for target in self._plane.get(path)["items"]:
                    counts = self.seen.setdefault(target["metadata"]["name"], [])
                    if counts[-1:] != [target["spec"]["replicas"]]:
                        counts.append(target["spec"]["replicas"])


class Stateful(Scaled):
    """A StatefulSet with its CronHPA."""

    def create_target(self):
        made = deployment(self.name, namespace=self.namespace, replicas=self._replicas)
        made |= {"kind": "StatefulSet"}
        made["spec"] |= {"serviceName": self.name, "podManagementPolicy": "Parallel"}
        self._plane.create(self._path, [made])

    @property
    def _path(self):
        return f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets"

    @property
    def _target(self):
        return self._plane.get(f"{self._path}/{self.name}")


class Shops:
    """
    Targets at 50 % of CPU, where a load of n cores needs 2n pods, and what is done to them after the backup:

    web, db: a load for six, then for eight (db, a StatefulSet: two, then four). They have to grow once more.
    edited: at most four, then eight. Four again.
    lowered: eight, then at most three. Eight, and never fewer.
    deleted: its CronHPA is deleted, and it is scaled by hand. It is scaled by its load again.
    created: a Deployment of two gets a CronHPA that scales it to six. Two, and nobody scales it.
    freed: its HPA is deleted. The CronHPA holds again.
    taken: an HPA is made for it. The CronHPA scales it again.
    """

    def __init__(self, plane, namespace, plant):
        self.plane, self.namespace, self.plant, self._loads = plane, namespace, plant, {}
        stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
        self.web = self._add("web", 3.0, 6)
        self.db = self._add("db", 1.0, 2, Stateful, scaleTargetRef=stateful)
        self.edited = self._add("edited", 4.0, 4, maxReplicas=4)
        self.lowered = self._add("lowered", 4.0, 8)
        self.deleted = self._add("deleted", 2.0, 4)
        self.freed = self._add("freed", 2.0, 4)
        self.taken = self._add("taken", 2.0, 4)
        self.created = self._add("created", 3.0, 2)
        self.kubectl("delete", "chpa", "created")
        plane.apply(horizontal_pod_autoscaler("freed", namespace=namespace))

    def _add(self, name, cores, replicas, kind=Scaled, **spec):
        made = kind(self.plane, self.namespace, name, replicas=replicas, **spec)
        self._loads[name] = self.plant.add_target(self.namespace, made.labels, cores)
        return made

    def load(self, name, cores):
        self.plant.set_load(self._loads[name], cores)

    def kubectl(self, *words):
        return self.plane.kubectl(*words, "-n", self.namespace)

    def settle(self):
        for shop in (self.web, self.db, self.edited, self.lowered, self.deleted, self.taken):
            shop.says("ScalingActive", "True", "ValidMetricFound", within_s=60)
            shop.says("TargetOwned", "True", "OnlyOwner", within_s=60)
        self.freed.says("TargetOwned", "False", "OtherOwner", within_s=60)

    def change(self):
        """What the restore undoes; returns once the operator has followed all of it."""
        self.load("web", 4.0)
        self.load("db", 2.0)
        self.edited.patch(maxReplicas=8)
        self.lowered.patch(maxReplicas=3)
        self.kubectl("delete", "chpa", "deleted")
        self.deleted.scale_by_hand(2)
        self.plane.apply(cron_hpa("created", self.namespace))
        self.kubectl("delete", "hpa", "freed")
        self.plane.apply(horizontal_pod_autoscaler("taken", namespace=self.namespace))
        for shop, replicas in ((self.web, 8), (self.db, 4), (self.edited, 8), (self.lowered, 3), (self.created, 6)):
            shop.reaches(replicas, within_s=60)
        self.freed.says("TargetOwned", "True", "OnlyOwner", within_s=60)
        self.taken.says("TargetOwned", "False", "OtherOwner", within_s=60)

    def follow(self):
        """Waits until the operator has followed the restore; by target, the seconds until then."""
        begun = time.monotonic()
        self.load("deleted", 3.0)
        self.load("taken", 3.0)
        took = {}
        for shop, replicas in ((self.web, 8), (self.db, 4), (self.deleted, 6), (self.taken, 6)):
            shop.reaches(replicas, within_s=_WITHIN_S)
            took[shop.name] = round(time.monotonic() - begun, 1)
        self.edited.reaches(4, within_s=_WITHIN_S)
        # What the operator believed wrongly it would act on by now: a reconciliation takes a second.
        time.sleep(max(0, 20 - (time.monotonic() - begun)))
        self.edited.says("ScalingLimited", "True", "TooManyReplicas")
        self.lowered.says("ScalingLimited", "False", "DesiredWithinRange")
        self.freed.says("TargetOwned", "False", "OtherOwner")
        self.taken.says("TargetOwned", "True", "OnlyOwner")
        return took


@pytest.mark.parametrize(
    ("lists_again", "settings"),
    [(False, {}), (True, {}), (False, {"object_watch": "informer"})],
    ids=[
        "a backup after the last lists",
        "a backup before the last lists",
        "a backup after the last lists, with the informer",
    ],
)
def test_a_restored_etcd_is_followed_without_a_restart_and_nothing_falls(
    control_plane, namespace, plant, tmp_path, lists_again, settings, record_property
):
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    shops = Shops(control_plane, namespace, plant)
    with Operator(kubeconfig, tmp_path, **settings) as operator:
        shops.settle()
        backup = control_plane.backup()
        shops.change()
        if lists_again:
            operator.kill()
            operator.start()
            time.sleep(3)
        renewed = control_plane.get(_LEASE)["spec"]["renewTime"]

        control_plane.restore(backup)
        with Counts(control_plane, namespace) as counts:
            control_plane.start_again()
            took = shops.follow()
        record_property("told", f"seconds from the restore until it was followed: {took}; counts: {counts.seen}")
        lease = control_plane.get(_LEASE)["spec"]

    rising = {name: counts.seen[name] for name in ("web", "db", "deleted", "taken")}
    assert {name: sorted(seen) for name, seen in rising.items()} == rising
    assert {"lowered": [8], "created": [2], "freed": [4]} == {
        name: counts.seen[name] for name in ("lowered", "created", "freed")
    }
    assert 4 == counts.seen["edited"][-1]
    assert ("testbed", True) == (lease["holderIdentity"], lease["renewTime"] > renewed)
    assert "went back to version" in operator.log.read_text()
    assert "Traceback" not in operator.log.read_text()


def test_a_lease_that_a_restore_has_removed_is_made_again_and_decisions_go_on(
    control_plane, namespace, plant, tmp_path
):
    """The backup is older than the Lease and than the CronHPA's first status: the operator starts after it."""
    control_plane.kubectl("delete", "lease", "cronhpa", "-n", NAMESPACE, "--ignore-not-found")
    shop = Scaled(control_plane, namespace, replicas=2)
    load = plant.add_target(namespace, shop.labels, 3.0)
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    # A pod that is not ready yet serves nothing: a backup with two such pods would be evidence that one is enough.
    wait_until(lambda: shop.ready, lambda ready: ready == 2)
    backup = control_plane.backup()
    with Operator(kubeconfig, tmp_path) as operator:
        shop.reaches(6, within_s=60)
        control_plane.restore(backup)
        with Counts(control_plane, namespace) as counts:
            control_plane.start_again()
            shop.reaches(6, within_s=_WITHIN_S)
            plant.set_load(load, 4.0)
            shop.reaches(8, within_s=_WITHIN_S)
            shop.says("Ready", "True", "Deciding")
        lease = control_plane.get(_LEASE)["spec"]

    assert "testbed" == lease["holderIdentity"]
    assert sorted(counts.seen["web"]) == counts.seen["web"]
    assert "Traceback" not in operator.log.read_text()
