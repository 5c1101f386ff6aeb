"""
cronhpa.operator.objects.kopf_watch, cronhpa.operator.objects.object_watch: whatever ends kopf, it begins again behind a
list.
"""

import asyncio

import pytest

from cronhpa.core.model.spec import ControllerOptions
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.kopf_watch import KopfWatch
from cronhpa.operator.objects.object_watch import ObjectWatch, WatchPauses
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


async def watched(api, kopf, until, pauses=None):
    """Lists and watches until `until(objects)`; the `ObjectWatch`. Raises TimeoutError where that never comes."""
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    async with api.client() as client, asyncio.timeout(60), asyncio.TaskGroup() as group:
        watch = KopfWatch(client.configuration, kopf)
        objects = ObjectWatch(client, inventory, (), watch, pauses=pauses or WatchPauses(0.05, 0.05, 0.05))
        tasks = [group.create_task(objects.list_periodically()), group.create_task(objects.watch())]
        while not until(objects):  # noqa: ASYNC110 - what is waited for happens in kopf's thread
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
    return objects


def test_a_watch_that_failed_is_begun_again():
    """A 403, a 404 or an error within the stream ends kopf, and the thread that waits for its flag must not keep it."""
    api = FakeApi()
    api.answers = _LISTED | _TOLD
    kopf = Kopf(api, RuntimeError("404 page not found"), RuntimeError("Error in the watch-stream"))

    objects = asyncio.run(watched(api, kopf, lambda _: kopf.starts == 3))

    assert 2 == objects.restarts


class RefusedError(Exception):
    """As kopf's errors of answers."""

    status = 404


def test_a_refusal_of_the_api_is_one_line_and_a_defect_has_its_traceback(caplog):
    """Found: a CRD that somebody removed was told in eighty lines of tracebacks, as an error of ours."""
    api = FakeApi()
    api.answers = _LISTED | _TOLD
    kopf = Kopf(api, RefusedError("404 page not found"), ZeroDivisionError("a defect"))

    asyncio.run(watched(api, kopf, lambda _: kopf.starts == 3))

    refused, failed = [record for record in caplog.records if "watch of the CronHPA objects" in record.message]
    assert ("WARNING", None) == (refused.levelname, refused.exc_info)
    assert "404 page not found" in refused.message
    assert "ERROR" == failed.levelname
    assert "ZeroDivisionError: a defect" in caplog.text


def test_a_watch_begins_when_there_is_something_to_watch():
    api = FakeApi()
    kopf = Kopf(api)

    async def scenario():
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, api.answers.update, _LISTED)
        # A new kind is served some seconds before discovery names it.
        loop.call_later(1.5, api.answers.update, _TOLD)
        await watched(api, kopf, lambda _: kopf.starts)

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
        await watched(api, kopf, lambda _: kopf.starts == 2)

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
    asyncio.run(watched(api, kopf, lambda _: len(lists) == 2, WatchPauses(60, 60)))


def test_kopf_begins_anew_once_the_store_was_restored():
    """It would wait for the versions of before the restore to come again."""
    api = FakeApi()
    api.answers = _LISTED | _TOLD
    kopf = Kopf(api)
    restored = False

    def until(objects):
        nonlocal restored
        if kopf.starts == 1 and not restored:
            objects.begin_again()
            restored = True
        return kopf.starts == 2

    asyncio.run(watched(api, kopf, until))

    assert 1 <= kopf.stops


async def test_no_watch_begins_between_the_request_for_a_list_and_the_list():
    """A kind may be gone by then, and kopf would watch nothing for ever."""
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    objects = ObjectWatch(None, inventory, (), KopfWatch(None))
    objects.watchable.set()

    objects.request()

    assert not objects.watchable.is_set()


@pytest.mark.parametrize(("count", "warnings"), [(2000, 0), (2001, 1)])
def test_beyond_two_thousand_objects_the_log_recommends_the_informer_once(caplog, count, warnings):
    api, lists = FakeApi(), []
    meta = {"namespace": "prod", "creationTimestamp": "2026-11-01T00:00:00Z", "resourceVersion": "3"}
    items = [{"metadata": {**meta, "name": f"shop-{index}", "uid": f"uid-{index}"}} for index in range(count)]

    async def listed(request):
        lists.append(request.path)
        return await answering({"metadata": {"resourceVersion": "5"}, "items": items})(request)

    api.answers = {**_TOLD, _LIST: listed}
    asyncio.run(watched(api, Kopf(api), lambda _: len(lists) >= 3))

    assert warnings == sum("CRONHPA_OBJECT_WATCH=informer" in record.getMessage() for record in caplog.records)
