"""Credentials that are rotated while the operator runs: connections before and after a rotation."""

import asyncio
import ssl
import threading
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web
from kubernetes.client import Configuration

from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError


class Server:
    """An API server under a CA of its own, on the same port after each start."""

    def __init__(self):
        self.port, self.runner, self.slow = 0, None, asyncio.Event()
        self.refusals = 0  # how many of the next requests are answered 401

    async def start(self, authority):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        app = web.Application()
        app.router.add_get("/slow", self._slow)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.runner = web.AppRunner(app, shutdown_timeout=0)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port, ssl_context=context).start()
        self.port = self.runner.addresses[0][1]

    async def _answer(self, _request):
        if self.refusals:
            self.refusals -= 1
            return web.json_response({}, status=401)
        return web.json_response({})

    async def _slow(self, _request):
        await self.slow.wait()
        return web.json_response({"late": True})

    async def stop(self):
        await self.runner.cleanup()


@asynccontextmanager
async def connected(bundle, authority):
    """(a server under this authority, a client that trusts the bundle, in which it stands)."""
    server = Server()
    authority.cert_pem.write_to_path(bundle)
    await server.start(authority)
    configuration = Configuration()
    configuration.host = f"https://127.0.0.1:{server.port}"
    configuration.ssl_ca_cert = str(bundle)
    try:
        async with Client(configuration) as client:
            yield server, client
    finally:
        await server.stop()


def test_a_credentials_plugin_that_hangs_costs_a_request_its_deadline_and_no_more_than_one_thread():
    """
    The server refuses the token of ten requests, and each wants a new one. Found: they waited for ever, each with a
    thread of the pool that the whole process shares.
    """
    goes_on, asked = threading.Event(), []

    def plugin(configuration):
        asked.append(len(asked))
        configuration.api_key["authorization"] = "Bearer some"
        if len(asked) > 1:
            goes_on.wait(30)

    async def scenario():
        server, authority = Server(), trustme.CA()
        await server.start(authority)
        server.refusals = 10
        configuration = Configuration(host=f"https://127.0.0.1:{server.port}")
        configuration.verify_ssl = False
        vars(configuration)["refresh_api_key_hook"] = plugin
        async with Client(configuration, timeout_seconds=0.5) as client:
            try:
                requests = (client.get(f"/{number}", dict) for number in range(10))
                refused = await asyncio.gather(*requests, return_exceptions=True)
                # Who needs no new token has the one that there is.
                return refused, await client.get("/other", dict)
            finally:
                goes_on.set()
                await server.stop()

    refused, answer = asyncio.run(scenario())

    assert [ClusterError] * 10 == [type(error) for error in refused]
    assert ({}, 2) == (answer, len(asked))


def test_a_rotated_authority_is_followed_without_a_restart(tmp_path):
    """The server comes back under another CA; the request after the one that TLS refused trusts it."""
    bundle, first, second = tmp_path / "ca.crt", trustme.CA(), trustme.CA()

    async def scenario():
        async with connected(bundle, first) as (server, client):
            await client.get("/a", dict)
            await server.stop()
            await server.start(second)
            second.cert_pem.write_to_path(bundle)
            with pytest.raises(ClusterError, match="certificate verify failed"):
                await client.get("/a", dict)
            return await client.get("/a", dict)

    assert asyncio.run(scenario()) == {}


def test_a_bundle_that_is_half_written_keeps_the_present_connections(tmp_path, caplog):
    bundle, authority = tmp_path / "ca.crt", trustme.CA()

    async def scenario():
        async with connected(bundle, authority) as (server, client):
            await client.get("/a", dict)
            bundle.write_text("-----BEGIN CERTI")
            server.refusals = 1
            return await client.get("/a", dict)

    assert asyncio.run(scenario()) == {}
    assert "the certificates of the API cannot be read" in caplog.text


def test_a_request_under_way_ends_on_its_own_connection(tmp_path):
    bundle, first, second = tmp_path / "ca.crt", trustme.CA(), trustme.CA()

    async def scenario():
        async with connected(bundle, first) as (server, client):
            late = asyncio.create_task(client.get("/slow", dict))
            await asyncio.sleep(0.2)
            bundle.write_bytes(first.cert_pem.bytes() + second.cert_pem.bytes())
            server.refusals = 1
            await client.get("/a", dict)
            server.slow.set()
            return await late

    assert asyncio.run(scenario()) == {"late": True}


def test_the_client_knows_when_the_server_answered_last(tmp_path):
    bundle, authority = tmp_path / "ca.crt", trustme.CA()

    async def scenario():
        async with connected(bundle, authority) as (server, client):
            await client.get("/a", dict)
            answered = client.succeeded_at
            await server.stop()
            with pytest.raises(ClusterError):
                await client.get("/a", dict)
            return answered, client.succeeded_at

    answered, later = asyncio.run(scenario())

    assert later == answered
