"""A small API server for cases that a real one cannot produce: it sends the answers that a test has set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from kubernetes.client import Configuration

from cronhpa.kube.client import Client

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(body: Any, status: int = 200) -> Answer:
    """The same answer to every request; a text goes out as it is."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body if isinstance(body, str) else json.dumps(body), status=status)

    return answer


class FakeApi:
    """
    `answers` by path, `asked` in order. A list path also serves its watch: `watches[path]` are its lines to come, or
    `watch_answers[path]` answers in their place.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.watch_answers: dict[str, Answer] = {}
        self.watches: dict[str, list[list[dict[str, Any]]]] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.tokens: list[str | None] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path, dict(request.query)))
        self.tokens.append(request.headers.get("Authorization"))
        if request.query.get("watch"):
            return await self.watch_answers.get(request.path, self.watch)(request)
        answer = self.answers.get(request.path)
        if answer is None:
            failure = {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"{request.path} not found"}
            return web.json_response(failure, status=404)
        return await answer(request)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        rounds = self.watches.get(request.path, [])
        for signal in rounds.pop(0) if rounds else []:
            await response.write(json.dumps(signal).encode() + b"\n")
        if not rounds:
            await asyncio.sleep(60)
        return response

    @asynccontextmanager
    async def client(self, *, timeout_seconds: float = 5.0) -> AsyncIterator[Client]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        configuration = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
        try:
            async with Client(configuration, timeout_seconds=timeout_seconds) as client:
                yield client
        finally:
            await runner.cleanup()
