"""
Sources that ask one server: what all of them state, their connections, and the requests that objects share.

Requests: TLS, login, deadline, size. No redirect is followed, no cookie is kept. An error's text fits into a condition:
it is the same each time, and names no address that the operator uses.

Objects of one namespace share answers, and namespaces share connections. The deadline of a request begins when it has a
connection, so that requests whose answers hang take no time of others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, Self, TypeVar

import aiohttp
from pydantic import AfterValidator, Field, model_validator
from yarl import URL

from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.printable import secret_of, without_secrets
from cronhpa.ports.client_errors import error_text
from cronhpa.ports.fair_places import FairPlaces
from cronhpa.ports.loop_share import LOOP_SHARE, LoopShare
from cronhpa.sources.no_answer import BROKEN, FILE_UNREADABLE, UNTRUSTED, NoAnswerError, no_answer_within, unreachable
from cronhpa.sources.paced_connector import PacedConnector
from cronhpa.sources.shared import SharedAnswers
from cronhpa.sources.source import MeasuredObject, TlsDefinition, TlsFields, differs_by_object
from cronhpa.sources.tls import client_context

LOG = logging.getLogger(__name__)

T = TypeVar("T")

# Connections to the server of one source, and how many of them one namespace may have.
REQUESTS_AT_ONCE = 32
_OF_ONE_NAMESPACE = REQUESTS_AT_ONCE * 3 // 4
# The part of its deadline after which an answer is slow.
_SLOW_SHARE = 1 / 5
# A Prometheus may refuse each query in other words.
_TROUBLES_MAX = 10
# Logins are rotated files; they are read again this often.
_LOGIN_SECONDS = 5.0
TOO_COSTLY = f"to parse its answers takes more than {LOOP_SHARE:.0%} of a CPU: shorten them, or ask less often"
_AGENT = "cronhpa"
_READ_BYTES = 2**16
# Connections are kept for a period of some seconds.
_IDLE_SECONDS = 5.0
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]{0,4096}")
# The operator states these itself.
_OWN_HEADERS = {"authorization", "connection", "content-length", "content-type", "cookie", "host", "transfer-encoding"}


def _as_headers(headers: dict[str, Any]) -> dict[str, Any]:
    for name, value in headers.items():
        # Of a file only the name is known here.
        if not _HEADER_NAME.fullmatch(name) or not (isinstance(value, Path) or _HEADER_VALUE.fullmatch(value)):
            raise ValueError(f"{name!r} is no header of one line")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(
                f"{name} is the operator's own to state: tokenFile, username and passwordFile are for logins"
            )
    return headers


class ServerFields(TlsFields):
    """The operator's login at a server, its headers and its deadline."""

    timeout_seconds: float = Field(5, gt=0, le=30, description="a number of seconds, more than 0, at most 30")
    token_file: Path | None = Field(None, description="a file with a bearer token")
    username: str | None = Field(None, pattern=r"^[^:\x00-\x1f\x7f]+$", description="a user name without a colon")
    password_file: Path | None = Field(None, description="a file with the password of username")
    headers: Annotated[dict[str, str], AfterValidator(_as_headers)] = Field(
        {}, description="further headers, such as X-Scope-OrgID: shop"
    )
    header_files: Annotated[dict[str, Path], AfterValidator(_as_headers)] = Field(
        {}, description="further headers that are secret, each with the file of its value, such as X-API-KEY: /FILE"
    )

    @model_validator(mode="after")
    def _has_one_login(self) -> Self:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and passwordFile go together: name both or none")
        if self.username is not None and self.token_file is not None:
            raise ValueError("it has two logins: name tokenFile, or username and passwordFile")
        if twice := {name.lower() for name in self.headers} & {name.lower() for name in self.header_files}:
            raise ValueError(f"{min(twice)} stands in headers and in headerFiles: name it once")
        return self


class ServerDefinition(ServerFields, TlsDefinition):
    """A source that asks a server."""

    max_age_seconds: int = Field(120, ge=1, le=3600, description="a whole number of seconds from 1 to 3600")


def _now() -> float:
    return asyncio.get_running_loop().time()


class SourceConnection:
    """
    The connections of one source, opened by its first request.

    connections_max: at once; 0 is no limit.
    """

    def __init__(self, definition: ServerFields, *, connections_max: int) -> None:
        self._definition = definition
        self._connections_max = connections_max
        self._share = LoopShare(_now)
        # Long answers are parsed in threads, one at a time: JSON's parser keeps the interpreter to itself.
        self._parsing = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._login: dict[str, str] = {}
        self._secrets: tuple[str, ...] = ()
        self._login_at: float | None = None

    async def close(self) -> None:
        """Ends all requests; later ones get no answer."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def send(
        self, method: str, url: URL, take: Callable[[bytes], None], *, headers: Mapping[str, str], form: Any = None
    ) -> aiohttp.ClientResponse:
        """
        The response, after `take` got its unpacked body part by part; of an error or a redirect too.

        Raises NoAnswerError, also for what `take` raises as such.
        """
        definition = self._definition
        try:
            async with asyncio.timeout(definition.timeout_seconds):
                self._check_open()
                session = self._session or await self._open()
                self._share.add_request()
                sent = {**headers, **await self._stated_headers()}
                self._check_open()
                async with session.request(
                    method, url, data=form, headers=sent, allow_redirects=False, server_hostname=definition.server_name
                ) as response:
                    while part := await self._share.awaited(response.content.readany()):
                        take(part)
                    return response
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _no_answer(error, definition.timeout_seconds, self._secrets) from None

    async def read(
        self, method: str, url: URL, *, bytes_max: int, headers: Mapping[str, str], form: Any = None
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """
        The response and its body, without the login that was sent: words of it may stand in conditions, which tenants
        read. Raises NoAnswerError as `send` does, and for a body of more than bytes_max.
        """
        body = bytearray()

        def take(part: bytes) -> None:
            body.extend(part)
            if len(body) > bytes_max:
                raise NoAnswerError("TooLarge", f"its answer is longer than {bytes_max} bytes")

        response = await self.send(method, url, take, headers=headers, form=form)
        return response, without_secrets(bytes(body), self._secrets)

    async def parsed(self, parse: Callable[[], T], *, is_short: bool) -> T:
        """What `parse` makes of an answer, within the server's share. Raises NoAnswerError, as it does."""

        if is_short:
            return self._share.called(parse)
        try:
            async with asyncio.timeout(self._definition.timeout_seconds):
                async with self._parsing:
                    await asyncio.sleep(self._share.seconds_to_wait())
                    return await self._share.in_thread(parse)
        except TimeoutError:
            raise NoAnswerError("TooCostly", TOO_COSTLY) from None

    def _check_open(self) -> None:
        """The file of sources may be replaced while a request waits for its turn, or for its files to be read."""
        if self._is_closed:
            raise NoAnswerError("Replaced", "the operator's file of sources was replaced meanwhile")

    async def _open(self) -> aiohttp.ClientSession:
        context = await asyncio.to_thread(_tls, self._definition)
        self._check_open()
        if self._session is None:  # else another request opened it meanwhile
            connector = PacedConnector(
                self._share, limit=self._connections_max, ssl=context, keepalive_timeout=_IDLE_SECONDS, ttl_dns_cache=10
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": _AGENT, "Accept-Encoding": "gzip"},
                read_bufsize=_READ_BYTES,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    async def _stated_headers(self) -> dict[str, str]:
        """The headers that the definition states, with its login."""
        definition = self._definition
        now = asyncio.get_running_loop().time()
        if self._login_at is None or now - self._login_at > _LOGIN_SECONDS:
            self._login, self._secrets = await asyncio.to_thread(_login, definition)
            self._login_at = now
        return {**definition.headers, **self._login}


def _tls(definition: ServerFields) -> ssl.SSLContext | bool:
    """Raises OSError, of which SSLError is one, for files that cannot be used."""
    if not definition.tls_files:
        return True
    return client_context(definition.ca_file, definition.cert_file, definition.key_file)


def _login(definition: ServerFields) -> tuple[dict[str, str], tuple[str, ...]]:
    """The secret headers, and the secret texts in them."""
    secret = {name: _read(path) for name, path in definition.header_files.items()}
    texts = tuple(secret.values())
    if definition.token_file is not None:
        token = _read(definition.token_file)
        return {**secret, "Authorization": f"Bearer {token}"}, (*texts, token)
    if definition.password_file is not None:
        password = _read(definition.password_file)
        pair = b64encode(f"{definition.username}:{password}".encode()).decode()
        return {**secret, "Authorization": f"Basic {pair}"}, (*texts, pair, password)
    return secret, texts


def _read(path: Path) -> str:
    return secret_of(path.read_text(), path)


def _no_answer(error: Exception, seconds: float, secrets: tuple[str, ...]) -> NoAnswerError:
    cause = error_text(error, secrets)
    if isinstance(error, TimeoutError):
        return NoAnswerError("Timeout", no_answer_within(seconds), cause)
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return NoAnswerError("Untrusted", UNTRUSTED, cause)
    if isinstance(error, aiohttp.ClientConnectorError):
        # asyncio's own words hold the address; numbers below 0 are those of the resolver.
        number = error.os_error.errno or 0
        reason = os.strerror(number) if number > 0 else "its name has no address"
        return NoAnswerError("Unreachable", unreachable(reason), cause)
    if isinstance(error, aiohttp.ClientError):
        return NoAnswerError("Unreachable", BROKEN, cause)
    return NoAnswerError("Misconfigured", FILE_UNREADABLE, cause)


class SharedRequests(Generic[T]):
    """host: names the server in the log where an error has no text. sent: the number of requests."""

    def __init__(self, source: str, host: str, timeout_seconds: float) -> None:
        self.sent = 0
        self._source, self._host = source, host
        self._timeout_seconds = timeout_seconds
        self._answers: SharedAnswers[T | NoAnswerError] = SharedAnswers(lambda: asyncio.get_running_loop().time())
        self._places = FairPlaces(REQUESTS_AT_ONCE, _OF_ONE_NAMESPACE, timeout_seconds * _SLOW_SHARE)
        # The first messages of errors since the last answer, so that each problem is logged once.
        self._troubles: set[str] = set()

    async def ask(
        self, question: Hashable, measured: MeasuredObject, account: str, send: Callable[[], Awaitable[T]]
    ) -> T | NoAnswerError:
        """
        The answer to a question, shared or from `send`; a NoAnswerError is returned.

        account: among which the connections are shared out.
        """
        asker = (measured.namespace, measured.name)
        return await self._answers.ask(question, asker, measured.period / SECOND, lambda: self._logged(account, send))

    async def _logged(self, account: str, send: Callable[[], Awaitable[T]]) -> T | NoAnswerError:
        try:
            answer = await self._connected(account, send)
        except NoAnswerError as error:
            if error.message not in self._troubles and len(self._troubles) < _TROUBLES_MAX:
                LOG.warning("source %s: %s (%s)", self._source, error.message, error.cause or self._host)
                self._troubles.add(error.message)
            return error
        if self._troubles:
            LOG.info("source %s answers again", self._source)
        self._troubles.clear()
        return answer

    async def _connected(self, account: str, send: Callable[[], Awaitable[T]]) -> T:
        """The answer, sent once there is a connection. Raises NoAnswerError, which `send` raises for its deadline."""
        try:
            async with self._places.place(account, self._timeout_seconds):
                self.sent += 1
                return await send()
        except TimeoutError:
            problem = f"none of its connections was free within {self._timeout_seconds:g} s"
            raise NoAnswerError("NoConnection", problem) from None


class ServerSource(Generic[T]):
    """A source that asks one server, with requests that objects share."""

    def __init__(self, name: str, definition: ServerDefinition, host: str, placeholders: Collection[str]) -> None:
        """host: names the server in the log. placeholders: those of the query or the URL."""
        self._connection = SourceConnection(definition, connections_max=REQUESTS_AT_ONCE)
        self._requests: SharedRequests[T] = SharedRequests(name, host, definition.timeout_seconds)
        self._is_of_object = differs_by_object(placeholders)

    @property
    def requests(self) -> int:
        """How many were sent."""
        return self._requests.sent

    async def ask(self, question: str, measured: MeasuredObject, send: Callable[[], Awaitable[T]]) -> T | NoAnswerError:
        """The answer to a question, by one of the connections of the object's namespace."""
        # Namespaces share the one question of all objects alone. Another one, as a request of the namespace that asks
        # it first, would wait behind the others of that namespace.
        account = measured.namespace if self._is_of_object else ""
        return await self._requests.ask((account, question), measured, account, send)

    async def close(self) -> None:
        await self._connection.close()
