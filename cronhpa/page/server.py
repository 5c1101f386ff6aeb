"""
The page over HTTP: documents without data for everybody, data for callers that may get it.

    GET  /                                       the page itself; /assets/DIGEST/NAME its files
    GET  /api/session                            who calls, and who leads
    GET  /api/fleet?since=&instance=&scope=      every object, or those that changed
    GET  /api/objects/NAMESPACE/NAME             one object, a week back and a week ahead
    GET  /api/objects/NAMESPACE/NAME/decision?at=SECONDS
    GET  /api/calendar                           the coming edges of the fleet
    POST /api/what-if                            begin a run; GET /api/what-if/RUN asks for it

Nothing here changes anything in the cluster. A caller that may not get an object is told that it does not exist.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.history.address import PostgresAddress, StoreAddress
from cronhpa.page.assets import load_assets
from cronhpa.page.authentication import Authentication, AuthenticationMode, is_local_host, is_same_origin
from cronhpa.page.calendar import FleetCalendar
from cronhpa.page.fleet import FleetRows, etag_of
from cronhpa.page.objects import LiveObject, Objects
from cronhpa.page.questions import (
    ENCODER,
    DecisionQuestion,
    RerunQuestion,
    ViewQuestion,
    object_view,
    past_decision,
)
from cronhpa.page.rights import BusyError, Caller, NotAuthenticatedError, Rights, UnavailableError, scope_of
from cronhpa.page.what_if import TEXT_MAX, WhatIf
from cronhpa.page.worker_pools import PageWorker
from cronhpa.ports.connections import ConnectionLimits, Connections

LOG = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_REQUEST_SECONDS = 45.0
_BODY_MAX = 2 * TEXT_MAX
_INSTANT_MAX = 2**63 // SECOND
_PACKED_FROM = 1024
_VIEWS_WAITING = 16
_VIEW_SECONDS = 30.0
_RUNS_WAITING = 8
_RUN_SECONDS = 300.0
_HEAD_BYTES = 16_384
_OBJECT = "/api/objects/{namespace:[^/]+}/{name:[^/]+}"
_NOTHING = "there is no such object, or it is not for you"
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


class PageSettings(Struct, frozen=True):
    """tls: None for clear text. store: what the past is read from."""

    host: str
    port: int
    authentication: Authentication
    store: StoreAddress
    tls: ssl.SSLContext | None = None
    limits: ConnectionLimits = ConnectionLimits()


class _RunText(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a POST to /api/what-if."""

    namespace: str
    name: str
    yaml: str


_RUN_TEXTS = msgspec.json.Decoder(_RunText)


class PageServer:
    """
    `server = PageServer(settings, objects, rights, now)` is bound; `await server.run()` serves until cancelled.

    Raises OSError if the port cannot be bound.
    """

    def __init__(
        self,
        settings: PageSettings,
        objects: Objects,
        rights: Rights,
        now: Callable[[], Nanoseconds],
    ) -> None:
        self._settings, self._objects, self._rights, self._now = settings, objects, rights, now
        self._fleet = FleetRows(objects, now)
        self._views = PageWorker(_VIEWS_WAITING, _VIEW_SECONDS)
        self._runs = PageWorker(_RUNS_WAITING, _RUN_SECONDS)
        self._calendar = FleetCalendar(objects, self._views, now)
        self._what_if = WhatIf(self._runs)
        self._assets = load_assets(settings.authentication.mode)
        self._server: web.Server | None = None
        self._connections = Connections(settings.host, settings.port, self._protocol, settings.tls, settings.limits)

    @property
    def address(self) -> tuple[str, int]:
        return self._connections.address

    async def run(self) -> None:
        runner = web.AppRunner(self._application(), access_log=None, keepalive_timeout=30.0, max_field_size=_HEAD_BYTES)
        await runner.setup()
        self._server = runner.server
        try:
            await self._connections.run()
        finally:
            await self._calendar.close()
            await self._what_if.close()
            await self._views.close()
            await self._runs.close()
            await runner.cleanup()

    def _protocol(self) -> asyncio.Protocol:
        assert self._server is not None, "connections are accepted after the setup"
        return self._server()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._guard], client_max_size=_BODY_MAX)
        application.on_response_prepare.append(_add_headers)
        application.add_routes(
            [
                web.get("/", self._index),
                web.get("/assets/{digest}/{name}", self._asset),
                web.get("/api/session", self._session),
                web.get("/api/fleet", self._rows),
                web.get(_OBJECT, self._view),
                web.get(f"{_OBJECT}/decision", self._decision),
                web.get("/api/calendar", self._coming),
                web.post("/api/what-if", self._begin_run),
                web.get("/api/what-if/{run}", self._ask_run),
            ]
        )
        return application

    # --- callers -------------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses foreign hosts and sites, and turns what a handler raises into a response."""
        if self._settings.authentication.mode is AuthenticationMode.NONE and not is_local_host(
            request.headers.get("Host", "")
        ):
            return _refused(421, "without authentication this page answers to 127.0.0.1 and localhost alone")
        if request.method == "POST" and not is_same_origin(request.headers):
            return _refused(403, "another site may not ask")
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                return await handler(request)
        except NotAuthenticatedError:
            refused = _refused(401, "prove who you are: send a bearer token, or come through the proxy")
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        except BusyError:
            return _refused(429, "too many are asking: ask again in a second", {"Retry-After": "1"})
        except UnavailableError as error:
            return _refused(503, str(error))
        except TimeoutError:
            return _refused(503, f"no answer within {_REQUEST_SECONDS:g} s")
        except web.HTTPException as error:
            # Not aiohttp's own page, which repeats parts of the request.
            allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
            return _refused(error.status, error.reason, allowed)
        except Exception:
            LOG.exception("the page cannot answer %s", request.path)
            return _refused(500, "the operator's log says why")

    async def _caller(self, request: web.Request) -> Caller:
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        return await self._settings.authentication.caller(
            request.headers, self._rights, has_certificate=bool(certificate)
        )

    async def _allowed(self, request: web.Request, namespace: str, name: str) -> tuple[Caller, LiveObject]:
        """The caller and the object. Raises HTTPNotFound if there is no such object, or the caller may not get it."""
        caller = await self._caller(request)
        live = self._objects.get(namespace, name)
        # The same time and the same answer in both cases: the caller must not even learn that the object exists.
        if not await self._rights.may_get(caller, namespace, name) or live is None:
            raise web.HTTPNotFound(reason=_NOTHING)
        return caller, live

    # --- answers -------------------------------------------------------------------------------------------------

    async def _index(self, request: web.Request) -> web.Response:
        return await _answered(request, self._assets.index, "text/html; charset=utf-8")

    async def _asset(self, request: web.Request) -> web.Response:
        asset = self._assets.items.get(request.match_info["name"])
        if asset is None or request.match_info["digest"] != self._assets.digest:
            raise web.HTTPNotFound(reason="there is no such file")
        answer = await _answered(request, asset.body, asset.content_type)
        # Changed content has another digest, and so another address.
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return answer

    async def _session(self, request: web.Request) -> web.Response:
        caller, leader = await self._caller(request), self._objects.leader()
        session = {"user": caller.label, "leads": leader.leads, "leader": leader.holder, "now": self._now() / SECOND}
        return await _answered(request, _ENCODER.encode(session))

    async def _rows(self, request: web.Request) -> web.Response:
        caller = await self._caller(request)
        scope = await scope_of(self._rights, caller, self._objects.namespaces())
        await self._fleet.refresh()
        query = request.query
        since: int | None = _number(query.get("since"))
        if since is not None and not self._fleet.is_known(
            since, scope, query.get("instance", ""), query.get("scope", "")
        ):
            since = None
        return await _answered(request, self._fleet.answer(scope, since))

    async def _view(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        _, live = await self._allowed(request, namespace, name)
        question = ViewQuestion(self._store, namespace, name, live.zone, self._now(), _body(live))
        return await _answered(request, await self._views.run(object_view, ENCODER.encode(question)))

    async def _decision(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        at = _number(request.query.get("at"))
        if at is None:
            return _refused(400, "at: a whole number of seconds since 1970 is read")
        await self._allowed(request, namespace, name)
        question = DecisionQuestion(self._store, namespace, name, at * SECOND)
        return await _answered(request, await self._views.run(past_decision, ENCODER.encode(question)))

    async def _coming(self, request: web.Request) -> web.Response:
        caller = await self._caller(request)
        scope = await scope_of(self._rights, caller, self._objects.namespaces())
        return await _answered(request, await self._calendar.answer(scope))

    async def _begin_run(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return _refused(415, "application/json is read")
        caller = await self._caller(request)
        try:
            asked = _RUN_TEXTS.decode(await request.read())
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return _refused(400, "namespace, name and yaml are read, all texts")
        if len(asked.yaml) > TEXT_MAX:
            return _refused(413, f"at most {TEXT_MAX // 1024} KiB of YAML are read")
        _, live = await self._allowed(request, asked.namespace, asked.name)
        question = RerunQuestion(self._store, asked.namespace, asked.name, self._now(), _body(live), asked.yaml)
        run = self._what_if.begin(caller.label, question)
        return await _answered(request, _ENCODER.encode({"run": run}))

    async def _ask_run(self, request: web.Request) -> web.Response:
        caller = await self._caller(request)
        answer = self._what_if.answer(caller.label, request.match_info["run"])
        if answer is None:
            raise web.HTTPNotFound(reason="there is no such run any more")
        return await _answered(request, answer)

    @property
    def _store(self) -> str | PostgresAddress:
        store = self._settings.store
        return store if isinstance(store, PostgresAddress) else str(store)


def _body(live: LiveObject) -> bytes:
    return _ENCODER.encode(live.body())


def _number(text: str | None) -> int | None:
    if text is None or not text.isdecimal() or not text.isascii() or len(text) > len(str(_INSTANT_MAX)):
        return None
    return min(int(text), _INSTANT_MAX)


async def _answered(request: web.Request, body: bytes, content_type: str = "application/json") -> web.Response:
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


def _refused(status: int, why: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=_ENCODER.encode({"error": why}),
        headers={"Content-Type": "application/json", "Cache-Control": "no-store", **(headers or {})},
    )


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    headers: dict[str, Any] = _HEADERS
    for name, value in headers.items():
        response.headers[name] = value
    # Data is for the browser that asked, not for caches between.
    if "Cache-Control" not in response.headers:
        response.headers["Cache-Control"] = "no-store"
