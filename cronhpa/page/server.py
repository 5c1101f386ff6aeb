"""
The page over HTTP: documents without data for everybody, data for callers that may get it.

    GET  /                                       the page itself; /assets/DIGEST/NAME its files
    GET  /api/session                            who calls, and who leads
    GET  /api/fleet?since=&instance=&scope=      every object, or those that changed
    GET  /api/objects/NAMESPACE/NAME?zone=       one object, a week back and a week ahead
    GET  /api/objects/NAMESPACE/NAME/decision?at=SECONDS&zone=
    GET  /api/calendar                           the coming edges of the fleet
    POST /api/what-if                            begin a run; GET /api/what-if/RUN asks for it

Nothing here changes anything in the cluster. A caller that may not get an object is told that it does not exist.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import HttpVersion10, HttpVersion11, web
from msgspec import Struct

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.prices import Prices
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.wall_clock import zone_problem
from cronhpa.forecasting.pool import ProcessPool
from cronhpa.history.database.address import PortableAddress, StoreAddress, portable
from cronhpa.page.assets import load_assets
from cronhpa.page.authentication import (
    Authentication,
    AuthenticationMode,
    Peer,
    certificate_names,
    is_local_host,
    is_same_origin,
)
from cronhpa.page.calendar import FleetCalendar
from cronhpa.page.fleet import FleetRows
from cronhpa.page.loop_time import SharedWork, page_share
from cronhpa.page.objects import LiveObject, Objects
from cronhpa.page.paced_tls import paced_tls
from cronhpa.page.questions import (
    DecisionQuestion,
    RerunQuestion,
    ViewQuestion,
    object_view,
    past_decision,
)
from cronhpa.page.responses import PageProtocol, add_headers, answered, malformed, refused
from cronhpa.page.rights import BusyError, Caller, NotAuthenticatedError, Rights, UnavailableError, scope_of
from cronhpa.page.what_if import RUNS_MAX, TEXT_MAX, WhatIf
from cronhpa.page.worker_pools import PageWorker
from cronhpa.ports.connections import ConnectionLimits, Connections
from cronhpa.ports.fair_places import FairPace
from cronhpa.ports.loop_share import LoopShare
from cronhpa.ports.token_bucket import Pace

LOG = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# More than a view may take whose worker has to start, if it waits for no other.
_REQUEST_SECONDS = 75.0
_BODY_MAX = 2 * TEXT_MAX
_ZONE_MAX = 64
_INSTANT_MAX = 2**63 // SECOND
_VIEWS_WAITING = 16
_VIEW_SECONDS = 30.0
_RUN_SECONDS = 300.0
_HEAD_BYTES = 16_384
_KEEPALIVE_SECONDS = 30.0
# Requests of known callers, shared out by caller, and of all others, by address: those above the pace wait.
_KNOWN = Pace(per_second=400, burst=400)
_OTHERS = Pace(per_second=200, burst=200)
# As many as one address has connections; more are those of connections that were closed.
_REQUESTS_WAITING = 64
_OBJECT = "/api/objects/{namespace:[^/]+}/{name:[^/]+}"
_BUSY = "too many requests: ask again in a second"
_NOTHING = "there is no such object, or it is not for you"
_ENCODER = msgspec.json.Encoder()


class PageSettings(Struct, frozen=True):
    host: str
    port: int
    authentication: Authentication
    store: StoreAddress
    """What the past is read from."""
    tls: ssl.SSLContext | None = None
    """None for clear text."""
    limits: ConnectionLimits = ConnectionLimits()
    prices: Prices = Prices()
    options: ControllerOptions = ControllerOptions()
    """By which the operator decides."""


class _RunText(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a POST to /api/what-if."""

    namespace: str
    name: str
    yaml: str


_RUN_TEXTS = msgspec.json.Decoder(_RunText)


class _Callers(Struct, frozen=True):
    """Callers that share turns, by number and by work."""

    pace: FairPace
    share: LoopShare
    """The CPU time of their requests in the event loop."""

    async def has_turn(self, key: str) -> bool:
        """Waits until a request may be answered. False if very many of the same account or address wait already."""
        if self.pace.waiting(key) >= _REQUESTS_WAITING:
            return False
        async with self.pace.turn(key):
            await self.share.available()
            return True


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
        # With one for both, no request would be answered for ten times as long as a calendar takes.
        for_all, for_each = page_share(), page_share()
        self._rows_work = SharedWork(self._fleet.refresh, for_all)
        self._views = PageWorker(_VIEWS_WAITING, _VIEW_SECONDS, for_each, ProcessPool(1, "cronhpa.page.object_view"))
        self._runs = PageWorker(RUNS_MAX, _RUN_SECONDS, for_each)
        self._calendar = FleetCalendar(objects, self._views, now, settings.options, for_all)
        self._what_if = WhatIf(self._runs)
        self._assets = load_assets(settings.authentication.mode)
        self._server: web.Server | None = None
        self._known = _Callers(FairPace(_KNOWN), for_each)
        self._others = _Callers(FairPace(_OTHERS), page_share())
        self._connections = Connections(settings.host, settings.port, self._protocol, settings.limits)
        self._reading = page_share()

    @property
    def address(self) -> tuple[str, int]:
        return self._connections.address

    async def run(self) -> None:
        runner = web.AppRunner(self._application())
        await runner.setup()
        self._server = runner.server
        try:
            await self._connections.run()
        finally:
            await self._rows_work.close()
            await self._calendar.close()
            await self._what_if.close()
            await self._views.close()
            await self._runs.close()
            await runner.cleanup()

    def _protocol(self) -> asyncio.BaseProtocol:
        assert self._server is not None, "connections are accepted after the setup"
        protocol = PageProtocol(
            self._server,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            # Later, the life of the connection could end during the next request.
            kept_seconds=self._settings.limits.life_seconds - _KEEPALIVE_SECONDS - _REQUEST_SECONDS,
            max_field_size=_HEAD_BYTES,
        )
        tls = self._settings.tls
        return protocol if tls is None else paced_tls(protocol, tls, self._reading)

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._guard], client_max_size=_BODY_MAX)
        application.on_response_prepare.append(add_headers)
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
        """Paces requests, and refuses foreign hosts and sites."""
        if request.version not in {HttpVersion10, HttpVersion11}:
            return malformed()
        callers, key = self._callers_of(request)
        if not await callers.has_turn(key):
            return refused(429, _BUSY, {"Retry-After": "1"})
        if self._settings.authentication.mode is AuthenticationMode.NONE and not is_local_host(
            request.headers.get("Host", "")
        ):
            return refused(421, "without authentication this page answers to 127.0.0.1 and localhost alone")
        if request.method == "POST" and not is_same_origin(request.headers):
            return refused(403, "another site may not ask")
        return await callers.share.awaited(self._answer(request, handler))

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The response of a handler, also to what it raises."""
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                return await handler(request)
        except NotAuthenticatedError:
            response = refused(401, "prove who you are: send a bearer token, or come through the proxy")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        except BusyError:
            return refused(429, _BUSY, {"Retry-After": "1"})
        except UnavailableError as error:
            return refused(503, str(error))
        except TimeoutError:
            return refused(503, f"no answer within {_REQUEST_SECONDS:g} s")
        except web.HTTPException as error:
            # Not aiohttp's own page, which repeats parts of the request.
            allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
            return refused(error.status, error.reason, allowed)
        except Exception:
            LOG.exception("the page cannot answer %s", request.path)
            return refused(500, "the operator's log says why")

    def _callers_of(self, request: web.Request) -> tuple[_Callers, str]:
        """Among whom a request has its turn, and as whose: an account, or an address."""
        peer = _peer(request)
        account = self._settings.authentication.account(request.headers, self._rights, peer)
        return (self._others, peer.address) if account is None else (self._known, account)

    async def _caller(self, request: web.Request) -> Caller:
        return await self._settings.authentication.caller(request.headers, self._rights, _peer(request))

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
        return await answered(request, self._assets.index, "text/html; charset=utf-8")

    async def _asset(self, request: web.Request) -> web.Response:
        asset = self._assets.items.get(request.match_info["name"])
        if asset is None or request.match_info["digest"] != self._assets.digest:
            raise web.HTTPNotFound(reason="there is no such file")
        answer = await answered(request, asset.body, asset.content_type)
        # Changed content has another digest, and so another address.
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return answer

    async def _session(self, request: web.Request) -> web.Response:
        caller, leader = await self._caller(request), self._objects.leader()
        session = {"user": caller.label, "leads": leader.leads, "leader": leader.holder, "now": self._now() / SECOND}
        return await answered(request, _ENCODER.encode(session))

    async def _rows(self, request: web.Request) -> web.Response:
        caller = await self._caller(request)
        scope = await scope_of(self._rights, caller, self._objects.namespaces())
        await self._rows_work.is_done()
        query = request.query
        since: int | None = _number(query.get("since"))
        if since is not None and not self._fleet.is_known(
            since, scope, query.get("instance", ""), query.get("scope", "")
        ):
            since = None
        return await answered(request, self._fleet.answer(scope, since))

    async def _view(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        _, live = await self._allowed(request, namespace, name)
        zone = _zone(request, live)
        question = ViewQuestion(
            self._store,
            namespace,
            name,
            live.zone,
            zone,
            self._now(),
            _body(live),
            self._settings.options,
            live.events,
            live.calendars,
        )
        return await answered(request, await self._views.run(object_view, question, namespace))

    async def _decision(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        at = _number(request.query.get("at"))
        if at is None:
            return refused(400, "at: a whole number of seconds since 1970 is read")
        _, live = await self._allowed(request, namespace, name)
        zone, now = _zone(request, live), self._now()
        question = DecisionQuestion(self._store, namespace, name, zone, at * SECOND, now)
        return await answered(request, await self._views.run(past_decision, question, namespace))

    async def _coming(self, request: web.Request) -> web.Response:
        caller = await self._caller(request)
        scope = await scope_of(self._rights, caller, self._objects.namespaces())
        return await answered(request, await self._calendar.answer(scope))

    async def _begin_run(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return refused(415, "application/json is read")
        caller = await self._caller(request)
        try:
            texts = _RUN_TEXTS.decode(await request.read())
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return refused(400, "namespace, name and yaml are read, all texts")
        if len(texts.yaml) > TEXT_MAX:
            return refused(413, f"at most {TEXT_MAX // 1024} KiB of YAML are read")
        _, live = await self._allowed(request, texts.namespace, texts.name)
        question = RerunQuestion(
            self._store,
            texts.namespace,
            texts.name,
            self._now(),
            _body(live),
            texts.yaml,
            self._settings.options,
            live.events,
            tuple(self._objects.calendars()),
            self._settings.prices,
        )
        run = self._what_if.begin(caller.label, question)
        return await answered(request, _ENCODER.encode({"run": run}))

    async def _ask_run(self, request: web.Request) -> web.Response:
        caller = await self._caller(request)
        answer = self._what_if.answer(caller.label, request.match_info["run"])
        if answer is None:
            raise web.HTTPNotFound(reason="there is no such run any more: another one took its place")
        return await answered(request, answer)

    @property
    def _store(self) -> PortableAddress:
        return portable(self._settings.store)


def _peer(request: web.Request) -> Peer:
    transport = request.transport
    certificate = None if transport is None else transport.get_extra_info("peercert")
    return Peer(request.remote or "", certificate_names(certificate))


def _zone(request: web.Request, live: LiveObject) -> str:
    """The time zone that the caller reads times in; that of the object where none, or an unknown one, is named."""
    zone = request.query.get("zone", "")
    return live.zone if not zone or len(zone) > _ZONE_MAX or zone_problem(zone) else zone


def _body(live: LiveObject) -> bytes:
    return _ENCODER.encode(live.body())


def _number(text: str | None) -> int | None:
    if text is None or not text.isdecimal() or not text.isascii() or len(text) > len(str(_INSTANT_MAX)):
        return None
    return min(int(text), _INSTANT_MAX)
