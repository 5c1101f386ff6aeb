"""cronhpa.operator.loop.metric_apis: objects that ask named sources, through the whole operator, by HTTP."""

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web
from lives import Life, condition, cronhpa, deployment
from model_api import START, ModelApi

from cronhpa.core.model.instant import SECOND
from cronhpa.history.database.series import Series
from cronhpa.sources.parse import parse_sources

QUICK = {"syncPeriodSeconds": 1, "maxReplicas": 20}


@asynccontextmanager
async def life_with(api, answer, sources, addresses=("127.0.0.1",)):
    """The operator with these sources, and a server that answers them so at the port PORT of each address."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    port = 0
    for address in addresses:
        await web.TCPSite(runner, address, port).start()
        port = runner.addresses[0][1]
    text = json.dumps({"sources": sources}).replace('"PORT"', str(port)).replace("PORT", str(port))
    life = Life(api)
    await life.controller.sources.replace(parse_sources(text, "test"), {})
    try:
        async with life:
            yield life
    finally:
        await life.controller.sources.close()
        await runner.cleanup()


async def eventually(seen, within_s=60.0):
    async with asyncio.timeout(within_s):
        while not seen():  # noqa: ASYNC110 - the model has no event for a change
            await asyncio.sleep(0.05)


def asks(kind, name, average):
    target = {"type": "AverageValue", "averageValue": str(average)}
    return {"type": kind, kind.lower(): {"metric": {"name": name}, "target": target}}


async def test_many_objects_of_one_query_follow_their_own_series_for_a_request_a_period():
    """
    60 objects in six namespaces whose reconciliations have phases of their own; the one of rank n needs n % 5 + 1 pods.
    """
    api, seen = ModelApi(), []
    names = [(f"team-{number % 6}", f"app-{number}") for number in range(60)]
    for namespace, name in names:
        deployment(api, name, namespace=namespace)
        cronhpa(api, name, namespace, metrics=[asks("External", "requests", 10)], **QUICK)

    async def answer(request):
        seen.append((await request.post())["query"])
        result = [
            {"metric": {"namespace": namespace, "app": name}, "value": [api.now() / SECOND, str(10 * (rank % 5) + 5)]}
            for rank, (namespace, name) in enumerate(names)
        ]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    query = "sum by (namespace, app) (rate(requests[1m]))"
    joined = {"query": query, "url": "http://127.0.0.1:PORT", "join": {"namespace": "namespace", "target": "app"}}
    async with life_with(api, answer, {"requests": {"prometheus": joined}}) as life:
        wanted = {(namespace, name): rank % 5 + 1 for rank, (namespace, name) in enumerate(names)}
        await eventually(lambda: all(count >= wanted[of] for of, count in replicas(api).items() if wanted[of] > 2))
        before, reconciliations = len(seen), life.control_loop.metrics.reconciles
        await asyncio.sleep(3)
        loads = {sample.series: sample.value for sample in life.loads()}

    assert {query} == set(seen)
    assert life.control_loop.metrics.reconciles - reconciliations > 60
    assert len(seen) - before <= 4
    # What was asked is what a forecast learns from.
    assert 5.0 == loads[Series("team-0", "app-0", "requests")]
    assert 45.0 == loads[Series("team-4", "app-4", "requests")]


async def test_a_url_scales_its_object_holds_it_while_there_is_no_number_and_is_recorded_as_load():
    """10 a pod: 58 need 6 pods; what comes later is null, which is no zero."""
    api, answers = ModelApi(), [{"queue": {"length": 58}}]
    deployment(api)
    cronhpa(api, metrics=[asks("External", "queue", 10)], **QUICK)

    async def answer(request):
        assert "/prod/shop" == request.path
        return web.json_response(answers[-1])

    stated = {"url": "http://127.0.0.1:PORT/$namespace/$target", "value": "queue.length"}
    async with life_with(api, answer, {"queue": {"url": stated}}) as life:
        await eventually(lambda: replicas(api)["prod", "shop"] == 6)
        loads = {sample.series: sample.value for sample in life.loads()}
        answers.append({"queue": {"length": None}})
        await eventually(lambda: "queue.length is null" in condition(api, "ScalingActive").get("message", ""))
        held = replicas(api)["prod", "shop"]

    assert 58.0 == loads[Series("prod", "shop", "queue")]
    assert 6 == held


def replicas(api):
    return {key: workload["spec"]["replicas"] for key, workload in api.objects["deployments"].items()}


async def test_a_source_without_an_answer_holds_the_count_and_says_why():
    api = ModelApi()
    deployment(api, replicas=3)
    cronhpa(api, metrics=[asks("External", "requests", 10)], **QUICK)

    async def answer(request):
        return web.Response(status=503)

    source = {"prometheus": {"query": "up", "url": "http://127.0.0.1:PORT"}}
    async with life_with(api, answer, {"requests": source}):
        await eventually(lambda: condition(api, "ScalingActive").get("status") == "False")

    told = condition(api, "ScalingActive")
    assert "FailedGetExternalMetric" == told["reason"]
    assert "source requests: it answered 503" in told["message"]
    assert 3 == api.replicas("prod", "shop")
    assert 0 == api.count("GET", "external.metrics")


async def test_pods_are_asked_themselves_and_a_silent_one_counts_as_a_missing_one():
    """
    Of four pods three say 5 each, at 10 a pod. The silent one counts with its target where the load is low:
    (15 + 10) / 10 = 3 pods. Were it a zero, 2 would be enough.
    """
    api = ModelApi()
    deployment(api, replicas=4)
    for number in range(4):
        api.edit("pods", "prod", f"shop-00{number}", status={"podIP": f"127.0.0.{number + 1}"})
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    cronhpa(api, metrics=[asks("Pods", "inflight", 10)], behavior=behavior, **QUICK)

    async def answer(request):
        if request.transport.get_extra_info("sockname")[0] == "127.0.0.4":
            return web.Response(status=500)
        return web.Response(text="inflight 5\n")

    source = {"pods": {"port": "PORT", "metric": "inflight", "podNetworks": ["127.0.0.0/8"]}}
    addresses = [f"127.0.0.{number}" for number in range(1, 5)]
    async with life_with(api, answer, {"inflight": source}, addresses) as life:
        await eventually(lambda: api.replicas("prod", "shop") != 4)
        loads = [sample for sample in life.loads() if sample.at > START]

    assert 3 == api.scalings[0][3]
    assert (Series("prod", "shop", "inflight"), 15.0) == (loads[0].series, loads[0].value)
    assert 0 == api.count("GET", "custom.metrics")
