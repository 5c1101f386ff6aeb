"""
The page on a port of this machine, signed in: what stands between a browser and the forwarded port of the operator.

No token reaches the browser. The address that the browser opens ends in `#sign-in=CODE`, a fragment, which browsers
send to nobody. The page removes the code from the address and shows it to this proxy, which answers with a session. The
session means nothing to anybody else, and ends with this process. Requests that prove it are passed on with the token
of the operator.

A code is good once and for two minutes, as the address stands in the arguments of the browser's process and in its
history. Whoever else reads it comes too late, or signs in before the browser does, which then says that the code was
used; on Linux a process of another user is refused even then. Requests under another name than 127.0.0.1 are refused:
a website could point a name of its own here.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, web
from msgspec import Struct
from yarl import URL

from cronhpa.cli.objects.operator_port import OperatorPortError
from cronhpa.kube.errors import ClusterError
from cronhpa.page.authentication import is_same_origin

_CODE_SECONDS = 120.0
_TOKEN_SECONDS = 240.0
_REQUEST_SECONDS = 60.0
_BODY_MAX = 2**18
_BEARER = "Bearer "
# What belongs to one connection, and what this proxy sets by itself.
_OWN_REQUEST = {"authorization", "connection", "content-length", "cookie", "host", "keep-alive", "origin", "referer"}
_OWN_RESPONSE = {"connection", "content-length", "date", "keep-alive", "set-cookie", "transfer-encoding"}
# The client's side of a loopback connection, in the order of bytes of the kernel's tables.
_LOOPBACK = "0100007F"
_ROOT = 0


class _SignIn(Struct, forbid_unknown_fields=True):
    code: str


_SIGN_INS = msgspec.json.Decoder(_SignIn)


class PageProxy:
    """
    Passes requests on to a page, from `start` to `close`.

    url: of the page. token: gives a current token, again every few minutes. refused: told why a sign-in was refused.
    clock: seconds that only grow. verifies: whether the page's certificate is verified. Through kubectl's tunnel it is
    not: the API server proves which pod the tunnel leads to.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], Awaitable[str]],
        refused: Callable[[str], None],
        *,
        clock: Callable[[], float],
        port: int = 0,
        verifies: bool = False,
    ) -> None:
        self._url, self._fresh_token, self._refused, self._port, self._clock = URL(url), token, refused, port, clock
        self._verifies = verifies
        self._code, self._until = secrets.token_urlsafe(32), clock() + _CODE_SECONDS
        self._session = secrets.token_urlsafe(32)
        self._token, self._token_until = "", 0.0
        self._renewing = asyncio.Lock()
        self._client: ClientSession | None = None
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Raises OSError for a port that is taken."""
        # Answers pass as they come: compressed ones stay so.
        self._client = ClientSession(
            auto_decompress=False, cookie_jar=DummyCookieJar(), timeout=ClientTimeout(total=_REQUEST_SECONDS)
        )
        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        try:
            await site.start()
        except OSError:
            await self.close()
            raise
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._client is not None:
            await self._client.close()

    @property
    def address(self) -> str:
        """Where the page is, without the right to sign in."""
        return f"http://127.0.0.1:{self._port}/"

    @property
    def sign_in_address(self) -> str:
        """The address that signs one browser in, once."""
        return f"{self.address}#sign-in={self._code}"

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Host", "") not in {f"127.0.0.1:{self._port}", f"localhost:{self._port}"}:
            return _error(HTTPStatus.MISDIRECTED_REQUEST, "this page answers to 127.0.0.1 and localhost alone")
        if request.method not in {"GET", "POST"}:
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are passed on")
        if request.method == "POST" and not is_same_origin(request.headers):
            return _error(HTTPStatus.FORBIDDEN, "another site may not ask")
        # Part by part: one read returns what has arrived, of a long body the begin.
        parts = bytearray()
        async for part in request.content.iter_any():
            parts += part
            if len(parts) > _BODY_MAX:
                return _error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {_BODY_MAX // 1024} KiB are passed on")
        body = bytes(parts)
        if request.path == "/sign-in":
            return self._sign_in(request, body)
        target = self._target(request)
        if target is None:
            return _error(HTTPStatus.BAD_REQUEST, "only a path of the page is passed on")
        try:
            return await self._passed_on(request, target, body)
        except (ClientError, TimeoutError, OSError):
            return _error(HTTPStatus.BAD_GATEWAY, "the operator's pod does not answer through kubectl port-forward")
        except (ClusterError, OperatorPortError) as problem:
            return _error(HTTPStatus.BAD_GATEWAY, f"there is no new token: {problem}")

    def _sign_in(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """The session, for the code."""
        try:
            code = _SIGN_INS.decode(body).code
        except (msgspec.MsgspecError, UnicodeDecodeError):
            code = ""
        if request.method != "POST" or not hmac.compare_digest(code.encode(), self._code.encode()):
            return _error(HTTPStatus.FORBIDDEN, "this is no code of this page")
        user = user_of_peer(request, self._port)
        if user not in {None, _ROOT, os.getuid()}:
            self._refused(f"a process of user {user} had the code: it was refused")
            return _error(HTTPStatus.FORBIDDEN, "the code belongs to another user of this machine")
        if self._clock() >= self._until:
            self._refused("the code was shown again, or after two minutes: it was refused")
            return _error(HTTPStatus.FORBIDDEN, "the code was used already, or is too old")
        self._until = 0.0
        body = msgspec.json.encode({"token": self._session})
        return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})

    def _target(self, request: web.BaseRequest) -> URL | None:
        """What is asked of the operator; None for a path such as //elsewhere/, which names another server."""
        try:
            target = self._url.join(URL(request.raw_path, encoded=True))
            is_ours = request.raw_path.startswith("/") and target.origin() == self._url.origin()
        except ValueError:
            return None
        return target if is_ours else None

    async def _passed_on(self, request: web.BaseRequest, target: URL, body: bytes) -> web.StreamResponse:
        assert self._client is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_REQUEST}
        shown = request.headers.get("Authorization", "")
        if hmac.compare_digest(shown.encode(), f"{_BEARER}{self._session}".encode()):
            headers["Authorization"] = _BEARER + await self._current_token()
        elif shown:
            headers["Authorization"] = shown  # a token that a person pasted
        async with self._client.request(
            request.method, target, headers=headers, data=body or None, allow_redirects=False, ssl=self._verifies
        ) as answer:
            passed_headers = {
                name: value for name, value in answer.headers.items() if name.lower() not in _OWN_RESPONSE
            }
            return web.Response(status=answer.status, body=await answer.read(), headers=passed_headers)

    async def _current_token(self) -> str:
        async with self._renewing:
            if self._clock() >= self._token_until:
                self._token = await self._fresh_token()
                self._token_until = self._clock() + _TOKEN_SECONDS
            return self._token


def _error(status: HTTPStatus, why: str) -> web.Response:
    body = msgspec.json.encode({"error": why})
    return web.Response(
        status=status, body=body, content_type="application/json", headers={"Cache-Control": "no-store"}
    )


def user_of_peer(request: web.BaseRequest, port: int, table: Path = Path("/proc/net/tcp")) -> int | None:
    """The id of the user whose process sent a request over loopback; None where the system does not tell, as macOS."""
    peer: Any = request.transport and request.transport.get_extra_info("peername")
    if not peer:
        return None
    near, far = f"{_LOOPBACK}:{peer[1]:04X}", f"{_LOOPBACK}:{port:04X}"
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except (OSError, UnicodeDecodeError):
        return None
    # sl, local address, remote address, state, queues, timer, retransmits, uid, ...
    rows = (line.split() for line in lines)
    return next((int(row[7]) for row in rows if row[1:3] == [near, far]), None)
