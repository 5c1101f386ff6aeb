"""
Requests to sources: TLS, login, deadline, size. No redirect is followed, no cookie is kept.

An error's text fits into a condition: it is the same each time, and names no address that the operator uses.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from cronhpa.core.printable import without_secrets, without_url_secrets
from cronhpa.sources.definition import PrometheusSource, UrlSource
from cronhpa.sources.no_answer import BROKEN, FILE_UNREADABLE, UNTRUSTED, NoAnswerError, no_answer_within, unreachable
from cronhpa.sources.tls import client_context

# Logins are rotated files; they are read again this often.
_LOGIN_SECONDS = 5.0
_AGENT = "cronhpa"
_READ_BYTES = 2**16
# Connections are kept for a period of some seconds.
_IDLE_SECONDS = 5.0


class SourceConnection:
    """
    The connections of one source, opened by its first request.

    connections_max: at once; 0 is no limit.
    """

    def __init__(self, definition: PrometheusSource | UrlSource, *, connections_max: int) -> None:
        self._definition = definition
        self._connections_max = connections_max
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
                if self._is_closed:
                    # The request waited for its turn, and the file of sources was replaced twice meanwhile.
                    raise NoAnswerError("Replaced", "the operator's file of sources was replaced meanwhile")
                session = self._session or await self._open()
                sent = {**headers, **await self._stated_headers()}
                async with session.request(
                    method, url, data=form, headers=sent, allow_redirects=False, server_hostname=definition.server_name
                ) as response:
                    async for part in response.content.iter_any():
                        take(part)
                    return response
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _no_answer(error, definition.timeout_seconds) from None

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

    async def _open(self) -> aiohttp.ClientSession:
        context = await asyncio.to_thread(_tls, self._definition)
        if self._session is None:  # else another request opened it meanwhile
            connector = aiohttp.TCPConnector(
                limit=self._connections_max, ssl=context, keepalive_timeout=_IDLE_SECONDS, ttl_dns_cache=10
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


def _tls(definition: PrometheusSource | UrlSource) -> ssl.SSLContext | bool:
    """Raises OSError, of which SSLError is one, for files that cannot be used."""
    if not definition.files:
        return True
    return client_context(definition.ca_file, definition.cert_file, definition.key_file)


def _login(definition: PrometheusSource | UrlSource) -> tuple[dict[str, str], tuple[str, ...]]:
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
    text = path.read_text().strip()
    if not text.isprintable():
        raise ValueError(f"{path} holds more than one line")
    return text


def _no_answer(error: Exception, seconds: float) -> NoAnswerError:
    cause = without_url_secrets(str(error)) or type(error).__name__
    if isinstance(error, TimeoutError):
        return NoAnswerError("Timeout", no_answer_within(seconds), cause)
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return NoAnswerError("Untrusted", UNTRUSTED, cause)
    if isinstance(error, aiohttp.ClientConnectorError):
        # asyncio's own words hold the address; numbers below 0 are those of the resolver.
        number = error.os_error.errno or 0
        said = os.strerror(number) if number > 0 else "its name has no address"
        return NoAnswerError("Unreachable", unreachable(said), cause)
    if isinstance(error, aiohttp.ClientError):
        return NoAnswerError("Unreachable", BROKEN, cause)
    return NoAnswerError("Misconfigured", FILE_UNREADABLE, cause)
