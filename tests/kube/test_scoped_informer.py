"""Informers of a part of the cluster: their requests, discarded objects, and changes of the scope."""

import asyncio
from contextlib import asynccontextmanager

from aiohttp import web

from cronhpa.kube.informer import Informer
from cronhpa.kube.scale import Workload
from cronhpa.kube.shard_scope import ShardScope
from kube.fake_api import FakeApi, answering

DEPLOYMENTS = "/apis/apps/v1/deployments"
NAMESPACES = [f"team-{number}" for number in range(20)]


def deployment(namespace, version=5):
    return {"metadata": {"name": "shop", "namespace": namespace, "resourceVersion": str(version)}, "spec": {}}


@asynccontextmanager
async def informed(scope, api):
    seen = set()

    def changed(namespace, _name, changed_object):
        (seen.discard if changed_object is None else seen.add)(namespace)

    async with api.client() as client:
        informer = Informer(client, DEPLOYMENTS, Workload, changed, scope=scope)
        running = asyncio.create_task(informer.run())
        yield informer, seen
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def listed(informer, version):
    async with asyncio.timeout(60):
        while informer.listed_scope < version:  # noqa: ASYNC110 - what is waited for is a number, not an event
            await asyncio.sleep(0.01)


def api_with(namespaces):
    api = FakeApi()
    items = [deployment(namespace) for namespace in namespaces]
    api.answers[DEPLOYMENTS] = answering({"metadata": {"resourceVersion": "10"}, "items": items})
    return api


async def test_objects_of_other_shards_are_discarded_and_gained_shards_are_listed():
    scope, api = ShardScope(4), api_with(NAMESPACES)
    async with informed(scope, api) as (informer, seen):
        await listed(informer, scope.hold({0, 1}))
        assert {namespace for namespace in NAMESPACES if scope.shard_of(namespace) in {0, 1}} == seen

        await listed(informer, scope.hold({1, 2}))
        assert {namespace for namespace in NAMESPACES if scope.shard_of(namespace) in {1, 2}} == seen

        await listed(informer, scope.hold(range(4)))
        assert set(NAMESPACES) == seen


async def test_an_empty_scope_sends_no_request_has_no_objects_and_is_not_silent():
    scope, api = ShardScope(4), api_with(NAMESPACES)
    async with informed(scope, api) as (informer, seen):
        await listed(informer, 0)
        assert [] == api.asked

        await listed(informer, scope.hold({0}))
        assert seen

        await listed(informer, scope.hold(()))
        assert not seen
        assert 0 == informer.silent_seconds


async def test_events_of_other_shards_are_discarded():
    scope, api = ShardScope(4), api_with([])
    api.watches[DEPLOYMENTS] = [[{"type": "ADDED", "object": deployment(namespace, 11)} for namespace in NAMESPACES]]
    scope.hold({3})
    async with informed(scope, api) as (_, seen):
        expected = {namespace for namespace in NAMESPACES if scope.shard_of(namespace) == 3}
        async with asyncio.timeout(60):
            while seen != expected:  # noqa: ASYNC110 - the watch tells nobody
                await asyncio.sleep(0.01)


async def test_lists_and_watches_ask_a_server_to_leave_out_the_rest():
    scope, api = ShardScope(4, by_server=True), api_with(NAMESPACES)
    scope.hold({1})
    async with informed(scope, api) as (informer, _):
        await listed(informer, scope.version)
        async with asyncio.timeout(60):
            while len(api.asked) < 2:  # noqa: ASYNC110 - the watch begins behind the list
                await asyncio.sleep(0.01)

    assert {scope.params()["shardSelector"]} == {query.get("shardSelector") for _, _, query in api.asked}


async def test_a_server_that_refuses_the_selector_is_asked_for_everything():
    scope, api = ShardScope(4, by_server=True), api_with(NAMESPACES)
    everything = api.answers[DEPLOYMENTS]

    async def answer(request):
        if "shardSelector" in request.query:
            failure = {"kind": "Status", "code": 400, "reason": "BadRequest", "message": "unknown function"}
            return web.json_response(failure, status=400)
        return await everything(request)

    api.answers[DEPLOYMENTS] = answer
    scope.hold({1})
    async with informed(scope, api) as (informer, seen):
        await listed(informer, scope.version)
        assert {namespace for namespace in NAMESPACES if scope.shard_of(namespace) == 1} == seen
