"""Responses of the page, and the headers that each of them has: those of its routes, and those of a broken request."""

from __future__ import annotations

import asyncio
import gzip
import logging
from http import HTTPStatus
from typing import Any, cast

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from cronhpa.page.fleet import etag_of
from cronhpa.page.paced_tls import PIECE_BYTES

LOG = logging.getLogger(__name__)

_PACKED_FROM = 1024
_ENCODER = msgspec.json.Encoder()

# Everything comes from this server; nothing is inline or evaluated; no site frames the page; no text becomes HTML.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "Server": "cronhpa",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


async def answered(request: web.Request, body: bytes, content_type: str = "application/json") -> web.Response:
    """An answer with an ETag, so that a browser gets it again only if it changed; a long one is compressed."""
    tag = etag_of(body)
    headers = {
        "Cache-Control": "private, no-cache",
        "Content-Type": content_type,
        "ETag": tag,
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers=headers)
    if len(body) >= _PACKED_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        body = await asyncio.to_thread(gzip.compress, body, 1)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


def refused(status: int, why: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=_ENCODER.encode({"error": why}),
        headers={"Content-Type": "application/json", "Cache-Control": "no-store", **(headers or {})},
    )


def malformed() -> web.Response:
    """Ends the connection: where the next request begins is not known."""
    return _last(refused(HTTPStatus.BAD_REQUEST, "this is no HTTP/1.1 request"))


def _last(response: web.Response) -> web.Response:
    response.headers.update(_HEADERS)
    response.force_close()
    return response


class PageProtocol(RequestHandler):
    """
    A connection. What aiohttp answers by itself, without the application, is answered in the page's own words: its
    answers repeat parts of the request, and so does its log, also of a line with a token.

    kept_seconds: from its beginning; an answer after them is its last.
    """

    __slots__ = ("_kept_until",)

    def __init__(
        self, server: web.Server, *, loop: asyncio.AbstractEventLoop, kept_seconds: float, **options: Any
    ) -> None:
        super().__init__(server, loop=loop, **options)
        self._kept_until = loop.time() + kept_seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if transport.get_extra_info("sslcontext") is not None:
            # What arrives while nobody reads the body of a request is decrypted in one callback afterwards.
            cast("Any", transport).set_read_buffer_limits(PIECE_BYTES)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        del message
        if request.writer.output_size:
            raise ConnectionError("the answer has begun")
        if status == HTTPStatus.BAD_REQUEST:
            return malformed()
        LOG.error("the page cannot answer", exc_info=exc)
        return _last(refused(status, "the operator's log says why"))

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        # Of what is raised outside the guard, such as for an unknown Expect header.
        if isinstance(resp, web.HTTPException):
            resp = refused(resp.status, resp.reason)
        if asyncio.get_running_loop().time() >= self._kept_until:
            resp.force_close()
        return await super().finish_response(request, resp, start_time)


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    headers: dict[str, Any] = _HEADERS
    for name, value in headers.items():
        response.headers[name] = value
    # Data is for the browser that asked, not for caches between.
    if "Cache-Control" not in response.headers:
        response.headers["Cache-Control"] = "no-store"
