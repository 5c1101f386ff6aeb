"""Whatever ends kopf's watch, another one begins; and none is begun that would watch nothing."""

import asyncio

import pytest

from cronhpa.core.spec import ControllerOptions
from cronhpa.operator import inventory as module
from cronhpa.operator.inventory import Inventory
from kube.fake_api import FakeApi, answering

_LIST = "/apis/cronhpa.io/v1alpha1/cronhpas"
_EMPTY = {"metadata": {"resourceVersion": "5"}, "items": []}
_LISTED = {_LIST: answering(_EMPTY)}
_TOLD = {
    "/apis": answering({"groups": [{"name": "cronhpa.io"}]}),
    "/apis/cronhpa.io/v1alpha1": answering({"resources": [{"name": "cronhpas"}, {"name": "cronhpas/status"}]}),
}


class Kopf:
    """
    Stands for `kopf.operator`: it waits for its stop flag in a thread of its loop's executor, as the real one does.

    endings: one for each start: an exception that ends it, None to go on until it is stopped.
    """

    def __init__(self, api, *endings):
        self.starts, self.stops = 0, 0
        # Whether the kind was served as it started: the real one looks for it then, and never again.
        self.found = []
        self._api, self._endings = api, list(endings)

    async def __call__(self, *, stop_flag, **_):
        self.starts += 1
        self.found.append("/apis" in self._api.answers)
        ending = self._endings.pop(0) if self._endings else None
        stopped = asyncio.get_running_loop().run_in_executor(None, stop_flag.wait)
        if ending is not None:
            raise ending
        await stopped
        self.stops += 1


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "_RESTART_SECONDS", 0.05)
    monkeypatch.setattr(module, "_SWEEP_SECONDS", 0.05)


async def watched(api, until):
    """Runs sweep and watch until `until()`; the inventory. Raises TimeoutError where that never comes."""
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    async with api.client() as client, asyncio.timeout(10), asyncio.TaskGroup() as group:
        sweep = group.create_task(inventory.sweep(client, ()))
        watch = group.create_task(inventory.watch(client.configuration, ()))
        while not until():  # noqa: ASYNC110 - what is waited for happens in kopf's thread
            await asyncio.sleep(0.01)
        sweep.cancel()
        watch.cancel()
    return inventory


def test_a_watch_that_failed_is_begun_again(monkeypatch):
    """A 403, a 404 or an error within the stream ends kopf, and the thread that waits for its flag must not keep it."""
    api = FakeApi()
    api.answers = _LISTED | _TOLD
    kopf = Kopf(api, RuntimeError("404 page not found"), RuntimeError("Error in the watch-stream"))
    monkeypatch.setattr(module.kopf, "operator", kopf)

    inventory = asyncio.run(watched(api, lambda: kopf.starts == 3))

    assert 2 == inventory.restarts


def test_a_watch_begins_when_there_is_something_to_watch(monkeypatch):
    api = FakeApi()
    kopf = Kopf(api)
    monkeypatch.setattr(module.kopf, "operator", kopf)

    async def scenario():
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, api.answers.update, _LISTED)
        # A new kind is served for some seconds before the API tells of it.
        loop.call_later(1.5, api.answers.update, _TOLD)
        await watched(api, lambda: kopf.starts)

    asyncio.run(scenario())

    assert [True] == kopf.found


def test_a_watch_of_a_kind_that_is_gone_ends_and_begins_again_with_the_kind(monkeypatch):
    api = FakeApi()
    api.answers = _LISTED | _TOLD
    kopf = Kopf(api)
    monkeypatch.setattr(module.kopf, "operator", kopf)

    async def scenario():
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, api.answers.clear)
        loop.call_later(1.5, api.answers.update, _LISTED | _TOLD)
        await watched(api, lambda: kopf.starts == 2)

    asyncio.run(scenario())

    assert 1 <= kopf.stops
    assert [True, True] == kopf.found
