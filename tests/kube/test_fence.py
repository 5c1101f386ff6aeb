"""Writes of a client whose fence is closed: refused before they are sent, ended when the time is up."""

import asyncio

import pytest
from aiohttp import web
from kubernetes.client import Configuration

from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError, is_ambiguous
from cronhpa.kube.fence import NOT_LEADING


class Server:
    """Counts the writes whose body arrived whole. delay: seconds until it answers."""

    def __init__(self):
        self.bodies, self.reads, self.delay = [], 0, 0.0

    async def answer(self, request):
        if request.method == "GET":
            self.reads += 1
        else:
            self.bodies.append(await request.read())
        await asyncio.sleep(self.delay)
        return web.json_response({})


async def with_client(fence, story):
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with Client(configuration, fence=fence) as client:
            return server, await story(client, server)
    finally:
        await runner.cleanup()


async def refused(write):
    with pytest.raises(ClusterError) as caught:
        await write
    return caught.value


def test_behind_a_closed_fence_nothing_is_written_and_everything_is_read():
    async def story(client, _server):
        await client.get("/a", dict)
        return [
            await refused(client.merge_patch("/a", {}, dict)),
            await refused(client.post("/a", {})),
            await refused(client.delete("/a", {})),
        ]

    server, errors = asyncio.run(with_client(lambda _: 0.0, story))

    assert (server.reads, server.bodies) == (1, [])
    assert {error.reason for error in errors} == {NOT_LEADING}
    assert not any(is_ambiguous(error) for error in errors)


def test_a_fence_that_closes_while_the_connection_is_made_keeps_the_body_back():
    """The fence is checked before the connection is made, and again before the body is sent."""
    looks = []

    def fence(_path):
        looks.append(1)
        return 5.0 if len(looks) == 1 else 0.0

    async def story(client, _server):
        return await refused(client.merge_patch("/a", {"spec": 1}, dict))

    server, error = asyncio.run(with_client(fence, story))

    assert server.bodies == []
    assert len(looks) == 2
    assert is_ambiguous(error)


def test_a_write_under_way_is_ended_when_its_time_is_up():
    async def story(client, server):
        server.delay = 30
        began = asyncio.get_running_loop().time()
        error = await refused(client.merge_patch("/a", {}, dict))
        return error, asyncio.get_running_loop().time() - began

    _, (error, seconds) = asyncio.run(with_client(lambda _: 0.3, story))

    assert is_ambiguous(error)
    assert seconds < 5
