"""
A proxy in front of an API server that does to requests what a broken network and a broken server do.

It listens on loopback and passes the caller's token on, so the API server knows who asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

import aiohttp
import yaml
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    import trustme

_T = TypeVar("_T")
_CALL_S = 30
# Belong to one connection, not to the answer.
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"}


@dataclass
class Trouble:
    """
    What happens to requests whose method and path match; without an end they are passed on, after `delay` seconds.

    end: "status" answers `status` with `headers` and `body`; "reset" cuts the connection; "hang" never answers; "half"
    passes half of the answer on and cuts the connection. passed_on: the API server gets the request all the same, so
    only the answer is lost. watches: whether it is about watches; None for all requests. times: how often it happens,
    None for ever. call: is called each time, behind the API server's answer where the request is passed on. met: how
    often it happened.
    """

    method: str = "."
    path: str = ""
    end: str = ""
    delay: float = 0.0
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    passed_on: bool = False
    watches: bool | None = False
    times: int | None = None
    call: Callable[[], object] | None = None
    met: int = field(default=0, init=False)

    def concerns(self, request: web.Request) -> bool:
        is_watch = request.query.get("watch") in {"1", "true"}
        return (
            (self.times is None or self.met < self.times)
            and self.watches in {None, is_watch}
            and re.match(self.method, request.method) is not None
            and re.search(self.path, request.path) is not None
        )


class FaultProxy:
    """
    `with FaultProxy(plane.url, plane.ca_file) as proxy:` passes every request on until it is told otherwise.

    certificate: what it proves itself with, None for plain HTTP.
    asked: (seconds of its loop's clock, method, path, status of the answer or 0) of each request but watches, in the
    order of their answers. carried_seconds: for how long a narrow line was busy so far.
    """

    def __init__(self, target: str, ca_file: Path, certificate: trustme.LeafCert | None = None) -> None:
        self.asked: list[tuple[float, str, str, int]] = []
        self._targets, self._ca_file = itertools.cycle([target]), ca_file
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(self._tls)
        self._troubles: list[Trouble] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._connected = asyncio.Event()
        self._frozen: re.Pattern[str] | None = None
        self._frozen_at = 0.0
        self._bytes_per_second: float | None = None
        self.carried_seconds = self._line_free_at = 0.0
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = self._call(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_S)
        self._loop.close()

    def kubeconfig(self, of: Path, folder: Path, ca_file: Path | None = None) -> Path:
        """A copy of a kubeconfig that asks this proxy. ca_file: who signed its certificate."""
        content = yaml.safe_load(of.read_text())
        for cluster in content["clusters"]:
            cluster["cluster"] = {"server": self.url} | ({"certificate-authority": str(ca_file)} if ca_file else {})
        path = folder / f"proxied-{of.name}"
        path.write_text(yaml.safe_dump(content))
        return path

    @contextlib.contextmanager
    def failing(self, *troubles: Trouble) -> Iterator[None]:
        """While the block lasts, requests meet the first trouble that concerns them."""
        self._troubles = [*troubles]
        try:
            yield
        finally:
            self._troubles = []

    @contextlib.contextmanager
    def frozen_watches(self, path: str) -> Iterator[None]:
        """Those who watch these paths by now hear nothing, bookmarks neither, and their connections stay open."""
        self._frozen, self._frozen_at = re.compile(path), self._loop.time()
        try:
            yield
        finally:
            self._frozen = None

    def spread(self, *targets: str) -> None:
        """Passes requests to these API servers in turn from now on, as a load balancer does; open watches stay."""
        self._targets = itertools.cycle(targets)

    @contextlib.contextmanager
    def narrow(self, bytes_per_second: float) -> Iterator[None]:
        """All that is passed on to the callers, watches too, shares a line of this width."""
        self._bytes_per_second = bytes_per_second
        try:
            yield
        finally:
            self._bytes_per_second = None

    def cut(self) -> None:
        """A partition: nothing is passed on in any direction, and nobody is told."""
        self._loop.call_soon_threadsafe(self._connected.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._connected.set)

    def rotate(self, certificate: trustme.LeafCert) -> None:
        """Proves itself with another certificate on every new connection, and cuts the open ones."""
        assert self._tls is not None
        certificate.configure_cert(self._tls)
        self.reset_all()

    def reset_all(self) -> None:
        """Cuts every connection that is open."""
        self._call(self._reset_all())

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S)

    async def _open(self) -> str:
        self._connected.set()
        connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cafile=self._ca_file))
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _close(self) -> None:
        assert self._runner is not None and self._session is not None  # noqa: PT018 - opened together
        self._connected.set()
        await self._reset_all()
        await self._runner.cleanup()
        await self._session.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _reset_all(self) -> None:
        assert self._runner is not None and self._runner.server is not None  # noqa: PT018 - opened together
        for connection in list(self._runner.server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if not self._connected.is_set():
            # What is sent into a partition is lost; it is not delivered when the partition ends.
            await self._connected.wait()
            return _abort(request)
        trouble = next((candidate for candidate in self._troubles if candidate.concerns(request)), None)
        if trouble is None:
            return await self._passed_on(request, body)
        trouble.met += 1
        await asyncio.sleep(trouble.delay)
        if not trouble.end:
            return await self._passed_on(request, body)
        if trouble.end == "half":
            return await self._passed_on(request, body, half=True)
        if trouble.passed_on:
            async with self._asked(request, body) as answer:
                await answer.read()
        if trouble.call is not None:
            await asyncio.to_thread(trouble.call)
        self._note(request, trouble.status if trouble.end == "status" else 0)
        if trouble.end == "status":
            return web.Response(status=trouble.status, headers=dict(trouble.headers), text=trouble.body)
        if trouble.end == "hang":
            await asyncio.Event().wait()
        return _abort(request)

    def _asked(self, request: web.Request, body: bytes) -> Any:
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        return self._session.request(
            request.method, f"{next(self._targets)}{request.raw_path}", data=body or None, headers=headers,
            allow_redirects=False,
        )  # fmt: skip

    async def _passed_on(self, request: web.Request, body: bytes, *, half: bool = False) -> web.StreamResponse:
        try:
            async with self._asked(request, body) as answer:
                return await self._answered(request, answer, half=half)
        except (aiohttp.ClientError, OSError):
            self._note(request, 0)
            return _abort(request)

    async def _answered(
        self, request: web.Request, answer: aiohttp.ClientResponse, *, half: bool
    ) -> web.StreamResponse:
        headers = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP}
        is_watch = request.query.get("watch") in {"1", "true"}
        if not is_watch:
            whole = await answer.read()
            if not self._connected.is_set():
                await self._connected.wait()
                return _abort(request)
            self._note(request, answer.status)
            if self._bytes_per_second is not None and not half:
                return await self._trickled(request, answer.status, headers, whole)
            if not half:
                return web.Response(status=answer.status, headers=headers, body=whole)
            headers["Content-Length"] = str(len(whole))
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            await response.write(whole[: len(whole) // 2])
            return _abort(request)
        response = web.StreamResponse(status=answer.status, headers=headers)
        begun = self._loop.time()
        await response.prepare(request)
        async for part in answer.content.iter_any():
            await self._connected.wait()
            if self._frozen is None or begun > self._frozen_at or not self._frozen.search(request.path):
                await self._carry(len(part))
                await response.write(part)
            if half:
                return _abort(request)
        return response

    async def _trickled(
        self, request: web.Request, status: int, headers: dict[str, str], whole: bytes
    ) -> web.StreamResponse:
        """The answer over the narrow line, a kilobyte at a time, as far as the caller waits for it."""
        headers["Content-Length"] = str(len(whole))
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        for begin in range(0, len(whole), 1024):
            await self._carry(len(whole[begin : begin + 1024]))
            await response.write(whole[begin : begin + 1024])
        return response

    async def _carry(self, size: int) -> None:
        """Waits until the line has carried so many bytes more, behind those of others that were there before."""
        if self._bytes_per_second is not None:
            seconds = size / self._bytes_per_second
            self.carried_seconds += seconds
            self._line_free_at = max(self._line_free_at, self._loop.time()) + seconds
            await asyncio.sleep(self._line_free_at - self._loop.time())

    def _note(self, request: web.Request, status: int) -> None:
        self.asked.append((self._loop.time(), request.method, request.path, status))


def _abort(request: web.Request) -> web.StreamResponse:
    """Cuts the connection of a request; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


class Link:
    """
    `with Link(port) as link:` passes bytes on from `link.port` of loopback to another port, until it is frozen.

    Frozen, it passes nothing on, and its connections stay open.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)
        self._flows = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._flows.set()
        self.port = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_CALL_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_CALL_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_S)
        self._loop.close()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        self._loop.call_soon_threadsafe(self._flows.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._flows.set)

    async def _open(self) -> int:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        # At the end of the link only: whoever reads the result of this task takes a cancellation for an error.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        for stream in (writer, back):
            stream.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while part := await reader.read(65_536):
                await self._flows.wait()
                writer.write(part)
                await writer.drain()
            writer.write_eof()
