"""
HTTP for ports that anybody can reach: only GET, one request per connection, everything limited.

aiohttp speaks HTTP; which connections there are, and for how long, is `ports.connections`. So a thousand half-open
connections block neither the probes nor the API connections, and a probe that sends its request at once is answered.

- The head of a request has a maximum size; a body is refused; a connection ends with its answer.
- A connection is read 20 times a second at most: a head that arrives byte by byte does not wake the loop for each byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.web_protocol import RequestHandler
from msgspec import Struct

from cronhpa.ports.accepting import ACCEPTS_AT_ONCE
from cronhpa.ports.connections import ConnectionLimits, Connections

LOG = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
# A token with many claims has some kilobytes; the API server accepts a head of this size, too.
_HEAD_BYTES = 16_384
_READ_PAUSE_SECONDS = 0.05
# Three listeners together use at most a fifth of the files that the process may open; the rest is for the API.
_SHARE_OF_FILES = 16
_CONNECTIONS = 32
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def limits_within(files: int) -> ConnectionLimits:
    """The limits of each of three listeners in a process that may open this many files."""
    connections = max(2, min(_CONNECTIONS, files // _SHARE_OF_FILES))
    return ConnectionLimits(connections, per_peer=min(ACCEPTS_AT_ONCE, connections), life_seconds=15.0)


class Answer(Struct, frozen=True):
    """A response."""

    status: HTTPStatus
    body: Sequence[bytes] = ()
    """In parts: copying a large body into one piece would delay the event loop."""
    content_type: str = TEXT
    headers: Mapping[str, str] = {}


def response(status: HTTPStatus, body: bytes | str, content_type: str = TEXT) -> Answer:
    return Answer(status, [body.encode() if isinstance(body, str) else body], content_type)


Route = Callable[[], Answer | Awaitable[Answer]]
"""It runs in the event loop, so it must not block."""


class Request(Struct, frozen=True):
    path: str
    """As sent, quoted."""
    query: str
    """As sent, quoted."""
    fields: Mapping[str, str]
    """Fields of the head, by name in any case."""


RequestRoute = Callable[[Request], Awaitable[Answer]]
"""It may wait, for as long as a connection lasts: it is cancelled when the connection ends."""


class Listener:
    """
    `listener = Listener(host, port, routes)` is bound; `await listener.run()` serves until it is cancelled.

    host: an address. port: 0 takes a free one, named by `address`. routes: by path. below: by the beginning of a path.
    Raises OSError if it cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[str, Route],
        limits: ConnectionLimits | None = None,
        below: Mapping[str, RequestRoute] | None = None,
    ) -> None:
        self._routes, self._below = routes, below or {}
        self._server: web.Server | None = None
        self._connections = Connections(host, port, self._protocol, limits=limits or limits_within(1 << 20))

    @property
    def address(self) -> tuple[str, int]:
        return self._connections.address

    @property
    def dropped(self) -> int:
        """Number of connections closed without an answer that was taken: pushed out, or too slow."""
        return self._connections.dropped

    async def run(self) -> None:
        self._server = web.Server(self._respond, handler_cancellation=True)
        try:
            await self._connections.run()
        finally:
            await self._server.shutdown(0)

    def _protocol(self) -> asyncio.Protocol:
        assert self._server is not None, "connections are accepted while it runs"
        return _OneRequest(self._server)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answer(request)
        headers = {"Content-Type": answer.content_type, "Server": "cronhpa", **answer.headers}
        sent = web.StreamResponse(status=answer.status, headers=headers)
        sent.content_length = sum(map(len, answer.body))
        sent.force_close()
        await sent.prepare(request)
        if request.method != "HEAD":
            for part in answer.body:
                await sent.write(part)
        await sent.write_eof()
        connection = request.protocol
        assert isinstance(connection, _OneRequest)
        await connection.taken()
        return sent

    async def _answer(self, request: web.BaseRequest) -> Answer:
        path, _, query = request.raw_path.partition("?")
        if request.version not in {HttpVersion10, HttpVersion11} or not path.startswith("/"):
            return _NO_REQUEST
        if "Transfer-Encoding" in request.headers or request.headers.get("Content-Length", "0") != "0":
            return response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request's body is not accepted\n")
        if request.method not in {"GET", "HEAD"}:
            return response(HTTPStatus.METHOD_NOT_ALLOWED, "GET alone is accepted\n")
        route = self._routes.get(path)
        below = next((self._below[begin] for begin in self._below if path.startswith(begin)), None)
        try:
            if route is not None:
                made = route()
                return made if isinstance(made, Answer) else await made
            if below is not None:
                return await below(Request(path, query, request.headers))
        except Exception:
            LOG.exception("%s cannot be answered", path)
            return response(HTTPStatus.INTERNAL_SERVER_ERROR, "the operator's log says why\n")
        return response(HTTPStatus.NOT_FOUND, f"here are {', '.join((*self._routes, *self._below))}\n")


_NO_REQUEST = response(HTTPStatus.BAD_REQUEST, "this is no HTTP/1.1 request\n")


class _OneRequest(RequestHandler):
    """A connection whose parser gets one head, as a whole; anything after it is read and dropped."""

    __slots__ = ("_ended", "_has_request", "_head", "_is_read")

    def __init__(self, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes it for none, and its annotation does not say so
            lingering_time=0.0,
            max_line_size=_HEAD_BYTES,
            max_field_size=_HEAD_BYTES,
        )
        self._head = bytearray()
        self._is_read = self._has_request = False
        self._ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        transport = self.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        asyncio.get_running_loop().call_later(_READ_PAUSE_SECONDS, transport.resume_reading)
        if self._is_read:
            return
        self._head += data
        head, blank, _ = self._head.partition(b"\r\n\r\n")
        if len(head) > _HEAD_BYTES:
            self._is_read = True
            transport.write(_TOO_LONG)
            transport.write_eof()
        elif blank:
            self._is_read = self._has_request = True
            super().data_received(bytes(head + blank))

    async def taken(self) -> None:
        """Waits until the peer has the answer: unsent data of a closed connection would be the kernel's memory."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.write_eof()
            self.transport.resume_reading()
            await self._ended.wait()

    def eof_received(self) -> bool | None:  # type: ignore[override]  # aiohttp closes in any case
        """A peer that has nothing more to send may still wait for its answer."""
        self._ended.set()
        return self._has_request

    def connection_lost(self, exc: BaseException | None) -> None:
        self._ended.set()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no request; aiohttp's own repeats parts of it, and so does its log."""
        del status, exc, message
        if request.writer.output_size:
            raise ConnectionError("the answer has begun")
        answer = web.Response(status=_NO_REQUEST.status, body=_NO_REQUEST.body[0], headers={"Server": "cronhpa"})
        answer.force_close()
        return answer
