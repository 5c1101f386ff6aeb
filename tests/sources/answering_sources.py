"""Real HTTP servers as a Prometheus and as pods, on loopback."""

import asyncio
import gzip
from contextlib import asynccontextmanager

from aiohttp import web

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.core.model.observation import Container, Pod
from cronhpa.core.model.spec import TargetRef
from cronhpa.sources.source import MeasuredObject

NOON = parse_instant("2026-03-01T12:00:00Z")
SHOP = TargetRef("apps/v1", "Deployment", "shop")


def measured(name="shop", namespace="prod", pods=(), period=15, target=SHOP):
    return MeasuredObject(namespace, name, target, tuple(pods), period * SECOND)


def pod(number, *, ip=None, ready="True", ports=None, created=0, **given):
    container = Container("app", {}, ports=ports or {})
    address = f"127.0.0.{number}" if ip is None else ip
    return Pod(f"shop-{number}", "Running", False, ready, 0, 0, created, (container,), ip=address, **given)


@asynccontextmanager
async def serving(answer, addresses=("127.0.0.1",), tls=None):
    """The port of a server that answers every request so, at all of these addresses."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    port = 0
    try:
        for address in addresses:
            await web.TCPSite(runner, address, port, ssl_context=tls).start()
            port = runner.addresses[0][1]
        yield port
    finally:
        await runner.cleanup()


def vector(*series, at=NOON / SECOND):
    """An answer of an instant query: (labels, number as text)."""
    result = [{"metric": metric, "value": [at, number]} for metric, number in series]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


async def endless(_request):
    """64 MiB of blanks in 64 KB of gzip."""
    return web.Response(body=gzip.compress(b" " * 2**26), headers={"Content-Encoding": "gzip"})


async def drips(request):
    """A byte each 20 ms, for two seconds."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(100):
        await response.write(b" ")
        await asyncio.sleep(0.02)
    return response
