"""
An HTTP server for ports that anybody can reach: only GET, one request per connection, everything limited.

A general server accepts as many connections as the process may have files, and waits for the rest of each request. Then
a thousand half-open connections block the probes, the API connections and the log. The rules of this server:

- At most `connections` are open, at most `per_peer` of them from one address. A new connection is always accepted: if
  there is no room, the oldest connection of the address with the most connections is closed. So one address cannot
  push out another, and a probe that sends its request at once is answered however many connections are held.
- The head of a request has a maximum size and one deadline; an answer has a deadline; a body is refused; a connection
  ends with its answer. So no connection lasts longer than both deadlines together.
- The cost that an address can cause is paced: accepts per second, and reads per second of a head in pieces.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from cronhpa.ports.accepting import ACCEPTS_AT_ONCE, accepted, gives_way, listening_socket

LOG = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
# Without it, a head that arrives byte by byte would wake the loop for each byte.
_READ_PAUSE_SECONDS = 0.05
# Makes the kernel drop a connection that is closed early at once, with its unsent data.
_RESET = struct.pack("ii", 1, 0)
# Three listeners together use at most a fifth of the files that the process may open; the rest is for the API.
_SHARE_OF_FILES = 16


@dataclass(frozen=True)
class Budget:
    """Limits of one listener: for all peers together, and for one address."""

    connections: int = 32
    per_peer: int = ACCEPTS_AT_ONCE
    head_bytes: int = 8192
    head_seconds: float = 5.0
    answer_seconds: float = 10.0

    @classmethod
    def within(cls, files: int) -> Budget:
        """The budget of each of three listeners in a process that may open this many files."""
        connections = max(2, min(cls.connections, files // _SHARE_OF_FILES))
        return cls(connections, per_peer=min(cls.per_peer, connections))


def response(status: HTTPStatus, body: bytes | str, content_type: str = TEXT) -> bytes:
    """A complete HTTP answer as bytes."""
    content = body.encode() if isinstance(body, str) else body
    return b"".join(response_in_parts(status, [content], content_type))


def response_in_parts(status: HTTPStatus, body: Sequence[bytes], content_type: str = TEXT) -> Parts:
    """A complete HTTP answer in parts: copying a large body into one piece would delay the event loop."""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {sum(map(len, body))}\r\nConnection: close\r\n\r\n"
    )
    return (head.encode(), *body)


Parts = tuple[bytes, ...]
Route = Callable[[], bytes | Awaitable[Parts]]
"""Makes a `response`, or awaits one in parts. It runs in the event loop, so it must not block."""


@dataclass(frozen=True)
class Request:
    """path, query: as sent, quoted. fields: of the head, by lower-case name; the last value of a repeated field."""

    path: str
    query: str
    fields: Mapping[str, str]


RequestRoute = Callable[[Request], Awaitable[bytes]]
"""Makes a `response` of a request. It may wait, for as long as the budget gives it."""


class _Connection:
    __slots__ = ("is_over", "peer", "socket", "task")

    def __init__(self, peer: str, sock: socket.socket) -> None:
        self.peer, self.socket = peer, sock
        self.is_over = False
        self.task: asyncio.Task[None] | None = None


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
        budget: Budget | None = None,
        below: Mapping[str, RequestRoute] | None = None,
    ) -> None:
        self.dropped = 0
        """Number of connections closed without an answer: pushed out, too slow, or ended by the peer."""
        self._routes, self._below, self._budget = routes, below or {}, budget or Budget()
        self._socket = listening_socket(host, port)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        # Oldest first.
        self._open: dict[_Connection, None] = {}

    async def run(self) -> None:
        try:
            async for connection, peer in accepted(self._socket):
                self._admit(_Connection(peer, connection))
        finally:
            self._socket.close()
            tasks = [connection.task for connection in self._open if connection.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _admit(self, connection: _Connection) -> None:
        budget = self._budget
        chosen = gives_way(connection.peer, self._open, connections=budget.connections, per_peer=budget.per_peer)
        if chosen is not None:
            del self._open[chosen]
            assert chosen.task is not None
            chosen.task.cancel()
        self._open[connection] = None
        connection.task = asyncio.create_task(self._serve(connection))
        # Not in the task itself: a task that is cancelled before its first step does not run its `finally`.
        connection.task.add_done_callback(lambda _: self._close(connection))

    def _close(self, connection: _Connection) -> None:
        self._open.pop(connection, None)
        if not connection.is_over:
            self.dropped += 1
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.socket.close()

    async def _serve(self, connection: _Connection) -> None:
        loop, sock = asyncio.get_running_loop(), connection.socket
        try:
            async with asyncio.timeout(self._budget.head_seconds):
                head = await self._head(sock)
            if head is None:
                return
            async with asyncio.timeout(self._budget.answer_seconds):
                for part in await self._answer(head):
                    await loop.sock_sendall(sock, part)
                sock.shutdown(socket.SHUT_WR)
                # Wait until the peer has everything: unsent data of a closed connection would not count as dropped.
                while await loop.sock_recv(sock, self._budget.head_bytes):  # noqa: ASYNC110 - a pause, not a wait
                    await asyncio.sleep(_READ_PAUSE_SECONDS)
            connection.is_over = True
        except (TimeoutError, OSError):
            # The peer is slow or gone: the connection counts as dropped.
            return

    async def _head(self, sock: socket.socket) -> bytes | None:
        """The head of a request without the blank line; if it is too long, its begin; None if the peer closes first."""
        loop, limit = asyncio.get_running_loop(), self._budget.head_bytes
        data = b""
        while len(data) <= limit:
            part = await loop.sock_recv(sock, limit + 1 - len(data))
            if not part:
                return None
            data += part
            head, blank, _ = data.partition(b"\r\n\r\n")
            if blank:
                return head
            await asyncio.sleep(_READ_PAUSE_SECONDS)
        return data

    async def _answer(self, head: bytes) -> Parts:
        answer = await self._made(head)
        if not head.startswith(b"HEAD "):
            return (answer,) if isinstance(answer, bytes) else answer
        first = answer if isinstance(answer, bytes) else answer[0]
        return (first[: first.index(b"\r\n\r\n") + 4],)

    async def _made(self, head: bytes) -> bytes | Parts:
        if len(head) > self._budget.head_bytes:
            return response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too long\n")
        line, *fields = head.split(b"\r\n")
        match line.split(b" "):
            case [method, target, b"HTTP/1.0" | b"HTTP/1.1"] if target.startswith(b"/"):
                pass
            case _:
                return response(HTTPStatus.BAD_REQUEST, "this is no HTTP/1.1 request\n")
        if any(_announces_body(field) for field in fields):
            return response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request's body is not accepted\n")
        if method not in {b"GET", b"HEAD"}:
            return response(HTTPStatus.METHOD_NOT_ALLOWED, "GET alone is accepted\n")
        path, _, query = target.decode("latin-1").partition("?")
        route = self._routes.get(path)
        below = next((self._below[begin] for begin in self._below if path.startswith(begin)), None)
        try:
            if route is not None:
                made = route()
                return made if isinstance(made, bytes) else await made
            elif below is not None:
                return await below(Request(path, query, dict(map(_field, fields))))
            else:
                return response(HTTPStatus.NOT_FOUND, f"here are {', '.join((*self._routes, *self._below))}\n")
        except Exception:
            LOG.exception("%s cannot be answered", path)
            return response(HTTPStatus.INTERNAL_SERVER_ERROR, "the operator's log says why\n")


def _field(field: bytes) -> tuple[str, str]:
    name, _, value = field.decode("latin-1").partition(":")
    return name.strip().lower(), value.strip()


def _announces_body(field: bytes) -> bool:
    name, _, value = field.partition(b":")
    match name.strip().lower():
        case b"transfer-encoding":
            return True
        case b"content-length":
            return value.strip() != b"0"
    return False
