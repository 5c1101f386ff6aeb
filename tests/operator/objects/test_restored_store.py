"""cronhpa.operator.objects.inventory, cronhpa.operator.writes.writer: the API's store is restored from a backup."""

from __future__ import annotations

import json

import msgspec
import pytest
from copied import copied
from lives import CPU, Life, condition, cronhpa, deployment, until
from model_api import ModelApi
from virtual_time import live

from cronhpa.core.model.spec import ControllerOptions
from cronhpa.operator.objects.inventory import Inventory

KEY = ("prod", "shop")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
SPEC = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 10, "metrics": [CPU]}
REMEMBERED = {
    "memory": {
        "version": 1,
        "recommendations": [{"replicas": 9, "time": "2027-01-15T06:59:00Z"}],
        "scaleUpEvents": [],
        "scaleDownEvents": [],
    }
}


def body(version, *, uid="one", generation=1, name="shop", namespace="prod", status=None, **spec):
    meta = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version)}
    meta |= {"generation": generation, "creationTimestamp": "2027-01-15T07:00:00Z"}
    return {"metadata": meta, "spec": {**SPEC, **spec}, "status": status or {}}


class Told:
    """An inventory. changed: the keys of its changes."""

    def __init__(self):
        self.changed = []
        self.inventory = Inventory(ControllerOptions(), self.changed.append, lambda _: None)

    @property
    def item(self):
        return self.inventory.items.get(KEY)


def raw(one):
    return msgspec.Raw(json.dumps(one).encode())


def listed(inventory, version, *bodies):
    """A list of all namespaces, as `object_watch` stores it."""
    before = {state.uid for state in inventory}
    inventory.begin_list()
    inventory.note_list_version(version)
    seen = {inventory.put_listed(raw(one)) for one in bodies}
    for state in inventory:
        if state.uid in before - seen:
            inventory.drop(state.key, state.uid)


@pytest.mark.parametrize("backup", [280, 400], ids=["before the last list", "after the last list"])
def test_a_store_that_was_restored_is_believed(backup):
    """
    Listed at 300, then edited to 8 replicas, one object made and one deleted; then the backup of before is restored.

    Its versions are lower, and its objects are the true ones.
    """
    told = Told()
    stored = [body(250, maxReplicas=7, status=REMEMBERED), body(260, name="old", uid="two")]
    listed(told.inventory, 300, *stored)
    told.inventory.apply_event("MODIFIED", body(480, generation=2, maxReplicas=8))
    told.inventory.apply_event("ADDED", body(490, name="new", uid="three"))
    told.inventory.apply_event("DELETED", body(500, name="old", uid="two"))
    assert 8 == told.item.served.spec.max_replicas

    listed(told.inventory, backup, *stored)

    assert (7, 250) == (told.item.served.spec.max_replicas, told.item.served.version)
    assert {KEY, ("prod", "old")} == set(told.inventory.items)
    assert [9] == [recommendation.replicas for recommendation in told.item.local.memory.recommendations]
    told.inventory.apply_event("MODIFIED", body(backup + 1, generation=2, maxReplicas=6))
    assert 6 == told.item.served.spec.max_replicas


def test_a_store_that_has_counted_beyond_what_was_seen_since_its_restore_is_believed():
    told = Told()
    listed(told.inventory, 300, body(250, maxReplicas=7))
    told.inventory.apply_event("MODIFIED", body(480, generation=2, maxReplicas=8))

    listed(told.inventory, 600, body(250, maxReplicas=7))

    assert 7 == told.item.served.spec.max_replicas


@pytest.mark.parametrize("version", [590, 480], ids=["another version", "the same version"])
def test_two_edits_of_one_generation_are_told_apart_by_their_specs(version):
    """
    Both the edit that the restore undid and the one after it made generation 2. A restored store counts the versions
    since its backup once more, so that the version may be the same, too.
    """
    told = Told()
    listed(told.inventory, 300, body(250, maxReplicas=7))
    told.inventory.apply_event("MODIFIED", body(480, generation=2, maxReplicas=8))

    listed(told.inventory, 600, body(version, generation=2, maxReplicas=9))

    assert 9 == told.item.served.spec.max_replicas


def test_a_listed_object_with_another_version_and_the_same_spec_is_no_change():
    """Its status was written meanwhile; the spec of the list is the same, with its fields in another order."""
    told = Told()
    listed(told.inventory, 300, body(250))
    other = body(350, status={"target": "Deployment/shop"})
    other["spec"] = dict(reversed(other["spec"].items()))
    listed(told.inventory, 400, other)

    assert [KEY] == told.changed
    assert "Deployment/shop" == told.item.served.status["target"]


def test_a_restored_store_is_believed_in_each_namespace_by_its_own_list():
    """The first namespace's list shows the restore; the second one's is not older than that, and believed as well."""
    told = Told()
    for namespace in ("a", "b"):
        told.inventory.put(body(480, namespace=namespace, uid=namespace, generation=2, maxReplicas=8))
    for namespace, at in (("a", 400), ("b", 405)):
        told.inventory.begin_list()
        told.inventory.note_list_version(at)
        told.inventory.put_listed(raw(body(250, namespace=namespace, uid=namespace, maxReplicas=7)))

    assert [7, 7] == [state.served.spec.max_replicas for state in told.inventory]


def test_the_answer_to_a_status_write_after_a_restore_is_the_newest_version():
    told = Told()
    told.inventory.put(body(480))
    state = told.item
    told.inventory.begin_list()
    told.inventory.note_list_version(400)

    assert told.inventory.note_written(state, 410)
    assert not told.inventory.note_written(state, 405)
    assert 410 == state.served.version


def test_a_status_write_while_a_list_is_on_its_way_is_not_undone_by_the_list():
    told = Told()
    listed(told.inventory, 300, body(250))
    told.inventory.begin_list()
    told.inventory.note_list_version(400)
    told.inventory.note_written(told.item, 410)

    told.inventory.put_listed(raw(body(390, status={"target": "x"})))

    assert (410, {}) == (told.item.served.version, told.item.served.status)


class Backup:
    """The objects of the model, which `restore` puts back: their versions are lower than those that were seen since."""

    def __init__(self, api):
        self._api = api
        self._objects = {plural: copied(objects) for plural, objects in api.objects.items()}
        self._version = api.version

    def restore(self, *cut):
        """cut: the kinds whose watches end. Leases stay."""
        leases = self._api.objects["leases"]
        self._api.objects.clear()
        self._api.objects.update(self._objects, leases=leases)
        self._api.version = self._version
        for plural in cut:
            self._api.cut_watches(plural)


def test_a_spec_that_a_restore_has_undone_scales_nothing_down():
    """
    Eight pods are needed, and an edit to three at most is undone by the restore.

    The Deployment and its pods are listed at once, and the CronHPA minutes later: the count must not fall meanwhile.
    """

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=8)
        api.load[KEY] = 4000
        cronhpa(api)
        async with Life(api):
            await until(60)
            backup = Backup(api)
            api.edit("cronhpas", *KEY, spec={"maxReplicas": 3})
            await until(120)
            assert 3 == api.replicas(*KEY)
            api.scalings.clear()
            backup.restore("deployments", "pods")
            await until(240)
            assert 8 == api.replicas(*KEY)
            await until(900)
            assert "False" == condition(api, "ScalingLimited")["status"]
        assert [] == api.scalings

    live(scenario)


def test_after_a_restore_the_load_is_followed_and_nothing_falls_before():
    """Six pods at the backup, ten since; the load needs ten after the restore as well."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=6)
        api.load[KEY] = 3000
        cronhpa(api)
        async with Life(api):
            await until(60)
            backup = Backup(api)
            api.load[KEY] = 5000
            await until(180)
            assert 10 == api.replicas(*KEY)
            api.scalings.clear()
            backup.restore("deployments", "pods")
            assert 6 == api.replicas(*KEY)
            await until(300)
        assert [(6, 10)] == [(before, after) for _, _, before, after in api.scalings]

    live(scenario)
