"""cronhpa.operator.kopf_watch, cronhpa.operator.sweep: whatever ends a watch, another begins; none watches nothing."""

import asyncio

from cronhpa.core.spec import ControllerOptions
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.kopf_watch import KopfWatch
from cronhpa.operator.sweep import Sweep, SweepPauses
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


async def watched(api, kopf, until, pauses=None, sweeps=None):
    """Runs sweep and watch until `until()`; the watch. Raises TimeoutError where that never comes."""
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    async with api.client() as client, asyncio.timeout(10), asyncio.TaskGroup() as group:
        sweep = Sweep(client, inventory, (), pauses or SweepPauses(0.05, 0.05))
        if sweeps is not None:
            sweeps.append(sweep)
        watch = KopfWatch(client.configuration, (), inventory.apply_event, sweep, restart_seconds=0.05, run_kopf=kopf)
        tasks = [group.create_task(sweep.run()), group.create_task(watch.run())]
        while not until():  # noqa: ASYNC110 - what is waited for happens in kopf's thread
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
    return watch


def test_a_watch_that_failed_is_begun_again():
    """A 403, a 404 or an error within the stream ends kopf, and the thread that waits for its flag must not keep it."""
    api = FakeApi()
    api.answers = _LISTED | _TOLD
    kopf = Kopf(api, RuntimeError("404 page not found"), RuntimeError("Error in the watch-stream"))

    watch = asyncio.run(watched(api, kopf, lambda: kopf.starts == 3))

    assert 2 == watch.restarts


def test_a_watch_begins_when_there_is_something_to_watch():
    api = FakeApi()
    kopf = Kopf(api)

    async def scenario():
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, api.answers.update, _LISTED)
        # A new kind is served some seconds before discovery names it.
        loop.call_later(1.5, api.answers.update, _TOLD)
        await watched(api, kopf, lambda: kopf.starts)

    asyncio.run(scenario())

    assert [True] == kopf.found


def test_a_watch_of_a_kind_that_is_gone_ends_and_begins_again_with_the_kind():
    api = FakeApi()
    api.answers = _LISTED | _TOLD
    kopf = Kopf(api)

    async def scenario():
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, api.answers.clear)
        loop.call_later(1.5, api.answers.update, _LISTED | _TOLD)
        await watched(api, kopf, lambda: kopf.starts == 2)

    asyncio.run(scenario())

    assert 1 <= kopf.stops
    assert [True, True] == kopf.found


def test_after_each_list_of_kopf_there_is_one_of_our_own():
    """kopf lists anew after its watch has ended, and does not say what was deleted meanwhile."""
    lists = []

    async def kopf(*, registry, stop_flag, **_):
        """Lists one object, delivers a change of it, and lists it again."""
        (handler,) = registry._watching.get_all_handlers()  # noqa: SLF001 - kopf calls them itself
        for kind in (None, "MODIFIED", None):
            await handler.fn(event={"type": kind, "object": {}})
        await asyncio.get_running_loop().run_in_executor(None, stop_flag.wait)

    api = FakeApi()

    async def listed(request):
        lists.append(request.path)
        return await answering(_EMPTY)(request)

    api.answers = {**_TOLD, _LIST: listed}
    asyncio.run(watched(api, kopf, lambda: len(lists) == 2, SweepPauses(60, 60)))


def test_kopf_begins_anew_once_the_store_was_restored():
    """It would wait for the versions of before the restore to come again."""
    api = FakeApi()
    api.answers = _LISTED | _TOLD
    kopf = Kopf(api)
    restored = False

    def until():
        nonlocal restored
        if kopf.starts == 1 and not restored:
            sweeps[0].note_restore()
            restored = True
        return kopf.starts == 2

    sweeps = []
    asyncio.run(watched(api, kopf, until, sweeps=sweeps))

    assert 1 <= kopf.stops


async def test_no_watch_begins_between_the_request_for_a_list_and_the_list():
    """A kind may be gone by then, and kopf would watch nothing for ever."""
    sweep = Sweep(None, Inventory(ControllerOptions(), lambda _: None, lambda _: None), ())
    sweep.watchable.set()

    sweep.request()

    assert not sweep.watchable.is_set()
