"""cronhpa.operator.objects.object_watch: a watch misses nothing, and begins behind a list."""

import asyncio
import json

from cronhpa.core.model.spec import ControllerOptions
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_watch import InformerWatch, ObjectWatch, WatchPauses
from kube.fake_api import FakeApi, answering

LIST = "/apis/cronhpa.io/v1alpha1/cronhpas"
TOLD = {
    "/apis": answering({"groups": [{"name": "cronhpa.io"}]}),
    "/apis/cronhpa.io/v1alpha1": answering({"resources": [{"name": "cronhpas"}, {"name": "cronhpas/status"}]}),
}


def body(version, name="shop", generation=1, status=None, **spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    return {
        "metadata": {
            "name": name,
            "namespace": "prod",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "resourceVersion": str(version),
            "generation": generation,
        },
        "spec": {"scaleTargetRef": target, "maxReplicas": 10, **spec},
        **({"status": status} if status is not None else {}),
    }


def listed(version, *bodies):
    return {LIST: answering({"metadata": {"resourceVersion": str(version)}, "items": list(bodies)})}


async def watched(api, until, pauses=None):
    """Lists and watches until `until(inventory)`. Raises TimeoutError where that never comes."""
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    async with api.client() as client, asyncio.timeout(60), asyncio.TaskGroup() as group:
        objects = ObjectWatch(
            client, inventory, (), InformerWatch(client), pauses=pauses or WatchPauses(30, 0.05, 0.05)
        )
        tasks = [group.create_task(objects.list_periodically()), group.create_task(objects.watch())]
        while not until(inventory):  # noqa: ASYNC110 - of what the API tells
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
    return inventory, objects


def versions(inventory):
    return {state.name: state.served.version for state in inventory}


def watches(api):
    return [query["resourceVersion"] for _, path, query in api.asked if path == LIST and query.get("watch")]


def test_what_changes_after_the_list_is_taken_over():
    api = FakeApi()
    api.answers = listed(5, body(3), body(4, "mail")) | TOLD
    api.watches[LIST] = [
        [
            {"type": "MODIFIED", "object": body(6, generation=2, maxReplicas=7)},
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}},
            {"type": "ADDED", "object": body(8, "till")},
            {"type": "DELETED", "object": body(9, "mail")},
        ]
    ]

    inventory, _ = asyncio.run(watched(api, lambda inventory: versions(inventory) == {"shop": 6, "till": 8}))

    assert ["5"] == watches(api)
    assert 7 == inventory.items["prod", "shop"].served.spec.max_replicas


def test_a_watch_that_ends_lists_again_and_goes_on():
    """By the server, by an error within the stream, and because its version is too old: nothing is missed."""
    api = FakeApi()
    api.answers = listed(5, body(3)) | TOLD
    gone = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
    broken = {"type": "ERROR", "object": {"code": 500, "message": "the store is away"}}
    api.watches[LIST] = [[], [gone], [broken], [{"type": "MODIFIED", "object": body(6)}]]

    _, objects = asyncio.run(watched(api, lambda inventory: versions(inventory) == {"shop": 6}))

    assert 3 == objects.restarts
    assert ["5"] * 4 == watches(api)
    assert 4 == sum(path == LIST and "watch" not in query for _, path, query in api.asked)


def test_no_watch_begins_before_the_kind_is_served():
    api = FakeApi()

    async def scenario():
        asyncio.get_running_loop().call_later(0.5, api.answers.update, listed(5, body(3)) | TOLD)
        await watched(api, lambda _: watches(api))

    asyncio.run(scenario())

    assert ["5"] == watches(api)


def test_a_watch_of_a_kind_that_is_gone_ends_and_begins_again_behind_the_list_of_the_new_kind():
    """The first watch of the fake API stays open and is silent, as one of a kind that is deleted may be."""
    api = FakeApi()
    api.answers = listed(5, body(3)) | TOLD

    async def scenario():
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, api.answers.clear)
        loop.call_later(1.0, api.answers.update, listed(9, body(8)) | TOLD)
        return await watched(api, lambda _: watches(api) == ["5", "9"], WatchPauses(0.05, 0.05, 0.05))

    inventory, objects = asyncio.run(scenario())

    assert {"shop": 8} == versions(inventory)
    assert objects.restarts >= 1


def test_a_watch_of_a_store_that_was_restored_ends_and_the_next_one_begins_behind_a_list():
    """The list is of version 4, older than what was seen: the version 5 never happened."""
    api = FakeApi()
    api.answers = listed(5, body(3)) | TOLD

    async def scenario():
        inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
        async with api.client() as client, asyncio.timeout(60), asyncio.TaskGroup() as group:
            objects = ObjectWatch(client, inventory, (), InformerWatch(client), pauses=WatchPauses(30, 0.05, 0.05))
            tasks = [group.create_task(objects.list_periodically()), group.create_task(objects.watch())]
            while watches(api) != ["5"]:  # noqa: ASYNC110 - of what the API tells
                await asyncio.sleep(0.01)
            api.answers.update(listed(4, body(2)))
            objects.begin_again()
            while watches(api) != ["5", "4"]:  # noqa: ASYNC110 - of what the API tells
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
        return inventory

    assert {"shop": 2} == versions(asyncio.run(scenario()))


def test_an_event_that_cannot_be_read_is_skipped(caplog):
    api = FakeApi()
    api.answers = listed(5, body(3)) | TOLD
    odd = body(6)
    del odd["metadata"]["uid"]
    api.watches[LIST] = [[{"type": "MODIFIED", "object": odd}, {"type": "MODIFIED", "object": body(7)}]]

    asyncio.run(watched(api, lambda inventory: versions(inventory) == {"shop": 7}))

    assert 1 == sum("cannot be read" in record.message for record in caplog.records)


def test_an_object_of_a_list_that_cannot_be_read_is_not_taken_for_deleted(caplog):
    api = FakeApi()
    odd = body(6)
    odd["metadata"]["creationTimestamp"] = "long ago"
    api.answers = listed(5, body(3)) | TOLD

    async def scenario():
        asyncio.get_running_loop().call_later(0.3, api.answers.update, listed(7, odd))
        api.watches[LIST] = [[], [{"type": "ADDED", "object": body(8, "till")}]]
        inventory, _ = await watched(api, lambda inventory: "till" in versions(inventory))
        return inventory

    assert {"shop": 3, "till": 8} == versions(asyncio.run(scenario()))


def test_an_echo_of_our_own_write_is_not_read():
    """What the write answered is known: the status stays the very text that was written."""
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    inventory.apply_event(None, body(3))
    state = inventory.items["prod", "shop"]
    spec, written = state.served.spec, {"currentReplicas": 3}
    state.served.status, state.served.version = written, 4
    text = state.served.packed_status

    inventory.apply_event("MODIFIED", json.loads(json.dumps(body(4, status=written))))

    assert state.served.packed_status is text
    assert state.served.spec is spec
